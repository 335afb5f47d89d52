"""ct.Array.get_raw_memory: an array's elements by their offset from the first.

Offsets that lie outside the array are reported, since a device checks none. Not here: atomic updates by offset.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelwright.tile_interpreter.access import gather, scatter
from kernelwright.tile_interpreter.findings import TileFault
from kernelwright.tile_interpreter.memory import Array
from kernelwright.tile_interpreter.tiles import OPERATIONS, Operand, Tile


class _Elements(Array):
    """An array as one dimension of elements, in the order of memory."""

    def flat(self, indices: tuple[Any, ...]) -> Any:
        return np.asarray(indices[0], np.int64)


class RawMemory:
    """What ct.Array.get_raw_memory returns; offsets outside the array are reported, as the device checks none."""

    def __init__(self, array: Array) -> None:
        memory = array.memory
        if any(array.starts) or array.sizes != memory.base.shape:
            raise TileFault("uncovered", "the interpreter does not cover the raw memory of a slice")
        self._elements = _Elements(memory, (0,), (int(memory.base.size),))

    @property
    def dtype(self) -> Any:
        """The elements' type."""
        return self._elements.dtype

    def load_offset(
        self, offset: Operand, /, *, mask: Any = None, padding_value: Operand = 0, latency: Any = None
    ) -> Tile:
        """See ct.RawArrayMemory.load_offset."""
        del latency
        found: Tile = gather(self._elements, offset, mask=mask, padding_value=padding_value, check_bounds=False)
        return found

    def store_offset(self, offset: Operand, value: Operand, /, *, mask: Any = None, latency: Any = None) -> None:
        """See ct.RawArrayMemory.store_offset."""
        del latency
        scatter(self._elements, offset, value, mask=mask, check_bounds=False)

    def __getattr__(self, name: str) -> Any:
        raise TileFault("uncovered", f"the interpreter does not cover RawArrayMemory.{name}")


OPERATIONS["Array.get_raw_memory"] = RawMemory
