"""A function as a file of its own: its text, with the imports, functions and numbers that it uses.

What a worker loads must not depend on the notebook or module that a function was written in.
**Covers**: modules, functions defined with `def` (theirs too), numbers, strings and tuples of them; cells of
notebooks. **Does not cover**: lambdas, functions that close over something, objects, classes.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import types
from collections.abc import Callable, Mapping
from typing import Any

from kernelwright.errors import SourceError

SIMPLE = (bool, int, float, str, type(None))


def source_of(function: Callable[..., Any], *, modules: Mapping[str, str] | None = None) -> str:
    """Returns a file's text that defines a function under its own name, without its decorators.

    Args:
        function: defined with `def`.
        modules: what stands for a module in the file: {"numpy": "torch._numpy"}.

    Raises:
        SourceError: for a function whose text cannot be had, or that uses what a file cannot hold.
    """
    parts: dict[str, str] = {}
    _collect(function, parts, dict(modules or {}))
    return "\n\n".join(parts.values()) + "\n"


def _collect(function: Callable[..., Any], parts: dict[str, str], modules: dict[str, str]) -> None:
    name = function.__name__
    if name in parts:
        return
    if not isinstance(function, types.FunctionType) or name == "<lambda>":
        raise SourceError(f"{name!r} is no function with a name", "define it with `def`")
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise SourceError(f"{name} uses {names} of the function around it", "give it as an argument, or make it global")
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise SourceError(f"the text of {name} cannot be had: {error}", "define it in a file or a notebook") from None
    parts[name] = ""  # holds its place while what it calls is collected
    for used in _names(function.__code__):
        if used in function.__globals__ and used not in parts:
            _take(used, function.__globals__[used], name, parts, modules)
    del parts[name]
    parts[name] = text[text.index("def ") :] if text.lstrip().startswith("@") else text


def _names(code: types.CodeType) -> list[str]:
    found = list(code.co_names)
    for constant in code.co_consts:
        found += _names(constant) if isinstance(constant, types.CodeType) else []
    return found


def _take(used: str, item: Any, where: str, parts: dict[str, str], modules: dict[str, str]) -> None:
    if isinstance(item, types.ModuleType):
        stands = modules.get(item.__name__, item.__name__)
        parts[used] = f"import {stands} as {used}"
    elif isinstance(item, types.FunctionType) and item.__module__ and not _installed(item):
        if item.__name__ != used:
            raise SourceError(f"{where} calls {item.__name__} by the name {used}", "use its own name")
        _collect(item, parts, modules)
    elif callable(item) and getattr(item, "__module__", None) and hasattr(item, "__name__"):
        owner = modules.get(item.__module__.split(".")[0], item.__module__)
        parts[used] = f"from {owner} import {item.__name__} as {used}"
    elif _simple(item):
        parts[used] = f"{used} = {_text(item)}"
    else:
        raise SourceError(f"{where} uses {used}, a {type(item).__name__}", "give it as an argument")


def _installed(item: types.FunctionType) -> bool:
    file = item.__code__.co_filename
    return "site-packages" in file or "dist-packages" in file or f"python{item.__module__}" in file


def _simple(item: Any) -> bool:
    return all(map(_simple, item)) if isinstance(item, tuple) else isinstance(item, SIMPLE)


def _text(item: Any) -> str:
    if isinstance(item, tuple):
        return f"({''.join(f'{_text(element)}, ' for element in item)})"
    if isinstance(item, float) and not math.isfinite(item):
        return f"float({str(item)!r})"
    return repr(item)
