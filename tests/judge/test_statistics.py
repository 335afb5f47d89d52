from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.judge.kernel_files import QUICK

from kernelwright.judge.baselines import EAGER
from kernelwright.judge.statistics import Numbers, interval_of_median, interval_of_ratio, noise_of
from kernelwright.judge.timing import AGAIN, CANDIDATE, Samples, comparisons
from kernelwright.judge.timing import noise as noise_in
from kernelwright.run.result import standing
from kernelwright.types import Comparison


def test_interval_of_identical_samples_is_a_point() -> None:
    assert interval_of_median([3.0] * 9, confidence=0.95) == (3.0, 3.0, 3.0)


def test_interval_is_repeatable_and_holds_the_median() -> None:
    samples = np.random.default_rng(1).normal(100, 5, 30)
    first = interval_of_median(samples, confidence=0.95)
    assert first == interval_of_median(samples, confidence=0.95)
    assert first[1] < first[0] < first[2]
    assert interval_of_median(samples, confidence=0.5)[2] - first[0] < first[2] - first[0]


def test_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(200):
        _, low, high = interval_of_median(rng.normal(10, 1, 25), confidence=0.95)
        hits += low <= 10 <= high
    assert 175 <= hits <= 200


def test_ratio_is_taken_within_rounds_so_that_a_common_drift_cancels() -> None:
    rng = np.random.default_rng(3)
    drift = np.linspace(1, 3, 20)
    ours = 50 * drift * rng.normal(1, 0.01, 20)
    theirs = 100 * drift * rng.normal(1, 0.01, 20)
    ratio, low, high = interval_of_ratio(theirs, ours, confidence=0.95)
    assert ratio == pytest.approx(2, rel=0.02)
    assert high - low < 0.1


def test_two_copies_tie_and_a_known_delay_shows() -> None:
    rng = np.random.default_rng(4)
    first, second = (100 * rng.normal(1, 0.03, 32) for _ in range(2))
    _, low, high = interval_of_ratio(first, second, confidence=0.95)
    assert low < 1 < high
    assert noise_of(first, second, confidence=0.95) < 0.05
    ratio, low, high = interval_of_ratio(first, second + 20, confidence=0.95)
    assert ratio == pytest.approx(100 / 120, rel=0.03)
    assert high < 1


def test_a_single_disturbed_round_does_not_move_the_median() -> None:
    samples = [100.0] * 9 + [5000.0]
    median, _, high = interval_of_median(samples, confidence=0.95)
    assert median == 100.0
    assert high < 5000.0


NOISES: dict[str, Callable[[np.random.Generator, int], Numbers]] = {
    "small": lambda rng, n: np.exp(0.02 * rng.normal(size=n)),
    "large": lambda rng, n: np.exp(0.5 * rng.normal(size=n)),
    "very large": lambda rng, n: np.exp(rng.normal(size=n)),
    "spikes": lambda rng, n: 1 + (rng.random(n) < 0.4) * rng.exponential(4, n),
    "two speeds": lambda rng, n: np.where(rng.random(n) < 0.5, 1.0, 4.0),
    "slow half": lambda rng, n: np.where(np.arange(n) < n // 2, 1.0, 5.0) * np.exp(0.1 * rng.normal(size=n)),
}
"""Factors on times, as busy machines give them."""


def simulated(noise: str, rounds: int, speedup: float, seed: int) -> tuple[Comparison, float]:
    """A candidate beside eager's two turns, each with a noise of its own."""
    rng = np.random.default_rng(seed)
    ours, first, second = (100 * NOISES[noise](rng, rounds) for _ in range(3))
    found = Samples({CANDIDATE: list(ours / speedup), EAGER: list(first), AGAIN: list(second)})
    measured = noise_in(found, QUICK)
    assert measured is not None
    return comparisons(found, QUICK)[0], measured


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rounds", [6, 20, 32])
def test_half_the_speed_is_never_called_a_tie_or_faster(noise: str, rounds: int) -> None:
    found = {standing(*simulated(noise, rounds, 0.5, seed)) for seed in range(40)}
    assert found <= {"slower", "undecided"}
    assert noise != "small" or found == {"slower"}


@pytest.mark.parametrize("noise", NOISES)
def test_equals_are_hardly_ever_called_different(noise: str) -> None:
    found = [standing(*simulated(noise, 20, 1.0, seed)) for seed in range(100)]
    assert found.count("faster") + found.count("slower") <= 2
    assert noise != "small" or found.count("tie") == 100


@pytest.mark.parametrize("noise", NOISES)
def test_noise_does_not_favour_whoever_has_one_turn(noise: str) -> None:
    against, _ = simulated(noise, 4000, 1.0, 1)
    assert against.speedup == pytest.approx(1.0, abs=0.05)


def test_samples_are_needed_and_must_pair() -> None:
    with pytest.raises(ValueError, match="at least one"):
        interval_of_median([], confidence=0.95)
    with pytest.raises(ValueError, match="every round"):
        interval_of_ratio([1.0, 2.0], [1.0], confidence=0.95)
