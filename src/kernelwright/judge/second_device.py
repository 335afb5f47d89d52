"""Finalists for a GPU on the emulated device as well: it minds what hardware lets pass without a word.

**Covers**: CUDA C++ that shuffles with a mask without its own lane, races whose loser happens to be the same each time,
    barriers that are missing between warps which happen to be in step.
**Does not cover**: other languages, inline PTX, tensors too large for an emulation; each such case is a note.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from kernelwright.judge.policies import EMULATED_SCREEN
from kernelwright.types import KILLED, Candidate, Check, Failure, Problem, Record, replace

if TYPE_CHECKING:
    from kernelwright.judge import Judge

NAME = "emulation"
MOST_ELEMENTS = 1 << 20
"""Of all tensors together: every thread of every block is a fiber of one processor."""
POLICY = replace(EMULATED_SCREEN, name=NAME, hidden_shapes=0, deadline_s=60.0, call_deadline_s=20.0)
NO_FINDING = ("timeout", "resources", KILLED)
"""Kinds of failure at run time that say something about this machine, not about the kernel."""


class SecondDevice:
    """Judges finalists on the emulated device; its processes start when the first comes."""

    def __init__(self, make: Callable[[Problem], Judge]) -> None:
        self._make = make
        self._judge: Judge | None = None

    def check(self, problem: Problem, candidate: Candidate) -> Check | str:
        """Returns what the emulated device says of a candidate that passed, or why it says nothing."""
        if candidate.language != "cuda":
            return f"{NAME} did not run: it is for CUDA C++"
        elements = sum(math.prod(tensor.shape) for tensor in problem.arguments)
        if elements > MOST_ELEMENTS:
            return f"{NAME} did not run: {elements} elements, at most {MOST_ELEMENTS} are emulated"
        if self._judge is None:
            self._judge = self._make(problem)
        self._judge.turn_to(problem)
        return read(next(self._judge.judge([candidate], POLICY)))

    def close(self) -> None:
        """Ends the emulated judge, if it was started."""
        if self._judge is not None:
            self._judge.close()
            self._judge = None


def read(record: Record) -> Check | str:
    """Returns the check that a record of the emulated device is, or why it is none."""
    outcome = record.outcome
    if isinstance(outcome, Failure):
        if outcome.stage != "run" or outcome.kind in NO_FINDING:
            return f"{NAME} did not run: {outcome.stage}: {outcome.message[:200]}"
        return Check(name=NAME, passed=False, evidence=f"{outcome.kind}: {outcome.message[:300]}")
    failed = next((check for check in outcome.verdict.checks if not check.passed), None)
    if failed is None:
        return Check(name=NAME, passed=True, evidence="the emulated device, which minds masks and order, agrees")
    return Check(name=NAME, passed=False, evidence=f"{failed.name}: {failed.evidence[:300]}")
