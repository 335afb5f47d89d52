"""Contents of every family for calls that look to a candidate like timed ones.

Timed rounds bring ordinary contents. A kernel that knows checks from timed calls (only checks bring the same
contents twice) could be careless in the latter where ordinary contents forgive it: leave out what a row far from
zero, an infinity, a mask that hides everything or equal indices need. So some rounds are surprises (examine.py): fresh
slots, as many calls, the same poison, but a slot for each family among them, and nobody's time is taken.

Covers: what holds on ordinary contents only, in any call after the checks.
Does not cover: families of parameters where inputs hold no free numbers (the parameters are all slots' at once);
    of large problems (SURPRISED_ELEMENTS) all families: there a random few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from kernelwright.judge.draws import AnyDraw, AnyDraws
from kernelwright.judge.inputs import EXACT, fill_structured, is_free
from kernelwright.judge.integrity import Profile, profiles_of
from kernelwright.judge.structured import STRUCTURED

SURPRISED_ELEMENTS = 1 << 27
"""Elements of inputs and outputs of all slots that one candidate is surprised with."""
LEAST_FACTOR = 0.5
ORDINARY = ("given", "normal", "uniform", EXACT)
"""Families that timed rounds are no different from; small integers are not exact beside other parameters."""
KEEPS_VALUES = ("integers",)


class Surprises:
    """Writes contents of families, made from the session's draws.

    Args:
        draws: of the session; only those that are kept are used.
        rng: the session's secret generator.
        most_elements: of inputs and outputs of all slots that one candidate is surprised with.
    """

    def __init__(
        self, draws: AnyDraws[Any], rng: np.random.Generator, *, most_elements: int = SURPRISED_ELEMENTS
    ) -> None:
        self._draws, self._rng, self._most_elements = draws, rng, most_elements
        given = draws.reference.make_inputs(draws.seed("surprises"))
        self._specs = draws.problem.inputs
        self._free = [is_free(spec, tensor) for spec, tensor in zip(self._specs, given, strict=True)]
        self._profiles: dict[str, tuple[Profile | None, ...]] = {}

    def families(self, wanted: Sequence[str], elements: int) -> list[str]:
        """Returns which families can come, in random order.

        Args:
            wanted: the policy's.
            elements: of one slot.
        """
        kept = {draw.family for draw in self._draws.every()}
        possible = [
            family
            for family in wanted
            if family in kept
            and family not in ORDINARY
            and (any(self._draws.structures) if family in STRUCTURED else any(self._free))
        ]
        most = max(1, self._most_elements // max(1, elements))
        return [possible[at] for at in self._rng.permutation(len(possible))[:most]]

    def write(self, family: str, into: Sequence[torch.Tensor]) -> None:
        """Gives a refreshed slot's inputs contents of a family that no call has seen."""
        if family in STRUCTURED:
            near = [t.cpu() if s else t for t, s in zip(into, self._draws.structures, strict=True)]
            varied = fill_structured(family, self._draws.structures, near, int(self._rng.integers(1 << 62)))
            for tensor, structure, made in zip(into, self._draws.structures, varied or into, strict=True):
                if structure is not None:
                    tensor.copy_(made)
            return
        draw = self._of(family)
        # Parts in another place and all of it smaller by one factor: as ill-conditioned as it was, and finite.
        factor = 1.0 if family in KEEPS_VALUES else float(self._rng.uniform(LEAST_FACTOR, 1.0))
        for tensor, source, spec, free in zip(into, draw.inputs, self._specs, self._free, strict=True):
            if free:
                limited = spec.low is not None or spec.high is not None
                shift = int(self._rng.integers(source.shape[0])) if source.dim() and len(source) else 0
                torch.mul(source.roll(shift, 0) if source.dim() else source, 1.0 if limited else factor, out=tensor)

    def _of(self, family: str) -> AnyDraw:
        found: list[AnyDraw] = [draw for draw in self._draws.every() if draw.family == family]
        return found[int(self._rng.integers(len(found)))]

    def profiles(self, family: str) -> tuple[Profile | None, ...]:
        """Returns how far two right answers may lie apart on contents of a family."""
        if family not in self._profiles:
            self._profiles[family] = profiles_of([d.limits for d in self._draws.every() if d.family == family])
        return self._profiles[family]
