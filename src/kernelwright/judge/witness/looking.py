"""Results of witnessed calls, read where they lie as soon as the judge's clock has stopped.

What is handed in later must be what lay there then: so it does not matter what runs in the candidate's process while
results are looked at and copied, nor how it came to run there. Not here: who stops the process (witness.py).

Covers: work that is done after the call, by whatever means; addresses at which nothing lies; results that are the
    inputs' memory, mapped once more.
Does not cover: results on another device; where the kernel lets nobody read another process's memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kernelwright.judge.findings import Unfit
from kernelwright.judge.slots import MEMORY_NAME, Slots
from kernelwright.judge.witness import observing, structure
from kernelwright.reference_program import DTYPES

LOOKED_CALLS, LOOKED_PLACES = 16, 64
"""Results of a block that are looked at, and elements of each: at places that nobody else knows."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How an output lies in memory: without gaps, its axes in the reference's order."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int
    """Bytes of an element."""

    @property
    def count(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    def offsets(self, elements: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns where elements lie that are numbered row by row, in bytes."""
        places = np.unravel_index(elements, self.shape) if self.shape else ()
        return self.item * sum((p * s for p, s in zip(places, self.strides, strict=True)), np.zeros_like(elements))


@dataclass(frozen=True, slots=True)
class Seen:
    """What lay at some places of a result when the judge's clock had stopped."""

    slot: int
    index: int
    """Of the output."""
    elements: NDArray[np.int64]
    """Numbered row by row."""
    there: NDArray[np.uint8] | None
    """A row for each element; None where nothing lies at the address."""


class Looking:
    """Looks at a block's results.

    Args:
        slots: where they are handed in.
        setup: what the witness was told of the problem.
        rng: secret.
    """

    def __init__(self, slots: Slots, setup: Mapping[str, Any], rng: np.random.Generator) -> None:
        self._slots, self._rng, self._active = slots, rng, setup["device"] == "cpu"
        self._aliases = [bool(alias) for alias in setup["aliases"]]
        self._outputs = [
            Layout(spec.name, tuple(spec.shape), structure.dense(spec.shape, order), DTYPES[spec.dtype].itemsize)
            for spec, order in zip(slots.problem.outputs, setup["orders"], strict=True)
        ]

    def look(self, process: int, slots: Sequence[int], places: Any) -> list[Seen]:
        """Returns what lies at some places of a block's results now; the process is stopped.

        Args:
            process: whose memory it is.
            slots: of the calls, in order.
            places: the addresses of each call's results, as the process tells them.

        Raises:
            Unfit: for a result that lies in the judge's own memory, by whatever mapping.
        """
        found: list[Seen] = []
        for position in self._rng.permutation(len(slots))[:LOOKED_CALLS].tolist() if self._active else ():
            for index, output in enumerate(self._outputs):
                elements = self._rng.integers(0, max(1, output.count), min(output.count, LOOKED_PLACES))
                try:
                    at = np.uint64(places[position][index])
                    addresses = at + output.offsets(elements).astype(np.uint64)
                    there = observing.read_memory(process, addresses, output.item)
                    if not self._aliases[index]:
                        self._not_ours(process, int(at), output)
                except PermissionError:
                    self._active = False
                    return []
                except (OSError, ValueError, OverflowError, TypeError, IndexError, KeyError):
                    there = None
                found.append(Seen(slots[position], index, elements, there))
        return found

    def _not_ours(self, process: int, at: int, output: Layout) -> None:
        """The process itself compares addresses: inputs that it has mapped once more lie at others."""
        name = observing.file_below(process, at, output.count * output.item) if output.count else ""
        if f"memfd:{MEMORY_NAME}" in name:
            raise Unfit("structure", f"{output.name} lies in the judge's own memory, mapped once more")

    def compare(self, seen: Sequence[Seen]) -> None:
        """Holds what was handed in against what lay there when the clock had stopped.

        Raises:
            Unfit: where that is something else.
        """
        for one in seen:
            output = self._outputs[one.index]
            memory = self._slots.raw(one.slot, one.index).reshape(-1).view(torch.uint8).view(-1, output.item)
            rows = memory[torch.from_numpy(one.elements)].numpy()
            late = len(rows) if one.there is None else int((rows != one.there).any(axis=1).sum())
            if late:
                what = f"{late} of {len(rows)} elements of {output.name} that were looked at"
                raise Unfit("timed outputs", f"{what} were written after the call, when the judge's clock had stopped")
