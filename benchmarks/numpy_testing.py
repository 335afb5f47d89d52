"""`numpy.testing` for arrays on a device: what it compares is brought to the host first.

NumPy's own assertions refuse arrays that it cannot see; nothing else about them changes. Those that call what they
are given (assert_raises and its like) get it as it is.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy.testing


def __getattr__(name: str) -> Any:
    found = getattr(numpy.testing, name)
    compares = name.startswith("assert_") and isinstance(found, type(hosted))
    if not compares or name.startswith(("assert_raises", "assert_warns", "assert_no_")):
        return found

    @functools.wraps(found)
    def compared(*arguments: Any, **options: Any) -> Any:
        return found(*hosted(arguments), **hosted(options))

    return compared


def hosted(item: Any) -> Any:
    """Returns the same with arrays of a device as arrays of NumPy."""
    if isinstance(item, tuple | list) and not hasattr(item, "_fields"):
        return type(item)(hosted(element) for element in item)
    if isinstance(item, dict):
        return {key: hosted(element) for key, element in item.items()}
    return item.get() if hasattr(item, "get") and hasattr(item, "__cuda_array_interface__") else item
