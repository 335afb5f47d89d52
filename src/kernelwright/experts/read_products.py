"""Readers for loop nests inside larger programs: thin products as sums, and pooling as folds of shifted views."""

from __future__ import annotations

from itertools import product as combinations
from math import inf, prod

from kernelwright.experts import tensors as t
from kernelwright.experts.index import Index
from kernelwright.experts.read import Call, Read, literal, num, op, to

MOST_TAPS = 64
"""Elements of the largest window that is written out."""


def read_product(c: Call) -> t.Tensor:
    """Reads mm, bmm and addmm as sums of products, with the layout of the second operand in mind."""
    first, second = ("mat1", "mat2") if "addmm" in c.node.op else ("self", "mat2")
    a, b = to(c.tensor(first), c.dtype), to(c.tensor(second), c.dtype)
    batch, (m, k), n = a.shape[:-2], a.shape[-2:], b.shape[-1]
    rank = len(batch)

    def left(place: Index, at: int) -> Index:
        return (*place[:rank], place[rank], place[at])

    def right(place: Index, at: int, column: int) -> Index:
        return (*place[:rank], place[at], place[column])

    if n > 1 and isinstance(b, t.Source):
        # Rows of the second operand lie together: columns side by side, summed over rows.
        shape, axis, column = (*batch, m, k, n), rank + 1, rank + 2
    else:
        shape, axis, column = (*batch, m, n, k), rank + 2, rank + 1
    one = t.reindexed(a, shape, lambda place: left(place, axis))
    other = t.reindexed(b, shape, lambda place: right(place, axis, column))
    made = t.fold("sum", op("mul", one, other), (axis,))
    if "addmm" not in c.node.op:
        return made
    beta, alpha = c.real("beta", 1.0), c.real("alpha", 1.0)
    made = made if alpha == 1.0 else op("mul", made, num(alpha))
    bias = to(c.tensor("self"), c.dtype)
    return op("add", made, bias if beta == 1.0 else op("mul", bias, num(beta)))


def windows(c: Call, x: t.Tensor, fill: float, dilation: tuple[int, ...]) -> list[t.Tensor]:
    """Returns, for each place of a window, the element there of every window; what is outside has one value."""
    rank = len(c.wholes("kernel_size"))
    kernel, padding = c.wholes("kernel_size"), c.wholes("padding") or (0,) * rank
    stride = c.wholes("stride") or kernel
    lead = len(x.shape) - rank
    if prod(kernel) > MOST_TAPS:
        raise c.unknown(f"over windows of {prod(kernel)} elements")
    for axis, pad in enumerate(padding):
        # Windows of a rounded-up output may end beyond the padding.
        size, reach = (
            x.shape[lead + axis],
            (c.shape[lead + axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1,
        )
        x = padded(x, lead + axis, pad, max(0, reach - pad - size), fill)
    return [shifted(x, c.shape, lead, place, stride, dilation) for place in combinations(*map(range, kernel))]


def padded(x: t.Tensor, axis: int, before: int, after: int, fill: float) -> t.Tensor:
    """Returns a tensor with one axis extended by equal numbers."""
    parts = []
    for extent, part in ((before, None), (x.shape[axis], x), (after, None)):
        shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
        if extent:
            parts.append(part or t.expand(to(literal(fill), x.dtype), shape))
    whole = (*x.shape[:axis], x.shape[axis] + before + after, *x.shape[axis + 1 :])
    return parts[0] if len(parts) == 1 else t.Joined(shape=whole, dtype=x.dtype, args=tuple(parts), axis=axis)


def shifted(
    x: t.Tensor,
    shape: tuple[int, ...],
    lead: int,
    place: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> t.Tensor:
    """Returns the elements at one place of every window."""

    def index(at: Index) -> Index:
        moved = (at[lead + axis] * stride[axis] + place[axis] * dilation[axis] for axis in range(len(place)))
        return (*at[:lead], *moved)

    return t.reindexed(x, shape, index)


def balanced(name: str, items: list[t.Tensor]) -> t.Tensor:
    """Returns all items joined by an operation, as a tree."""
    while len(items) > 1:
        pairs = [op(name, *items[i : i + 2]) if i + 1 < len(items) else items[i] for i in range(0, len(items), 2)]
        items = pairs
    return items[0]


def read_max_pool(c: Call) -> tuple[t.Tensor, ...]:
    """Reads max pooling; its indices are not read."""
    rank = len(c.wholes("kernel_size"))
    return (balanced("max", windows(c, c.tensor("self"), -inf, c.wholes("dilation") or (1,) * rank)),)


def read_avg_pool(c: Call) -> t.Tensor:
    """Reads average pooling where every window counts as many elements."""
    kernel = c.wholes("kernel_size")
    divisor = c.given("divisor_override")
    if any(c.wholes("padding")) and not c.given("count_include_pad"):
        raise c.unknown("that does not count its padding")
    if c.given("ceil_mode"):
        raise c.unknown("of rounded-up size")
    total = balanced("add", windows(c, c.tensor("self"), 0.0, (1,) * len(kernel)))
    return op("div", total, num(float(divisor) if isinstance(divisor, int) else float(prod(kernel))))


INSIDE: dict[str, Read] = {
    **{f"aten.{n}": read_product for n in ("mm", "bmm", "addmm")},
    **{f"aten.max_pool{d}d_with_indices": read_max_pool for d in (2, 3)},
    **{f"aten.avg_pool{d}d": read_avg_pool for d in (1, 2, 3)},
}
