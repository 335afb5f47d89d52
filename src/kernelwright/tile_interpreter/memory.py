"""Global arrays as kernels see them, with an account of who touched each element.

Races are found as happens-before race detectors do (the method of DJIT+ and FastTrack, with blocks in place of
threads): two accesses of different blocks to one element, one of them a write and not both atomic, are a race unless
a release by the first block after its access was acquired by the second before its own. Blocks run one after another,
so only order that atomics make can be told from luck; an element remembers its last writer and whether one block or
several have read it. Not here: what is loaded and stored (access.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelwright.tile_interpreter import dtypes
from kernelwright.tile_interpreter.context import run
from kernelwright.tile_interpreter.dtypes import Dtype
from kernelwright.tile_interpreter.findings import TileFault
from kernelwright.tile_interpreter.tiles import INT, OPERATIONS, made

NOBODY = -1


class Account:
    """Who touched each element last, where and when."""

    def __init__(self, size: int) -> None:
        self.block = np.full(size, NOBODY, np.int32)
        self.line = np.zeros(size, np.int32)
        self.moment = np.zeros(size, np.int64)

    def enter(self, flat: Any, block: int, line: int, moment: int) -> None:
        """Enters an access to elements."""
        self.block[flat], self.line[flat], self.moment[flat] = block, line, moment

    def by_others(self, flat: Any, block: int) -> Any:
        """Returns for which elements the account names another block."""
        return (self.block[flat] != NOBODY) & (self.block[flat] != block)


class Memory:
    """One array in global memory.

    Args:
        name: the kernel's parameter, for messages.
        base: what holds the elements; written in place.
        dtype: the elements' type.
        is_output: whether its contents are undefined until they are written.
    """

    def __init__(self, name: str, base: Any, dtype: Dtype, *, is_output: bool) -> None:
        self.name, self.base, self.dtype, self.is_output = name, base, dtype, is_output
        size = base.size
        self.written = np.zeros(size, bool)
        self.writer = Account(size)
        self.writer_atomic = np.zeros(size, bool)
        self.reader = Account(size)
        self.later_reader = Account(size)
        """The last reader that was another block than the first."""
        self.released: dict[int, dict[int, int]] = {}
        """For an element that was released: what each block had done by then, as its last moment."""

    def read(self, flat: Any) -> Any:
        """Returns the values of elements, by their numbers in row-major order."""
        return dtypes.decode(self._flat()[flat], self.dtype)

    def write(self, flat: Any, values: Any) -> None:
        """Sets elements, by their numbers in row-major order."""
        if self.base.flags.c_contiguous:
            self.base.reshape(-1)[flat] = dtypes.encode(values, self.dtype)
        else:
            self.base[np.unravel_index(flat, self.base.shape)] = dtypes.encode(values, self.dtype)

    def _flat(self) -> Any:
        return self.base.reshape(-1)

    # -------------------------------------------------------------------------- accounts

    def note_read(self, flat: Any, *, atomic: bool = False) -> None:
        """Enters a read of elements, and reports races with writes of other blocks."""
        current = run()
        moment = current.step()
        _, line = current.place()
        others = self.writer.by_others(flat, current.number)
        if atomic:
            others &= ~self.writer_atomic[flat]
        self._report(flat, others, self.writer, "reads", "wrote", line)
        if not atomic:
            is_later = self.reader.by_others(flat, current.number)
            self.reader.enter(flat[~is_later], current.number, line, moment)
            self.later_reader.enter(flat[is_later], current.number, line, moment)

    def note_write(self, flat: Any, *, atomic: bool = False) -> None:
        """Enters a write of elements, and reports races with accesses of other blocks."""
        current = run()
        moment = current.step()
        _, line = current.place()
        writers = self.writer.by_others(flat, current.number)
        if atomic:
            writers &= ~self.writer_atomic[flat]
        self._report(flat, writers, self.writer, "writes", "wrote", line)
        for account in (self.reader, self.later_reader):
            self._report(flat, account.by_others(flat, current.number), account, "writes", "read", line)
        self.writer.enter(flat, current.number, line, moment)
        self.writer_atomic[flat] = atomic
        self.written[flat] = True

    def _report(self, flat: Any, suspects: Any, account: Account, does: str, did: str, line: int) -> None:
        if not suspects.any():
            return
        current = run()
        known = current.known.get(current.number, {})
        racing = flat[suspects]
        if known:
            ordered = [account.moment[at] <= known.get(int(account.block[at]), -1) for at in racing]
            racing = racing[~np.array(ordered, bool)]
        if not racing.size:
            return
        first = int(racing[0])
        place = list(map(int, np.unravel_index(first, self.base.shape)))
        other_line = int(account.line[first])
        message = (
            f"block {_block_of(int(account.block[first]))} {did} {self.name}{place} at line {other_line}, and this "
            f"block {does} it without an order between them; use atomics, or give every block elements of its own"
        )
        current.report(
            "race", "error", message, line=line, other_line=other_line, count=int(racing.size), about=self.name
        )

    # ------------------------------------------------------------------------ synchronising

    def synchronise(self, flat: Any, *, acquires: bool, releases: bool) -> None:
        """Enters what an atomic operation orders between blocks."""
        current = run()
        own = current.known.setdefault(current.number, {})
        for at in np.unique(flat).tolist():
            if acquires:
                for block, moment in self.released.get(at, {}).items():
                    own[block] = max(own.get(block, -1), moment)
            if releases:
                kept = self.released.setdefault(at, {})
                for block, moment in {**own, current.number: current.moment}.items():
                    kept[block] = max(kept.get(block, -1), moment)


def _block_of(number: int) -> tuple[int, int, int]:
    x, y, _ = run().grid
    return number % x, number // x % y, number // (x * y)


class Array:
    """A global array, or a slice of one, as a kernel's parameter."""

    def __init__(self, memory: Memory, starts: tuple[int, ...], shape: tuple[int, ...]) -> None:
        self.memory, self.starts, self._shape = memory, starts, shape

    @property
    def dtype(self) -> Any:
        """The elements' type."""
        return self.memory.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes, which are known only at run time."""
        return tuple(_number(size) for size in self._shape)

    @property
    def strides(self) -> tuple[Any, ...]:
        """Elements from one index to the next, per dimension."""
        item = self.memory.base.itemsize
        return tuple(_number(stride // item) for stride in self.memory.base.strides)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes as plain numbers."""
        return self._shape

    def slice(self, axis: int, start: Any, stop: Any) -> Array:
        """See ct.Array.slice."""
        along = int(axis) % self.ndim
        first, last = int(start), int(stop)
        if not 0 <= first <= last <= self._shape[along]:
            raise TileFault(
                "out-of-bounds",
                f"the slice [{first}, {last}) of {self.memory.name} leaves its {self._shape[along]} elements",
            )
        starts = tuple(s + first if i == along else s for i, s in enumerate(self.starts))
        shape = tuple(last - first if i == along else s for i, s in enumerate(self._shape))
        return Array(self.memory, starts, shape)

    def tiled_view(self, tile_shape: Any, *, padding_mode: Any = None, traversal_steps: Any = None) -> Any:
        """See ct.Array.tiled_view."""
        return OPERATIONS["Array.tiled_view"](self, tile_shape, padding_mode, traversal_steps)

    def get_raw_memory(self) -> Any:
        """See ct.Array.get_raw_memory."""
        return OPERATIONS["Array.get_raw_memory"](self)

    def __getattr__(self, name: str) -> Any:
        raise TileFault("uncovered", f"the interpreter does not cover Array.{name}")

    def __getitem__(self, index: Any) -> Any:
        raise TileFault("error", "arrays cannot be indexed; use ct.load or ct.gather")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TileFault("error", "arrays cannot be assigned to; use ct.store or ct.scatter")

    def flat(self, indices: tuple[Any, ...]) -> Any:
        """Returns the numbers of elements in row-major order, for indices that lie inside."""
        shifted = tuple(np.asarray(i, np.int64) + s for i, s in zip(indices, self.starts, strict=True))
        if not shifted:
            return np.zeros((), np.int64)
        return np.ravel_multi_index(np.broadcast_arrays(*shifted), self.memory.base.shape)


def _number(size: int) -> Any:
    return made(np.asarray(size), INT)
