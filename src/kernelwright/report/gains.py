"""What a gain is made of: launches, rewriting, precision, and what is left for the kernels.

Each factor is a quotient of two measured speeds, so that all of them multiply to the speedup against eager. The winner
is compared with the best kernel that passed and had not the advantage in question; where nobody measured one, the
factor is unknown and stays with the kernels, and the text says so.
**Covers**: launches (eager against a graph of eager), rewritten programs, points that are rougher by choice.
**Does not cover**: candidates whose rewriting or roughness their authors did not state.
"""

from __future__ import annotations

from kernelwright.run.result import Result, Row
from kernelwright.search.speed import speed
from kernelwright.types import Candidate, Judgement, value

ROUGHER = {("multiply", "three"), ("math", "fast")}
"""Choices of a point that take less exact arithmetic than the reference's."""


@value
class Gain:
    """One factor of a speedup."""

    name: str
    """launch, rewrite, precision or kernel."""
    factor: float | None
    """None where it is there and could not be told apart."""


def gains(result: Result) -> tuple[Gain, ...]:
    """Returns the factors of the winner's speedup against eager, those that are 1 left out but for the kernel's."""
    record = result.report
    judgement = record.outcome if record and isinstance(record.outcome, Judgement) else None
    eager = judgement.against("eager") if judgement else None
    if result.best is None or judgement is None or eager is None:
        return ()
    found: list[Gain] = []
    if graph := judgement.against("graph:eager"):
        found.append(Gain(name="launch", factor=eager.speedup / graph.speedup))
    rougher = None
    if is_rougher(result.best):
        rougher = _without(result, rewritten=bool(result.best.rewrites))
        found.append(Gain(name="precision", factor=rougher))
    if result.best.rewrites:
        # Against the program as it was written and as exact as that: what roughness gains is told above.
        whole = _without(result, rewritten=False)
        found.append(Gain(name="rewrite", factor=whole / (rougher or 1.0) if whole else None))
    rest = eager.speedup
    for gain in found:
        rest /= gain.factor or 1.0
    return (*found, Gain(name="kernel", factor=rest))


def is_rougher(candidate: Candidate) -> bool:
    """Returns whether a candidate's point says that its arithmetic is less exact."""
    return any(choice in ROUGHER for choice in candidate.point)


def _without(result: Result, *, rewritten: bool) -> float | None:
    """Returns how much faster the winner is than the best that is no rougher than the reference, rewritten or not.

    By the most thorough policy that judged both; None where there is none.
    """
    own = next((row for row in result.rows if row.candidate == result.best), None)
    others = [r for r in result.rows if not is_rougher(r.candidate) and bool(r.candidate.rewrites) == rewritten]
    for policy, record in reversed(own.records if own else ()):
        mine, theirs = speed(record), [found for row in others if (found := _speed(row, policy))]
        if mine and theirs:
            return mine / max(theirs)
    return None


def _speed(row: Row, policy: str) -> float | None:
    record = row.record(policy)
    return speed(record) if record else None


def gain_text(found: tuple[Gain, ...]) -> str:
    """Returns the factors in one line, empty where all is the kernel's."""
    if len(found) < 2:
        return ""
    parts = [f"{g.name} {g.factor:.2f}x" if g.factor else f"{g.name} not told apart" for g in found]
    return f"of the gain against eager: {', '.join(parts)}"
