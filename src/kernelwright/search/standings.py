"""What a strategy has learnt so far: which candidates were asked for and how they rank.

Not here: what a record's speed is (speed.py) and what to ask for next (tune.py, evolve.py).
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping

from kernelwright.search import Results
from kernelwright.search.field import Field, Place
from kernelwright.search.speed import speed
from kernelwright.types import Candidate, Effort, Point, Proposal, digest

Asking = Generator[tuple[Proposal, ...], Results, None]


class Standings:
    """Speeds by candidate and effort, and the one way by which a strategy asks for more.

    Args:
        field: where candidates come from.
        author: noted in the candidates.
        limit: how many proposals may be made; None means no limit.
    """

    def __init__(self, field: Field, *, author: str, limit: int | None = None) -> None:
        self._field = field
        self._author = author
        self._left = limit
        self._speeds: dict[Effort, dict[str, float | None]] = {"screen": {}, "measure": {}}
        self._places: dict[str, Place] = {}

    @property
    def exhausted(self) -> bool:
        """True when the limit is used up."""
        return self._left is not None and self._left <= 0

    @property
    def left(self) -> int:
        """How many more proposals may be made."""
        return sys.maxsize if self._left is None else self._left

    def judge(
        self, places: Iterable[Place], effort: Effort, *, parents: Mapping[Place, tuple[str, ...]] | None = None
    ) -> Asking:
        """Asks for those of the places that are new at this effort and takes in what comes back.

        Use as `yield from standings.judge(...)`. No batch is yielded when nothing is new.
        """
        batch: dict[str, Candidate] = {}
        for place in places:
            if self._left is not None and len(batch) >= self._left:
                break
            key = self._field.digest(place)
            if not key or key in batch or key in self._speeds[effort]:
                continue
            candidate = self._field.emit(place, author=self._author, parents=(parents or {}).get(place, ()))
            if candidate is not None:
                batch[key] = candidate
                self._places.setdefault(key, place)
        if self._left is not None:
            self._left -= len(batch)
        if batch:
            self.note((yield tuple(Proposal(candidate=c, effort=effort) for c in batch.values())))

    def note(self, results: Results) -> None:
        """Takes in records, also of candidates that somebody else asked for."""
        names = {template.name: index for index, template in enumerate(self._field.templates)}
        for proposal, record in results:
            key, candidate = digest(proposal.candidate), proposal.candidate
            self._speeds[proposal.effort][key] = speed(record)
            if key not in self._places and candidate.template in names:
                self._places[key] = Place(template=names[candidate.template], point=candidate.point)

    def known(self, place: Place) -> bool:
        """True when the place cannot be emitted, or what it emits was asked for with any effort."""
        key = self._field.digest(place)
        return not key or any(key in speeds for speeds in self._speeds.values())

    def speed(self, place: Place, effort: Effort) -> float | None:
        """Returns how fast a place was, None where it failed or was not judged with this effort."""
        return self._speeds[effort].get(self._field.digest(place))

    def speeds(self, template: int, effort: Effort) -> dict[Point, float]:
        """Returns the speed of each point of a template that passed with this effort."""
        found = ((self._places[key], s) for key, s in self._speeds[effort].items() if key in self._places)
        return {place.point: s for place, s in found if place.template == template and s is not None}

    def seen(self) -> tuple[tuple[Place, Effort, float | None], ...]:
        """Returns every record's place, effort and speed, the screened before the measured."""
        every = ((e, key, s) for e, speeds in self._speeds.items() for key, s in speeds.items())
        return tuple((self._places[key], e, s) for e, key, s in every if key in self._places)

    def best(self, effort: Effort, count: int = 1) -> tuple[Place, ...]:
        """Returns the fastest places that passed with this effort, the fastest first."""
        passed = [(s, key) for key, s in self._speeds[effort].items() if s is not None and key in self._places]
        passed.sort(key=lambda pair: -pair[0])  # stable: of equals, the one asked for first
        return tuple(self._places[key] for _, key in passed[:count])
