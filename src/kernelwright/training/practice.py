"""How each kind of author is shown exemplars, answers, and is taught: the seam between the stages and the authors.

Exemplars are drawn once for a group: all of its members answer the same prompt, or their mean would be no baseline.
Not here: what is learnt from it all (stages.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, Protocol

from kernelwright.errors import UserError
from kernelwright.exchanges import Kind, Message
from kernelwright.llm import answers
from kernelwright.llm.prompts import FENCES, Feedback, Prompt, Shown, messages
from kernelwright.plans import LaunchPlan
from kernelwright.run.models.kernels import FILES, candidate_of
from kernelwright.run.models.telling import hardware_sheet
from kernelwright.search.authored.archive import contrasted
from kernelwright.search.authored.briefs import Exemplar
from kernelwright.training.authors import Asked, Author
from kernelwright.training.exercises import Exercise
from kernelwright.training.grammar import Choices
from kernelwright.training.rows import Row
from kernelwright.training.vocabulary import prompt, speed_word
from kernelwright.types import Candidate, Problem, SourceFile, Target, value

Drawing = Literal["buckets", "random", "none"]
"""How exemplars are drawn: of distinct speed buckets with the fastest among them, anyhow, or not at all."""
MODEL = "model"


@value
class Lesson:
    """One right answer to learn."""

    exercise: Exercise
    shown: tuple[Exemplar, ...]
    candidate: Candidate
    before: str = ""
    fault: str = ""
    """Of a repair."""


Group = tuple[Exercise, tuple[Exemplar, ...]]
"""One prompt: a problem and the kernels that are shown."""


class Practice(Protocol):
    """An author at work.

    Covers: answers that are candidates or say why not; lessons; both for many prompts at once.
    Does not cover: judging.
    """

    author: Author

    def exemplar(self, exercise: Exercise, row: Row) -> Exemplar | None:
        """Returns a corpus's row as something to show, None where this author cannot be shown it."""

    def sample(self, groups: Sequence[Group], count: int, *, seed: int) -> list[list[Candidate | str]]:
        """Returns `count` answers to each prompt: a candidate, or why there is none."""

    def teach(self, lessons: Sequence[Lesson]) -> dict[str, float]:
        """Learns right answers; returns the loss."""


def drawn(known: Sequence[Exemplar], count: int, how: Drawing, rng: random.Random) -> tuple[Exemplar, ...]:
    """Returns up to `count` exemplars, from slow to fast."""
    if how == "none" or not known:
        return ()
    if how == "buckets":
        return contrasted(known, count, rng)
    return tuple(sorted(rng.sample(list(known), min(count, len(known))), key=lambda e: e.speed))


class SchedulePractice:
    """An author that chooses schedules. Shown schedules cannot be said again: the grammar leaves them out.

    Args:
        author: of kind `schedules`.
        temperature: of sampling.
    """

    def __init__(self, author: Author, *, temperature: float = 1.0) -> None:
        self.author, self._temperature = author, temperature

    def exemplar(self, exercise: Exercise, row: Row) -> Exemplar | None:
        """Returns a row's schedule, None where the experts of today cannot emit it."""
        if row.kind != "kernel" or not row.low:
            return None
        grammar = exercise.grammar(self.author.words)
        choices = grammar.choices(row.template, row.point)
        if choices is None or grammar.candidate(choices) is None:
            return None
        return Exemplar(candidate=exercise.candidate(grammar, choices), speed=row.low)

    def asked(self, exercise: Exercise, shown: Sequence[Exemplar]) -> Asked:
        """Returns a prompt's words and what may not be said."""
        grammar = exercise.grammar(self.author.words)
        said = [(e.speed, choices) for e in shown if (choices := self._choices(exercise, e.candidate)) is not None]
        words = prompt(exercise.features, [(speed, grammar.spelling(choices)) for speed, choices in said])
        return Asked(prompt=words, without=tuple(choices for _, choices in said))

    def sample(self, groups: Sequence[Group], count: int, *, seed: int) -> list[list[Candidate | str]]:
        """Returns `count` schedules for each prompt; every one is a candidate."""
        rows = [(exercise, self.asked(exercise, shown)) for exercise, shown in groups for _ in range(count)]
        grammars = [exercise.grammar(self.author.words) for exercise, _ in rows]
        asked = [(grammar, row) for grammar, (_, row) in zip(grammars, rows, strict=True)]
        chosen = self.author.choose(asked, seed=seed, temperature=self._temperature)
        made: list[Candidate | str] = [
            exercise.candidate(grammar, choices)
            for grammar, (exercise, _), choices in zip(grammars, rows, chosen, strict=True)
        ]
        return [made[start : start + count] for start in range(0, len(made), count)]

    def teach(self, lessons: Sequence[Lesson]) -> dict[str, float]:
        """Learns schedules."""
        told = []
        for lesson in lessons:
            choices = self._choices(lesson.exercise, lesson.candidate)
            if choices is not None and not lesson.before:
                row = self.asked(lesson.exercise, lesson.shown)
                told.append((lesson.exercise.grammar(self.author.words), row, choices))
        return self.author.imitate(told, [1.0] * len(told)) if told else {}

    def _choices(self, exercise: Exercise, candidate: Candidate) -> Choices | None:
        return exercise.grammar(self.author.words).choices(candidate.template, candidate.point)


class CodePractice:
    """An author that writes kernels as text.

    Args:
        author: of kind `code`; None where only prompts are wanted.
        target: what prompts say about the machine.
        language: cpp or cuda.
        most: tokens of an answer.
        temperature: of sampling.
    """

    def __init__(
        self, author: Author | None, target: Target, *, language: str = "cpp", most: int = 1024,
        temperature: float = 1.0,
    ) -> None:  # fmt: skip
        if author is not None:
            self.author = author
        self._target, self._language, self._most, self._temperature = target, language, most, temperature

    def exemplar(self, exercise: Exercise, row: Row) -> Exemplar | None:
        """Returns a row's source, None where it is of another language, was not timed or is no file of its own."""
        if row.kind != "kernel" or not row.low or row.language != self._language:
            return None
        if isinstance(self._candidate(exercise, row.source), str):
            return None
        return Exemplar(candidate=as_text(exercise, row.source, self._language), speed=row.low)

    def conversation(self, lesson: Lesson | None, exercise: Exercise, shown: Sequence[Exemplar]) -> tuple[Message, ...]:
        """Returns what is asked, in prose."""
        feedback, parent = None, ""
        kind: Kind = "contrast" if len(shown) > 1 else "write"
        if lesson is not None and lesson.before:
            kind, parent = "repair", lesson.before
            feedback = Feedback(subject="this kernel", text=lesson.fault)
        told = tuple(Shown(source=e.candidate.sources[0].text, speed=e.speed) for e in shown)
        return messages(
            kind,
            Prompt(
                problem=_problem(exercise), language=self._language, hardware=hardware_sheet(self._target),
                exemplars=told, parent=parent, feedback=feedback,
            ),
        )  # fmt: skip

    def sample(self, groups: Sequence[Group], count: int, *, seed: int) -> list[list[Candidate | str]]:
        """Returns what `count` answers to each prompt hold."""
        prompts = [self.conversation(None, exercise, shown) for exercise, shown in groups]
        written = self.author.write(prompts, count, most=self._most, temperature=self._temperature, seed=seed)
        return [
            [self._read(exercise, answer.text, answer.broke_off) for answer in texts]
            for (exercise, _), texts in zip(groups, written, strict=True)
        ]

    def _read(self, exercise: Exercise, text: str, broke_off: bool) -> Candidate | str:
        code = answers.parsed(text).code
        if not code:
            return "the answer broke off" if broke_off else "no kernel in it"
        return self._candidate(exercise, code)

    def _candidate(self, exercise: Exercise, code: str) -> Candidate | str:
        try:
            return candidate_of(_problem(exercise), code, language=self._language, author=MODEL)
        except UserError as error:
            return error.message

    def teach(self, lessons: Sequence[Lesson]) -> dict[str, float]:
        """Learns answers."""
        told = [(self.conversation(lesson, lesson.exercise, lesson.shown), self.answer(lesson)) for lesson in lessons]
        return self.author.imitate_text(told, [1.0] * len(told)) if told else {}

    def answer(self, lesson: Lesson) -> str:
        """Returns the answer that a lesson teaches, in the form that prompts ask for."""
        text = lesson.candidate.sources[0].text.rstrip()
        if lesson.before:
            intent = "mend what was found and change nothing else"
        elif lesson.shown:
            intent = f"go on from the fastest of these, which runs at {speed_word(lesson.shown[-1].speed)}"
        else:
            intent = "one pass over memory, all threads, wide vectors"
        return f"Intent: {intent}\n\n```{FENCES[self._language]}\n{text}\n```"


def as_text(exercise: Exercise, text: str, language: str) -> Candidate:
    """Returns a source as a candidate that can be shown, not judged: its plan is not read."""
    return Candidate(
        problem=exercise.key, language=language, sources=(SourceFile(path=FILES[language], text=text),),
        plan=LaunchPlan(steps=()),
    )  # fmt: skip


def _problem(exercise: Exercise) -> Problem:
    if exercise.problem is None:
        raise UserError("a code model needs problems, and records of schedules have none", "leave --recorded out")
    return exercise.problem
