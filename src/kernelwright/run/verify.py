"""Whether a stored record holds: the same candidate judged again, here, and what may be compared of the two.

On the target and under the policy of the record the verdict and the ratios must come out again. Elsewhere the verdict
must, and ratios are told without a judgement: they belong to the machine.
**Covers**: the verdict; each baseline's ratio within both intervals, widened by both runs' noise; a policy that a
    record brings and that looks at less than the judge ever does.
**Does not cover**: absolute times, which depend on what else the machine does.
Not here: finding records (recollect.py).
"""

from __future__ import annotations

from kernelwright.judge import Judge
from kernelwright.judge.policies import SCREEN
from kernelwright.languages.emulation import is_emulated
from kernelwright.run.result import outcome_name
from kernelwright.run.session import JudgeFactory, OnEvent, Session, disturbed
from kernelwright.store import Store
from kernelwright.types import Candidate, Check, Comparison, Judgement, Policy, Problem, Record, Target, digest, value

BUSY_NOISE = 0.3
"""Of both runs together: from here on their ratios say nothing about each other."""


@value
class Remembered:
    """A record with the values that it belongs to."""

    problem: Problem
    candidate: Candidate
    target: Target
    policy: Policy
    record: Record
    origin: str
    """Where it was found, for messages."""


@value
class Verification:
    """What judging again showed."""

    remembered: Remembered
    again: Record
    target: Target
    """Where it was judged again."""
    checks: tuple[Check, ...]
    """What was compared and must come out again."""
    notes: tuple[str, ...]
    """What was found and cannot be compared."""

    @property
    def holds(self) -> bool:
        """True when everything that can be compared came out again."""
        return all(check.passed for check in self.checks)


def verify(
    remembered: Remembered,
    target: Target,
    *,
    policy: Policy | None = None,
    judge: JudgeFactory = Judge,
    on_event: OnEvent | None = None,
) -> Verification:
    """Returns whether a record holds, after judging its candidate again.

    Args:
        remembered: the record and its values.
        target: where to judge it now.
        policy: another than the record's; ratios are not compared then.
        judge: makes the judge.
        on_event: called with each line of progress.
    """
    used = policy or remembered.policy
    # A store of its own: what is known must not stand in for what is judged now.
    with Store(":memory:") as store:
        session = Session(remembered.problem, target, store=store, policies=(used,), on_event=on_event)
        with judge(remembered.problem, target, on_event=session.hear) as it:
            _, again = next(iter(session.judge(it, (remembered.candidate,), used)))
    checks = [_verdict_check(remembered.record, again), *_thoroughness(target, used)]
    notes = list(_differences(remembered, target, used))
    compared = not notes
    measured = {now.baseline for _, now in _pairs(remembered.record, again)}
    if claims := [f"{c.speedup:.2f}x against {c.baseline}" for c in _claims(remembered, again, measured)]:
        text = f"not measured again: {', '.join(claims)}"
        if compared and not measured:
            checks.append(Check(name="ratios", passed=False, evidence=text))
        else:
            notes.append(text)
    for before, now in _pairs(remembered.record, again):
        text = f"{now.speedup:.2f}x ({now.low:.2f} to {now.high:.2f}) against {now.baseline}"
        text += f", recorded {before.speedup:.2f}x ({before.low:.2f} to {before.high:.2f})"
        noise = _noise(remembered.record) + _noise(again)
        if noise > BUSY_NOISE:
            notes.append(f"{text}: with a noise of {100 * noise:.0f} % nearly any ratio would hold; run this when idle")
        elif compared:
            checks.append(Check(name=f"ratio: {now.baseline}", passed=_overlap(before, now, noise), evidence=text))
        else:
            notes.append(text)
    return Verification(remembered=remembered, again=again, target=target, checks=tuple(checks), notes=tuple(notes))


def _verdict_check(before: Record, again: Record) -> Check:
    text = f"{outcome_name(again)}, recorded: {outcome_name(before)}"
    if disturbed(again):
        text += "; the machine was too busy for honest times: run this again when it is idle"
    return Check(name="verdict", passed=before.passed == again.passed, evidence=text)


def _thoroughness(target: Target, policy: Policy) -> tuple[Check, ...]:
    """A record brings its own policy: one that looks at nothing would let anything hold."""
    missing = [family for family in SCREEN.families if family not in policy.families]
    lacks = [f"families {', '.join(missing)}"] if missing else []
    lacks += [name for name, has in (("draws", policy.draws), ("rounds", policy.rounds)) if has < 1]
    if is_emulated(target) and "rounds" in lacks:
        lacks.remove("rounds")  # nothing is timed there
    if not lacks:
        return ()
    text = f"{policy.name} lacks {'; '.join(lacks)}, which the judge's quickest one has; name another with --policy"
    return (Check(name="policy", passed=False, evidence=text),)


def _differences(remembered: Remembered, target: Target, policy: Policy) -> tuple[str, ...]:
    """Returns why ratios cannot be compared, nothing where they can."""
    found = []
    if digest(target) != digest(remembered.target):
        old, new = remembered.target, target
        names = ("kind", "device", "architecture", "features", "threads", "toolchain")
        changed = [
            f"{name} {_short(getattr(new, name))} instead of {_short(getattr(old, name))}"
            for name in names
            if getattr(new, name) != getattr(old, name)
        ]
        found.append(f"another target: {'; '.join(changed)}")
    if digest(policy) != remembered.record.policy:
        of_record = digest(remembered.policy) == remembered.record.policy
        found.append(f"another policy: {policy.name} instead of {remembered.policy.name if of_record else 'its own'}")
    return tuple(found)


def _short(item: object) -> str:
    text = ", ".join(map(str, item)) if isinstance(item, tuple) else str(item)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _claims(remembered: Remembered, again: Record, measured: set[str]) -> list[Comparison]:
    """What a record says of baselines that judging it again told nothing about; nothing where it failed again."""
    said = remembered.record.outcome
    if not isinstance(said, Judgement) or not again.passed:
        return []
    return [claim for claim in said.comparisons if claim.baseline not in measured]


def _pairs(before: Record, again: Record) -> list[tuple[Comparison, Comparison]]:
    if not isinstance(before.outcome, Judgement) or not isinstance(again.outcome, Judgement):
        return []
    found = []
    for old in before.outcome.comparisons:
        new = again.outcome.against(old.baseline)
        if new is not None:
            found.append((old, new))
    return found


def _noise(record: Record) -> float:
    return record.outcome.noise or 0.0 if isinstance(record.outcome, Judgement) else 0.0


def _overlap(one: Comparison, other: Comparison, noise: float) -> bool:
    factor = 1.0 + noise
    return one.low <= other.high * factor and other.low <= one.high * factor
