"""The JSON form of every value: self-describing, strict, and the same in files and in pipes.

A value becomes an object whose "" member is its type's name; a tuple becomes an array. Decoding
accepts only types that were registered, so a message from another process can name nothing else.
Not here: identity (types.py), which leaves notes out; this form keeps them.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from kernelwright import exchanges, graph, types
from kernelwright.errors import KernelwrightError

REGISTRY: dict[str, type] = {
    cls.__name__: cls
    for module in (types, graph, exchanges)
    for cls in vars(module).values()
    if isinstance(cls, type) and is_dataclass(cls)
}


class CodecError(KernelwrightError):
    """Text that is not the JSON form of a known value."""


def to_data(item: object) -> Any:
    """Returns plain JSON data for a value, a tuple of values, or a primitive."""
    if is_dataclass(item) and not isinstance(item, type):
        return {"": type(item).__name__, **{f.name: to_data(getattr(item, f.name)) for f in fields(item)}}
    if isinstance(item, tuple | list):
        return [to_data(element) for element in item]
    if isinstance(item, dict):
        return {"": "dict", "items": [[key, to_data(element)] for key, element in item.items()]}
    if item is None or isinstance(item, str | int | float | bool):
        return item
    raise CodecError(f"a {type(item).__name__} has no JSON form")


def from_data(data: Any) -> Any:
    """Returns what `to_data` was given; unknown types and missing fields are refused.

    Fields that a newer version added and that have a default are filled in; fields that this
    version does not know are an error, since dropping them could change what a value is.

    Raises:
        CodecError: for what `to_data` cannot have made.
    """
    try:
        return _from_data(data)
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise CodecError(f"no value has this form: {type(error).__name__}: {str(error)[:100]}") from error


def _from_data(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_from_data(element) for element in data)
    if not isinstance(data, dict):
        return data
    name = data.get("")
    if name == "dict":
        return {key: _from_data(element) for key, element in data["items"]}
    cls = REGISTRY.get(str(name))
    if cls is None:
        raise CodecError(f"unknown type {name!r} in stored or received data", "update kernelwright")
    known = {f.name: f for f in fields(cls)}
    given = {key: _from_data(element) for key, element in data.items() if key}
    if extra := sorted(set(given) - set(known)):
        raise CodecError(f"{name} has unknown fields: {', '.join(extra)}", "update kernelwright")
    needed = [n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING]
    if missing := sorted(set(needed) - set(given)):
        raise CodecError(f"{name} lacks fields: {', '.join(missing)}")
    return cls(**given)


def dumps(item: object) -> str:
    """Returns compact JSON text; NaN and infinities are written as JavaScript names."""
    return json.dumps(to_data(item), separators=(",", ":"), ensure_ascii=False)


def loads(text: str | bytes) -> Any:
    """Returns the value behind `dumps` text.

    Raises:
        CodecError: for text that is not JSON or names an unknown type or field.
    """
    return from_data(parsed(text))


def parsed(text: str | bytes) -> Any:
    """Returns plain JSON data.

    Raises:
        CodecError: for text that is not JSON, or is nested more deeply than anything that is meant.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from error


def misfit(item: Any) -> str:
    """Returns which member of a value, or of one in it, is not of the type that its class says; empty for none.

    `from_data` does not look, since values in pipes and stores come from `to_data`. A file may come from anybody.
    """
    cls: type = type(item)
    for name, kind in _kinds(cls).items():
        held = getattr(item, name)
        if not _fits(held, kind):
            return f"{type(item).__name__}.{name} is a {type(held).__name__}"
        for part in held if isinstance(held, tuple) else (held,):
            if is_dataclass(part) and (found := misfit(part)):
                return found
    return ""


@cache
def _kinds(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _fits(held: Any, kind: Any) -> bool:
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(held, part) for part in parts)
    if origin is Literal:
        return held in parts
    if origin is tuple:
        if not isinstance(held, tuple):
            return False
        each = parts[:1] * len(held) if parts[1:] == (...,) else parts
        return len(held) == len(each) and all(map(_fits, held, each))
    if kind in (int, float):
        return isinstance(held, int if kind is int else int | float) and not isinstance(held, bool)
    plain = origin or (NoneType if kind is None else kind)
    return not isinstance(plain, type) or isinstance(held, plain)
