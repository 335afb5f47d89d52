"""Is a result what it seems: its tree, and of every tensor type, memory, layout and that it is nobody else's.

Asks only the C++ side of torch, through descriptors that were taken before any candidate was loaded, so that
attributes put on an instance and methods replaced on `torch.Tensor` are not asked.

Covers: lazy or overridden tensors (any type but `torch.Tensor` and `Parameter`, callables on the instance),
    missing or null memory, pending negation or conjugation, wrong tree, shape, dtype, strides, device, layout,
    gradients, memory shared with inputs, parameters, other outputs or other calls.
Does not cover: what the memory holds; the judge compares that in another process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.judge.witness.handover import LEAF, describe_tree, to_json

_Base = torch._C.TensorBase
_members = vars(_Base)
_shape, _dtype, _device, _layout = (_members[name].__get__ for name in ("shape", "dtype", "device", "layout"))
_requires_grad, _grad_fn = _members["requires_grad"].__get__, _members["grad_fn"].__get__
_data_ptr, _stride, _numel, _itemsize = _Base.data_ptr, _Base.stride, _Base.numel, _Base.element_size
_is_neg, _is_conj, _storage = _Base.is_neg, _Base.is_conj, _Base.untyped_storage
_Storage: Any = torch._C.StorageBase
_storage_bytes, _storage_start = _Storage.nbytes, _Storage.data_ptr
_Tensor, _Parameter, _Strided = torch.Tensor, torch.nn.Parameter, torch.strided
_own_dict = object.__getattribute__
EXACT = (torch.Tensor, torch.nn.Parameter)
KEYS = (str, int, bool, float)
RETURN_TYPES = tuple(kind for kind in vars(torch.return_types).values() if isinstance(kind, type))
"""What operators with several results return, by identity: what a class says of itself is its author's word."""


class Wrong(Exception):
    """A result is not what it should be; the text names it."""


@dataclass(frozen=True, slots=True)
class Output:
    """What one output must be."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    strides: tuple[int, ...]
    """Of the reference's own output; contiguous row-major is accepted as well."""
    device: str
    may_alias: bool
    """The reference itself returns memory that is not its own."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes from a tensor's first element to the end of its last."""

    start: int
    end: int
    name: str


def leaves_of(result: Any, tree: Any, where: str = "the result") -> list[Any]:
    """Returns the tensors of a result in the order of the tree.

    Raises:
        Wrong: where the result's tree is another.
    """
    if tree == LEAF:
        return [result]
    if "dict" in tree:
        if type(result) is not dict and type(result) is not OrderedDict:  # `in` would ask a class of theirs
            raise Wrong(f"{where} is {_article(result)}, not {describe_tree(tree)}")
        keys = [to_json(key) if any(type(key) is kind for kind in KEYS) else None for key in dict.keys(result)]
        if keys != [key for key, _ in tree["dict"]]:
            raise Wrong(f"{where} is a dict with keys {keys!r}, not {describe_tree(tree)}")
        parts = list(dict.values(result))
        below = [element for _, element in tree["dict"]]
    else:
        kind = "list" if "list" in tree else "tuple"
        wanted = list if kind == "list" else tuple
        named = wanted is tuple and any(type(result) is kind for kind in RETURN_TYPES)
        if type(result) is not wanted and not named:
            raise Wrong(f"{where} is {_article(result)}, not {describe_tree(tree)}")
        below = tree[kind]
        parts = list(wanted.__iter__(result))
        if len(parts) != len(below):
            raise Wrong(f"{where} is a {kind} of {len(parts)}, not of {len(below)}")
    found: list[Any] = []
    for number, (part, branch) in enumerate(zip(parts, below, strict=True)):
        found += leaves_of(part, branch, f"element {number} of {where}")
    return found


def check_tensor(tensor: Any, wanted: Output) -> Extent:
    """Returns the memory of an output, after looking at everything that it should be.

    Raises:
        Wrong: with what is wrong.
    """
    name = wanted.name
    if type(tensor) is not _Tensor and type(tensor) is not _Parameter:
        raise Wrong(f"{name} is {_article(tensor)}, not a torch.Tensor itself")
    put = [key for key, held in dict.items(_own_dict(tensor, "__dict__")) if callable(held)]
    if put:
        raise Wrong(f"{name} carries a function of its own ({', '.join(map(str, put[:3]))})")
    if _layout(tensor) is not _Strided:
        raise Wrong(f"{name} has the layout {_layout(tensor)}, not torch.strided")
    if str(_device(tensor)) != wanted.device:
        raise Wrong(f"{name} is on {_device(tensor)}, not on {wanted.device}")
    if _dtype(tensor) is not wanted.dtype:
        raise Wrong(f"{name} is {_dtype(tensor)}, not {wanted.dtype}")
    shape = tuple(_shape(tensor))
    if shape != wanted.shape:
        raise Wrong(f"{name} has the shape {list(shape)}, not {list(wanted.shape)}")
    if _is_neg(tensor) or _is_conj(tensor):
        raise Wrong(f"{name} is a view whose sign is still to be changed, not finished values")
    strides = tuple(_stride(tensor))
    if not (same_strides(shape, strides, row_major(shape)) or same_strides(shape, strides, wanted.strides)):
        raise Wrong(f"{name} has the strides {list(strides)}, not {list(row_major(shape))}")
    if _requires_grad(tensor) or _grad_fn(tensor) is not None:
        raise Wrong(f"{name} requires a gradient, which the reference's does not")
    return _extent(tensor, name)


def _extent(tensor: Any, name: str) -> Extent:
    if not _numel(tensor):
        return Extent(0, 0, name)
    start, item = int(_data_ptr(tensor)), int(_itemsize(tensor))
    reach = sum((size - 1) * stride for size, stride in zip(_shape(tensor), _stride(tensor), strict=True))
    end = start + (reach + 1) * item
    storage = _storage(tensor)
    first = int(_storage_start(storage))
    if not start or not first or start < first or end > first + int(_storage_bytes(storage)):
        raise Wrong(f"{name} has no memory behind it")
    return Extent(start, end, name)


def overlap(extents: Sequence[Extent]) -> tuple[Extent, Extent] | None:
    """Returns two extents that share memory, None where none do."""
    ordered = sorted((e for e in extents if e.end > e.start), key=lambda e: (e.start, e.end))
    furthest: Extent | None = None
    for extent in ordered:
        if furthest is not None and extent.start < furthest.end:
            return furthest, extent
        if furthest is None or extent.end > furthest.end:
            furthest = extent
    return None


def meets(extent: Extent, others: Sequence[Extent]) -> Extent | None:
    """Returns the first of some extents that shares memory with one, None where none does."""
    if extent.end <= extent.start:
        return None
    return next((o for o in others if o.start < extent.end and extent.start < o.end), None)


def dense(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides, in elements, of a tensor without gaps whose axes lie in that order, outermost first."""
    inner = row_major([shape[axis] for axis in order])
    return tuple(inner[list(order).index(axis)] for axis in range(len(shape)))


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the strides of a contiguous tensor, in elements."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))


def same_strides(shape: Sequence[int], a: Sequence[int], b: Sequence[int]) -> bool:
    """Tells whether strides say the same; those of axes of one element say nothing, nor do any of an empty tensor."""
    if 0 in shape:
        return True
    return all(size == 1 or x == y for size, x, y in zip(shape, a, b, strict=True))


def _article(item: object) -> str:
    name = type(item).__name__
    if item is None:
        return "None"
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
