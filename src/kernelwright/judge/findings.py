"""What a judgement finds on its way: evidence for checks that pass, the check that ends it; and the time it has.

Not here: the checks (examine.py, device/examine.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from kernelwright.types import Check, Failure, Policy

T = TypeVar("T")


class Unfit(Exception):
    """A check failed; the judgement ends."""

    def __init__(self, check: str, evidence: str) -> None:
        super().__init__(f"{check}: {evidence}")
        self.check = Check(name=check, passed=False, evidence=evidence)


@dataclass
class Findings:
    """Evidence gathered on the way, for the checks that pass."""

    draws: int = 0
    pairs_equal: int = 0
    worst: float = 0.0
    worst_where: str = ""
    closer: int = 0
    compared: int = 0
    glanced: int = 0
    doubts: int = 0
    shapes: list[str] = field(default_factory=list)
    evidence: dict[str, str] = field(default_factory=dict)

    def passed(self, names: Iterable[str], *, but: str | None) -> tuple[Check, ...]:
        """Returns those of the named checks that there is evidence for, but one that failed."""
        known = self.evidence
        return tuple(Check(name=n, passed=True, evidence=known[n]) for n in names if n in known and n != but)


class Timely:
    """What an examination has a deadline for."""

    policy: Policy
    deadline: float

    def _unhurried(self, make: Callable[[], T]) -> T:
        """Returns what all candidates share, made at its first use; no candidate's deadline is shortened by it."""
        start = time.monotonic()
        made = make()
        self.deadline += time.monotonic() - start
        return made

    def _late(self, what: str) -> Failure:
        limit = f"{self.policy.deadline_s:g} s"
        return Failure(stage="run", kind="timeout", message=f"the judgement took longer than {limit}: {what}")
