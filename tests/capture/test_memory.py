from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.capture import memory
from kernelwright.errors import SourceError
from kernelwright.graph import Capture
from kernelwright.types import TensorSpec

FILE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.empty({})]
def get_init_inputs():
    return []
"""


def test_tensors_that_fit_but_cannot_be_judged_are_refused_before_they_are_touched(
    load: Callable[..., Capture], write: Callable[..., Path]
) -> None:
    elements = int(0.7 * memory.available_bytes()) // 4
    with pytest.raises(SourceError) as caught:
        load(write(FILE.format(elements)))
    own, need, free = map(float, re.findall(r"([\d.]+) GB", caught.value.message))
    assert own == pytest.approx(4e-9 * elements, abs=0.06)
    assert need == pytest.approx(7 * own, rel=0.02)  # Three copies in float32, two in float64.
    assert own < free < need
    share = float(re.findall(r"at most (\d+)%", caught.value.fix)[0]) / 100
    assert share == pytest.approx(free / need, abs=0.02)


def test_an_allocation_beyond_the_available_memory_fails_and_kills_nothing(
    load: Callable[..., Capture], write: Callable[..., Path]
) -> None:
    elements = int(1.3 * memory.available_bytes()) // 4
    with pytest.raises(SourceError, match=r"it asks for .* GB at once, but .* GB were available"):
        load(write(FILE.format(elements)))
    assert load(write(FILE.replace("empty", "ones").format(1000))).problem.min_bytes == 8000


def test_the_check_counts_every_copy() -> None:
    spec = TensorSpec(name="x", shape=(1000,), dtype="float32", role="input")
    memory.check([spec], 3 * 4000 + 2 * 8000)
    with pytest.raises(SourceError, match="too little memory"):
        memory.check([spec], 3 * 4000 + 2 * 8000 - 1)
