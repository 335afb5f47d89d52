"""Rules of reductions: over nothing, of reductions, through scales, products and monotone functions."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.rewrites.egraph import ENode, Id
from kernelwright.rewrites.rule import rule
from kernelwright.rewrites.scalars import (
    factor_of,
    is_plain_division,
    is_sum,
    number,
    offset_of,
    one_for_each_row,
    tensor,
)
from kernelwright.rewrites.terms import Terms, axes_of, keeps, kept_shape, size

LINEAR = ("sum", "mean")
EXTREMES = ("amax", "amin", "max", "min")
RISING = ("relu", "tanh", "sigmoid", "exp", "sqrt", "clamp", "hardtanh", "erf", "floor", "log")
"""Functions that never fall, and give NaN for NaN."""


def plain(t: Terms, node: ENode, item: Id) -> bool:
    """Returns whether a reduction is over floats and in their dtype."""
    return t.floating(item) and t.dtype(tensor(node)) == t.dtype(item)


@rule("sum", "mean", "amax", "amin", "max", "min", "prod")
def reduction_over_one_element(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Sums, means and extremes over axes of extent 1 are views."""
    one = tensor(node)
    if plain(t, node, item) and size(t.shape(one)) == size(t.shape(item)):
        yield t.view(one, t.shape(item))


@rule("sum", "mean", "amax", "amin")
def axes_kept_by_a_view(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A reduction that keeps its axes is one that does not, and a view."""
    one = tensor(node)
    if plain(t, node, item) and keeps(node):
        made = t.reduce(node.base, one, axes_of(node, len(t.shape(one))), keep=False)
        yield t.view(made, t.shape(item))


@rule("sum", "mean", "amax", "amin")
def reduction_of_a_reduction(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Sum of sums, mean of means and extreme of extremes: one reduction over all axes."""
    if not plain(t, node, item):
        return
    for inner in t.made(tensor(node), node.base):
        source = tensor(inner)
        first = axes_of(inner, len(t.shape(source)))
        outer = axes_of(node, len(t.shape(tensor(node))))
        left = [a for a in range(len(t.shape(source))) if keeps(inner) or a not in first]
        axes = tuple(sorted({*first, *(left[a] for a in outer)}))
        yield t.view(t.reduce(node.base, source, axes, keep=False), t.shape(item))


@rule("mean")
def mean_as_a_sum(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A mean is a sum over a number."""
    one = tensor(node)
    if plain(t, node, item):
        count = size(t.shape(one)) // max(size(t.shape(item)), 1)
        yield t.mul(t.sum(one, axes_of(node, len(t.shape(one))), keep=keeps(node)), 1.0 / count)


@rule("sum", "mean")
def reduction_of_a_scale(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Sum of (x * c) is c times the sum of x, for a number c and for one that is the same along the summed axes."""
    if not plain(t, node, item):
        return
    shape = t.shape(tensor(node))
    axes = axes_of(node, len(shape))
    for inner in t.made(tensor(node), "mul", "div", "neg"):
        one, other = tensor(inner), inner.argument("other")
        if t.shape(one) != shape or (inner.base == "div" and not is_plain_division(inner)):
            continue
        short = t.reduce(node.base, one, axes, keep=keeps(node))
        if inner.base == "neg":
            yield t.unary("neg", short)
        elif (factor := factor_of(inner)) is not None:
            yield t.scaled(short, factor)
        elif isinstance(other, Id) and all(one_for_each_row(t.shape(other), shape, a) for a in axes) and keeps(node):
            yield t.binary(inner.base, short, other)


@rule("sum", "mean", finite=True)
def reduction_of_an_offset(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Sum of (x + c) is the sum of x plus n c, for a number and for a tensor that broadcasts to x."""
    if not plain(t, node, item):
        return
    shape = t.shape(tensor(node))
    axes = axes_of(node, len(shape))
    count = size(shape) // max(size(t.shape(item)), 1) if node.base == "sum" else 1
    for inner in t.made(tensor(node), "add", "sub"):
        one, other = inner.argument("self"), inner.argument("other")
        if not isinstance(one, Id) or t.shape(one) != shape or not is_sum(inner):
            continue
        short = t.reduce(node.base, one, axes, keep=keeps(node))
        if (offset := offset_of(inner)) is not None:
            yield t.add(short, offset * count)
        elif isinstance(other, Id) and t.dtype(other) == t.dtype(one):
            lead = len(shape) - len(t.shape(other))
            own = tuple(a - lead for a in axes if a >= lead)
            # Axes along which it is the same count once for each element; the others are summed.
            repeats = 1
            for a in axes:
                if node.base == "sum" and (a < lead or t.shape(other)[a - lead] == 1):
                    repeats *= shape[a]
            part = t.reduce(node.base, other, own, keep=True) if own else other
            part = t.scaled(t.view(part, (1,) * lead + t.shape(part)), float(repeats))
            yield t.view(t.binary(inner.base, t.view(short, kept_shape(shape, axes)), part), t.shape(item))


@rule("sum", "mean", finite=True)
def reduction_through_a_product(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Sums over rows or columns of A B are products of A, B with the sums of the other: a product becomes a dot."""
    if not plain(t, node, item):
        return
    for inner in t.made(tensor(node), "mm", "bmm"):
        first, second = tensor(inner), tensor(inner, "mat2")
        rank = len(t.shape(first))
        axes = axes_of(node, rank)
        product = t.mm if rank == 2 else t.bmm
        if rank - 1 in axes:
            second = t.reduce(node.base, second, (rank - 1,), keep=True)
        if rank - 2 in axes:
            first = t.reduce(node.base, first, (rank - 2,), keep=True)
        if any(a in axes for a in (rank - 1, rank - 2)):
            made = product(first, second)
            if rank == 3 and 0 in axes:
                made = t.reduce(node.base, made, (0,), keep=True)
            yield t.view(made, t.shape(item))


@rule("sum", "mean", "amax", "amin")
def reduction_of_a_permutation(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A reduction over a permuted tensor is one over the tensor where the axes that stay keep their order."""
    if not plain(t, node, item):
        return
    for inner in t.made(tensor(node), "permute"):
        given, source = inner.argument("dims"), tensor(inner)
        rank = len(t.shape(source))
        if isinstance(given, tuple):
            order = [int(a) % rank for a in given]  # type: ignore[arg-type]
            axes = tuple(sorted(order[a] for a in axes_of(node, rank)))
            stay = [a for a in order if a not in axes]
            if stay == sorted(stay):
                yield t.view(t.reduce(node.base, source, axes, keep=False), t.shape(item))


@rule(*EXTREMES)
def extreme_of_a_rising_function(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """The greatest sigmoid is the sigmoid of the greatest: the function is computed once for each row."""
    one = tensor(node)
    if not plain(t, node, item) or isinstance(node.argument("other"), Id):
        return
    largest = node.base in ("amax", "max")
    axes = axes_of(node, len(t.shape(one)))
    for inner in t.made(one, *RISING):
        source = tensor(inner)
        if all(isinstance(x, Id) is (key == "self") for key, x in inner.arguments):
            short = t.reduce("amax" if largest else "amin", source, axes, keep=keeps(node))
            yield t.again(t.like(inner, self=short), t.shape(item), t.dtype(item))
    for inner in t.made(one, "mul", "div", "add", "sub"):
        number_ = number(inner.argument("other"))
        if not isinstance(inner.argument("self"), Id) or number_ is None:
            continue
        factor = factor_of(inner) if inner.base in ("mul", "div") else None
        rises = (factor > 0.0) if factor is not None else inner.base in ("add", "sub")
        if factor is None and (inner.base in ("mul", "div") or offset_of(inner) is None):
            continue
        kind = "amax" if largest == rises else "amin"
        short = t.reduce(kind, tensor(inner), axes, keep=keeps(node))
        yield t.again(t.like(inner, self=short), t.shape(item), t.dtype(item))
