"""Functions of cuda.tile that touch global memory, and those that ask where a block is.

Not here: the account of who touched what (memory.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np

from kernelwright.tile_interpreter import dtypes
from kernelwright.tile_interpreter.context import run
from kernelwright.tile_interpreter.findings import Level, TileFault
from kernelwright.tile_interpreter.memory import Array
from kernelwright.tile_interpreter.tiles import (
    INT,
    OPERATIONS,
    Operand,
    Tile,
    constant,
    implicit,
    made,
    operation,
    shape_of,
    tile,
    whole,
)

PADDINGS = {"ZERO": 0.0, "NEG_ZERO": -0.0, "NAN": float("nan"), "POS_INF": float("inf"), "NEG_INF": float("-inf")}
ORDERED = ("ACQUIRE", "ACQ_REL"), ("RELEASE", "ACQ_REL")


@operation()
def bid(axis: int) -> Tile:
    """ct.bid."""
    return made(np.asarray(run().block[constant(axis, "the axis of ct.bid")]), INT)


@operation()
def num_blocks(axis: int) -> Tile:
    """ct.num_blocks."""
    return made(np.asarray(run().grid[constant(axis, "the axis of ct.num_blocks")]), INT)


@operation()
def num_tiles(array: Array, /, axis: int, shape: Any, order: Any = "C") -> Tile:
    """ct.num_tiles."""
    sizes = shape_of(shape, rank=array.ndim)
    along = constant(axis, "the axis of ct.num_tiles")
    extent = array.sizes[_order(order, array.ndim)[along]]
    return made(np.asarray(-(-extent // sizes[along])), INT)


def _order(order: Any, rank: int) -> tuple[int, ...]:
    found = (
        {"C": tuple(range(rank)), "F": tuple(reversed(range(rank)))}.get(order)
        if isinstance(order, str)
        else tuple(order)
    )
    if found is None or sorted(found) != list(range(rank)):
        raise TileFault("shape", f"order={order!r} is no order of {rank} axes")
    return found


def _indices(array: Array, index: Any) -> tuple[int, ...]:
    if not isinstance(array, Array):
        raise TileFault("dtype", f"a {type(array).__name__} is no array")
    items = index if isinstance(index, tuple | list) else (index,)
    if len(items) != array.ndim:
        raise TileFault("shape", f"Index size {len(items)} does not match the array rank {array.ndim}")
    return tuple(whole(item, "an index") for item in items)


# ---------------------------------------------------------------------- tiles of an array


class _Window:
    """The elements of an array that a tile covers."""

    def __init__(self, array: Array, origins: tuple[int, ...], sizes: tuple[int, ...], order: tuple[int, ...]) -> None:
        self.array, self.sizes = array, sizes
        along: list[Any] = [None] * array.ndim
        inside = np.ones(sizes, bool)
        self.is_outside = False
        for tile_axis, array_axis in enumerate(order):
            places = origins[tile_axis] + np.arange(sizes[tile_axis], dtype=np.int64)
            view = [1] * len(sizes)
            view[tile_axis] = -1
            fits = (places >= 0) & (places < array.sizes[array_axis])
            self.is_outside |= not fits.any()
            inside = inside & fits.reshape(view)
            along[array_axis] = np.clip(places, 0, max(array.sizes[array_axis] - 1, 0)).reshape(view)
        self.inside = inside
        self.flat = None if self.is_outside else np.broadcast_to(array.flat(tuple(along)), sizes)

    def check(self, what: str, origins: tuple[int, ...], *, check_bounds: bool) -> None:
        """Reports a tile that lies outside, or partly outside where the kernel promised it would not."""
        memory = self.array.memory
        if self.is_outside:
            message = (
                f"{what} a tile of shape {self.sizes} at element {list(origins)}, entirely outside of {memory.name} "
                f"{list(self.array.sizes)}: undefined; let the grid and loops end at ct.num_tiles or ct.cdiv"
            )
            run().report("out-of-bounds", "error", message, about=memory.name)
        elif not check_bounds and not self.inside.all():
            message = (
                f"{what} a tile of shape {self.sizes} at element {list(origins)}, partly outside of {memory.name} "
                f"{list(self.array.sizes)}, with check_bounds=False: undefined"
            )
            run().report("out-of-bounds", "error", message, about=memory.name)


def _load_window(window: _Window, padding_mode: Any, *, atomic: bool = False) -> Tile:
    memory = window.array.memory
    dtype = memory.dtype
    _, line = run().place()
    mode = getattr(padding_mode, "name", "UNDETERMINED") if padding_mode is not None else "UNDETERMINED"
    if window.flat is None:
        return made(np.full(window.sizes, dtypes.poison(dtype)), dtype, np.full(window.sizes, line, np.int32))
    filler = PADDINGS[mode] if mode in PADDINGS else dtypes.poison(dtype)
    touched = window.flat[window.inside]
    values = np.full(window.sizes, tile(filler, dtype).data, dtypes.CARRIERS[dtype])
    values[window.inside] = memory.read(touched)
    memory.note_read(touched, atomic=atomic)
    origin = np.zeros(window.sizes, np.int32)
    if mode not in PADDINGS:
        origin[~window.inside] = line
    if memory.is_output:
        unwritten = window.inside & ~memory.written[window.flat]
        values[unwritten] = dtypes.poison(dtype)
        origin[unwritten] = line
    return Tile(values, dtype, origin)


def _store_window(window: _Window, value: Tile, *, atomic: bool = False) -> None:
    memory = window.array.memory
    try:
        data = np.broadcast_to(value.data, window.sizes)
    except ValueError:
        raise TileFault("shape", f"a tile of shape {value.shape} is stored where {window.sizes} is expected") from None
    if window.flat is None:
        return
    touched = window.flat[window.inside]
    _report_undefined(value, window.inside, memory.name)
    memory.note_write(touched, atomic=atomic)
    memory.write(touched, data[window.inside])


def _report_undefined(value: Tile, stored: Any, name: str) -> None:
    if value.origin is None:
        return
    origin = np.broadcast_to(value.origin, stored.shape)[stored]
    bad = origin[origin > 0]
    if bad.size:
        line = int(bad[0])
        message = (
            f"values stored to {name} are undefined: they come from line {line}, which reads outside an array "
            "without a padding mode, or what was never written"
        )
        run().report("undefined", "error", message, other_line=line, count=int(bad.size), about=name)


@operation()
def load(
    array: Array, /, index: Any, shape: Any, *, order: Any = "C", padding_mode: Any = None, check_bounds: bool = True,
    latency: Any = None, allow_tma: Any = None, memory_order: Any = None, memory_scope: Any = None,
) -> Tile:  # fmt: skip
    """ct.load."""
    del latency, allow_tma, memory_scope
    places = _indices(array, index)
    sizes = shape_of(shape, rank=array.ndim) or (1,) * array.ndim
    origins = tuple(place * size for place, size in zip(places, sizes, strict=True))
    window = _Window(array, origins, sizes, _order(order, array.ndim))
    window.check("loads", origins, check_bounds=check_bounds)
    strong = _is_strong(memory_order)
    if strong and window.flat is not None:
        array.memory.synchronise(window.flat[window.inside], acquires=_name(memory_order) in ORDERED[0], releases=False)
    return _load_window(window, padding_mode, atomic=strong)


@operation()
def store(
    array: Array, /, index: Any, tile: Operand, *, order: Any = "C", check_bounds: bool = True, latency: Any = None,
    allow_tma: Any = None, memory_order: Any = None, memory_scope: Any = None,
) -> None:  # fmt: skip
    """ct.store."""
    del latency, allow_tma, memory_scope
    places = _indices(array, index)
    value = implicit(tile, array.dtype, "Stored tile is incompatible with array's dtype")
    sizes = value.shape or (1,) * array.ndim
    if len(sizes) != array.ndim:
        raise TileFault("shape", f"a tile of shape {sizes} is stored into an array of rank {array.ndim}")
    origins = tuple(place * size for place, size in zip(places, sizes, strict=True))
    window = _Window(array, origins, sizes, _order(order, array.ndim))
    window.check("stores", origins, check_bounds=check_bounds)
    _store_window(window, value, atomic=_is_strong(memory_order))
    if _is_strong(memory_order) and window.flat is not None:
        array.memory.synchronise(window.flat[window.inside], acquires=False, releases=_name(memory_order) in ORDERED[1])


def _name(memory_order: Any) -> str:
    return getattr(memory_order, "name", "WEAK") if memory_order is not None else "WEAK"


def _is_strong(memory_order: Any) -> bool:
    return _name(memory_order) != "WEAK"


class TiledView:
    """What ct.Array.tiled_view returns."""

    def __init__(self, array: Array, tile_shape: Any, padding_mode: Any, traversal_steps: Any) -> None:
        self.array = array
        self.tile_shape = shape_of(tile_shape, rank=array.ndim) or (1,) * array.ndim
        steps = traversal_steps if traversal_steps is not None else self.tile_shape
        self.traversal_steps = tuple(constant(step, "a traversal step") for step in steps)
        self.padding_mode = padding_mode

    @property
    def dtype(self) -> Any:
        """The elements' type."""
        return self.array.dtype

    def num_tiles(self, axis: int) -> Tile:
        """Tiles along an axis."""
        along = constant(axis, "the axis")
        return made(np.asarray(-(-self.array.sizes[along] // self.traversal_steps[along])), INT)

    def _window(self, index: Any, what: str, check_bounds: bool) -> _Window:
        places = _indices(self.array, index)
        origins = tuple(place * step for place, step in zip(places, self.traversal_steps, strict=True))
        window = _Window(self.array, origins, self.tile_shape, tuple(range(self.array.ndim)))
        window.check(what, origins, check_bounds=check_bounds)
        return window

    def load(self, index: Any, *, check_bounds: bool = True, latency: Any = None, allow_tma: Any = None) -> Tile:
        """See ct.TiledView.load."""
        del latency, allow_tma
        return _load_window(self._window(index, "loads", check_bounds), self.padding_mode)

    def store(
        self, index: Any, tile: Operand, *, check_bounds: bool = True, latency: Any = None, allow_tma: Any = None
    ) -> None:
        """See ct.TiledView.store."""
        del latency, allow_tma
        value = implicit(tile, self.dtype, "Stored tile is incompatible with the view's dtype")
        _store_window(self._window(index, "stores", check_bounds), value)

    def __getattr__(self, name: str) -> Any:
        kind = name.removeprefix("atomic_store_")
        if not name.startswith("atomic_store_") or kind not in UPDATES:
            raise TileFault("uncovered", f"the interpreter does not cover TiledView.{name}")

        def update(index: Any, value: Operand, /) -> None:
            window = self._window(index, "updates", True)
            if window.flat is not None:
                new = implicit(value, self.dtype, "Update is incompatible with the view's dtype")
                data = np.broadcast_to(new.data, window.sizes)[window.inside]
                _report_undefined(new, window.inside, self.array.memory.name)
                _update(self.array, window.flat[window.inside], data, UPDATES[kind], ct.MemoryOrder.RELAXED)

        return update


OPERATIONS["Array.tiled_view"] = TiledView

# -------------------------------------------------------------------- elements of an array


class _Places:
    """The elements of an array that index tiles name."""

    def __init__(self, array: Array, indices: Any, mask: Any, *, check_bounds: bool, what: str) -> None:
        if not isinstance(array, Array):
            raise TileFault("dtype", f"a {type(array).__name__} is no array")
        items = [tile(item) for item in (indices if isinstance(indices, tuple | list) else (indices,))]
        if len(items) != array.ndim:
            raise TileFault(
                "shape", f"For array of rank {array.ndim}, `indices` must be a tuple of length {array.ndim}"
            )
        for item in items:
            if not dtypes.is_integral(item.dtype):
                raise TileFault("dtype", f"Index has non-integer data type {item.dtype}")
        try:
            self.shape = np.broadcast_shapes(*(item.shape for item in items))
        except ValueError:
            raise TileFault("shape", "Index shapes are not broadcastable to a common shape") from None
        spread = [np.broadcast_to(item.data, self.shape).astype(np.int64) for item in items]
        self.wanted = self.mask(mask)
        inside = np.ones(self.shape, bool)
        for places, size in zip(spread, array.sizes, strict=True):
            inside &= (places >= 0) & (places < size)
        self.live = self.wanted & inside
        self.lost = self.wanted & ~inside
        clipped = tuple(np.clip(p, 0, max(size - 1, 0)) for p, size in zip(spread, array.sizes, strict=True))
        self.flat = (
            np.broadcast_to(array.flat(clipped), self.shape) if all(array.sizes) else np.zeros(self.shape, np.int64)
        )
        for item in items:
            if item.origin is not None and np.broadcast_to(item.origin > 0, self.shape)[self.wanted].any():
                line = int(item.origin.max())
                message = f"indices into {array.memory.name} are undefined: they come from line {line}"
                run().report("undefined", "error", message, other_line=line, about=array.memory.name)
        if self.lost.any():
            first = [int(p[tuple(np.argwhere(self.lost)[0])]) for p in spread]
            where = f"index {first} into {array.memory.name} {list(array.sizes)}"
            count = int(self.lost.sum())
            level: Level = "note" if check_bounds else "error"
            end = "skipped, since bounds are checked" if check_bounds else "undefined with check_bounds=False"
            run().report("out-of-bounds", level, f"{what} with {where}: {end}", count=count, about=array.memory.name)

    def mask(self, mask: Any) -> Any:
        """A custom mask, spread over the indices."""
        if mask is None:
            return np.ones(self.shape, bool)
        given = tile(mask)
        if given.dtype != ct.bool_:
            raise TileFault("dtype", f"Custom mask must have boolean dtype, but got {given.dtype}")
        return self.spread(given, "Custom mask")

    def spread(self, value: Tile, what: str) -> Any:
        """A value's elements, spread over the indices."""
        try:
            return np.broadcast_to(value.data, self.shape)
        except ValueError:
            raise TileFault(
                "shape", f"{what} shape {value.shape} is not broadcastable to the index shape {self.shape}"
            ) from None


@operation()
def gather(
    array: Array, indices: Any, /, *, mask: Any = None, padding_value: Operand = 0, check_bounds: bool = True,
    latency: Any = None,
) -> Tile:  # fmt: skip
    """ct.gather."""
    del latency
    places = _Places(array, indices, mask, check_bounds=check_bounds, what="gathers")
    memory = array.memory
    filler = implicit(padding_value, memory.dtype, "padding_value is incompatible with array's dtype")
    values = np.array(places.spread(filler, "padding_value"), dtypes.CARRIERS[memory.dtype])
    origin = np.zeros(places.shape, np.int32)
    _, line = run().place()
    touched = places.flat[places.live]
    values[places.live] = memory.read(touched)
    memory.note_read(touched)
    if not check_bounds:
        values[places.lost], origin[places.lost] = dtypes.poison(memory.dtype), line
    if memory.is_output:
        unwritten = places.live & ~memory.written[places.flat]
        values[unwritten], origin[unwritten] = dtypes.poison(memory.dtype), line
    return Tile(values, memory.dtype, origin)


@operation()
def scatter(
    array: Array, indices: Any, value: Operand, /, *, mask: Any = None, check_bounds: bool = True, latency: Any = None
) -> None:
    """ct.scatter."""
    del latency
    places = _Places(array, indices, mask, check_bounds=check_bounds, what="scatters")
    memory = array.memory
    new = implicit(value, memory.dtype, "Stored value is incompatible with array's dtype")
    data = places.spread(new, "Value")[places.live]
    touched = places.flat[places.live]
    _report_undefined(new, places.live, memory.name)
    _report_twice(touched, data, memory.name)
    memory.note_write(touched)
    memory.write(touched, data)


def _report_twice(touched: Any, data: Any, name: str) -> None:
    order = np.argsort(touched, kind="stable")
    same = touched[order][1:] == touched[order][:-1]
    differs = same & (data[order][1:] != data[order][:-1])
    if differs.any():
        message = (
            f"two elements of one scatter write different values to the same element of {name}: which one stays is open"
        )
        run().report("race", "error", message, count=int(differs.sum()), about=name)


# -------------------------------------------------------------------------------- atomics

UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, new: old + new, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "xchg": lambda old, new: new,
}  # fmt: skip
WHOLE = (ct.int32, ct.int64, ct.uint32, ct.uint64)
FLOATS = {"add": (ct.float16, ct.bfloat16, ct.float32, ct.float64), "xchg": (ct.float32, ct.float64)}


def _update(array: Array, touched: Any, data: Any, change: Callable[[Any, Any], Any], memory_order: Any) -> Any:
    """Changes elements one after the other and returns what they were."""
    memory = array.memory
    order = _name(memory_order)
    memory.synchronise(touched, acquires=order in ORDERED[0], releases=False)
    memory.note_read(touched, atomic=True)
    memory.note_write(touched, atomic=True)
    old = np.empty(touched.shape, dtypes.CARRIERS[memory.dtype])
    with np.errstate(all="ignore"):
        if np.unique(touched).size == touched.size:
            old[...] = memory.read(touched)
            memory.write(touched, dtypes.round_to(np.asarray(change(old, data)), memory.dtype))
        else:
            for position, place in enumerate(touched):
                at = np.asarray([place])
                old[position] = memory.read(at)[0]
                new = np.asarray(change(old[position : position + 1], data[position : position + 1]))
                memory.write(at, dtypes.round_to(new, memory.dtype))
    memory.synchronise(touched, acquires=False, releases=order in ORDERED[1])
    return old


def _atomic(kind: str) -> None:
    def compute(
        array: Array, indices: Any, update: Operand, /, *, check_bounds: bool = True,
        memory_order: Any = ct.MemoryOrder.ACQ_REL, memory_scope: Any = None,
    ) -> Tile:  # fmt: skip
        del memory_scope
        dtype = array.dtype
        if dtype not in WHOLE and dtype not in FLOATS.get(kind, ()):
            raise TileFault("dtype", f"ct.atomic_{kind}: Unsupported array dtype: {dtype}")
        places = _Places(array, indices, None, check_bounds=check_bounds, what="updates")
        new = implicit(update, dtype, "Update is incompatible with the target dtype")
        data = places.spread(new, "Update")
        _report_undefined(new, places.live, array.memory.name)
        result = np.zeros(places.shape, dtypes.CARRIERS[dtype])
        result[places.live] = _update(array, places.flat[places.live], data[places.live], UPDATES[kind], memory_order)
        return Tile(result, dtype)

    OPERATIONS[f"atomic_{kind}"] = compute


for _kind in UPDATES:
    _atomic(_kind)


@operation()
def atomic_cas(
    array: Array, indices: Any, expected: Operand, desired: Operand, /, *, check_bounds: bool = True,
    memory_order: Any = ct.MemoryOrder.ACQ_REL, memory_scope: Any = None,
) -> Tile:  # fmt: skip
    """ct.atomic_cas."""
    del memory_scope
    places = _Places(array, indices, None, check_bounds=check_bounds, what="updates")
    old_value, new_value = (
        implicit(x, array.dtype, "Value is incompatible with the target dtype") for x in (expected, desired)
    )
    wanted = places.spread(old_value, "Expected")
    both = np.stack([wanted[places.live], places.spread(new_value, "Desired")[places.live]], -1)
    result = np.array(wanted)
    result[places.live] = _update(
        array,
        places.flat[places.live],
        both,
        lambda old, pair: np.where(old == pair[..., 0], pair[..., 1], old),
        memory_order,
    )
    return Tile(result, array.dtype)
