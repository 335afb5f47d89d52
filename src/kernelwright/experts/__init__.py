"""Experts: from an operator graph to families of fast candidates: C++ for the CPU, CUDA C++,
Triton and cuTile for a GPU.

`templates` asks every expert of the target's table below. Each is a module with a function `propose(problem, graph,
target)`, as `protocol.Expert` describes. Not here: judging, timing and searching.
"""

from __future__ import annotations

from importlib import import_module

from kernelwright.experts.protocol import Expert, Proposals
from kernelwright.graph import Graph
from kernelwright.types import Problem, Refusal, Target, Template

EXPERTS = {
    "cpu": ("loops", "window", "attention", "topk", "bag", "program"),
    "cuda": (
        "gpu.cuda",
        "gpu.triton",
        "gpu.cutile",
        "gpu.attention",
        "gpu.window",
        "gpu.topk",
        "gpu.bag",
        "gpu.recurrence",
        "gpu.fft",
        "gpu.program",
    ),
}
"""Modules of this package by the target's kind, in the order in which they are asked."""
MOST_NODES = 400
"""Operators of the largest graph that is tried in one piece: the loop expert's time grows with the cube of it (160
layer norms of 4 operators took 9.5 s in 2026)."""
MOST_CUT_NODES = 2000
"""The same for experts that cut graphs into steps."""
CUTTING = ("gpu.program",)


def templates(problem: Problem, graph: Graph, *, target: Target) -> Proposals:
    """Returns every expert's templates for a graph, and what was refused, by operator name."""
    if problem.axes:
        sizes = ", ".join(axis.name for axis in problem.axes)
        reason = f"experts write kernels for fixed sizes, and {sizes} may vary; `kernelwright judge` takes your own"
        return Proposals(templates=(), refusals=(Refusal(subject=problem.name, reason=reason),))
    asked = [name for name in EXPERTS[target.kind] if len(graph.nodes) <= limit_of(name)]
    if not asked:
        most = max(map(limit_of, EXPERTS[target.kind]))
        reason = f"no expert takes a graph of {len(graph.nodes)} operators; {most} is the most"
        return Proposals(templates=(), refusals=(Refusal(subject=problem.name, reason=f"{reason}; give it in parts"),))
    found: list[Template] = []
    refused: dict[str, Refusal] = {}
    for name in asked:
        expert: Expert = import_module(f"{__name__}.{name}")
        answer = expert.propose(problem, graph, target)
        if isinstance(answer, Refusal):
            # The general expert, which is asked first, only misses a reader; a special one knows what is in the way.
            refused[answer.subject] = answer
        elif isinstance(answer, Template):
            found.append(answer)
        elif answer is not None:
            found.extend(answer)
    if found:
        # A refusal of one expert is news only where no other could do the whole graph.
        return Proposals(templates=tuple(found), refusals=())
    return Proposals(templates=(), refusals=tuple(refused.values()))


def limit_of(name: str) -> int:
    """Returns the operators of the largest graph that an expert is asked about."""
    return MOST_CUT_NODES if name in CUTTING else MOST_NODES
