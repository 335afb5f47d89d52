"""What an optimisation found, as values, and the one rule that decides between kernel and baseline.

Not here: how it is shown (report, cli).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from kernelwright.run.models.spending import Spending
from kernelwright.search.speed import speed
from kernelwright.types import (
    Candidate,
    Comparison,
    Failure,
    Judgement,
    Measurement,
    Policy,
    Problem,
    Record,
    Refusal,
    Target,
    value,
)

EventKind = Literal["start", "prepare", "batch", "judged", "found", "best", "stage", "judge", "author", "end"]
Answer = Literal["kernel", "baseline", "undecided"]
Stopped = Literal["finished", "budget", "interrupted", "paused"]
"""paused: no author could be had; the same command goes on from there."""
Standing = Literal["faster", "slower", "tie", "undecided"]
TIE = 1.25
"""An interval that reaches beyond this factor, either way and with the noise, says nothing: that is no tie."""
BUSY_NOISE = 0.1
"""An A/A noise from which a note says that the machine was busy; 1 to 5 % is usual on two idle cores."""


@value
class Event:
    """One line of live progress."""

    kind: EventKind
    """start, prepare (what all candidates share; no budget passes until the next batch), batch (about to be
    judged), judged (new record), found (record from the store), best (a new fastest), stage (the final
    stages), judge (the judge's own news), author (calls of models and what they cost), end."""
    text: str
    """One line, complete in itself."""
    elapsed_s: float
    """Since the command's loop began."""
    judged: int = 0
    """New records so far."""
    found: int = 0
    """Records so far that the store had already."""
    record: Record | None = None
    candidate: Candidate | None = None
    speed: float | None = None
    """Of this record: speedup against eager (search/speed.py)."""
    best: float | None = None
    """The greatest speed so far under the same policy."""


@value
class Row:
    """Everything that was found out about one candidate."""

    candidate: Candidate
    records: tuple[tuple[str, Record], ...]
    """(policy name, record) in the order screen, measure, final, report; what was not judged is absent."""

    def record(self, policy: str) -> Record | None:
        """Returns the record under a policy's name, None where there is none."""
        return next((record for name, record in self.records if name == policy), None)

    @property
    def latest(self) -> Record:
        """The record of the most thorough policy."""
        return self.records[-1][1]

    @property
    def speed(self) -> float | None:
        """Of the most thorough record; None where that failed."""
        return speed(self.latest)


@value
class Result:
    """The answer of one optimisation with everything behind it."""

    problem: Problem
    target: Target
    policy: Policy
    """That the report record was judged under."""
    seed: int
    answer: Answer
    why: str
    """The answer in one plain sentence, with its numbers."""
    best: Candidate | None
    """The finally selected candidate, also where a baseline is faster; None where nothing passed."""
    report: Record | None
    """Its judgement on runs that had no part in choosing it."""
    baseline: str
    """The fastest baseline's name; empty where none was timed."""
    rows: tuple[Row, ...]
    """Every candidate, the most thoroughly judged and fastest first, failures last."""
    baselines: tuple[Measurement, ...]
    refusals: tuple[Refusal, ...]
    counts: tuple[tuple[str, int], ...]
    """(outcome, candidates): `passed`, `check: NAME`, or a failure's `stage: kind`."""
    judged: int
    """Records made now."""
    found: int
    """Records that the store had already."""
    stopped: Stopped
    seconds: float
    notes: tuple[str, ...] = ()
    spending: Spending | None = None
    """On authors, where there were any."""


def outcome_name(record: Record) -> str:
    """Returns a record's outcome in two words: `passed`, `check: NAME`, or `stage: kind`."""
    if isinstance(record.outcome, Failure):
        return f"{record.outcome.stage}: {record.outcome.kind}"
    failed = [check.name for check in record.outcome.verdict.checks if not check.passed]
    return "passed" if record.passed else f"check: {failed[0] if failed else 'none ran'}"


def amount(number: int, noun: str) -> str:
    """Returns `1 candidate`, `2 candidates`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def counted(rows: Iterable[Row]) -> tuple[tuple[str, int], ...]:
    """Returns how many candidates ended how, `passed` first, then the most frequent."""
    # A candidate that failed anywhere has failed, whatever it did under another policy.
    names = [next((n for _, r in row.records if (n := outcome_name(r)) != "passed"), "passed") for row in rows]
    return tuple(sorted(Counter(names).items(), key=lambda item: (item[0] != "passed", -item[1], item[0])))


def ordered(rows: Iterable[Row], policies: tuple[str, ...]) -> tuple[Row, ...]:
    """Returns rows with the most thorough policy first, the fastest first within it, failures last."""

    def place(row: Row) -> tuple[bool, int, float]:
        return row.speed is None, -policies.index(row.records[-1][0]), -(row.speed or 0.0)

    return tuple(sorted(rows, key=place))


def best_baseline(record: Record) -> Comparison | None:
    """Returns the comparison with the baseline that was hardest to beat, None where none was timed."""
    if not isinstance(record.outcome, Judgement):
        return None
    return min(record.outcome.comparisons, key=lambda c: c.speedup, default=None)


def busy_note(record: Record) -> str:
    """Returns what another load on the machine did to a record's times, empty where it was quiet."""
    noise = (record.outcome.noise or 0.0) if isinstance(record.outcome, Judgement) else 0.0
    if noise <= BUSY_NOISE:
        return ""
    return f"the machine was busy while this was timed (noise {100 * noise:.0f} %): smaller differences are lost in it"


def standing(comparison: Comparison, noise: float) -> Standing:
    """Returns how a kernel stands against one baseline: only an interval wholly beyond the noise is faster or slower.

    The noise counts as a factor, both ways: at 25 %, faster begins above 1.25 and slower below 0.8. A tie is what
    cannot differ by more than `TIE`; anything else was not decided.
    """
    low, high = comparison.low / (1.0 + noise), comparison.high * (1.0 + noise)
    if low > 1.0:
        return "faster"
    if high < 1.0:
        return "slower"
    return "tie" if low >= 1.0 / TIE and high <= TIE else "undecided"


def verdict_of(record: Record, subject: str = "the best kernel") -> tuple[Answer, str]:
    """Returns the answer that a report record gives, and why, in a sentence about `subject`.

    The kernel wins only where the whole interval of its speedup over every baseline lies above 1 by
    more than the noise that two runs of one contender showed. Where it ties or loses, the baseline, which costs
    nothing, is the answer; where the interval says neither, there is none.
    """
    hardest = best_baseline(record)
    if hardest is None or not isinstance(record.outcome, Judgement):
        return "undecided", "no baseline was timed beside the kernel"
    noise = record.outcome.noise or 0.0
    # The baseline that decides is not always the one with the least speedup: another's interval may be wider.
    first = {standing(c, noise): c for c in sorted(record.outcome.comparisons, key=lambda c: -c.speedup)}
    decides = first.get("slower") or first.get("undecided") or first.get("tie") or hardest
    numbers = f"interval {decides.low:.2f} to {decides.high:.2f}, noise {100 * noise:.1f} %"
    if decides is first.get("slower"):
        return (
            "baseline",
            f"{decides.baseline} is faster than {subject}, which has {decides.speedup:.2f}x its speed, {numbers}",
        )
    if decides is first.get("undecided"):
        seen = f"{subject} has {decides.speedup:.2f}x the speed of {decides.baseline}, {numbers}"
        return "undecided", f"not decided: {seen}: that can be faster, slower or the same; judge it on an idle machine"
    if decides is first.get("tie"):
        return "baseline", f"{subject} ties with {decides.baseline}: {decides.speedup:.2f}x its speed, {numbers}"
    against = f"{decides.speedup:.2f}x against {decides.baseline}"
    return "kernel", f"the kernel is faster than every baseline: {against}, {numbers}"
