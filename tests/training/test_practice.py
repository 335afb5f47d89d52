"""The code author in the loop, with scripted answers instead of a model; and the author of schedules as a strategy."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.search.fake_judge import PROBLEM, TARGET
from tests.training.in_process import InProcess

from kernelwright.exchanges import Message
from kernelwright.graph import Capture
from kernelwright.search.authored.briefs import Exemplar
from kernelwright.testing.strategies import WIDE, Drive, make_template, separable
from kernelwright.training import authors, choosing, prompting, vocabulary
from kernelwright.training.checkpoints import Checkpoints
from kernelwright.training.exercises import Exercise
from kernelwright.training.grammar import Grammar
from kernelwright.training.models.schedules import ScheduleAuthor
from kernelwright.training.practice import CodePractice, Lesson, as_text, drawn
from kernelwright.training.reward import Reward, RewardSettings, reward
from kernelwright.training.rows import Row
from kernelwright.training.stages import Settings, Training
from kernelwright.types import Candidate, Check, Comparison, Judgement, Record, Verdict, digest

KERNEL = (
    'extern "C" void rows(const float* x, float* out) {{\n    for (int i = 0; i < 64; i += {step}) out[i] = x[i];\n}}'
)
FAST, SLOW, NEW = (KERNEL.format(step=step) for step in (1, 2, 4))
COPY = FAST.replace("int i", "int k").replace("[i]", "[k]").replace("i <", "k <").replace("i +=", "k +=")


def answer(code: str) -> str:
    return f"Intent: go on\n\n```cpp\n{code}\n```\n"


class Scripted(authors.Author):
    """Says what it was told to say, and remembers what it was taught."""

    def __init__(self, said: Sequence[str]) -> None:
        self.kind, self.words = "code", frozenset()
        self.said = said
        self.prompts: list[str] = []
        self.gains: tuple[float, ...] = ()
        self.taught: list[str] = []

    def write(
        self, prompts: Sequence[Sequence[Message]], count: int, **_: Any
    ) -> tuple[tuple[authors.Written, ...], ...]:
        self.prompts = [messages[-1].text for messages in prompts]
        told = tuple(authors.Written(text=t, prompt_tokens=1, tokens=1, broke_off=False) for t in self.said[:count])
        return (told,) * len(prompts)

    def reinforce(self, advantages: Sequence[float]) -> dict[str, float]:
        self.gains = tuple(advantages)
        return {}

    def imitate_text(self, answers: Any, weights: Sequence[float]) -> dict[str, float]:
        self.taught = [text for _, text in answers]
        return {}

    def save(self, folder: Path) -> None:
        (folder / "model").mkdir(parents=True)


class Judges:
    """Every kernel is right; more steps, more speed."""

    settings = RewardSettings()

    def rewards(
        self, exercise: Exercise, candidates: Iterable[Candidate], *, exemplars: tuple[str, ...] = ()
    ) -> dict[Candidate, tuple[Reward, Record]]:
        return {c: self._one(c, exemplars) for c in candidates}

    def _one(self, candidate: Candidate, exemplars: tuple[str, ...]) -> tuple[Reward, Record]:
        speed = 2.5 if "+= 4" in candidate.sources[0].text else 1.0
        compared = Comparison(baseline="eager", speedup=speed, low=speed, high=speed)
        verdict = Verdict(checks=(Check(name="accuracy", passed=True, evidence=""),))
        outcome = Judgement(verdict=verdict, comparisons=(compared,), noise=0.01)
        record = Record(problem="p", candidate=digest(candidate), target="t", policy="s", outcome=outcome)
        text = candidate.sources[0].text
        return reward(record, settings=self.settings, exemplar_texts=exemplars, text=text), record


def row(source: str, low: float) -> Row:
    return Row(
        kind="kernel", family="rows", problem="rows", problem_digest=digest(PROBLEM), features=(), reference="",
        language="cpp", source=source, speedup=low, low=low,
    )  # fmt: skip


EXERCISE = Exercise(
    key=digest(PROBLEM), name="rows", family="rows", features=("op:add",), templates=(), problem=PROBLEM,
    rows=(row(FAST, 2.0), row(SLOW, 0.5)),
)  # fmt: skip


def trained(tmp_path: Path, stage: Any, said: Sequence[str]) -> tuple[Scripted, Training, Checkpoints]:
    author = Scripted(said)
    kept = Checkpoints(tmp_path, {}, resume=False)
    settings = Settings(stage=stage, group=len(said), plain=0.0, problems=1)
    training = Training(CodePractice(author, TARGET), (EXERCISE,), Judges(), settings, kept)
    assert training.run(steps=1) == "finished"
    return author, training, kept


def test_copies_and_empty_answers_lose_to_what_is_new(tmp_path: Path) -> None:
    author, training, kept = trained(tmp_path, "contrast", [answer(NEW), answer(COPY), "I cannot.", answer(SLOW)])
    (prompt,) = author.prompts
    assert FAST in prompt
    assert SLOW in prompt
    assert prompt.index(SLOW) < prompt.index(FAST)
    assert author.gains[0] > 0
    assert author.gains[1] == author.gains[2] == author.gains[3] < 0
    (line,) = kept.lines()
    assert line["kinds"] == {"copy": 2, "none": 1, "verified": 1}
    assert [(key, e.speed) for key, e in Checkpoints(tmp_path, {}, resume=True).archived()] == [(EXERCISE.key, 2.5)]
    assert len(training.archive[EXERCISE.key]) == 3


def test_select_imitates_the_best_of_what_held_and_no_copy(tmp_path: Path) -> None:
    author, _, _ = trained(tmp_path, "select", [answer(COPY), answer(NEW), "nothing", answer(SLOW)])
    assert len(author.taught) == 1
    assert NEW in author.taught[0]


def test_a_repair_is_taught_from_the_fault(tmp_path: Path) -> None:
    practice = CodePractice(Scripted([]), TARGET)
    lesson = Lesson(
        exercise=EXERCISE, shown=(), candidate=as_text(EXERCISE, FAST, "cpp"), before=SLOW, fault="accuracy failed"
    )
    asked = practice.conversation(lesson, EXERCISE, ())[-1].text
    assert SLOW in asked
    assert "accuracy failed" in asked
    assert practice.answer(lesson).endswith(f"```cpp\n{FAST}\n```")


def test_exemplars_of_buckets_hold_the_fastest_and_differ_in_speed() -> None:
    known = [Exemplar(candidate=as_text(EXERCISE, f"// {s}", "cpp"), speed=s) for s in (1.0, 1.01, 1.02, 3.0, 3.01)]
    for seed in range(20):
        shown = drawn(known, 2, "buckets", random.Random(seed))
        assert [round(e.speed) for e in shown] == [1, 3]
        assert shown[-1].speed == 3.01
        assert len(drawn(known, 2, "random", random.Random(seed))) == 2
    assert drawn(known, 2, "none", random.Random(0)) == ()


def test_lines_for_other_trainers_show_distinct_speeds_and_none_of_what_is_held_out() -> None:
    train, other = prompting.lines([EXERCISE], TARGET, split="train", each=2, shown=2, seed=0)
    assert train["extra_info"] == {"index": 0, "split": "train", "language": "cpp", "exemplars": [SLOW, FAST]}
    assert other["extra_info"] == {**train["extra_info"], "index": 1}
    system, user = train["prompt"]  # type: ignore[misc]
    assert (system["role"], user["role"]) == ("system", "user")  # type: ignore[has-type]
    assert user["content"].index(SLOW) < user["content"].index(FAST)  # type: ignore[has-type]
    (plain,) = prompting.lines([EXERCISE], TARGET, split="held-out", each=2, shown=2, seed=0)
    assert plain["extra_info"]["exemplars"] == []  # type: ignore[index]
    assert FAST not in plain["prompt"][1]["content"]  # type: ignore[index]
    assert plain["reward_model"] == {"style": "rule", "ground_truth": "rows"}


def test_sources_that_the_reader_refuses_are_not_shown() -> None:
    practice = CodePractice(None, TARGET)
    assert practice.exemplar(EXERCISE, row(FAST, 2.0)) is not None
    assert practice.exemplar(EXERCISE, row(FAST.replace("float* out", "float* other"), 2.0)) is None


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(authors, "Worker", InProcess)
    templates = [make_template("rows", *WIDE)]
    ScheduleAuthor(vocabulary.words(Grammar(templates).vocabulary()), seed=2).save(tmp_path / "model")
    return tmp_path


def test_a_trained_author_is_a_strategy_that_repeats_and_keeps_its_limit(model: Path) -> None:
    assert choosing.is_chooser(f"local:{model}")
    assert not choosing.is_chooser("openai/model")
    capture = Capture(problem=PROBLEM, graph=None)

    def drive() -> Drive:
        made = choosing.chooser(f"local:{model}")(capture, TARGET, (make_template("rows", *WIDE),), seed=3, limit=20)
        return Drive(made, separable).run()

    one, other = drive(), drive()
    assert one.asked == other.asked
    assert len(one.asked) == len(set(one.asked)) == 20
    assert [effort for _, effort in one.asked].count("measure") == 4
