"""`Halving`: successive halving over the schedule parameters of all templates, then coordinate search.

After Jamieson and Talwalkar, "Non-stochastic Best Arm Identification" (2016), with two efforts for
resources: many candidates are screened, the best third is measured. Unlike there, the first rung
is not random: it holds every template's default, then each default's neighbours and points that
fill the space, and what survives is improved one parameter at a time.
Not here: crossing what was found (evolve.py).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Generator, Iterator, Mapping

from kernelwright.search import Batches, Results, Turns
from kernelwright.search.field import Field, Place
from kernelwright.search.standings import Standings
from kernelwright.types import OptionValue, Parameter, Point, Proposal, Space, Template

DEFAULT_LIMIT = 64
SAMPLE_SHARE = 0.4
"""Part of the limit that the screened sample may use; measuring and climbing have the rest."""
KEPT_SHARE = 1 / 3
SCREEN_MARGIN = 0.95
"""A neighbour is measured when its screened speed is at least this much of the best's: screening is coarse."""
STARTS = 2
"""Survivors that are climbed from, from the fastest down."""
GUESSES = 2
"""Times that the points which the sample's main effects promise are screened and the effects fitted anew."""
GUESSED_SHARE = 0.05
REACH = 6
"""Other values of one parameter that are looked at in one move, the nearest first."""
MISSES = 500
"""Points in a row that are nothing new before a template is taken to have nothing more to give."""


class Halving:
    """Finds good points of every template with few judgements.

    Args:
        templates: what can be emitted.
        seed: decides the sample and the order of parameters.
        limit: proposals at most; the sizes of the rungs follow from it.
    """

    name = "halving"

    def __init__(self, templates: tuple[Template, ...], *, seed: int, limit: int = DEFAULT_LIMIT) -> None:
        self._field = Field(templates)
        self._standings = Standings(self._field, author=self.name, limit=limit)
        self._seed = seed
        self._limit = limit
        self._sample_size = max(4, round(SAMPLE_SHARE * limit))
        self._turns = Turns(self._batches())

    def ask(self) -> tuple[Proposal, ...]:
        """Returns the next rung, or the next parameter's alternatives."""
        return self._turns.ask()

    def tell(self, results: Results) -> None:
        """Takes in the records of the present batch."""
        self._turns.tell(results)

    def _batches(self) -> Batches:
        standings = self._standings
        defaults = self._field.defaults()
        yield from standings.judge(defaults, "screen")
        yield from standings.judge(self._sample(), "screen")
        for _ in range(GUESSES):
            yield from standings.judge(self._guesses(), "screen")
        passed = len(standings.best("screen", self._field.size()))
        yield from standings.judge(standings.best("screen", max(2, round(KEPT_SHARE * passed))), "measure")
        for start in standings.best("measure", STARTS):
            yield from self._climb(start)

    # -------------------------------------------------------------------------- sample

    def _sample(self) -> Iterator[Place]:
        """Yields the sample: the template whose default was fastest has the most turns.

        The template in place r (from 0) of n has n - r turns in each round.
        """
        order = sorted(self._field.defaults(), key=lambda d: -(self._standings.speed(d, "screen") or 0.0))
        sources = [self._around_and_across(default) for default in order]
        turns = [source for rank, source in enumerate(sources) for _ in range(len(sources) - rank)]
        seen = {self._field.digest(default) for default in order} | {""}
        given = 0
        while turns and given < self._sample_size:
            for source in tuple(turns):
                place = next((p for p in itertools.islice(source, MISSES) if self._field.digest(p) not in seen), None)
                if place is None:
                    turns = [other for other in turns if other is not source]
                elif given < self._sample_size:
                    seen.add(self._field.digest(place))
                    given += 1
                    yield place

    def _around_and_across(self, default: Place) -> Iterator[Place]:
        """Yields in turn a neighbour of the default and a point anywhere, then whatever is left."""
        rng = random.Random(f"tune {self._seed} {default.template}")
        around = [p for parameter in self._field.parameters(default) for p in self._field.along(default, parameter)]
        rng.shuffle(around)
        across = self._field.spread(default.template, rng)
        for pair in itertools.zip_longest(around, itertools.islice(across, len(around))):
            yield from (place for place in pair if place is not None)
        yield from across
        # The sequence may miss corners of a small space for ever.
        yield from self._field.everywhere(default.template)

    def _guesses(self) -> list[Place]:
        """Returns unseen places that the main effects of what was screened promise to be fast."""
        count = max(1, round(GUESSED_SHARE * self._limit))
        found: list[Place] = []
        for template in dict.fromkeys(place.template for place in self._standings.best("screen", 3)):
            space = self._field.templates[template].space
            effects = fitted(space, self._standings.speeds(template, "screen"))
            places = (Place(template=template, point=point) for point in promising(space, effects))
            found += itertools.islice((p for p in places if not self._standings.known(p)), count)
        return found

    # ----------------------------------------------------------------- coordinate search

    def _climb(self, start: Place) -> Batches:
        """Moves along one parameter at a time until no single change is measured to be faster."""
        rng = random.Random(f"climb {self._seed} {start.template}")
        best = start
        unchanged: set[str] = set()
        order = list(self._field.parameters(start))
        rng.shuffle(order)
        for parameter in itertools.cycle(order):
            if parameter.name in unchanged:
                # One whole turn without a move: a local optimum.
                return
            moved = yield from self._move(best, parameter)
            unchanged = unchanged | {parameter.name} if moved == best else {parameter.name}
            best = moved
            if self._standings.exhausted:
                return

    def _move(self, best: Place, parameter: Parameter) -> Generator[tuple[Proposal, ...], Results, Place]:
        standings = self._standings
        others = self._field.along(best, parameter)[:REACH]
        parents = dict.fromkeys(others, (self._field.digest(best),))
        yield from standings.judge(others, "screen", parents=parents)
        yield from standings.judge((best,), "screen")
        bar = SCREEN_MARGIN * (standings.speed(best, "screen") or 0.0)
        hopeful = [p for p in others if (standings.speed(p, "screen") or 0.0) > bar]
        hopeful.sort(key=lambda p: -(standings.speed(p, "screen") or 0.0))
        yield from standings.judge(hopeful[:2], "measure", parents=parents)
        return max((best, *hopeful), key=lambda p: standings.speed(p, "measure") or 0.0)


# effects

SWEEPS = 12
SHRINKAGE = 0.5
"""Imaginary observations of effect 0 that each choice begins with."""

Effects = dict[str, list[float]]


def fitted(space: Space, speeds: Mapping[Point, float]) -> Effects:
    """Returns, for each parameter by name, the effect of each of its values on log speed."""
    effects: Effects = {p.name: [0.0] * len(p.values) for p in space.parameters}
    if not speeds:
        return effects
    logs = [math.log(s) for s in speeds.values()]
    mean = sum(logs) / len(logs)
    rows = [(tuple(_positions(space, point)), y - mean) for point, y in zip(speeds, logs, strict=True)]
    for _ in range(SWEEPS):
        for axis, parameter in enumerate(space.parameters):
            own = effects[parameter.name]
            total, count = [0.0] * len(own), [SHRINKAGE] * len(own)
            for positions, y in rows:
                predicted = sum(effects[p.name][i] for p, i in zip(space.parameters, positions, strict=True))
                total[positions[axis]] += y - predicted + own[positions[axis]]
                count[positions[axis]] += 1
            own[:] = [t / c for t, c in zip(total, count, strict=True)]
    return effects


def promising(space: Space, effects: Effects) -> Iterator[Point]:
    """Yields the point of the best choices, then those one change away, the least loss first."""
    tops = {p.name: max(range(len(p.values)), key=effects[p.name].__getitem__) for p in space.parameters}
    top: dict[str, OptionValue] = {p.name: p.values[tops[p.name]] for p in space.parameters}
    yield tuple(top.items())
    losses = [
        (effects[p.name][tops[p.name]] - effects[p.name][i], axis, i)
        for axis, p in enumerate(space.parameters)
        for i in range(len(p.values))
        if i != tops[p.name]
    ]
    for _, axis, i in sorted(losses):
        parameter = space.parameters[axis]
        yield tuple({**top, parameter.name: parameter.values[i]}.items())


def _positions(space: Space, point: Point) -> Iterator[int]:
    for parameter, (_, chosen) in zip(space.parameters, point, strict=True):
        yield parameter.values.index(chosen)
