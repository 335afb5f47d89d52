"""Element types of cuda.tile on NumPy: what carries them, how they round, how two of them become one.

Formats that NumPy lacks (bfloat16, tfloat32, 8-bit floats) are carried as float32 and rounded to the format after every
operation: to nearest, ties to even, as PTX `cvt.rn` does; 8-bit floats saturate, as `cvt.rn.satfinite` does.
Promotion follows cuda.tile's own table (cuda.tile._datatype.promote_dtypes, 1.7); a Python number has no type of its
own and takes the tile's unless its kind (bool < int < float) is stronger. Not here: operations on tiles
(operations.py).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import cuda.tile as ct
import numpy as np
from cuda.tile import _datatype as native

from kernelwright.tile_interpreter.findings import TileFault

Dtype = Any
"""A cuda.tile DType."""
Number = bool | int | float
CARRIERS: dict[Dtype, Any] = {
    ct.bool_: np.bool_, ct.int8: np.int8, ct.int16: np.int16, ct.int32: np.int32, ct.int64: np.int64,
    ct.uint8: np.uint8, ct.uint16: np.uint16, ct.uint32: np.uint32, ct.uint64: np.uint64,
    ct.float16: np.float16, ct.float32: np.float32, ct.float64: np.float64, ct.bfloat16: np.float32,
    ct.tfloat32: np.float32, ct.float8_e4m3fn: np.float32, ct.float8_e5m2: np.float32,
}  # fmt: skip
"""The NumPy type that carries each."""
BY_NUMPY: dict[Any, Dtype] = {
    np.dtype(carrier): dtype for dtype, carrier in CARRIERS.items()
    if dtype not in (ct.bfloat16, ct.tfloat32, ct.float8_e4m3fn, ct.float8_e5m2)
}  # fmt: skip
STORAGE = {ct.bfloat16: np.uint16, ct.float8_e4m3fn: np.uint8, ct.float8_e5m2: np.uint8, ct.tfloat32: np.float32}
"""What an array of a carried format holds: the bits."""


class Format(NamedTuple):
    """A binary floating-point format."""

    mantissa_bits: int
    lowest_exponent: int
    largest: float
    saturates: bool


FORMATS = {
    ct.bfloat16: Format(7, -126, float.fromhex("0x1.fep127"), saturates=False),
    ct.tfloat32: Format(10, -126, float.fromhex("0x1.ffcp127"), saturates=False),
    ct.float8_e4m3fn: Format(3, -6, 448.0, saturates=True),
    ct.float8_e5m2: Format(2, -14, 57344.0, saturates=True),
}


def round_to(values: Any, dtype: Dtype) -> Any:
    """Returns an array in a dtype's carrier, rounded to the dtype.

    Args:
        values: an array of any type.
        dtype: what its elements become.
    """
    carrier = CARRIERS[dtype]
    if dtype not in FORMATS:
        if native.is_integral(dtype) and values.dtype.kind == "f":
            return _truncated(values, carrier)
        return values.astype(carrier, copy=False)
    form = FORMATS[dtype]
    wide = np.asarray(values, np.float64)
    finite = np.isfinite(wide)
    safe = np.where(finite, wide, 0.0)
    _, exponent = np.frexp(safe)
    quantum = np.ldexp(1.0, np.maximum(exponent - 1, form.lowest_exponent) - form.mantissa_bits)
    rounded = np.rint(safe / quantum) * quantum
    limit = form.largest if form.saturates else np.inf
    rounded = np.where(np.abs(rounded) > form.largest, np.copysign(limit, rounded), rounded)
    if form.saturates:
        wide = np.where(np.isinf(wide), np.copysign(form.largest, wide), wide)
    return np.where(finite, rounded, wide).astype(carrier)


def _truncated(values: Any, carrier: Any) -> Any:
    """Floats to whole numbers towards zero, saturated, NaN to zero, as PTX `cvt.rzi` does."""
    info = np.iinfo(carrier)
    whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.clip(whole, float(info.min), float(info.max))
    with np.errstate(invalid="ignore"):
        result = inside.astype(carrier)
    return np.where(whole >= float(info.max), info.max, np.where(whole <= float(info.min), info.min, result)).astype(
        carrier
    )


def decode(bits: Any, dtype: Dtype) -> Any:
    """Returns the values behind an array's storage."""
    if dtype == ct.bfloat16:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype in (ct.float8_e4m3fn, ct.float8_e5m2):
        return _table(dtype)[bits]
    return bits


def encode(values: Any, dtype: Dtype) -> Any:
    """Returns the storage of values that are rounded to the dtype."""
    if dtype == ct.bfloat16:
        return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if dtype in (ct.float8_e4m3fn, ct.float8_e5m2):
        positive = _table(dtype)[:128]
        finite = np.isfinite(positive)
        code = np.searchsorted(positive[finite], np.abs(np.nan_to_num(values))).astype(np.uint8)
        code = np.where(np.isnan(values), 127, code).astype(np.uint8)
        return code | (np.signbit(values).astype(np.uint8) << 7)
    return values


@functools.cache
def _table(dtype: Dtype) -> Any:
    """All 256 values of an 8-bit float (OCP 8-bit floating point specification 1.0)."""
    form = FORMATS[dtype]
    bias = 1 - form.lowest_exponent
    found = []
    for code in range(256):
        exponent, mantissa = (code & 127) >> form.mantissa_bits, code & ((1 << form.mantissa_bits) - 1)
        scale = 2.0 ** (max(exponent, 1) - bias - form.mantissa_bits)
        magnitude = ((1 << form.mantissa_bits if exponent else 0) + mantissa) * scale
        if magnitude > form.largest:
            is_infinity = dtype == ct.float8_e5m2 and mantissa == 0
            magnitude = np.inf if is_infinity else np.nan
        found.append(-magnitude if code & 128 else magnitude)
    return np.array(found, np.float32)


# ------------------------------------------------------------------------------ promotion


def dtype_of_number(number: Number) -> Dtype:
    """Returns the type that a Python number has where nothing gives it one."""
    if isinstance(number, bool):
        return ct.bool_
    if isinstance(number, int):
        return ct.int32 if -(1 << 31) <= number < 1 << 31 else ct.int64
    return ct.float32


def promote(x: Dtype | Number, y: Dtype | Number, *, force_float: bool = False) -> Dtype:
    """Returns the common type of two operands; a Python number stands for itself.

    Raises:
        TileFault: where cuda.tile has none.
    """
    loose_x, loose_y = (isinstance(given, bool | int | float) for given in (x, y))
    if loose_x and loose_y:
        x, y = dtype_of_number(x), dtype_of_number(y)
    elif loose_x:
        return _with_number(y, x, force_float)
    elif loose_y:
        return _with_number(x, y, force_float)
    try:
        return native.promote_dtypes(x, y, force_float)
    except ct.TileTypeError as error:
        raise TileFault("dtype", error.message) from None


def _with_number(dtype: Dtype, number: Number, force_float: bool) -> Dtype:
    strength = {"bool": 0, "int": 1, "float": 2}
    of_dtype = "bool" if dtype == ct.bool_ else "int" if native.is_integral(dtype) else "float"
    of_number = type(number).__name__
    if of_dtype == of_number == "int" and not force_float:
        info = np.iinfo(CARRIERS[dtype])
        if not info.min <= number <= info.max:
            raise TileFault("dtype", f"Integer constant {number} is out of range of {dtype}")
    chosen = dtype_of_number(number) if strength[of_number] > strength[of_dtype] else dtype
    return chosen if not force_float or native.is_float(chosen) else ct.float32


def may_become(source: Dtype | Number, target: Dtype) -> bool:
    """Returns whether cuda.tile converts one type to another without being asked."""
    if isinstance(source, bool | int | float):
        strength = {"bool": 0, "int": 1, "float": 2}
        of_target = "bool" if target == ct.bool_ else "int" if native.is_integral(target) else "float"
        return strength[type(source).__name__] <= strength[of_target]
    try:
        return bool(native.promote_dtypes(source, target) == target)
    except ct.TileTypeError:
        return False


def is_float(dtype: Dtype) -> bool:
    """Returns whether a dtype is floating point."""
    return bool(native.is_float(dtype))


def is_integral(dtype: Dtype) -> bool:
    """Returns whether a dtype is a whole number; bool is not."""
    return bool(native.is_integral(dtype))


def poison(dtype: Dtype) -> Number:
    """Returns the value that stands for undefined contents: NaN, or a conspicuous number."""
    if is_float(dtype):
        return float("nan")
    if dtype == ct.bool_:
        return True
    return int(np.iinfo(CARRIERS[dtype]).max) // 3


def acc_of_mma(x: Dtype, y: Dtype, acc: Dtype | None) -> Dtype:
    """Returns the accumulator's type of a product.

    Raises:
        TileFault: for types that cuda.tile cannot multiply.
    """
    try:
        return native._resolve_mma_supported_dtype(x, y, acc)
    except ct.TileTypeError as error:
        raise TileFault("dtype", error.message) from None
