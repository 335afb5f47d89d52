from __future__ import annotations

from kernelwright.search import Strategy
from kernelwright.search.tune import Tune
from kernelwright.testing.strategies import WIDE, Drive, StrategySuite, make_template, numbers, separable
from kernelwright.types import Template


class TestTune(StrategySuite):
    evaluations = 96

    def make(self, templates: tuple[Template, ...], seed: int) -> Strategy:
        return Tune(templates, seed=seed, limit=96)


def test_the_limit_is_kept() -> None:
    for limit in (1, 7, 30):
        drive = Drive(Tune((make_template("rows", *WIDE),), seed=0, limit=limit), separable).run()
        assert len(drive.asked) == limit


def test_a_larger_limit_begins_with_the_sample_of_a_smaller_one() -> None:
    small, large = (Drive(Tune((make_template("rows", *WIDE),), seed=0, limit=n), separable).run() for n in (30, 90))
    screened = [key for key in small.asked if key[1] == "screen"][:12]
    assert screened == large.asked[:12]


def test_a_small_space_is_searched_whole() -> None:
    template = make_template("rows", ("tile", (1, 2, 3)), ("unroll", (1, 2)))
    drive = Drive(Tune((template,), seed=0), lambda _, point: 10.0 * numbers(point)["tile"]).run()
    assert len({key for key in drive.asked if key[1] == "screen"}) == 6
