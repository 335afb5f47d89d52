from __future__ import annotations

import numpy as np
import pytest

from kernelwright.judge.statistics import interval_of_median, interval_of_ratio, noise_of


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


def test_samples_are_needed_and_must_pair() -> None:
    with pytest.raises(ValueError, match="at least one"):
        interval_of_median([], confidence=0.95)
    with pytest.raises(ValueError, match="every round"):
        interval_of_ratio([1.0, 2.0], [1.0], confidence=0.95)
