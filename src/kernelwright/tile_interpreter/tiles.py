"""Tiles: immutable arrays of a cuda.tile dtype, with the operators that cuda.tile gives them.

Every tile knows which of its elements are undefined (read outside an array without a padding mode, or never written)
and at which line they came about; operations carry that along, so that it is told where such a value is stored and not
where it is merely loaded and dropped.
Not here: functions on tiles (operations.py, folding.py, access.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct
import numpy as np

from kernelwright.tile_interpreter import dtypes
from kernelwright.tile_interpreter.dtypes import Dtype, Number
from kernelwright.tile_interpreter.findings import TileFault

Operand = Any
"""A Tile, or a Python number, which takes its type from the other operand."""


class Tile:
    """A tile, or with no dimensions a scalar whose type is known.

    Args:
        data: elements in the dtype's carrier.
        dtype: a cuda.tile DType.
        origin: None where all elements are defined; else, for each, the line that made it undefined, 0 for none.
    """

    __slots__ = ("data", "dtype", "origin")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, data: Any, dtype: Dtype, origin: Any = None) -> None:
        self.data = np.asarray(data)
        self.dtype = dtype
        self.origin = origin if origin is not None and np.any(origin) else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements of each dimension."""
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.data.ndim)

    def __repr__(self) -> str:
        return f"Tile({self.data!r}, dtype={self.dtype})"

    # ------------------------------------------------------------------- Python's protocols

    def __index__(self) -> int:
        return _whole(self)

    def __int__(self) -> int:
        return int(_scalar(self))

    def __float__(self) -> float:
        return float(_scalar(self))

    def __bool__(self) -> bool:
        if self.ndim:
            raise TileFault("shape", f"a tile of shape {self.shape} is no condition; only a tile without dimensions is")
        return bool(self.data)

    def __len__(self) -> int:
        raise TileFault("error", "len() of a tile; use its shape")

    def __iter__(self) -> Any:
        raise TileFault("error", "iteration over a tile; tiles are not iterable")

    def __getitem__(self, index: Any) -> Tile:
        items = index if isinstance(index, tuple) else (index,)
        if any(item is not None and item is not Ellipsis and item != slice(None) for item in items):
            raise TileFault(
                "error", "a tile can only be indexed with None, ':' and '...', to insert dimensions; use ct.extract"
            )
        data = self.data[index]
        return Tile(data, self.dtype, None if self.origin is None else self.origin[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TileFault("error", "tiles cannot be changed; use ct.insert or ct.where")

    def __neg__(self) -> Tile:
        return _call("negative", self)

    def __invert__(self) -> Tile:
        return _call("bitwise_not", self)

    def __abs__(self) -> Tile:
        return _call("abs", self)

    def __pos__(self) -> Tile:
        return self

    # --------------------------------------------------------------------------- methods

    def item(self) -> Tile:
        """Returns the one element as a tile without dimensions."""
        return _call("reshape", self, ())

    def extract(self, index: Any, shape: Any) -> Tile:
        """See ct.extract."""
        return _call("extract", self, index, shape)

    def insert(self, index: Any, value: Any) -> Tile:
        """See ct.insert."""
        return _call("insert", self, index, value)

    def reshape(self, shape: Any) -> Tile:
        """See ct.reshape."""
        return _call("reshape", self, shape)

    def permute(self, axes: Any) -> Tile:
        """See ct.permute."""
        return _call("permute", self, axes)

    def transpose(self, axis0: int | None = None, axis1: int | None = None) -> Tile:
        """See ct.transpose."""
        return _call("transpose", self, axis0, axis1)

    def astype(self, dtype: Any, *, rounding_mode: Any = None) -> Tile:
        """See ct.astype."""
        return _call("astype", self, dtype, rounding_mode=rounding_mode)


def _call(name: str, *args: Any, **kwargs: Any) -> Tile:
    found: Tile = OPERATIONS[name](*args, **kwargs)
    return found


OPERATIONS: dict[str, Callable[..., Any]] = {}
"""The functions of cuda.tile that the interpreter knows, by their name there."""


def operation(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function under names of cuda.tile."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names or (function.__name__.rstrip("_"),):
            OPERATIONS[name] = function
        return function

    return register


def _install(dunder: str, name: str, *, reflected: bool = False) -> None:
    def forward(self: Tile, other: Any) -> Any:
        if not isinstance(other, Tile | bool | int | float | np.generic):
            return NotImplemented
        return OPERATIONS[name](other, self) if reflected else OPERATIONS[name](self, other)

    setattr(Tile, dunder, forward)


for _dunder, _name in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "truediv"), ("floordiv", "floordiv"), ("mod", "mod"),
    ("pow", "pow"), ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"), ("lshift", "bitwise_lshift"),
    ("rshift", "bitwise_rshift"), ("matmul", "matmul"), ("divmod", "divmod"),
):  # fmt: skip
    _install(f"__{_dunder}__", _name)
    _install(f"__r{_dunder}__", _name, reflected=True)
for _dunder, _name in (("ge", "greater_equal"), ("gt", "greater"), ("le", "less_equal"), ("lt", "less"),
                       ("eq", "equal"), ("ne", "not_equal")):  # fmt: skip
    _install(f"__{_dunder}__", _name)


# ------------------------------------------------------------------------------ building


def kind_of(x: Operand) -> Dtype | Number:
    """Returns a tile's dtype, or the number itself.

    Raises:
        TileFault: for anything else.
    """
    if isinstance(x, Tile):
        return x.dtype
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, bool | int | float):
        return x
    raise TileFault("dtype", f"a {type(x).__name__} is no tile and no number")


def tile(x: Operand, dtype: Dtype | None = None) -> Tile:
    """Returns an operand as a tile, of its own type or the given one, without a check."""
    if isinstance(x, Tile):
        if dtype is None or x.dtype == dtype:
            return x
        with np.errstate(all="ignore"):
            return Tile(dtypes.round_to(x.data, dtype), dtype, x.origin)
    number = kind_of(x)
    wanted = dtypes.dtype_of_number(number) if dtype is None else dtype
    with np.errstate(all="ignore"):
        return Tile(dtypes.round_to(np.asarray(number), wanted), wanted)


def made(data: Any, dtype: Dtype, origin: Any = None) -> Tile:
    """Returns a tile of computed values, rounded to the dtype."""
    with np.errstate(all="ignore"):
        rounded = dtypes.round_to(np.asarray(data), dtype)
    if origin is not None:
        origin = np.broadcast_to(origin, rounded.shape)
    return Tile(rounded, dtype, origin)


def joined_origin(*tiles: Tile) -> Any:
    """Returns where undefined elements of operands make a result undefined, broadcast like them; None for nowhere."""
    found = None
    for one in tiles:
        if one.origin is not None:
            found = one.origin if found is None else np.maximum(found, one.origin)
    return found


def implicit(x: Operand, dtype: Dtype, what: str) -> Tile:
    """Returns an operand as a dtype where cuda.tile converts it without being asked.

    Raises:
        TileFault: where it does not.
    """
    kind = kind_of(x)
    if not dtypes.may_become(kind, dtype):
        raise TileFault("dtype", f"{what}: cannot implicitly cast {kind} to {dtype}; use ct.astype")
    return tile(x, dtype)


def shape_of(shape: Any, *, rank: int | None = None) -> tuple[int, ...]:
    """Returns a constant tile shape.

    Raises:
        TileFault: for sizes that are no powers of two, no constants, or of another rank.
    """
    items = shape if isinstance(shape, tuple | list) else (shape,)
    found = []
    for number, item in enumerate(items):
        if isinstance(item, Tile) or not isinstance(item, int | np.integer):
            raise TileFault(
                "shape", f"Dimension #{number} of a tile's shape is {item!r}; it must be a constant whole number"
            )
        if item < 1 or item & (item - 1):
            raise TileFault("shape", f"Dimension #{number} of shape {tuple(items)} is not a power of two")
        found.append(int(item))
    if rank is not None and len(found) not in (rank, 0):
        raise TileFault("shape", f"the shape {tuple(found)} has {len(found)} dimensions, the array {rank}")
    return tuple(found)


def constant(x: Any, what: str) -> int:
    """Returns a whole number that must be known when compiling.

    Raises:
        TileFault: for anything else.
    """
    if isinstance(x, bool) or not isinstance(x, int | np.integer):
        raise TileFault("shape", f"{what} must be a constant whole number, not {x!r}")
    return int(x)


def whole(x: Operand, what: str) -> int:
    """Returns a whole number, known when compiling or not.

    Raises:
        TileFault: for anything else.
    """
    if isinstance(x, Tile):
        return _whole(x)
    return constant(x, what)


def _whole(x: Tile) -> int:
    if x.ndim or not dtypes.is_integral(x.dtype):
        raise TileFault("dtype", f"a tile of shape {x.shape} and {x.dtype} is no index")
    return int(x.data)


def _scalar(x: Tile) -> Any:
    if x.ndim:
        raise TileFault("shape", f"a tile of shape {x.shape} is no scalar")
    return x.data.item()


INT = ct.int32
"""The type of block numbers, counts and indices."""
