"""Kernels from Python: text, tuning, export, tile kernels' files; and functions as files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernelwright
from kernelwright.authoring.source import source_of
from kernelwright.errors import SourceError, UserError
from kernelwright.testing.strategies import fake_record
from kernelwright.types import Candidate, Measurement, Policy, Problem, Record, Target, digest

FACTOR = 2.5
LIMITS = (1, math.inf)


def doubled(x: Any) -> Any:
    return x * FACTOR


def reference(x: Any) -> Any:
    return torch.relu(doubled(x))


class FakeJudge:
    """Passes every candidate; the larger its STEP, the faster."""

    def __init__(self, problem: Problem, target: Target, *, on_event: Callable[..., None] | None = None) -> None:
        self.target = target

    def __enter__(self) -> FakeJudge:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        for candidate in candidates:
            step = int(dict(candidate.point)["STEP"])
            yield fake_record(candidate, digest(policy), 50.0 / step, target=digest(self.target))

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        return ()

    def prepare(self, policy: Policy) -> None:
        return None


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path


def written() -> Any:
    @kernelwright.kernel(reference=reference, inputs=(torch.empty(4, 64),), tune={"STEP": (1, 2, 4)}, judge=FakeJudge)
    def steps(STEP: int) -> str:
        return f"""#include <cstdint>
extern "C" void steps(const float* x, float* out) {{
  for (int64_t i = 0; i < 256; i += {STEP})
    for (int64_t j = i; j < i + {STEP}; ++j) out[j] = x[j] > 0 ? x[j] * 2.5f : 0;
}}
"""

    return steps


def test_a_kernel_is_judged_tuned_exported_and_called() -> None:
    steps = written()
    assert "not judged" in repr(steps)
    assert steps.judge(policy="screen").passed
    steps.tune(budget_s=60.0, seed=1)
    assert "i += 4" in steps.text()
    assert "i += 2" in steps.text(STEP=2)
    op = steps.load()
    x = torch.randn(4, 64)
    assert torch.equal(op(x), torch.relu(x * 2.5))
    assert op.launched() == 1


def test_a_triton_kernel_becomes_a_file_with_its_launch() -> None:
    @kernelwright.kernel(
        reference=reference,
        inputs=("float32[4,64]",),
        launch="grid=1 BLOCK={BLOCK} num_warps=4",
        tune={"BLOCK": (256, 512)},
    )
    @triton.jit  # type: ignore[untyped-decorator]
    def bend(x_ptr, out_ptr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < 256)
        tl.store(out_ptr + at, tl.maximum(x * 2.5, 0.0), mask=at < 256)

    candidate = bend.candidate()
    assert candidate.language == "triton"
    assert "BLOCK=256" in candidate.sources[0].text
    assert "reference" not in candidate.sources[0].text
    with pytest.raises(UserError, match="without `launch`"):
        kernelwright.kernel(reference=reference, inputs=("float32[4]",))(triton.jit(doubled))


def test_a_function_is_a_file_with_what_it_uses() -> None:
    text = source_of(reference)
    space: dict[str, Any] = {}
    exec(text, space)
    assert torch.equal(space["reference"](torch.ones(2)), torch.full((2,), 2.5))
    assert text.index("FACTOR = 2.5") < text.index("def doubled") < text.index("def reference")
    assert "import torch as torch" in text

    def limited(x: Any) -> Any:
        return x.clamp(*LIMITS)

    assert "LIMITS = (1, float('inf'), )" in source_of(limited)


def test_what_no_file_can_hold_is_named() -> None:
    outer = 3

    def closes(x: Any) -> Any:
        return x * outer

    with pytest.raises(SourceError, match="uses outer of the function around it"):
        source_of(closes)
    with pytest.raises(SourceError, match="no function with a name"):
        source_of(lambda x: x)
    with pytest.raises(SourceError, match="uses home_of_all, a object"):
        source_of(_uses_object)


home_of_all = object()


def _uses_object(x: Any) -> Any:
    return x, home_of_all
