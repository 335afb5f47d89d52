"""What points that nobody judged may be worth: a Gaussian process on the logarithms of speeds, over all templates.

After Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), chapter 2, and, for what is worth
judging next, the expected improvement of Jones, Schonlau and Welch (1998). Unlike there the covariance has nothing to
be fitted: it falls with the number of steps between two points, and the spread of the speeds sets its scale.
Not here: which points are looked at, and when something is measured (tune.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from operator import mul

from kernelwright.search.field import Field, Place
from kernelwright.types import Parameter

REACH = 3.0
"""Steps over which two points of a template lose most of what they have in common."""
SHARED, OWN = 1.0, 0.6
"""Variance, as parts of the speeds' own, that all templates have in common and that each has of its own."""
NOISE = 0.05
"""Standard deviation of a screened log speed; what a measured one has is less by the square root of the rounds."""
LEAST_SPREAD, MOST_SPREAD = 0.15, 0.7
"""Of log speeds: few points may be alike by chance, and failures apart from all others."""


class Surrogate:
    """Means and variances of places, taken in one observation at a time.

    Args:
        field: whose places they are.
        pool: places to be told about, without repeats.
        spread: standard deviation of log speeds inside a template.
        prior: log speeds that places are believed to have, up to a constant, before anything was judged.
    """

    def __init__(
        self, field: Field, pool: Sequence[Place], *, spread: float, prior: Callable[[Place], float] = lambda _: 0.0
    ) -> None:
        self._codes = _Codes(field)
        self._pool = {place: index for index, place in enumerate(pool)}
        self._marks = [self._codes.mark(place) for place in pool]
        self._scale = spread * spread
        self._means = [prior(place) for place in pool]
        self._variances = [self._scale * (SHARED + OWN + 1.0)] * len(pool)
        self._rows: list[list[float]] = [[] for _ in pool]
        self._judged: dict[Place, bool] = {}

    def observe(self, place: Place, value: float | None, *, noise: float, passed: bool = True) -> None:
        """Takes in a log speed at one place of the pool; None stands for what is expected there anyhow."""
        index = self._pool[place]
        root = math.sqrt(self._variances[index] + noise * noise)
        surprise = 0.0 if value is None else (value - self._means[index]) / root
        if value is not None:
            self._judged[place] = passed
        template, bits = self._marks[index]
        row, table, scale, means, variances = (
            self._rows[index][:],
            self._codes.table,
            self._scale,
            self._means,
            self._variances,
        )
        for other, (theirs, code) in enumerate(self._marks):
            own = self._rows[other]
            common = SHARED + OWN + table[(bits ^ code).bit_count()] if theirs == template else SHARED
            gain = (scale * common - sum(map(mul, row, own))) / root
            own.append(gain)
            means[other] += gain * surprise
            variances[other] -= gain * gain

    def believed(self, place: Place) -> tuple[float, float]:
        """Returns the mean log speed of a place of the pool, and the standard deviation."""
        index = self._pool[place]
        return self._means[index], math.sqrt(max(self._variances[index], 0.0))

    def fastest(self) -> list[Place]:
        """Returns the places that passed, the one that is expected to be fastest first."""
        return sorted((p for p, passed in self._judged.items() if passed), key=lambda p: -self._means[self._pool[p]])

    def best_bet(self, without: Container[Place]) -> Place | None:
        """Returns the place that was not judged and is expected to exceed the best by most, None when none is left."""
        best = max((self._means[self._pool[p]] for p, passed in self._judged.items() if passed), default=0.0)
        left = (p for p in self._pool if p not in self._judged and p not in without)
        return max(left, key=lambda p: self._improvement(self._pool[p], best), default=None)

    def _improvement(self, index: int, best: float) -> float:
        deviation = math.sqrt(max(self._variances[index], 1e-12))  # rounding may leave less than nothing
        z = (self._means[index] - best) / deviation
        return deviation * (
            z * 0.5 * math.erfc(-z / math.sqrt(2.0)) + math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
        )


class _Codes:
    """Places as numbers whose differing bits count the steps between them."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self._bits: list[list[dict[object, int]]] = []
        most = 0
        for template in field.templates:
            codes, shift = [], 0
            for parameter in template.space.parameters:
                code, width = _thermometer(parameter)
                codes.append({key: bits << shift for key, bits in code.items()})
                shift += width
            self._bits.append(codes)
            most = max(most, shift)
        self.table = [math.exp(-steps / REACH) for steps in range(most + 1)]

    def mark(self, place: Place) -> tuple[int, int]:
        codes = self._bits[place.template]
        return place.template, sum(code[type(c), c] for code, (_, c) in zip(codes, place.point, strict=True))


def _thermometer(parameter: Parameter) -> tuple[dict[object, int], int]:
    """Returns a code for each value: numbers by their order, so that near ones differ in few bits; names all alike."""
    values = parameter.values
    keys = [(type(v), v) for v in values]
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        order = sorted(range(len(values)), key=lambda i: float(values[i]))
        return {keys[i]: (1 << rank) - 1 for rank, i in enumerate(order)}, len(values) - 1
    return {key: 1 << i for i, key in enumerate(keys)}, len(values)


def spread_of(logs: Iterable[float]) -> float:
    """Returns the standard deviation of log speeds, within what is sensible."""
    some = list(logs)
    mean = sum(some) / len(some) if some else 0.0
    found = math.sqrt(sum((y - mean) ** 2 for y in some) / (len(some) - 1)) if len(some) > 1 else 0.0
    return min(MOST_SPREAD, max(LEAST_SPREAD, found))
