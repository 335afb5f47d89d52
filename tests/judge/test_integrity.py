from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from kernelwright.judge.correctness import FloatBound
from kernelwright.judge.integrity import (
    COMPARE_ALL,
    Profile,
    block_time_us,
    clock_fault,
    doubtful,
    forgery,
    measure_bandwidth,
    profiles_of,
    sampled,
)
from kernelwright.judge.runner import Block
from kernelwright.types import ToleranceRule

US = 1000
MS = 1000 * US


def block(calls: int = 10, each: int = 200 * US, gap: int = 100, way: int = 50 * US, shift: int = 0) -> Block:
    """A block as an honest runner stamps it; `shift` moves every start, as a forger would."""
    starts = np.arange(calls, dtype=np.int64) * (each + gap) + 10**12
    ends = starts + each
    return Block(starts + shift, ends, int(starts[0]) - way, int(ends[-1]) + way)


def test_honest_stamps_agree_with_the_judges_clock() -> None:
    assert clock_fault(block()) is None
    assert clock_fault(block(calls=1000, each=3 * US, gap=60)) is None
    empty = np.empty(0, dtype=np.int64)
    assert clock_fault(Block(empty, empty, 0, 10)) is None


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        (block(shift=100 * US), "explain"),
        (block(shift=250 * US), "backwards"),
        (block(way=1 * MS), "explain"),
        (Block(np.array([0]), np.array([10]), 5, 20), "outside"),
        (Block(np.array([6]), np.array([30]), 5, 20), "outside"),
        (Block(np.array([6, 7]), np.array([9, 10]), 5, 20), "backwards"),
    ],
)
def test_forged_stamps_do_not(forged: Block, words: str) -> None:
    assert words in (clock_fault(forged) or "")


def test_only_stamps_that_no_clock_gives_are_forgeries() -> None:
    assert forgery(block()) is None
    assert forgery(block(way=20 * MS)) is None
    assert "backwards" in (forgery(block(shift=250 * US)) or "")
    assert "outside" in (forgery(Block(np.array([0]), np.array([10]), 5, 20)) or "")


def test_a_slow_way_there_and_back_widens_the_slack_a_little() -> None:
    assert clock_fault(block(way=400 * US)) is not None
    assert clock_fault(block(way=400 * US), latency_ns=800 * US) is None
    assert clock_fault(block(way=10 * MS), latency_ns=20 * MS) is not None


def test_what_passes_the_clock_check_still_gains_nothing() -> None:
    honest = block(calls=20)
    assert block_time_us(honest, 0, 50 * US) == pytest.approx(200, rel=0.01)
    small_shift = block(calls=20, shift=15 * US)
    assert clock_fault(small_shift) is None
    assert block_time_us(small_shift, 0, 50 * US) >= 199


def test_lead_calls_do_not_count() -> None:
    starts = np.array([0, 1000, 1100], dtype=np.int64) * US
    ends = np.array([900, 1050, 1150], dtype=np.int64) * US
    assert block_time_us(Block(starts, ends, -10 * US, 1160 * US), 1, 1000 * MS) == 50


def _softmax_bound(x: torch.Tensor) -> FloatBound:
    return FloatBound(
        "out", truth=torch.softmax(x.double(), -1), own=torch.softmax(x, -1), nearby=[], rule=ToleranceRule(), terms=256
    )


def test_profile_accepts_right_answers_on_scaled_inputs_and_doubts_coarse_ones() -> None:
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(3))
    profile = Profile([_softmax_bound(x)])
    for factor in (0.8, 1.0, 1.25):
        own = torch.softmax(factor * x, -1)
        assert profile.agrees(torch.softmax((factor * x).double(), -1).float(), own)
        assert profile.agrees(own * (1 + 2.0**-22), own)
        assert not profile.agrees(own.bfloat16().float(), own)
        assert not profile.agrees(torch.softmax(x.flip(0), -1), own)
    own = torch.softmax(x, -1)
    spoiled = own.clone()
    spoiled[3, 4] = math.nan
    assert not profile.agrees(spoiled, own)
    assert profile.agrees(spoiled, spoiled)


def test_integers_are_compared_exactly_and_floats_by_profile() -> None:
    rng = np.random.default_rng(0)
    assert profiles_of([[]]) == ()
    a = torch.arange(10)
    assert not doubtful([a], [a.clone()], [None], rng)
    assert doubtful([a], [a.flip(0)], [None], rng)


def test_large_outputs_are_sampled_in_runs_that_move() -> None:
    rng = np.random.default_rng(0)
    large = torch.arange(10 * COMPARE_ALL)
    (first,), (second,) = sampled((large,), rng), sampled((large,), rng)
    assert len(first) == COMPARE_ALL
    assert int(first.max()) < large.numel()
    assert not torch.equal(first, second)
    again, other = sampled((torch.arange(10 * COMPARE_ALL), torch.arange(10 * COMPARE_ALL)), rng)
    assert torch.equal(again, other)
    assert len(set(again.tolist())) > COMPARE_ALL // 2
    assert torch.equal(*sampled((torch.arange(7), torch.arange(7)), rng))


def test_bandwidth_is_of_a_possible_size() -> None:
    found = measure_bandwidth(torch.zeros(1 << 22, dtype=torch.uint8), threads=2)
    assert 1e8 < found < 1e13
