"""Replacement of device workers: only the offender suffers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.judge.device.fake_device import artifact_for, candidate_for, softmax_problem

from kernelwright import judge as judge_package
from kernelwright.errors import UserError
from kernelwright.judge import Judge, policies_for
from kernelwright.judge.device.pool import DeviceWorkers
from kernelwright.judge.policies import DEVICE_SCREEN, POLICIES
from kernelwright.languages import cuda_target
from kernelwright.types import Candidate, Failure, Judgement, Policy, Record, SourceFile, replace

MODULE = "tests.judge.device.fake_worker"
PROBLEM = softmax_problem()
ROOT = str(Path(__file__).parents[3])


class BuiltAlready:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def build(self, problem: object, candidates: list[Candidate]) -> tuple[Any, ...]:
        return tuple(artifact_for(candidate, self._folder) for candidate in candidates)

    def close(self) -> None:
        return None


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setenv("PYTHONPATH", ROOT + ":" + str(Path(ROOT, "src")))
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(judge_package, "DeviceWorkers", lambda **given: DeviceWorkers(module=MODULE, **given))
    with Judge(PROBLEM, cuda_target("sm_90a")) as made:
        made._builder.close()
        made._builder = BuiltAlready(tmp_path)  # type: ignore[assignment]
        yield made


def ask(judge: Judge, word: str, policy: Policy = DEVICE_SCREEN) -> Record:
    made = candidate_for(PROBLEM, "kernel")
    return next(judge.judge([replace(made, sources=(SourceFile(path="kernel.cu", text=word),))], policy))


def process_of(record: Record) -> str:
    assert isinstance(record.outcome, Judgement), record.outcome
    return record.outcome.verdict.checks[0].evidence


def test_a_fault_that_breaks_the_device_costs_only_its_candidate(judge: Judge) -> None:
    first = process_of(ask(judge, "right"))
    assert process_of(ask(judge, "right")) == first
    broken = ask(judge, "breaks")
    assert isinstance(broken.outcome, Failure)
    assert broken.outcome.kind == "memory"
    second = process_of(ask(judge, "right"))
    assert second != first
    assert judge._device is not None
    assert len(judge._device.replaced_s) == 2


def test_a_failure_that_breaks_nothing_keeps_the_worker(judge: Judge) -> None:
    first = process_of(ask(judge, "right"))
    assert isinstance(ask(judge, "refused").outcome, Failure)
    assert process_of(ask(judge, "right")) == first


def test_a_worker_that_dies_is_replaced_and_the_candidate_named(judge: Judge) -> None:
    died = ask(judge, "dies")
    assert isinstance(died.outcome, Failure)
    assert (died.outcome.stage, died.outcome.kind) == ("judge", "crash")
    assert process_of(ask(judge, "right"))


def test_a_hang_that_the_worker_itself_does_not_see_ends_at_the_deadline(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_package, "MARGIN_S", 0.5)
    late = ask(judge, "hangs", replace(DEVICE_SCREEN, deadline_s=0.5))
    assert isinstance(late.outcome, Failure)
    assert late.outcome.kind == "timeout"
    assert process_of(ask(judge, "right"))


def test_a_device_that_gives_wrong_answers_is_no_candidates_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT + ":" + str(Path(ROOT, "src")))
    workers = DeviceWorkers(module=MODULE, variables={"NO_DEVICE": "1"})
    with pytest.raises(UserError, match="does not answer"):
        workers.take()
    workers.close()


def test_policies_of_a_device_have_its_baselines_and_the_same_families() -> None:
    target = cuda_target("sm_90a")
    for name, policy in policies_for(target).items():
        assert policy.families == POLICIES[name].families
        assert policy.name == name
        assert policy.baselines[0] == "graph:eager"
    assert policies_for(dataclasses.replace(target, kind="cpu")) is POLICIES
