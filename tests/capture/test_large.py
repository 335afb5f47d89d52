"""Large inputs that the tool itself draws: drawn once, and every refusal stands."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright import reference_program
from kernelwright.capture import completing, memory
from kernelwright.capture.source import draft
from kernelwright.errors import SourceError
from kernelwright.graph import Capture
from kernelwright.types import TensorSpec

SOURCE = """import torch
import torch.nn.functional as F
CALLS = []
def scaled(x, n): return torch.softmax(x, dim=-1) * n
def positive(x, n): return x[x > 0]
def dropped(x, n): return F.dropout(x)
def spoiled(x, n): return x.add_(1)
def counted(x, n):
    CALLS.append(1)
    return x * len(CALLS)
def endless(x, n): return x / 0.0
"""
INPUTS = ("float32[64,33]", "int64[64,1]=1..5")


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completing, "LARGE_ELEMENTS", 1000)
    monkeypatch.setattr(completing, "CHANGED_ELEMENTS", 100)
    monkeypatch.setattr(memory, "limit", lambda: 1 << 33)


def captured(folder: Path, name: str) -> Capture:
    path = folder / "ops.py"
    path.write_text(SOURCE)
    threads = torch.get_num_threads()
    try:
        return completing.complete(draft(f"{path}:{name}", inputs=INPUTS), lambda _: None)
    finally:
        torch.set_num_threads(threads)


def test_inputs_are_drawn_once_and_the_capture_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, ...]] = []
    plain = reference_program.draw

    def counting(spec: TensorSpec, generator: torch.Generator) -> torch.Tensor:
        drawn.append(spec.shape)
        return plain(spec, generator)

    monkeypatch.setattr(reference_program, "draw", counting)
    monkeypatch.setattr(completing, "draw", counting)
    quick = captured(tmp_path, "scaled")
    assert drawn == [(64, 33), (64, 1), (100,), (64,)]
    monkeypatch.setattr(completing, "LARGE_ELEMENTS", 1 << 24)
    assert captured(tmp_path, "scaled") == quick
    assert quick.graph is not None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("positive", "in one draw and"),
        ("dropped", "not deterministic"),
        ("spoiled", "changes its input x"),
        ("counted", "not deterministic|another one each time"),
        ("endless", "infinit|not finite|inf"),
    ],
)
def test_what_cannot_be_judged_against_is_still_refused(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=words):
        captured(tmp_path, name)
