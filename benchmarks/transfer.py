"""What schedules of other problems say of a new one's: tried, and left out (docs/log.md).

An additive model of log speed, fitted by backfitting (Buja, Hastie and Tibshirani, "Linear Smoothers and Additive
Models", 1989): a level for each problem, one effect for each choice, shrunk towards 0. `tune with records` in
landscapes.py believes in it before anything was judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernelwright.types import OptionValue, Point, Template, value

SWEEPS = 8
SHRINKAGE = 4.0
"""Imaginary records of effect 0 that each choice begins with: a few records of one problem say little of the next."""
STEP = 0.02
"""Log speed that a value is believed to lose, beside its effect, that is not its parameter's first."""

Choice = tuple[str, str, type, OptionValue]
"""Template, parameter, and a value with its type: True and 1 are equal, and not the same choice."""


@value
class Seen:
    """One judged schedule of an earlier problem."""

    problem: str
    """Its digest."""
    template: str
    point: Point
    speed: float
    """Against the baseline; above 0."""


class Prior:
    """Believed log speeds of points, up to a constant.

    Args:
        seen: schedules of other problems.
    """

    def __init__(self, seen: Iterable[Seen] = ()) -> None:
        self._effects = _fitted(tuple(seen))

    def log_speed(self, template: Template, point: Point) -> float:
        """Returns what a point of a template is believed to gain or lose against others of the same template."""
        parameters = template.space.parameters
        later = sum(p.values.index(chosen) > 0 for p, (_, chosen) in zip(parameters, point, strict=True))
        return sum(self._effects.get(c, 0.0) for c in _choices(template.name, point)) - STEP * later


def _choices(template: str, point: Point) -> tuple[Choice, ...]:
    return tuple((template, name, type(chosen), chosen) for name, chosen in point)


def _fitted(seen: tuple[Seen, ...]) -> dict[Choice, float]:
    """Returns the effects of all choices that were seen."""
    rows = [((one.problem, one.template), _choices(one.template, one.point), math.log(one.speed)) for one in seen]
    effects = {choice: 0.0 for _, some, _ in rows for choice in some}
    by_level: dict[tuple[str, str], list[int]] = {}
    by_choice: dict[Choice, list[int]] = {}
    for index, (key, some, _) in enumerate(rows):
        by_level.setdefault(key, []).append(index)
        for choice in some:
            by_choice.setdefault(choice, []).append(index)
    left = [log for _, _, log in rows]
    for _ in range(SWEEPS):
        for members in by_level.values():
            change = sum(left[i] for i in members) / len(members)
            for i in members:
                left[i] -= change
        for choice, members in by_choice.items():
            total = sum(left[i] for i in members) + len(members) * effects[choice]
            change = total / (len(members) + SHRINKAGE) - effects[choice]
            effects[choice] += change
            for i in members:
                left[i] -= change
    return effects
