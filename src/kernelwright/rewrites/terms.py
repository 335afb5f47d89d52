"""Calls as rules write them: one method for each operator, which works out the result's shape itself.

Method names are the operators' own. Shapes and dtypes follow PyTorch's rules for the operands that rules give
them: floats of one dtype, whole numbers for shapes. Not here: rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kernelwright.graph import DtypeArg, ResultSpec
from kernelwright.rewrites.egraph import EArg, EGraph, ENode, Id

Shape = tuple[int, ...]
FLOATS = ("float16", "bfloat16", "float32", "float64")


def contiguous(shape: Shape) -> tuple[int, ...]:
    """Returns row-major strides, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def broadcast(*shapes: Shape) -> Shape:
    """Returns the common shape of broadcast operands."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))


class Terms:
    """Reads and writes an e-graph in the words of operators."""

    def __init__(self, graph: EGraph) -> None:
        self.graph = graph

    # --------------------------------------------------------------------------- reading

    def shape(self, item: Id) -> Shape:
        """Returns the shape of a value."""
        return self.graph.spec(item).shape

    def dtype(self, item: Id) -> str:
        """Returns the dtype of a value."""
        return self.graph.spec(item).dtype

    def floating(self, item: Id) -> bool:
        """Returns whether a value is of floats."""
        return self.dtype(item) in FLOATS

    def made(self, item: EArg, *bases: str) -> Iterator[ENode]:
        """Yields the calls of these operators that a class holds."""
        if isinstance(item, Id):
            yield from (node for node in self.graph.nodes(item) if node.base in bases and node.index == 0)

    def full_value(self, item: EArg) -> float | None:
        """Returns the number that a tensor is filled with, or that an argument is; None for all else."""
        if isinstance(item, Id):
            for node in self.made(item, "full"):
                value = node.argument("fill_value")
                return float(value) if isinstance(value, int | float) else None
            return None
        return float(item) if isinstance(item, int | float) and not isinstance(item, bool) else None

    # --------------------------------------------------------------------------- writing

    def call(self, op: str, shape: Shape, dtype: str, /, **arguments: EArg) -> Id:
        """Returns the class of a call."""
        spec = ResultSpec(shape=shape, dtype=dtype, strides=contiguous(shape))
        return self.graph.add(ENode(op, tuple(arguments.items())), spec)

    def like(self, node: ENode, /, **changed: EArg) -> ENode:
        """Returns a call with some arguments changed."""
        return ENode(node.op, tuple((key, changed.get(key, item)) for key, item in node.arguments), node.index)

    def again(self, node: ENode, shape: Shape, dtype: str) -> Id:
        """Returns the class of a call whose result has another shape than the one that it was made from."""
        return self.graph.add(node, ResultSpec(shape=shape, dtype=dtype, strides=contiguous(shape)))

    def input(self, name: str, shape: Shape, dtype: str = "float32") -> Id:
        """Returns a tensor that the program is given."""
        return self.call("input", shape, dtype, name=name)

    def full(self, shape: Shape, value: float, dtype: str) -> Id:
        """Returns a tensor of equal numbers."""
        return self.call(
            "aten.full.default", shape, dtype, size=shape, fill_value=value, dtype=DtypeArg(name=dtype),
            layout="strided", device="cpu", pin_memory=False,
        )  # fmt: skip

    def binary(self, name: str, one: Id, other: EArg) -> Id:
        """Returns add, sub, mul, div, maximum or minimum of two operands of one dtype."""
        shape = broadcast(self.shape(one), self.shape(other)) if isinstance(other, Id) else self.shape(one)
        more: dict[str, EArg] = {"alpha": 1} if name in ("add", "sub") else {}
        overload = "default" if name in ("maximum", "minimum") else "Tensor"
        return self.call(f"aten.{name}.{overload}", shape, self.dtype(one), self=one, other=other, **more)

    def add(self, one: Id, other: EArg) -> Id:
        """Returns a sum."""
        return self.binary("add", one, other)

    def sub(self, one: Id, other: EArg) -> Id:
        """Returns a difference."""
        return self.binary("sub", one, other)

    def mul(self, one: Id, other: EArg) -> Id:
        """Returns a product of elements."""
        return self.binary("mul", one, other)

    def div(self, one: Id, other: EArg) -> Id:
        """Returns a quotient."""
        return self.binary("div", one, other)

    def unary(self, name: str, item: Id, **arguments: EArg) -> Id:
        """Returns a function of each element."""
        return self.call(f"aten.{name}.default", self.shape(item), self.dtype(item), self=item, **arguments)

    def clamp(self, item: Id, low: float | None, high: float | None) -> Id:
        """Returns elements kept between two numbers."""
        return self.unary("clamp", item, min=low, max=high)

    def mm(self, one: Id, other: Id) -> Id:
        """Returns a product of matrices."""
        shape = (self.shape(one)[0], self.shape(other)[1])
        return self.call("aten.mm.default", shape, self.dtype(one), self=one, mat2=other)

    def bmm(self, one: Id, other: Id) -> Id:
        """Returns a product of each pair of matrices."""
        shape = (*self.shape(one)[:2], self.shape(other)[2])
        return self.call("aten.bmm.default", shape, self.dtype(one), self=one, mat2=other)

    def addmm(self, bias: Id, one: Id, other: Id, *, beta: float = 1, alpha: float = 1) -> Id:
        """Returns a product of matrices plus something that broadcasts to it."""
        shape = (self.shape(one)[0], self.shape(other)[1])
        return self.call(
            "aten.addmm.default", shape, self.dtype(one), self=bias, mat1=one, mat2=other, beta=beta, alpha=alpha
        )

    def view(self, item: Id, shape: Shape) -> Id:
        """Returns the same elements in order, in another shape."""
        if self.shape(item) == shape:
            return item
        return self.call("aten.view.default", shape, self.dtype(item), self=item, size=shape)

    def permute(self, item: Id, order: tuple[int, ...]) -> Id:
        """Returns a tensor with its dimensions in another order."""
        if order == tuple(range(len(order))):
            return item
        shape, spec = tuple(self.shape(item)[axis] for axis in order), self.graph.spec(item)
        strides = tuple(spec.strides[axis] for axis in order) if len(spec.strides) == len(order) else contiguous(shape)
        made = ENode("aten.permute.default", (("self", item), ("dims", order)))
        return self.graph.add(made, ResultSpec(shape=shape, dtype=spec.dtype, strides=strides))

    def expand(self, item: Id, shape: Shape) -> Id:
        """Returns a tensor broadcast to a shape."""
        if self.shape(item) == shape:
            return item
        return self.call("aten.expand.default", shape, self.dtype(item), self=item, size=shape, implicit=False)

    def reduce(self, name: str, item: Id, axes: tuple[int, ...], *, keep: bool) -> Id:
        """Returns sum, mean, amax or amin over some axes (not negative)."""
        old = self.shape(item)
        shape = tuple(1 if a in axes else n for a, n in enumerate(old) if keep or a not in axes)
        op = {"sum": "aten.sum.dim_IntList", "mean": "aten.mean.dim"}.get(name, f"aten.{name}.default")
        more: dict[str, EArg] = {"dtype": None} if name in ("sum", "mean") else {}
        return self.call(op, shape, self.dtype(item), self=item, dim=axes, keepdim=keep, **more)

    def sum(self, item: Id, axes: tuple[int, ...], *, keep: bool = False) -> Id:
        """Returns sums over some axes."""
        return self.reduce("sum", item, axes, keep=keep)

    def scaled(self, item: Id, factor: float) -> Id:
        """Returns a tensor times a number, itself where that is 1."""
        return item if factor == 1.0 else self.mul(item, factor)


def axes_of(node: ENode, rank: int) -> tuple[int, ...]:
    """Returns the axes that a reduction goes over, in order and not negative; all where none are given."""
    given = node.argument("dim")
    listed = given if isinstance(given, tuple) else () if given is None else (given,)
    axes = tuple(sorted(int(a) % rank for a in listed if isinstance(a, int))) if rank else ()
    return axes or tuple(range(rank))


def keeps(node: ENode) -> bool:
    """Returns whether a reduction keeps its axes with extent 1."""
    return bool(node.argument("keepdim"))


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """Returns a shape with the reduced axes at extent 1."""
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))


def size(shape: Shape) -> int:
    """Returns the number of elements."""
    return prod(shape)
