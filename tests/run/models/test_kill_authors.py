"""No SIGKILL loses a stored reply or has it paid for again. KERNELWRIGHT_KILLS=50 makes it fifty kills."""

from __future__ import annotations

import os
from pathlib import Path

from tests.run.models.killing import PARALLEL, killed

KILLS = int(os.environ.get("KERNELWRIGHT_KILLS", "6"))


def test_no_stored_reply_is_lost_or_paid_for_again(tmp_path: Path) -> None:
    count = killed(tmp_path, KILLS)
    assert count.ended == "finished"
    assert (count.lost, count.asked_again, count.damage) == (0, 0, ())
    assert count.answered <= count.stored + PARALLEL * count.kills
    assert count.kills >= KILLS
    assert count.stored > 0
    assert count.records > 0
