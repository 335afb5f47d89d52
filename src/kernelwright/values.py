"""What makes a class a value: frozen, keyword-only, with slots, and an identity derived from its fields.

Not here: the values themselves (types.py, plans.py).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, dataclass_transform

DIGEST_TAG = "k1:"
"""Names the rule that made a digest, so that a later change of the rule is detectable."""

T = TypeVar("T")


def note(**kwargs: Any) -> Any:
    """Returns a dataclass field that is recorded but is no part of what the value is."""
    return field(metadata={"identity": False}, compare=False, **kwargs)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, note))
def value(cls: type[T]) -> type[T]:
    """Makes a class one of kernelwright's values: frozen, keyword-only, with slots."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)


def identity(item: object) -> object:
    """Returns what `item` is, as JSON data: every field that is not a note, with its type's name.

    Raises:
        TypeError: for a list, dict, set or any other object that cannot be part of an identity.
    """
    if is_dataclass(item) and not isinstance(item, type):
        kept = [f.name for f in fields(item) if f.metadata.get("identity", True)]
        return {"": type(item).__name__, **{name: identity(getattr(item, name)) for name in kept}}
    if isinstance(item, tuple):
        return [identity(element) for element in item]
    if item is None or isinstance(item, str | int | bool):
        return item
    if isinstance(item, float):
        return item.hex()
    raise TypeError(f"{type(item).__name__} cannot be part of an identity; use a tuple or a value")


def digest(item: object) -> str:
    """Returns the tagged SHA-256 of an item's identity: equal for equal values, in every process."""
    text = json.dumps(identity(item), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return DIGEST_TAG + hashlib.sha256(text.encode()).hexdigest()


def replace(item: T, /, **changes: Any) -> T:
    """Returns a copy of a value with some fields changed."""
    return dataclasses.replace(item, **changes)  # type: ignore[type-var]
