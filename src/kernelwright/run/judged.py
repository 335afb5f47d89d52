"""What a store knows of kernels that only `judge` judged: results without a search.

Not here: results of `optimize` (run.recall).
"""

from __future__ import annotations

from kernelwright.run.result import Result, best_baseline, counted, ordered, verdict_of
from kernelwright.run.session import Session
from kernelwright.store import Store
from kernelwright.types import Judgement, Policy, Record


def judged_alone(store: Store) -> tuple[Result, ...]:
    """Returns a result for each problem and target that has records and no run, in the order of its first record."""
    searched = {(run.problem, run.target) for run in store.runs()}
    found: dict[tuple[str, str], dict[str, Policy]] = {}
    for record in store.records():
        place = (record.problem, record.target)
        if place not in searched:
            policy = store.get(record.policy)
            found.setdefault(place, {})[policy.name] = policy
    return tuple(_result(store, *place, tuple(policies.values())) for place, policies in found.items())


def _result(store: Store, problem: str, target: str, policies: tuple[Policy, ...]) -> Result:
    # The more rounds and draws, the more thorough; an emulated device has no rounds.
    policies = tuple(sorted(policies, key=lambda p: (p.rounds, p.draws, len(p.families))))
    session = Session(store.get(problem), store.get(target), store=store, policies=policies)
    session.load()
    rows = ordered(session.rows(), tuple(policy.name for policy in policies))
    first = rows[0]
    report = first.latest if first.latest.passed else None
    answer, why = verdict_of(report, "the kernel") if report else ("undecided", _failed(first.latest, len(rows)))
    hardest = best_baseline(report) if report else None
    outcome = report.outcome if report else None
    return Result(
        problem=session.problem,
        target=session.target,
        policy=next(p for p in policies if p.name == first.records[-1][0]),
        seed=0,
        answer=answer,
        why=why,
        best=first.candidate if report else None,
        report=report,
        baseline=hardest.baseline if hardest else "",
        rows=rows,
        baselines=tuple(m for m in outcome.measurements if m.contender != "candidate")
        if isinstance(outcome, Judgement)
        else (),
        refusals=(),
        counts=counted(rows),
        judged=0,
        found=len(rows),
        stopped="finished",
        seconds=0.0,
        notes=("`judge` judged these; nothing was searched",),
    )


def _failed(record: Record, count: int) -> str:
    if isinstance(record.outcome, Judgement):
        check = next((c for c in record.outcome.verdict.checks if not c.passed), None)
        said = f"{check.name}: {check.evidence}" if check else "no check ran"
    else:
        said = f"{record.outcome.stage} {record.outcome.kind}: {record.outcome.message}"
    return f"the kernel failed ({said})" if count == 1 else f"none of {count} kernels passed; the last one: {said}"
