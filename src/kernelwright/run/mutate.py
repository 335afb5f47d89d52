"""Mutants before the judge: each is a candidate of its own; what passes is a bug that the judge cannot see.

Stopping and starting again loses nothing: records are in the store. Not here: making mutants (mutation), and a
user's own test instead of the judge (mutation/against.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernelwright.errors import UserError
from kernelwright.judge import MEASURE, Judge
from kernelwright.languages import Builder
from kernelwright.mutation.mutant import Mutant
from kernelwright.mutation.score import Outcome
from kernelwright.run.result import outcome_name
from kernelwright.run.session import JudgeFactory, OnEvent, Session, described, disturbed
from kernelwright.store import Store
from kernelwright.types import Artifact, Candidate, Failure, Policy, Problem, Record, Target, replace

MUTATE = replace(MEASURE, name="mutate", rounds=4, block_us=400.0, deadline_s=30.0, call_deadline_s=5.0)
"""Every input family, but few rounds: verdicts matter here, times do not."""
BATCH = 16
NO_BUG = ("emit", "plan", "build")
"""Stages that say that a mutant is no kernel, which is not worth noticing."""


def judge_mutants(
    problem: Problem,
    candidate: Candidate,
    mutants: Sequence[Mutant],
    target: Target,
    *,
    store: Store,
    policy: Policy = MUTATE,
    judge: JudgeFactory = Judge,
    on_event: OnEvent | None = None,
    on_outcome: Callable[[Outcome], None] | None = None,
) -> tuple[Outcome, ...]:
    """Returns what the judge says of each mutant of a candidate's first source, in their order.

    A mutant whose binary is the original's is equivalent, one that does not build is invalid.

    Args:
        problem: what the kernel computes.
        candidate: the correct kernel.
        mutants: of its first source.
        target: where.
        store: keeps the records; mutants judged before are not judged again.
        policy: how thoroughly.
        judge: makes the judge.
        on_event: called with each line of the judge's progress.
        on_outcome: called with each outcome.

    Raises:
        UserError: the original itself does not pass.
    """
    session = Session(problem, target, store=store, policies=(policy,), on_event=on_event)
    found: list[Outcome] = []
    with judge(problem, target, on_event=session.hear) as it, Builder(target) as builder:
        _, original = next(iter(session.judge(it, (candidate,), policy)))
        if not original.passed and not disturbed(original):
            raise UserError(f"the kernel itself does not pass: {_reason(original)}", "mend it before mutating it")
        blob = _blob(builder, problem, candidate)
        for start in range(0, len(mutants), BATCH):
            batch = mutants[start : start + BATCH]
            candidates = [_candidate(candidate, mutant) for mutant in batch]
            known = dict(zip(batch, _before_judging(builder, problem, batch, candidates, blob), strict=True))
            waiting = {c: m for c, m in zip(candidates, batch, strict=True) if known[m] is None}
            for one, record in session.judge(it, tuple(waiting), policy):
                known[waiting[one]] = _outcome(waiting[one], record)
            for outcome in (known[mutant] for mutant in batch):
                assert outcome is not None, "every mutant has a record by now"
                found.append(outcome)
                if on_outcome:
                    on_outcome(outcome)
    return tuple(found)


def _candidate(original: Candidate, mutant: Mutant) -> Candidate:
    first, *others = original.sources
    changed = replace(first, text=mutant.source.text)
    return replace(original, sources=(changed, *others), author=f"mutation: {mutant.operator}")


def _blob(builder: Builder, problem: Problem, candidate: Candidate) -> str:
    (built,) = builder.build(problem, (candidate,))
    return built.blob if isinstance(built, Artifact) else ""


def _before_judging(
    builder: Builder, problem: Problem, batch: Sequence[Mutant], candidates: Sequence[Candidate], blob: str
) -> Iterator[Outcome | None]:
    """Yields the outcomes that building alone decides, None for the others."""
    for mutant, built in zip(batch, builder.build(problem, candidates), strict=True):
        if isinstance(built, Failure) and built.stage in NO_BUG:
            yield Outcome(mutant=mutant, state="invalid", why=f"{built.stage}: {built.kind}")
        elif isinstance(built, Artifact) and built.blob == blob:
            yield Outcome(mutant=mutant, state="equivalent", why="same binary")
        elif mutant.equivalent:
            yield Outcome(mutant=mutant, state="equivalent", why=mutant.equivalent)
        else:
            yield None


def _outcome(mutant: Mutant, record: Record) -> Outcome:
    survived = record.passed or disturbed(record)
    why = described(record) if survived else outcome_name(record)
    return Outcome(mutant=mutant, state="survived" if survived else "killed", why=why)


def _reason(record: Record) -> str:
    if isinstance(record.outcome, Failure):
        return record.outcome.message
    return next(f"{c.name}: {c.evidence}" for c in record.outcome.verdict.checks if not c.passed)
