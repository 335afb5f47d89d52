"""The JSON form of every value: self-describing, strict, and the same in files and in pipes.

A value becomes an object whose "" member is its type's name; a tuple becomes an array. Decoding
accepts only types that were registered, so a message from another process can name nothing else.
Not here: identity (types.py), which leaves notes out; this form keeps them.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

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
    """
    if isinstance(data, list):
        return tuple(from_data(element) for element in data)
    if not isinstance(data, dict):
        return data
    name = data.get("")
    if name == "dict":
        return {key: from_data(element) for key, element in data["items"]}
    cls = REGISTRY.get(str(name))
    if cls is None:
        raise CodecError(f"unknown type {name!r} in stored or received data", "update kernelwright")
    known = {f.name: f for f in fields(cls)}
    given = {key: from_data(element) for key, element in data.items() if key}
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
    try:
        data = json.loads(text)
    except ValueError as error:
        raise CodecError(f"not JSON: {error}") from error
    return from_data(data)
