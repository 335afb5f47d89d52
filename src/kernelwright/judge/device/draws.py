"""Draws on the device: what judge/draws.py makes, lying there, with what is allowed for every output sealed.

One set for the problem as it stands (session.py), and one for each hidden shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright.judge.correctness import Bound
from kernelwright.judge.device.sealing import SealedBounds
from kernelwright.judge.draws import AnyDraws, Draw, Facts, Tensors, moved
from kernelwright.judge.parts import Runs
from kernelwright.types import Problem

__all__ = ["DeviceDraw", "DeviceDraws", "Facts", "HostedDraws"]

HOST = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class DeviceDraw:
    """One set of inputs and parameters with what is allowed for every output, sealed."""

    family: str
    number: int
    inputs: Tensors
    parameters: Tensors
    bounds: SealedBounds

    @property
    def limits(self) -> tuple[Bound, ...]:
        """Its bounds, of single elements unreadable."""
        return self.bounds.sealed

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


class HostedDraws(AnyDraws[Draw]):
    """Draws that lie on the host, whose truth and bounds are found on a device: for candidates in other processes."""

    def __init__(self, problem: Problem, device: torch.device, *, secret: int, most_bytes: float) -> None:
        super().__init__(problem, secret, most_bytes, device=device)
        self.initial = [t.cpu() for t in self.initial]

    def make_inputs(self, seed: int) -> Tensors:
        """Returns the reference's own draw, on the host."""
        return self.reference.make_inputs(seed)

    def own(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> Tensors:
        """Returns the reference's outputs in its own precision, on the host."""
        return tuple(t.cpu() for t in super().own(inputs, parameters))

    def _there(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        return tuple(t.to(self._device) for t in tensors)

    def _made(
        self, family: str, number: int, inputs: Tensors, parameters: Tensors, bounds: tuple[Bound, ...], exact: Tensors
    ) -> Draw:
        return Draw(family, number, inputs, parameters, moved(bounds, HOST), tuple(t.cpu() for t in exact))

    def bounds_of(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> tuple[Bound, ...]:
        """Returns the bounds for any contents, on the host."""
        return moved(super().bounds_of(inputs, parameters), HOST)

    def closer_bounds(
        self,
        inputs: Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
        *,
        runs: Sequence[Runs | None] | None = None,
    ) -> tuple[Bound, ...]:
        """Returns bounds that settle what is doubtful, on the host."""
        return moved(super().closer_bounds(inputs, parameters, runs=runs), HOST)

    def other_bounds(
        self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]
    ) -> tuple[Bound, ...] | None:
        """Returns bounds from the reference as the CPU computes it, on the host."""
        return moved(super().other_bounds(inputs, parameters) or (), HOST)
