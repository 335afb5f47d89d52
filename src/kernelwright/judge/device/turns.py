"""Turns at a device that several processes use: whoever takes times is alone with it meanwhile.

A process *shares* the device while it draws, checks and warms up, has it *alone* while it takes times, and *leaves* it
while it compiles. Two locked files keep the turns: whoever waits holds the gate, so that nobody who shares comes in
before it. Where there are no files (one judge on the device), nothing waits.

**Covers**: processes that are given the same folder. **Does not cover**: other programs on the device.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

Mode = Literal["left", "shared", "alone"]
LOCKS = {"left": fcntl.LOCK_UN, "shared": fcntl.LOCK_SH, "alone": fcntl.LOCK_EX}


class Turns:
    """A process's place at a device. Use from one thread.

    Args:
        folder: of the two files; None waits for nobody.
    """

    def __init__(self, folder: Path | None) -> None:
        self._mode: Mode = "left"
        self.waited_s = 0.0
        """Seconds that were spent waiting, in all."""
        self._files: tuple[int, ...] = ()
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._files = tuple(os.open(folder / name, flags, 0o600) for name in ("gate", "room"))

    @contextlib.contextmanager
    def taken(self, mode: Mode) -> Iterator[None]:
        """Takes the device in a mode; afterwards it is held as it was before. Who has it alone keeps it."""
        before = self._mode
        self._turn_to(before if before == "alone" and mode == "shared" else mode)
        try:
            yield
        finally:
            self._turn_to(before)

    def _turn_to(self, mode: Mode) -> None:
        if mode == self._mode:
            return
        self._mode = mode
        if not self._files:
            return
        gate, room = self._files
        begun = time.monotonic()
        fcntl.flock(room, fcntl.LOCK_UN)
        if mode != "left":
            fcntl.flock(gate, fcntl.LOCK_EX)
            try:
                fcntl.flock(room, LOCKS[mode])
            finally:
                fcntl.flock(gate, fcntl.LOCK_UN)
        self.waited_s += time.monotonic() - begun


def during(turns: Turns, mode: Mode, work: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that has its turn."""

    def taking(*given: Any, **named: Any) -> Any:
        with turns.taken(mode):
            return work(*given, **named)

    return taking
