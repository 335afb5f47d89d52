"""A witness worker that is already awake when the next candidate comes: importing torch takes a second or more.

A spare has seen no candidate, and nothing of it was made by a process that has: it is started anew, never forked.
From the second candidate of a session on, the next one's spare is started while the present one is checked, and has
to be awake before anything is timed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from kernelwright.errors import WorkerDied
from kernelwright.judge.witness.confined import Confined

MOST_WAITING = 2
"""Candidates that fail at once would else wait for each other's imports."""


STARTS = 4
"""How many processes may die before one is awake."""


class Spares:
    """A few processes that wait.

    Args:
        ask: what every process is started with: descriptors, variables and what Confined takes by name.
    """

    def __init__(self, descriptors: Sequence[int], environment: Mapping[str, str], **more: Any) -> None:
        self._descriptors, self._environment, self._more = tuple(descriptors), dict(environment), more
        self._waiting: list[Confined] = []
        self._taken = 0

    def take(self) -> Confined:
        """Returns a process that is awake; starts the next one where more candidates are likely."""
        self._waiting = [confined for confined in self._waiting if not confined.ended]
        for left in reversed(range(STARTS)):
            confined = self._waiting.pop(0) if self._waiting else self._start()
            try:
                confined.wait_awake()
                break
            except WorkerDied:  # no candidate has been in it: somebody ended it
                if not left:
                    raise
        self._taken += 1
        if self._taken > 1:
            self._waiting += [self._start() for _ in range(MOST_WAITING - len(self._waiting))]
        return confined

    def settle(self) -> None:
        """Returns once nothing is being started, so that it disturbs no measurement."""
        for confined in tuple(self._waiting):
            try:
                confined.wait_awake()
            except WorkerDied:
                self._waiting.remove(confined)

    def begin(self) -> None:
        """Starts the next process, after a judgement that had none started beside it."""
        if not self._waiting:
            self._waiting.append(self._start())

    def _start(self) -> Confined:
        return Confined(self._descriptors, self._environment, **self._more)

    def close(self) -> None:
        """Ends the process that waits."""
        for confined in self._waiting:
            with contextlib.suppress(ProcessLookupError):
                confined.close()
        self._waiting = []
