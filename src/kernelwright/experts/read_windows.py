"""Readers of sliding windows and embedding bags for loop nests: every window is a view of its input, folded.

Taps that reach over the edge are read inside and replaced by what changes nothing, so that no loop has to be cut. The
taps of small windows are written one by one. The loop experts for GPUs use these; on the CPU, experts/window.py and
bag.py are quicker. Not here: convolutions with several input channels for each group, indices of maxima, ragged bags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

from kernelwright.experts import tensors as t
from kernelwright.experts.index import Affine, Index
from kernelwright.experts.read import Call, Read, choose, compare, num, op, to
from kernelwright.experts.read_views import reshape, taken

MOST_TAPS = 64
"""Taps of a window that are written one by one."""


@dataclass(frozen=True)
class Axis:
    """The windows along one axis; adaptive ones have stride 0."""

    size: int
    made: int
    taps: int
    stride: int
    pad: int = 0
    step: int = 1

    @property
    def whole(self) -> bool:
        """Says whether every tap lies inside the input."""
        last = (self.made - 1) * self.stride + (self.taps - 1) * self.step
        return bool(self.stride) and not self.pad and last < self.size

    def start(self, shape: tuple[int, ...], axis: int, after: int = 0) -> t.Tensor:
        """Returns where windows begin (`after` 1: where the next one would), over a shape whose axis counts them."""
        if self.stride:
            return counted(shape, axis, self.stride, after * self.stride - self.pad)
        scaled = counted(shape, axis, self.size, after * (self.size + self.made - 1))
        return t.pointwise("floor_div", scaled, whole(self.made), dtype="int64")

    def count(self, shape: tuple[int, ...], axis: int, *, padding: bool) -> t.Tensor:
        """Returns how many elements an average is over, over a shape."""
        low = self.start(shape, axis)
        if not self.stride:
            return to(t.pointwise("sub", self.start(shape, axis, 1), low, dtype="int64"), "float32")
        last = self.size + (self.pad if padding else 0)
        high = t.pointwise("min", t.pointwise("add", low, whole(self.taps), dtype="int64"), whole(last), dtype="int64")
        low = low if padding else t.pointwise("max", low, whole(0), dtype="int64")
        return to(t.pointwise("sub", high, low, dtype="int64"), "float32")


def whole(number: int) -> t.Number:
    """Returns a whole number as a tensor."""
    return t.number(number, "int64")


def counted(shape: tuple[int, ...], axis: int, step: int, start: int) -> t.Tensor:
    """Returns start + step * index along an axis, over a shape."""
    line = t.Counter(shape=(shape[axis],), dtype="int64", start=start, step=step)
    return t.reindexed(line, shape, lambda place: (place[axis],))


@dataclass(frozen=True)
class Windows:
    """All windows of a tensor: axes of windows and of taps in turn, after those that are kept."""

    values: t.Tensor
    there: tuple[t.Tensor, ...]
    """Which taps lie inside, over the axes from the first of windows on; none where all do."""
    axes: tuple[Axis, ...]

    def masked(self, neutral: float) -> t.Tensor:
        """Returns the windows with a number for every tap outside."""
        values = self.values
        for mask in self.there:
            values = choose(mask, values, t.number(neutral, values.dtype))
        return values

    def taps(self, neutral: float) -> list[t.Tensor]:
        """Returns each tap of all windows, over their shape."""
        values, rank = self.masked(neutral), len(self.axes)
        lead = len(values.shape) - 2 * rank
        shape = (*values.shape[:lead], *(a.made for a in self.axes))

        def one(places: tuple[int, ...]) -> t.Tensor:
            def index(place: Index) -> Index:
                pairs = zip(place[lead:], places, strict=True)
                return (*place[:lead], *(part for at, tap in pairs for part in (at, Affine(tap))))

            return t.reindexed(values, shape, index)

        return [one(places) for places in product(*(range(a.taps) for a in self.axes))]


def windows(x: t.Tensor, axes: tuple[Axis, ...]) -> Windows:
    """Returns the windows over a tensor's last axes."""
    lead = len(x.shape) - len(axes)
    pairs = tuple(n for a in axes for n in (a.made, a.taps))
    there: list[t.Tensor] = []
    for number, a in enumerate(axes):
        at = lead + 2 * number
        shape = (*x.shape[:at], a.made, a.taps, *x.shape[at + 1 :])
        if a.whole:
            x = t.reindexed(x, shape, tapped(at, a))
            continue
        two = (a.made, a.taps)
        if a.stride:
            line = t.Counter(shape=(1,), dtype="int64", start=-a.pad, step=1)
            place = t.reindexed(line, two, tapped(0, a))
            inside = t.pointwise(
                "and", compare("ge", place, whole(0)), compare("lt", place, whole(a.size)), dtype="bool"
            )
        else:
            place = t.pointwise("add", a.start(two, 0), counted(two, 1, a.step, 0), dtype="int64")
            inside = compare("lt", place, a.start(two, 0, 1))
        x = taken(x, choose(inside, place, whole(0)), at, shape, wraps=False)
        there.append(t.reindexed(inside, pairs, two_of(2 * number)))
    return Windows(x, tuple(there), axes)


def tapped(at: int, axis: Axis) -> Callable[[Index], Index]:
    """Returns the change from an index with a window and a tap at an axis to one of the input."""

    def index(place: Index) -> Index:
        return (*place[:at], place[at] * axis.stride + place[at + 1] * axis.step, *place[at + 2 :])

    return index


def two_of(at: int) -> Callable[[Index], Index]:
    """Returns the change from an index of all windows and taps to that of one axis."""
    return lambda place: place[at : at + 2]


def folded(kind: t.FoldKind, made: Windows, neutral: float) -> t.Tensor:
    """Returns each window's sum or maximum."""
    if prod(a.taps for a in made.axes) > MOST_TAPS:
        values = made.masked(neutral)
        lead = len(values.shape) - 2 * len(made.axes)
        return t.fold(kind, values, tuple(lead + 2 * i + 1 for i in range(len(made.axes))))
    taps = made.taps(neutral)
    total = taps[0]
    for item in taps[1:]:
        total = op("add" if kind == "sum" else "max", total, item)
    return total


def axes_of(c: Call, x: t.Tensor, rank: int) -> tuple[Axis, ...]:
    """Returns the windows of a pooling operator."""
    sizes, made = x.shape[-rank:], c.shape[-rank:]
    if "adaptive" in c.node.op:
        return tuple(
            Axis(size, n, size // n, size // n) if size % n == 0 else Axis(size, n, -(-size // n) + 1, 0)
            for size, n in zip(sizes, made, strict=True)
        )
    taps = numbers(c, "kernel_size", rank, 1)
    strides = numbers(c, "stride", rank, 1) if c.wholes("stride") else taps
    pads, steps = numbers(c, "padding", rank, 0), numbers(c, "dilation", rank, 1)
    return tuple(Axis(*each) for each in zip(sizes, made, taps, strides, pads, steps, strict=True))


def numbers(c: Call, name: str, rank: int, default: int) -> tuple[int, ...]:
    """Returns a list argument as `rank` integers: one is repeated, none is the default."""
    found = c.wholes(name) or (default,)
    return found * rank if len(found) == 1 else found


def read_average(rank: int) -> Read:
    """Returns the reader of average pooling over the last axes."""

    def read(c: Call) -> t.Tensor:
        x = to(c.tensor("self"), c.dtype)
        axes = axes_of(c, x, rank)
        total = folded("sum", windows(x, axes), 0.0)
        given = c.given("divisor_override")
        if given is not None:
            return op("div", total, num(float(c.whole("divisor_override"))))
        padding = bool(c.given("count_include_pad"))
        if all(a.whole for a in axes):
            return op("div", total, num(float(prod(a.taps for a in axes))))
        counts = [a.count(axes_shape(axes), i, padding=padding) for i, a in enumerate(axes)]
        divisor = counts[0]
        for count in counts[1:]:
            divisor = op("mul", divisor, count)
        return op("div", total, divisor)

    return read


def axes_shape(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Returns the shape of all windows."""
    return tuple(a.made for a in axes)


def read_maximum(rank: int) -> Read:
    """Returns the reader of maximum pooling over the last axes; its indices are not to be had."""

    def read(c: Call) -> tuple[t.Tensor, ...]:
        x = to(c.tensor("self"), c.dtype)
        return (folded("max", windows(x, axes_of(c, x, rank)), float("-inf")),)

    return read


def read_convolution(c: Call) -> t.Tensor:
    """Reads convolution with one input channel for each group, in one or two dimensions."""
    x, weight = to(c.tensor("input"), c.dtype), to(c.tensor("weight"), c.dtype)
    groups, rank = c.whole("groups", 1), len(c.shape) - 2
    if c.given("transposed") or groups == 1 or weight.shape[1] != 1 or x.shape[1] != groups or rank not in (1, 2):
        raise c.unknown(f"with {weight.shape[1]} input channels for each of {groups} groups")
    # Output channels of one input channel have an axis of their own.
    each, kernel = c.shape[1] // groups, weight.shape[2:]
    shape = (c.shape[0], groups, each, *c.shape[2:])
    options = [numbers(c, name, rank, n) for name, n in (("stride", 1), ("padding", 0), ("dilation", 1))]
    axes = tuple(Axis(*sizes) for sizes in zip(x.shape[2:], c.shape[2:], kernel, *options, strict=True))
    made = windows(reshape(x, (x.shape[0], groups, 1, *x.shape[2:])), axes)
    weight = reshape(weight, (groups, each, *kernel))
    bias = c.optional("bias")
    start = num(0.0) if bias is None else reshape(to(bias, c.dtype), (groups, each) + (1,) * rank)
    total = t.expand(to(start, c.dtype), shape)
    if prod(kernel) > MOST_TAPS:
        wide = reshape(weight, (groups, each, *(n for k in kernel for n in (1, k))))
        products = op("mul", made.masked(0.0), wide)
        return reshape(op("add", total, t.fold("sum", products, tuple(4 + 2 * i for i in range(rank)))), c.shape)
    for item, place in zip(made.taps(0.0), product(*map(range, kernel)), strict=True):
        total = op("add", total, op("mul", item, tap_of(weight, place, shape)))
    return reshape(total, c.shape)


def tap_of(weight: t.Tensor, place: tuple[int, ...], shape: tuple[int, ...]) -> t.Tensor:
    """Returns one tap's weights over the shape of all results."""
    return t.reindexed(weight, shape, lambda at: (at[1], at[2], *map(Affine, place)))


def read_bag(c: Call) -> t.Tensor:
    """Reads sums and means of embedding bags at even distances."""
    table, indices, offsets = c.tensor("weight"), c.tensor("indices"), c.tensor("offsets")
    mode, weights = c.whole("mode"), c.optional("per_sample_weights")
    even = isinstance(offsets, t.Counter) and offsets.start == 0 and offsets.step * c.shape[0] == indices.size
    if not even or mode == 2 or c.whole("padding_idx", -1) >= 0 or c.given("include_last_offset"):
        raise c.unknown("with ragged bags, maxima or an index that counts for nothing")
    bags, length = c.shape[0], indices.size // c.shape[0]
    rows = to(taken(table, reshape(indices, (bags, length)), 0, (bags, length, c.shape[1]), wraps=False), c.dtype)
    if weights is not None:
        rows = op("mul", rows, t.expand(reshape(to(weights, c.dtype), (bags, length, 1)), rows.shape))
    total = t.fold("sum", rows, (1,))
    return total if mode == 0 else op("div", total, num(float(length)))


WINDOWS: dict[str, Read] = {
    **{f"aten.avg_pool{rank}d": read_average(rank) for rank in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{rank}d": read_average(rank) for rank in (2, 3)},
    **{f"aten.max_pool{rank}d_with_indices": read_maximum(rank) for rank in (2, 3)},
    **{f"aten.adaptive_max_pool{rank}d": read_maximum(rank) for rank in (2, 3)},
    "aten.convolution": read_convolution,
    "aten._embedding_bag": read_bag,
    "aten._embedding_bag_forward_only": read_bag,
}
