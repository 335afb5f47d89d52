"""Hidden shapes: at which other sizes a kernel for dynamic axes is checked, and what is put in there.

Covers: the ends of every range, primes, one more and one less than a multiple of 64, sizes that are no multiple
    of 8. Every kind that a policy has room for is met by every axis, in another order for each.
Does not cover: time (taken at the declared sizes only); sizes beyond the memory that is left for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kernelwright.axes import problem_at, sizes_of
from kernelwright.judge.draws import Draws
from kernelwright.judge.slots import Slots, bytes_of
from kernelwright.types import Axis, Problem

FAMILIES = ("given", "negative", "ascending", "exact", "highest")
"""Of inputs at hidden shapes: those that show what a kernel makes of a tail."""
LEAST_BYTES = 16 << 20
"""What the tensors of a hidden shape may hold together, or twice what the declared one holds where that is more."""
ROOM = 512
"""Primes and the like are drawn up to the declared size and so much more."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One hidden shape with draws and memory of its own."""

    sizes: dict[str, int]
    draws: Draws
    slots: Slots

    @property
    def text(self) -> str:
        """Returns the sizes in words."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


def _low(axis: Axis, rng: np.random.Generator) -> int:
    return axis.low


def _high(axis: Axis, rng: np.random.Generator) -> int:
    return axis.high


def _prime(axis: Axis, rng: np.random.Generator) -> int:
    return _chosen(axis, rng, lambda n: n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)))


def _above(axis: Axis, rng: np.random.Generator) -> int:
    return _chosen(axis, rng, lambda n: n % 64 == 1 and n > 1)


def _below(axis: Axis, rng: np.random.Generator) -> int:
    return _chosen(axis, rng, lambda n: n % 64 == 63)


def _any(axis: Axis, rng: np.random.Generator) -> int:
    return int(rng.integers(axis.low, axis.high + 1))


KINDS = (_prime, _low, _high, _above, _below, _any)
"""Kinds of sizes, the most telling first."""


def _chosen(axis: Axis, rng: np.random.Generator, wanted: Callable[[int], bool]) -> int:
    """Returns a random size of the range that is wanted, odd where none is."""
    top = min(axis.high, axis.size + ROOM)
    bottom = min(axis.low, top)
    found = [n for n in range(max(bottom, top - 2 * ROOM), top + 1) if wanted(n) and n != axis.size]
    found = found or [n for n in range(bottom, min(top, bottom + 2 * ROOM) + 1) if n % 2 and n != axis.size]
    return int(rng.choice(found)) if found else axis.low


def hidden_sizes(problem: Problem, count: int, rng: np.random.Generator, most_bytes: int) -> list[dict[str, int]]:
    """Returns the sizes of all axes for a number of hidden shapes.

    Args:
        problem: at its declared sizes.
        count: how many shapes.
        rng: the session's secret generator.
        most_bytes: what the inputs and outputs of one shape may hold; larger axes are cut down to it.
    """
    kinds = [KINDS[i % len(KINDS)] for i in range(count)]
    columns = {}
    for axis in problem.axes:
        order = rng.permutation(count).tolist()
        columns[axis.name] = [kinds[place](axis, rng) for place in order]
    drawn = [{name: column[i] for name, column in columns.items()} for i in range(count)]
    return [_fitting(problem, sizes, most_bytes) for sizes in drawn]


def _fitting(problem: Problem, sizes: Mapping[str, int], most_bytes: int) -> dict[str, int]:
    """Returns the sizes with those axes that grow most cut down until the tensors fit."""
    found = dict(sizes)
    axes = sorted(problem.axes, key=lambda axis: -found[axis.name] / axis.size)
    for axis in axes:
        low, high = axis.low, found[axis.name]
        if tensor_bytes(problem_at(problem, found)) <= most_bytes:
            break
        while low < high:
            middle = (low + high + 1) // 2
            if tensor_bytes(problem_at(problem, {**found, axis.name: middle})) <= most_bytes:
                low = middle
            else:
                high = middle - 1
        found[axis.name] = low
    return found


def tensor_bytes(problem: Problem) -> int:
    """Returns what a problem's inputs and outputs hold."""
    return sum(bytes_of(spec) for spec in problem.inputs + problem.outputs)


def make_shapes(
    problem: Problem, count: int, rng: np.random.Generator, *, secret: int, free_bytes: int
) -> tuple[Shape, ...]:
    """Returns the hidden shapes of a session, with two slots each; none for a problem without axes."""
    if not problem.axes:
        return ()
    most = min(max(LEAST_BYTES, 2 * tensor_bytes(problem)), free_bytes // 64)
    made = []
    for sizes in hidden_sizes(problem, count, rng, most):
        at = problem_at(problem, sizes)
        draws = Draws(at, secret, free_bytes / 64)
        slots = Slots(at, cache_bytes=1, available_bytes=free_bytes, most=2)
        made.append(Shape(sizes_of(at), draws, slots))
    return tuple(made)
