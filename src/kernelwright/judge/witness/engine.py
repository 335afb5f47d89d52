"""How a candidate is called on one device: the processor's way, and what another device has to offer.

The device-independent part (holder.py) asks an engine for arguments, has it run a block and copy results away.
Not here: the CUDA engine (cuda.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from kernelwright.judge.witness.memory import Memory, Place

_Base = torch._C.TensorBase
_clone, _contiguous, _is_contiguous, _data_ptr = _Base.clone, _Base.contiguous, _Base.is_contiguous, _Base.data_ptr
_clock = time.perf_counter_ns
_inference_mode, _no_grad = torch.inference_mode, torch.no_grad

Calls = tuple[list[Any], list[int], list[int]]
"""Results, starts and ends in nanoseconds of CLOCK_MONOTONIC."""


class Engine(Protocol):
    """What a device must offer.

    **Covers**: arguments with the judge's contents, timed calls, copies of results into the judge's memory.
    **Does not cover**: whether results are what they should be (structure.py).
    """

    device: str
    inference: bool
    """Calls run under inference_mode, as baselines do; False: under no_grad, for candidates that it refuses."""
    left_on: bool
    """The last block left autocast or the gradient mode changed. Seen here, since leaving the mode undoes it."""

    @property
    def method(self) -> str:
        """How calls are timed, in words for the record."""
        ...

    def arguments(self, slot: int, *, moved: bool) -> tuple[Any, ...]:
        """Returns new tensors with a slot's present contents; moved: at addresses that no call has seen."""
        ...

    kept: bool
    """The last block's results lie in memory that the candidate keeps: an earlier call returned the same."""

    def prepare(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
        """Makes ready what `run` needs for these arguments; nothing is timed."""
        ...

    def run(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        """Calls once on each of the arguments, in order, and returns when all work is done."""
        ...

    def recorded(self, go: Callable[[], object], marks: Sequence[int]) -> dict[str, Any]:
        """Has `go` run a block; returns what the device ran for it between copies of so many bytes (spans.py)."""
        del marks
        go()
        return {"why": "it has no streams"}

    def fetch(self, index: int, slot: int, tensor: Any) -> None:
        """Copies a checked output into the judge's memory."""
        ...

    def spoiled(self, slot: int, arguments: tuple[Any, ...]) -> str:
        """Returns the name of an input that a call has written to, empty when none was."""
        ...

    def same(self, place: Place, slot: int, tensor: Any) -> bool:
        """Tells whether a tensor still holds what the judge gave, bit for bit."""
        ...


_autocast, _grad_mode = torch.is_autocast_enabled, torch.is_grad_enabled


def modes() -> tuple[bool, ...]:
    """Returns autocast on either device and the gradient mode."""
    return _autocast("cpu"), _autocast("cuda"), _grad_mode()


class Processor(Engine):
    """The CPU: inputs are the judge's memory itself, seen through a private mapping."""

    device = "cpu"
    method = "called from Python in a process of its own"
    kept = False
    """Seen by the memory of a block's results, which all live until its end."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.inference, self.left_on = True, False

    def arguments(self, slot: int, *, moved: bool) -> tuple[Any, ...]:
        """Returns views of the slot, or copies of it at new addresses."""
        views = tuple(self._memory.view(place, slot) for place in self._memory.inputs)
        return tuple(_clone(view) for view in views) if moved else views

    def prepare(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
        """Nothing: Python is called as it is."""

    def run(self, call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Calls:
        """Calls once on each of the arguments; results are kept until the end."""
        results: list[Any] = []
        starts: list[int] = []
        ends: list[int] = []
        clock = _clock
        with _inference_mode() if self.inference else _no_grad():
            before = modes()
            for given in arguments:
                start = clock()
                result = call(*given)
                end = clock()
                results.append(result)
                starts.append(start)
                ends.append(end)
            self.left_on = modes() != before
        return results, starts, ends

    def fetch(self, index: int, slot: int, tensor: Any) -> None:
        """Copies the bytes of a tensor, row-major."""
        self._memory.write(index, slot, _data_ptr(tensor if _is_contiguous(tensor) else _contiguous(tensor)))

    def spoiled(self, slot: int, arguments: tuple[Any, ...]) -> str:
        """Returns the name of an input that a call has written to."""
        del arguments
        return self._memory.spoiled(slot)

    def same(self, place: Place, slot: int, tensor: Any) -> bool:
        """Tells whether a tensor still holds what the judge gave, bit for bit."""
        plain = tensor if _is_contiguous(tensor) else _contiguous(tensor)
        return self._memory.matches(place, slot, _data_ptr(plain))
