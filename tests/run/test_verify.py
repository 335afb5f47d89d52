"""Whether a stored record holds: where it is found, and what is compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.search.fake_judge import CAPTURE, PROBLEM, TARGET, FakeParts

from kernelwright import cli, codec, languages
from kernelwright.commands import verify as command
from kernelwright.errors import UserError
from kernelwright.run import Result, optimize, write_best
from kernelwright.run.recollect import recollect
from kernelwright.run.verify import Remembered, verify
from kernelwright.store import Store
from kernelwright.testing.strategies import fake_record
from kernelwright.types import (
    Candidate,
    Comparison,
    Failure,
    Judgement,
    Policy,
    Problem,
    Record,
    Target,
    digest,
    replace,
)

PARTS = FakeParts().parts()
POLICY = PARTS.report


class Judge:
    """Gives the records that it was made with."""

    def __init__(self, outcome: Judgement | Failure) -> None:
        self.outcome = outcome

    def __call__(self, problem: Problem, target: Target, *, on_event: Any = None) -> Judge:
        self.target = target
        return self

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def prepare(self, policy: Policy) -> None:
        pass

    def baselines(self, policy: Policy) -> tuple[()]:
        return ()

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        for candidate in candidates:
            yield Record(
                problem=digest(PROBLEM), candidate=digest(candidate), target=digest(self.target),
                policy=digest(policy), outcome=self.outcome,
            )  # fmt: skip


@pytest.fixture
def result(tmp_path: Path) -> Result:
    with Store(tmp_path / "store.sqlite") as store:
        found = optimize(CAPTURE, TARGET, store=store, budget_s=0.0, parts=PARTS, seed=0)
    assert found.best is not None
    assert found.report is not None
    return found


@pytest.fixture
def remembered(result: Result) -> Remembered:
    assert result.best is not None
    assert result.report is not None
    return Remembered(
        problem=PROBLEM, candidate=result.best, target=TARGET, policy=POLICY, record=result.report, origin="here"
    )


def outcome(remembered: Remembered) -> Judgement:
    assert isinstance(remembered.record.outcome, Judgement)
    return remembered.record.outcome


def scaled(judgement: Judgement, factor: float) -> Judgement:
    """Returns a judgement whose speedups are all a multiple of what they were."""
    changed = tuple(
        replace(c, speedup=c.speedup * factor, low=c.low * factor, high=c.high * factor) for c in judgement.comparisons
    )
    return replace(judgement, comparisons=changed)


def test_the_same_verdict_and_ratio_hold(remembered: Remembered) -> None:
    found = verify(remembered, TARGET, judge=Judge(scaled(outcome(remembered), 1.0001)))
    assert found.holds
    assert [c.name for c in found.checks] == [
        "verdict",
        *(f"ratio: {c.baseline}" for c in outcome(remembered).comparisons),
    ]
    assert found.notes == ()
    assert len(found.checks) > 1


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_another_ratio_on_the_same_target_does_not_hold(remembered: Remembered, factor: float) -> None:
    found = verify(remembered, TARGET, judge=Judge(scaled(outcome(remembered), factor)))
    assert not found.holds
    assert {c.passed for c in found.checks if c.name == "verdict"} == {True}
    failed = [c for c in found.checks if not c.passed]
    assert failed
    assert "recorded" in failed[0].evidence


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"families": ("given",)}, "families large"), ({"draws": 0}, "draws"), ({"rounds": 0}, "rounds")],
)
def test_a_record_that_brings_a_policy_which_looks_at_nothing_does_not_hold(
    remembered: Remembered, changed: dict[str, Any], words: str
) -> None:
    policy = replace(POLICY, **changed)
    crafted = replace(remembered, policy=policy, record=replace(remembered.record, policy=digest(policy)))
    found = verify(crafted, TARGET, judge=Judge(outcome(remembered)))
    assert not found.holds
    assert [(c.name, words in c.evidence) for c in found.checks if not c.passed] == [("policy", True)]
    assert verify(crafted, TARGET, policy=POLICY, judge=Judge(outcome(remembered))).holds


def test_a_claim_that_nothing_measures_again_does_not_hold(remembered: Remembered) -> None:
    before = outcome(remembered)
    claimed = replace(before, comparisons=(replace(before.comparisons[0], baseline="made up", speedup=99.0),))
    crafted = replace(remembered, record=replace(remembered.record, outcome=claimed))
    found = verify(crafted, TARGET, judge=Judge(before))
    assert [c.evidence for c in found.checks if not c.passed] == ["not measured again: 99.00x against made up"]
    more = replace(before, comparisons=(*before.comparisons, *claimed.comparisons))
    crafted = replace(remembered, record=replace(remembered.record, outcome=more))
    found = verify(crafted, TARGET, judge=Judge(before))
    assert found.holds
    assert found.notes == ("not measured again: 99.00x against made up",)


def test_noise_widens_the_intervals(remembered: Remembered) -> None:
    changed = scaled(outcome(remembered), 1.15)
    assert not verify(remembered, TARGET, judge=Judge(changed)).holds
    assert verify(remembered, TARGET, judge=Judge(replace(changed, noise=0.2))).holds


def test_with_too_much_noise_ratios_are_not_compared(remembered: Remembered) -> None:
    found = verify(remembered, TARGET, judge=Judge(replace(scaled(outcome(remembered), 9.0), noise=2.0)))
    assert [check.name for check in found.checks] == ["verdict"]
    assert all("with a noise of" in note for note in found.notes)
    assert found.notes


def test_another_verdict_does_not_hold_anywhere(remembered: Remembered) -> None:
    fault = Failure(stage="run", kind="signal", message="it crashed")
    for target in (TARGET, replace(TARGET, architecture="another")):
        found = verify(remembered, target, judge=Judge(fault))
        assert not found.holds
        assert "run: signal, recorded: passed" in found.checks[0].evidence


def test_a_failure_that_fails_again_holds(remembered: Remembered) -> None:
    fault = Failure(stage="run", kind="signal", message="it crashed")
    failed = replace(remembered, record=replace(remembered.record, outcome=fault))
    assert verify(failed, TARGET, judge=Judge(fault)).holds
    assert not verify(failed, TARGET, judge=Judge(outcome(remembered))).holds


def test_on_another_target_the_ratio_is_told_and_not_judged(remembered: Remembered) -> None:
    other = replace(TARGET, threads=64, toolchain=(("g++", "14.1"),))
    found = verify(remembered, other, judge=Judge(scaled(outcome(remembered), 3.0)))
    assert found.holds
    assert [c.name for c in found.checks] == ["verdict"]
    assert "another target: threads 64 instead of 2; toolchain" in found.notes[0]
    assert "recorded" in found.notes[1]


def test_under_another_policy_the_ratio_is_told_and_not_judged(remembered: Remembered) -> None:
    found = verify(remembered, TARGET, policy=PARTS.screen, judge=Judge(scaled(outcome(remembered), 3.0)))
    assert found.holds
    assert "another policy" in found.notes[0]


def test_a_result_folder_gives_its_record_and_candidate(result: Result, tmp_path: Path) -> None:
    folder = write_best(result, tmp_path / "out")
    assert folder
    for subject in (folder, folder.parent, folder / "evidence.json"):
        found = recollect(str(subject))
        assert found.candidate == result.best
        assert found.record == result.report
        assert found.problem == PROBLEM


def test_a_kernel_that_was_edited_since_is_refused(result: Result, tmp_path: Path) -> None:
    folder = write_best(result, tmp_path / "out")
    assert folder
    assert result.best
    kernel = folder / result.best.sources[0].path
    kernel.write_text(kernel.read_text() + "// faster\n")
    with pytest.raises(UserError, match="is not the kernel of the record any more") as caught:
        recollect(str(folder))
    assert "kernelwright judge" in caught.value.fix


@pytest.mark.parametrize("member", ["kernel", "problem", "record"])
def test_a_file_that_was_changed_is_refused(result: Result, tmp_path: Path, member: str) -> None:
    folder = write_best(result, tmp_path / "out")
    assert folder
    path = folder / "evidence.json"
    data = json.loads(path.read_text())
    if member == "record":
        data["record"]["candidate"] = "k1:other"
    else:
        data[member]["name" if member == "problem" else "language"] = "changed"
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match="the record belongs to another"):
        recollect(str(path))


@pytest.mark.parametrize(
    ("member", "field", "value", "words"),
    [
        ("policy", "rounds", "many", "Policy.rounds is a str"),
        ("record", "duration_s", {"": "dict", "items": [[[1], 2]]}, "no value has this form"),
        ("target", "features", [["avx2"]], "Target.features is a tuple"),
        ("policy", "families", {"": "dict"}, "no value has this form"),
    ],
)
def test_a_file_of_other_types_is_the_users_fault(
    result: Result, tmp_path: Path, member: str, field: str, value: Any, words: str
) -> None:
    folder = write_best(result, tmp_path)
    assert folder
    path = folder / "evidence.json"
    data = json.loads(path.read_text())
    data[member][field] = value
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match=words):
        recollect(str(path))
    path.write_text("[" * 100_000)
    with pytest.raises(UserError, match="no evidence file"):
        recollect(str(path))


def test_an_older_evidence_file_takes_its_candidate_from_the_store(result: Result, tmp_path: Path) -> None:
    folder = write_best(result, tmp_path)
    assert folder
    path = folder / "evidence.json"
    data = json.loads(path.read_text())
    del data["kernel"]
    path.write_text(json.dumps(data))
    assert recollect(str(path)).candidate == result.best


def test_digests_find_records_and_candidates(result: Result, tmp_path: Path) -> None:
    assert result.report
    assert result.best
    for key in (digest(result.report), digest(result.report).removeprefix("k1:")[:12], digest(result.best)):
        found = recollect(key, folders=(tmp_path,))
        assert found.candidate == result.best
        assert found.record == result.report
        assert found.policy == POLICY


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("000000000000", "no record or candidate begins with"),
        ("zzzzzz", "is no folder, no file, and no digest"),
        ("abc", "is no folder, no file, and no digest"),
    ],
)
def test_what_cannot_be_found_is_said(result: Result, tmp_path: Path, subject: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        recollect(subject, folders=(tmp_path,))
    assert caught.value.fix


def test_a_digest_of_several_candidates_is_refused(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelwright.run.recollect.LEAST_DIGITS", 1)
    assert result.best
    with Store(tmp_path / "store.sqlite") as store:
        several = [replace(result.best, options=(("number", number),)) for number in range(17)]
        for candidate in several:
            record = fake_record(candidate, digest(POLICY), 1.0, target=digest(TARGET))
            store.append(replace(record, problem=digest(PROBLEM)), candidate)
    first = [digest(candidate).removeprefix("k1:")[0] for candidate in several]
    shared = next(digit for digit in first if first.count(digit) > 1)
    with pytest.raises(UserError, match="give more digits"):
        recollect(shared, folders=(tmp_path,))


def test_the_command_prints_and_exits_by_what_it_found(
    result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_best(result, tmp_path / "out")
    assert result.report
    told = result.report.outcome
    assert isinstance(told, Judgement)
    monkeypatch.setattr(languages, "detect_target", lambda: TARGET)

    def with_judge(judgement: Judgement) -> None:
        def checked(remembered: Remembered, target: Target, **more: Any) -> object:
            return verify(remembered, target, judge=Judge(judgement), **more)

        monkeypatch.setattr(command, "verify", checked)

    with_judge(told)
    assert run(str(folder)) == 0
    assert "The record holds." in capsys.readouterr().out
    with_judge(scaled(told, 2.0))
    assert run(str(folder), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["holds"] is False
    assert codec.from_data(found["recorded"]) == result.report
    assert run("no-such-record") == 2
    assert "is no folder, no file, and no digest" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["cpu", "cuda", "emulated"])
def test_a_record_is_judged_again_on_its_kind_of_device(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated = replace(TARGET, toolchain=(("emulation", "1"),))
    here = {name: replace(TARGET, device=name) for name in ("cpu", "cuda", "emulated")}
    monkeypatch.setattr(languages, "detect_target", lambda: here["cpu"])
    monkeypatch.setattr(languages, "detect_device_target", lambda: here["cuda"])
    monkeypatch.setattr(languages, "emulated_target", lambda: here["emulated"])
    recorded = {"cpu": TARGET, "cuda": replace(TARGET, kind="cuda"), "emulated": emulated}
    assert command._target_like(recorded[kind]) == here[kind]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["verify", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_intervals_that_only_touch_hold(remembered: Remembered) -> None:
    before = outcome(remembered).comparisons[0]
    apart = Comparison(baseline=before.baseline, speedup=before.high * 1.05, low=before.high, high=before.high * 1.1)
    touching = replace(outcome(remembered), comparisons=(apart,), noise=0.0)
    assert verify(remembered, TARGET, judge=Judge(touching)).holds
