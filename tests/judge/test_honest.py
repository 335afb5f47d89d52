"""Every file of tests/honest passes every check, however suspicious it looks."""

from __future__ import annotations

import pytest
from conftest import kernels, reason

HONEST = kernels("honest")


@pytest.mark.parametrize("kernel", HONEST, ids=lambda k: k.path.stem)
def test_honest_kernel_passes(kernel, sessions):
    record = sessions.record(kernel)
    assert reason(record) == "passed", record.outcome
    judgement = record.outcome
    assert {m.contender for m in judgement.measurements} == {"candidate", "eager"}
    assert judgement.against("eager").low <= judgement.against("eager").speedup <= judgement.against("eager").high
    assert judgement.noise is not None


def test_there_are_enough():
    assert len(HONEST) >= 10
