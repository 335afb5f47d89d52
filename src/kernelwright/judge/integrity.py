"""Whether a time belongs to the work: two clocks, a physical floor, and the outputs of timed calls.

Covers: stamps that the judge's own clock contradicts; times below what memory can carry; outputs of
    timed calls that are stale, skipped, half done or done in fewer bits; work done ahead for calls
    that have not been made (the slots of calls never made must keep their poison).
Does not cover: a forged shift of the stamps by less than two empty commands take (about 0.1 ms for each
    block of milliseconds); answers kept for inputs that hold only integers (whole draws come again).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from kernelwright.judge.baselines import using_threads
from kernelwright.judge.correctness import Bound, FloatBound
from kernelwright.judge.magnitudes import exponents, lowest_exponent
from kernelwright.judge.runner import Block

CLOCK_SLACK_NS = 400_000
"""What a command's way to the runner and back may take on a busy machine; 60,000 is usual on two idle cores."""
CLOCK_SHARE = 0.03
MOST_LATENCY_NS = 1_000_000
"""How much of an empty command's usual time is added to the slack at most: more would let disturbed blocks count."""
FLOOR_MARGIN = 2.0
"""A time is refused when it implies more than this multiple of the bandwidth that a plain sum reaches."""
CHUNK_WORDS, CHUNKS = 1 << 17, 48
APART = 1.25
"""Two right answers differ by the candidate's error, which is allowed, and the reference's, a fraction of that."""
COMPARE_ALL = 1 << 18
"""Outputs with up to this many elements are compared whole, larger ones in random runs of elements."""
RUN_ELEMENTS = 1 << 15


def forgery(block: Block) -> str | None:
    """Returns why no clock can have given these stamps, None when one can: no machine is busy enough for that."""
    if not len(block.starts):
        return None
    if block.starts[0] < block.sent or block.ends[-1] > block.received:
        return "stamps lie outside the command they belong to"
    if bool((block.ends < block.starts).any()) or bool((block.starts[1:] < block.ends[:-1]).any()):
        return "stamps run backwards"
    return None


def clock_fault(block: Block, latency_ns: float = 0.0) -> str | None:
    """Returns how the runner's stamps and the judge's clock disagree, None when they agree.

    The calls must lie within the command, follow one another, and leave no more of it unexplained
    than the way there and back takes, which on a busy machine is more: `latency_ns` is its usual time.
    """
    if not len(block.starts):
        return None
    if forged := forgery(block):
        return forged
    elapsed = block.received - block.sent
    explained = int((block.ends - block.starts).sum())
    slack = CLOCK_SLACK_NS + min(latency_ns, MOST_LATENCY_NS)
    if elapsed - explained > slack + CLOCK_SHARE * elapsed:
        return f"the judge's clock saw {elapsed / 1e3:.0f} µs, of which the stamps explain {explained / 1e3:.0f} µs"
    return None


def block_time_us(block: Block, lead: int, latency_ns: float) -> float:
    """Returns the microseconds of one call: what the stamps say, but never less than the judge's clock allows.

    Args:
        block: the calls.
        lead: calls at its start that do not count.
        latency_ns: the usual time of a command without calls; twice that is taken off the judge's clock.
    """
    counted = int((block.ends[lead:] - block.starts[lead:]).sum()) / max(1, len(block.starts) - lead)
    seen = (block.received - block.sent - 2.0 * latency_ns) / len(block.starts)
    return max(counted, seen) / 1e3


def measure_bandwidth(memory: torch.Tensor, *, threads: int) -> float:
    """Returns the most bytes per second that plain sums read from this memory.

    Taken from short runs of one thread, of which some are undisturbed even on a busy machine, times
    the number of threads: more than all threads together reach, which errs on the candidate's side.
    """
    words = memory[: memory.numel() // 8 * 8].view(torch.int64)
    chunks = torch.split(words, CHUNK_WORDS)[:CHUNKS]
    best = float("inf")
    with using_threads(1):
        for chunk in chunks:
            start = time.perf_counter()
            torch.sum(chunk)
            best = min(best, (time.perf_counter() - start) / chunk.numel())
    return threads * 8 / best


class Profile:
    """How far two right answers may lie apart at each magnitude, from draws whose truth is known.

    The quick comparison of timed outputs: against the reference's own answer on the same slot, which
    costs one eager call instead of a float64 evaluation. What it doubts is settled with a real bound.
    """

    def __init__(self, bounds: Sequence[FloatBound]) -> None:
        self._dtype = bounds[0].dtype
        self._lowest = lowest_exponent(self._dtype)
        # A bound's table covers every magnitude. Inputs of timed rounds are scaled, so that neighbours count.
        table = torch.stack([bound.table for bound in bounds]).amax(0)
        padded = torch.nn.functional.pad(table, (1, 1))
        self._table = torch.maximum(table, torch.maximum(padded[:-2], padded[2:]))
        self.allowed, self.lowest = APART * self._table, self._lowest
        """How far apart by binade of the reference's own answer, and the lowest binade's exponent."""

    def agrees(self, output: torch.Tensor, own: torch.Tensor) -> bool:
        """Tells whether two answers are as near as two right answers are; False means doubt."""
        if torch.equal(output, own):
            return True
        ours, theirs = output.double(), own.double()
        allowed = self._table[exponents(theirs.nan_to_num(0.0, 0.0, 0.0), self._dtype) - self._lowest]
        near = (ours - theirs).abs() <= APART * allowed
        return bool(near.all()) or bool((near | (ours == theirs) | (ours.isnan() & theirs.isnan())).all())


def profiles_of(draws: Sequence[Sequence[Bound]]) -> tuple[Profile | None, ...]:
    """Returns a profile for each output, None for outputs that must be equal."""
    made: list[Profile | None] = []
    for bounds in zip(*draws, strict=True):
        floats = [b for b in bounds if isinstance(b, FloatBound)]
        made.append(Profile(floats) if floats else None)
    return tuple(made)


def sampled(
    outputs: Sequence[torch.Tensor], rng: np.random.Generator, *, most: int = COMPARE_ALL
) -> tuple[torch.Tensor, ...]:
    """Returns the same elements of several answers to one question: all, or random runs the kernel cannot know."""
    flat = [output.reshape(-1) for output in outputs]
    run = most * RUN_ELEMENTS // COMPARE_ALL
    if len(flat[0]) <= most:
        return tuple(flat)
    starts = rng.integers(0, len(flat[0]) - run, most // run).tolist()
    return tuple(torch.cat([each[start : start + run] for start in starts]) for each in flat)


def doubtful(
    outputs: Sequence[torch.Tensor],
    own: Sequence[torch.Tensor],
    profiles: Sequence[Profile | None],
    rng: np.random.Generator,
    *,
    most: int = COMPARE_ALL,
) -> bool:
    """Tells whether timed outputs differ from the reference's own by more than two right answers would."""
    for output, theirs, profile in zip(outputs, own, profiles, strict=True):
        a, b = sampled((output, theirs), rng, most=most)
        if profile is None:
            if not torch.equal(a, b):
                return True
        elif not profile.agrees(a, b):
            return True
    return False
