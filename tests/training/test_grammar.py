"""Whatever the grammar lets through emits, and it lets through all that does."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.plans import LaunchPlan
from kernelwright.training.grammar import Choices, Grammar, word_of, words_of
from kernelwright.types import Candidate, Failure, Parameter, Point, SourceFile, Space, Template

SPACE = Space(
    parameters=(
        Parameter(name="tile", values=(16, 32, 64)),
        Parameter(name="stages", values=(1, 2, 3)),
        Parameter(name="wide", values=(False, True)),
    )
)


def emit(point: Point) -> Candidate | Failure:
    given = dict(point)
    if int(given["tile"]) * int(given["stages"]) > 96 or (given["wide"] and given["tile"] == 16):
        return Failure(stage="emit", kind="resources", message="too much shared memory")
    source = SourceFile(path="k.cpp", text=str(point))
    return Candidate(problem="p", language="cpp", sources=(source,), plan=LaunchPlan(steps=()))


def grammar(known: frozenset[str] = frozenset()) -> Grammar:
    return Grammar([Template(name=name, space=SPACE, emit=emit) for name in ("loops", "tiles")], known=known)


def walk(made: Grammar, rng: random.Random, without: frozenset[Choices] = frozenset()) -> Choices:
    begun: Choices = ()
    while made.slot(begun) is not None:
        may = made.allowed(begun, without=without)
        begun = (*begun, rng.choice([place for place, ok in enumerate(may) if ok]))
    return begun


@given(st.integers(0, 10_000), st.sets(st.integers(0, 21), max_size=20))
def test_every_walk_ends_in_a_schedule_that_emits_and_is_wanted(seed: int, unwanted: set[int]) -> None:
    made = grammar()
    every = list(made.every())
    without = frozenset(every[place] for place in unwanted)
    found = walk(made, random.Random(seed), without)
    assert isinstance(emit(made.point(found)), Candidate)
    assert found not in without


def test_every_schedule_that_emits_can_be_said_and_read_back() -> None:
    made = grammar()
    every = list(made.every())
    emitting = [p for p in _points() if isinstance(emit(p), Candidate)]
    assert len(every) == 2 * len(emitting)
    assert len(set(map(made.spelling, every))) == len(every)
    for choices in every:
        assert all(made.allowed(choices[:length])[place] for length, place in enumerate(choices))
        assert made.choices(made.templates[choices[0]].name, made.point(choices)) == choices


def test_words_are_shared_by_powers_of_two_and_fall_back_to_places() -> None:
    assert [word_of(c) for c in (64, 0, 48, True, "filter")] == ["=2^6", "=0", "=48", "=true", "=filter"]
    odd = Parameter(name="tile", values=(48, 64))
    assert words_of(odd) == ("=48", "=2^6")
    assert words_of(odd, frozenset({"=2^6"})) == ("#0", "#1")
    strange = grammar(known=frozenset({"nothing"}))
    assert strange.spelling(walk(strange, random.Random(0)))[::2] == ("template", "tile", "stages", "wide")


def test_a_choice_that_is_no_longer_there_cannot_be_read() -> None:
    made = grammar()
    assert made.choices("loops", (("tile", 128), ("stages", 1), ("wide", True))) is None
    assert made.choices("loops", (("tile", 16),)) is None
    assert made.choices("gone", SPACE.default()) is None


def _points() -> list[Point]:
    tile, stages, wide = (p.values for p in SPACE.parameters)
    return [(("tile", a), ("stages", b), ("wide", c)) for a in tile for b in stages for c in wide]
