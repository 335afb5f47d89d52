"""Expert for sliding windows: average and maximum pooling, depthwise convolution, and what follows them.

Recognises `avg_pool1d/2d/3d`, `max_pool2d/3d_with_indices` whose indices nobody reads, `_adaptive_avg_pool2d/3d`
and `convolution` with one input channel for each group, in one or two dimensions, with pointwise operators after.
The code is made in pooling.py and depthwise.py. Not here: pooling with indices, strides chosen by data.
"""

from __future__ import annotations

from functools import partial
from math import prod

from kernelwright.experts.chain import Unsupported
from kernelwright.experts.depthwise import Depthwise, depthwise_space, emit_depthwise
from kernelwright.experts.pooling import Pooling, Span, emit_pooling, pooling_space
from kernelwright.experts.protocol import Answer
from kernelwright.experts.tail import Tail, core_leaves, follow, in_order, source
from kernelwright.experts.views import Wiring, sequence, whole, whole_number
from kernelwright.graph import Arg, Graph, Node, Ref
from kernelwright.types import Problem, Refusal, Target, Template

POOLS = {
    "aten.avg_pool1d.default": 1, "aten.avg_pool2d.default": 2, "aten.avg_pool3d.default": 3,
    "aten.max_pool2d_with_indices.default": 2, "aten.max_pool3d_with_indices.default": 3,
    "aten._adaptive_avg_pool2d.default": 2, "aten._adaptive_avg_pool3d.default": 3,
}  # fmt: skip
CONVOLUTION = "aten.convolution.default"


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one window operation; None where there is none or more."""
    match recognised(Wiring(problem, graph)):
        case Depthwise() as work:
            emit = partial(emit_depthwise, problem, work)
            return Template(name="depthwise", space=depthwise_space(work, target), emit=emit)
        case Pooling() as pooling:
            emit = partial(emit_pooling, problem, pooling)
            return Template(name=pooling.name, space=pooling_space(pooling, target), emit=emit)
        case other:
            return other


def recognised(wiring: Wiring) -> Pooling | Depthwise | Refusal | None:
    """Returns the window operation of a graph, why it cannot be done, or None where there is none or more."""
    cores = [n for n in wiring.graph.nodes if n.op in POOLS or (n.op == CONVOLUTION and _per_channel(n))]
    if len(cores) != 1:
        return None
    try:
        return (_depthwise if cores[0].op == CONVOLUTION else _pooling)(wiring, cores[0])
    except Unsupported as reason:
        return Refusal(subject=cores[0].op, reason=str(reason))


def _per_channel(node: Node) -> bool:
    """Says whether a convolution has one input channel for each group, and more than one group."""
    weight, groups = node.argument("weight"), node.argument("groups")
    return isinstance(weight, Ref) and isinstance(groups, int) and groups > 1


def numbers(item: Arg, rank: int, default: int = 0) -> tuple[int, ...]:
    """Returns a list argument as `rank` integers: one is repeated, none is the default."""
    found = tuple(whole_number(i) for i in sequence(item)) or (default,)
    return found * rank if len(found) == 1 else found


def _pooling(wiring: Wiring, core: Node) -> Pooling:
    x = source(wiring, core.argument("self"), "input")
    rank = POOLS[core.op]
    before, after = wiring.shape(_ref(core.argument("self"))), wiring.shape(Ref(name=core.name))
    planes = prod(before[:-rank])
    lift = (1,) * (3 - rank)
    shape = (planes, *lift, *after[-rank:])
    tail = follow(wiring, core, shape)
    in_order(tail, core, shape)
    spans = [Span.single() for _ in lift]
    for axis, (size, made) in enumerate(zip(before[-rank:], after[-rank:], strict=True)):
        spans.append(_span(core, axis, size, made))
    depth, rows, columns = spans
    return Pooling(
        name="max_pool" if "max_pool" in core.op else "avg_pool",
        core=core.name,
        x=x,
        tail=tail.expression,
        tensors=tail.tensors,
        out=tail.out,
        planes=planes,
        spans=(depth, rows, columns),
        divisor=_divisor(core),
        counts_padding="max_pool" in core.op or _flag(core, "count_include_pad"),
    )


def _ref(item: Arg) -> Ref:
    assert isinstance(item, Ref)
    return item


def _flag(core: Node, name: str) -> bool:
    """Returns a boolean argument, False where the operator has none of that name."""
    return bool(dict(core.arguments).get(name, False))


def _divisor(core: Node) -> int | None:
    override = dict(core.arguments).get("divisor_override")
    return None if override is None else whole_number(override)


def _span(core: Node, axis: int, size: int, made: int) -> Span:
    """Returns the windows along one axis (0 is the outermost of the pooled ones)."""
    rank = POOLS[core.op]
    if "adaptive" in core.op:
        if size % made == 0:
            return Span(size=size, made=made, taps=size // made, stride=size // made, pad=0, step=1)
        return Span(size=size, made=made, taps=-(-size // made) + 1, stride=0, pad=0, step=1)
    taps = numbers(core.argument("kernel_size"), rank)
    stride = numbers(core.argument("stride"), rank) if sequence(core.argument("stride")) else taps
    pad = numbers(core.argument("padding"), rank)
    step = numbers(dict(core.arguments).get("dilation", 1), rank, 1)
    return Span(size=size, made=made, taps=taps[axis], stride=stride[axis], pad=pad[axis], step=step[axis])


def _depthwise(wiring: Wiring, core: Node) -> Depthwise:
    weight = source(wiring, core.argument("weight"), "weight")
    item, lead, trail = _unpadded(wiring, core)
    x = source(wiring, item, "input")
    before, full = wiring.shape(item), wiring.shape(Ref(name=core.name))
    rank = len(full) - 2
    groups = whole_number(core.argument("groups"))
    if weight.shape[1] != 1 or groups != before[1]:
        raise Unsupported(f"{weight.shape[1]} input channels for each of {groups} groups")
    if core.argument("transposed") or rank not in (1, 2):
        raise Unsupported("a transposed or three-dimensional convolution")
    wanted = wiring.problem.outputs[0].shape
    made = (*full[:-1], min(wanted[-1], full[-1])) if prod(wanted) != prod(full) else full
    lift = (1,) * (2 - rank)
    shape = (made[0] * made[1], *lift, *made[2:])
    tail = follow(wiring, core, shape)
    _uncut(tail, core, full, lift)
    bias = core.argument("bias")
    pad, stride, step = (numbers(core.argument(key), rank, 1) for key in ("padding", "stride", "dilation"))
    axes = tuple(
        Span(
            size=before[2 + i],
            made=made[2 + i],
            taps=weight.shape[2 + i],
            stride=stride[i],
            pad=pad[i] + lead[i],
            step=step[i],
        )
        for i in range(rank)
    )
    del trail  # what is read beyond the right edge is zero, however much padding was asked for
    return Depthwise(
        core=core.name,
        x=x,
        weight=weight,
        bias=None if bias is None else source(wiring, bias, "bias"),
        tail=tail.expression,
        tensors=tail.tensors,
        out=tail.out,
        images=full[0],
        channels=full[1],
        multiplier=full[1] // groups,
        rows=axes[0] if rank == 2 else Span.single(),
        columns=axes[-1],
    )


def _unpadded(wiring: Wiring, core: Node) -> tuple[Ref, tuple[int, ...], tuple[int, ...]]:
    """Returns the input before an explicit zero padding, and that padding at both ends of each axis."""
    item = _ref(core.argument("input"))
    rank = len(wiring.shape(item)) - 2
    node = wiring.maker(item)
    none = (0,) * rank
    if node is None or node.op != "aten.constant_pad_nd.default":
        return item, none, none
    pads = [whole_number(i) for i in sequence(node.argument("pad"))]
    if node.argument("value") != 0 or min(pads) < 0 or len(pads) > 2 * rank:
        raise Unsupported("its padding is not of zeros around the image")
    pads += [0] * (2 * rank - len(pads))
    lead = tuple(pads[2 * (rank - 1 - axis)] for axis in range(rank))
    trail = tuple(pads[2 * (rank - 1 - axis) + 1] for axis in range(rank))
    return _ref(node.argument("self")), lead, trail


def _uncut(tail: Tail, core: Node, full: tuple[int, ...], lift: tuple[int, ...]) -> None:
    """Refuses tails that read the result otherwise than in order, from the first column on."""
    view = whole(core.name, (full[0] * full[1], *lift, *full[2:]))
    found = core_leaves(tail, core)
    same = len(found) == 1 and found[0].view.start == 0
    if not same or not all(
        mine == theirs or (mine and theirs and mine[0][1] == theirs[0][1])
        for mine, theirs in zip(found[0].view.dims, view.dims, strict=True)
    ):
        raise Unsupported("its result is permuted or cut before it is used")
