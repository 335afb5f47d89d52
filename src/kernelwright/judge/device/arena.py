"""Where tensors and workspaces lie on the device: one block of memory for each region, guard bands round every buffer.

As slots.py on the CPU: `input` holds parameters once and inputs once for each slot, `output` the outputs
once for each slot, `workspace` a candidate's scratch memory. Each region's bands have a pattern of their own.
Unlike there a kernel could write to its inputs, so their bands and contents are compared too.

Everything is done for many slots at once, since each operation on a device costs microseconds of host time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelwright.errors import UserError
from kernelwright.judge.device import passes
from kernelwright.judge.parts import LARGE_ELEMENTS
from kernelwright.judge.slots import GUARD_BYTES, GUARDS, WORDS, bytes_of
from kernelwright.reference_program import DTYPES
from kernelwright.sizes import evaluate
from kernelwright.types import Problem, TensorSpec, Workspace

ALIGNMENT = 256
MOST_SLOTS = 1024
FEWEST_SLOTS = 4
FOOTPRINT_BYTES = 12 << 30
"""So many slots as fill this are made, so that a block of a quick kernel has many calls, each on memory of its own."""
LONG_ROW = 1 << 18
"""Rows with so many elements are written one by one, at the memory's own speed."""
MEMORY_SHARE = 0.3
"""Of the free device memory, for slots."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one tensor or workspace lies in its region."""

    name: str
    offset: int
    stride: int
    """Bytes from one slot to the next; 0 for what all slots share."""
    size: int
    spec: TensorSpec | None = None


def lay_out(
    items: Sequence[tuple[str, int, TensorSpec | None]], *, count: int, start: int = 0
) -> tuple[tuple[Place, ...], int]:
    """Returns where `count` sets of items lie one after the other, and where they end.

    Every buffer starts at a multiple of ALIGNMENT and has GUARD_BYTES before and after it.
    """
    offsets, cursor = [], 0
    for _, size, _ in items:
        cursor = _up(cursor + GUARD_BYTES, ALIGNMENT)
        offsets.append(cursor)
        cursor += size + GUARD_BYTES
    stride = _up(cursor, ALIGNMENT)
    begin = _up(start, ALIGNMENT)
    shared = 0 if count == 1 else stride
    places = tuple(Place(n, begin + o, shared, s, spec) for (n, s, spec), o in zip(items, offsets, strict=True))
    return places, begin + stride * count


class Region:
    """One block of device memory; `name` says which pattern its bands have (slots.GUARDS)."""

    def __init__(self, name: str, size: int, device: torch.device) -> None:
        self.bytes = torch.empty(_up(max(size, ALIGNMENT), ALIGNMENT), dtype=torch.uint8, device=device)
        self.address = self.bytes.data_ptr()
        pattern = torch.tensor(list(GUARDS[name]), dtype=torch.uint8, device=device).repeat(GUARD_BYTES // 2)
        self._expected = (pattern, pattern.roll(1))
        self._word = int.from_bytes(GUARDS[name], "little", signed=True)
        self.guard_all()

    def guard_all(self) -> None:
        """Writes the bands' pattern over everything."""
        self.bytes.view(torch.int16).fill_(self._word)

    @property
    def addresses(self) -> range:
        """The device addresses that belong to the region."""
        return range(self.address, self.address + self.bytes.numel())

    def stacked(self, place: Place, count: int) -> torch.Tensor:
        """Returns a tensor of all slots: [count, *shape]."""
        assert place.spec is not None
        dtype, shape = DTYPES[place.spec.dtype], place.spec.shape
        if not math.prod(shape):
            return torch.empty((count, *shape), dtype=dtype, device=self.bytes.device)
        inner = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        width = dtype.itemsize
        step = (place.stride or _up(place.size, width)) // width
        return torch.as_strided(self.bytes.view(dtype), (count, *shape), (step, *inner), place.offset // width)

    def words(self, place: Place, count: int) -> torch.Tensor:
        """Returns the bits of all slots as whole numbers of the elements' width: [count, elements]."""
        width = DTYPES[place.spec.dtype].itemsize if place.spec else 1
        view = self.bytes.view(WORDS[width])
        step = (place.stride or _up(place.size, width)) // width
        return torch.as_strided(view, (count, place.size // width), (step, 1), place.offset // width)

    def bands(self, place: Place, count: int) -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
        """Returns the guard bands before and after a buffer in all slots, and what each slot's must be.

        [count, GUARD_BYTES] and [GUARD_BYTES] each.
        """
        step = place.stride or place.size
        return tuple(
            (torch.as_strided(self.bytes, (count, GUARD_BYTES), (step, 1), at), self._expected[at % 2])
            for at in (place.offset - GUARD_BYTES, place.offset + place.size)
        )


class DeviceSlots:
    """The session's slots: `count` sets of inputs and outputs, and one set of parameters.

    Raises:
        UserError: when the device's memory does not hold two slots and what judging them needs.
    """

    def __init__(
        self, problem: Problem, device: torch.device, *, cache_bytes: int, free_bytes: int, most: int = MOST_SLOTS
    ) -> None:
        self.problem, self.device = problem, device
        self.slot_bytes = sum(bytes_of(s) for s in problem.inputs + problem.outputs)
        self.count = min(most, slot_count(problem, cache_bytes=cache_bytes, free_bytes=free_bytes))
        inputs, end = lay_out([(s.name, bytes_of(s), s) for s in problem.inputs], count=self.count)
        shared, end = lay_out([(s.name, bytes_of(s), s) for s in problem.parameters], count=1, start=end)
        outputs, last = lay_out([(s.name, bytes_of(s), s) for s in problem.outputs], count=self.count)
        self.input, self.output = Region("input", end, device), Region("output", last, device)
        self._inputs, self._shared, self._outputs = inputs, shared, outputs
        self.input_stacks = tuple(self.input.stacked(p, self.count) for p in inputs)
        self.output_stacks = tuple(self.output.stacked(p, self.count) for p in outputs)
        self.parameters = tuple(self.input.stacked(p, 1)[0] for p in shared)
        self._input_words = tuple(self.input.words(p, self.count) for p in inputs)
        self._shared_words = tuple(self.input.words(p, 1) for p in shared)
        self.output_words = tuple(self.output.words(p, self.count) for p in outputs)

    def inputs(self, slot: int) -> tuple[torch.Tensor, ...]:
        """Returns the input tensors of a slot."""
        return tuple(stack[slot] for stack in self.input_stacks)

    def outputs(self, slot: int) -> tuple[torch.Tensor, ...]:
        """Returns the output tensors of a slot."""
        return tuple(stack[slot] for stack in self.output_stacks)

    def addresses(self, slot: int) -> dict[str, int]:
        """Returns the device address of every tensor as a call on a slot sees it."""
        found = {p.name: self.input.address + p.offset + slot * p.stride for p in (*self._inputs, *self._shared)}
        found.update({p.name: self.output.address + p.offset + slot * p.stride for p in self._outputs})
        return found

    def views(self, slot: int) -> dict[str, torch.Tensor]:
        """Returns every tensor by name as a call on a slot sees it."""
        tensors = (*self.inputs(slot), *self.parameters, *self.outputs(slot))
        return {p.name: t for p, t in zip((*self._inputs, *self._shared, *self._outputs), tensors, strict=True)}

    def poison(self, slots: Sequence[int], byte: int) -> None:
        """Overwrites the outputs of some slots with a pattern, bands untouched."""
        if not slots:
            return
        for index, words in enumerate(self.output_words):
            word = self.poison_word(index, byte)
            if len(slots) == self.count:
                words.fill_(word)
            elif words.shape[1] >= LONG_ROW:
                for slot in slots:
                    words[slot].fill_(word)
            else:
                words.index_fill_(0, torch.tensor(slots, device=self.device), word)

    def poison_word(self, index: int, byte: int) -> int:
        """Returns what an element of an output is, as a whole number, when it holds nothing but the pattern."""
        width = self.output_words[index].element_size()
        return int.from_bytes(bytes([byte]) * width, "little", signed=width > 1)

    def holds(self, slots: Sequence[int], byte: int) -> bool:
        """Tells whether some slots' outputs are still nothing but the pattern."""
        if not slots:
            return True
        flags = []
        for index, words in enumerate(self.output_words):
            for row in (words[slot] for slot in slots):
                own = passes.of(row)
                same = own.pair(row, row, byte, byte)[0] == row.numel() if own else row == self.poison_word(index, byte)
                flags.append(same.all())
        return bool(torch.stack(flags).all())

    def sums(self, slots: Sequence[int]) -> tuple[torch.Tensor, ...]:
        """Returns a sum over the bits of every input of some slots and of every parameter, to see writes."""
        shared = tuple(_weighed(words, (0,)) for words in self._shared_words)
        return (*(_weighed(words, slots) for words in self._input_words), *shared)

    def changed(self, before: Sequence[torch.Tensor], slots: Sequence[int]) -> str | None:
        """Returns which input or parameter is not what it was when `sums` were taken, None when all are."""
        names = [p.name for p in (*self._inputs, *self._shared)]
        same = [torch.equal(old, new) for old, new in zip(before, self.sums(slots), strict=True)]
        return next((name for name, kept in zip(names, same, strict=True) if not kept), None)

    def broken_guard(self) -> str | None:
        """Returns where something was written outside a buffer, in any slot; None when all bands are whole."""
        checked = [(self.input, p, self.count if p.stride else 1) for p in (*self._inputs, *self._shared)]
        checked += [(self.output, p, self.count if p.stride else 1) for p in self._outputs]
        return broken_band(checked)

    def restore_guards(self) -> None:
        """Writes every band anew, and the outputs, after a candidate that may have broken some."""
        self.output.guard_all()
        for place in (*self._inputs, *self._shared):
            for band, expected in self.input.bands(place, self.count if place.stride else 1):
                band.copy_(expected)


class DeviceWorkspaces:
    """One candidate's scratch memory, whose contents are undefined before every call."""

    def __init__(
        self, workspaces: Sequence[Workspace], device: torch.device, axes: Mapping[str, int] | None = None
    ) -> None:
        self.places, end = lay_out([(w.name, evaluate(w.size_bytes, axes or {}), None) for w in workspaces], count=1)
        self.region = Region("workspace", end, device)

    def addresses(self) -> dict[str, int]:
        """Returns the device address of every workspace."""
        return {p.name: self.region.address + p.offset for p in self.places}

    def views(self) -> dict[str, torch.Tensor]:
        """Returns every workspace by name, as bytes."""
        return {p.name: self.region.bytes[p.offset : p.offset + p.size] for p in self.places}

    def poison(self, byte: int) -> None:
        """Overwrites all workspaces with a pattern."""
        for view in self.views().values():
            view.fill_(byte)

    def broken_guard(self) -> str | None:
        """Returns where something was written outside a workspace, None when all bands are whole."""
        return broken_band([(self.region, place, 1) for place in self.places])


def broken_band(checked: Sequence[tuple[Region, Place, int]]) -> str | None:
    """Returns a description of the first written byte round some buffers; waits only once when all is well."""
    bands = [
        (place, side, band != expected)
        for region, place, count in checked
        for side, (band, expected) in enumerate(region.bands(place, count))
    ]
    if not bands:
        return None
    flags = torch.stack([written.any() for _, _, written in bands]).tolist()
    for (place, side, written), broken in zip(bands, flags, strict=True):
        if broken:
            _, at = written.nonzero()[0 if side else -1].tolist()
            if side:
                return f"{at} bytes after the end of {place.name}"
            return f"{GUARD_BYTES - at} bytes before {place.name}"
    return None


def working_bytes(problem: Problem) -> int:
    """Returns about what finding the truth and its bounds takes for a while.

    Of a large output only parts are compared (judge/parts.py): then it is the evaluation in float64 that counts, with
    its inputs and about three tensors as large as its output at a time.
    """
    given = sum(math.prod(s.shape) for s in problem.inputs + problem.parameters)
    made = sum(math.prod(s.shape) for s in problem.outputs)
    return 8 * min(8 * (given + made), 2 * given + 3 * made + 8 * LARGE_ELEMENTS)


def slot_count(problem: Problem, *, cache_bytes: int, free_bytes: int) -> int:
    """Returns how many slots make the footprint twice the cache, within the memory.

    Raises:
        UserError: when not even two slots and the float64 truth fit.
    """
    each = sum(bytes_of(s) + 2 * GUARD_BYTES + ALIGNMENT for s in problem.inputs + problem.outputs)
    shared = sum(bytes_of(s) for s in problem.parameters)
    working = working_bytes(problem)
    if 2 * each + shared + working > free_bytes:
        needed, free = (2 * each + shared + working) / 2**30, free_bytes / 2**30
        raise UserError(
            f"judging {problem.name} needs about {needed:.1f} GiB of device memory; {free:.1f} GiB are free",
            "use smaller shapes, or end other programs on the device",
        )
    wanted = max(FEWEST_SLOTS, -(-2 * cache_bytes // each), FOOTPRINT_BYTES // each)
    possible = int(min(MEMORY_SHARE * free_bytes, free_bytes - working - shared) // each)
    return max(2, min(MOST_SLOTS, wanted, possible))


def _weighed(words: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
    if own := passes.of(words[0]):
        return own.sums(words, rows)
    count, width = words.shape[1], words.element_size()
    if count * len(rows) < 1 << 20:
        weights = torch.arange(1, count + 1, device=words.device) | 1
        return (words[list(rows)].long() * weights).sum(-1)
    # Large ones are summed as they are: a write that leaves the sum alone would have to be arranged.
    parts = [words[row] for row in rows] if count >= 1 << 22 else [words[list(rows)]]
    wide = [part.view(torch.int64) if count * width % 8 == 0 else part for part in parts]
    return torch.stack([part.sum(-1, dtype=torch.int64) for part in wide])


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
