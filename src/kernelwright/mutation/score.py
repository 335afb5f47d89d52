"""What became of mutants: which were noticed, and the share of them.

Not here: noticing (against.py for a user's own test, run/mutate.py for the judge).
"""

from __future__ import annotations

from typing import Literal

from kernelwright.mutation.mutant import Mutant
from kernelwright.types import SourceFile
from kernelwright.values import value

State = Literal["killed", "survived", "equivalent", "invalid"]
STATES: tuple[State, ...] = ("killed", "survived", "equivalent", "invalid")


@value
class Outcome:
    """What became of one mutant."""

    mutant: Mutant
    state: State
    """killed (noticed), survived (not noticed), equivalent (computes the same), invalid (does not even build)."""
    why: str
    """The check or failure that noticed it, the test's exit status, or why it is equivalent or invalid."""


@value
class Score:
    """How much of what was planted in one kernel was noticed."""

    kernel: SourceFile
    outcomes: tuple[Outcome, ...]
    seconds: float

    def count(self, state: State) -> int:
        """Returns how many mutants ended so."""
        return sum(outcome.state == state for outcome in self.outcomes)

    @property
    def survivors(self) -> tuple[Outcome, ...]:
        """The mutants that nothing noticed."""
        return tuple(outcome for outcome in self.outcomes if outcome.state == "survived")

    @property
    def ratio(self) -> float | None:
        """Killed over killed and survived; None where there is neither."""
        counted = self.count("killed") + self.count("survived")
        return self.count("killed") / counted if counted else None
