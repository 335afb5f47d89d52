"""What is allowed for whole numbers and booleans, and what a comparison with any bound finds.

Not here: floating outputs, whose bounds are of another kind (correctness.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright.judge.parts import InParts


@dataclass(frozen=True, slots=True)
class Finding:
    """What the comparison of one output with its bound found."""

    passed: bool
    check: str
    """The name of the check that failed; `accuracy` when none did."""
    ratio: float
    """The largest error as a fraction of what is allowed."""
    evidence: str
    doubtful: bool = False
    """Whether a closer look may find it right after all."""


class ExactBound(InParts):
    """What is allowed for one integer or boolean output on one draw: the truth, or what the reference gives.

    Elements whose truth changes when the inputs move by one rounding are left out where rounding
    decided (truth and reference differ somewhere) or where PyTorch leaves the order of ties open;
    they must only name one of `places`.
    """

    def __init__(
        self,
        name: str,
        *,
        truth: torch.Tensor,
        own: torch.Tensor,
        nearby: Sequence[torch.Tensor],
        ties_open: bool,
        places: int = 0,
    ) -> None:
        self.name, self.shape = name, tuple(own.shape)
        self._truth, self._own = truth.reshape(-1), own.reshape(-1)
        self._open = torch.zeros(self._truth.shape, dtype=torch.bool)
        self._ties_open, self._places = ties_open, places
        if ties_open or not torch.equal(self._truth, self._own):
            for other in nearby:
                self._open |= other.reshape(-1) != self._truth

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the bound holds."""
        return self._truth.numel() * 17

    def check(self, output: torch.Tensor) -> Finding:
        """Compares a candidate's output with the truth, element for element, or the runs of it that the truth holds."""
        given = self.compared(output)
        wrong = (given != self._truth) & (given != self._own) & ~self._open
        if self._open.any():
            # What ties leave open is a place: it must be one that there is.
            lowest, highest = min(0, int(self._truth.min())), max(self._places - 1, int(self._truth.max()))
            wrong |= self._open & ((given < lowest) | (given > highest))
        if not bool(wrong.any()):
            return Finding(True, "accuracy", 0.0, "")
        at, many = int(wrong.nonzero()[0]), f"{int(wrong.sum())} elements differ"
        text = f"{self.name}[{self.place(at)}] is {given[at].item()}, truth {self._truth[at].item()}; {many}"
        return Finding(False, "accuracy", math.inf, text, doubtful=self._ties_open)
