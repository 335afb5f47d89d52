from __future__ import annotations

import math
import statistics

import pytest

from benchmarks import landscapes
from kernelwright.types import Candidate


def test_a_world_keeps_what_was_recorded_and_comes_out_the_same_again() -> None:
    one = landscapes.recorded()["swiglu"]
    first, same, other = (landscapes.World(one, seed) for seed in (3, 3, 4))
    assert all(first.log(name, point) == log for (name, point), log in one.logs.items())
    (template,) = one.templates
    unknown = [p for p in landscapes.every_point(template) if (template.name, p) not in one.logs][:50]
    assert [first.log(template.name, p) for p in unknown] == [same.log(template.name, p) for p in reversed(unknown)][
        ::-1
    ]
    assert [first.log(template.name, p) for p in unknown] != [other.log(template.name, p) for p in unknown]
    assert first.best() <= max(one.logs.values()) + 5.0 * landscapes.ROOF


def test_a_measurement_is_nearer_to_the_truth_than_a_quick_look() -> None:
    world = landscapes.World(landscapes.recorded()["coupled"], 0)
    (template,) = world.one.templates
    off: dict[str, list[float]] = {"screen": [], "measure": []}
    for point in list(landscapes.every_point(template))[::6]:
        candidate = template.emit(point)
        assert isinstance(candidate, Candidate)
        for effort, errors in off.items():
            errors.append(world.look(candidate, effort) - world.log(template.name, point))
    ratio = statistics.pstdev(off["measure"]) / statistics.pstdev(off["screen"])
    assert ratio == pytest.approx(math.sqrt(6 / 20), rel=0.25)


def test_the_tuner_is_ahead_of_random_search_and_of_looking_near_the_best_only() -> None:
    families = landscapes.groups()["held out: worlds of problems on which nothing was chosen"]
    share = {
        name: statistics.fmean(landscapes.trial(family, name, 16, seed) for family in families for seed in range(3))
        for name in ("random", "tune")
    }
    assert share["tune"] > share["random"] + 0.05
    # One that takes the neighbours of the best in order, without a model, comes to 0.954 here; this one to 0.983.
    assert 0.97 < share["tune"] <= 1.0


def test_the_page_is_that_of_the_kept_trials() -> None:
    assert landscapes.PAGE.read_text() == landscapes.page()
