"""The miniature in docs/: it is short, it runs, and its judge tells right from wrong."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

MINI = Path(__file__).parents[1] / "docs" / "mini.py"


@pytest.fixture(scope="module")
def mini() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mini", MINI)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mini"] = module
    spec.loader.exec_module(module)
    return module


def test_it_is_at_most_200_lines() -> None:
    assert len(MINI.read_text().splitlines()) <= 200


def test_the_loop_ends_with_verified_candidates(mini: ModuleType) -> None:
    records = mini.main(count=3, seed=1)
    assert len({record.candidate for record in records}) == 3
    for record in records:
        assert record.failure == ""
        assert record.low <= record.speedup <= record.high
        assert 0 < record.error < 1e-5


@pytest.mark.parametrize(
    ("old", "new", "failure"),
    [
        ("to[i] / sum", "to[i] / sum * 1.0001f", "the reference's own"),
        ("row = 0; row <", "row = 1; row <", "error nan"),
        ("sum = 0;", "sum = zero;", "error: "),
        ("float top = in[0]", "out = nullptr; to = nullptr; float top = in[0]", "crashed"),
    ],
)
def test_a_wrong_kernel_is_a_failure(mini: ModuleType, tmp_path: Path, old: str, new: str, failure: str) -> None:
    good = mini.emit((("threads", 2), ("passes", 3), ("width", 16)))
    bad = replace(good, source=good.source.replace(old, new))
    assert bad.source != good.source
    record = mini.judge(bad, tmp_path, rounds=3)
    assert failure in record.failure
