"""Every file of tests/cheats is caught by the check that it names."""

from __future__ import annotations

import platform

import pytest
from tests.judge.kernel_files import Kernel, Sessions, kernels, reason

from kernelwright.types import Failure

CHEATS = kernels("cheats")
pytestmark = pytest.mark.xdist_group("corpus")
"""With honest kernels: a problem's files are judged together, the first time one of them is asked for."""


@pytest.mark.parametrize("kernel", CHEATS, ids=lambda k: k.path.stem)
def test_cheat_is_caught_by_the_check_it_names(kernel: Kernel, sessions: Sessions) -> None:
    machine = kernel.said("MACHINE", platform.machine())
    if platform.machine() != machine:
        pytest.skip(f"uses {machine} code")
    if int(kernel.said("THREADS", "1")) > sessions.target.threads:
        pytest.skip("needs two threads to go wrong")
    record = sessions.record(kernel)
    assert not record.passed
    assert reason(record) in kernel.reasons, record.outcome
    if not isinstance(record.outcome, Failure):
        assert record.outcome.measurements == ()
        assert record.outcome.comparisons == ()


def test_every_cheat_says_its_trick() -> None:
    assert len(CHEATS) >= 115
    assert all(kernel.said("TRICK") for kernel in CHEATS)
