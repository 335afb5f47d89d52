"""Parts of large outputs: what is compared of an output whose float64 truth would fill a device many times over.

**Covers**: the first and the last run, and runs in between that nobody can know beforehand: others for each draw.
**Does not cover**: an error in few elements that lies between the runs of every draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

LARGE_ELEMENTS = 1 << 28
"""Outputs with more elements than this are compared in part."""
RUN_ELEMENTS, RUNS = 1 << 20, 96


@dataclass(frozen=True, slots=True)
class Runs:
    """Some runs of a flat tensor's elements, none of them twice."""

    starts: tuple[int, ...]
    length: int

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the elements of the runs, one after the other."""
        flat = tensor.reshape(-1)
        return torch.cat([flat[start : start + self.length] for start in self.starts])

    def place(self, at: int) -> int:
        """Returns where in the whole tensor an element of `of` lies."""
        return self.starts[at // self.length] + at % self.length


def runs_of(count: int, seed: int, *, length: int = RUN_ELEMENTS, runs: int = RUNS) -> Runs:
    """Returns the runs of a tensor of `count` elements; it must hold them all."""
    slots = np.random.default_rng(seed).permutation(count // length - 2)[: runs - 2] + 1
    return Runs(starts=(0, *sorted(int(slot) * length for slot in slots), count - length), length=length)


def picked(tensors: Sequence[torch.Tensor], runs: Sequence[Runs | None]) -> tuple[torch.Tensor, ...]:
    """Returns of each tensor its runs, all of it where there are none."""
    return tuple(t if r is None else r.of(t) for t, r in zip(tensors, runs, strict=True))


class InParts:
    """What is compared with an output, or with runs of it."""

    runs: Runs | None = None

    def compared(self, output: torch.Tensor) -> torch.Tensor:
        """Returns the elements of an output that are compared."""
        return self.runs.of(output) if self.runs else output.reshape(-1)

    def place(self, at: int) -> int:
        """Returns where in the output the element at a place of `compared` lies."""
        return self.runs.place(at) if self.runs else at


B = TypeVar("B", bound=InParts)


def in_parts(bounds: tuple[B, ...], runs: Sequence[Runs | None]) -> tuple[B, ...]:
    """Returns the bounds, which now know what part of each output they are of."""
    for bound, some in zip(bounds, runs, strict=False):
        bound.runs = some
    return bounds
