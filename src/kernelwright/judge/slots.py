"""Where inputs, parameters, outputs and workspaces lie: shared memory with guard bands round every buffer.

Three regions. `input` holds the parameters once and every input once for each slot; the runner sees
it read-only. `output` holds every output once for each slot. `workspace` holds a candidate's
scratch memory and is made anew for each candidate. Guard bands are NaN in every floating format and
-1 or a large value in every integer format, so that a read beyond a buffer shows in the answer and a
write beyond it shows in the band. What may be written has another NaN than what is only read: a kernel
that goes one too far copies the band behind its input into the band behind its output.

Not here: what is written into the slots (inputs.py) and who calls what on them (timing.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kernelwright.axes import count_of
from kernelwright.errors import UserError
from kernelwright.reference_program import DTYPES
from kernelwright.sizes import evaluate
from kernelwright.types import Problem, TensorSpec, Workspace

ALIGNMENT = 64
GUARD_BYTES = 1024
SKEW_BYTES = 192
"""Each buffer starts a little further into its page than the one before it, so that inputs and outputs do not
share their low address bits (which would stall loads behind stores)."""
GUARDS = {"input": b"\xff\xff", "output": b"\xfd\x7f", "workspace": b"\xf9\xff", "stamps": b"\xff\xff"}
"""The pattern of each region's bands, by its name: NaN in every floating format, and those of what a kernel sees all
different, so that what was read beyond one buffer never looks like an untouched band when it is written beyond
another."""
POISONS = (0xFF, 0x5A)
"""Two patterns: a NaN in every floating format, and an ordinary number."""
MAX_SLOTS = 4096
FOOTPRINT_LIMIT_BYTES = 1 << 30
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
REGIONS = ("input", "output", "workspace")
MEMORY_NAME = "kernelwright-"
"""What a region is called in /proc/PID/maps, before its own name."""
OF_FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
FUTURE_WRITE = 0x10
"""F_SEAL_FUTURE_WRITE (Linux 5.1), which Python 3.11 has no name for."""


def half(slots: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Returns a random half of some slots, for poison: outputs of the others hold what an earlier call has left.

    A kernel that takes that for its own answer is wrong there; one that knows calls by the poison knows half of them.
    """
    return [slot for slot in slots if rng.random() < 0.5]


@dataclass(frozen=True, slots=True)
class Buffer:
    """Where one tensor or workspace lies in its region."""

    name: str
    region: int
    offset: int
    stride: int
    """Bytes from one slot to the next; 0 for what all slots share."""
    size: int
    spec: TensorSpec | None


class Region:
    """One block of shared memory, whose size nobody can change.

    Only inputs can be written by nobody but this process: a descriptor opened for reading is no protection, since
    whoever holds it can open /proc/self/fd/N once more, for writing.
    """

    def __init__(self, name: str, size: int) -> None:
        self._guard = GUARDS[name]
        self.size = _up(max(size, mmap.PAGESIZE), mmap.PAGESIZE)
        self.fd = os.memfd_create(MEMORY_NAME + name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        self.map = mmap.mmap(self.fd, self.size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        # This mapping stays as it is; later ones, and writing by any descriptor, are refused.
        self.only_ours = name == REGIONS[0] and _seal(self.fd, FUTURE_WRITE)
        _seal(self.fd, OF_FIXED_SIZE | fcntl.F_SEAL_SEAL)
        self.bytes = torch.frombuffer(self.map, dtype=torch.uint8)
        self.address = self.bytes.data_ptr()
        self.guard_all()

    def guard_all(self) -> None:
        """Writes the bands' pattern over everything."""
        words = self.bytes.view(torch.int16)
        words.fill_(int.from_bytes(self._guard, "little", signed=True))

    def first_broken(self, start: int, stop: int) -> tuple[int, int] | None:
        """Returns the first and last byte of a band that were written, counted from its start; None where none was."""
        band = self.bytes[start:stop]
        expected = torch.tensor(list(self._guard), dtype=torch.uint8).repeat((stop - start) // 2 + 1)
        broken = (band != expected[start % 2 :][: stop - start]).nonzero()
        return (int(broken[0]), int(broken[-1])) if len(broken) else None

    def view(self, spec: TensorSpec, offset: int) -> torch.Tensor:
        """Returns a tensor of that spec over the memory at `offset`."""
        count = count_of(spec)
        if not count:
            return torch.empty(spec.shape, dtype=DTYPES[spec.dtype])
        return torch.frombuffer(self.map, dtype=DTYPES[spec.dtype], count=count, offset=offset).view(spec.shape)

    def fill(self, offset: int, size: int, byte: int) -> None:
        """Sets `size` bytes from `offset` to one value."""
        ctypes.memset(self.address + offset, byte, size)

    def read_only_fd(self) -> int:
        """Returns a new descriptor for reading: enough for a process that makes no system calls (see the class)."""
        return os.open(f"/proc/self/fd/{self.fd}", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Gives the descriptor back; the memory goes when nobody maps it any more."""
        os.close(self.fd)


def _seal(fd: int, seals: int) -> bool:
    """Tells whether the kernel knows these seals."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return True
    return False


class Slots:
    """The session's slots: `count` sets of inputs and outputs, and one set of parameters."""

    def __init__(self, problem: Problem, *, cache_bytes: int, available_bytes: int, most: int | None = None) -> None:
        self.problem = problem
        self.slot_bytes = sum(bytes_of(s) for s in problem.inputs + problem.outputs)
        count = slot_count(problem, cache_bytes=cache_bytes, available_bytes=available_bytes)
        self.count = count if most is None else min(count, most)
        self.cold = self.count * self.slot_bytes >= 2 * cache_bytes
        cursors = [0, 0]
        shared = _place(problem.parameters, 0, cursors, 1)
        inputs = _place(problem.inputs, 0, cursors, self.count)
        outputs = _place(problem.outputs, 1, cursors, self.count)
        self.buffers = (*inputs, *shared, *outputs)
        self.input, self.output = (Region(REGIONS[i], cursors[i]) for i in (0, 1))
        self._outputs = outputs
        self.parameters = tuple(self.input.view(_spec(b), b.offset) for b in shared)
        self.inputs = self._views(inputs, self.input)
        self.outputs = self._views(outputs, self.output)

    def _views(self, buffers: Sequence[Buffer], region: Region) -> tuple[tuple[torch.Tensor, ...], ...]:
        return tuple(
            tuple(region.view(_spec(b), b.offset + slot * b.stride) for b in buffers) for slot in range(self.count)
        )

    def poison(self, slots: Iterable[int], byte: int) -> None:
        """Overwrites the outputs of some slots with a pattern, bands untouched."""
        for slot in slots:
            for buffer in self._outputs:
                self.output.fill(buffer.offset + slot * buffer.stride, buffer.size, byte)

    def holds(self, slot: int, byte: int) -> bool:
        """Tells whether a slot's outputs are still nothing but the pattern."""
        return all(bool((self.raw(slot, i) == byte).all()) for i in range(len(self._outputs)))

    def raw(self, slot: int, index: int) -> torch.Tensor:
        """Returns the bytes of one output of a slot."""
        buffer = self._outputs[index]
        start = buffer.offset + slot * buffer.stride
        return self.output.bytes[start : start + buffer.size]

    def words(self, slot: int, index: int) -> torch.Tensor:
        """Returns one output of a slot as whole numbers of its elements' width, bit for bit."""
        return self.raw(slot, index).view(WORDS[_itemsize(self._outputs[index])])

    def sampled_words(self, slots: Sequence[int], index: int, places: torch.Tensor) -> torch.Tensor:
        """Returns the bits of the same places of one output in several slots, a row for each slot."""
        buffer = self._outputs[index]
        width = _itemsize(buffer)
        starts = torch.tensor([(buffer.offset + slot * buffer.stride) // width for slot in slots])
        return self.output.bytes.view(WORDS[width])[starts[:, None] + places]

    def poison_word(self, index: int, byte: int) -> int:
        """Returns what an element of an output is, as a whole number, when it holds nothing but the pattern."""
        width = _itemsize(self._outputs[index])
        return int.from_bytes(bytes([byte]) * width, "little", signed=width > 1)

    def broken_guard(self, slots: Iterable[int]) -> str | None:
        """Returns which output's band was written in these slots, None when all are whole."""
        for slot in slots:
            for buffer in self._outputs:
                if place := broken_band(self.output, buffer, slot):
                    return place
        return None

    def restore_guards(self) -> None:
        """Writes every band of the output region anew, after a candidate that broke some."""
        self.output.guard_all()

    def close(self) -> None:
        """Gives the shared memory back."""
        self.input.close()
        self.output.close()


class Workspaces:
    """One candidate's scratch memory: one set, whose contents are undefined before every call."""

    def __init__(self, workspaces: Sequence[Workspace], axes: Mapping[str, int] | None = None) -> None:
        cursor, placed = 0, []
        for workspace in workspaces:
            offset = _up(cursor + GUARD_BYTES, ALIGNMENT)
            size = evaluate(workspace.size_bytes, axes or {})
            placed.append(Buffer(workspace.name, 2, offset, 0, size, None))
            cursor = offset + size + GUARD_BYTES
        self.buffers = tuple(placed)
        self.region = Region(REGIONS[2], cursor)

    def poison(self, byte: int) -> None:
        """Overwrites all workspaces with a pattern."""
        for buffer in self.buffers:
            self.region.fill(buffer.offset, buffer.size, byte)

    def broken_guard(self) -> str | None:
        """Returns which workspace's band was written, None when all are whole."""
        return next((place for b in self.buffers if (place := broken_band(self.region, b, 0))), None)


def broken_band(region: Region, buffer: Buffer, slot: int) -> str | None:
    """Returns a description of the first written byte round a buffer, None when there is none."""
    start = buffer.offset + slot * buffer.stride
    if before := region.first_broken(start - GUARD_BYTES, start):
        return f"{GUARD_BYTES - before[1]} bytes before {buffer.name}"
    if after := region.first_broken(start + buffer.size, start + buffer.size + GUARD_BYTES):
        return f"{after[0]} bytes after the end of {buffer.name}"
    return None


def slot_count(problem: Problem, *, cache_bytes: int, available_bytes: int) -> int:
    """Returns how many slots make the footprint twice the last-level cache, within the memory.

    Raises:
        UserError: when not even two slots and the float64 truth fit.
    """
    each = sum(bytes_of(s) for s in problem.inputs + problem.outputs)
    shared = sum(bytes_of(s) for s in problem.parameters)
    # Truth in float64 with its intermediate results, bounds, and the reference's own results.
    working = 8 * sum(count_of(s) * 8 for s in problem.arguments)
    needed = 2 * each + shared + working
    if needed > available_bytes:
        raise UserError(
            f"judging {problem.name} needs about {needed / 2**30:.1f} GiB of memory; "
            f"{available_bytes / 2**30:.1f} GiB are free",
            "use smaller shapes or free some memory",
        )
    footprint = min(2 * cache_bytes, FOOTPRINT_LIMIT_BYTES, (available_bytes - working - shared) // 2)
    padded = each + (2 * GUARD_BYTES + SKEW_BYTES) * len(problem.inputs + problem.outputs)
    return max(2, min(MAX_SLOTS, -(-footprint // max(each, 1)), FOOTPRINT_LIMIT_BYTES // max(padded, 1)))


def bytes_of(spec: TensorSpec) -> int:
    """Returns the size of a tensor's elements."""
    return count_of(spec) * DTYPES[spec.dtype].itemsize


def _spec(buffer: Buffer) -> TensorSpec:
    assert buffer.spec is not None
    return buffer.spec


def _itemsize(buffer: Buffer) -> int:
    return DTYPES[_spec(buffer).dtype].itemsize


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _place(specs: Sequence[TensorSpec], region: int, cursors: list[int], count: int) -> tuple[Buffer, ...]:
    """Lays `count` sets of tensors one after the other into a region."""
    offsets, cursor = [], 0
    for position, spec in enumerate(specs):
        cursor = _up(cursor + GUARD_BYTES, ALIGNMENT) + SKEW_BYTES * (position + 2 * region)
        offsets.append(cursor)
        cursor += bytes_of(spec) + GUARD_BYTES
    stride = _up(cursor, ALIGNMENT)
    start = _up(cursors[region], ALIGNMENT)
    cursors[region] = start + stride * count
    return tuple(
        Buffer(s.name, region, start + o, stride if count > 1 else 0, bytes_of(s), s)
        for s, o in zip(specs, offsets, strict=True)
    )
