"""Every file of tests/cheats_python is caught by the check that it names.

Most are judged whole, in a real jailed witness worker. Those that say `SEEN: inside` must be named by the worker's
own checks and run without jail and judge (inside.py); a few of each kind are judged whole all the same.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.judge.kernel_files import HERE, reason
from tests.judge.python_files import Courtroom, PythonFile, python_files

from kernelwright.types import Failure

CHEATS = python_files("cheats_python")
INSIDE = [file for file in CHEATS if file.said("SEEN") == "inside"]
WHOLE = [file for file in CHEATS if file not in INSIDE]


@pytest.fixture(scope="module")
def found_inside() -> dict[str, str]:
    command = [sys.executable, "-m", "tests.judge.inside", *(str(file.path) for file in INSIDE)]
    ended = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=True, timeout=500)
    return dict(json.loads(line) for line in ended.stdout.splitlines())


@pytest.mark.parametrize("file", WHOLE, ids=lambda f: f.path.stem)
def test_cheat_is_caught_by_the_check_it_names(file: PythonFile, courtroom: Courtroom) -> None:
    record = courtroom.record(file)
    assert not record.passed
    assert reason(record) in file.caught_by, record.outcome
    if not isinstance(record.outcome, Failure):
        assert record.outcome.measurements == ()
        assert any("witnessed" in note for note in record.outcome.notes)


@pytest.mark.parametrize("file", INSIDE, ids=lambda f: f.path.stem)
def test_cheat_is_named_by_the_witness_itself(file: PythonFile, found_inside: dict[str, str]) -> None:
    assert found_inside[str(file.path)] in file.caught_by


def test_every_cheat_says_its_trick() -> None:
    assert len(CHEATS) >= 40
    assert len(WHOLE) >= 30
    assert all(file.said("TRICK") and file.caught_by for file in CHEATS)
