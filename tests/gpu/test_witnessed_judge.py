"""Python judged on a real device: the witness has a context of its own, and what is timed are replays of its graphs."""

from __future__ import annotations

import pytest
from tests.gpu.conftest import Judges
from tests.judge.kernel_files import judged, reason
from tests.judge.python_files import PythonFile, python_candidate, python_files, python_problem

from kernelwright.judge import policies_for
from kernelwright.types import Policy, Record, Target, replace

PROBLEM = python_problem()
OF_THE_PROCESSOR = ("numpy", "ctypes", "compile(", "set_num_threads", "mmap")
"""What honest files use that belongs to tensors on the host."""
STREAM_OF_ITS_THREAD = "ThreadPoolExecutor"
"""On a GPU another thread's work goes to another stream, which the caller's does not wait for."""
TIMED = ("plain", "compiled")
"""Files whose times are looked at, and what compiles for a minute."""
HONEST = [
    pytest.param(f, id=f.path.stem, marks=[pytest.mark.alone] if f.path.stem in TIMED else [])
    for f in python_files("honest_python")
    if not any(w in f.path.read_text() for w in (*OF_THE_PROCESSOR, STREAM_OF_ITS_THREAD))
]
PLAIN = next(f for f in python_files("honest_python") if f.path.stem == "plain")
CHEATS = [f for f in python_files("cheats_python") if f.said("SEEN") != "inside"]


@pytest.fixture(scope="module")
def policy(target: Target) -> Policy:
    return replace(policies_for(target)["screen"], name="witnessed", rounds=6, call_deadline_s=20.0, deadline_s=120.0)


def record_of(file: PythonFile, judges: Judges, policy: Policy) -> Record:
    return next(judges.of(PROBLEM).judge([python_candidate(PROBLEM, file.path.read_text())], policy))


@pytest.mark.parametrize("file", HONEST)
def test_honest_python_passes(file: PythonFile, judges: Judges, policy: Policy) -> None:
    record = record_of(file, judges, policy)
    assert reason(record) == "passed", record.outcome
    times = {m.contender: m for m in judged(record).measurements}
    assert set(times) == {"candidate", "graph:eager"}
    if file.path.stem == "plain":
        assert "CUDA graph replays" in times["candidate"].method
        # Eager called by eager's author: the same kernels, replayed in the same way.
        ratio = times["candidate"].median_us / times["graph:eager"].median_us
        assert 0.5 < ratio < 2.0, (ratio, [check.evidence for check in judged(record).verdict.checks])


@pytest.mark.parametrize("file", CHEATS, ids=lambda f: f.path.stem)
def test_a_cheat_does_not_pass(file: PythonFile, judges: Judges, policy: Policy) -> None:
    if deadline := file.said("CALL DEADLINE"):
        # The first call is made several times before it is captured, within the time that loading has.
        policy = replace(policy, call_deadline_s=float(deadline), deadline_s=30.0)
    assert not record_of(file, judges, policy).passed


def test_what_cannot_be_captured_says_so(judges: Judges, policy: Policy) -> None:
    plain = PLAIN.path.read_text()
    text = plain.replace("        return F.layer_norm", "        float(x.sum())\n        return F.layer_norm")
    assert text != plain
    record = next(judges.of(PROBLEM).judge([python_candidate(PROBLEM, text)], replace(policy, families=("given",))))
    assert reason(record) == "passed", record.outcome
    times = {m.contender: m for m in judged(record).measurements}
    assert "called directly" in times["candidate"].method
