"""numpy.random by another import, for programs that import it by its own name; see the package."""

from __future__ import annotations

from typing import Any

import kernelwright.numpy as _whole


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_whole.submodule("random"), name)


def __dir__() -> list[str]:
    return dir(_whole.submodule("random"))
