"""The device judge on a real device: right kernels pass, faults cost only the offender, times hold.

Not here: the corpus of cheats, planted bugs and honest kernels, which `make gpu` has judged by `kernelwright selftest`.
"""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from tests.gpu import device_kernels as kernels
from tests.gpu.conftest import Judges

from kernelwright.judge import policies_for
from kernelwright.judge.device import memory_check
from kernelwright.languages import Builder
from kernelwright.types import Candidate, Failure, Judgement, Policy, Problem, Record, Target, replace

COUNT = 1 << 18
ADD = kernels.vector_add(COUNT)
REPLACED_WITHIN_S = 10.0
"""Far above what a replacement takes (docs/results/gpu.md has the number): a hang would be longer."""


def outcome_of(record: Record) -> str:
    if isinstance(record.outcome, Failure):
        return f"{record.outcome.stage}: {record.outcome.kind}"
    failed = [c.name for c in record.outcome.verdict.checks if not c.passed]
    return f"check: {failed[0]}" if failed else "passed"


def times_of(record: Record, mode: str = "cold") -> dict[str, float]:
    assert isinstance(record.outcome, Judgement), record.outcome
    assert record.passed, record.outcome.verdict
    return {m.contender: m.median_us for m in record.outcome.measurements if m.mode == mode}


RIGHT: dict[str, tuple[Problem, str]] = {
    "vector add": (ADD, kernels.add_vectors(COUNT)),
    "clusters": (ADD, kernels.add_kernel(COUNT, line="cluster=2")),
    "much shared memory": (ADD, kernels.add_kernel(COUNT, line="shared=200000")),
    "programmatic launch": (ADD, kernels.programmatic_pair(COUNT)),
    "cooperative": (kernels.vector_add(1 << 14), kernels.add_kernel(1 << 14, line="cooperative")),
    "softmax": (kernels.softmax(), kernels.softmax_kernel(1024, 1024)),
    "tensor map": (kernels.double(), kernels.tensor_map_copy(1024, 1024)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_passes(judges: Judges, quick: Policy, name: str) -> None:
    problem, text = RIGHT[name]
    record = next(judges.of(problem).judge([kernels.candidate(problem, text)], quick))
    times = times_of(record)
    assert set(times) == {"candidate", "graph:eager"}
    assert isinstance(record.outcome, Judgement)
    assert record.outcome.floor_us is not None
    assert all(time_us > 0 for time_us in times.values())


@pytest.mark.parametrize("name", kernels.FAULTS)
def test_a_fault_costs_only_its_candidate(judges: Judges, quick: Policy, name: str) -> None:
    judge = judges.of(ADD)
    record = next(judge.judge([kernels.candidate(ADD, kernels.faulty(name, COUNT))], quick))
    wanted = kernels.FAULTS[name][2]
    assert any(outcome_of(record).startswith(word) for word in wanted), record.outcome
    after = next(judge.judge([kernels.candidate(ADD, kernels.add_vectors(COUNT))], quick))
    assert after.passed, after.outcome
    assert judge._device is not None
    assert max(judge._device.replaced_s) < REPLACED_WITHIN_S


@pytest.mark.parametrize("name", kernels.ARTIFACT_FAULTS)
def test_an_artifact_that_is_not_what_the_plan_says_fails_at_loading(
    judges: Judges, quick: Policy, name: str, tmp_path: Path
) -> None:
    judge, right = judges.of(ADD), kernels.candidate(ADD, kernels.add_vectors(COUNT))
    builder = kernels.Altering(judge._builder, name, tmp_path)
    (built,) = builder.build(ADD, [right])
    assert not isinstance(built, Failure)
    outcome = judge._examine(right, kernels.misplanned(built, name), quick)
    assert isinstance(outcome, Failure)
    assert f"{outcome.stage}: {outcome.kind}" in kernels.ARTIFACT_FAULTS[name]
    assert next(judge.judge([right], quick)).passed


def test_compute_sanitizer_finds_what_is_planted_and_nothing_else(target: Target) -> None:
    if memory_check.find() is None:
        pytest.skip("compute-sanitizer is not installed")
    right = kernels.candidate(ADD, kernels.add_kernel(COUNT))
    wrong = kernels.candidate(
        ADD, kernels.add_kernel(COUNT, before="if (i == 0) out[COUNT] = 1;".replace("COUNT", str(COUNT)))
    )
    with Builder(target, workers=1) as builder:
        built = builder.build(ADD, [right, wrong])
    assert not any(isinstance(made, Failure) for made in built)
    checks, notes = memory_check.run(ADD, right, built[0], memory_check.TOOLS)  # type: ignore[arg-type]
    assert notes == ()
    assert [(c.name, c.passed) for c in checks] == [(tool, True) for tool in memory_check.TOOLS]
    (found,), _ = memory_check.run(ADD, wrong, built[1], ["memcheck"])  # type: ignore[arg-type]
    assert not found.passed


def measured(judges: Judges, target: Target, made: Candidate, problem: Problem = ADD) -> Record:
    return next(judges.of(problem).judge([made], policies_for(target)["measure"]))


@pytest.mark.alone
def test_two_copies_of_one_kernel_tie(judges: Judges, target: Target) -> None:
    problem = kernels.softmax(8192, 4096)
    text = kernels.softmax_kernel(8192, 4096)
    records = [measured(judges, target, kernels.candidate(problem, f"// {n}\n{text}"), problem) for n in range(5)]
    ratios = [r.outcome.comparisons[0].speedup for r in records if isinstance(r.outcome, Judgement)]
    middle = statistics.median(ratios)
    assert len(ratios) == 5
    assert max(abs(ratio / middle - 1.0) for ratio in ratios) < 0.01, ratios


@pytest.mark.alone
def test_a_kernel_slowed_by_a_known_delay_loses_by_that_delay(judges: Judges, target: Target) -> None:
    times = []
    for amount in (8000, 12000, 16000):
        made = kernels.candidate(ADD, kernels.add_kernel(COUNT, before=kernels.delayed(amount)))
        times.append(times_of(measured(judges, target, made))["candidate"])
    first, second = times[1] - times[0], times[2] - times[1]
    assert first > 0
    # A kernel may not read a clock: it counts, and how fast depends on the device's frequency, which moves by 5 %.
    assert second == pytest.approx(first, rel=0.1), times
    assert times[0] == pytest.approx(2.0 * first, rel=0.15), times


@pytest.mark.alone
def test_every_mode_and_baseline_of_a_report(judges: Judges, target: Target) -> None:
    policy = replace(policies_for(target)["report"], name="whole", draws=1, rounds=6, memory_checkers=())
    problem = kernels.softmax()
    record = next(judges.of(problem).judge([kernels.candidate(problem, kernels.softmax_kernel(1024, 1024))], policy))
    assert record.passed, record.outcome
    assert isinstance(record.outcome, Judgement)
    assert record.outcome.notes == ()
    assert {m.mode for m in record.outcome.measurements} == {"cold", "warm", "server"}
    assert {c.baseline for c in record.outcome.comparisons} == set(policy.baselines)
    cold = times_of(record)
    # Whatever is called from Python waits for the host at this size; graphs do not.
    assert cold["graph:eager"] < cold["eager"]
    conditions = dict(next(m.conditions for m in record.outcome.measurements if m.contender == "candidate"))
    assert conditions["sm_clock_mhz"] > 100
