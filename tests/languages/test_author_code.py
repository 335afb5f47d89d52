"""The process in which a compiler imports its author's source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelwright.languages import author_code
from kernelwright.languages.bounded import Limits

LOOK = "import json, pathlib, sys\nimport beside\npathlib.Path(sys.argv[1], 'said').write_text(beside.WORD)\n"


def test_it_finds_packages_where_this_process_was_told_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages, folder = tmp_path / "packages", tmp_path / "folder"
    packages.mkdir()
    folder.mkdir()
    (packages / "beside.py").write_text("WORD = 'found'\n")
    (packages / "looks.py").write_text(LOOK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "relative", str(packages)]))
    ended = author_code.run_module("looks", folder, limits=Limits(time_s=30.0))
    assert ended.status == 0, ended.output
    assert (folder / "said").read_text() == "found"


def test_nothing_is_looked_for_where_it_happens_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", "relative", "/absolute"]))
    assert author_code.packages() == ("/absolute",)
