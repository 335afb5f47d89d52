"""docs/kernel-files.md says what the readers and compilers say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_modules_say() -> None:
    spec = importlib.util.spec_from_file_location("kernel_files_page", ROOT / "tools" / "kernel_files_page.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text()
    assert page == tool.page(), "run tools/kernel_files_page.py"
    assert "kernelwright-plan: {" in page
    assert "kernelwright-launch: " in page
