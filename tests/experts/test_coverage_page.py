"""docs/coverage.md says what the experts' tables say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from kernelwright.experts.loops import READERS

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_tables_say() -> None:
    spec = importlib.util.spec_from_file_location("coverage_table", ROOT / "tools" / "coverage_table.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text()
    assert page == tool.page(), "run tools/coverage_table.py"
    assert all(f"`{operator.removeprefix('aten.')}`" in page for operator in READERS)
