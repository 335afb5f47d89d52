"""Expert for attention on a GPU: the score block softmax(q k^T with scale and mask), alone or times v.

Covers: what the CPU's expert recognises (experts/attention.py), in float32, float16 and bfloat16 with sums in float32,
heads of up to 256 elements; CUDA C++ by mma.sync and Triton by dot, both with an online softmax. float32 is multiplied
in split precision (three TF32 products) or by fused multiply-adds, never in plain TF32. Where a causal mask hides
whole tiles these are left out, unless an infinity or NaN in what they hold would show.
Does not cover: dropout, q, k and v of several dtypes, what the recogniser refuses by name.
"""

from __future__ import annotations

from functools import partial

from kernelwright.experts.attention import recognised
from kernelwright.experts.attention_code import Attention
from kernelwright.experts.gpu import attention_cuda, attention_triton
from kernelwright.experts.gpu.tile_candidate import missing
from kernelwright.experts.protocol import Answer
from kernelwright.experts.views import Wiring
from kernelwright.graph import Graph
from kernelwright.types import Problem, Refusal, Target, Template

FLOATS = ("float32", "float16", "bfloat16")
LONGEST = 256
"""Elements of a head: what registers hold."""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns templates in CUDA C++ and Triton for a graph with one softmax over a matrix product."""
    del target
    work = recognised(Wiring(problem, graph, FLOATS))
    if not isinstance(work, Attention):
        return work
    dtypes = {spec.dtype for spec in problem.arguments if spec.name in bases(work)}
    if len(dtypes) > 1:
        return Refusal(subject="attention", reason=f"q, k and v of {', '.join(sorted(dtypes))}")
    if max(work.depth, work.width) > LONGEST:
        return Refusal(subject="attention", reason=f"heads of more than {LONGEST} elements")
    (dtype,) = dtypes
    found = [
        Template(
            name="cuda-attention",
            space=attention_cuda.space_of(work, dtype),
            emit=partial(attention_cuda.emit, problem, work, dtype),
        )
    ]
    if missing("triton") is None:
        space, emit = attention_triton.space_of(work, dtype), partial(attention_triton.emit, problem, work, dtype)
        found.append(Template(name="triton-attention", space=space, emit=emit))
    return tuple(found)


def bases(work: Attention) -> tuple[str, ...]:
    """Returns the names of q, k and v, each once."""
    return tuple(dict.fromkeys(view.base for view in (work.q, work.k, work.v) if view is not None))
