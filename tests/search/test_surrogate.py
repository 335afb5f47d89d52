from __future__ import annotations

import math

import numpy as np
import pytest

from kernelwright.search.field import Field, Place, changed
from kernelwright.search.surrogate import OWN, REACH, SHARED, Surrogate, spread_of
from kernelwright.testing.strategies import make_template

SPREAD, NOISE = 0.3, 0.05


def places() -> tuple[Field, list[Place]]:
    field = Field((make_template("rows", ("tile", (8, 32, 16)), ("kind", (False, True))), make_template("tiles")))
    return field, [*field.everywhere(0), *field.everywhere(1)]


def covariance(one: Place, other: Place) -> float:
    """Returns the covariance as the module's docstring has it, computed another way."""
    if one.template != other.template:
        return SPREAD**2 * SHARED
    ranks = {8: 0, 16: 1, 32: 2}
    steps = 0
    if one.template == 0:
        steps = abs(ranks[int(one.choice("tile") or 0)] - ranks[int(other.choice("tile") or 0)])
        steps += 2 * (one.choice("kind") != other.choice("kind"))
    return SPREAD**2 * (SHARED + OWN + math.exp(-steps / REACH))


def test_means_and_order_are_those_of_the_dense_solution() -> None:
    field, pool = places()
    model = Surrogate(field, pool, spread=SPREAD, prior=lambda place: -0.1 * place.template)
    told = [(pool[0], 0.2), (pool[3], -0.4), (pool[6], 0.1), (pool[0], 0.3)]
    for place, value in told:
        model.observe(place, value, noise=NOISE)
    k = np.array([[covariance(a, b) for b, _ in told] for a, _ in told]) + NOISE**2 * np.eye(len(told))
    y = np.array([value + 0.1 * place.template for place, value in told])
    for place in pool:
        own = np.array([covariance(place, other) for other, _ in told])
        expected = float(own @ np.linalg.solve(k, y)) - 0.1 * place.template
        variance = covariance(place, place) - float(own @ np.linalg.solve(k, own))
        assert model.believed(place) == pytest.approx((expected, math.sqrt(variance)), abs=1e-9)
    assert model.fastest()[0] == pool[0]


def test_what_is_as_expected_moves_no_mean_and_a_failed_place_is_never_the_fastest() -> None:
    field, pool = places()
    model = Surrogate(field, pool, spread=SPREAD)
    model.observe(pool[0], 0.5, noise=NOISE)
    before = [model.believed(place) for place in pool]
    model.observe(pool[4], None, noise=NOISE)
    after = [model.believed(place) for place in pool]
    assert [mean for mean, _ in after] == [mean for mean, _ in before]
    assert all(late < early for (_, late), (_, early) in zip(after, before, strict=True))
    model.observe(changed(pool[0], "kind", True), 9.0, noise=NOISE, passed=False)
    assert model.fastest() == [pool[0]]
    assert model.best_bet(set(pool)) is None


def test_a_spread_stays_within_what_is_sensible() -> None:
    assert spread_of([]) == spread_of([1.0]) == spread_of([1.0, 1.0]) == 0.15
    assert spread_of([0.0, 100.0]) == 0.7
    assert spread_of([0.0, 0.4]) == pytest.approx(0.4 / math.sqrt(2.0))
