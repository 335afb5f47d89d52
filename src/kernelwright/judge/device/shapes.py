"""Hidden shapes on the device: the sizes that judge/shapes.py chooses, with draws and memory there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from kernelwright.axes import problem_at, sizes_of
from kernelwright.judge.device.arena import DeviceSlots
from kernelwright.judge.device.draws import DeviceDraws
from kernelwright.judge.shapes import LEAST_BYTES, hidden_sizes, tensor_bytes
from kernelwright.types import Problem

MEMORY_PART = 64
"""The part of the free device memory that one shape's tensors may hold, and its kept draws."""


@dataclass(frozen=True, slots=True)
class DeviceShape:
    """One hidden shape with draws and memory of its own."""

    sizes: dict[str, int]
    draws: DeviceDraws
    slots: DeviceSlots

    @property
    def text(self) -> str:
        """Returns the sizes in words."""
        return ", ".join(f"{name}={size}" for name, size in self.sizes.items())


def make_device_shapes(
    problem: Problem, count: int, rng: np.random.Generator, device: torch.device, *, secret: int, free_bytes: int
) -> tuple[DeviceShape, ...]:
    """Returns the hidden shapes of a session, with two slots each."""
    most = min(max(LEAST_BYTES, 2 * tensor_bytes(problem)), free_bytes // MEMORY_PART)
    made = []
    for sizes in hidden_sizes(problem, count, rng, most):
        at = problem_at(problem, sizes)
        draws = DeviceDraws(at, device, secret=secret, most_bytes=free_bytes / MEMORY_PART)
        slots = DeviceSlots(at, device, cache_bytes=1, free_bytes=free_bytes, most=2)
        made.append(DeviceShape(sizes_of(at), draws, slots))
    return tuple(made)
