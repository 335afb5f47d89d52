"""What each parameter's values seem to be worth, from few judged points of one template.

An additive model of log speed: a sum of one effect for each choice, fitted by backfitting (Buja,
Hastie and Tibshirani, "Linear Smoothers and Additive Models", 1989) with shrinkage towards 0.
Not here: interactions between parameters; coordinate search and crossover find those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from kernelwright.types import OptionValue, Point, Space

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
