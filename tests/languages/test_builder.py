"""Builds that go on while those before them are in use already."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.judge.device.fake_device import candidate_for, softmax_problem

from kernelwright.languages import Builder
from kernelwright.languages.devices import cuda_target
from kernelwright.types import Candidate, Failure

PROBLEM = softmax_problem()
LONG_S = 60.0


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    return Builder(cuda_target("sm_90a"), workers=2)


def failure(word: str) -> Failure:
    return Failure(stage="build", kind="source", message=word)


def test_the_first_is_there_while_a_later_one_is_being_built(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = threading.Event()

    def build(problem: object, candidates: Sequence[Candidate]) -> tuple[Any, ...]:
        (word,) = (step.symbol for step in candidates[0].plan.steps)
        if word == "last":
            assert taken.wait(LONG_S)
        return (failure(word),)

    monkeypatch.setattr(builder, "build", build)
    found = builder.begin(PROBLEM, [candidate_for(PROBLEM, name) for name in ("first", "second", "last")])
    assert [next(found), next(found)] == [failure("first"), failure("second")]
    taken.set()
    assert next(found) == failure("last")
    assert next(found, None) is None


def test_a_fault_comes_at_its_candidate_and_ends_the_others(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(problem: object, candidates: Sequence[Candidate]) -> tuple[Any, ...]:
        if candidates[0].plan.steps[0].symbol == "bad":
            raise RuntimeError("no compiler")
        return (failure("built"),)

    monkeypatch.setattr(builder, "build", build)
    found = builder.begin(PROBLEM, [candidate_for(PROBLEM, name) for name in ("good", "bad", "good")])
    assert next(found) == failure("built")
    with pytest.raises(RuntimeError, match="no compiler"):
        next(found)
