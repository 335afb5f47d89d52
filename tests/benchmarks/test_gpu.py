"""The GPU benchmark's table: sizes that really are in the references, and a page that any cut-off run can write."""

from __future__ import annotations

import ast

import pytest

from benchmarks import gpu, gpu_problems
from kernelwright import problems

WON = {
    "problem": "softmax", "shape": "8 x 8", "template": "cuda-loops", "answer": "kernel", "judged": 20, "seconds": 12.0,
    "error": "", "kernel_us": 50.0, "floor_us": 40.0, "noise": 0.004, "method": "CUDA events",
    "eager": {"name": "eager", "ratio": 2.0, "low": 1.98, "high": 2.02},
    "hardest": {"name": "graph:eager", "ratio": 1.25, "low": 1.24, "high": 1.26},
}  # fmt: skip
SLOWER = {**WON, "template": "triton-loops", "kernel_us": 60.0, "hardest": {**WON["hardest"], "ratio": 1.04}}  # type: ignore[dict-item]
LOST = {**WON, "problem": "rms_norm", "hardest": {"name": "eager", "ratio": 0.9, "low": 0.89, "high": 0.91}}
BROKEN = {"problem": "cumsum", "shape": "-", "template": "-", "error": "ValueError: a | b"}


@pytest.mark.parametrize("name", gpu_problems.SIZES)
def test_every_number_is_in_the_reference_and_only_it_changes(name: str) -> None:
    text, plain = gpu_problems.source(name), problems.source_text(name)
    ast.parse(text)
    changed = [new for new, old in zip(text.splitlines(), plain.splitlines(), strict=True) if new != old]
    assert changed
    assert set(changed) == {f"{key} = {number}" for key, number in gpu_problems.SIZES[name].items()}


def test_a_number_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gpu_problems.SIZES, "softmax", {"width": 3})
    with pytest.raises(ValueError, match="softmax has 0 lines that set width"):
        gpu_problems.source("softmax")


def test_the_page_counts_each_problems_fastest_template() -> None:
    data = {
        "device": "a GPU", "tools": "nvrtc 13", "when": "2026-01-01", "baselines": ["eager", "graph:eager"],
        "rows": {str(number): row for number, row in enumerate((LOST, SLOWER, WON, BROKEN))},
    }  # fmt: skip
    page = gpu.document(data)
    assert gpu.best_rows([SLOWER, WON, LOST, BROKEN]) == [WON, LOST]
    assert "problems with a right kernel: 2 of 3" in page
    assert "faster than every baseline beyond the A/A noise (95 % intervals): 1" in page
    assert "against the hardest baseline: 1.06" in page
    assert "fraction of the device's floor: 0.80" in page
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    assert len({line.count(" | ") for line in lines}) == 1
    assert [line.split(" | ")[0] for line in lines[1:]] == ["| softmax", "| softmax", "| rms_norm", "| cumsum"]
