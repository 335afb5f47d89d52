"""Contents of every family for a last block on a device, which looks to the candidate like any other.

As surprises.py on the CPU: the same graph is replayed on the same slots, some of which hold contents of families.

Covers: what holds on ordinary contents only, in any call after the checks.
Does not cover: families of parameters where inputs hold no free numbers; of large problems all families: there a
    random few (SURPRISED_ELEMENTS), since each is compared with a float64 evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from kernelwright.judge.device.draws import DeviceDraws
from kernelwright.judge.inputs import fill_family, is_free
from kernelwright.judge.structured import STRUCTURED
from kernelwright.judge.surprises import KEEPS_VALUES, LEAST_FACTOR, ORDINARY

SURPRISED_ELEMENTS = 1 << 26
"""Elements of inputs and outputs that one candidate is surprised with."""


def families(draws: DeviceDraws, wanted: Sequence[str], elements: int, rng: np.random.Generator) -> list[str]:
    """Returns the families that come, in random order.

    Args:
        draws: of the session; only families with a kept draw can come.
        wanted: the policy's.
        elements: of one slot.
        rng: the session's secret generator.
    """
    given = draws.make_inputs(draws.seed("surprises"))
    free = any(is_free(spec, tensor) for spec, tensor in zip(draws.problem.inputs, given, strict=True))
    kept = {draw.family for draw in draws.every()}
    possible = [f for f in wanted if f in kept and f not in ORDINARY and (free or f in STRUCTURED)]
    most = max(1, SURPRISED_ELEMENTS // max(1, elements))
    return [possible[at] for at in rng.permutation(len(possible))[:most]]


def write(draws: DeviceDraws, family: str, into: Sequence[torch.Tensor], rng: np.random.Generator) -> None:
    """Gives a slot's inputs contents of a family that no call has seen."""
    specs = draws.problem.inputs
    if family in STRUCTURED:
        seed = int(rng.integers(1 << 62))
        made = fill_family(family, specs, draws.make_inputs(seed), seed)
        for tensor, values in zip(into, made or (), strict=bool(made)):
            tensor.copy_(values)
        return
    found = [draw for draw in draws.every() if draw.family == family]
    draw = found[int(rng.integers(len(found)))]
    # Parts in another place and all of it smaller by one factor: as ill-conditioned as it was, and finite.
    factor = 1.0 if family in KEEPS_VALUES else float(rng.uniform(LEAST_FACTOR, 1.0))
    for tensor, source, spec in zip(into, draw.inputs, specs, strict=True):
        limited = spec.low is not None or spec.high is not None or not source.is_floating_point()
        shift = int(rng.integers(source.shape[0])) if source.dim() and len(source) and not limited else 0
        rolled = source.roll(shift, 0) if shift else source
        tensor.copy_(rolled if limited else rolled * factor)
