from __future__ import annotations

import itertools
import random

from kernelwright.search.field import Field, Place, changed, distance
from kernelwright.testing.strategies import WIDE, make_template
from kernelwright.types import digest


def test_places_that_emit_the_same_sources_have_one_digest() -> None:
    field = Field((make_template("rows", ("tile", (1, 2)), ("unused", (1, 2)), ignored="unused"),))
    digests = [field.digest(place) for place in field.everywhere(0)]
    assert len(digests) == field.size() == 4
    assert len(set(digests)) == 2
    candidate = field.emit(field.defaults()[0], author="tune", parents=("k1:mother",))
    assert candidate is not None
    assert digest(candidate) == digests[0]
    assert (candidate.author, candidate.template, candidate.parents) == ("tune", "rows", ("k1:mother",))


def test_a_place_that_cannot_be_emitted_has_no_digest() -> None:
    field = Field((make_template("rows", ("tile", (1, 2)), broken="tile"),))
    assert [bool(field.digest(place)) for place in field.everywhere(0)] == [True, False]


def test_neighbours_come_nearest_first() -> None:
    field = Field((make_template("rows", ("tile", (1, 2, 4, 8)), ("one", (1,))),))
    (parameter,) = field.parameters(field.defaults()[0])
    place = Place(template=0, point=(("tile", 4), ("one", 1)))
    assert [p.choice("tile") for p in field.along(place, parameter)] == [2, 8, 1]
    assert distance(place, changed(place, "tile", 8)) == 1
    assert distance(place, Place(template=1, point=())) == 3


def test_the_spread_takes_every_choice_about_equally_often() -> None:
    template = make_template("rows", *WIDE)
    places = list(itertools.islice(Field((template,)).spread(0, random.Random(5)), 96))
    for name, values in WIDE:
        counts = [sum(place.choice(name) == v for place in places) for v in values]
        assert all(abs(count - 96 / len(values)) <= 4 for count in counts), (name, counts)
    assert len(set(places)) > 80
    assert list(Field((make_template("fixed"),)).spread(0, random.Random(5))) == [Place(template=0, point=())] * 4
