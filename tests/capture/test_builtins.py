from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright import problems
from kernelwright.capture import names
from kernelwright.graph import Capture
from kernelwright.types import digest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "problems.md").read_text()


def _table() -> Any:
    spec = importlib.util.spec_from_file_location("problems_table", ROOT / "tools" / "problems_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = _table()


def test_the_page_lists_the_builtins_and_nothing_else() -> None:
    assert PAGE.startswith(TABLE.HEAD)
    listed = [line.split("`")[1] for line in PAGE.removeprefix(TABLE.HEAD).splitlines()]
    assert listed == list(problems.names())


@pytest.mark.parametrize("name", problems.names())
def test_every_builtin_is_captured_and_its_graph_is_the_reference(
    name: str, load: Callable[..., Capture], execute: Callable[..., Any]
) -> None:
    captured = load(name)
    problem = captured.problem
    expected, found = execute(captured, 7, True)
    torch.testing.assert_close(tuple(found), tuple(expected), rtol=1e-9, atol=1e-12)
    # In the reference's own precision the operators have the recorded shapes and dtypes.
    expected, found = execute(captured, 8, False)
    assert [(tuple(t.shape), str(t.dtype)) for t in expected] == [
        (spec.shape, f"torch.{spec.dtype}") for spec in problem.outputs
    ]
    torch.testing.assert_close(tuple(found), tuple(expected), rtol=1e-4, atol=1e-5)
    used = [spec.name for spec in problem.arguments] + [node.name for node in captured.graph.nodes]  # type: ignore[union-attr]
    assert len(set(used)) == len(used)
    assert all(name.isidentifier() and name not in names.KEYWORDS | names.TAKEN for name in used)
    megabytes = sum(torch.empty(s.shape, dtype=getattr(torch, s.dtype)).nbytes for s in problem.arguments) / 1e6
    assert 1 < megabytes < 70
    assert 0 < problem.min_bytes <= megabytes * 1e6
    assert problem.flops is not None
    assert problem.workloads[0].generator == "source"
    assert problem.origin == ""
    assert TABLE.row(problem) in PAGE, "run tools/problems_table.py"


def test_the_same_source_gives_the_same_problem(load: Callable[..., Capture]) -> None:
    assert digest(load("huber_loss").problem) == digest(load("huber_loss").problem)
    assert load("huber_loss").graph == load("huber_loss").graph
