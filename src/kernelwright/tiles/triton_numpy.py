"""What Triton 3.6's interpreter lacks, by NumPy: libdevice, folds with a function of the author's, tl.range.

libdevice functions are external code, which the interpreter refuses; here they are NumPy's, computed in float64 and
rounded once, so that results are nearer to exact than a device's. A fold with the author's own function is done by
calling it on neighbouring halves of the tile instead of once for each element, which is the same for any function that
is associative, as it must be on a device. Not here: what is wrong in the interpreter (triton_interpret.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.language.extra.cuda import libdevice
from triton.runtime import interpreter


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    return np.vectorize(function, otypes=[np.float64])


UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "log2": np.log2,
    "log10": np.log10, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "cbrt": np.cbrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "nearbyint": np.rint, "abs": np.abs, "sqrt": np.sqrt, "sqrt_rn": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp_rn": lambda x: 1 / x, "erf": _each(math.erf), "erfc": _each(math.erfc), "exp10": lambda x: 10.0**x,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign,
    "add_rn": np.add, "sub_rn": np.subtract, "mul_rn": np.multiply, "div_rn": np.divide,
}  # fmt: skip
"""Functions of libdevice, of floats only, by name."""


def supply() -> None:
    """Puts all of it where a kernel that is interpreted looks for it."""
    for name, function in {**UNARY, **BINARY}.items():
        setattr(libdevice, name, _elementwise(name, function))
    interpreter.ReduceOps.generic_reduce = _reduced
    interpreter.ScanOps.cumsum = _running(np.cumsum)
    interpreter.ScanOps.cumprod = _running(np.cumprod)
    tl.range = _range


def _elementwise(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def compute(*args: Any, **_: Any) -> Any:
        dtype = next(one.dtype for one in args if isinstance(one, tl.tensor))
        if dtype not in (tl.float32, tl.float64):
            raise TypeError(f"libdevice.{name} takes float32 or float64, not {dtype}")
        data = [np.asarray(one.handle.data if isinstance(one, tl.tensor) else one, np.float64) for one in args]
        shape = next((list(one.shape) for one in _widest(args) if one.shape), [])
        with np.errstate(all="ignore"):
            found = np.asarray(function(*data)).astype(np.float32 if dtype == tl.float32 else np.float64)
        return tl.tensor(interpreter.TensorHandle(found, dtype), tl.block_type(dtype, shape) if shape else dtype)

    return compute


def _widest(args: tuple[Any, ...]) -> list[Any]:
    """The tensors of a call, broadcast as a device would."""
    tensors = [one for one in args if isinstance(one, tl.tensor)]
    if any(one.shape for one in tensors):
        shape = np.broadcast_shapes(*(tuple(one.shape) for one in tensors))
        return [tl.tensor(tensors[0].handle, tl.block_type(tensors[0].dtype, list(shape)))]
    return tensors


def _reduced(self: Any, given: tuple[Any, ...]) -> list[Any]:
    """ReduceOps.generic_reduce by halves: neighbours are combined, so that their order stays."""
    axis = self.axis
    tiles = [one.handle.data for one in given]
    if axis is None:
        tiles, axis = [data.reshape(-1) for data in tiles], 0
    while tiles[0].shape[axis] > 1:
        count = tiles[0].shape[axis]
        halves = [np.take(data, range(start, count, 2), axis) for start in (0, 1) for data in tiles]
        types = [one.dtype for one in given] * 2
        found = self.combine_fn.fn(*(self.to_tensor(data, kind) for data, kind in zip(halves, types, strict=True)))
        tiles = [one.handle.data for one in (found if isinstance(found, tuple) else (found,))]
    if not self.keep_dims:
        tiles = [np.take(data, 0, axis) for data in tiles]
    elif self.axis is None:
        tiles = [data.reshape((1,) * len(given[0].shape)) for data in tiles]
    return [self.to_tensor(data, one.dtype) for data, one in zip(tiles, given, strict=True)]


def _running(function: Callable[..., Any]) -> Callable[..., Any]:
    """ScanOps.cumsum and cumprod with one rounding: a device adds in a tree, which one after the other is far from."""

    def compute(self: Any, given: Any) -> list[Any]:
        data = given.handle.data
        wide = data.astype(np.float64) if data.dtype.kind == "f" else data
        with np.errstate(all="ignore"):
            return [self.to_tensor(function(wide, axis=self.axis, dtype=wide.dtype), dtype=given.dtype)]

    return compute


def _range(*bounds: Any, **_: Any) -> range:
    """tl.range, whose hints mean nothing here."""
    return range(*(int(bound) for bound in bounds))
