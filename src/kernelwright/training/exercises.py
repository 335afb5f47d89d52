"""What an author practises on: a problem, what may be said about it, and what is known of it already.

Live exercises have their candidates judged; recorded ones know only what a corpus holds, and their grammar lets nothing
else be said. A training that runs on records costs no judgement and gives the same numbers everywhere.
Not here: which exercise is due, and what is learnt (stages.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kernelwright.errors import UserError
from kernelwright.graph import Capture
from kernelwright.plans import LaunchPlan
from kernelwright.store import Store
from kernelwright.training import rows
from kernelwright.training.corpus import templates_of
from kernelwright.training.features import words_of
from kernelwright.training.grammar import Choices, Grammar
from kernelwright.training.judging import Court
from kernelwright.training.reward import Reward, RewardSettings, reward
from kernelwright.training.rows import Row, Split
from kernelwright.types import (
    Candidate,
    Check,
    Comparison,
    Failure,
    Judgement,
    Point,
    Problem,
    Record,
    SourceFile,
    Template,
    Verdict,
    digest,
    replace,
)

RECORDED = "recorded"


@dataclass(frozen=True)
class Exercise:
    """One problem to practise on."""

    key: str
    """The problem's digest."""
    name: str
    family: str
    features: tuple[str, ...]
    templates: tuple[Template, ...]
    rows: tuple[Row, ...]
    """What the corpus knows."""
    problem: Problem | None = None
    """None for a recorded exercise: no prompt in prose can be made of it."""
    grammars: dict[frozenset[str], Grammar] = field(default_factory=dict, compare=False)

    def grammar(self, known: frozenset[str]) -> Grammar:
        """Returns the grammar in a vocabulary."""
        if known not in self.grammars:
            self.grammars[known] = Grammar(self.templates, known=known)
        return self.grammars[known]

    def candidate(self, grammar: Grammar, choices: Choices) -> Candidate:
        """Returns the candidate of a schedule that the grammar let through, its origin noted."""
        made = grammar.candidate(choices)
        assert made is not None
        template = grammar.templates[choices[0]].name
        return replace(made, author="model", template=template, point=grammar.point(choices))


class Judges(Protocol):
    """Says what candidates are worth."""

    settings: RewardSettings

    def rewards(
        self, exercise: Exercise, candidates: Iterable[Candidate], *, exemplars: tuple[str, ...] = ()
    ) -> dict[Candidate, tuple[Reward, Record]]:
        """Returns reward and record of each candidate."""


class Live:
    """Has candidates judged now."""

    def __init__(self, court: Court) -> None:
        self._court = court
        self.settings = court.settings

    def rewards(
        self, exercise: Exercise, candidates: Iterable[Candidate], *, exemplars: tuple[str, ...] = ()
    ) -> dict[Candidate, tuple[Reward, Record]]:
        """Returns reward and record of each candidate."""
        if exercise.problem is None:
            raise UserError(f"{exercise.name} is only recorded", "leave --recorded out")
        return self._court.rewards(exercise.problem, candidates, exemplars=exemplars)


class Recorded:
    """Knows what a corpus says, and that it was judged in full."""

    def __init__(self, exercises: Sequence[Exercise], settings: RewardSettings) -> None:
        found = [(row, _spoken(row)) for exercise in exercises for row in exercise.rows if row.kind == "kernel"]
        self._records = {digest(candidate): _record(row, candidate) for row, candidate in found}
        self._texts = {digest(candidate): row.source for row, candidate in found}
        self.settings = replace(settings, thorough=tuple(sorted({row.policy for row, _ in found})))

    def rewards(
        self, exercise: Exercise, candidates: Iterable[Candidate], *, exemplars: tuple[str, ...] = ()
    ) -> dict[Candidate, tuple[Reward, Record]]:
        """Returns reward and record of each candidate."""
        del exercise
        given = {}
        for candidate in candidates:
            key = digest(candidate)
            record, text = self._records[key], self._texts[key]
            worth = reward(record, settings=self.settings, exemplar_texts=exemplars if text else (), text=text)
            given[candidate] = (worth, record)
        return given


def live(folder: Path, store: Store, court: Court, split: Split) -> tuple[Exercise, ...]:
    """Returns the exercises of a corpus that can be judged on this target."""
    by_problem = _grouped(rows.read(folder, split))
    captures: dict[str, Capture] = {digest(c.problem): c for c in store.values("Capture")}
    found = []
    for key, some in by_problem.items():
        if (captured := captures.get(key)) is None:
            continue
        templates = templates_of(captured, court.target)
        if templates:
            found.append(
                Exercise(
                    key=key,
                    name=captured.problem.name,
                    family=some[0].family,
                    features=words_of(captured, court.target),
                    templates=templates,
                    rows=some,
                    problem=captured.problem,
                )
            )
    return tuple(found)


def recorded(folder: Path, split: Split) -> tuple[Exercise, ...]:
    """Returns the exercises of a corpus on which only what it holds can be said."""
    by_problem = _grouped(row for row in rows.read(folder, split) if row.point)
    spaces = rows.read_spaces(folder)
    found = []
    for key, some in by_problem.items():
        templates = tuple(
            Template(name=s.template, space=s.space, emit=_Emit({r.point: r for r in some if r.template == s.template}))
            for s in spaces
            if s.problem_digest == key and any(row.template == s.template for row in some)
        )
        if templates:
            first = some[0]
            found.append(
                Exercise(
                    key=key,
                    name=first.problem,
                    family=first.family,
                    features=first.features,
                    templates=templates,
                    rows=some,
                )
            )
    return tuple(found)


class _Emit:
    """Emits what is recorded, and refuses everything else."""

    def __init__(self, known: dict[Point, Row]) -> None:
        self._known = known

    def __call__(self, point: Point) -> Candidate | Failure:
        row = self._known.get(point)
        if row is None:
            return Failure(stage="emit", kind=RECORDED, message="no record of this schedule")
        return _spoken(row)


def _spoken(row: Row) -> Candidate:
    said = "\n".join((f"// {row.template} {row.point}", row.source))
    return Candidate(
        problem=row.problem_digest, language=row.language, sources=(SourceFile(path="kernel.cpp", text=said),),
        plan=LaunchPlan(steps=()), template=row.template, point=row.point,
    )  # fmt: skip


def _record(row: Row, candidate: Candidate) -> Record:
    compared: tuple[Comparison, ...] = ()
    if row.speedup is not None and row.low is not None:
        compared = (Comparison(baseline="eager", speedup=row.speedup, low=row.low, high=row.speedup),)
    verdict = Verdict(checks=(Check(name=RECORDED, passed=True, evidence=row.candidate),))
    outcome = Judgement(verdict=verdict, comparisons=compared, noise=row.noise)
    return Record(
        problem=row.problem_digest, candidate=digest(candidate), target=row.target, policy=row.policy, outcome=outcome,
        when=row.when,
    )  # fmt: skip


def _grouped(some: Iterable[Row]) -> dict[str, tuple[Row, ...]]:
    groups: dict[str, list[Row]] = {}
    for row in some:
        groups.setdefault(row.problem_digest, []).append(row)
    return {key: tuple(group) for key, group in groups.items()}
