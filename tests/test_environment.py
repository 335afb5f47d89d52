"""The environment variables: defaults, overrides, and bad values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernelwright import environment
from kernelwright.errors import UserError


def test_home_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    assert environment.home() == tmp_path
    monkeypatch.delenv("KERNELWRIGHT_HOME")
    assert environment.home() == Path.home() / ".cache" / "kernelwright"


def test_threads_default_to_usable_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELWRIGHT_THREADS", raising=False)
    assert environment.threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("KERNELWRIGHT_THREADS", "1")
    assert environment.threads() == 1


@pytest.mark.parametrize("bad", ["0", "-1", "two", ""])
def test_bad_thread_counts_name_the_fix(monkeypatch: pytest.MonkeyPatch, bad: str) -> None:
    monkeypatch.setenv("KERNELWRIGHT_THREADS", bad)
    with pytest.raises(UserError, match="positive whole number"):
        environment.threads()


def test_far_too_many_threads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_THREADS", "100000")
    with pytest.raises(UserError, match="at most"):
        environment.threads()


def test_a_compiler_that_is_not_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CXX", "no-such-compiler")
    assert environment.compiler() is None


@pytest.mark.parametrize(("named", "found"), [("", []), ("1", ["1"]), ("GPU-8a,0", ["GPU-8a", "0"])])
def test_visible_devices_are_those_that_cuda_is_told(
    named: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert environment.visible_devices() == found
