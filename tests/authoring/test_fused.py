"""fuse: the reference that is made of a NumPy function, kinds of arrays, disagreement with NumPy, the disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.deploy.making import bundle, problem

import kernelwright
from kernelwright import api
from kernelwright.authoring import fused as fusing
from kernelwright.types import SourceFile, TensorSpec, replace


def bent(x: Any) -> Any:
    return np.maximum(x * 0.5, 0)


def columns(x: Any, y: Any) -> Any:
    return np.sqrt(x * x + y * y).sum(axis=1), np.linalg.norm(x)


KERNEL = """#include <cstdint>
extern "C" void bent(const float* x0, float* out) {
  for (int64_t i = 0; i < 512; ++i) out[i] = x0[i] > 0 ? x0[i] * 0.5f : 0;
}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path


def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: str = KERNEL) -> list[str]:
    """Lets the search find a kernel by hand; returns the sources that were asked for."""
    asked: list[str] = []

    def optimize(source: str, **_: Any) -> Any:
        asked.append(source)
        return SimpleNamespace(answer="kernel")

    def export(_: Any, out: Path, **__: Any) -> Path:
        text = Path(asked[-1].rpartition(":")[0]).read_text()
        x = TensorSpec(name="x0", shape=(8, 64), dtype="float32", role="input")
        what = replace(
            problem(name="bent", dynamic=False), inputs=(x,), parameters=(), entry="fused",
            reference=(SourceFile(path="bent.py", text=text),),
            workloads=(replace(problem().workloads[0], generator="spec"),),
        )  # fmt: skip
        made = bundle(tmp_path / "made", kernel, what)
        out.parent.mkdir(parents=True, exist_ok=True)
        return made.rename(out)

    monkeypatch.setattr(api, "optimize", optimize)
    monkeypatch.setattr(fusing, "export", export)
    monkeypatch.setattr(fusing, "recollect", lambda _: None)
    return asked


def test_the_reference_is_the_same_function_over_tensors() -> None:
    text = kernelwright.fuse(columns).text(2)
    space: dict[str, Any] = {}
    exec(text, space)
    x, y = np.random.default_rng(0).random((2, 4, 8), dtype=np.float32)
    rows, norm = space["fused"](torch.from_numpy(x), torch.from_numpy(y))
    assert np.allclose(rows.numpy(), columns(x, y)[0], rtol=1e-6)
    assert np.allclose(norm.numpy(), columns(x, y)[1], rtol=1e-6)
    assert "import torch._numpy as np" in text


def test_a_fused_function_gives_the_kind_of_array_that_came_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = found(tmp_path, monkeypatch)
    fast = kernelwright.fuse(bent)
    x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)
    for _ in range(4):
        made = fast(x)
        assert isinstance(made, np.ndarray)
        assert np.array_equal(made, bent(x))
    assert isinstance(fast(torch.from_numpy(x)), torch.Tensor)
    assert len(asked) == 1
    again = kernelwright.fuse(bent)  # the next process finds it on the disk
    assert np.array_equal(again(x), bent(x))
    assert len(asked) == 1
    assert next(iter(again._operators.values())).launched() == 1
    assert fast.prepare(x) == ""


@pytest.mark.parametrize("offset", range(4))
def test_arrays_anywhere_in_memory_reach_the_kernel(
    offset: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(tmp_path, monkeypatch)
    fast = kernelwright.fuse(bent)
    memory = np.linspace(-1, 1, 520, dtype=np.float32)
    x = memory[offset : offset + 512].reshape(8, 64)
    for turned in (x, x.T.copy().T):
        assert np.array_equal(fast(turned), bent(turned))
    assert next(iter(fast._operators.values())).launched() == 2


def test_numpy_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found(tmp_path, monkeypatch, KERNEL.replace("0.5f", "0.75f"))
    fast = kernelwright.fuse(bent)
    x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64)
    for _ in range(3):
        assert np.array_equal(fast(x), bent(x))
    assert "NumPy says otherwise" in next(iter(fast._operators.values())).watch.reason


def test_without_a_winner_numpy_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = SimpleNamespace(answer="baseline", why="eager is faster")
    monkeypatch.setattr(api, "optimize", lambda *_, **__: answer)
    fast = kernelwright.fuse(bent)
    x = np.ones(3, dtype=np.float32)
    assert np.array_equal(fast(x), bent(x))
    assert "eager is faster" in fast.prepare(x)
    assert fast(2.0) == 1.0  # no array: NumPy's own business
    never = kernelwright.fuse(when_called=False)(bent)
    assert np.array_equal(never(x), bent(x))
    assert not never._operators
