"""Factors of a gain: they multiply to the speedup against eager, and nobody's merit is counted twice."""

from __future__ import annotations

from math import prod

import pytest
from tests.report.test_report import POLICY, PROBLEM, TARGET, candidate, passed

from kernelwright.report.gains import gain_text, gains
from kernelwright.run.result import Result, Row
from kernelwright.types import Candidate, Comparison, Judgement, Record, replace


def judged(item: Candidate, eager: float, graph: float) -> Record:
    made = passed(item, (eager, eager, eager), (1.0, 1.0, 1.0))
    assert isinstance(made.outcome, Judgement)
    more = Comparison(baseline="graph:eager", speedup=graph, low=graph, high=graph)
    return replace(made, outcome=replace(made.outcome, comparisons=(*made.outcome.comparisons, more)))


def result(*found: tuple[Candidate, float, float]) -> Result:
    """The first is the winner."""
    rows = tuple(Row(candidate=c, records=(("report", judged(c, eager, graph)),)) for c, eager, graph in found)
    return Result(
        problem=PROBLEM, target=TARGET, policy=POLICY, seed=7, answer="kernel", why="it wins", best=found[0][0],
        report=rows[0].latest, baseline="eager", rows=rows, baselines=(), refusals=(), counts=(), judged=3, found=0,
        stopped="budget", seconds=1.0, notes=(),
    )  # fmt: skip


PLAIN = candidate("int a;")
REWRITTEN = replace(candidate("int bb;"), rewrites=("sum of a product",))
ROUGH = replace(candidate("int ccc;"), rewrites=("sum of a product",), point=(("multiply", "three"),))


def test_each_factor_is_told_apart() -> None:
    made = gains(result((ROUGH, 24.0, 12.0), (REWRITTEN, 16.0, 8.0), (PLAIN, 6.0, 3.0)))
    found = {gain.name: gain.factor for gain in made}
    # The winner is four times as fast as the program as it was written, of which its roughness is 1.5.
    assert found["launch"] == pytest.approx(2.0)
    assert found["precision"] == pytest.approx(1.5)
    assert found["rewrite"] == pytest.approx(8.0 / 3.0)
    assert found["kernel"] == pytest.approx(3.0)
    assert prod(factor for factor in found.values() if factor) == pytest.approx(24.0)
    assert "rewrite 2.67x" in gain_text(made)


def test_what_nobody_measured_is_not_told_apart() -> None:
    made = gains(result((REWRITTEN, 8.0, 4.0)))
    assert {gain.name: gain.factor for gain in made} == {"launch": 2.0, "rewrite": None, "kernel": 4.0}
    assert "rewrite not told apart" in gain_text(made)


def test_without_a_winner_there_is_nothing_to_tell() -> None:
    assert gains(replace(result((PLAIN, 2.0, 2.0)), best=None)) == ()
    assert gain_text(gains(replace(result((PLAIN, 2.0, 2.0)), report=None))) == ""
