"""Every point of every template, as candidates that are told apart by what was emitted.

Two points that emit the same sources are one candidate, so everything is keyed by digest.
Not here: which points are worth judging (tune.py, evolve.py).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from kernelwright.types import Candidate, OptionValue, Parameter, Point, Template, digest, replace, value


@value
class Place:
    """One point of one template, the template given by its position."""

    template: int
    point: Point

    def choice(self, name: str) -> OptionValue | None:
        """Returns the value of a parameter, None where the template has no such parameter."""
        return next((chosen for key, chosen in self.point if key == name), None)


class Field:
    """The places that can be proposed, and the candidates that they emit."""

    def __init__(self, templates: tuple[Template, ...]) -> None:
        self.templates = templates
        self._digests: dict[Place, str] = {}

    def emit(self, place: Place, *, author: str, parents: tuple[str, ...] = ()) -> Candidate | None:
        """Returns the candidate of a place with its origin noted, None where it cannot be emitted."""
        template = self.templates[place.template]
        made = template.emit(place.point)
        if not isinstance(made, Candidate):
            self._digests[place] = ""
            return None
        self._digests[place] = digest(made)
        return replace(made, author=author, template=template.name, point=place.point, parents=parents)

    def digest(self, place: Place) -> str:
        """Returns the digest of what a place emits, empty where it cannot be emitted."""
        if place not in self._digests:
            self.emit(place, author="")
        return self._digests[place]

    def size(self) -> int:
        """Returns the number of places."""
        return sum(template.space.size() for template in self.templates)

    def defaults(self) -> tuple[Place, ...]:
        """Returns each template's best guess, in the order of the templates."""
        return tuple(Place(template=i, point=t.space.default()) for i, t in enumerate(self.templates))

    def everywhere(self, template: int) -> Iterator[Place]:
        """Yields every place of a template, the last parameter changing fastest."""
        parameters = self.templates[template].space.parameters
        for chosen in itertools.product(*(p.values for p in parameters)):
            yield Place(template=template, point=tuple(zip((p.name for p in parameters), chosen, strict=True)))

    def anywhere(self, rng: random.Random) -> Place:
        """Returns a place drawn uniformly from a template drawn uniformly."""
        template = rng.randrange(len(self.templates))
        parameters = self.templates[template].space.parameters
        return Place(template=template, point=tuple((p.name, rng.choice(p.values)) for p in parameters))

    def some(self, template: int, count: int, rng: random.Random) -> Iterator[Place]:
        """Yields so many places drawn from a template, repeats included; all of a template that has no more."""
        space = self.templates[template].space
        if space.size() <= count:
            return self.everywhere(template)
        draws = (tuple((p.name, rng.choice(p.values)) for p in space.parameters) for _ in range(count))
        return (Place(template=template, point=point) for point in draws)

    def parameters(self, place: Place) -> tuple[Parameter, ...]:
        """Returns the parameters of a place's template that have more than one value."""
        return tuple(p for p in self.templates[place.template].space.parameters if len(p.values) > 1)

    def along(self, place: Place, parameter: Parameter) -> tuple[Place, ...]:
        """Returns the places that differ in that one parameter, the nearest values first."""
        here = parameter.values.index(place.choice(parameter.name))
        others = sorted((abs(i - here), i) for i in range(len(parameter.values)) if i != here)
        return tuple(changed(place, parameter.name, parameter.values[i]) for _, i in others)

    def spread(self, template: int, rng: random.Random) -> Iterator[Place]:
        """Yields places that fill a template's space evenly, however many are taken; repeats occur.

        The additive recurrence of Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences"
        (2018), shifted by `rng` and rounded down to the values of each parameter. A longer sample
        begins with the shorter one, so that a larger limit goes on from what a smaller one judged.
        """
        parameters = self.templates[template].space.parameters
        root = _generalised_golden_ratio(len(parameters))
        at = [rng.random() for _ in parameters]
        for _ in range(4 * self.templates[template].space.size()):
            chosen = tuple((p.name, p.values[int(x * len(p.values))]) for p, x in zip(parameters, at, strict=True))
            yield Place(template=template, point=chosen)
            at = [(x + root ** -(axis + 1)) % 1.0 for axis, x in enumerate(at)]


def changed(place: Place, name: str, chosen: OptionValue) -> Place:
    """Returns a place with one parameter set to another value."""
    return replace(place, point=tuple((key, chosen if key == name else old) for key, old in place.point))


def distance(one: Place, other: Place) -> int:
    """Returns in how many parameters two places differ; templates count as one that all others share."""
    if one.template != other.template:
        return 1 + max(len(one.point), len(other.point))
    return sum(a != b for a, b in zip(one.point, other.point, strict=True))


def _generalised_golden_ratio(dimensions: int) -> float:
    # The only positive root of x^(d+1) = x + 1; the iteration contracts from anywhere above 1.
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (dimensions + 1))
    return root
