"""Readers of operators that only move elements: views, slices, concatenations and indirect accesses."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from kernelwright.experts import tensors as t
from kernelwright.experts.index import Affine, Index, delinearise, linearise
from kernelwright.experts.read import Call, Read, literal, to
from kernelwright.graph import Ref


def read_reshape(c: Call) -> t.Tensor:
    """Reads everything that keeps the row-major order of elements: view, unsqueeze, squeeze, flatten."""
    return reshape(c.tensor("self"), c.shape)


def reshape(arg: t.Tensor, shape: tuple[int, ...]) -> t.Tensor:
    """Returns a tensor under another shape with the same row-major order."""
    if arg.shape == shape:
        return arg
    if isinstance(arg, t.Source):
        # Buffers are contiguous, so that a view of one is a buffer too, and no index has to be divided.
        return t.Source(shape=shape, dtype=arg.dtype, name=arg.name)
    return t.reindexed(arg, shape, lambda place: delinearise(linearise(place, shape), arg.shape))


def read_as_strided(c: Call) -> t.Tensor:
    """Reads as_strided where it changes nothing but the strides of axes of one element, as adaptive pooling does."""
    (below,) = (arg for name, arg in c.node.arguments if name == "self")
    spec, result = c.specs.get(below) if isinstance(below, Ref) else None, c.result()
    firm = [d for d, extent in enumerate(result.shape) if extent != 1]
    if spec is None or spec.shape != result.shape or c.whole("storage_offset"):
        raise c.unknown("that is no other name of its operand")
    if any(spec.strides[d] != c.wholes("stride")[d] for d in firm):
        raise c.unknown("with other strides")
    return c.tensor("self")


def read_expand(c: Call) -> t.Tensor:
    """Reads expand."""
    return t.expand(c.tensor("self"), c.shape)


def permuted(arg: t.Tensor, order: tuple[int, ...]) -> t.Tensor:
    """Returns a tensor whose axis i is axis order[i] of the argument."""
    rank = len(arg.shape)
    source_axis = tuple(axis % rank for axis in order)
    inverse = tuple(source_axis.index(axis) for axis in range(rank))
    shape = tuple(arg.shape[axis] for axis in source_axis)
    return t.reindexed(arg, shape, lambda place: tuple(place[axis] for axis in inverse))


def read_permute(c: Call) -> t.Tensor:
    """Reads permute."""
    return permuted(c.tensor("self"), c.wholes("dims"))


def read_transpose(c: Call) -> t.Tensor:
    """Reads transpose and t."""
    arg = c.tensor("self")
    rank = len(arg.shape)
    order = list(range(rank))
    one, two = (c.whole("dim0"), c.whole("dim1")) if "transpose" in c.node.op else (0, rank - 1)
    if rank:
        order[one % rank], order[two % rank] = order[two % rank], order[one % rank]
    return permuted(arg, tuple(order))


def on_axis(arg: t.Tensor, axis: int, extent: int, change: Callable[[Affine], Affine]) -> t.Tensor:
    """Returns `arg` with one axis' index changed and its extent set."""
    shape = (*arg.shape[:axis], extent, *arg.shape[axis + 1 :])
    return t.reindexed(arg, shape, lambda place: (*place[:axis], change(place[axis]), *place[axis + 1 :]))


def read_slice(c: Call) -> t.Tensor:
    """Reads slice with a positive step."""
    arg = c.tensor("self")
    axis, step = c.whole("dim") % len(arg.shape), c.whole("step", 1)
    start = max(-arg.shape[axis], min(c.whole("start"), arg.shape[axis]))
    start = start + arg.shape[axis] if start < 0 else start
    return on_axis(arg, axis, c.shape[axis], lambda i: i * step + start)


def read_unfold(c: Call) -> t.Tensor:
    """Reads unfold: windows along an axis, the places within them as a last axis."""
    arg = c.tensor("self")
    axis, step = c.whole("dimension") % len(arg.shape), c.whole("step")
    return t.reindexed(
        arg, c.shape, lambda place: (*place[:axis], place[axis] * step + place[-1], *place[axis + 1 : -1])
    )


def read_select(c: Call) -> t.Tensor:
    """Reads select with a fixed place."""
    arg = c.tensor("self")
    axis = c.whole("dim") % len(arg.shape)
    at = c.whole("index") % arg.shape[axis]
    return t.reindexed(arg, c.shape, lambda place: (*place[:axis], Affine(at), *place[axis:]))


def read_flip(c: Call) -> t.Tensor:
    """Reads flip."""
    arg = c.tensor("self")
    for axis in c.wholes("dims"):
        axis %= len(arg.shape)
        last = arg.shape[axis] - 1
        arg = on_axis(arg, axis, last + 1, lambda i, last=last: i * -1 + last)  # type: ignore[misc]
    return arg


def read_split(c: Call) -> tuple[t.Tensor, ...]:
    """Reads split, split_with_sizes and chunk by the shapes of their results."""
    arg = c.tensor("self")
    axis = c.whole("dim") % len(arg.shape)
    sizes = [c.result(i).shape[axis] for i in range(len(c.node.results))]
    starts = list(accumulate(sizes, initial=0))
    return tuple(
        on_axis(arg, axis, size, lambda i, start=start: i + start)  # type: ignore[misc]
        for size, start in zip(sizes, starts, strict=False)
    )


def read_unbind(c: Call) -> tuple[t.Tensor, ...]:
    """Reads unbind."""
    arg = c.tensor("self")
    axis = c.whole("dim") % len(arg.shape)
    shape = c.shape

    def part(at: int) -> t.Tensor:
        return t.reindexed(arg, shape, lambda place: (*place[:axis], Affine(at), *place[axis:]))

    return tuple(part(at) for at in range(arg.shape[axis]))


def read_cat(c: Call) -> t.Tensor:
    """Reads cat; empty parts are dropped."""
    parts = c.given("tensors")
    if not isinstance(parts, tuple) or not all(isinstance(p, t.Tensor) for p in parts):
        raise c.unknown("of something other than tensors")
    axis = c.whole("dim") % len(c.shape)
    kept = tuple(to(p, c.dtype) for p in parts if p.size)
    return kept[0] if len(kept) == 1 else t.Joined(shape=c.shape, dtype=c.dtype, args=kept, axis=axis)


def read_pad(c: Call) -> t.Tensor:
    """Reads constant padding as a concatenation with constants."""
    x, pads = to(c.tensor("self"), c.dtype), c.wholes("pad")
    fill = c.given("value")
    for pair in range(len(pads) // 2):
        axis = len(x.shape) - 1 - pair
        before, after = pads[2 * pair], pads[2 * pair + 1]
        if before < 0 or after < 0:
            raise c.unknown("with negative padding")
        parts = []
        for extent, part in ((before, None), (x.shape[axis], x), (after, None)):
            shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
            value = to(literal(fill if isinstance(fill, int | float) else 0), c.dtype)
            parts += [part or t.expand(value, shape)] if extent else []
        shape = (*x.shape[:axis], x.shape[axis] + before + after, *x.shape[axis + 1 :])
        x = parts[0] if len(parts) == 1 else t.Joined(shape=shape, dtype=x.dtype, args=tuple(parts), axis=axis)
    return x


def read_repeat(c: Call) -> t.Tensor:
    """Reads repeat as an expansion between the axes."""
    arg, times = c.tensor("self"), c.wholes("repeats")
    old = (1,) * (len(times) - len(arg.shape)) + arg.shape
    apart = tuple(n for extent in old for n in (1, extent))
    wide = tuple(n for extent, count in zip(old, times, strict=True) for n in (count, extent))
    return reshape(t.expand(reshape(arg, apart), wide), c.shape)


def read_embedding(c: Call) -> t.Tensor:
    """Reads embedding: rows of a table by number."""
    table, where = c.tensor("weight"), c.tensor("indices")
    return taken(table, where, 0, c.shape, wraps=False)


def taken(arg: t.Tensor, where: t.Tensor, axis: int, shape: tuple[int, ...], *, wraps: bool) -> t.Tensor:
    """Returns `arg` with one axis replaced by the axes of an integer tensor."""
    rank = len(where.shape)
    return t.Taken(
        shape=shape,
        dtype=arg.dtype,
        arg=arg,
        where=where,
        where_index=lambda place: place[axis : axis + rank],
        index=lambda place, found: (*place[:axis], found, *place[axis + rank :]),
        limit=arg.shape[axis],
        wraps=wraps,
    )


def read_index_select(c: Call) -> t.Tensor:
    """Reads index_select."""
    arg = c.tensor("self")
    return taken(arg, c.tensor("index"), c.whole("dim") % len(arg.shape), c.shape, wraps=False)


def read_index(c: Call) -> t.Tensor:
    """Reads advanced indexing with one integer tensor."""
    places = c.given("indices")
    if not isinstance(places, tuple):
        raise c.unknown("without indices")
    used = [(axis, p) for axis, p in enumerate(places) if p is not None]
    if len(used) != 1 or not isinstance(used[0][1], t.Tensor) or used[0][1].dtype in ("bool", "uint8"):
        raise c.unknown("with more than one integer tensor")
    return taken(c.tensor("self"), used[0][1], used[0][0], c.shape, wraps=True)


def read_gather(c: Call) -> t.Tensor:
    """Reads gather: one place for each result."""
    arg, where = c.tensor("self"), c.tensor("index")
    if not arg.shape:
        return arg
    axis = c.whole("dim") % len(arg.shape)

    def index(place: Index, found: Affine) -> Index:
        return (*place[:axis], found, *place[axis + 1 :])

    return t.Taken(
        shape=c.shape, dtype=arg.dtype, arg=arg, where=where, where_index=lambda place: place, index=index,
        limit=arg.shape[axis], wraps=False,
    )  # fmt: skip


VIEWS: dict[str, Read] = {
    **{
        f"aten.{n}": read_reshape
        for n in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten")
    },
    "aten.as_strided": read_as_strided,
    "aten.expand": read_expand,
    "aten.permute": read_permute,
    "aten.transpose": read_transpose,
    "aten.t": read_transpose,
    "aten.slice": read_slice,
    "aten.unfold": read_unfold,
    "aten.select": read_select,
    "aten.flip": read_flip,
    **{f"aten.{n}": read_split for n in ("split", "split_with_sizes", "chunk")},
    "aten.unbind": read_unbind,
    "aten.cat": read_cat,
    "aten.constant_pad_nd": read_pad,
    "aten.repeat": read_repeat,
    "aten.embedding": read_embedding,
    "aten.index_select": read_index_select,
    "aten.index": read_index,
    "aten.gather": read_gather,
}
