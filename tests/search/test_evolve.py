from __future__ import annotations

from kernelwright.search import Results, Strategy
from kernelwright.search.evolve import Evolve
from kernelwright.testing.strategies import WIDE, Drive, StrategySuite, coupled, make_template, numbers, separable
from kernelwright.types import Template, digest


class TestEvolve(StrategySuite):
    evaluations = 200

    def make(self, templates: tuple[Template, ...], seed: int) -> Strategy:
        return Evolve(templates, seed=seed, patience=8)


def told_by(drive: Drive) -> Results:
    told: Results = ()
    strategy = drive.strategy
    while batch := strategy.ask():
        results = tuple((p, drive.record(p)) for p in batch)
        strategy.tell(results)
        told += results
    return told


def test_what_it_starts_from_is_not_asked_for_again() -> None:
    template = make_template("rows", *WIDE)
    told = told_by(Drive(Evolve((template,), seed=0), coupled))
    second = Drive(Evolve((template,), seed=0, told=told), coupled).run()
    before = {(digest(p.candidate), p.effort) for p, _ in told}
    assert second.asked
    assert not before & set(second.asked)


def test_it_goes_on_until_a_small_space_is_exhausted() -> None:
    template = make_template("rows", ("tile", (1, 2, 3, 4)), ("unroll", (1, 2)), ("rows", (1, 2)))
    drive = Drive(Evolve((template,), seed=0, patience=50), lambda _, point: 10.0 * numbers(point)["tile"]).run()
    assert len({key for key in drive.asked if key[1] == "screen"}) == template.space.size()


def test_children_of_two_parents_mix_them() -> None:
    drive = Drive(Evolve((make_template("rows", *WIDE),), seed=0, patience=20), separable).run()
    by_digest = {digest(c): c for c in drive.candidates}
    crossed = [c for c in drive.candidates if len(c.parents) == 2]
    assert crossed
    for child in crossed:
        parents = [dict(by_digest[key].point) for key in child.parents]
        inherited = sum(any(p[name] == chosen for p in parents) for name, chosen in child.point)
        assert inherited >= len(child.point) - 4
