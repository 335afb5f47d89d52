"""What was measured of kernels in place, kept for the next process: a model's start must not measure the same again.

A decision is of one graph with these inputs, these kernels, this torch, processor and device; it does not know that
the machine was busy, so that `options={"measure": "again"}` exists.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from kernelwright import environment
from kernelwright.languages.hardware import cpu_identity
from kernelwright.types import digest, value


@value
class Placed:
    """Kernels in their places in one graph, against Inductor alone."""

    names: tuple[str, ...]
    """Of the operators; several: all that won by themselves, together."""
    calls: int
    low: float | None = None
    middle: float | None = None
    """How many times as fast the whole graph is: the median of alternating rounds, and the limits that enclose it."""
    high: float | None = None
    reason: str = ""
    """Why it was not timed."""

    @property
    def kept(self) -> bool:
        """Tells whether the kernels stay: the whole interval lies above 1."""
        return self.low is not None and self.low > 1

    def __str__(self) -> str:
        said = self.reason or f"{self.middle:.2f}x ({self.low:.2f} to {self.high:.2f})"
        return f"{' + '.join(self.names)} in place, {self.calls} times: {said}: {'kept' if self.kept else 'left out'}"


DECIDED: list[Placed] = []
"""All decisions of this process, in order."""


def key_of(graph: str, names: Sequence[str], inputs: Sequence[torch.Tensor], mode: str) -> str:
    """Returns what a decision is kept under."""
    forms = tuple(f"{t.dtype} {tuple(t.shape)} {t.stride()} {t.device.type} {t.requires_grad}" for t in inputs)
    device = next((torch.cuda.get_device_name(t.device) for t in inputs if t.is_cuda), cpu_identity())
    grad = str(torch.is_grad_enabled())
    said = (graph, tuple(names), forms, device, str(torch.get_num_threads()), torch.__version__, grad, mode)
    return digest(said).rpartition(":")[2][:24]


def recall(key: str) -> Placed | None:
    """Returns a kept decision, None where there is none that can be read."""
    try:
        data = json.loads(_path(key).read_text(encoding="utf-8"))
        return Placed(**data | {"names": tuple(data["names"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(key: str, placed: Placed) -> None:
    """Keeps a decision; a home that cannot be written only costs the next process its time."""
    path = _path(key)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(placed)), encoding="utf-8")
        os.replace(unfinished, path)


def _path(key: str) -> Path:
    return environment.home() / "placed" / f"{key}.json"
