"""Commands that somebody outside kills or stops are run again; what they end themselves is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.languages.bounded import ATTEMPTS, OUTSIDE, Ended, Limits, run


def ended(script: str, folder: Path, *, time_s: float = 300.0) -> tuple[Ended, int]:
    """How a shell's script ended, and how often it began."""
    begun = folder / "begun"
    command = ["/bin/sh", "-c", f"echo begun >> {begun}; {script}"]
    found = run(command, folder=folder, temporary=folder / "temporary", limits=Limits(time_s=time_s))
    return found, len(begun.read_text().splitlines())


def test_what_is_killed_once_is_run_again(tmp_path: Path) -> None:
    once = f"test -e {tmp_path}/was || {{ touch {tmp_path}/was; kill -KILL $$; }}; echo done"
    found, times = ended(once, tmp_path)
    assert (found.status, found.output.strip(), times) == (0, "done", 2)


@pytest.mark.parametrize(("script", "time_s"), [("kill -KILL $$", 300.0), ("kill -STOP $$", 1.0)])
def test_what_is_killed_or_stopped_each_time_is_nobodys_fault(script: str, time_s: float, tmp_path: Path) -> None:
    found, times = ended(script, tmp_path, time_s=time_s)
    assert (found.status, times) == (OUTSIDE, ATTEMPTS)


@pytest.mark.parametrize(("script", "status"), [("exit 3", 3), ("kill -SEGV $$", -11)])
def test_what_ends_itself_is_run_once(script: str, status: int, tmp_path: Path) -> None:
    found, times = ended(script, tmp_path)
    assert (found.status, times) == (status, 1)
