"""What the parts of a graph are called, and how their operands lie in memory. Not here: which parts there are."""

from __future__ import annotations

from math import prod

from kernelwright.experts.chain import Expression, Operation
from kernelwright.experts.products import Matrix
from kernelwright.experts.views import VIEW_OPS, View, Wiring, apply, whole
from kernelwright.graph import Arg, Node, Ref, ResultSpec
from kernelwright.types import replace


def name_of(ref: Ref) -> str:
    """Returns a name for one result of a node."""
    return f"{ref.name}.{ref.index}" if ref.index else ref.name


def buffer_of(ref: Ref) -> str:
    """Returns the name of the buffer that holds a result between steps."""
    return f"kept_{ref.name}_{ref.index}" if ref.index else f"kept_{ref.name}"


def spec_of(node: Node) -> ResultSpec:
    """Returns the first result's spec."""
    assert node.results[0] is not None
    return node.results[0]


def matrix_shape(node: Node) -> tuple[int, int, int]:
    """Returns batches, rows and columns of a product's result."""
    shape = spec_of(node).shape
    if node.op.startswith("aten.convolution"):
        groups = node.argument("groups")
        assert isinstance(groups, int)
        return shape[0] * groups, shape[1] // groups, prod(shape[2:])
    return prod(shape[:-2]), shape[-2], shape[-1]


def view_from(wiring: Wiring, ref: Ref, stored: Ref) -> View | None:
    """Returns a tensor as a view of one that lies in memory, None where no strides describe it."""
    if ref == stored:
        return whole(ref.name, wiring.shape(ref))
    node = wiring.nodes.get(ref.name)
    below = node.argument("self") if node is not None and node.op in VIEW_OPS else None
    if node is None or not isinstance(below, Ref):
        return None
    view = view_from(wiring, below, stored)
    return None if view is None else apply(node, view, ref.index)


def usable(view: View) -> bool:
    """Returns whether a product can read a view: one stride for rows and one for columns."""
    return all(len(factors) <= 1 for factors in view.dims[-2:])


def matrix_of(view: View) -> Matrix:
    """Returns a view of two dimensions, or of more whose last two are a matrix."""
    row, column = (factors[0][1] if factors else 0 for factors in view.dims[-2:])
    batch = tuple(factor for factors in view.dims[:-2] for factor in factors)
    return Matrix(base=view.base, start=view.start, batch=batch, row=row, column=column)


def put(tail: Expression, core: Expression, result: Expression) -> Expression:
    """Returns a tail with the core's leaf replaced."""
    if tail == core:
        return result
    if isinstance(tail, Operation):
        return replace(tail, operands=tuple(put(operand, core, result) for operand in tail.operands))
    return tail


def renamed_node(node: Node, names: dict[Ref, str]) -> Node:
    """Returns a node that reads buffers under their own names."""

    def renamed(item: Arg) -> Arg:
        if isinstance(item, Ref):
            return Ref(name=names[item]) if item in names else item
        return tuple(renamed(part) for part in item) if isinstance(item, tuple) else item

    return replace(node, arguments=tuple((key, renamed(item)) for key, item in node.arguments))
