"""Every example runs, and ends as its text says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_examples_are_run_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {"optimize_function", "softmax"}


def test_a_function_is_optimised() -> None:
    record = load("optimize_function").main(budget_s=3.0)
    assert record is not None
    assert record.passed


def test_a_kernel_by_hand_passes() -> None:
    assert load("softmax").main().passed
