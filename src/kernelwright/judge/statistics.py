"""Medians, ratios and their bootstrap intervals; pure functions of numbers.

Method: the percentile bootstrap of the median over rounds (Efron & Tibshirani 1993, ch. 13), with
rounds as the unit that is drawn again, because calls within one block share the machine's state. A contender that
has several turns in a round has as many values there, all of which count: their mean would be larger than a typical
value where noise is skewed, and whoever has one turn would look faster beside it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 2000
SEED = 20240229
"""Fixed: the same samples always give the same interval."""

Numbers = NDArray[np.float64]


def interval_of_median(samples: ArrayLike, *, confidence: float) -> tuple[float, float, float]:
    """Returns (median, low, high) of the samples, the limits at `confidence`.

    Args:
        samples: one value for each round, or a row of values.
        confidence: how likely the limits shall hold the true median.

    Raises:
        ValueError: without samples.
    """
    values = np.asarray(samples, dtype=np.float64)
    if not values.size:
        raise ValueError("a median needs at least one sample")
    rng, count = np.random.default_rng(SEED), len(values)
    medians = np.median(values[rng.integers(0, count, (RESAMPLES, count))].reshape(RESAMPLES, -1), axis=1)
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(medians, (tail, 1.0 - tail))
    return float(np.median(values)), float(low), float(high)


def interval_of_ratio(numerator: ArrayLike, denominator: ArrayLike, *, confidence: float) -> tuple[float, float, float]:
    """Returns (median, low, high) of the ratios of each round.

    Args:
        numerator: one value for each round, or a row of values.
        denominator: one value for each round.
        confidence: as for `interval_of_median`.
    """
    top, bottom = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    if len(top) != len(bottom):
        raise ValueError("ratios need one value of each for every round")
    return interval_of_median(top / bottom.reshape(-1, *[1] * (top.ndim - 1)), confidence=confidence)


def noise_of(first: ArrayLike, second: ArrayLike, *, confidence: float) -> float:
    """Returns how far from 1 the interval of the ratio of a contender to itself reaches."""
    _, low, high = interval_of_ratio(first, second, confidence=confidence)
    return max(abs(low - 1.0), abs(high - 1.0))
