"""How fast: rounds of alternating blocks, every contender on the same bytes in every round.

Protocol of a round. A random set of slots gets fresh contents and poisoned outputs. Contenders take
their turns in random order, each calling itself once on each of a number of these slots that takes
about `block_us`; eager has two turns, whose ratio is the noise floor (A/A). The candidate's process
is stopped while others run; a pause lets the threads of the one before fall asleep. A block's time
is the mean over its calls (so that work cannot hide in a few of them); where slots are many, half of
them stay unused and must keep their poison, and the first calls are made but not counted (lead),
since waking threads is nobody's work. Afterwards outputs of randomly chosen slots are compared with the reference's.

The result is the median over rounds, and ratios taken within each round, with bootstrap intervals
(statistics.py). Not here: what the numbers mean for a claim (report).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from kernelwright.judge import statistics
from kernelwright.judge.baselines import EAGER
from kernelwright.judge.integrity import block_time_us, clock_fault, forgery
from kernelwright.judge.runner import MAX_CALLS, Block
from kernelwright.judge.slots import POISONS, Slots, half
from kernelwright.types import Comparison, Measurement, Policy

CANDIDATE = "candidate"
AGAIN = "eager again"
SETTLE_S = 0.0008
"""Longer than an idle OpenMP thread looks for work under conditions.SPIN_COUNT (measured: docs/facts.md)."""
LEAD = 2
MANY_SLOTS = 12
BAIT = 4
"""Slots of each round that nobody calls: their outputs must keep the poison."""
MOST_CALLS = 1024
MOST_ROUNDS_FACTOR = 16
"""Rounds whose block the two clocks disagree on are made again, up to this multiple of the policy's rounds: on a busy
machine (six processes for each core) four blocks of five are interrupted."""


@dataclass
class Samples:
    """What the rounds gave."""

    times_us: dict[str, list[float]] = field(default_factory=dict)
    """Mean time of a call, for each contender and each kept round."""
    calls: dict[str, int] = field(default_factory=dict)
    clock_faults: list[str] = field(default_factory=list)
    forged: str = ""
    """Why the stamps of some block cannot be a clock's."""
    bait_taken: str = ""
    rounds: int = 0

    def keep(self, times_us: Mapping[str, float]) -> None:
        """Adds the times of a round on which both clocks agree."""
        for name, spent_us in times_us.items():
            self.times_us[name].append(spent_us)


@dataclass(frozen=True, slots=True)
class Turn:
    """The slots of one contender in one round."""

    slots: tuple[int, ...]
    lead: int


def calls_for(estimate_us: float, block_us: float, slots: int) -> Turn:
    """Returns how many slots a block takes and how many of its first calls do not count.

    Where there are many slots (small problems), at least half are never called in a round, so that
    there is bait. Where there are few, calls take so long that working ahead gains nothing, and all count.
    """
    lead = LEAD if slots >= MANY_SLOTS else 0
    most = min(slots // 2 - lead if lead else slots, MOST_CALLS, MAX_CALLS - lead)
    calls = max(1, min(round(block_us / max(estimate_us, 0.05)), most))
    return Turn(tuple(range(calls + lead)), lead)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps Python's collector out of the measurement."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Contender(Protocol):
    """What is timed in this process: a baseline.

    **Covers**: one call on each of some slots. **Does not cover**: what slots hold.
    """

    name: str
    estimate_us: float

    def run(self, slots: Sequence[int]) -> list[int]:
        """Returns the nanoseconds of one call on each of the slots."""


class Caller(Protocol):
    """What calls the candidate: its runner.

    **Covers**: one call on each of some slots, in another process. **Does not cover**: whether the stamps are true.
    """

    def run(self, slots: Sequence[int]) -> Block:
        """Returns the stamps of one call on each of the slots, and the judge's clock before and after."""

    def rest(self) -> None:
        """Lets it clear up, after its outputs were looked at and before the next contents are written."""


def latency_ns(runner: Caller, *, repeats: int = 15) -> float:
    """Returns the usual time of a command without calls, by the judge's clock.

    To be asked before the first call: what the candidate has left running could make such commands slow.
    """
    blocks = [runner.run(()) for _ in range(repeats)]
    return float(np.median([b.received - b.sent for b in blocks]))


def run_rounds(
    policy: Policy,
    *,
    slots: Slots,
    baselines: Sequence[Contender],
    refresh: Callable[[Sequence[int]], None],
    inspect: Callable[[Sequence[int]], str | None],
    rng: np.random.Generator,
    runner: Caller | None = None,
    surprise: Callable[[Sequence[int], bool], str | None] = lambda called, last: None,
    estimate_us: float = 0.0,
    pause_ns: float = 0.0,
    deadline: float = float("inf"),
) -> tuple[Samples, str | None]:
    """Returns the samples, and what was wrong with an output of a timed call, None when nothing was.

    Args:
        policy: how many rounds, how long a block.
        slots: shared inputs and outputs.
        baselines: contenders in this process; eager has two turns.
        refresh: gives slots fresh contents.
        inspect: looks at the candidate's outputs on the slots of its last block.
        rng: the session's secret generator.
        runner: the candidate, None to time baselines only.
        surprise: before a round, or after the last, may make calls that are not timed (surprises.py).
        estimate_us: the candidate's time as the correctness runs saw it.
        pause_ns: what `latency_ns` said of the runner.
        deadline: no round begins after this `time.monotonic()` moment.
    """
    turns, by_name = _turns(policy, slots, baselines, estimate_us if runner else None)
    samples = Samples(times_us={name: [] for name in turns})
    samples.calls = {name: len(turn.slots) - turn.lead for name, turn in turns.items()}
    needed = min(slots.count, max(len(t.slots) for t in turns.values()))
    while samples.rounds - len(samples.clock_faults) < policy.rounds:
        if samples.forged or time.monotonic() > deadline or samples.rounds >= MOST_ROUNDS_FACTOR * policy.rounds:
            break
        if runner and (fault := surprise(_some(slots, turns[CANDIDATE], rng), False)):
            return samples, fault
        if runner:
            runner.rest()
        chosen, called, bait = _drawn(slots, needed, turns.get(CANDIDATE), rng)
        refresh([*called, *(slot for slot in chosen if slot not in set(called))])
        slots.poison((*half(called, rng), *bait), POISONS[0])
        times, block = _blocks(turns, by_name, runner, chosen, called, rng)
        samples.rounds += 1
        if block is not None:
            if any(not slots.holds(slot, POISONS[0]) for slot in bait):
                samples.bait_taken = "outputs of a call that was never made were written"
                break
            if fault := inspect(called):
                return samples, fault
            if not _clocks_agree(samples, block, pause_ns):
                continue
            times[CANDIDATE] = block_time_us(block, turns[CANDIDATE].lead, pause_ns)
        samples.keep(times)
    if runner and not (samples.bait_taken or samples.forged):
        return samples, surprise(_some(slots, turns[CANDIDATE], rng), True)
    return samples, None


def _turns(
    policy: Policy, slots: Slots, baselines: Sequence[Contender], estimate_us: float | None
) -> tuple[dict[str, Turn], dict[str, Contender]]:
    """The turns of a round by name, and whose they are; eager has two."""
    by_name = {b.name: b for b in baselines}
    turns = {b.name: calls_for(b.estimate_us, policy.block_us, slots.count) for b in baselines}
    if EAGER in turns:
        turns[AGAIN], by_name[AGAIN] = turns[EAGER], by_name[EAGER]
    if estimate_us is not None:
        turns[CANDIDATE] = calls_for(estimate_us, policy.block_us, slots.count)
    return turns, by_name


def _drawn(
    slots: Slots, needed: int, turn: Turn | None, rng: np.random.Generator
) -> tuple[list[int], list[int], list[int]]:
    """The slots of a round, those of them that the candidate is called on, and those that nobody is called on."""
    order = rng.permutation(slots.count).tolist()
    chosen = order[:needed]
    # The candidate's slots first, so that they hold every kind of contents; which comes when stays random.
    called = rng.permutation(chosen).tolist()[: len(turn.slots)] if turn else []
    return chosen, called, order[needed : needed + BAIT]


def _some(slots: Slots, turn: Turn, rng: np.random.Generator) -> list[int]:
    """As many slots as a block has, at random."""
    return [int(slot) for slot in rng.permutation(slots.count)[: len(turn.slots)]]


def _clocks_agree(samples: Samples, block: Block, pause_ns: float) -> bool:
    """Notes where a block's stamps are forged, or only disagree with the judge's clock."""
    samples.forged = forgery(block) or ""
    if reason := clock_fault(block, pause_ns):
        samples.clock_faults.append(reason)
    return not reason


def _blocks(
    turns: Mapping[str, Turn],
    baselines: Mapping[str, Contender],
    runner: Caller | None,
    chosen: Sequence[int],
    called: Sequence[int],
    rng: np.random.Generator,
) -> tuple[dict[str, float], Block | None]:
    """Gives every contender its turn; returns baselines' mean times and the candidate's stamps."""
    times: dict[str, float] = {}
    block: Block | None = None
    with quiet():
        for name in rng.permutation(sorted(turns)).tolist():
            time.sleep(SETTLE_S)
            if name == CANDIDATE and runner:
                block = runner.run(called)
                continue
            turn = turns[name]
            spent = baselines[name].run(rng.permutation(chosen).tolist()[: len(turn.slots)])[turn.lead :]
            times[name] = sum(spent) / len(spent) / 1e3
    return times, block


def measurements(
    samples: Samples, policy: Policy, *, workload: str, cold: bool, threads: int
) -> tuple[Measurement, ...]:
    """Returns each contender's median with its interval; eager's two turns count as one."""
    made = []
    for name, times in _merged(samples).items():
        if not len(times):
            continue
        median, low, high = statistics.interval_of_median(times, confidence=policy.confidence)
        made.append(
            Measurement(
                contender=name,
                workload=workload,
                mode="cold" if cold else "warm",
                median_us=median,
                low_us=low,
                high_us=high,
                samples=len(times),
                calls=samples.calls[name],
                method=method_of(name, policy, cold=cold, threads=threads),
            )
        )
    return tuple(made)


def comparisons(samples: Samples, policy: Policy) -> tuple[Comparison, ...]:
    """Returns the candidate against each baseline, from ratios within rounds."""
    return compared(_merged(samples), policy)


def compared(times: Mapping[str, statistics.Numbers], policy: Policy) -> tuple[Comparison, ...]:
    """Returns the candidate against each baseline, from the times of each contender in the same rounds."""
    ours = times.get(CANDIDATE, np.empty(0))
    made = []
    for name, theirs in times.items():
        if name != CANDIDATE and len(ours) and len(theirs):
            ratio, low, high = statistics.interval_of_ratio(theirs, ours, confidence=policy.confidence)
            made.append(Comparison(baseline=name, speedup=ratio, low=low, high=high))
    return tuple(made)


def noise(samples: Samples, policy: Policy) -> float | None:
    """Returns the half-width of the A/A interval round 1, None where eager was not timed."""
    first, second = samples.times_us.get(EAGER), samples.times_us.get(AGAIN)
    return statistics.noise_of(first, second, confidence=policy.confidence) if first and second else None


def _merged(samples: Samples) -> dict[str, statistics.Numbers]:
    merged = {name: np.asarray(times) for name, times in samples.times_us.items() if name != AGAIN}
    if samples.times_us.get(AGAIN):
        merged[EAGER] = (merged[EAGER] + np.asarray(samples.times_us[AGAIN])) / 2.0
    return merged


def method_of(name: str, policy: Policy, *, cold: bool, threads: int) -> str:
    """Returns the statement of how a time was taken, ready for a report."""
    where = (
        "called from a native process of its own, outputs given"
        if name == CANDIDATE
        else "called from Python under inference_mode, outputs allocated by torch"
    )
    memory = (
        "slots rotate through at least twice the last-level cache" if cold else "slots rotate through the cache (warm)"
    )
    return (
        f"CLOCK_MONOTONIC round each call; mean of a block of about {policy.block_us / 1e3:g} ms, median over "
        f"{policy.rounds} rounds of blocks in random order; {where}; {threads} threads; {memory}; inputs fresh in "
        f"every round; {policy.confidence:.0%} percentile bootstrap over rounds"
    )
