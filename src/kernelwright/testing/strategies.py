"""Fake templates, records and judges with known answers, and the tests that every strategy must pass.

A strategy's test file subclasses `StrategySuite` and says how its strategy is made.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from kernelwright.judge.policies import SCREEN
from kernelwright.search import Results, Strategy
from kernelwright.search.speed import speed
from kernelwright.types import (
    Candidate,
    Check,
    Comparison,
    Failure,
    Judgement,
    LaunchPlan,
    Measurement,
    Parameter,
    Point,
    Policy,
    Proposal,
    Record,
    SourceFile,
    Space,
    Step,
    Template,
    Verdict,
    digest,
)

EAGER_US = 1000.0
Landscape = Callable[[str, Point], float | None]
"""Template name and point to the candidate's time in µs; None: the candidate fails."""


def make_template(name: str, *parameters: tuple[str, tuple[int, ...]], ignored: str = "", broken: str = "") -> Template:
    """Returns a template whose sources are its point.

    Args:
        name: of the template and of its kernel file's first line.
        parameters: (name, values).
        ignored: a parameter that does not change the sources.
        broken: a parameter whose last value cannot be emitted.
    """
    space = Space(parameters=tuple(Parameter(name=n, values=v) for n, v in parameters))
    last = dict(parameters)[broken][-1] if broken else None

    def emit(point: Point) -> Candidate | Failure:
        if broken and dict(point)[broken] == last:
            return Failure(stage="emit", kind="shape", message=f"{broken} does not divide the row")
        kept = tuple((n, v) for n, v in point if n != ignored)
        text = "\n".join([f"// {name}", *(f"// {n} = {v}" for n, v in kept)])
        plan = LaunchPlan(steps=(Step(symbol="kw", arguments=()),))
        source = SourceFile(path="kernel.cpp", text=text)
        return Candidate(problem="k1:problem", language="cpp", sources=(source,), plan=plan, template=name, point=point)

    return Template(name=name, space=space, emit=emit)


def fake_record(candidate: Candidate, policy: str, time_us: float | None, *, target: str = "k1:target") -> Record:
    """Returns the record of a candidate that takes `time_us`, or that fails where there is no time."""
    outcome: Failure | Judgement
    if time_us is None:
        outcome = Failure(stage="build", kind="syntax", message="kernel.cpp:1: error: a planted failure")
    else:
        ratio = EAGER_US / time_us
        outcome = Judgement(
            verdict=Verdict(checks=(Check(name="accuracy", passed=True, evidence="0 of 1 groups over the bound"),)),
            measurements=(fake_measurement("candidate", time_us), fake_measurement("eager", EAGER_US)),
            comparisons=(Comparison(baseline="eager", speedup=ratio, low=0.98 * ratio, high=1.02 * ratio),),
            noise=0.01,
        )
    return Record(problem=candidate.problem, candidate=digest(candidate), target=target, policy=policy, outcome=outcome)


def fake_measurement(contender: str, time_us: float) -> Measurement:
    """Returns a measurement with a narrow interval."""
    return Measurement(
        contender=contender,
        workload="spec",
        mode="cold",
        median_us=time_us,
        low_us=0.99 * time_us,
        high_us=1.01 * time_us,
        samples=10,
        calls=10,
        method="made up",
    )


def noise_of(candidate: Candidate, effort: str, amount: float) -> float:
    """Returns a factor near 1 that is always the same for a candidate and an effort."""
    seed = hashlib.sha256(f"{digest(candidate)} {effort}".encode()).digest()
    return 1.0 + amount * (2.0 * int.from_bytes(seed[:4], "big") / 2**32 - 1.0)


@dataclass
class Drive:
    """Runs a strategy against a landscape and keeps everything that happened."""

    strategy: Strategy
    landscape: Landscape
    noise: float = 0.0
    limit: int = 100_000
    stored: dict[tuple[str, str], Record] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    pieces: random.Random | None = None
    """Where given, batches are told in random order, in pieces."""

    def run(self) -> Drive:
        while (batch := self.strategy.ask()) and len(self.asked) < self.limit:
            self.asked += [(digest(p.candidate), p.effort) for p in batch]
            self.candidates += [p.candidate for p in batch]
            self.tell(tuple((p, self.record(p)) for p in batch))
        return self

    def tell(self, results: Results) -> None:
        if self.pieces is None:
            return self.strategy.tell(results)
        shuffled = list(results)
        self.pieces.shuffle(shuffled)
        while shuffled:
            count = self.pieces.randint(1, len(shuffled))
            self.strategy.tell(tuple(shuffled[:count]))
            del shuffled[:count]
            assert {p for p, _ in shuffled} == set(self.strategy.ask() if shuffled else ())
        return None

    def record(self, proposal: Proposal) -> Record:
        key = (digest(proposal.candidate), proposal.effort)
        if key not in self.stored:
            time_us = self.landscape(proposal.candidate.template, proposal.candidate.point)
            if time_us is not None:
                time_us *= noise_of(proposal.candidate, proposal.effort, self.noise)
            self.stored[key] = fake_record(proposal.candidate, proposal.effort, time_us)
        return self.stored[key]

    def best_us(self, *, count: int | None = None, effort: str | None = None) -> float:
        """Returns the shortest time among the first `count` candidates that were asked for."""
        times = [
            t
            for (_, e), c in list(zip(self.asked, self.candidates, strict=True))[:count]
            if (effort in (None, e)) and (t := self.landscape(c.template, c.point)) is not None
        ]
        return min(times, default=math.inf)


WIDE = (
    ("threads", (1, 2)),
    ("tile", (64, 128, 256, 512, 1024, 2048)),
    ("unroll", (1, 2, 4, 8)),
    ("width", (4, 8, 16)),
    ("stream", (0, 1)),
    ("rows", (1, 2, 4, 8)),
)
"""1152 points, like a row-wise template's."""


def numbers(point: Point) -> dict[str, float]:
    """Returns a point's choices as numbers, by parameter."""
    return {name: float(chosen) for name, chosen in point}


def separable(_: str, point: Point) -> float:
    """Each parameter has a best value of its own; the optimum takes 100 µs."""
    p = numbers(point)
    return (
        100.0
        * (1.5 if p["threads"] == 1 else 1.0)
        * (1 + 0.1 * abs(math.log2(p["tile"] / 512)))
        * (1 + 0.15 * abs(math.log2(p["unroll"] / 4)))
        * (1 + 0.2 * abs(math.log2(p["width"] / 8)))
        * (1.1 if p["stream"] == 0 else 1.0)
        * (1 + 0.05 * abs(math.log2(p["rows"] / 2)))
    )


def coupled(_: str, point: Point) -> float:
    """Only tile * unroll matters against a cache, and rows * width against the registers; 100 µs at best."""
    p = numbers(point)
    cache = abs(math.log2(p["tile"] * p["unroll"] / 2048))
    registers = abs(math.log2(p["rows"] * p["width"] / 16))
    skew = abs(math.log2(p["tile"] / 1024))
    stream = 0.15 if (p["stream"] == 1) != (p["tile"] >= 1024) else 0.0
    return 100.0 * (1.4 if p["threads"] == 1 else 1.0) * (1 + 0.2 * cache + 0.15 * registers + 0.06 * skew + stream)


def pick(landscape: Landscape, names: tuple[str, ...]) -> Landscape:
    """Returns a landscape in which only the templates of these names pass."""
    return lambda name, point: landscape(name, point) if name in names else None


def random_best_us(template: Template, landscape: Landscape, *, count: int, seed: int) -> float:
    """Returns the shortest time of `count` random points: what a strategy has to beat."""
    rng = random.Random(seed)
    points = [tuple((p.name, rng.choice(p.values)) for p in template.space.parameters) for _ in range(count)]
    return min(t for point in points if (t := landscape(template.name, point)) is not None)


class StrategySuite:
    """What every strategy must do.

    Covers: the ask-and-tell contract, repeatability, replay, failures, small and empty spaces,
    duplicates, finding the optimum of known landscapes and beating random choice.
    Does not cover: how good a strategy is on real kernels.
    """

    evaluations = 130
    """Proposals within which the optimum of the known landscapes must be asked for."""
    seeds = (0, 1, 2)

    def make(self, templates: tuple[Template, ...], seed: int) -> Strategy:
        """Returns the strategy under test."""
        raise NotImplementedError

    def drive(self, templates: tuple[Template, ...], landscape: Landscape, seed: int = 0, **more: object) -> Drive:
        return Drive(self.make(templates, seed), landscape, **more).run()  # type: ignore[arg-type]

    @pytest.mark.parametrize("landscape", [separable, coupled])
    def test_finds_what_is_near_the_optimum(self, landscape: Landscape) -> None:
        found = [
            self.drive((make_template("rows", *WIDE),), landscape, seed, noise=0.02).best_us(
                count=self.evaluations, effort="measure"
            )
            for seed in self.seeds
        ]
        assert sorted(found)[len(found) // 2] <= 106.0, found
        assert max(found) <= 125.0, found

    @pytest.mark.parametrize("landscape", [separable, coupled])
    def test_is_better_than_random_choice(self, landscape: Landscape) -> None:
        template = make_template("rows", *WIDE)
        ours = theirs = 0.0
        for seed in self.seeds:
            drive = self.drive((template,), landscape, seed, noise=0.02)
            ours += drive.best_us(count=self.evaluations)
            count = min(self.evaluations, len(drive.asked))
            theirs += sum(random_best_us(template, landscape, count=count, seed=s) for s in range(20)) / 20
        assert ours < theirs

    def test_prefers_the_faster_template(self) -> None:
        templates = tuple(make_template(name, *WIDE) for name in ("slow", "quick"))
        factors = {"slow": 3.0, "quick": 1.0}
        drive = self.drive(templates, lambda name, point: factors[name] * separable(name, point))
        measured = [c.template for (_, e), c in zip(drive.asked, drive.candidates, strict=True) if e == "measure"]
        assert measured.count("quick") > measured.count("slow")
        assert drive.best_us(effort="measure") <= 115.0

    def test_repeats_exactly_with_the_same_seed_and_differs_with_another(self) -> None:
        template = make_template("rows", *WIDE)
        one, same, other = (self.drive((template,), coupled, seed, noise=0.05) for seed in (7, 7, 8))
        assert one.asked == same.asked
        assert one.candidates == same.candidates
        assert [c.parents for c in one.candidates] == [c.parents for c in same.candidates]
        assert one.asked != other.asked

    def test_asks_the_same_however_it_is_told(self) -> None:
        templates = (make_template("rows", *WIDE), make_template("tiles", *WIDE[:3]))
        landscape = pick(coupled, ("rows",))
        whole = self.drive(templates, landscape, noise=0.05)
        pieces = self.drive(templates, landscape, noise=0.05, pieces=random.Random(3))
        assert pieces.asked == whole.asked

    def test_goes_on_from_stored_records(self) -> None:
        template = make_template("rows", *WIDE)
        whole = self.drive((template,), coupled, noise=0.05)
        cut = self.drive((template,), coupled, noise=0.05, limit=len(whole.asked) // 2)
        stored = dict(cut.stored)
        again = self.drive((template,), coupled, noise=0.05, stored=dict(stored))
        assert again.asked == whole.asked
        assert all(again.stored[key] is record for key, record in stored.items())

    def test_never_asks_twice_for_a_candidate_with_one_effort(self) -> None:
        template = make_template("rows", *WIDE, ignored="unroll")
        drive = self.drive((template, template), separable, noise=0.05)
        assert len(drive.asked) == len(set(drive.asked))
        assert len(drive.asked) > 20

    def test_notes_where_candidates_come_from(self) -> None:
        drive = self.drive((make_template("rows", *WIDE),), coupled, noise=0.05)
        known: set[str] = set()
        for candidate in drive.candidates:
            assert candidate.author in ("tune", "evolve")
            assert candidate.template == "rows"
            assert candidate.point
            assert set(candidate.parents) <= known
            known.add(digest(candidate))
        assert any(candidate.parents for candidate in drive.candidates)

    def test_passes_over_failures(self) -> None:
        def half(name: str, point: Point) -> float | None:
            return None if numbers(point)["unroll"] >= 4 or numbers(point)["stream"] == 0 else separable(name, point)

        drive = self.drive((make_template("rows", *WIDE, broken="tile"),), half, noise=0.02)
        assert drive.best_us(count=self.evaluations, effort="measure") <= 1.3 * 115.0
        assert all(dict(c.point)["tile"] != WIDE[1][1][-1] for c in drive.candidates)
        for (_, effort), candidate in zip(drive.asked, drive.candidates, strict=True):
            assert effort == "screen" or half("rows", candidate.point) is not None

    def test_ends_when_everything_fails(self) -> None:
        drive = self.drive((make_template("rows", *WIDE),), lambda *_: None)
        assert 0 < len(drive.asked) <= 300
        assert {effort for _, effort in drive.asked} == {"screen"}

    def test_ends_when_nothing_can_be_emitted(self) -> None:
        assert self.drive((make_template("rows", ("tile", (8,)), broken="tile"),), separable).asked == []

    def test_ends_at_once_without_templates(self) -> None:
        drive = self.drive((), separable)
        assert drive.asked == []
        assert drive.strategy.ask() == ()

    def test_judges_a_space_of_one_point_with_both_efforts(self) -> None:
        for template in (make_template("rows", ("tile", (8,))), make_template("fixed")):
            drive = self.drive((template,), lambda *_: 50.0)
            assert sorted(effort for _, effort in drive.asked) == ["measure", "screen"]

    def test_begins_with_every_template_as_its_author_would(self) -> None:
        templates = (make_template("rows", *WIDE), make_template("tiles", *WIDE))
        first = self.make(templates, 0).ask()
        assert [(p.candidate.template, p.candidate.point, p.effort) for p in first] == [
            (t.name, t.space.default(), "screen") for t in templates
        ]

    def test_stays_finished(self) -> None:
        drive = self.drive((make_template("rows", ("tile", (8, 16))),), lambda *_: 50.0)
        assert drive.strategy.ask() == ()
        assert drive.strategy.ask() == ()

    def test_ranks_by_speedup_over_drift(self) -> None:
        slow_minute = fake_record(next(_some_candidates()), "screen", 100.0)
        assert speed(slow_minute) == EAGER_US / 100.0
        assert speed(fake_record(next(_some_candidates()), "screen", None)) is None


def _some_candidates() -> Iterator[Candidate]:
    template = make_template("rows", *WIDE)
    made = template.emit(template.space.default())
    assert isinstance(made, Candidate)
    yield made


def fake_policy(name: str) -> Policy:
    """Returns a policy that differs from others by its name only."""
    return Policy(name=name, families=SCREEN.families, draws=1, baselines=("eager",), rounds=3, block_us=100.0)
