"""Turns: whoever is alone is alone, whoever waits is not overtaken, and the device is left while code is compiled."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

from kernelwright.judge.device.turns import Turns, during

LONG_S = 60.0


def is_free(path: Path) -> bool:
    """Tells whether nobody holds a file's lock."""
    file = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


def test_who_is_alone_waits_for_those_who_share_and_nobody_overtakes(tmp_path: Path) -> None:
    order: list[str] = []
    sharing, timing, later = (Turns(tmp_path) for _ in range(3))
    timed = during(timing, "alone", lambda: order.append("alone"))
    checked = during(later, "shared", lambda: order.append("shared"))
    with sharing.taken("shared"):
        first = threading.Thread(target=timed)
        first.start()
        while is_free(tmp_path / "gate"):  # until the first waits for its turn
            first.join(0.01)
        second = threading.Thread(target=checked)
        second.start()
        second.join(0.05)
        assert order == []
    for thread in (first, second):
        thread.join(LONG_S)
    assert order == ["alone", "shared"]
    assert timing.waited_s > 0.0


def test_the_device_is_left_and_taken_again(tmp_path: Path) -> None:
    one = Turns(tmp_path)
    with one.taken("shared"):
        with one.taken("left"):
            assert is_free(tmp_path / "room")
            with one.taken("alone"):
                assert not is_free(tmp_path / "room")
                with one.taken("shared"):  # who has it alone keeps it
                    assert not is_free(tmp_path / "room")
        assert not is_free(tmp_path / "room")
    assert is_free(tmp_path / "room")


def test_without_a_folder_nobody_waits() -> None:
    with Turns(None).taken("alone"), Turns(None).taken("alone"):
        pass
