"""What the device judge needs of a device, so that its logic can be tested without one.

`cuda_executor.py` is the real one; tests have one whose kernels are Python functions on CPU tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from kernelwright.judge.device.limits import DeviceLimits, KernelFacts
from kernelwright.types import Candidate, LaunchPlan


@dataclass(frozen=True, slots=True)
class Span:
    """How long something took."""

    device_us: float
    """Between two events in the stream, round everything that was enqueued between them."""
    wall_us: float
    """By the host's clock, from before the first launch until the second event was seen."""


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan with the addresses of one slot: ready to be issued any number of times."""

    calls: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A candidate's code on the device."""

    handle: Any
    kernels: Mapping[str, tuple[Any, KernelFacts]]
    checked: dict[Any, Any] = field(default_factory=dict)
    """Launches that were checked already: only addresses differ between slots."""


class Replay(Protocol):
    """Captured work that can be enqueued at the cost of one launch.

    **Covers**: enqueueing. **Does not cover**: waiting for it.
    """

    def launch(self) -> None:
        """Enqueues the work."""


class Executor(Protocol):
    """One device.

    **Covers**: loading, launching, capturing, timing, waiting with a deadline, overwriting what is left in memory.
    **Does not cover**: what is right (examine.py), what a time means (rounds.py).

    Every method may raise `DeviceFault`.
    """

    device: torch.device
    limits: DeviceLimits

    def load(self, blob: bytes, candidate: Candidate) -> Loaded:
        """Loads a candidate's cubin and asks for the facts of every kernel that its plan names."""
        ...

    def unload(self, loaded: Loaded) -> None:
        """Gives the code's memory back."""
        ...

    def bind(
        self,
        loaded: Loaded,
        plan: LaunchPlan,
        addresses: Mapping[str, int],
        views: Mapping[str, torch.Tensor],
        axes: Mapping[str, int],
    ) -> BoundPlan:
        """Checks every launch of a plan, and packs its arguments."""
        ...

    def issue(self, bound: BoundPlan) -> None:
        """Enqueues one execution of a plan."""
        ...

    def capture(self, work: Callable[[], object]) -> Replay:
        """Runs `work` once without executing what it enqueues, and returns that as one launch."""
        ...

    def timed(self, launch: Callable[[], object], *, deadline_s: float, during: str) -> Span:
        """Calls `launch` between two events and waits for the second."""
        ...

    def wait(self, *, deadline_s: float, during: str) -> None:
        """Waits for everything that was enqueued."""
        ...

    def flush(self) -> None:
        """Evicts what lies in the level-2 cache."""
        ...

    def perturb(self, byte: int) -> None:
        """Fills what a kernel finds undefined in every multiprocessor (shared memory, registers) with a pattern."""
        ...

    def scrub(self) -> None:
        """Overwrites all memory that the allocator holds in reserve."""
        ...

    def free_bytes(self) -> int:
        """Returns the device memory that can still be had."""
        ...
