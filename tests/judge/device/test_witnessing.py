"""Python judged on a device, with the processor as the device: the joined path, without what only CUDA has."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from tests.judge.kernel_files import judged, reason
from tests.judge.python_files import PYTHON_QUICK, python_candidate, python_files, python_problem

from kernelwright.judge.device.witnessing import SLOTS, WitnessedSession
from kernelwright.judge.timing import Samples
from kernelwright.judge.witness.engine import Engine, Processor
from kernelwright.judge.witness.examine import _Witnessed, examine_witnessed
from kernelwright.judge.witness.memory import Memory
from kernelwright.languages import cuda_target
from kernelwright.types import Judgement, Record, replace

POLICY = replace(PYTHON_QUICK, families=("given", "large", "nonfinite"), rounds=3, baselines=("graph:eager",))
FILES = {file.path.stem: file for folder in ("honest_python", "cheats_python") for file in python_files(folder)}
asked: list[str] = []


def processor(memory: Memory, device: str, direct: str) -> Engine:
    assert device == "cpu"
    asked.append(direct)
    return Processor(memory)


@pytest.fixture(scope="module")
def session() -> Iterator[WitnessedSession]:
    target = replace(cuda_target("sm_90a"), threads=1)
    made = WitnessedSession(python_problem(), target, lambda _: None, device="cpu", bandwidth=1e12, engine=processor)
    yield made
    made.close()


def test_draws_are_hosted_and_bounds_are_those_of_the_reference(session: WitnessedSession) -> None:
    assert session.slots.count <= SLOTS
    draw = session.draw("normal", 0)
    assert draw is not None
    (x,), (weight, bias) = draw.inputs, draw.parameters
    y = torch.nn.functional.layer_norm(x, (256,), weight, bias, 1e-5)
    for bound, right in zip(draw.bounds, (y, x.amax(-1)), strict=True):
        assert bound.check(right).passed
        assert not bound.check(right * 1.001).passed


def test_baselines_follow_contents_and_parameters(session: WitnessedSession) -> None:
    made = session.baseline("graph:eager")
    for seed in (1, 2):
        generator = torch.Generator().manual_seed(seed)
        for tensor in (*session.slots.inputs[1], *session.slots.parameters):
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
        (x,), (weight, bias) = session.slots.inputs[1], session.slots.parameters
        wanted = torch.nn.functional.layer_norm(x, (256,), weight, bias, 1e-5)
        torch.testing.assert_close(made.outputs(1)[0], wanted)  # type: ignore[union-attr]
    times = made.run((0, 1, 2))  # type: ignore[union-attr]
    assert len(times) == 3
    assert all(0 < time_ns < math.inf for time_ns in times)
    assert "" in asked
    assert any(why.startswith("a policy asks") for why in asked)


@pytest.mark.parametrize("name", ["plain", "pointer_cache"])
def test_honest_python_passes_and_a_cheat_does_not(name: str, session: WitnessedSession) -> None:
    file = FILES[name]
    candidate = python_candidate(session.problem, file.path.read_text())
    outcome = examine_witnessed(session, candidate, None, POLICY)  # type: ignore[arg-type]
    found = reason(Record(problem="", candidate="", target="", policy="", outcome=outcome))
    if file.caught_by:
        assert found in file.caught_by
        return
    assert found == "passed", outcome
    assert isinstance(outcome, Judgement)
    assert {m.contender for m in outcome.measurements} == {"candidate", "graph:eager"}
    assert outcome.notes[0].startswith("witnessed")
    assert judged(Record(problem="", candidate="", target="", policy="", outcome=outcome)).verdict.passed


def test_a_device_without_records_is_said_in_the_method(
    session: WitnessedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way of the recorded block, through two jailed processes, on a processor that has no streams."""
    checked = _Witnessed._check_time

    def check_time(self: _Witnessed, samples: Samples) -> None:
        checked(self, samples)
        self._check_span()

    monkeypatch.setattr(_Witnessed, "_check_time", check_time)
    candidate = python_candidate(session.problem, FILES["plain"].path.read_text())
    outcome = examine_witnessed(session, candidate, None, POLICY)  # type: ignore[arg-type]
    assert isinstance(outcome, Judgement)
    assert outcome.verdict.passed, outcome
    assert "span" not in {check.name for check in outcome.verdict.checks}
    (method,) = (m.method for m in outcome.measurements if m.contender == "candidate")
    assert "; no all-stream span by CUPTI (it has no streams), outputs its own" in method
