"""`RandomSearch`: points drawn anywhere, the baseline that every cleverer strategy is to be compared with.

Not here: learning from what was found.
"""

from __future__ import annotations

import random

from kernelwright.search import Batches, Results, Turns
from kernelwright.search.field import Field, Place
from kernelwright.search.standings import Standings
from kernelwright.types import Proposal, Template

BATCH = 6
MISSES = 200
"""Draws in a row that were known already, after which the space counts as exhausted."""
MEASURED_SHARE = 0.2


class RandomSearch:
    """Screens points drawn uniformly, each once, and measures the fastest.

    Args:
        templates: what can be emitted.
        seed: decides every draw.
        limit: proposals at most.
    """

    name = "random"

    def __init__(self, templates: tuple[Template, ...], *, seed: int, limit: int) -> None:
        self._field = Field(templates)
        self._standings = Standings(self._field, author=self.name, limit=limit)
        self._rng = random.Random(f"random {seed}")
        self._limit = limit
        self._turns = Turns(self._batches())

    def ask(self) -> tuple[Proposal, ...]:
        """Returns the next draws, or those that deserve measuring."""
        return self._turns.ask()

    def tell(self, results: Results) -> None:
        """Takes in the records of the present batch."""
        self._turns.tell(results)

    def _batches(self) -> Batches:
        measured = max(1, round(MEASURED_SHARE * self._limit))
        screened, misses = 0, 0
        while self._field.templates and screened < self._limit - measured and misses < MISSES:
            batch: dict[str, None] = {}
            places: list[Place] = []
            while len(places) < min(BATCH, self._limit - measured - screened) and misses < MISSES:
                place = self._field.anywhere(self._rng)
                key = self._field.digest(place)
                if self._standings.known(place) or key in batch:
                    misses += 1
                    continue
                misses = 0
                batch[key] = None
                places.append(place)
            screened += len(places)
            yield from self._standings.judge(places, "screen")
        yield from self._standings.judge(self._standings.best("screen", measured), "measure")
