"""A session's notes, and what counts as a candidate's time."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tests.judge.kernel_files import QUICK, make_problem
from tests.judge.problems import problem_of

from kernelwright.judge.exact_bound import Finding
from kernelwright.judge.examine import _Examination
from kernelwright.judge.parts import InParts
from kernelwright.judge.session import Session
from kernelwright.languages import detect_target
from kernelwright.types import LaunchPlan, Problem, replace


def opened(problem: Problem) -> Session:
    return Session(problem, replace(detect_target(), cache_bytes=1 << 18), Path("none"), lambda _: None)


def test_a_weak_problem_says_so_in_its_notes() -> None:
    session = opened(problem_of("return torch.softmax(x.sum(1, keepdim=True), 1)", "torch.randn(32, 16)", name="ones"))
    notes = session.notes(replace(QUICK, families=("given", "normal", "constant")))
    assert "weak problem: a constant would pass for out" in notes
    session.close()


def test_a_sound_problem_has_nothing_to_say() -> None:
    session = opened(make_problem("masked"))
    assert session.notes(replace(QUICK, families=("given", "constant", "powers", "sparse"))) == ()
    session.close()


def test_what_all_candidates_share_is_no_candidates_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def made() -> str:
        now[0] += 50.0
        return "draw"

    session = SimpleNamespace(slots=None, draws=None, problem=make_problem("softmax"))
    examination = _Examination(session, None, QUICK, None)  # type: ignore[arg-type]
    left_s = examination.deadline - now[0]
    assert examination._unhurried(made) == "draw"
    assert examination.deadline - now[0] == left_s


class Doubting(InParts):
    """A bound that never knows."""

    def check(self, output: torch.Tensor) -> Finding:
        return Finding(False, "accuracy", 2.0, "perhaps", doubtful=True)


def test_a_closer_look_at_a_hidden_shape_looks_there() -> None:
    session = opened(make_problem("dynamic"))
    shape = next(s for s in session.shapes(2) if s.sizes != {"R": 32, "C": 64})
    candidate = SimpleNamespace(plan=LaunchPlan(steps=()))
    examination = _Examination(session, candidate, QUICK, None)._at(shape)  # type: ignore[arg-type]
    draw = shape.draws.draw("given", 0)
    assert draw is not None
    shape.slots.inputs[1][0].copy_(draw.inputs[0])
    for factor, passed in ((1.0, True), (1.001, False)):
        shape.slots.outputs[1][0].copy_(torch.softmax(draw.inputs[0], -1) * factor)
        (found,) = examination._settled([Doubting()], 1)  # type: ignore[list-item]
        assert found.passed == passed
    examination.workspaces.region.close()
    session.close()


def test_hidden_shapes_are_made_once_and_only_for_problems_whose_sizes_vary() -> None:
    fixed = opened(make_problem("softmax"))
    assert fixed.shapes(3) == ()
    fixed.close()
    session = opened(make_problem("dynamic"))
    first = session.shapes(2)
    assert session.shapes(2) is not None
    assert [shape.text for shape in session.shapes(2)] == [shape.text for shape in first]
    assert all(shape.slots.count == 2 for shape in first)
    assert all(shape.draws.draw("given", 0) is not None for shape in first)
    session.close()
