"""The judge's memory as a witness worker sees it: inputs that cannot be spoiled, outputs, and the stamps.

The input region is mapped twice: privately for the candidate, so that a write stays in its own pages and is
found, and read-only for the comparison. Not here: how the regions are laid out (slots.py).
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernelwright.reference_program import DTYPES

_libc = ctypes.CDLL(None)
_memcmp, _memmove = _libc.memcmp, _libc.memmove
for _function in (_memcmp, _memmove):
    _function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype, _memmove.restype = ctypes.c_int, ctypes.c_void_p
_frombuffer, _empty = torch.frombuffer, torch.empty
STAMP_BYTES = 16


@dataclass(frozen=True, slots=True)
class Place:
    """One tensor of the problem: where it lies in its region and what it is."""

    name: str
    role: str
    offset: int
    stride: int
    """Bytes from one slot to the next; 0 for what all slots share."""
    size: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def at(self, slot: int) -> int:
        """Returns the offset of the tensor in a slot."""
        return self.offset + slot * self.stride


def place_of(data: dict[str, Any]) -> Place:
    """Returns a place from its JSON form."""
    shape = tuple(int(size) for size in data["shape"])
    numbers = {key: int(data[key]) for key in ("offset", "stride", "size")}
    return Place(name=data["name"], role=data["role"], shape=shape, dtype=DTYPES[data["dtype"]], **numbers)


class Memory:
    """The three regions, mapped into this process."""

    def __init__(self, places: Sequence[Place], fds: Sequence[int], sizes: Sequence[int]) -> None:
        input_fd, output_fd, stamps_fd = fds
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        self._private = mmap.mmap(input_fd, sizes[0], flags=mmap.MAP_PRIVATE, prot=writable)
        shared = mmap.mmap(input_fd, sizes[0], flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        self._output = mmap.mmap(output_fd, sizes[1], flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=writable)
        self._stamps = mmap.mmap(stamps_fd, sizes[2], flags=mmap.MAP_SHARED, prot=writable)
        self._kept = shared
        self.private_address, self.shared_address, self._output_address = (
            int(np.frombuffer(m, dtype=np.uint8).ctypes.data) for m in (self._private, shared, self._output)
        )
        # Read once, so that no call pays for the first sight of a page.
        np.frombuffer(self._private, dtype=np.uint8)[:: mmap.PAGESIZE].sum()
        np.frombuffer(shared, dtype=np.uint8)[:: mmap.PAGESIZE].sum()
        self.stamps = np.frombuffer(self._stamps, dtype=np.int64).reshape(-1, 2)
        self.inputs = [p for p in places if p.role == "input"]
        self.parameters = [p for p in places if p.role in ("parameter", "buffer")]
        self.outputs = [p for p in places if p.role == "output"]

    def view(self, place: Place, slot: int) -> Any:
        """Returns a new tensor over the private mapping."""
        if not place.size:
            return _empty(place.shape, dtype=place.dtype)
        count = place.size // place.dtype.itemsize
        return _frombuffer(self._private, dtype=place.dtype, count=count, offset=place.at(slot)).view(place.shape)

    def spoiled(self, slot: int) -> str:
        """Returns the name of an input of the slot that was written to, empty when none was."""
        for place in self.inputs:
            at = place.at(slot)
            if _memcmp(self.private_address + at, self.shared_address + at, place.size):
                return place.name
        return ""

    def matches(self, place: Place, slot: int, address: int) -> bool:
        """Tells whether memory at an address holds what the judge gave for a tensor, bit for bit."""
        return not _memcmp(address, self.shared_address + place.at(slot), place.size)

    def input_range(self) -> tuple[int, int]:
        """Returns where the private mapping begins and ends."""
        return self.private_address, self.private_address + len(self._private)

    def destination(self, index: int, slot: int) -> int:
        """Returns the address at which an output of a slot belongs."""
        return self._output_address + self.outputs[index].at(slot)

    def write(self, index: int, slot: int, address: int) -> None:
        """Copies an output from `address` to where it belongs."""
        _memmove(self.destination(index, slot), address, self.outputs[index].size)
