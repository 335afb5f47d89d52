"""`Tune`: few judgements where a model of all speeds that are known expects the most.

The templates' defaults come first; after that each batch is what a Gaussian process expects to gain most by
(surrogate.py), over all templates at once, so that a template has as many turns as it deserves. Before anything else is
known, an expert's first value of a parameter is believed to be the better one. A part of the limit is kept for
measuring, in two batches, what is expected to be fastest. benchmarks/landscapes.py compares it with others.
Not here: crossing what was found (evolve.py).
"""

from __future__ import annotations

import itertools
import math
import random

from kernelwright.search import Batches, Results, Turns
from kernelwright.search.field import Field, Place, distance
from kernelwright.search.standings import Standings
from kernelwright.search.surrogate import NOISE, Surrogate, spread_of
from kernelwright.types import Proposal, Template

DEFAULT_LIMIT = 64
BATCH = 4
"""Places that are screened before what they showed is taken in."""
MEASURED_SHARE = 0.2
POOL = 160
"""Places drawn anywhere for the model to choose from, beside the neighbours of the best."""
CENTRES = 3
"""Best places whose neighbours are in the pool."""
STEP = 0.05
"""Log speed that a value is believed to lose that is not its parameter's first."""
MEASURED_NOISE = 0.6
"""A measured log speed's deviation, as a part of a screened one's."""


class Tune:
    """Finds good points of every template with few judgements.

    Args:
        templates: what can be emitted.
        seed: decides the sample and the pools.
        limit: proposals at most.
    """

    name = "tune"

    def __init__(self, templates: tuple[Template, ...], *, seed: int, limit: int = DEFAULT_LIMIT) -> None:
        self._field = Field(templates)
        self._standings = Standings(self._field, author=self.name, limit=limit)
        self._seed = seed
        self._kept = max(1, round(MEASURED_SHARE * limit))
        self._turns = Turns(self._batches())

    def ask(self) -> tuple[Proposal, ...]:
        """Returns what is to be screened or measured next."""
        return self._turns.ask()

    def tell(self, results: Results) -> None:
        """Takes in the records of the present batch."""
        self._turns.tell(results)

    def _batches(self) -> Batches:
        standings, kept = self._standings, self._kept
        yield from standings.judge(self._field.defaults(), "screen")
        for number in itertools.count():
            left = standings.left - kept
            chosen = self._promising(self._model(number), min(BATCH, left)) if left > 0 else []
            if not chosen:
                break
            yield from standings.judge(chosen, "screen", parents=self._parents(chosen))
        for share in (kept - kept // 2, standings.left):
            fastest = (p for p in self._model().fastest() if standings.speed(p, "measure") is None)
            yield from standings.judge(list(itertools.islice(fastest, share)), "measure")

    def _parents(self, chosen: list[Place]) -> dict[Place, tuple[str, ...]]:
        """Returns the best place for those that are one change away from it."""
        best = self._standings.best("screen", CENTRES)
        near = ((place, next((b for b in best if distance(b, place) == 1), None)) for place in chosen)
        return {place: (self._field.digest(parent),) for place, parent in near if parent}

    def _model(self, number: int | None = None) -> Surrogate:
        """Returns what is known of all that was judged, and with a number what that says of places in a pool."""
        field, seen = self._field, self._standings.seen()
        pool = dict.fromkeys(place for place, _, _ in seen)
        if number is not None:
            for best in self._standings.best("screen", CENTRES):
                pool |= dict.fromkeys(p for parameter in field.parameters(best) for p in field.along(best, parameter))
            rng = random.Random(f"tune {self._seed} {number}")
            for index in range(len(field.templates)):
                pool |= dict.fromkeys(field.some(index, POOL // len(field.templates), rng))
        logs = [math.log(fast) for _, _, fast in seen if fast is not None]
        passed = [place for place, _, fast in seen if fast is not None]
        middle = sum(log - self._believed(p) for log, p in zip(logs, passed, strict=True)) / max(1, len(logs))
        least = min(logs, default=0.0)
        model = Surrogate(field, tuple(pool), spread=spread_of(logs), prior=self._believed)
        for place, effort, fast in seen:
            noise = NOISE * (MEASURED_NOISE if effort == "measure" else 1.0)
            model.observe(
                place, (least if fast is None else math.log(fast)) - middle, noise=noise, passed=fast is not None
            )
        return model

    def _believed(self, place: Place) -> float:
        """Returns the log speed that a place is believed to have, up to a constant, before anything was judged."""
        parameters = self._field.templates[place.template].space.parameters
        return -STEP * sum(p.values.index(chosen) > 0 for p, (_, chosen) in zip(parameters, place.point, strict=True))

    def _promising(self, model: Surrogate, count: int) -> list[Place]:
        """Returns new places by expected improvement, each chosen as if those before it had been judged already."""
        chosen: dict[str, Place] = {}
        dead: set[Place] = set()
        while len(chosen) < count:
            place = model.best_bet(dead)
            if place is None:
                break
            dead.add(place)
            key = self._field.digest(place)
            if not self._standings.known(place) and key not in chosen:
                chosen[key] = place
                model.observe(place, None, noise=NOISE)
        return list(chosen.values())
