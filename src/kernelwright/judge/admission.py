"""Whether a problem is worth judging on: answers that cost nothing (nulls.py) must fail. The parent's side.

A problem is `admitted` where every null candidate fails on the inputs that it draws itself, `repaired` where
one fails only on other families of inputs that the judge adds, `weak` where one passes them all, and
`refused` where it could not be looked at. Fewer bits count as failing wherever a family shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from kernelwright.errors import KernelwrightError, WorkerDied
from kernelwright.judge import conditions
from kernelwright.judge.policies import FAMILIES
from kernelwright.process import DeadlineExceeded, Worker
from kernelwright.types import Problem, replace, value

WORKER = "kernelwright.judge.worker"
DEADLINE_S = 120.0
State = Literal["admitted", "repaired", "weak", "refused"]


@value
class Null:
    """What became of one null candidate for one output."""

    output: str
    answer: str
    """zeros, a constant, a copy of x ..."""
    caught_by: str
    """The family of inputs that it failed on; empty where it passed all."""

    @property
    def coarse(self) -> bool:
        """True where the answer is the reference's, from operands of fewer bits."""
        return self.answer.endswith(" operands")


@value
class Admission:
    """What is known about a problem's worth."""

    name: str
    state: State
    nulls: tuple[Null, ...] = ()
    independent: tuple[tuple[str, str], ...] = ()
    """(output, input or parameter) where the output does not depend on it."""
    fixed: tuple[str, ...] = ()
    """Inputs that are the same in every draw."""
    left_out: tuple[str, ...] = ()
    """Families that do not apply and why."""
    reason: str = ""
    """Why it was refused."""

    @property
    def weak(self) -> tuple[Null, ...]:
        """The null candidates that nothing caught."""
        return tuple(null for null in self.nulls if not null.caught_by)

    @property
    def repaired(self) -> tuple[Null, ...]:
        """The null candidates that the problem's own inputs would have let pass."""
        return tuple(n for n in self.nulls if n.caught_by and n.caught_by != "given" and not n.coarse)

    def why(self) -> tuple[str, ...]:
        """Returns in words what is wrong, what was repaired, and what else there is to know."""
        said = [f"{null.answer} pass{'' if _plural(null) else 'es'} for {null.output}" for null in self.weak]
        said += [f"repaired: {n.answer} for {n.output} fail{'' if _plural(n) else 's'} on family {n.caught_by}"
                 for n in self.repaired]  # fmt: skip
        said += [f"{output} does not depend on {tensor}" for output, tensor in self.independent]
        said += [f"{name} is the same in every draw" for name in self.fixed]
        return tuple(said + ([self.reason] if self.reason else []))


def _plural(null: Null) -> bool:
    return null.answer == "zeros" or null.coarse


def admit(
    problem: Problem,
    worker: Worker,
    *,
    deadline_s: float = DEADLINE_S,
    families: tuple[str, ...] = FAMILIES,
    on_event: Callable[[Any], None] | None = None,
) -> Admission:
    """Returns whether null candidates fail on a problem; what goes wrong is a reason, not an exception.

    Args:
        problem: a completed one.
        worker: a judge worker (`start_worker`); it is dead afterwards where it took too long or died.
        deadline_s: the most that it may take.
        families: of inputs that are tried.
        on_event: called with a few words about each family.
    """
    try:
        found = worker.request("admit", problem=problem, families=families, deadline_s=deadline_s, on_event=on_event)
    except DeadlineExceeded:
        said = f"trying answers took longer than {deadline_s:g} s: raise --deadline, or make its sizes smaller"
        return refused(problem.name, said)
    except (WorkerDied, KernelwrightError) as error:
        return refused(problem.name, error.message)
    nulls = tuple(Null(output=o, answer=a, caught_by=c) for o, a, c in found["nulls"])
    made = Admission(
        name=problem.name,
        state="admitted",
        nulls=nulls,
        independent=tuple((output, tensor) for output, tensor in found["independent"]),
        fixed=tuple(found["fixed"]),
        left_out=tuple(found["left_out"]),
    )
    state: State = "weak" if made.weak else "repaired" if made.repaired else "admitted"
    return replace(made, state=state)


def refused(name: str, reason: str) -> Admission:
    """Returns that a problem could not be looked at."""
    return Admission(name=name, state="refused", reason=reason)


def start_worker(threads: int) -> Worker:
    """Returns a judge worker for any number of admissions, one after the other."""
    return Worker(WORKER, environment=conditions.environment(threads))
