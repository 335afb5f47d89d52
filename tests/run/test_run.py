from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.search.fake_judge import CAPTURE, PROBLEM, TARGET, FakeParts

from kernelwright.errors import KernelwrightError
from kernelwright.run import Event, Result, Row, judge_candidate, optimize, recall
from kernelwright.run.result import standing, verdict_of
from kernelwright.run.session import Session
from kernelwright.search.speed import speed
from kernelwright.store import Store
from kernelwright.testing.strategies import coupled, fake_record, make_template
from kernelwright.types import (
    Candidate,
    Check,
    Comparison,
    Judgement,
    Measurement,
    Policy,
    Record,
    Refusal,
    Verdict,
    digest,
    replace,
)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store(tmp_path / "kept.sqlite") as opened:
        yield opened


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only pauses move: what a budget allows does not depend on how busy the machine is."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


def run(fake: FakeParts, store: Store, *, budget_s: float = 1e9, **more: Any) -> Result:
    capture = more.pop("capture", CAPTURE)
    return optimize(capture, TARGET, store=store, budget_s=budget_s, parts=fake.parts(), **more)


def test_the_fastest_kernel_is_found_and_reported_from_runs_that_did_not_choose_it(store: Store) -> None:
    fake = FakeParts()
    result = run(fake, store, seed=1)
    assert result.answer == "kernel"
    assert result.stopped == "finished"
    assert result.best is not None
    assert coupled("", result.best.point) <= 115.0
    assert result.report is not None
    assert result.report.policy == digest(result.policy)
    assert result.report.policy not in {r.policy for row in result.rows for n, r in row.records if n != "report"}
    assert result.baseline == "eager"
    assert "eager" in result.why
    assert {m.contender for m in result.baselines} == {"eager"}
    assert result.rows[0].candidate == result.best
    assert [name for name, _ in result.rows[0].records] == ["screen", "measure", "final", "report"]
    assert result.judged == len(fake.calls) == len(set(fake.calls))
    assert sum(count for _, count in result.counts) == len(result.rows)
    assert store.verify() == ()


def test_the_final_stage_chooses_and_can_overturn_the_measurements(tmp_path: Path) -> None:
    def speed_of(row: Row, policy: str) -> float:
        record = row.record(policy)
        assert record is not None
        return speed(record) or 0.0

    overturned = []
    for seed in range(6):
        # Everything is equally fast, so that only noise decides: twice, and independently.
        fake = FakeParts(options={"noise": 0.1, "landscape": lambda *_: 100.0})
        with Store(tmp_path / f"{seed}.sqlite") as fresh:
            result = run(fake, fresh, seed=seed)
        finals = [row for row in result.rows if row.record("final")]
        assert len(finals) == 3
        chosen = next(row for row in finals if row.candidate == result.best)
        assert speed_of(chosen, "final") == max(speed_of(row, "final") for row in finals)
        overturned.append(speed_of(chosen, "measure") < max(speed_of(row, "measure") for row in finals))
    assert any(overturned)


def test_the_same_command_again_judges_nothing_and_answers_the_same(store: Store) -> None:
    first = run(FakeParts(), store, seed=1)
    again_parts = FakeParts()
    again = run(again_parts, store)  # with the first one's seed
    assert again_parts.calls == []
    assert again.judged == 0
    assert again.found == first.judged
    assert (again.best, again.answer, again.why, again.rows) == (first.best, first.answer, first.why, first.rows)
    assert again.seed == first.seed == 1


def test_ctrl_c_keeps_everything_and_the_next_run_goes_on(store: Store, tmp_path: Path) -> None:
    fake = FakeParts(options={"interrupt_at": 30})
    cut = run(fake, store, seed=1)
    assert cut.stopped == "interrupted"
    assert cut.answer == "undecided"
    assert "goes on from here" in cut.why
    assert cut.best is not None
    assert cut.report is None
    assert len(list(store.records())) == 30
    rest = FakeParts()
    finished = run(rest, store)
    assert not set(fake.calls) & set(rest.calls)
    assert finished.found == 30
    with Store(tmp_path / "other.sqlite") as other:
        whole = run(FakeParts(), other, seed=finished.seed)
    assert finished.rows == whole.rows
    assert finished.best == whole.best


def test_ctrl_c_recalls_the_report_that_an_earlier_run_made(store: Store, clock: list[float]) -> None:
    first = run(FakeParts(options={"pause_s": 0.01}), store, budget_s=0.3, seed=1)
    assert first.report is not None
    cut = run(FakeParts(options={"interrupt_at": 0}), store, budget_s=0.3)
    assert cut.stopped == "interrupted"
    assert (cut.best, cut.report, cut.answer, cut.why) == (first.best, first.report, first.answer, first.why)


def test_what_is_recalled_does_not_say_that_somebody_interrupted_it(store: Store) -> None:
    fake = FakeParts(options={"interrupt_at": 5})
    run(fake, store, seed=1)
    (recalled,) = recall(store, parts=fake.parts())
    assert recalled.answer == "undecided"
    assert recalled.why.startswith("no kernel has a final judgement here; the fastest so far: ")
    assert recalled.why.endswith("`kernelwright optimize` goes on from here")


def test_ctrl_c_between_judging_and_storing_keeps_the_record(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    append = store.append
    seen: list[Record] = []

    def interrupted(record: Record, *values: object) -> Record:
        seen.append(record)
        if len(seen) == 5:
            raise KeyboardInterrupt
        return append(record, *values)

    monkeypatch.setattr(store, "append", interrupted)
    fake = FakeParts()
    result = run(fake, store, seed=1)
    assert result.stopped == "interrupted"
    assert len(fake.calls) == len(list(store.records())) == 5


def test_the_budget_ends_the_search_and_the_answer_still_comes(store: Store, clock: list[float]) -> None:
    fake = FakeParts(options={"pause_s": 0.01})
    result = run(fake, store, budget_s=0.245, seed=1)
    assert result.stopped == "budget"
    assert result.answer == "kernel"
    searched = [call for call in fake.calls if call[1] in ("screen", "measure")]
    assert len(searched) == 25
    assert [name for _, name in fake.calls].count("report") == 1


def test_the_judges_preparation_is_not_on_the_budget(store: Store, clock: list[float]) -> None:
    fake = FakeParts(options={"preparing_s": 0.3, "pause_s": 0.01})
    result = run(fake, store, budget_s=0.195)
    assert len([call for call in fake.calls if call[1] in ("screen", "measure")]) == 20
    assert result.stopped == "budget"


def test_a_budget_that_has_run_out_still_goes_on_from_stored_records(store: Store) -> None:
    first = run(FakeParts(), store, budget_s=0.0)
    second = run(FakeParts(), store, budget_s=0.0)
    assert (first.stopped, second.stopped) == ("budget", "budget")
    screened = [sum(row.record("screen") is not None for row in result.rows) for result in (first, second)]
    assert screened == [1, 2]


def test_a_tie_is_answered_with_the_baseline(store: Store) -> None:
    result = run(FakeParts(options={"landscape": lambda *_: 985.0}), store, seed=0)
    assert result.answer == "baseline"
    assert result.best is not None
    assert "ties with eager" in result.why


def test_a_loss_is_answered_with_the_baseline(store: Store) -> None:
    fake = FakeParts(options={"landscape": lambda name, point: 30.0 * coupled(name, point)})
    result = run(fake, store, seed=1)
    assert result.answer == "baseline"
    assert result.why.startswith("eager is faster")


def test_when_everything_fails_the_baselines_are_measured_and_said(store: Store) -> None:
    result = run(FakeParts(options={"landscape": lambda *_: None}), store, seed=1)
    assert result.answer == "baseline"
    assert result.baseline == "compile:default"
    assert result.best is None
    assert dict(result.counts) == {"build: syntax": len(result.rows)}
    assert "none of" in result.why
    assert "compile:default" in result.why


def test_a_finalist_that_fails_the_last_judgement_is_not_the_answer(store: Store) -> None:
    result = run(FakeParts(options={"fails_under": ("report",)}), store, seed=1)
    assert result.answer == "baseline"
    assert result.report is None
    assert sum(row.record("report") is not None for row in result.rows) == 3


@pytest.mark.parametrize("graph", [True, False])
def test_what_nothing_can_be_proposed_for_gets_reasons_and_baselines(store: Store, graph: bool) -> None:
    refusal = Refusal(subject="aten.sort", reason="no expert sorts")
    capture = CAPTURE if graph else replace(CAPTURE, graph=None, reason="aten.nonzero has a data-dependent shape")
    result = run(FakeParts(templates=(), refusals=(refusal,)), store, capture=capture)
    assert result.answer == "baseline"
    assert [m.contender for m in result.baselines] == ["eager", "compile:default"]
    assert result.refusals[0].reason == ("no expert sorts" if graph else "aten.nonzero has a data-dependent shape")
    assert f"nothing could be proposed ({result.refusals[0].text}); " in result.why
    (again,) = recall(store, parts=FakeParts(templates=(), refusals=(refusal,)).parts())
    assert (again.answer, again.stopped) == ("baseline", "finished")
    assert result.refusals[0].reason in again.why


def test_progress_is_reported_line_by_line(store: Store) -> None:
    events: list[Event] = []
    result = run(FakeParts(), store, on_event=events.append)
    assert events[0].kind == "start"
    assert events[-1].kind == "end"
    assert events[-1].text == result.why
    assert all(event.text and "\n" not in event.text for event in events)
    assert sum(event.kind == "judged" for event in events) == result.judged
    news = [event.text for event in events if event.kind == "judge"]
    assert news[:2] == ["the judge is ready", "baseline eager: warming, seconds 0.5"]
    assert [e.elapsed_s for e in events] == sorted(e.elapsed_s for e in events)


def test_a_judge_that_forgets_a_candidate_is_our_fault_and_does_not_loop(store: Store) -> None:
    with pytest.raises(KernelwrightError, match="no record"):
        run(FakeParts(options={"forgets": True}), store)


def test_a_candidate_of_a_person_is_judged_once(store: Store) -> None:
    fake = FakeParts()
    parts = fake.parts()
    made = fake.templates[0].emit(fake.templates[0].space.default())
    assert isinstance(made, Candidate)
    arguments: dict[str, Any] = {"store": store, "judge": parts.judge, "policy": parts.report}
    first = judge_candidate(PROBLEM, made, TARGET, **arguments)
    again = judge_candidate(PROBLEM, made, TARGET, **arguments)
    assert first == again
    assert fake.calls == [(digest(made), "report")]


@pytest.mark.parametrize(
    ("low", "high", "noise", "answer"),
    [(1.05, 1.2, 0.01, "kernel"), (1.005, 1.2, 0.01, "baseline"), (0.7, 0.9, 0.01, "baseline")],
)
def test_the_interval_must_lie_above_one_by_more_than_the_noise(
    low: float, high: float, noise: float, answer: str
) -> None:
    made = FakeParts().templates[0].emit(FakeParts().templates[0].space.default())
    assert isinstance(made, Candidate)
    record = fake_record(made, "k1:policy", 100.0)
    assert isinstance(record.outcome, Judgement)
    easy = Comparison(baseline="eager", speedup=5.0, low=4.9, high=5.1)
    hard = Comparison(baseline="compile:default", speedup=(low + high) / 2, low=low, high=high)
    judged = replace(record, outcome=replace(record.outcome, comparisons=(easy, hard), noise=noise))
    found, why = verdict_of(judged)
    assert found == answer
    assert "compile:default" in why or answer == "kernel"


@pytest.mark.parametrize(
    ("second", "answer", "words"),
    [
        ((0.98, 1.0, 1.02), "baseline", "ties with compile:max-autotune: 1.00x"),
        ((0.5, 1.9, 2.5), "undecided", "not decided: the best kernel has 1.90x the speed of compile:max-autotune"),
        ((0.2, 0.3, 0.4), "baseline", "compile:max-autotune is faster"),
        ((1.4, 1.8, 2.5), "kernel", "every baseline: 1.70x against eager"),
    ],
)
def test_every_baseline_must_be_beaten(second: tuple[float, float, float], answer: str, words: str) -> None:
    made = FakeParts().templates[0].emit(FakeParts().templates[0].space.default())
    assert isinstance(made, Candidate)
    record = fake_record(made, "k1:policy", 100.0)
    assert isinstance(record.outcome, Judgement)
    first = Comparison(baseline="eager", speedup=1.7, low=1.5, high=2.1)
    other = Comparison(baseline="compile:max-autotune", speedup=second[1], low=second[0], high=second[2])
    for comparisons in ((first, other), (other, first)):
        judged = replace(record, outcome=replace(record.outcome, comparisons=comparisons, noise=0.2))
        found, why = verdict_of(judged)
        assert found == answer
        assert words in why


@pytest.mark.parametrize(("high", "found"), [(0.4, "slower"), (0.6, "undecided")])
def test_a_noise_of_100_percent_leaves_room_for_slower(high: float, found: str) -> None:
    assert standing(Comparison(baseline="eager", speedup=0.2, low=0.1, high=high), 1.0) == found


def test_the_parent_stays_light() -> None:
    code = "import kernelwright.run, sys; print(sorted({'torch', 'numpy', 'triton'} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "[]"


class Disturbed:
    """A judge whose clocks never agree, or one whose first check fails as well."""

    def __init__(self, *failed: str) -> None:
        self.failed = failed

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        for candidate in candidates:
            checks = tuple(
                Check(name=n, passed=n not in self.failed, evidence="0 of 4 blocks") for n in ("accuracy", "clock")
            )
            yield replace(
                fake_record(candidate, digest(policy), None, target=digest(TARGET)),
                outcome=Judgement(verdict=Verdict(checks=checks)),
            )

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        return ()

    def prepare(self, policy: Policy) -> None:
        pass


@pytest.mark.parametrize(("failed", "kept"), [(("clock",), 0), (("clock", "accuracy"), 1), (("accuracy",), 1)])
def test_what_only_a_busy_machine_failed_is_not_kept(store: Store, failed: tuple[str, ...], kept: int) -> None:
    policy = FakeParts().parts().screen
    session = Session(PROBLEM, TARGET, store=store, policies=(policy,))
    candidate = make_template("rows", ("tile", (8,))).emit((("tile", 8),))
    assert isinstance(candidate, Candidate)
    candidate = replace(candidate, problem=digest(PROBLEM))
    ((_, record),) = session.judge(Disturbed(*failed), (candidate,), policy)
    assert not record.passed
    assert len(tuple(store.records())) == kept
