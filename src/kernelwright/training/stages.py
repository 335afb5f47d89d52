"""The three stages, and the loop that all of them run in: one step after another, each of which can be the last.

sft       imitate the best quarter of what a corpus knows about each problem
select    generate, have it judged, imitate what held and was among the best of its group
contrast  show kernels of distinct speeds, generate, have it judged, learn from what each was worth against its group

After CUDA-L1 (2025), whose three stages these are. A step is a function of seed, step number, model and archive, so
that a stage that was stopped goes on as if it had not been.
Not here: the authors (practice.py), rewards (reward.py), and where steps are kept (checkpoints.py).
"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from kernelwright.errors import UserError
from kernelwright.search.authored.briefs import Exemplar
from kernelwright.training.checkpoints import Checkpoints
from kernelwright.training.exercises import Exercise, Judges
from kernelwright.training.practice import Drawing, Group, Lesson, Practice, as_text, drawn
from kernelwright.training.reward import Baseline, Reward, advantages
from kernelwright.types import Candidate, Judgement, Record, digest, value

Stage = Literal["sft", "select", "contrast"]
STAGES: tuple[Stage, ...] = ("sft", "select", "contrast")


@value
class Settings:
    """How a stage is run. A stage that goes on must have the same."""

    stage: Stage
    seed: int = 0
    problems: int = 4
    """Prompts of a step."""
    group: int = 8
    """Answers to each prompt."""
    lessons: int = 32
    """Of a step of `sft`."""
    shown: int = 2
    exemplars: Drawing = "buckets"
    plain: float = 0.25
    """Share of prompts that show nothing."""
    baseline: Baseline = "group"
    keep: float = 0.25
    """Share of a problem's rows, or of a group, that is worth imitating."""
    fresh: bool = False
    """Begin with an empty archive: what is shown is what the author found itself."""
    save_every: int = 20
    """Steps between checkpoints."""


Answered = tuple[Candidate | str, Reward | None, Record | None]


class Training:
    """One stage at work.

    Args:
        practice: the author.
        exercises: what it practises on.
        judges: what its answers are worth.
        settings: how.
        checkpoints: where it is kept; holds the step and the archive.
        on_step: called with each step's line.
    """

    def __init__(
        self, practice: Practice, exercises: Sequence[Exercise], judges: Judges, settings: Settings,
        checkpoints: Checkpoints, *, on_step: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:  # fmt: skip
        if not exercises:
            raise UserError("there is nothing to practise on", "build a corpus with more families")
        self._practice, self._judges, self._settings, self._on_step = practice, judges, settings, on_step
        self._checkpoints = checkpoints
        self._exercises = {exercise.key: exercise for exercise in exercises}
        self.archive: dict[str, dict[str, Exemplar]] = {key: {} for key in self._exercises}
        for exercise in exercises if not settings.fresh else ():
            for row in exercise.rows:
                if (exemplar := practice.exemplar(exercise, row)) is not None:
                    self._add(exercise.key, exemplar)
        self._lessons = self._first_lessons() if settings.stage == "sft" else ()
        for key, exemplar in checkpoints.archived():
            if key in self._exercises:
                self._add(key, exemplar)

    def run(self, *, steps: int, budget_s: float = float("inf")) -> str:
        """Makes steps until there are `steps` in all, or the budget is used up; returns which it was."""
        began = time.monotonic()
        kept = self._checkpoints
        while kept.step < steps:
            if time.monotonic() - began >= budget_s:
                kept.save(self._practice.author)
                return "budget"
            started = time.monotonic()
            number = kept.step
            rng = random.Random(f"{self._settings.seed} {self._settings.stage} {number}")
            found = self._imitate(rng) if self._settings.stage == "sft" else self._generate(rng)
            line = {"step": number + 1, **found, "seconds": round(time.monotonic() - started, 3)}
            kept.note(line)
            self._on_step(line)
            if kept.step % self._settings.save_every == 0:
                kept.save(self._practice.author)
        kept.save(self._practice.author)
        return "finished"

    # --------------------------------------------------------------------------- steps

    def _imitate(self, rng: random.Random) -> dict[str, Any]:
        settings = self._settings
        chosen = rng.choices(self._lessons, k=settings.lessons)
        lessons = []
        for exercise, candidate, speed, before, fault in chosen:
            slower = [e for e in self.archive[exercise.key].values() if e.speed < speed]
            shown = () if rng.random() < settings.plain or before else drawn(slower, settings.shown, "buckets", rng)
            lessons.append(Lesson(exercise=exercise, shown=shown, candidate=candidate, before=before, fault=fault))
        return self._practice.teach(lessons)

    def _generate(self, rng: random.Random) -> dict[str, Any]:
        groups = self._groups(rng)
        began = time.monotonic()
        sampled = self._practice.sample(groups, self._settings.group, seed=rng.getrandbits(31))
        written = time.monotonic()
        judged = [self._judged(group, answers) for group, answers in zip(groups, sampled, strict=True)]
        spent = {"sampling_seconds": written - began, "judging_seconds": time.monotonic() - written}
        learnt = self._select(groups, judged) if self._settings.stage == "select" else self._contrast(judged)
        for (exercise, _), answered in zip(groups, judged, strict=True):
            self._remember(exercise, answered)
        every = [worth for answered in judged for _, worth, _ in answered]
        values = [worth.value for worth in every if worth is not None and worth.counts]
        kinds = Counter("none" if worth is None else worth.kind for worth in every)
        reward = statistics.fmean(values) if values else 0.0
        return {"reward": reward, "kinds": dict(sorted(kinds.items())), **learnt, **spent}

    def _groups(self, rng: random.Random) -> list[Group]:
        settings, keys = self._settings, sorted(self._exercises)
        chosen = rng.sample(keys, min(settings.problems, len(keys)))
        groups = []
        for key in chosen:
            plain = rng.random() < settings.plain
            known = tuple(self.archive[key].values())
            shown = () if plain else drawn(known, settings.shown, settings.exemplars, rng)
            groups.append((self._exercises[key], shown))
        return groups

    def _judged(self, group: Group, answers: Sequence[Candidate | str]) -> list[Answered]:
        exercise, shown = group
        candidates = [answer for answer in answers if isinstance(answer, Candidate)]
        texts = tuple(exemplar.candidate.sources[0].text for exemplar in shown)
        found = self._judges.rewards(exercise, candidates, exemplars=texts) if candidates else {}
        return [
            (answer, *found[answer]) if isinstance(answer, Candidate) else (answer, None, None) for answer in answers
        ]

    def _contrast(self, judged: Sequence[Sequence[Answered]]) -> dict[str, Any]:
        gains: list[float] = []
        for answered in judged:
            noises = [o.noise for _, _, r in answered if r and isinstance(o := r.outcome, Judgement) and o.noise]
            # No kernel at all is as bad as a wrong one; what the machine disturbed says nothing.
            values = {
                place: 0.0 if worth is None else worth.value
                for place, (_, worth, _) in enumerate(answered)
                if worth is None or worth.counts
            }
            found = advantages(
                tuple(values.values()), settings=self._judges.settings, baseline=self._settings.baseline,
                noise=statistics.median(noises) if noises else 0.0,
            )  # fmt: skip
            of = dict(zip(values, found, strict=True))
            gains += [of.get(place, 0.0) for place in range(len(answered))]
        return self._practice.author.reinforce(gains)

    def _select(self, groups: Sequence[Group], judged: Sequence[Sequence[Answered]]) -> dict[str, Any]:
        lessons = []
        for (exercise, shown), answered in zip(groups, judged, strict=True):
            held = [
                (worth.value, answer) for answer, worth, _ in answered
                if worth and worth.kind == "verified" and isinstance(answer, Candidate)
            ]  # fmt: skip
            held.sort(key=lambda pair: -pair[0])
            count = max(1, round(self._settings.keep * len(answered)))
            lessons += [Lesson(exercise=exercise, shown=shown, candidate=answer) for _, answer in held[:count]]
        return {**self._practice.teach(lessons), "kept": len(lessons)}

    # ------------------------------------------------------------------------- archive

    def _add(self, key: str, exemplar: Exemplar) -> bool:
        of = digest(exemplar.candidate)
        if of in self.archive[key]:
            return False
        self.archive[key][of] = exemplar
        return True

    def _remember(self, exercise: Exercise, answered: Sequence[Answered]) -> None:
        for answer, worth, record in answered:
            if not isinstance(answer, Candidate) or worth is None or worth.kind != "verified" or record is None:
                continue
            low = _low(record)
            shown = answer if answer.template else as_text(exercise, answer.sources[0].text, answer.language)
            exemplar = Exemplar(candidate=shown, speed=low)
            if low > 0 and self._add(exercise.key, exemplar):
                self._checkpoints.archive(exercise.key, exemplar)

    def _first_lessons(self) -> tuple[tuple[Exercise, Candidate, float, str, str], ...]:
        found = []
        for exercise in self._exercises.values():
            known = sorted(self.archive[exercise.key].values(), key=lambda e: -e.speed)
            best = known[: max(1, round(self._settings.keep * len(known)))]
            found += [(exercise, e.candidate, e.speed, "", "") for e in best]
            for row in exercise.rows:
                if row.kind == "repair" and row.source and row.language in ("cpp", "cuda"):
                    candidate = as_text(exercise, row.source, row.language)
                    found.append((exercise, candidate, row.low or 0.0, row.before, row.fault))
        if not found:
            raise UserError("the corpus holds nothing that this author could learn", "build one with more schedules")
        return tuple(found)


def _low(record: Record) -> float:
    if not isinstance(record.outcome, Judgement) or not record.outcome.comparisons:
        return 0.0
    return record.outcome.comparisons[0].low


@value
class Outcome:
    """What an author is worth on one problem without any help."""

    problem: str
    family: str
    answers: int
    kinds: tuple[tuple[str, int], ...]
    """(what became of it, answers); `none` where there was no kernel, failures with their stage."""
    reward: float
    """Mean."""
    best: float
    """The best reward among the answers."""
    optimum: float
    """The best that is known of this problem, these answers included."""
    speedup: float
    """The best lower end of an interval against eager; 0 where nothing was verified."""


def evaluate(
    practice: Practice, exercises: Sequence[Exercise], judges: Judges, *, count: int, seed: int
) -> tuple[Outcome, ...]:
    """Returns what an author's answers to plain prompts, which show nothing, are worth."""
    found = []
    sampled = practice.sample([(exercise, ()) for exercise in exercises], count, seed=seed)
    for exercise, answers in zip(exercises, sampled, strict=True):
        candidates = [answer for answer in answers if isinstance(answer, Candidate)]
        known = [
            e.candidate for row in exercise.rows if (e := practice.exemplar(exercise, row)) and e.candidate.template
        ]
        worth = judges.rewards(exercise, [*candidates, *known]) if candidates or known else {}
        values = [worth[a][0].value if isinstance(a, Candidate) else 0.0 for a in answers]
        kinds = Counter(_fate(worth[a][0]) if isinstance(a, Candidate) else "none" for a in answers)
        speeds = [_low(worth[c][1]) for c in candidates if worth[c][0].kind == "verified"]
        found.append(
            Outcome(
                problem=exercise.name,
                family=exercise.family,
                answers=count,
                kinds=tuple(sorted(kinds.items())),
                reward=statistics.fmean(values),
                best=max(values),
                speedup=max(speeds, default=0.0),
                optimum=max([*values, *(worth[c][0].value for c in known)]),
            )
        )
    return tuple(found)


def _fate(worth: Reward) -> str:
    return f"failed: {worth.why.split(':')[0]}" if worth.kind == "failed" else worth.kind


def of_optimum(outcomes: Sequence[Outcome]) -> float:
    """Returns the mean over problems of mean reward as a share of the best known reward."""
    return statistics.fmean(o.reward / o.optimum if o.optimum > 0 else 0.0 for o in outcomes)
