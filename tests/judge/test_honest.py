"""Every file of tests/honest passes every check, however suspicious it looks."""

from __future__ import annotations

import pytest
from tests.judge.kernel_files import Kernel, Sessions, judged, kernels, reason

HONEST = kernels("honest")
pytestmark = pytest.mark.xdist_group("corpus")
"""With cheats: a problem's files are judged together, the first time one of them is asked for."""


@pytest.mark.parametrize("kernel", HONEST, ids=lambda k: k.path.stem)
def test_honest_kernel_passes(kernel: Kernel, sessions: Sessions) -> None:
    record = sessions.record(kernel)
    assert reason(record) == "passed", record.outcome
    judgement = judged(record)
    assert {m.contender for m in judgement.measurements} == {"candidate", "eager"}
    against = judgement.against("eager")
    assert against is not None
    assert 0 < against.low <= against.speedup <= against.high
    assert judgement.noise is not None


def test_there_are_enough() -> None:
    assert len(HONEST) >= 85
