"""What a program costs, in nanoseconds: operations, bytes that must move, and launches.

A model, made to choose between programs: element-by-element work is taken to be fused with what it meets, so it
costs operations only; products, convolutions and reductions read and write memory and are launches of their own.
Rates are round numbers of the kind of device; measured times, not this model, decide what is reported.
"""

from __future__ import annotations

from math import prod

from kernelwright.graph import ResultSpec
from kernelwright.rewrites.egraph import EGraph, ENode, Id
from kernelwright.types import Target, value

ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
FREE = frozenset(
    """input constant view permute unsqueeze squeeze expand transpose t slice select split split_with_sizes
    unbind alias detach full arange scalar_tensor _unsafe_view""".split()  # noqa: SIM905  (a list of words)
)
REDUCTIONS = frozenset(
    """sum mean amax amin max min prod var var_mean std any all argmax argmin _softmax _log_softmax
    native_layer_norm native_group_norm linalg_vector_norm cumsum cumprod _native_batch_norm_legit
    avg_pool2d max_pool2d_with_indices sort topk cat logsumexp""".split()  # noqa: SIM905  (a list of words)
)
FUNCTIONS = frozenset(
    """exp log tanh sigmoid gelu silu erf pow softplus elu sin cos log1p expm1 atan2 sqrt rsqrt div mish""".split()  # noqa: SIM905  (a list of words)
)
"""What takes some twenty operations for each element, or as long."""


@value
class Rates:
    """How fast a target is, roughly."""

    bytes_per_ns: float
    flops_per_ns: float
    """Of products; work on single elements gets a quarter of it."""
    launch_ns: float


def rates_of(target: Target) -> Rates:
    """Returns a target's rates: a core's share of AVX-512 or AVX2 multiply-adds, or a large GPU's."""
    if target.kind == "cuda":
        return Rates(bytes_per_ns=3000.0, flops_per_ns=50_000.0, launch_ns=3000.0)
    lanes = 2 if "avx512f" in target.features else 1
    return Rates(
        bytes_per_ns=6.0 * min(target.threads, 16), flops_per_ns=40.0 * lanes * target.threads, launch_ns=2000.0
    )


def bytes_of(spec: ResultSpec) -> int:
    """Returns the size of a value."""
    return prod(spec.shape) * ITEM_BYTES.get(spec.dtype, 1)


def node_ns(graph: EGraph, node: ENode, item: Id, rates: Rates) -> float:
    """Returns what one call costs beside its operands."""
    base, spec = node.base, graph.spec(item)
    if base in FREE:
        # A permutation costs nothing by itself, but a reader of one strides through memory.
        return {"permute": 5.0, "transpose": 5.0, "t": 5.0, "input": 0.0, "constant": 0.0}.get(base, 1.0)
    operands = [graph.spec(i) for i in node.operands()]
    moved = bytes_of(spec) + sum(bytes_of(s) for s in operands)
    if base in ("mm", "bmm", "addmm", "baddbmm"):
        inner = operands[-1].shape[-2]
        return max(2.0 * prod(spec.shape) * inner / rates.flops_per_ns, moved / rates.bytes_per_ns) + rates.launch_ns
    if base == "convolution":
        window = prod(operands[1].shape[1:])
        spread = prod(operands[0].shape if node.argument("transposed") else spec.shape)
        return max(2.0 * spread * window / rates.flops_per_ns, moved / rates.bytes_per_ns) + rates.launch_ns
    if base in REDUCTIONS:
        read = sum(bytes_of(s) for s in operands)
        return read / rates.bytes_per_ns + rates.launch_ns
    work = prod(spec.shape) * (20.0 if base in FUNCTIONS else 1.0)
    # A little of the bytes, so that the shorter of two programs wins where nothing else differs.
    return 4.0 * work / rates.flops_per_ns + 0.05 * bytes_of(spec) / rates.bytes_per_ns + 0.1
