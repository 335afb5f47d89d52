"""Functions of cuda.tile that work on elements or on shapes.

Floating-point arithmetic is done in the carrier and rounded to the dtype after each operation; whole numbers wrap
around. `rounding_mode` and `flush_to_zero` are accepted and change nothing: results are those of rounding to nearest.
Not here: reductions, scans and products (folding.py), memory (access.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np

from kernelwright.tile_interpreter import dtypes
from kernelwright.tile_interpreter.dtypes import Number
from kernelwright.tile_interpreter.findings import TileFault
from kernelwright.tile_interpreter.tiles import (
    INT,
    OPERATIONS,
    Operand,
    Tile,
    constant,
    joined_origin,
    kind_of,
    made,
    operation,
    shape_of,
    tile,
    whole,
)

# ------------------------------------------------------------------------ two operands


def pair(x: Operand, y: Operand, *, force_float: bool = False) -> tuple[Tile, Tile, Any]:
    """Returns two operands with their common type, and that type.

    Raises:
        TileFault: where types or shapes do not go together.
    """
    dtype = dtypes.promote(kind_of(x), kind_of(y), force_float=force_float)
    left, right = tile(x, dtype), tile(y, dtype)
    try:
        np.broadcast_shapes(left.shape, right.shape)
    except ValueError:
        raise TileFault("shape", f"Shapes are not broadcastable: {left.shape}, {right.shape}") from None
    return left, right, dtype


def _are_numbers(*operands: Operand) -> bool:
    return all(not isinstance(x, Tile) for x in operands)


def _binary(
    name: str, numpy: Callable[[Any, Any], Any], python: Callable[[Any, Any], Any], *, force_float: bool = False
) -> None:
    def compute(x: Operand, y: Operand, /, *, rounding_mode: Any = None, flush_to_zero: bool = False) -> Any:
        del rounding_mode, flush_to_zero
        if _are_numbers(x, y):
            return _python(python, x, y)
        left, right, dtype = pair(x, y, force_float=force_float)
        with np.errstate(all="ignore"):
            return made(numpy(left.data, right.data), dtype, joined_origin(left, right))

    OPERATIONS[name] = compute


def _python(function: Callable[..., Any], *numbers: Number) -> Any:
    try:
        return function(*numbers)
    except (ZeroDivisionError, ValueError, OverflowError) as error:
        raise TileFault("error", str(error)) from None


def _floor_divide(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iub":
        return np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y)))
    return np.floor(x / y)


def _modulo(x: Any, y: Any) -> Any:
    if x.dtype.kind in "iub":
        return np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y)))
    return np.mod(x, y)


def _add(x: Any, y: Any) -> Any:
    return x + y


_binary("add", _add, lambda x, y: x + y)
_binary("sub", lambda x, y: x - y, lambda x, y: x - y)
_binary("mul", lambda x, y: x * y, lambda x, y: x * y)
_binary("truediv", lambda x, y: x / y, lambda x, y: x / y, force_float=True)
_binary("floordiv", _floor_divide, lambda x, y: x // y)
_binary("mod", _modulo, lambda x, y: x % y)
_binary("pow", lambda x, y: np.power(x, y), lambda x, y: x**y)
_binary("atan2", np.arctan2, math.atan2)
_binary("cdiv", lambda x, y: -_floor_divide(-x, y), lambda x, y: -((-x) // y))


def _extreme(name: str, ignoring_nan: Any, with_nan: Any, python: Any) -> None:
    def compute(x: Operand, y: Operand, /, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Any:
        del flush_to_zero
        if _are_numbers(x, y):
            return python(x, y)
        left, right, dtype = pair(x, y)
        chosen = with_nan if propagate_nan else ignoring_nan
        return made(chosen(left.data, right.data), dtype, joined_origin(left, right))

    OPERATIONS[name] = compute


_extreme("maximum", np.fmax, np.maximum, max)
_extreme("minimum", np.fmin, np.minimum, min)


def _comparison(name: str, numpy: Callable[[Any, Any], Any]) -> None:
    def compute(x: Operand, y: Operand, /) -> Any:
        if _are_numbers(x, y):
            return bool(numpy(x, y))
        left, right, _ = pair(x, y)
        return made(numpy(left.data, right.data), ct.bool_, joined_origin(left, right))

    OPERATIONS[name] = compute


for _name, _numpy in (("greater", np.greater), ("greater_equal", np.greater_equal), ("less", np.less),
                      ("less_equal", np.less_equal), ("equal", np.equal), ("not_equal", np.not_equal)):  # fmt: skip
    _comparison(_name, _numpy)


def _bitwise(name: str, numpy: Callable[[Any, Any], Any], python: Callable[[Any, Any], Any]) -> None:
    def compute(x: Operand, y: Operand, /) -> Any:
        if _are_numbers(x, y):
            return _python(python, x, y)
        kinds = [kind_of(operand) for operand in (x, y)]
        typed = [kind for kind in kinds if not isinstance(kind, bool | int | float)]
        if any(dtypes.is_float(kind) for kind in typed) or any(isinstance(kind, float) for kind in kinds):
            raise TileFault("dtype", "Bitwise operations require integers or booleans. Use ct.bitcast() for others")
        if len(typed) == 2 and typed[0] != typed[1] and "shift" not in name:
            raise TileFault("dtype", f"Bitwise operands must have same data type, got: {typed[0]} and {typed[1]}")
        left, right, dtype = pair(x, y)
        with np.errstate(all="ignore"):
            return made(numpy(left.data, right.data), dtype, joined_origin(left, right))

    OPERATIONS[name] = compute


_bitwise("bitwise_and", np.bitwise_and, lambda x, y: x & y)
_bitwise("bitwise_or", np.bitwise_or, lambda x, y: x | y)
_bitwise("bitwise_xor", np.bitwise_xor, lambda x, y: x ^ y)
_bitwise("bitwise_lshift", np.left_shift, lambda x, y: x << y)
_bitwise("bitwise_rshift", np.right_shift, lambda x, y: x >> y)


@operation()
def divmod_(x: Operand, y: Operand, /) -> tuple[Any, Any]:
    """ct.divmod."""
    return OPERATIONS["floordiv"](x, y), OPERATIONS["mod"](x, y)


@operation()
def where(cond: Operand, x: Operand, y: Operand, /) -> Tile:
    """ct.where; an undefined element that is not chosen makes nothing undefined."""
    choice = tile(cond)
    left, right, dtype = pair(x, y)
    try:
        shape = np.broadcast_shapes(choice.shape, left.shape, right.shape)
    except ValueError:
        shapes = f"{choice.shape}, {left.shape}, {right.shape}"
        raise TileFault("shape", f"Shapes are not broadcastable: {shapes}") from None
    taken = choice.data.astype(bool)
    origins = [np.broadcast_to(0 if one.origin is None else one.origin, shape) for one in (left, right)]
    origin = np.where(np.broadcast_to(taken, shape), *origins)
    if choice.origin is not None:
        origin = np.maximum(origin, choice.origin)
    return made(np.where(taken, left.data, right.data), dtype, origin)


# ------------------------------------------------------------------------- one operand


def _unary(name: str, numpy: Callable[[Any], Any], python: Callable[[Any], Any], *, floats_only: bool = True) -> None:
    def compute(x: Operand, /, *, rounding_mode: Any = None, flush_to_zero: bool = False) -> Any:
        del rounding_mode, flush_to_zero
        if _are_numbers(x):
            return _python(python, x)
        given = tile(x)
        if floats_only and not dtypes.is_float(given.dtype):
            given = tile(given, ct.float32)
        with np.errstate(all="ignore"):
            return made(numpy(given.data), given.dtype, given.origin)

    OPERATIONS[name] = compute


for _name, _one, _number in (
    ("exp", np.exp, math.exp), ("exp2", np.exp2, lambda x: 2.0**x), ("log", np.log, math.log),
    ("log2", np.log2, math.log2),
    ("sqrt", np.sqrt, math.sqrt), ("sin", np.sin, math.sin), ("cos", np.cos, math.cos), ("tan", np.tan, math.tan),
    ("sinh", np.sinh, math.sinh), ("cosh", np.cosh, math.cosh), ("tanh", np.tanh, math.tanh),
    ("rsqrt", lambda x: 1 / np.sqrt(x), lambda x: x**-0.5),
):  # fmt: skip
    _unary(_name, _one, _number)
_unary("abs", np.abs, abs, floats_only=False)
_unary("negative", lambda x: -x, lambda x: -x, floats_only=False)


def _strict(name: str, numpy: Callable[[Any], Any], python: Callable[[Any], Any]) -> None:
    def compute(x: Operand, /) -> Any:
        if _are_numbers(x):
            return python(x)
        if not dtypes.is_float(x.dtype):
            raise TileFault("dtype", f"ct.{name} of {x.dtype}: only floats are supported")
        return made(numpy(x.data), x.dtype, x.origin)

    OPERATIONS[name] = compute


_strict("floor", np.floor, math.floor)
_strict("ceil", np.ceil, math.ceil)


@operation()
def isnan(x: Operand, /) -> Any:
    """ct.isnan."""
    if _are_numbers(x):
        return math.isnan(x)
    return made(np.isnan(x.data) if dtypes.is_float(x.dtype) else np.zeros(x.shape, bool), ct.bool_, x.origin)


@operation()
def bitwise_not(x: Operand, /) -> Any:
    """ct.bitwise_not."""
    if _are_numbers(x):
        return not x if isinstance(x, bool) else ~x
    if dtypes.is_float(x.dtype):
        raise TileFault("dtype", f"ct.bitwise_not of {x.dtype}")
    return made(np.invert(x.data), x.dtype, x.origin)


@operation()
def astype(x: Operand, dtype: Any, /, *, rounding_mode: Any = None) -> Tile:
    """ct.astype, rounding to nearest."""
    if rounding_mode is not None and getattr(rounding_mode, "name", "RN") != "RN":
        raise TileFault("uncovered", f"ct.astype with rounding_mode={rounding_mode} is not covered by the interpreter")
    return tile(x, native_dtype(dtype))


@operation()
def bitcast(x: Operand, /, dtype: Any) -> Tile:
    """ct.bitcast."""
    given, wanted = tile(x), native_dtype(dtype)
    bits = np.ascontiguousarray(dtypes.encode(given.data, given.dtype))
    if bits.dtype.itemsize * 8 != wanted.bitwidth:
        raise TileFault("dtype", f"ct.bitcast from {given.dtype} to {wanted}, which has another size")
    storage = np.dtype(dtypes.STORAGE.get(wanted, dtypes.CARRIERS[wanted]))
    return Tile(dtypes.decode(bits.view(storage).reshape(given.shape), wanted), wanted, given.origin)


def native_dtype(dtype: Any) -> Any:
    """Returns cuda.tile's dtype behind what a kernel may write for one.

    Raises:
        TileFault: for what is no dtype, or none that the interpreter carries.
    """
    found = getattr(dtype, "native", dtype)
    if found not in dtypes.CARRIERS:
        by_name = getattr(
            ct, getattr(found, "__name__", str(found)).removeprefix("torch.").replace("bool", "bool_"), None
        )
        found = by_name if by_name in dtypes.CARRIERS else found
    if found not in dtypes.CARRIERS:
        raise TileFault("uncovered", f"the dtype {dtype} is not covered by the interpreter")
    return found


# ------------------------------------------------------------------------------ making


@operation()
def full(shape: Any, fill_value: Operand, dtype: Any) -> Tile:
    """ct.full."""
    value = tile(fill_value, native_dtype(dtype))
    if value.ndim:
        raise TileFault("shape", f"ct.full with a tile of shape {value.shape}; a scalar is needed")
    sizes = shape_of(shape)
    origin = None if value.origin is None else np.broadcast_to(value.origin, sizes)
    return Tile(np.broadcast_to(value.data, sizes), value.dtype, origin)


@operation()
def zeros(shape: Any, dtype: Any) -> Tile:
    """ct.zeros."""
    return full(shape, 0, dtype)  # type: ignore[no-any-return]


@operation()
def ones(shape: Any, dtype: Any) -> Tile:
    """ct.ones."""
    return full(shape, 1, dtype)  # type: ignore[no-any-return]


@operation()
def arange(size: int, /, *, dtype: Any, start: Operand = 0, step: Operand = 1) -> Tile:
    """ct.arange."""
    (count,) = shape_of(constant(size, "the size of ct.arange"))
    first, by = tile(start), tile(step)
    with np.errstate(all="ignore"):
        values = first.data + np.arange(count) * by.data
    return made(values, native_dtype(dtype), joined_origin(first, by))


@operation()
def astile(value: Any, /, *, dtype: Any) -> Tile:
    """ct.astile of scalars and nested tuples of them."""

    def plain(item: Any) -> Any:
        if isinstance(item, tuple):
            shape_of(len(item))
            return [plain(inner) for inner in item]
        return item.data.item() if isinstance(item, Tile) else item

    try:
        return made(np.array(plain(value)), native_dtype(dtype))
    except ValueError:
        raise TileFault("shape", "ct.astile: the tuples at one level have different lengths") from None


# ------------------------------------------------------------------------------- shapes


def moved(x: Tile, change: Callable[[Any], Any]) -> Tile:
    """Returns a tile whose elements were moved, with their origins."""
    try:
        return Tile(change(x.data), x.dtype, None if x.origin is None else change(x.origin))
    except (ValueError, np.exceptions.AxisError) as error:
        raise TileFault("shape", f"shape {x.shape}: {error}") from None


@operation()
def reshape(x: Operand, /, shape: Any) -> Tile:
    """ct.reshape."""
    given = tile(x)
    items = shape if isinstance(shape, tuple | list) else (shape,)
    sizes = tuple(constant(item, "a size of ct.reshape") for item in items)
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or (known and given.data.size % known) or (-1 not in sizes and known != given.data.size):
        raise TileFault("shape", f"Cannot reshape {given.shape} to {sizes}")
    final = tuple(given.data.size // known if size == -1 else size for size in sizes)
    shape_of(final)
    return moved(given, lambda data: data.reshape(final))


@operation()
def broadcast_to(x: Operand, /, shape: Any) -> Tile:
    """ct.broadcast_to."""
    sizes = shape_of(shape)
    return moved(tile(x), lambda data: np.broadcast_to(data, sizes))


@operation()
def expand_dims(x: Operand, /, axis: Any) -> Tile:
    """ct.expand_dims."""
    given = tile(x)
    return moved(given, lambda data: np.expand_dims(data, constant(axis, "the axis")))


@operation()
def permute(x: Operand, /, axes: Any) -> Tile:
    """ct.permute."""
    order = tuple(constant(axis, "an axis of ct.permute") for axis in axes)
    return moved(tile(x), lambda data: np.transpose(data, order))


@operation()
def transpose(x: Operand, /, axis0: Any = None, axis1: Any = None) -> Tile:
    """ct.transpose."""
    given = tile(x)
    if axis0 is None and axis1 is None:
        if given.ndim != 2:
            raise TileFault("shape", f"ct.transpose of {given.ndim} dimensions needs two axes")
        axis0, axis1 = 0, 1
    if axis0 is None or axis1 is None:
        raise TileFault("shape", "ct.transpose needs both axes or none")
    return moved(given, lambda data: np.swapaxes(data, constant(axis0, "axis0"), constant(axis1, "axis1")))


@operation()
def cat(tiles: Any, /, axis: int) -> Tile:
    """ct.cat of two tiles."""
    if len(tiles) != 2 or tile(tiles[0]).shape != tile(tiles[1]).shape:
        raise TileFault("shape", "ct.cat takes two tiles of the same shape")
    left, right, dtype = pair(*tiles)
    origins = [np.zeros(one.shape, np.int32) if one.origin is None else one.origin for one in (left, right)]
    where_to = constant(axis, "the axis of ct.cat")
    return Tile(np.concatenate([left.data, right.data], where_to), dtype, np.concatenate(origins, where_to))


def _subtile(x: Tile, index: Any, sizes: tuple[int, ...]) -> tuple[slice, ...]:
    items = index if isinstance(index, tuple) else (index,)
    if len(items) != x.ndim or len(sizes) != x.ndim:
        raise TileFault("shape", f"an index of {len(items)} and a shape of {len(sizes)} for a tile of shape {x.shape}")
    found = []
    for item, size, extent in zip(items, sizes, x.shape, strict=True):
        at = whole(item, "an index")
        if extent % size or not 0 <= at < extent // size:
            raise TileFault("out-of-bounds", f"sub-tile {at} of {size} elements lies outside of {x.shape}")
        found.append(slice(at * size, (at + 1) * size))
    return tuple(found)


@operation()
def extract(x: Operand, /, index: Any, shape: Any) -> Tile:
    """ct.extract."""
    given = tile(x)
    part = _subtile(given, index, shape_of(shape))
    return moved(given, lambda data: data[part])


@operation()
def insert(x: Operand, /, index: Any, value: Operand) -> Tile:
    """ct.insert."""
    given = tile(x)
    new = tile(value, given.dtype)
    sizes = new.shape or (1,) * given.ndim
    part = _subtile(given, index, sizes)
    data = given.data.copy()
    data[part] = new.data.reshape(sizes)
    origin = np.zeros(given.shape, np.int32) if given.origin is None else given.origin.copy()
    origin[part] = 0 if new.origin is None else new.origin.reshape(sizes)
    return Tile(data, given.dtype, origin)


@operation()
def assume_divisible_by(x: Operand, divisor: int) -> Operand:
    """ct.assume_divisible_by; a claim that does not hold is a fault."""
    if whole(x, "x") % constant(divisor, "the divisor"):
        raise TileFault("assertion", f"{whole(x, 'x')} is not divisible by {divisor}, as ct.assume_divisible_by claims")
    return x if isinstance(x, Tile) else tile(x, INT)
