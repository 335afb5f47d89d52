"""Which array library runs things, and how what it lacks goes to NumPy.

Not here: arrays and their arithmetic, which are the libraries' own.
"""

from __future__ import annotations

import functools
import importlib
import os
import types
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

SUBMODULES = ("linalg", "random", "fft")
WAYS = (NotImplementedError, TypeError, AttributeError)
"""What a library raises for what it does not do; NumPy then decides whether the call itself is wrong."""


class FallbackWarning(UserWarning):
    """A function went to NumPy because the library lacks it; given once for each function."""


class Choice(NamedTuple):
    """The library that runs things."""

    name: str
    module: types.ModuleType
    refused: tuple[tuple[str, str], ...]
    """Better ones, and why not."""


@functools.cache
def chosen() -> Choice:
    """Returns the best library here: cuPyNumeric under Legate with several GPUs, CuPy with one, NumPy otherwise."""
    refused: list[tuple[str, str]] = []
    for name, ask in (("cupynumeric", _cupynumeric), ("cupy", _cupy)):
        try:
            reason = ask()
        except Exception as error:  # noqa: BLE001  (a broken installation raises anything, and is no library then)
            reason = f"{type(error).__name__}: {error}" if not isinstance(error, ImportError) else "not installed"
        if not reason:
            return Choice(name, importlib.import_module(name), tuple(refused))
        refused.append((name, reason))
    return Choice("numpy", importlib.import_module("numpy"), tuple(refused))


def _cupynumeric() -> str:
    if not any(key.startswith("LEGATE") for key in os.environ):
        return "the program was not started by legate"
    importlib.import_module("cupynumeric")
    return ""


def _cupy() -> str:
    runtime = importlib.import_module("cupy").cuda.runtime
    return "" if runtime.getDeviceCount() > 0 else "no device"


class Namespace:
    """A library's names, completed by NumPy's.

    Args:
        library: cupy, cupynumeric or numpy, or a submodule of one.
        path: of the submodule, such as "linalg".
        counts: where fallbacks are counted; shared with submodules.
    """

    def __init__(self, library: types.ModuleType, path: str = "", counts: Counter[str] | None = None) -> None:
        self.library, self._path = library, path
        self.counts: Counter[str] = Counter() if counts is None else counts
        name = f"numpy.{path}" if path else "numpy"
        self._numpy = importlib.import_module(name)

    def __getattr__(self, name: str) -> Any:
        if name in SUBMODULES and not self._path:
            found: Any = self._submodule(name)
        elif self.library is self._numpy:
            found = getattr(self._numpy, name)
        else:
            found = self._completed(name)
        setattr(self, name, found)
        return found

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.library), *dir(self._numpy)})

    def _submodule(self, name: str) -> Namespace:
        library = getattr(self.library, name, None) or types.ModuleType(f"{self.library.__name__}.{name}")
        return Namespace(library, name, self.counts)

    def _completed(self, name: str) -> Any:
        theirs, plain = getattr(self.library, name, None), getattr(self._numpy, name, None)
        if theirs is None and plain is None:
            if hasattr(self._numpy, name):
                return None  # newaxis
            raise AttributeError(f"neither {self.library.__name__} nor numpy has {name!r}")
        if (
            theirs is None
            and not isinstance(plain, types.FunctionType | types.BuiltinFunctionType)
            and not callable(plain)
        ):
            return plain
        if theirs is not None and (plain is None or isinstance(theirs, type) or not callable(theirs)):
            return theirs
        if isinstance(plain, type):
            return plain
        assert plain is not None
        return self._guarded(name, theirs, plain)

    def _guarded(self, name: str, theirs: Callable[..., Any] | None, plain: Callable[..., Any]) -> Function:
        return Function(self, f"{self._path}.{name}" if self._path else name, theirs, plain)

    def fall_back(
        self, name: str, plain: Callable[..., Any], reason: str, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        """Returns what NumPy gives, as the library's arrays; counts it, and warns at the first time."""
        # First the call, since it may be wrong for NumPy too; then nothing was a fallback.
        found = plain(*_mapped(arguments, self._down), **_mapped(options, self._down))
        self.counts[name] += 1
        if self.counts[name] == 1:
            warnings.warn(f"numpy.{name} runs in NumPy, with copies: {reason}", FallbackWarning, stacklevel=4)
        return _mapped(found, self._up)

    def _down(self, item: Any) -> Any:
        return item.get() if hasattr(item, "get") and hasattr(item, "__cuda_array_interface__") else _host(item, self)

    def _up(self, item: Any) -> Any:
        root = importlib.import_module(self.library.__name__.partition(".")[0])
        numpy = importlib.import_module("numpy")
        return root.asarray(item) if type(item) is numpy.ndarray else item  # subclasses mean more than their numbers


class Function:
    """A library's function or ufunc with NumPy's behind it; methods (`add.reduce`) are such pairs as well."""

    def __init__(
        self, namespace: Namespace, name: str, theirs: Callable[..., Any] | None, plain: Callable[..., Any]
    ) -> None:
        self._namespace, self._name, self._theirs, self._plain = namespace, name, theirs, plain
        functools.update_wrapper(self, plain, updated=())

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Returns what the library gives, and NumPy's answer where the library refuses."""
        reason = f"{self._namespace.library.__name__} does not have it"
        if self._theirs is not None:
            try:
                return self._theirs(*arguments, **options)
            except WAYS as error:
                reason = str(error)
        return self._namespace.fall_back(self._name, self._plain, reason, arguments, options)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._plain or other is self._theirs

    def __hash__(self) -> int:
        return hash(self._plain)

    def __getattr__(self, name: str) -> Any:
        theirs, plain = getattr(self._theirs, name, None), getattr(self._plain, name)
        if not callable(plain):
            return plain if theirs is None else theirs
        return Function(self._namespace, f"{self._name}.{name}", theirs, plain)


def _host(item: Any, namespace: Namespace) -> Any:
    """Returns an array of cuPyNumeric as one of NumPy, anything else as it is."""
    root = importlib.import_module(namespace.library.__name__.partition(".")[0])
    kind = getattr(root, "ndarray", None)
    if isinstance(kind, type) and isinstance(item, kind):
        return importlib.import_module("numpy").asarray(item)
    return item


def _mapped(item: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(item, tuple | list):
        changed = [_mapped(element, change) for element in item]
        return type(item)(*changed) if hasattr(item, "_fields") else type(item)(changed)
    if isinstance(item, dict):
        return {key: _mapped(element, change) for key, element in item.items()}
    return change(item)


def array_of(library: types.ModuleType, item: Any, *, dtype: Any = None, strictly: bool = False, **options: Any) -> Any:
    """Returns an item as a library's array, by DLPack where it is another library's on a device that both know.

    Args:
        library: whose array is wanted.
        item: an array of any library, or anything that `asarray` takes.
        dtype: None keeps the item's.
        strictly: only DLPack, never a copy.
        options: of `asarray`.
    """
    foreign = hasattr(item, "__dlpack__") and not isinstance(item, library.ndarray)
    if strictly or (foreign and not options):
        try:
            shared = library.from_dlpack(item)
            return shared if dtype is None else shared.astype(dtype, copy=False)
        except (BufferError, RuntimeError, TypeError, ValueError):
            if strictly:
                raise
    if hasattr(item, "__cuda_array_interface__") and library.__name__ == "numpy":
        item = item.get() if hasattr(item, "get") else item.cpu()  # the library has no device: a copy is all there is
    return library.asarray(item, dtype=dtype, **options)
