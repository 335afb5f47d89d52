"""Every file of tests/honest_python passes every check, however suspicious it looks."""

from __future__ import annotations

import pytest
from tests.judge.kernel_files import judged, reason
from tests.judge.python_files import Courtroom, PythonFile, python_files

HONEST = python_files("honest_python")


@pytest.mark.parametrize("file", HONEST, ids=lambda f: f.path.stem)
def test_honest_candidate_passes(file: PythonFile, courtroom: Courtroom) -> None:
    record = courtroom.record(file)
    assert reason(record) == "passed", record.outcome
    judgement = judged(record)
    assert {m.contender for m in judgement.measurements} == {"candidate", "eager"}
    names = [check.name for check in judgement.verdict.checks]
    assert {"structure", "environment", "threads", "processes", "accuracy", "timed outputs", "clock"} <= set(names)
    candidate = next(m for m in judgement.measurements if m.contender == "candidate")
    assert "called from Python in a process of its own" in candidate.method
    assert judgement.notes[0].startswith("witnessed")


def test_there_are_enough() -> None:
    assert len(HONEST) >= 20
    assert all(file.said("LOOKS") for file in HONEST)
