"""A run from recorded replies, without a network: the same again from its store, or judged anew into another.

From its own store everything is found, so that the same decisions come out, or it is said where they do not. Into a
fresh store the replies are given in the order in which they came; candidates are judged again, here and now.
Not here: recordings in files (llm/recorded.py).
"""

from __future__ import annotations

from kernelwright.errors import UserError
from kernelwright.llm import Recorded
from kernelwright.run.models.authors import Authors
from kernelwright.run.models.writing import Writing
from kernelwright.store import Run, Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import Candidate, value


@value
class Remembered:
    """What is known of a run with authors."""

    run: Run
    models: tuple[str, ...]
    """In the order in which they were first asked."""
    replies: int
    usd: float
    language: str


def find_run(store: Store, number: int | None) -> Run:
    """Returns a run with authors by its number, the latest where none is given.

    Raises:
        UserError: there is no such run.
    """
    asked = {exchange.run for exchange in Trajectories(store).exchanges()}
    problems = {run.problem for run in store.runs() if run.id in asked}
    found = [run for run in store.runs() if run.problem in problems and run.command.startswith("optimize with")]
    if not found:
        raise UserError(f"{store.path} holds no run with models", "run `kernelwright optimize --model ...` first")
    if number is None:
        return found[-1]
    chosen = next((run for run in found if run.id == number), None)
    if chosen is None:
        raise UserError(f"there is no run {number}", f"there are {', '.join(str(run.id) for run in found)}")
    return chosen


def remembered(store: Store, run: Run) -> Remembered:
    """Returns what a store knows of a run's problem: its replies belong to all runs of the problem."""
    exchanges = tuple(Trajectories(store).exchanges(problem=run.problem))
    models = tuple(dict.fromkeys(e.request.model for e in exchanges if e.request.kind != "review"))
    by_models = (c for c in store.values("Candidate") if c.problem == run.problem and c.author in models)
    written: Candidate | None = next(by_models, None)
    return Remembered(
        run=run, models=models, replies=len(exchanges), usd=sum(e.reply.cost_usd for e in exchanges),
        language=written.language if written else "cpp",
    )  # fmt: skip


def again(store: Store, run: Run) -> Authors:
    """Returns authors that answer from the run's own store alone."""
    known = remembered(store, run)
    return Authors(models=(), names=known.models, writing=Writing(language=known.language), patience_s=0.0)


def anew(store: Store, run: Run) -> Authors:
    """Returns authors that say the run's replies again, in their order, to be judged into a fresh store."""
    known = remembered(store, run)
    exchanges = Trajectories(store).exchanges(problem=run.problem)
    model = Recorded(f"replay/run {run.id}", [(e.request.kind, e.reply) for e in exchanges])
    return Authors(models=(model,), writing=Writing(language=known.language), parallel=1, patience_s=0.0)
