"""The all-stream span on a real device: CUPTI's records beside the events, with streams that nobody waits for.

    python -m pytest tests/gpu/test_spans.py -s

prints, for each block: what ran, both clocks, and what the pass cost. A device on which CUPTI records nothing fails
here, with the reason; a judgement on it only says so in its method.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.gpu.conftest import Judges
from tests.judge.kernel_files import judged, reason
from tests.judge.python_files import python_candidate, python_files, python_problem
from tests.judge.witness_stand import Stand

from kernelwright.judge import policies_for
from kernelwright.judge.witness import activities, cuda
from kernelwright.judge.witness.cuda import Accelerator
from kernelwright.judge.witness.spans import SLACK_NS, SLACK_SHARE, span_check
from kernelwright.types import Check, Target, replace

pytestmark = pytest.mark.gpu
MARKS, CALLS = (5003, 6007), 4
PLAIN = next(f for f in python_files("honest_python") if f.path.stem == "plain")
RETURN = "        return F.layer_norm"
TWO_STREAMS = """\
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            m = x.amax(dim=-1)
        y = F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)
        torch.cuda.current_stream().wait_stream(side)
        return y, m
"""


class Bench:
    """An engine with inputs that take a while, in this process, and no memory of a judge's."""

    def __init__(self) -> None:
        self.engine = Accelerator(None, "cuda:0")  # type: ignore[arg-type]
        self.inputs = [(torch.randn(2048, 2048, device="cuda:0"),) for _ in range(CALLS)]
        self.side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.other = torch.randn(2048, 2048, device="cuda:0")
        torch.mm(self.other, self.other)  # cuBLAS is there before anything is captured
        torch.cuda.synchronize()

    def hidden(self) -> None:
        """Work on a stream that nobody waits for."""
        with torch.cuda.stream(self.side):
            for _ in range(20):
                torch.mm(self.other, self.other)

    def recorded(self, call: Callable[[Any], Any], what: str) -> Check:
        self.engine.prepare(call, self.inputs)
        for number in range(2):
            begun = time.perf_counter()
            told = self.engine.recorded(lambda: self.engine.run(call, self.inputs), MARKS)
            cost_ms = 1e3 * (time.perf_counter() - begun)
            print(f"\n{what}, pass {number}: {cost_ms:.1f} ms; {len(told.get('activities', ()))} records", end="")
        found = span_check(told, marks=MARKS, calls=CALLS, least=CALLS)
        print(f"; passed: {found.passed}; {found.evidence}")
        return found


@pytest.fixture(scope="module")
def bench() -> Bench:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    print(f"\ntorch {torch.__version__}, CUDA {torch.version.cuda}, CUPTI found: {bool(activities.FUNCTIONS)}")
    return Bench()


def square(x: torch.Tensor) -> torch.Tensor:
    return torch.mm(x, x)


def test_the_records_of_plain_kernels_agree_with_the_events(bench: Bench) -> None:
    found = bench.recorded(square, "matrix products")
    assert found.passed, found.evidence
    assert bench.engine.method.startswith("CUDA graph replays")


def test_both_clocks_agree_within_the_slack(bench: Bench) -> None:
    bench.engine.prepare(square, bench.inputs)
    told = bench.engine.recorded(lambda: bench.engine.run(square, bench.inputs), MARKS)
    work = [row for row in told["activities"] if row[3] not in MARKS]
    span_ns = max(row[1] for row in work) - min(row[0] for row in work)
    print(f"\nspan {span_ns / 1e3:.1f} µs, events {told['clock_ns'] / 1e3:.1f} µs")
    # The events may wait for the host's first launch, so the span is what may not be longer.
    assert span_ns <= told["clock_ns"] + SLACK_NS + SLACK_SHARE * told["clock_ns"]
    assert sum(row[1] - row[0] for row in work) <= span_ns + SLACK_NS


def test_two_streams_that_join_pass(bench: Bench) -> None:
    def both(x: torch.Tensor) -> torch.Tensor:
        bench.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(bench.side):
            one = torch.mm(x, x)
        two = x + 1
        torch.cuda.current_stream().wait_stream(bench.side)
        return one + two

    found = bench.recorded(both, "two streams")
    assert found.passed, found.evidence
    assert bench.engine.method.startswith("CUDA graph replays")


def test_direct_calls_on_a_stream_of_their_own_are_in_the_walls_time(bench: Bench) -> None:
    def aside(x: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(bench.side):
            return torch.mm(x, x)

    bench.engine.prepare(aside, bench.inputs)
    found = bench.recorded(aside, "called directly")
    assert "called directly" in bench.engine.method
    assert found.passed, found.evidence


@pytest.mark.parametrize("where", ["after the last call", "before the first", "a side stream"])
def test_work_that_nobody_waits_for_is_named(where: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a candidate could do that has got round the guard; here the test replaces the engine's own functions."""
    replay, mark, number = cuda._replay, bench.engine._mark, iter(range(1000))

    def replayed(graph: Any) -> None:
        if where == "a side stream":
            with torch.cuda.stream(bench.side):
                for _ in range(20):
                    replay(graph)
            return
        if where == "after the last call" and next(number) % CALLS == CALLS - 1:
            bench.hidden()
        replay(graph)

    def marked(which: int) -> None:
        if where == "before the first" and which == 0:
            bench.hidden()
            bench.side.synchronize()
        mark(which)

    monkeypatch.setattr(cuda, "_replay", replayed)
    monkeypatch.setattr(bench.engine, "_mark", marked)
    found = bench.recorded(square, f"hidden, {where}")
    torch.cuda.synchronize()
    assert not found.passed
    assert "outside the time of its calls" in found.evidence


def test_graphs_captured_before_anything_was_recorded_are_recorded() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    stand = Stand(python_problem(), device="cuda:0")
    stand.draw(0)
    assert stand.load(PLAIN.path.read_text()) == []
    assert stand.call((0, 1)) == []
    stand.holder.ready((0, 1), moved=False)
    told = stand.holder.record(MARKS)
    assert "why" not in told, told
    found = span_check(told, marks=MARKS, calls=2, least=2)
    print(f"\n{found.evidence}")
    assert found.passed, found.evidence


@pytest.mark.parametrize("streams", ["one stream", "two streams"])
def test_a_judgement_says_what_all_streams_ran(streams: str, judges: Judges, target: Target) -> None:
    """Whole, in a jailed process. Fails where CUPTI cannot be used in the jail, and its method says why."""
    problem, text = python_problem(), PLAIN.path.read_text()
    if streams == "two streams":
        text = text[: text.index(RETURN)] + TWO_STREAMS
    policy = replace(policies_for(target)["screen"], name="spans", rounds=6, call_deadline_s=20.0, deadline_s=120.0)
    record = next(judges.of(problem).judge([python_candidate(problem, text)], replace(policy, families=("given",))))
    assert reason(record) == "passed", record.outcome
    (method,) = (m.method for m in judged(record).measurements if m.contender == "candidate")
    print(f"\n{method}")
    assert "; an all-stream span by CUPTI agrees" in method
    (evidence,) = (check.evidence for check in judged(record).verdict.checks if check.name == "span")
    print(evidence)
