"""What crosses between the judge worker and the witness worker besides tensors in shared memory.

Arguments that are not tensors and the constructor's arguments go as JSON: the reference's own code, which makes
them, never runs where a candidate is. Not here: the channel (channel.py).
"""

from __future__ import annotations

import base64
from typing import Any

import torch

from kernelwright.errors import SourceError
from kernelwright.reference_program import DTYPES, NAMES

LEAF = "tensor"


def to_json(item: object) -> Any:
    """Returns JSON data for an argument: numbers, texts, None, lists, tuples, dictionaries, dtypes, devices, tensors.

    Raises:
        SourceError: for anything else.
    """
    if item is None or isinstance(item, bool | str):
        return item
    if isinstance(item, int | float):
        return item if type(item) in (int, float) else to_json(item.real)
    if isinstance(item, torch.dtype | torch.device | torch.memory_format | torch.layout):
        return {"torch": str(item), "kind": type(item).__name__}
    if isinstance(item, torch.Tensor):
        plain = item.detach().cpu().contiguous()
        data = bytes(plain.reshape(-1).view(torch.uint8).numpy().data) if plain.numel() else b""
        return {"tensor": base64.b64encode(data).decode(), "dtype": NAMES[plain.dtype], "shape": list(plain.shape)}
    if isinstance(item, list | tuple):
        return {"list" if isinstance(item, list) else "tuple": [to_json(element) for element in item]}
    if isinstance(item, dict):
        return {"dict": [[to_json(key), to_json(element)] for key, element in item.items()]}
    raise SourceError(
        f"an argument of type {type(item).__name__} cannot be handed to a candidate in another process",
        "use numbers, texts, lists, tuples, dictionaries, dtypes and tensors",
    )


def from_json(data: Any) -> Any:
    """Returns what `to_json` was given, tensors anew."""
    if not isinstance(data, dict):
        return data
    if "torch" in data:
        name = str(data["torch"])
        return torch.device(name) if data["kind"] == "device" else getattr(torch, name.removeprefix("torch."))
    if "tensor" in data:
        raw = bytearray(base64.b64decode(data["tensor"]))
        dtype = DTYPES[data["dtype"]]
        flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
        return flat.clone().view(data["shape"])
    if "dict" in data:
        return {from_json(key): from_json(element) for key, element in data["dict"]}
    if "list" in data:
        return [from_json(element) for element in data["list"]]
    return tuple(from_json(element) for element in data["tuple"])


def tree_of(result: object) -> Any:
    """Returns the tree of what a reference returns: a leaf, or its kind of container and what it holds, in order."""
    if isinstance(result, torch.Tensor):
        return LEAF
    if isinstance(result, dict):
        return {"dict": [[to_json(key), tree_of(element)] for key, element in result.items()]}
    if isinstance(result, list | tuple):
        return {"list" if isinstance(result, list) else "tuple": [tree_of(element) for element in result]}
    raise SourceError(f"the reference returns a {type(result).__name__}", "return a tensor or a tuple of tensors")


def describe_tree(tree: Any) -> str:
    """Returns a tree in words: `tuple of 2 (tensor, tensor)`."""
    if tree == LEAF:
        return "a tensor"
    if "dict" in tree:
        return f"a dict with keys {', '.join(str(key) for key, _ in tree['dict'])}"
    kind = "list" if "list" in tree else "tuple"
    return f"a {kind} of {len(tree[kind])}"
