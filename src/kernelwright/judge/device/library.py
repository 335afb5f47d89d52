"""Calls of vendor libraries as plan steps, through torch: it has them loaded, and its handles can be captured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from kernelwright.judge.device.faults import refused
from kernelwright.types import Step

Routine = Callable[[list[torch.Tensor], Mapping[str, object]], None]


def _matmul(tensors: list[torch.Tensor], options: Mapping[str, object]) -> None:
    """out = op(a) @ op(b): arguments a, b, out; options transpose_a, transpose_b."""
    a, b, out = tensors
    left = a.transpose(-1, -2) if options.get("transpose_a") else a
    right = b.transpose(-1, -2) if options.get("transpose_b") else b
    torch.matmul(left, right, out=out)


def _addmm(tensors: list[torch.Tensor], options: Mapping[str, object]) -> None:
    """out = bias + op(a) @ op(b): arguments bias, a, b, out."""
    bias, a, b, out = tensors
    left = a.t() if options.get("transpose_a") else a
    right = b.t() if options.get("transpose_b") else b
    torch.addmm(bias, left, right, out=out)


ROUTINES: dict[str, Routine] = {"matmul": _matmul, "addmm": _addmm}


def call_of(step: Step, views: Mapping[str, torch.Tensor]) -> Callable[[], None]:
    """Returns the call that a library step stands for.

    Raises:
        DeviceFault: for a routine that is not known, or arguments it cannot take.
    """
    routine = ROUTINES.get(step.symbol)
    if routine is None:
        message = f"there is no library routine {step.symbol!r}; known are {', '.join(ROUTINES)}"
        raise refused("load", "library", message)
    tensors = [views[binding.name] for binding in step.arguments]
    options = dict(step.options)

    def call() -> None:
        try:
            with torch.inference_mode():
                routine(tensors, options)
        except (RuntimeError, ValueError) as error:
            raise refused("run", "library", f"{step.symbol}: {str(error).splitlines()[0]}") from None

    return call
