"""NumPy by another import: the best array library of this machine, and NumPy itself for what that does not have.

    import kernelwright.numpy as np

On one GPU CuPy, on several cuPyNumeric where Legate runs the program, without a GPU NumPy. A name that the library
lacks, or a call that it refuses as not implemented, goes to NumPy: arrays are copied there and back, a warning says so
once for each function, and `fallbacks()` counts. `asarray` and `from_dlpack` take arrays of any library that speaks
DLPack or __cuda_array_interface__, without a copy where both live on one device; what comes out speaks them as well.
**Covers**: array creation, ufuncs, reductions, linear algebra, indexing, random numbers, Fourier transforms: every
function of the three libraries. **Does not cover**: methods of arrays that a library leaves out (they raise).
"""

from __future__ import annotations

from typing import Any

from kernelwright.numpy.libraries import FallbackWarning, Namespace, array_of, chosen

__all__ = ["FallbackWarning", "asarray", "backend", "fallbacks", "from_dlpack"]

OPEN = ("__version__", "__array_api_version__", "__config__")
"""Names of NumPy's with underscores that programs ask for."""
_namespace: Namespace | None = None


def _all() -> Namespace:
    global _namespace
    if _namespace is None:
        _namespace = Namespace(chosen().module)
    return _namespace


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name not in OPEN:
        raise AttributeError(f"module 'kernelwright.numpy' has no attribute {name!r}")
    return getattr(_all(), name)


def submodule(name: str) -> Namespace:
    """Returns linalg, random or fft of the library."""
    found: Namespace = getattr(_all(), name)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *OPEN, *(name for name in dir(_all()) if not name.startswith("__"))})


def backend() -> str:
    """Returns the library that runs things, and why not another: "numpy (cupy: not installed)"."""
    choice = chosen()
    refused = "; ".join(f"{name}: {reason}" for name, reason in choice.refused)
    return f"{choice.name} ({refused})" if refused else choice.name


def fallbacks() -> dict[str, int]:
    """Returns how often each function went to NumPy although another library runs things."""
    return dict(_all().counts)


def asarray(item: Any, dtype: Any = None, **options: Any) -> Any:
    """Returns an array of the library, sharing memory with any array that speaks DLPack on the same device."""
    return array_of(_all().library, item, dtype=dtype, **options)


def from_dlpack(item: Any) -> Any:
    """Returns an array of the library that shares memory with another library's."""
    return array_of(_all().library, item, strictly=True)
