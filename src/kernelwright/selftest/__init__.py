"""The judge's own score: what of the corpus it catches, what it wrongly refuses, and whether its times hold.

Cheats and planted bugs must not pass, honest kernels must. Everything is judged here and now; nothing is remembered.
Not here: the kernels themselves (tests/cheats, tests/honest, tests/mutants) and the checks (judge).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import get_args

from kernelwright.run.session import disturbed
from kernelwright.selftest.items import Item, Kind, items_of
from kernelwright.selftest.kernel_files import reason
from kernelwright.selftest.sessions import Sessions, target_of
from kernelwright.selftest.shares import in_shares
from kernelwright.selftest.timing import TimingTest, timing_test
from kernelwright.types import Record, Target, value

__all__ = ["KINDS", "Finding", "Score", "TimingTest", "selftest"]

KINDS: tuple[Kind, ...] = get_args(Kind)


@value
class Finding:
    """What the judge said of one kernel of the corpus."""

    kind: Kind
    name: str
    right: bool
    """Cheats and mutants: it did not pass. Honest kernels: it passed."""
    found: str
    """The failed check, the failure's kind, or `passed`."""
    expected: tuple[str, ...]
    """The checks that the kernel names; empty for honest ones."""


@value
class Score:
    """The judge's score on one machine."""

    target: Target
    findings: tuple[Finding, ...]
    skipped: tuple[str, ...]
    """Kernels that cannot go wrong here: of another processor, or for want of a second thread."""
    timing: TimingTest | None
    """None where it was left out."""
    seconds: float

    def of(self, kind: Kind) -> tuple[Finding, ...]:
        """Returns the findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    @property
    def missed(self) -> tuple[str, ...]:
        """Cheats and mutants that passed."""
        return tuple(f.name for f in self.findings if not f.right and f.kind != "honest")

    @property
    def false_alarms(self) -> tuple[str, ...]:
        """Honest kernels that did not pass."""
        return tuple(f.name for f in self.findings if not f.right and f.kind == "honest")

    @property
    def holds(self) -> bool:
        """True when nothing was missed, no alarm was false, and the times came out as they must."""
        timing = self.timing is None or "failed" not in (self.timing.tie, self.timing.delay)
        return not self.missed and not self.false_alarms and timing


def selftest(
    *,
    device: str = "cpu",
    kinds: tuple[Kind, ...] = KINDS,
    with_timing: bool = True,
    limit: int | None = None,
    workers: int = 1,
    tell: Callable[[str], None] = lambda _: None,
) -> Score:
    """Returns the judge's score on a device of this machine.

    Args:
        device: cpu; emulated, where CUDA C++ runs on the CPU and nothing is timed; or cuda.
        kinds: what to judge.
        with_timing: whether to make the timing self-test as well.
        limit: at most so many kernels of each kind, spread over their list; None: all.
        workers: judges at a time, each with its share of the kernels; they take turns at the machine's GPUs.
        tell: called with a line for each step.

    Raises:
        UserError: the corpus is not installed, or there is no compiler.
    """
    begun = time.monotonic()
    parts = in_shares(judge_share, (device, kinds, limit), workers, tell)
    target = parts[0][0]
    timing = timing_test(target, tell=tell) if with_timing and device != "emulated" else None
    return Score(
        target=target,
        findings=tuple(finding for part in parts for finding in part[1]),
        skipped=tuple(name for part in parts for name in part[2]),
        timing=timing,
        seconds=time.monotonic() - begun,
    )


def judge_share(
    device: str, kinds: tuple[Kind, ...], limit: int | None, share: tuple[int, int], tell: Callable[[str], None]
) -> tuple[Target, list[Finding], list[str]]:
    """Judges every so-many-th kernel of the corpus.

    Args:
        device: as for `selftest`.
        kinds: what to judge.
        limit: as for `selftest`.
        share: which, counted from 0, and of how many.
        tell: called with a line for each problem.

    Returns:
        The target, what was found, and the names of what cannot go wrong here.
    """
    sessions = Sessions(target_of(device))
    try:
        chosen = [item for kind in kinds for item in _spread(list(items_of(kind, sessions.target)), limit)]
        chosen = chosen[share[0] :: share[1]]
        findings: list[Finding] = []
        fit = [item for item in chosen if not item.unfit]
        for problem in dict.fromkeys(item.problem for item in fit):
            batch = [item for item in fit if item.problem == problem]
            findings += _judge(sessions, batch)
            tell(f"{problem}: {len(batch)} judged, {len(findings)} of {len(fit)}")
        return sessions.target, findings, [item.name for item in chosen if item.unfit]
    finally:
        sessions.close()


def _judge(sessions: Sessions, batch: list[Item]) -> Iterator[Finding]:
    for policy in dict.fromkeys(item.policy for item in batch):
        chosen = [item for item in batch if item.policy == policy]
        records = sessions.records(chosen[0].problem, [item.candidate for item in chosen], policy)
        for item, record in zip(chosen, records, strict=True):
            if item.closer and record.passed:
                (record,) = sessions.records(item.problem, [item.candidate], item.closer)
            yield _finding(item, record)


def _finding(item: Item, record: Record) -> Finding:
    # What only a busy machine's clocks stopped was not found out.
    passed = record.passed or (disturbed(record) and item.kind != "cheat")
    right = passed if item.kind == "honest" else not passed
    return Finding(kind=item.kind, name=item.name, right=right, found=reason(record), expected=item.expected)


def _spread(found: list[Item], limit: int | None) -> list[Item]:
    if limit is None or len(found) <= limit:
        return found
    return [found[i * len(found) // limit] for i in range(limit)]
