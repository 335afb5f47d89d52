from __future__ import annotations

import pytest

from kernelwright.errors import KernelwrightError
from kernelwright.search import Chain, Strategy
from kernelwright.search.evolve import Evolve
from kernelwright.search.speed import speed
from kernelwright.search.tune import Tune
from kernelwright.testing.strategies import WIDE, Drive, StrategySuite, coupled, fake_record, make_template
from kernelwright.types import Candidate, Check, Judgement, Template, Verdict, replace


def chain(templates: tuple[Template, ...], seed: int, limit: int = 64) -> Chain:
    tune = Tune(templates, seed=seed, limit=limit)
    return Chain(tune, lambda told: Evolve(templates, seed=seed, told=told), name="tune then evolve")


class TestChain(StrategySuite):
    evaluations = 130

    def make(self, templates: tuple[Template, ...], seed: int) -> Strategy:
        return chain(templates, seed)


def test_a_chain_gives_the_second_strategy_what_the_first_was_told() -> None:
    drive = Drive(chain((make_template("rows", *WIDE),), seed=0), coupled, noise=0.02).run()
    authors = [c.author for c in drive.candidates]
    assert set(authors) == {"tune", "evolve"}
    assert authors == sorted(authors, reverse=True)
    tuned = {key for key, c in zip(drive.asked, drive.candidates, strict=True) if c.author == "tune"}
    children = [c for c in drive.candidates if c.author == "evolve" and c.parents]
    assert any(parent == key for c in children for parent in c.parents for key, _ in tuned)


def test_telling_what_was_not_asked_for_is_refused() -> None:
    template = make_template("rows", *WIDE)
    strategy = Tune((template,), seed=0)
    (proposal,) = strategy.ask()
    with pytest.raises(KernelwrightError, match="did not ask"):
        strategy.tell(((replace(proposal, effort="measure"), fake_record(proposal.candidate, "measure", 1.0)),))
    other = template.emit((*template.space.default()[:-1], ("rows", 8)))
    assert isinstance(other, Candidate)
    with pytest.raises(KernelwrightError, match="did not ask"):
        strategy.tell(((proposal, fake_record(other, "screen", 1.0)),))


def test_speed_without_eager_is_the_candidates_own_and_absent_for_a_wrong_kernel() -> None:
    template = make_template("rows", *WIDE)
    candidate = template.emit(template.space.default())
    assert isinstance(candidate, Candidate)
    record = fake_record(candidate, "screen", 50.0)
    assert isinstance(record.outcome, Judgement)
    alone = replace(record, outcome=replace(record.outcome, comparisons=()))
    assert speed(alone) == pytest.approx(1 / 50.0)
    wrong = Verdict(checks=(Check(name="accuracy", passed=False, evidence="3 of 4 groups over the bound"),))
    assert speed(replace(record, outcome=replace(record.outcome, verdict=wrong))) is None
