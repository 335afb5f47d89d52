"""What follows a core operation: the chain to the output, and the tensors that it and the core read.

Not here: what the core is; each expert knows its own.
"""

from __future__ import annotations

from math import prod

from kernelwright.experts.chain import Expression, Leaf, Reader, Unsupported, leaves, shaped
from kernelwright.experts.views import Wiring, whole
from kernelwright.graph import Arg, Node, Ref
from kernelwright.types import TensorSpec, value


@value
class Tail:
    """What follows a core operation up to the problem's only output."""

    expression: Expression
    """Over the loop's shape; the core's result is a leaf named like its node."""
    out: TensorSpec
    tensors: tuple[TensorSpec, ...]
    """What the expression reads besides the core's result, in order of reading."""
    nodes: frozenset[str]


def follow(wiring: Wiring, core: Node, shape: tuple[int, ...]) -> Tail:
    """Returns the chain from a core's first result to the only output, over the loop's shape.

    Raises:
        Unsupported: when there are more outputs, another core-like operator, or a use of other results.
    """
    if len(wiring.graph.outputs) != 1:
        raise Unsupported("more than one output")
    reader = Reader(wiring, core.name)
    found = reader.read(wiring.graph.outputs[0])
    try:
        expression = shaped(found, shape)
    except Unsupported as reason:
        raise Unsupported("its result is permuted or cut before it is used") from reason
    read = leaves(expression)
    if any(leaf.view.base == f"{core.name}.{i}" for leaf in read for i in range(1, 4)):
        raise Unsupported("its second result is used")
    names = tuple(dict.fromkeys(leaf.view.base for leaf in read))
    missing = [name for name in names if name in wiring.constants]
    if missing:
        raise Unsupported(f"a literal tensor ({missing[0]}) in what follows")
    tensors = tuple(wiring.tensors[name] for name in names if name in wiring.tensors)
    out = wiring.problem.outputs[0]
    if out.dtype not in wiring.floats:
        raise Unsupported(f"an output of {out.dtype}")
    return Tail(expression=expression, out=out, tensors=tensors, nodes=frozenset(reader.used | {core.name}))


def core_leaves(tail: Tail, core: Node) -> tuple[Leaf, ...]:
    """Returns the different ways in which the core's result is read."""
    return tuple(leaf for leaf in leaves(tail.expression) if leaf.view.base == core.name)


def source(wiring: Wiring, item: Arg, what: str, dtypes: tuple[str, ...] = ()) -> TensorSpec:
    """Returns the contiguous tensor of the problem that an operand is, perhaps under another shape.

    Args:
        wiring: the problem and graph.
        item: the operand.
        what: its name in refusals.
        dtypes: those that it may have; empty: the expert's floats.

    Raises:
        Unsupported: when it is computed, a strided view, or of another dtype.
    """
    view = wiring.view(item) if isinstance(item, Ref) else None
    if view is None:
        node = wiring.maker(item)
        raise Unsupported(f"its {what} is made by {node.op}" if node else f"its {what} is no tensor")
    spec = wiring.tensors.get(view.base)
    if spec is None or not view.contiguous or prod(view.shape) != prod(spec.shape):
        raise Unsupported(f"its {what} is not a whole contiguous input")
    if spec.dtype not in (dtypes or wiring.floats):
        raise Unsupported(f"its {what} is {spec.dtype}")
    return spec


def in_order(tail: Tail, core: Node, shape: tuple[int, ...]) -> None:
    """Refuses tails that read the core's result in another order than it is computed in."""
    if [leaf.view for leaf in core_leaves(tail, core)] != [whole(core.name, shape)]:
        raise Unsupported("its result is permuted or cut before it is used")
