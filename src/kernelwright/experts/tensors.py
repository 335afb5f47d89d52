"""Tensors as functions of their index: what a graph becomes before loops are chosen.

A tensor is a source, a number, a counter, an operation on each element, a re-indexed tensor, a concatenation, an
indirect access, a fold (reduction) or a scan. Composite operators (softmax, layer norm, variance ...) are gone:
they are written in these. Nodes are compared by identity, and shared nodes are computed once.
Not here: operator names (read*.py) and loops (frame.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from kernelwright.experts.index import Affine, Index
from kernelwright.types import Dtype

FLOATS = ("float16", "bfloat16", "float32", "float64")
FoldKind = Literal["sum", "product", "max", "min", "max_of_exp", "argmax", "argmin", "any", "all"]
"""`max_of_exp` is a maximum that is only subtracted before exp: a NaN may get lost, for exp brings it back."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Tensor:
    """Base of all tensors."""

    shape: tuple[int, ...]
    dtype: Dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def operands(self) -> tuple[Tensor, ...]:
        """Returns the tensors that this one is computed from."""
        return ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Source(Tensor):
    """A buffer: an input, a parameter, or a workspace of an earlier kernel."""

    name: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Number(Tensor):
    """One value, shape ()."""

    value: float | int | bool


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Tensor):
    """A small literal tensor, row-major."""

    name: str
    values: tuple[float | int | bool, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Counter(Tensor):
    """start, start + step ...; one axis, integers."""

    start: int
    step: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise(Tensor):
    """One operation of expression.py on each element; the operands have this tensor's shape."""

    op: str
    args: tuple[Tensor, ...]

    def operands(self) -> tuple[Tensor, ...]:
        """Returns what this is made of."""
        return self.args


@dataclass(frozen=True, eq=False, kw_only=True)
class Reindexed(Tensor):
    """Another tensor's elements at other places: views, slices, broadcasts, flips."""

    arg: Tensor
    index: Callable[[Index], Index]
    """From an index of this tensor to one of `arg`; may raise SplitNeeded or NotAffine."""

    def operands(self) -> tuple[Tensor, ...]:
        """Returns what this is made of."""
        return (self.arg,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Joined(Tensor):
    """Concatenation along an axis."""

    args: tuple[Tensor, ...]
    axis: int

    def operands(self) -> tuple[Tensor, ...]:
        """Returns what this is made of."""
        return self.args


@dataclass(frozen=True, eq=False, kw_only=True)
class Taken(Tensor):
    """Elements of `arg` whose place along one axis comes from an integer tensor."""

    arg: Tensor
    where: Tensor
    where_index: Callable[[Index], Index]
    """From an index of this tensor to one of `where`."""
    index: Callable[[Index, Affine], Index]
    """From an index of this tensor, and the integer found in `where`, to one of `arg`."""
    limit: int
    """The extent of the axis; negative integers count from its end."""
    wraps: bool

    def operands(self) -> tuple[Tensor, ...]:
        """Returns what this is made of."""
        return (self.arg, self.where)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fold(Tensor):
    """A reduction over some axes of `arg`, which vanish from the shape."""

    kind: FoldKind
    arg: Tensor
    axes: tuple[int, ...]

    def operands(self) -> tuple[Tensor, ...]:
        """Returns what this is made of."""
        return (self.arg,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scan(Tensor):
    """Running sums or products along one axis."""

    kind: Literal["sum", "product"]
    arg: Tensor
    axis: int

    def operands(self) -> tuple[Tensor, ...]:
        """Returns what this is made of."""
        return (self.arg,)


def walk(roots: tuple[Tensor, ...]) -> Iterator[Tensor]:
    """Yields every tensor below the roots once, operands before users."""
    seen: set[Tensor] = set()
    stack: list[tuple[Tensor, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        tensor, ready = stack.pop()
        if ready:
            yield tensor
        elif tensor not in seen:
            seen.add(tensor)
            stack.append((tensor, True))
            stack.extend((operand, False) for operand in reversed(tensor.operands()))


def number(value: float | int | bool, dtype: Dtype) -> Number:
    """Returns a scalar tensor."""
    return Number(shape=(), dtype=dtype, value=value)


def reindexed(arg: Tensor, shape: tuple[int, ...], index: Callable[[Index], Index]) -> Tensor:
    """Returns `arg` under another index."""
    return Reindexed(shape=shape, dtype=arg.dtype, arg=arg, index=index)


def expand(arg: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Returns `arg` broadcast to a shape by the usual rule."""
    if arg.shape == shape:
        return arg
    lead = len(shape) - len(arg.shape)
    old = arg.shape

    def index(place: Index) -> Index:
        return tuple(Affine() if size == 1 else part for size, part in zip(old, place[lead:], strict=True))

    return reindexed(arg, shape, index)


def pointwise(op: str, *args: Tensor, dtype: Dtype) -> Tensor:
    """Returns an operation on each element of tensors that are broadcast to each other."""
    shape = broadcast_shape(*(a.shape for a in args))
    return Pointwise(shape=shape, dtype=dtype, op=op, args=tuple(expand(a, shape) for a in args))


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the common shape of broadcast tensors."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))


def cast(arg: Tensor, dtype: Dtype) -> Tensor:
    """Returns a tensor converted to a dtype."""
    return arg if arg.dtype == dtype else Pointwise(shape=arg.shape, dtype=dtype, op="cast", args=(arg,))


def fold(kind: FoldKind, arg: Tensor, axes: tuple[int, ...], *, keep: bool = False, dtype: Dtype = "") -> Tensor:
    """Returns a reduction; with `keep` the reduced axes stay as extents of 1."""
    gone = tuple(sorted(axis % len(arg.shape) for axis in axes)) if arg.shape else ()
    shape = tuple(n for axis, n in enumerate(arg.shape) if axis not in gone)
    out: Tensor = Fold(shape=shape, dtype=dtype or arg.dtype, kind=kind, arg=arg, axes=gone)
    if not keep or not gone:
        return out
    kept = tuple(1 if axis in gone else n for axis, n in enumerate(arg.shape))
    return reindexed(out, kept, lambda place: tuple(p for axis, p in enumerate(place) if axis not in gone))
