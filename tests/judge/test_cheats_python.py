"""Every file of tests/cheats_python is caught by the check that it names; it runs in a real jailed witness worker."""

from __future__ import annotations

import pytest
from tests.judge.kernel_files import reason
from tests.judge.python_files import Courtroom, PythonFile, python_files

from kernelwright.types import Failure

CHEATS = python_files("cheats_python")


@pytest.mark.parametrize("file", CHEATS, ids=lambda f: f.path.stem)
def test_cheat_is_caught_by_the_check_it_names(file: PythonFile, courtroom: Courtroom) -> None:
    record = courtroom.record(file.path.read_text())
    assert not record.passed
    assert reason(record) in [word.strip() for word in file.said("CAUGHT BY").split("|")], record.outcome
    if not isinstance(record.outcome, Failure):
        assert record.outcome.measurements == ()
        assert any("witnessed" in note for note in record.outcome.notes)


def test_every_cheat_says_its_trick() -> None:
    assert len(CHEATS) >= 40
    assert all(file.said("TRICK") for file in CHEATS)
