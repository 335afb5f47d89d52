"""What the interpreter finds, and the fault that ends a run.

Not here: how findings come about (memory.py, operations.py, running.py).
"""

from __future__ import annotations

from typing import Literal

from kernelwright.values import value

Level = Literal["error", "warning", "note"]
"""error: undefined on a device, or refused by cuda.tile; warning: probably not meant; note: allowed, worth knowing."""


@value
class Finding:
    """One thing that is wrong with a kernel, at its source line."""

    kind: str
    """A short stable word: out-of-bounds, race, undefined, unwritten, shape, dtype, uncovered, assertion, stuck,
    error."""
    level: Level
    message: str
    file: str
    line: int
    other_line: int = 0
    """For a race: where the other block stands."""
    block: tuple[int, int, int] = (0, 0, 0)
    """The first block that showed it."""
    count: int = 1
    """How many elements or times it happened."""

    @property
    def location(self) -> str:
        """file:line."""
        return f"{self.file}:{self.line}"

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.location}: {self.level}: {self.kind}: {self.message}; first in block {self.block}{times}"


@value
class Findings:
    """What one run of a kernel found."""

    findings: tuple[Finding, ...]
    blocks: int
    """How many blocks ran."""
    seed: int
    """What decided their order."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make a kernel wrong."""
        return tuple(finding for finding in self.findings if finding.level == "error")

    @property
    def clean(self) -> bool:
        """True when nothing was found that makes the kernel wrong."""
        return not self.errors

    def of(self, kind: str) -> tuple[Finding, ...]:
        """Returns the findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or f"nothing found in {self.blocks} blocks"


class TileFault(Exception):
    """Something that ends the run: cuda.tile would refuse it, or the interpreter does not know it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message
