"""Draws on the device: what judge/draws.py makes, lying there, with what is allowed for every output sealed.

One set for the problem as it stands (session.py), and one for each hidden shape.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernelwright.judge.correctness import Bound
from kernelwright.judge.device.sealing import SealedBounds
from kernelwright.judge.draws import AnyDraws, Facts, Tensors
from kernelwright.types import Problem

__all__ = ["DeviceDraw", "DeviceDraws", "Facts"]


@dataclass(frozen=True, slots=True)
class DeviceDraw:
    """One set of inputs and parameters with what is allowed for every output, sealed."""

    family: str
    number: int
    inputs: Tensors
    parameters: Tensors
    bounds: SealedBounds

    @property
    def size_bytes(self) -> int:
        """Returns about how much device memory the draw holds."""
        return sum(t.numel() * t.element_size() for t in (*self.inputs, *self.parameters)) + self.bounds.size_bytes


class DeviceDraws(AnyDraws[DeviceDraw]):
    """All draws of one problem on a device; `bounds_of` and `closer_bounds` must be dropped before a candidate runs."""

    def __init__(
        self, problem: Problem, device: torch.device, *, secret: int, most_bytes: float, known: Facts | None = None
    ) -> None:
        self.device = device
        super().__init__(problem, secret, most_bytes, device=device, known=known)

    def _made(
        self, family: str, number: int, inputs: Tensors, parameters: Tensors, bounds: tuple[Bound, ...], exact: Tensors
    ) -> DeviceDraw:
        return DeviceDraw(family, number, inputs, parameters, SealedBounds(bounds, self.device))
