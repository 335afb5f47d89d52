"""How fast on a device: rounds of mirrored blocks, every contender in the same rounds on the same bytes.

Protocol of a round. The slots in use get fresh contents. The contenders take their turns in a random order, and then,
on fresh contents again, in its reverse (A B B A), so that a drift of the clock within the round hits all alike; one
baseline has two places, whose ratio is the noise floor (A/A). A turn is one launch that calls its contender once on
each of a number of slots (one captured graph, except for contenders that are called from Python), between two events.
Before the candidate's turns no answer of a baseline lies in memory, and half of its outputs are poisoned; before every
turn the level-2 cache is overwritten. A block's time is the events' span over its calls; nothing is subtracted.

Modes. `cold`: as described. `warm`: graphs that call a few slots again and again, which stay in the cache; the
first replay does not count. `server`: single calls after random pauses, by the host's clock from before the launch
until the end is seen, what launching costs included.

Covers: drift, power states, work ahead (slots nobody called keep the poison), caches that are warm by accident.
Does not cover: answers kept from the replay before in mode `warm`, which decides nothing; work outside the stream,
    which sealed device code cannot start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from kernelwright.judge import statistics
from kernelwright.judge.baselines import EAGER
from kernelwright.judge.device.baselines import GRAPH_EAGER
from kernelwright.judge.device.conditions import Conditions
from kernelwright.judge.device.executor import Executor, Span
from kernelwright.judge.slots import half
from kernelwright.judge.timing import CANDIDATE, compared, quiet
from kernelwright.types import Comparison, Measurement, Policy, replace

AGAIN = " again"
MOST_CALLS = 512
MANY_SLOTS = 12
BAIT = 4
BLOCK_DEADLINE_S = 20.0
PAUSES_S = (0.0002, 0.002)
SERVER_CALLS = 30
LONG_CALLS, FEWEST_ROUNDS = 2 / 3, 4
WARM_CALLS = 64
WARM_SHARE = 0.4
"""Of the level-2 cache, for the slots of a warm block."""
UNEXPLAINED_US, UNEXPLAINED_SHARE = 1000.0, 0.25
"""What the host's clock may see beyond the events' span: launching, and looking for the end."""


@dataclass
class Samples:
    """What the rounds gave."""

    times_us: dict[str, list[float]] = field(default_factory=dict)
    """Time of a call, for each contender and each round."""
    calls: dict[str, int] = field(default_factory=dict)
    captured: dict[str, bool] = field(default_factory=dict)
    unexplained_us: list[float] = field(default_factory=list)
    """What the host's clock saw of the candidate's blocks beyond what the events explain and what is usual."""
    bait_taken: str = ""
    rounds: int = 0
    fault: str = ""
    """What was wrong with an output of a timed call."""


class Contender(Protocol):
    """What is timed.

    **Covers**: enqueueing one call on each of some slots. **Does not cover**: waiting, and what slots hold.
    """

    name: str
    captured: bool
    estimate_us: float

    def aim(self, slots: tuple[int, ...]) -> None:
        """Chooses the slots of the next launches."""

    def launch(self) -> None:
        """Enqueues one call on each of them."""

    def call(self, slot: int) -> object:
        """Enqueues one call by itself, as an application would."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a round needs besides contenders."""

    executor: Executor
    order: Sequence[int]
    """All slots, in the order in which contenders take them: the same for all rounds of a session, since graphs are
    captured for it."""
    refresh: Callable[[Sequence[int]], None]
    poison: Callable[[Sequence[int]], None]
    holds: Callable[[Sequence[int]], bool]
    """Tells whether slots still hold the poison."""
    hide: Callable[[], None]
    """Makes every answer of a baseline unreadable."""
    watch: Callable[[Sequence[int]], None]
    """Remembers what slots hold, where the candidate's next block will be looked at."""
    inspect: Callable[[Sequence[int]], str | None]
    """Looks at the candidate's outputs on the slots of its last block."""
    conditions: Conditions
    rng: np.random.Generator
    deadline: float = float("inf")
    """No round begins after this `time.monotonic()` moment."""


def calls_for(estimate_us: float, block_us: float, slots: int) -> int:
    """Returns how many calls a block has: about `block_us` of them, each on a slot of its own.

    Where there are many slots, half of them at most, so that there is bait.
    """
    most = min(slots // 2 if slots >= MANY_SLOTS else slots, MOST_CALLS)
    return max(1, min(round(block_us / max(estimate_us, 0.05)), most))


def fitted(policy: Policy, estimate_us: float) -> Policy:
    """Returns the policy, with fewer rounds where one call fills a block: it averages as much as many short ones do."""
    if estimate_us < policy.block_us:
        return policy
    return replace(policy, rounds=min(policy.rounds, max(FEWEST_ROUNDS, round(LONG_CALLS * policy.rounds))))


def run_rounds(policy: Policy, stage: Stage, contenders: Sequence[Contender], candidate: Contender | None) -> Samples:
    """Returns the samples of the policy's rounds in mode `cold`.

    Args:
        policy: how many rounds, how long a block.
        stage: slots, device, checks.
        contenders: the baselines; the quickest to launch has a second place in each round.
        candidate: None to time baselines only.
    """
    entered: list[tuple[str, Contender]] = [(c.name, c) for c in contenders]
    if paired := reference_of([c.name for c in contenders]):
        entered.append((paired + AGAIN, dict(entered)[paired]))
    if candidate:
        entered.append((CANDIDATE, candidate))
    samples = Samples(times_us={name: [] for name, _ in entered})
    order, count, most = list(stage.order), len(stage.order), 1
    for name, contender in entered:
        samples.calls[name] = calls_for(contender.estimate_us, policy.block_us, count)
        samples.captured[name] = contender.captured
        contender.aim(tuple(order[: samples.calls[name]]))
        most = max(most, samples.calls[name])
    called, bait = order[: samples.calls.get(CANDIDATE, 0)], order[most : most + BAIT]
    # Once: whatever writes there in any block, looked at or not, is found at the next look.
    stage.poison(bait)
    while samples.rounds < policy.rounds and time.monotonic() < stage.deadline:
        stage.conditions.read()
        spans = _round(stage, entered, (order[:most], called, bait), samples)
        samples.rounds += 1
        if samples.bait_taken or samples.fault:
            break
        for name, found in spans.items():
            samples.times_us[name].append(sum(s.device_us for s in found) / len(found) / samples.calls[name])
    return samples


def _round(
    stage: Stage,
    entered: Sequence[tuple[str, Contender]],
    slots: tuple[Sequence[int], Sequence[int], Sequence[int]],
    samples: Samples,
) -> dict[str, list[Span]]:
    used, called, bait = slots
    turns = [entered[i] for i in stage.rng.permutation(len(entered)).tolist()]
    spans: dict[str, list[Span]] = {name: [] for name, _ in entered}
    # Looked at after one of the two turns, the candidate does not know which.
    looked = int(stage.rng.integers(0, 2))
    with quiet():
        for turn, (name, contender) in enumerate((*turns, *reversed(turns))):
            if turn in (0, len(turns)):
                stage.refresh(used)
                if looked == (turn >= len(turns)):
                    stage.watch(used)
            if name == CANDIDATE:
                stage.hide()
                stage.poison(half(called, stage.rng))
            stage.executor.flush()
            stage.executor.wait(deadline_s=BLOCK_DEADLINE_S, during="preparing a block")
            span = stage.executor.timed(contender.launch, deadline_s=BLOCK_DEADLINE_S, during=f"a block of {name}")
            spans[name].append(span)
            if name != CANDIDATE:
                continue
            samples.unexplained_us.append(span.wall_us - span.device_us - UNEXPLAINED_SHARE * span.wall_us)
            if looked == (turn >= len(turns)):
                if not stage.holds(bait):
                    samples.bait_taken = "outputs of a call that was never made were written"
                    break
                if fault := stage.inspect(called):
                    samples.fault = fault
                    break
    return spans


def reference_of(names: Sequence[str]) -> str:
    """Returns the baseline that is timed twice: eager's graph, else eager, else the first."""
    return next((name for name in (GRAPH_EAGER, EAGER) if name in names), names[0] if names else "")


# ------------------------------------------------------------------------------ other modes


def run_warm(policy: Policy, stage: Stage, contenders: Sequence[Contender], *, slot_bytes: int) -> Samples:
    """Returns samples of replays whose slots stay in the cache; only contenders that are captured take part."""
    fitting = max(
        1, min(len(stage.order), int(WARM_SHARE * stage.executor.limits.cache_bytes // max(1, slot_bytes)), 8)
    )
    taking = [c for c in contenders if c.captured]
    samples = Samples(times_us={c.name: [] for c in taking}, captured={c.name: True for c in taking})
    for contender in taking:
        calls = max(fitting, min(WARM_CALLS, round(policy.block_us / max(contender.estimate_us, 0.05))))
        samples.calls[contender.name] = calls
        contender.aim(tuple(i % fitting for i in range(calls)))
    for _ in range(warm_rounds(policy)):
        if time.monotonic() > stage.deadline:
            break
        samples.rounds += 1
        for position in stage.rng.permutation(len(taking)).tolist():
            contender = taking[position]
            if contender.name == CANDIDATE:
                stage.hide()
            with quiet():
                for counts in (False, True):
                    span = stage.executor.timed(contender.launch, deadline_s=BLOCK_DEADLINE_S, during="a warm block")
                    if counts:
                        samples.times_us[contender.name].append(span.device_us / samples.calls[contender.name])
    return samples


def run_server(stage: Stage, contenders: Sequence[Contender]) -> Samples:
    """Returns samples of single calls after random pauses, by the host's clock."""
    samples = Samples(times_us={c.name: [] for c in contenders}, calls={c.name: 1 for c in contenders})
    samples.captured = {c.name: False for c in contenders}
    for _ in range(SERVER_CALLS):
        if time.monotonic() > stage.deadline:
            break
        samples.rounds += 1
        slot = int(stage.rng.integers(0, len(stage.order)))
        for position in stage.rng.permutation(len(contenders)).tolist():
            contender = contenders[position]
            if contender.name == CANDIDATE:
                stage.hide()
                stage.refresh([slot])
            stage.executor.wait(deadline_s=BLOCK_DEADLINE_S, during="preparing a call")
            time.sleep(float(stage.rng.uniform(*PAUSES_S)))
            with quiet():
                work = partial(contender.call, slot)
                span = stage.executor.timed(work, deadline_s=BLOCK_DEADLINE_S, during="a single call")
            samples.times_us[contender.name].append(span.wall_us)
    return samples


# ------------------------------------------------------------------------------ results


def measurements(
    samples: Samples, policy: Policy, *, workload: str, mode: str, conditions: tuple[tuple[str, float], ...] = ()
) -> tuple[Measurement, ...]:
    """Returns each contender's median with its interval; two places of one contender count as one."""
    made = []
    for name, times in merged(samples).items():
        if not len(times):
            continue
        median, low, high = statistics.interval_of_median(times, confidence=policy.confidence)
        made.append(
            Measurement(
                contender=name,
                workload=workload,
                mode=mode,
                median_us=median,
                low_us=low,
                high_us=high,
                samples=len(times),
                calls=samples.calls[name],
                method=method_of(policy, mode=mode, captured=samples.captured[name]),
                conditions=conditions,
            )
        )
    return tuple(made)


def comparisons(samples: Samples, policy: Policy) -> tuple[Comparison, ...]:
    """Returns the candidate against each baseline, from ratios within rounds."""
    return compared(merged(samples), policy)


def noise(samples: Samples, policy: Policy) -> float | None:
    """Returns the half-width of the A/A interval round 1, None where nothing was timed twice."""
    for name, second in samples.times_us.items():
        first = samples.times_us.get(name.removesuffix(AGAIN), [])
        if name.endswith(AGAIN) and first and second:
            return statistics.noise_of(first, second, confidence=policy.confidence)
    return None


def unexplained(samples: Samples) -> str | None:
    """Returns how host's clock and events disagree on the candidate's blocks, None when they agree."""
    if not samples.unexplained_us:
        return None
    usual = float(np.median(samples.unexplained_us))
    if usual > UNEXPLAINED_US:
        return f"the host's clock saw {usual:.0f} µs a block more than the events explain"
    return None


def merged(samples: Samples) -> dict[str, statistics.Numbers]:
    """Returns the times by contender; of the one that has two places, both in each row."""
    found: dict[str, statistics.Numbers] = {}
    for name, times in samples.times_us.items():
        if name.endswith(AGAIN):
            first = name.removesuffix(AGAIN)
            if len(times):
                found[first] = np.column_stack((found[first], times))
        else:
            found[name] = np.asarray(times)
    return found


def method_of(policy: Policy, *, mode: str, captured: bool) -> str:
    """Returns the statement of how a time was taken, ready for a report."""
    how = "replayed as one CUDA graph" if captured else "called from Python under inference_mode"
    tail = f"{policy.confidence:.0%} percentile bootstrap over rounds"
    if mode == "server":
        return (
            "host clock round single calls after random pauses of 0.2 to 2 ms, from before the launch until its end is "
            f"seen; median of {SERVER_CALLS}; called as an application would; {tail}"
        )
    memory = (
        "each call on a slot of its own, level-2 cache overwritten before each block (cold); inputs fresh in each round"
        if mode == "cold"
        else "few slots that stay in the level-2 cache (warm)"
    )
    count = policy.rounds if mode == "cold" else warm_rounds(policy)
    return (
        f"CUDA events round a block of about {policy.block_us / 1e3:g} ms, divided by its calls; mirrored blocks in "
        f"random order; median over {count} rounds; {how}; {memory}; {tail}"
    )


def warm_rounds(policy: Policy) -> int:
    """Returns how many rounds mode `warm` has."""
    return max(6, policy.rounds // 3)
