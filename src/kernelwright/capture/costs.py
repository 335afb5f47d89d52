"""Floating-point operations and least memory traffic of one call, counted from its graph.

Covers: pointwise operators (one operation an element, a transcendental function too), reductions,
scans, softmax and normalisations, pooling, and products and convolutions (two for a multiply-add).
Does not cover: operators without an entry here; the whole count is then absent rather than low.
No torch here: the same graph gives the same counts anywhere.
"""

from __future__ import annotations

from math import prod

from kernelwright.graph import Graph, Node, Ref, ResultSpec
from kernelwright.types import Problem, TensorSpec

ITEM_BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
FREE = frozenset(
    """view expand permute unsqueeze squeeze slice select split_with_sizes split cat as_strided clone _to_copy full
    full_like arange scalar_tensor empty constant_pad_nd gather index index_select embedding repeat flip
    diagonal scatter select_scatter slice_scatter topk sort argmax argmin any where eq ne lt le gt ge logical_and
    logical_or logical_not logical_xor bitwise_not bitwise_and bitwise_or isnan isinf alias detach lift_fresh_copy
    reflection_pad2d replication_pad2d upsample_nearest2d masked_fill max_pool2d_with_indices zeros ones""".split()  # noqa: SIM905  (a list of words)
)
"""These move, choose or compare; none of them is counted as arithmetic."""
POINTWISE = frozenset(
    """add sub rsub mul div neg abs exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal pow tanh sigmoid relu gelu
    erf sin cos tan sinh cosh asin acos atan atan2 floor ceil round trunc sign clamp clamp_min clamp_max minimum maximum
    leaky_relu hardtanh elu fmod remainder lerp square silu hardswish hardsigmoid softplus""".split()  # noqa: SIM905  (a list of words)
)
PER_INPUT = {
    "sum": 1,
    "mean": 1,
    "prod": 1,
    "amax": 1,
    "amin": 1,
    "max": 1,
    "min": 1,
    "var": 3,
    "var_mean": 3,
    "linalg_vector_norm": 2,
    "cumsum": 1,
    "cumprod": 1,
    "_softmax": 4,
    "_log_softmax": 4,
    "native_layer_norm": 7,
    "native_group_norm": 7,
    "_native_batch_norm_legit_no_training": 4,
    "_adaptive_avg_pool2d": 1,
}
"""Operations for each element of the first argument."""
GATHERS = frozenset({"embedding", "_embedding_bag", "index", "index_select", "gather", "slice", "select"})
"""Operators that may leave most of their source unread."""


def count_flops(problem: Problem, graph: Graph) -> int | None:
    """Returns the floating-point operations of one call, None where an operator has no count."""
    specs = _specs(problem, graph)
    total = 0
    for node in graph.nodes:
        count = _node_flops(node, specs)
        if count is None:
            return None
        total += count
    return total


def least_bytes(problem: Problem, graph: Graph | None) -> int:
    """Returns the fewest bytes that one call must move.

    Every input and parameter is read once and every output written once; with a graph, unused
    tensors count nothing and tables that are only gathered from count what is gathered.
    """
    moved = sum(spec_bytes(spec) for spec in problem.outputs)
    for spec in problem.inputs + problem.parameters:
        whole = spec_bytes(spec)
        moved += whole if graph is None else min(whole, _read_bytes(spec.name, graph))
    return moved


def spec_bytes(spec: TensorSpec | ResultSpec) -> int:
    """Returns the size of a tensor in bytes."""
    return prod(spec.shape) * ITEM_BYTES[spec.dtype]


def _read_bytes(name: str, graph: Graph) -> int:
    """Returns an upper bound of what is read of a tensor: everything, unless it is only gathered from."""
    unbounded = 1 << 62
    total = sum(unbounded for ref in graph.outputs if ref.name == name)
    for node in graph.nodes:
        for position, (_, item) in enumerate(node.arguments):
            if isinstance(item, Ref) and item.name == name:
                gathered = position == 0 and _base(node) in GATHERS and node.results[0] is not None
                total += spec_bytes(node.results[0]) if gathered and node.results[0] else unbounded
            elif isinstance(item, tuple) and Ref(name=name) in item:
                total += unbounded
    return total


def _specs(problem: Problem, graph: Graph) -> dict[Ref, TensorSpec | ResultSpec]:
    specs: dict[Ref, TensorSpec | ResultSpec] = {Ref(name=s.name): s for s in problem.inputs + problem.parameters}
    for constant in graph.constants:
        specs[Ref(name=constant.name)] = ResultSpec(shape=constant.shape, dtype=constant.dtype, strides=())
    for node in graph.nodes:
        specs.update({Ref(name=node.name, index=i): r for i, r in enumerate(node.results) if r is not None})
    return specs


def _base(node: Node) -> str:
    return node.op.split(".")[1]


def _node_flops(node: Node, specs: dict[Ref, TensorSpec | ResultSpec]) -> int | None:
    base, result = _base(node), node.results[0]
    if result is None:
        return None
    if base in FREE:
        return 0
    size = prod(result.shape)
    floating = "float" in result.dtype
    if base in POINTWISE:
        return size if floating else 0
    operands = [specs[item] for _, item in node.arguments if isinstance(item, Ref)]
    if base in PER_INPUT:
        return PER_INPUT[base] * prod(operands[0].shape) if floating else 0
    if base in ("mm", "bmm"):
        return 2 * size * operands[0].shape[-1]
    if base in ("addmm", "baddbmm"):
        return 2 * size * operands[1].shape[-1] + size
    if base == "convolution":
        # A transposed one spreads each input element over a window; a plain one gathers a window for each output.
        spread = prod(operands[0].shape) if node.argument("transposed") else size
        return 2 * spread * prod(operands[1].shape[1:]) + (size if len(operands) > 2 else 0)
    if base in ("avg_pool2d", "avg_pool3d"):
        kernel = node.argument("kernel_size")
        return size * prod(k for k in kernel if isinstance(k, int)) if isinstance(kernel, tuple) else None
    if base == "_embedding_bag":
        return prod(operands[1].shape) * operands[0].shape[-1]
    return None
