"""What a record is worth to the author who wrote its candidate: pure functions of records, nothing else.

A kernel earns where its speedup's interval begins, on a bounded logarithmic scale; what lies inside the judge's noise
is no reason to learn, what the judge caught foul is worth less than nothing. The judge already takes medians over
blocks and cuts what the machine disturbed; here is no statistics of times.
Methods: CUDA-L1 (2025) normalises rewards inside a group and judges gains above a bound again; unlike there the reward
is a logarithm of the interval's lower end, and a group's deviation cannot fall below what noise alone would give.
Leave-one-out: Ahmadian and others, "Back to Basics" (2024).
**Covers**: failures, wrong answers, cheats, copies, times that are too good, untimed and disturbed records.
**Does not cover**: whether the judge was right. A cheat that it did not catch is paid; that is why the judge has a
score of its own, and why large gains count only from a thorough policy.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

from kernelwright.search.authored.novelty import normalised
from kernelwright.search.speed import against_reference
from kernelwright.types import Failure, Judgement, Record, value

FOUL_CHECKS = (
    "timed outputs", "later outputs", "calls", "floor", "structure", "environment", "threads", "processes",
    "span",
)  # fmt: skip
"""Checks that hold for every honest kernel, right or wrong: the answer was other when it was timed, or the time cannot
be that of the work."""
FOUL_KINDS = ("import", "syscall", "constructor", "instruction", "input-written", "protocol", "state")
"""Failures of a candidate that reached for what a kernel has no use for."""

Kind = Literal["verified", "wrong", "failed", "cheat", "copy", "suspicious", "unclear"]


@value
class RewardSettings:
    """How records become numbers."""

    slow: float = 0.125
    """Speedup at which, and below which, a verified kernel earns only for being right."""
    fast: float = 8.0
    """Speedup at which, and above which, it earns 1."""
    right: float = 0.1
    """What being right is worth, however slow."""
    foul: float = -1.0
    """What a caught cheat is worth."""
    step: float = 0.01
    """Speedups are rounded down to powers of 1 + this: less than it is not told apart."""
    suspicious: float = 3.0
    """A speedup above this counts only from a thorough policy."""
    thorough: tuple[str, ...] = ()
    """Digests of policies whose records count however fast they are."""
    clip: float = 3.0
    """Largest size of an advantage, in deviations."""
    foul_checks: tuple[str, ...] = FOUL_CHECKS
    foul_kinds: tuple[str, ...] = FOUL_KINDS


@value
class Reward:
    """What one record is worth, and why."""

    value: float
    """Between `foul` and 1."""
    kind: Kind
    why: str
    """One line."""

    @property
    def counts(self) -> bool:
        """False where the candidate must be judged again, in full, before anything is learnt from it."""
        return self.kind not in ("suspicious", "unclear")


def reward(record: Record, *, settings: RewardSettings, exemplar_texts: tuple[str, ...] = (), text: str = "") -> Reward:
    """Returns what a record is worth.

    Args:
        record: the judge's.
        settings: the scale.
        exemplar_texts: sources that the author was shown.
        text: the candidate's own source, to be compared with them; a copy differs by names, comments and spacing only.
    """
    outcome = record.outcome
    if isinstance(outcome, Failure):
        foul = outcome.kind in settings.foul_kinds
        why = f"{outcome.stage}: {outcome.kind}"
        return Reward(value=settings.foul if foul else 0.0, kind="cheat" if foul else "failed", why=why)
    failed = [check.name for check in outcome.verdict.checks if not check.passed]
    if failed == ["clock"]:
        return Reward(value=0.0, kind="unclear", why="the machine disturbed the times")
    if caught := [name for name in failed if name in settings.foul_checks]:
        return Reward(value=settings.foul, kind="cheat", why=f"check: {caught[0]}")
    if not outcome.verdict.passed:
        return Reward(value=0.0, kind="wrong", why=f"check: {failed[0]}" if failed else "nothing was checked")
    if text and copied(text, exemplar_texts):
        return Reward(value=0.0, kind="copy", why="an exemplar with other names")
    return _of_speed(record, outcome, settings)


def copied(text: str, exemplar_texts: Sequence[str]) -> bool:
    """Tells whether a source is one of the exemplars but for names, comments and spacing."""
    own = normalised(text)
    return any(normalised(exemplar) == own for exemplar in exemplar_texts)


def _of_speed(record: Record, outcome: Judgement, settings: RewardSettings) -> Reward:
    against = against_reference(outcome)
    if against is None:
        return Reward(value=0.0, kind="unclear", why="right, and not timed")
    if against.speedup > settings.suspicious and record.policy not in settings.thorough:
        why = f"{against.speedup:.2f}x is to be judged again in full"
        return Reward(value=0.0, kind="suspicious", why=why)
    low = min(against.low, against.speedup)  # an interval that lies above its own middle is no evidence
    return Reward(
        value=of_speedup(low, settings), kind="verified", why=f"at least {low:.2f}x against {against.baseline}"
    )


def of_speedup(speedup: float, settings: RewardSettings) -> float:
    """Returns what a verified kernel of this speedup earns: from `right` to 1, never falling, rounded down."""
    if not speedup > settings.slow:  # not a number is as slow as can be
        return settings.right
    if speedup >= settings.fast:
        return 1.0
    # A millionth of a step, so that a number that is a power already keeps its place in floating point.
    steps = math.floor(math.log(speedup) / math.log1p(settings.step) + 1e-6)
    share = (steps * math.log1p(settings.step) - math.log(settings.slow)) / math.log(settings.fast / settings.slow)
    return settings.right + (1.0 - settings.right) * min(1.0, max(0.0, share))


def of_noise(noise: float, settings: RewardSettings) -> float:
    """Returns by how much rewards differ where speedups differ by the timer's noise (a share, such as 0.02)."""
    share = math.log1p(max(noise, settings.step)) / math.log(settings.fast / settings.slow)
    return (1.0 - settings.right) * share


Baseline = Literal["group", "leave-one-out"]


def advantages(
    values: Sequence[float], *, settings: RewardSettings, noise: float = 0.0, baseline: Baseline = "group"
) -> tuple[float, ...]:
    """Returns how much better than its group each member was.

    Args:
        values: the rewards of candidates that answered one prompt.
        settings: the scale and the clip.
        noise: the timer's, as a share; members that differ by less have small advantages.
        baseline: `group` takes the mean of all and divides by their deviation, floored at the noise; `leave-one-out`
            takes the mean of the others and divides by nothing.
    """
    if len(values) < 2 or max(values) == min(values):
        return (0.0,) * len(values)
    if baseline == "leave-one-out":
        total, others = math.fsum(values), len(values) - 1
        return tuple(v - (total - v) / others for v in values)
    mean = math.fsum(values) / len(values)
    deviation = max(statistics.pstdev(values), of_noise(noise, settings))
    return tuple(max(-settings.clip, min(settings.clip, (v - mean) / deviation)) for v in values)
