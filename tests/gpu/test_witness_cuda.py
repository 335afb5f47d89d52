"""The CUDA engine of the witness: graphs captured from a candidate's call, replayed on fresh contents; what cannot be
captured is timed with device-wide synchronisation and says so."""

from __future__ import annotations

import pytest
import torch
from tests.judge.python_files import python_files, python_problem
from tests.judge.test_witness_holder import assert_right
from tests.judge.witness_stand import Stand

pytestmark = pytest.mark.gpu
HONEST = next(f for f in python_files("honest_python") if f.path.stem == "plain").path.read_text()
BODY = HONEST.replace("        return F.layer_norm", "        y, m = F.layer_norm")


@pytest.fixture
def stand() -> Stand:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return Stand(python_problem(), device="cuda:0")


def test_replays_follow_fresh_contents_at_old_and_new_addresses(stand: Stand) -> None:
    stand.draw(0)
    assert stand.load(HONEST) == []
    for seed, moved in ((1, False), (2, False), (3, True), (4, False)):
        stand.draw(seed)
        assert stand.call((0, 1, 2), moved=moved) == []
        for slot in (0, 1, 2):
            assert_right(stand, slot)
    assert stand.engine.method.startswith("CUDA graph replay")
    stamps = stand.memory.stamps[:3]
    assert (stamps[:, 1] > stamps[:, 0]).all()


def test_python_counts_nothing_during_replays(stand: Stand) -> None:
    stand.draw(0)
    stand.load(f"{BODY}        CALLS.append(1)\n        return y, m\n\nCALLS = []\n")
    for seed in (1, 2, 3):
        stand.draw(seed)
        assert stand.call((0,)) == []
        assert_right(stand, 0)
    assert stand.engine.method.startswith("CUDA graph replay")


def test_what_cannot_be_captured_is_called_directly_and_says_so(stand: Stand) -> None:
    stand.draw(0)
    stand.load(f"{BODY}        assert float(m.sum()) == float(m.sum())\n        return y, m\n")
    for seed in (1, 2):
        stand.draw(seed)
        assert stand.call((0, 1)) == []
        assert_right(stand, 1)
    assert "called directly" in stand.engine.method


def test_work_on_a_stream_of_its_own_is_in_the_time_or_refused(stand: Stand) -> None:
    stand.draw(0)
    text = BODY.replace(
        "        y, m = ",
        "        side = torch.cuda.Stream()\n        with torch.cuda.stream(side):\n            y, m = ",
    )
    stand.load(f"{text}        return y, m\n")
    stand.draw(1)
    # It neither waits for its input nor is waited for: the capture refuses it, the direct call waits for all streams.
    assert stand.call((0,)) == []
    assert_right(stand, 0)
    assert "called directly" in stand.engine.method


@pytest.mark.parametrize(
    ("body", "check"),
    [
        ("x.add_(1); return y, m", "inputs unchanged"),
        ("self.weight.data.add_(1); return y, m", "inputs unchanged"),
        ("return y.cpu(), m", "structure"),
        ("return y, x.view(-1)[:64]", "structure"),
        ("torch.backends.cuda.matmul.allow_tf32 = True; return y, m", "environment"),
    ],
)
def test_what_a_call_must_not_do(body: str, check: str, stand: Stand) -> None:
    stand.draw(0)
    stand.load(BODY + f"        {body}\n")
    try:
        found = stand.call((0, 1))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    assert found
    assert found[0][0] == check
