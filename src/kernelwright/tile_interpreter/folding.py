"""Functions of cuda.tile that fold elements together: reductions, scans, products of matrices.

Sums and products of floats are accumulated in float64 and rounded once; a device rounds after each step, in an order
that is its own. So results here are nearer to exact than a device's, and tolerances belong to whoever compares. Not
here: elementwise functions (operations.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np

from kernelwright.tile_interpreter import dtypes
from kernelwright.tile_interpreter.findings import TileFault
from kernelwright.tile_interpreter.operations import moved
from kernelwright.tile_interpreter.tiles import INT, OPERATIONS, Operand, Tile, constant, made, operation, tile


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    items = axis if isinstance(axis, tuple) else (axis,)
    found = []
    for item in items:
        number = constant(item, "an axis")
        if not -rank <= number < rank:
            raise TileFault("shape", f"axis {number} of a tile with {rank} dimensions")
        found.append(number % rank)
    return tuple(found)


def _folded_origin(x: Tile, axes: tuple[int, ...], keepdims: bool) -> Any:
    return None if x.origin is None else x.origin.max(axis=axes, keepdims=keepdims)


def _arithmetic(x: Operand) -> Tile:
    given = tile(x)
    return tile(given, INT) if given.dtype == ct.bool_ else given


def _fold(name: str, floats: Callable[..., Any], integers: Callable[..., Any]) -> None:
    def compute(
        x: Operand,
        /,
        axis: Any = None,
        *,
        keepdims: bool = False,
        rounding_mode: Any = None,
        flush_to_zero: bool = False,
    ) -> Tile:
        del rounding_mode, flush_to_zero
        given = _arithmetic(x)
        axes = _axes(axis, given.ndim)
        with np.errstate(all="ignore"):
            if dtypes.is_float(given.dtype):
                data = floats(given.data, axis=axes, keepdims=keepdims, dtype=np.float64)
            else:
                data = integers(given.data, axis=axes, keepdims=keepdims, dtype=given.data.dtype)
        return made(data, given.dtype, _folded_origin(given, axes, keepdims))

    OPERATIONS[name] = compute


_fold("sum", np.sum, np.sum)
_fold("prod", np.prod, np.prod)


def _extreme(name: str, ignoring_nan: Any, with_nan: Any) -> None:
    def compute(
        x: Operand,
        /,
        axis: Any = None,
        *,
        keepdims: bool = False,
        flush_to_zero: bool = False,
        propagate_nan: bool = False,
    ) -> Tile:
        del flush_to_zero
        given = _arithmetic(x)
        axes = _axes(axis, given.ndim)
        chosen = with_nan if propagate_nan else ignoring_nan
        data = chosen.reduce(given.data, axis=axes, keepdims=keepdims)
        return made(data, given.dtype, _folded_origin(given, axes, keepdims))

    OPERATIONS[name] = compute


_extreme("max", np.fmax, np.maximum)
_extreme("min", np.fmin, np.minimum)


def _place(name: str, best: Callable[..., Any], worst: float) -> None:
    def compute(x: Operand, /, axis: Any = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
        given = _arithmetic(x)
        if axis is None:
            flat = moved(given, lambda data: data.reshape(-1))
            place = compute(flat, 0, propagate_nan=propagate_nan)
            return moved(place, lambda data: data.reshape((1,) * given.ndim)) if keepdims else place
        (along,) = _axes(axis, given.ndim)
        data = given.data
        if dtypes.is_float(given.dtype):
            missing = np.isnan(data)
            data = np.where(missing, -worst if propagate_nan else worst, data)
            if propagate_nan and missing.any():  # a NaN beats even an infinity
                first = missing.argmax(axis=along)
                data = best(data, axis=along)
                data = np.where(missing.any(axis=along), first, data)
                data = np.expand_dims(data, along) if keepdims else data
                return made(data, INT, _folded_origin(given, (along,), keepdims))
        return made(best(data, axis=along, keepdims=keepdims), INT, _folded_origin(given, (along,), keepdims))

    OPERATIONS[name] = compute


_place("argmax", np.argmax, -np.inf)
_place("argmin", np.argmin, np.inf)


def _running(name: str, numpy: Any) -> None:
    def compute(
        x: Operand, /, axis: Any = 0, *, reverse: bool = False, rounding_mode: Any = None, flush_to_zero: bool = False
    ) -> Tile:
        del rounding_mode, flush_to_zero
        given = _arithmetic(x)
        (along,) = _axes(axis, given.ndim)
        wide = given.data.astype(np.float64) if dtypes.is_float(given.dtype) else given.data
        origin = given.origin
        if reverse:
            wide = np.flip(wide, along)
            origin = None if origin is None else np.flip(origin, along)
        with np.errstate(all="ignore"):
            data = numpy.accumulate(wide, axis=along, dtype=wide.dtype)
        origin = None if origin is None else np.maximum.accumulate(origin, axis=along)
        if reverse:
            data = np.flip(data, along)
            origin = None if origin is None else np.flip(origin, along)
        return made(data, given.dtype, origin)

    OPERATIONS[name] = compute


_running("cumsum", np.add)
_running("cumprod", np.multiply)


# --------------------------------------------------------------------- the author's functions


def _several(x: Any) -> tuple[list[Tile], bool]:
    items = [tile(item) for item in (x if isinstance(x, tuple) else (x,))]
    try:
        shape = np.broadcast_shapes(*(item.shape for item in items))
    except ValueError:
        raise TileFault("shape", "the tiles are not broadcastable to a common shape") from None
    return [moved(item, lambda data: np.broadcast_to(data, shape)) for item in items], isinstance(x, tuple)


def _slices(tiles: list[Tile], axis: int, at: int) -> tuple[Tile, ...]:
    return tuple(moved(one, lambda data: np.take(data, at, axis=axis)) for one in tiles)


def _steps(
    x: Any, axis: Any, func: Callable[..., Any], *, reverse: bool
) -> tuple[list[tuple[Tile, ...]], list[Tile], int, bool]:
    """The running results along an axis, in the order of the axis."""
    tiles, is_tuple = _several(x)
    (along,) = _axes(axis, tiles[0].ndim)
    order = range(tiles[0].shape[along])
    results: list[tuple[Tile, ...]] = []
    for at in reversed(order) if reverse else order:
        new = _slices(tiles, along, at)
        if results:
            combined = func(*results[-1], *new)
            new = tuple(tile(one) for one in (combined if isinstance(combined, tuple) else (combined,)))
            for one, like in zip(new, tiles, strict=True):
                if one.dtype != like.dtype:
                    raise TileFault("dtype", f"the combining function returns {one.dtype} for {like.dtype}")
        results.append(new)
    return (results[::-1] if reverse else results), tiles, along, is_tuple


@operation()
def reduce(x: Any, /, axis: int, func: Callable[..., Any], identity: Any, *, keepdims: bool = False) -> Any:
    """ct.reduce; the function is called on slices, whose elements it must treat alike."""
    del identity
    steps, _, along, is_tuple = _steps(x, axis, func, reverse=False)
    last = steps[-1]
    if keepdims:
        last = tuple(moved(one, lambda data: np.expand_dims(data, along)) for one in last)
    return last if is_tuple else last[0]


@operation()
def scan(x: Any, /, axis: int, func: Callable[..., Any], identity: Any, *, reverse: bool = False) -> Any:
    """ct.scan; the function is called on slices, whose elements it must treat alike."""
    del identity
    steps, tiles, along, is_tuple = _steps(x, axis, func, reverse=reverse)
    found = []
    for number, like in enumerate(tiles):
        data = np.stack([step[number].data for step in steps], along)
        origins: list[Any] = [0 if step[number].origin is None else step[number].origin for step in steps]
        origin = np.stack(
            [np.broadcast_to(one, step[number].shape) for one, step in zip(origins, steps, strict=True)], along
        )
        found.append(Tile(data, like.dtype, origin))
    return tuple(found) if is_tuple else found[0]


# ------------------------------------------------------------------------------- products


def _product(x: Tile, y: Tile) -> tuple[Any, Any]:
    """The exact product as float64 or int64, and where it is undefined."""
    wide = np.float64 if dtypes.is_float(x.dtype) else np.int64
    try:
        with np.errstate(all="ignore"):
            data = np.matmul(x.data.astype(wide), y.data.astype(wide))
    except ValueError as error:
        raise TileFault("shape", f"product of {x.shape} and {y.shape}: {error}") from None
    origin = None
    if x.origin is not None:
        origin = np.broadcast_to(x.origin.max(axis=-1, keepdims=True), data.shape)
    if y.origin is not None:
        columns = np.broadcast_to(y.origin.max(axis=-2, keepdims=True), data.shape)
        origin = columns if origin is None else np.maximum(origin, columns)
    return data, origin


@operation()
def mma(x: Tile, y: Tile, /, acc: Tile, *, use_fast_acc: bool = False) -> Tile:
    """ct.mma: operands as their dtype holds them, an exact sum, one rounding to the accumulator's dtype."""
    for name, one in (("x", x), ("y", y), ("acc", acc)):
        if not isinstance(one, Tile) or one.ndim < 2:
            raise TileFault("shape", f"Expect shape of `{name}` to be at least 2D, got {getattr(one, 'shape', one)}")
    dtypes.acc_of_mma(x.dtype, y.dtype, acc.dtype)
    if use_fast_acc and x.dtype not in (ct.float8_e4m3fn, ct.float8_e5m2):
        raise TileFault("dtype", f"use_fast_acc is only supported for fp8 input dtypes, got {x.dtype}")
    data, origin = _product(x, y)
    if data.shape != acc.shape:
        raise TileFault("shape", f"Expect acc shape to be {data.shape}, got {acc.shape}")
    if acc.origin is not None:
        origin = acc.origin if origin is None else np.maximum(origin, acc.origin)
    with np.errstate(all="ignore"):
        return made(data + acc.data, acc.dtype, origin)


@operation()
def matmul(x: Tile, y: Tile, /) -> Tile:
    """ct.matmul, also the operator @."""
    dtype = dtypes.promote(x.dtype, y.dtype)
    dtypes.acc_of_mma(dtype, dtype, None)
    left, right = tile(x, dtype), tile(y, dtype)
    if left.ndim == 1:
        left = moved(left, lambda data: data[None, :])
    if right.ndim == 1:
        right = moved(right, lambda data: data[:, None])
    data, origin = _product(left, right)
    result = made(data, dtype, origin)
    if x.ndim == 1:
        result = moved(result, lambda data: data[..., 0, :])
    return moved(result, lambda data: data[..., 0]) if y.ndim == 1 else result
