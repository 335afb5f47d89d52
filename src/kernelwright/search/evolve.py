"""`Evolve`: mutation and crossover of points, with lineage, diversity and novelty.

A steady population after Holland, with two rules that keep it from collapsing: nothing is proposed
that was judged before, and a newcomer that differs from a faster member in one parameter only does
not take a place of its own while others are to be had.
Not here: where the first points come from (tune.py); without them it starts with the defaults.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from kernelwright.search import Batches, Results, Turns
from kernelwright.search.field import Field, Place, changed, distance
from kernelwright.search.standings import Standings
from kernelwright.types import Parameter, Proposal, Template

POPULATION = 8
CHILDREN = 6
PATIENCE = 5
"""Generations in a row without a faster measured candidate before it finishes."""
PROGRESS = 1.005
"""A best that is not faster by this factor is no progress."""
CROSSOVER_RATE = 0.6
NEAR_RATE = 0.7
"""Part of the mutations that go to the next value in order; the others go anywhere."""
TRIES = 64
"""Draws for one child before the space near the population is searched in order instead."""
SWEEP = 4096
"""Places that are looked at in order for something new before the space counts as exhausted."""


class Evolve:
    """Improves a population of points until nothing new is faster.

    Args:
        templates: what can be emitted.
        seed: decides every draw.
        told: records to start from, as another strategy was told them; never asked for again.
        patience: generations without progress before it finishes.
    """

    name = "evolve"

    def __init__(
        self, templates: tuple[Template, ...], *, seed: int, told: Results = (), patience: int = PATIENCE
    ) -> None:
        self._field = Field(templates)
        self._standings = Standings(self._field, author=self.name)
        self._standings.note(told)
        self._rng = random.Random(f"evolve {seed}")
        self._patience = patience
        self._turns = Turns(self._batches())

    def ask(self) -> tuple[Proposal, ...]:
        """Returns the next generation's children, or those of them that deserve measuring."""
        return self._turns.ask()

    def tell(self, results: Results) -> None:
        """Takes in the records of the present batch."""
        self._turns.tell(results)

    def _batches(self) -> Batches:
        standings = self._standings
        yield from standings.judge((d for d in self._field.defaults() if not standings.known(d)), "screen")
        yield from standings.judge(standings.best("screen", 2), "measure")
        idle, best = 0, self._best_speed()
        while idle < self._patience:
            children = self._children(self._population())
            if not children:
                return
            yield from standings.judge(children, "screen", parents=children)
            yield from standings.judge(self._deserving(children), "measure", parents=children)
            if self._best_speed() > best * PROGRESS:
                idle, best = 0, self._best_speed()
            else:
                idle += 1

    def _best_speed(self) -> float:
        return max((self._standings.speed(p, "measure") or 0.0 for p in self._standings.best("measure")), default=0.0)

    def _deserving(self, children: dict[Place, tuple[str, ...]]) -> list[Place]:
        """Returns the best third of the children that passed, at least one."""
        passed = {p: s for p in children if (s := self._standings.speed(p, "screen")) is not None}
        return sorted(passed, key=lambda p: -passed[p])[: max(1, len(passed) // 3)]

    # ---------------------------------------------------------------------- population

    def _population(self) -> list[Place]:
        """Returns fast and different places: the measured before those that were only screened."""
        ranked = dict.fromkeys((*self._standings.best("measure", 64), *self._standings.best("screen", 64)))
        members: list[Place] = []
        crowded: list[Place] = []
        for place in ranked:
            near = any(distance(place, member) < 2 for member in members)
            (crowded if near else members).append(place)
            if len(members) == POPULATION:
                break
        return (members + crowded)[:POPULATION]

    def _children(self, population: list[Place]) -> dict[Place, tuple[str, ...]]:
        """Returns the next generation with each child's parents; empty when nothing new is left."""
        children: dict[Place, tuple[str, ...]] = {}
        taken: set[str] = set()
        for index in range(CHILDREN):
            # The last child comes from nowhere: a population may be in the wrong place altogether.
            stranger = index == CHILDREN - 1 or not population
            made = self._stranger(taken) if stranger else self._child(population, taken)
            if made is None:
                break
            place, parents = made
            taken.add(self._field.digest(place))
            children[place] = tuple(dict.fromkeys(self._field.digest(p) for p in parents))
        return children

    def _new(self, place: Place, taken: set[str]) -> bool:
        return not self._standings.known(place) and self._field.digest(place) not in taken

    def _stranger(self, taken: set[str]) -> tuple[Place, tuple[Place, ...]] | None:
        if not self._field.templates:
            return None
        draws = (self._field.anywhere(self._rng) for _ in range(TRIES))
        found = next((p for p in itertools.chain(draws, self._sweep(())) if self._new(p, taken)), None)
        return None if found is None else (found, ())

    def _child(self, population: list[Place], taken: set[str]) -> tuple[Place, tuple[Place, ...]] | None:
        for _ in range(TRIES):
            mother, father = self._parent(population), self._parent(population)
            crossed = self._rng.random() < CROSSOVER_RATE and mother != father
            place = self._mutated(self._crossed(mother, father) if crossed else mother, always=not crossed)
            if self._new(place, taken):
                return place, (mother, father) if crossed else (mother,)
        found = next((p for p in self._sweep(tuple(population)) if self._new(p, taken)), None)
        return None if found is None else (found, ())

    def _parent(self, population: list[Place]) -> Place:
        """Returns the better of two members drawn at random; the population is in order."""
        return population[min(self._rng.randrange(len(population)), self._rng.randrange(len(population)))]

    def _crossed(self, mother: Place, father: Place) -> Place:
        """Returns the mother with about half of the parameters that both templates have from the father."""
        child = mother
        for parameter in self._field.parameters(mother):
            theirs = father.choice(parameter.name)
            # By type as well: True and 1 are equal, and not the same choice.
            shared = any(v == theirs and type(v) is type(theirs) for v in parameter.values)
            if theirs is not None and shared and self._rng.random() < 0.5:
                child = changed(child, parameter.name, theirs)
        return child

    def _mutated(self, place: Place, *, always: bool) -> Place:
        """Returns the place with one parameter changed on average; with `always`, at least one."""
        parameters = self._field.parameters(place)
        if not parameters:
            return place
        for parameter in parameters:
            if self._rng.random() < 1 / len(parameters):
                place, always = self._step(place, parameter), False
        return self._step(place, self._rng.choice(parameters)) if always else place

    def _step(self, place: Place, parameter: Parameter) -> Place:
        others = self._field.along(place, parameter)
        near = self._rng.random() < NEAR_RATE
        return self._rng.choice(others[:2] if near else others)

    def _sweep(self, population: tuple[Place, ...]) -> Iterator[Place]:
        """Yields the neighbours of the population, then every place in order, up to a bound."""
        around = (
            q for p in population for parameter in self._field.parameters(p) for q in self._field.along(p, parameter)
        )
        everywhere = (p for t in range(len(self._field.templates)) for p in self._field.everywhere(t))
        return itertools.islice(itertools.chain(around, everywhere), SWEEP)
