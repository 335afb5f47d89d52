"""What a judgement finds on its way: evidence for the checks that pass, and the check that ends it.

Not here: the checks (examine.py, device/examine.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelwright.types import Check


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
