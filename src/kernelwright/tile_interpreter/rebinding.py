"""A kernel's Python function with cuda.tile's names bound to the interpreter's functions.

The author's function and every function of the author's that it can reach (globals, closures) are rebuilt around a copy
of their globals, in which the module cuda.tile, what was imported from it, and some built-ins (range, min, max ...)
mean the interpreter's. The code itself is the author's, so lines and closures are what they were. Not here: running
it (running.py).
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Iterator
from typing import Any

import cuda.tile as ct
import numpy as np

from kernelwright.tile_interpreter import dtypes
from kernelwright.tile_interpreter.context import run
from kernelwright.tile_interpreter.findings import TileFault
from kernelwright.tile_interpreter.tiles import INT, OPERATIONS, Tile, made, operation, tile

_STRUCTURAL_NAMES = (
    "Constant ConstantAnnotation ArrayAnnotation ListAnnotation IndexedWithInt64 ScalarInt64 Array Scalar Tile "
    "TiledView PaddingMode RoundingMode MemoryOrder MemoryScope ByTarget DType function kernel"
)
STRUCTURAL = frozenset(_STRUCTURAL_NAMES.split())
"""Names of cuda.tile that are passed through as they are."""


class DtypeName:
    """A dtype as a kernel writes it: compared as such, and called to convert."""

    def __init__(self, native: Any) -> None:
        self.native = native

    def __call__(self, x: Any = 0) -> Tile:
        """Returns a scalar or tile converted to the dtype."""
        return tile(x, self.native)

    def __eq__(self, other: object) -> bool:
        return bool(self.native == getattr(other, "native", other))

    def __hash__(self) -> int:
        return hash(self.native)

    def __repr__(self) -> str:
        return str(self.native)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)


class Module:
    """What stands for cuda.tile inside an interpreted kernel."""

    def __getattr__(self, name: str) -> Any:
        return replacement(name)


def replacement(name: str) -> Any:
    """Returns what a name of cuda.tile means in an interpreted kernel.

    Raises:
        TileFault: for a name that the interpreter does not cover.
    """
    if name in OPERATIONS:
        return OPERATIONS[name]
    given = getattr(ct, name, None)
    if given is None:
        raise TileFault("error", f"module 'cuda.tile' has no attribute {name!r}")
    if isinstance(given, ct.DType):
        return DtypeName(given)
    if name in STRUCTURAL:
        return given
    raise TileFault("uncovered", f"the interpreter does not cover ct.{name}")


# --------------------------------------------------------- what only a compiler distinguishes


class TileRange:
    """range() inside a kernel: its numbers are int32 scalars, as they are on a device."""

    def __init__(self, *bounds: Any) -> None:
        self.plain = range(*(int(bound) for bound in bounds))

    def __iter__(self) -> Any:
        for number in self.plain:
            run().step()
            yield made(np.asarray(number), INT)

    def __len__(self) -> int:
        return len(self.plain)


@operation()
def static_iter(iterable: Any) -> Any:
    """ct.static_iter: constants, not scalars."""
    return iterable.plain if isinstance(iterable, TileRange) else iterable


@operation("static_eval", "ensure_constant")
def static_eval(expr: Any, /) -> Any:
    """ct.static_eval and ct.ensure_constant."""
    return expr


@operation()
def static_assert(condition: Any, message: Any = None, /) -> None:
    """ct.static_assert."""
    if not condition:
        raise TileFault("assertion", f"Static assertion failed: {message or ''}".rstrip(": "))


@operation()
def assert_(cond: Any, /, message: Any = None) -> None:
    """ct.assert_."""
    if not np.all(tile(cond).data):
        run().report("assertion", "error", f"the assertion does not hold: {message or ''}".rstrip(": "))


OPERATIONS["assert_"] = assert_


@operation()
def printf(format: str, *args: Any) -> None:  # noqa: A002  (the name in cuda.tile)
    """ct.printf, for scalars and tiles."""
    values = [
        item.data.item() if isinstance(item, Tile) and not item.ndim else getattr(item, "data", item) for item in args
    ]
    builtins.print(format % tuple(values), end="")


@operation("print")
def print_(*args: Any, sep: str = " ", end: str = "\n") -> None:
    """ct.print, and print() in a kernel."""
    builtins.print(*(item.data if isinstance(item, Tile) else item for item in args), sep=sep, end=end)


@operation("grid_dependency_control_wait", "grid_dependency_control_launch_dependents")
def nothing() -> None:
    """Orders whole launches, which here run one after another anyway."""


def _of_two(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and any(isinstance(item, Tile) for item in args):
            return OPERATIONS[name](*args)
        return plain(*args, **kwargs)

    return choose


def _converter(dtype: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    def convert(x: Any = 0, *rest: Any) -> Any:
        return tile(x, dtype) if isinstance(x, Tile) else plain(x, *rest)

    return convert


BUILTINS = {
    **vars(builtins),
    "range": TileRange,
    "max": _of_two("maximum", max),
    "min": _of_two("minimum", min),
    "print": print_,
    "int": _converter(ct.int32, int),
    "float": _converter(ct.float32, float),
}


# ------------------------------------------------------------------------------ rebuilding


class Rebinder:
    """Rebuilds functions; each once, so that recursion and sharing are kept."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}
        self.globals: dict[int, dict[str, Any]] = {}
        self.code: set[types.CodeType] = set()
        self._originals = {id(getattr(ct, name)): name for name in ct.__all__ if not name.startswith("_")}

    def function(self, given: types.FunctionType) -> types.FunctionType:
        """Returns a function of the author's with its names rebound."""
        if id(given) in self.made:
            return self.made[id(given)]  # type: ignore[no-any-return]
        scope = self._scope(given.__globals__, given.__code__)
        closure = tuple(types.CellType() for _ in given.__closure__ or ())
        new = types.FunctionType(given.__code__, scope, given.__name__, given.__defaults__, closure or None)
        new.__kwdefaults__ = given.__kwdefaults__
        self.made[id(given)] = new
        self._note(given.__code__)
        for cell, old in zip(closure, given.__closure__ or (), strict=True):
            cell.cell_contents = self.value(old.cell_contents)
        return new

    def _note(self, code: types.CodeType) -> None:
        self.code.add(code)
        for constant in code.co_consts:  # lambdas and functions inside
            if isinstance(constant, types.CodeType):
                self._note(constant)

    def _scope(self, given: dict[str, Any], code: types.CodeType) -> dict[str, Any]:
        """The copy of a function's globals, with the names that its code uses."""
        if id(given) not in self.globals:
            self.globals[id(given)] = {"__builtins__": BUILTINS, "__name__": given.get("__name__", "")}
        scope = self.globals[id(given)]
        for name in _names(code):
            if name in given and name not in scope:
                scope[name] = None  # a function that refers to itself
                scope[name] = self.value(given[name])
        return scope

    def value(self, item: Any) -> Any:
        """Returns what an object that a kernel can reach means to it."""
        if item is ct:
            return Module()
        inner = getattr(item, "__wrapped__", None) if getattr(item, "_cutile_function_wrapper", False) else None
        name = self._originals.get(id(item))
        if isinstance(item, ct.DType):
            return DtypeName(item) if item in dtypes.CARRIERS else item
        if name is not None and name not in STRUCTURAL:
            try:
                return replacement(name)
            except TileFault as fault:
                return _refusing(fault)
        if inner is not None and isinstance(inner, types.FunctionType):
            return self.function(inner)
        if isinstance(item, ct.kernel):
            return item
        if isinstance(item, types.FunctionType) and not (item.__module__ or "").startswith(
            ("cuda.tile", "numpy", "torch")
        ):
            return self.function(item)
        return item


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _refusing(fault: TileFault) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise fault

    return refuse
