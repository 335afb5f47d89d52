"""The protocol of rounds with contenders that only pretend, and one real self-test marked slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from tests.judge.kernel_files import QUICK, make_problem

from kernelwright.judge.runner import Block, RunnerStopped
from kernelwright.judge.slots import POISONS, Slots
from kernelwright.judge.timing import (
    AGAIN,
    BAIT,
    CANDIDATE,
    LEAD,
    Samples,
    calls_for,
    comparisons,
    latency_ns,
    measurements,
    noise,
    run_rounds,
)
from kernelwright.types import Failure, replace

US = 1000


class FakeBaseline:
    def __init__(self, name: str, each_us: float) -> None:
        self.name, self.estimate_us = name, each_us
        self.calls: list[list[int]] = []

    def run(self, slots: Sequence[int]) -> list[int]:
        self.calls.append(list(slots))
        return [int(self.estimate_us * US)] * len(slots)


class FakeRunner:
    """Writes outputs as an honest kernel would, on a clock of its own."""

    def __init__(self, slots: Slots, each_us: float) -> None:
        self.slots, self.each, self.now = slots, int(each_us * US), 10**12
        self.blocks: list[list[int]] = []
        self.also: tuple[int, ...] = ()
        self.forge = 0
        self.poisoned: dict[bool, list[bool]] = {True: [], False: []}
        """Whether outputs held poison before they were written, of slots that are called and of others."""

    def run(self, slots: Sequence[int]) -> Block:
        called = list(slots)
        self.blocks.append(called)
        for slot in (*called, *(self.also if called else ())):
            self.poisoned[slot in called].append(self.slots.holds(slot, POISONS[0]))
            self.slots.outputs[slot][0].fill_(1.0)
        sent, starts = self.now, np.arange(len(called), dtype=np.int64) * self.each + self.now + 20 * US
        ends = starts + self.each
        self.now = (int(ends[-1]) if len(called) else self.now + 20 * US) + 20 * US
        return Block(starts, ends - self.forge, sent, self.now)

    def rest(self) -> None:
        """Has nothing to clear up."""


@pytest.fixture
def slots() -> Iterator[Slots]:
    made = Slots(make_problem("softmax"), cache_bytes=16 * 131072, available_bytes=1 << 32)
    yield made
    made.close()


def rounds(
    slots: Slots,
    runner: FakeRunner,
    baselines: list[FakeBaseline],
    inspect: Callable[[Sequence[int]], str | None] | None = None,
) -> tuple[Samples, str | None, list[list[int]], list[list[int]]]:
    refreshed: list[list[int]] = []
    inspected: list[list[int]] = []
    samples, fault = run_rounds(
        replace(QUICK, rounds=8),
        slots=slots,
        baselines=baselines,
        refresh=lambda chosen: refreshed.append(list(chosen)),
        inspect=inspect or (lambda called: inspected.append(list(called))),
        rng=np.random.default_rng(7),
        runner=runner,
        estimate_us=100.0,
        pause_ns=latency_ns(runner),
    )
    return samples, fault, refreshed, inspected


def test_every_round_gives_every_contender_fresh_slots_and_poisons_half_of_the_candidates_outputs(slots: Slots) -> None:
    runner, eager, other = FakeRunner(slots, 100), FakeBaseline("eager", 200), FakeBaseline("compile:default", 50)
    samples, fault, refreshed, inspected = rounds(slots, runner, [eager, other])
    assert fault is None
    assert set(samples.times_us) == {CANDIDATE, "eager", AGAIN, "compile:default"}
    assert all(len(times) == 8 for times in samples.times_us.values())
    assert len(eager.calls) == 16
    blocks = [b for b in runner.blocks if b]
    assert len(blocks) == len(refreshed) == 8
    for block, chosen, seen in zip(blocks, refreshed, inspected, strict=True):
        assert set(block) <= set(chosen)
        assert len(set(block)) == len(block) == 4 + LEAD
        assert seen == block
    assert len({tuple(b) for b in blocks}) == 8
    assert comparisons(samples, QUICK)[0].speedup == pytest.approx(2, rel=0.01)
    assert comparisons(samples, QUICK)[1].speedup == pytest.approx(0.5, rel=0.01)
    assert noise(samples, QUICK) == 0
    # Each block after the first finds what an earlier one has left in some, the poison in others.
    assert {True, False} == set(runner.poisoned[True][-len(blocks[0]) * 6 :])


def test_work_for_calls_that_were_never_made_is_seen(slots: Slots) -> None:
    runner = FakeRunner(slots, 100)
    runner.also = tuple(range(slots.count))
    samples, _, _, _ = rounds(slots, runner, [FakeBaseline("eager", 200)])
    assert "never made" in samples.bait_taken
    assert BAIT >= 1


def test_a_wrong_timed_output_ends_the_rounds(slots: Slots) -> None:
    samples, fault, _, _ = rounds(slots, FakeRunner(slots, 100), [FakeBaseline("eager", 200)], inspect=lambda _: "bad")
    assert fault == "bad"
    assert samples.times_us[CANDIDATE] == []


def test_blocks_that_the_judges_clock_contradicts_give_no_time(slots: Slots) -> None:
    runner = FakeRunner(slots, 1000)
    runner.forge = 900 * US
    samples, _, _, _ = rounds(slots, runner, [FakeBaseline("eager", 200)])
    assert samples.times_us[CANDIDATE] == []
    assert len(samples.clock_faults) == samples.rounds == 128


def test_calls_follow_from_the_time_of_one() -> None:
    assert len(calls_for(100.0, 1000.0, 4096).slots) == 10 + LEAD
    assert calls_for(100.0, 1000.0, 10).lead == 0
    assert len(calls_for(100.0, 1000.0, 10).slots) == 10
    assert len(calls_for(1e6, 1000.0, 2).slots) == 1
    assert len(calls_for(0.001, 1000.0, 4096).slots) == 1024 + LEAD


def test_half_of_many_slots_are_never_called() -> None:
    for slots in (12, 32, 64, 1000):
        assert len(calls_for(0.01, 1000.0, slots).slots) <= slots // 2


def test_measurements_say_how_they_were_taken() -> None:
    samples = Samples(times_us={CANDIDATE: [10.0, 11.0], "eager": [20.0, 22.0], AGAIN: [21.0, 21.0]})
    samples.calls = {CANDIDATE: 5, "eager": 6, AGAIN: 6}
    made = {m.contender: m for m in measurements(samples, QUICK, workload="given", cold=True, threads=2)}
    assert made[CANDIDATE].median_us == 10.5
    assert made["eager"].median_us == 21.0
    assert (made["eager"].mode, made["eager"].calls, made["eager"].samples) == ("cold", 6, 2)
    assert "bootstrap" in made[CANDIDATE].method
    assert "native process" in made[CANDIDATE].method
    assert "torch" in made["eager"].method


def test_runner_failures_carry_the_candidates_fault() -> None:
    failure = Failure(stage="run", kind="signal", message="it broke")
    assert RunnerStopped(failure).failure is failure
