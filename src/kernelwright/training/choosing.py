"""`Chosen`: a trained author of schedules as a strategy like any other, and so an author in `optimize`.

Half of its prompts show what was found so far, of distinct speed buckets; the others show nothing.
Not here: training it (stages.py).
"""

from __future__ import annotations

import functools
import itertools
import random
from pathlib import Path

from kernelwright.graph import Capture
from kernelwright.llm.local import PREFIX
from kernelwright.run.models.authors import Chooser
from kernelwright.search import Batches, Results, Turns
from kernelwright.search.authored.briefs import Exemplar
from kernelwright.search.speed import speed
from kernelwright.training.authors import ABOUT, CHECKPOINT_MODEL, Author
from kernelwright.training.exercises import Exercise
from kernelwright.training.features import words_of
from kernelwright.training.practice import Drawing, SchedulePractice, drawn
from kernelwright.types import Candidate, Proposal, Record, Target, Template, digest

BATCH = 6
MEASURED_SHARE = 0.2
MISSES = 4
"""Samplings in a row that bring nothing new, after which the model has no more to say."""


class Chosen:
    """Screens what a model chooses, each schedule once, and measures the fastest.

    Args:
        folder: of the model.
        capture: what kernels are for.
        target: where they run.
        templates: of the experts.
        seed: of the draws.
        limit: proposals at most.
        exemplars: how kernels are drawn that prompts show.
    """

    name = "model"

    def __init__(
        self, folder: Path, capture: Capture, target: Target, templates: tuple[Template, ...], *, seed: int, limit: int,
        exemplars: Drawing = "buckets",
    ) -> None:  # fmt: skip
        problem = capture.problem
        self._exercise = Exercise(
            key=digest(problem), name=problem.name, family=problem.name, features=words_of(capture, target),
            templates=templates, rows=(), problem=problem,
        )  # fmt: skip
        self._folder, self._seed, self._limit, self._exemplars = folder, seed, limit, exemplars
        self._turns = Turns(self._batches() if templates else iter_nothing())

    def ask(self) -> tuple[Proposal, ...]:
        """Returns what the model chooses next."""
        return self._turns.ask()

    def tell(self, results: Results) -> None:
        """Takes in the records of the present batch."""
        self._turns.tell(results)

    def _batches(self) -> Batches:
        measured = max(1, round(MEASURED_SHARE * self._limit))
        known: dict[str, Exemplar] = {}
        asked: set[str] = set()
        misses = 0
        with Author(str(self._folder), device="cpu") as author:
            practice = SchedulePractice(author)
            for number in itertools.count():
                left = min(BATCH, self._limit - measured - len(asked))
                if left <= 0 or misses >= MISSES:
                    break
                rng = random.Random(f"model {self._seed} {number}")
                shown = drawn(tuple(known.values()), 2, self._exemplars, rng) if number % 2 else ()
                (answers,) = practice.sample([(self._exercise, shown)], 2 * left, seed=rng.getrandbits(31))
                fresh = {digest(a): a for a in answers if isinstance(a, Candidate) and digest(a) not in asked}
                batch = tuple(fresh.values())[:left]
                misses = 0 if batch else misses + 1
                if not batch:
                    continue
                asked.update(map(digest, batch))
                for proposal, record in (yield tuple(Proposal(candidate=c, effort="screen") for c in batch)):
                    self._note(known, proposal, record)
        best = sorted(known.values(), key=lambda e: -e.speed)[:measured]
        if best:
            yield tuple(Proposal(candidate=e.candidate, effort="measure") for e in best)

    def _note(self, known: dict[str, Exemplar], proposal: Proposal, record: Record) -> None:
        if (found := speed(record)) is not None:
            known[record.candidate] = Exemplar(candidate=proposal.candidate, speed=found)


def is_chooser(name: str) -> bool:
    """Tells whether a --model name stands for an author of schedules."""
    return name.startswith(PREFIX) and any((folder / ABOUT).is_file() for folder in _places(name))


def chooser(name: str) -> Chooser:
    """Returns what makes strategies of the author of schedules that a --model name stands for."""
    folder = next(folder for folder in _places(name) if (folder / ABOUT).is_file())
    return functools.partial(Chosen, folder)


def _places(name: str) -> tuple[Path, Path]:
    folder = Path(name.removeprefix(PREFIX))
    return folder, folder / CHECKPOINT_MODEL


def iter_nothing() -> Batches:
    """Returns the strategy of a model that is offered nothing to choose from."""
    yield from ()
