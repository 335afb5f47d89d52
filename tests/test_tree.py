"""The files of the checkout themselves."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HALF_MERGED = re.compile(rb"^(<<<<<<<|>>>>>>>) (?!SEARCH|REPLACE)", re.MULTILINE)
"""Marks of a merge that nobody finished; those of the edits that models write are others."""


def test_no_file_is_half_merged() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no checkout of git")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert [p.name for p in paths if p.is_file() and p != Path(__file__) and HALF_MERGED.search(p.read_bytes())] == []
