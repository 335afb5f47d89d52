"""Tasks in two stages that overlap: what needs processors only runs ahead of what needs a device.

Each device has room for as many tasks at a time as its memory holds; they take turns at it (judge/device/turns.py).
Who waits longest is served first, so that a task that needs a whole device gets it.
Not here: what the stages do (running.py).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")
AHEAD = 4
"""Tasks that may be made ready beyond those that run."""


@dataclass
class Devices:
    """The room of some devices.

    Args:
        bytes_each: memory of each, by its number.
        tasks_each: the most tasks at a time on one.
    """

    bytes_each: dict[str, int]
    tasks_each: int
    _held: dict[str, list[int]] = field(default_factory=dict)
    _waiting: deque[object] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextlib.contextmanager
    def taken(self, need_bytes: int) -> Iterator[tuple[str, int]]:
        """Waits for room and gives (device, bytes), at most all of one device."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is ticket and self._fitting(need_bytes) is not None)
                device = self._fitting(need_bytes)
                assert device is not None
                given = min(need_bytes, self.bytes_each[device])
                self._held.setdefault(device, []).append(given)
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield device, given
        finally:
            with self._changed:
                self._held[device].remove(given)
                self._changed.notify_all()

    def _fitting(self, need_bytes: int) -> str | None:
        """Returns the device with the fewest tasks of those that have room."""
        held = {device: self._held.get(device, []) for device in self.bytes_each}
        fitting = [
            device
            for device, size in self.bytes_each.items()
            if len(held[device]) < self.tasks_each and sum(held[device]) + min(need_bytes, size) <= size
        ]
        return min(fitting, key=lambda device: len(held[device]), default=None)


def run(
    tasks: Sequence[T], ready: Callable[[T], P], finish: Callable[[T, P], R], *, workers: int, ahead: int = AHEAD
) -> Iterator[R]:
    """Yields what `finish` makes of each task and of what `ready` made of it, as soon as it is there.

    Threads are daemons: who stops listening, or is interrupted, waits for none of them.

    Args:
        tasks: begun in this order.
        ready: the first stage, of at most `workers + ahead` tasks that have not been finished.
        finish: the second stage, of at most `workers` tasks at a time.
        workers: threads of each stage.
        ahead: how far the first stage may be in front.

    Raises:
        BaseException: the first that a stage raised.
    """
    todo, done = queue.SimpleQueue[T](), queue.SimpleQueue[R | BaseException]()
    made = queue.SimpleQueue[tuple[T, P]]()
    room = threading.Semaphore(workers + ahead)
    for task in tasks:
        todo.put(task)

    def first() -> None:
        while True:
            room.acquire()
            try:
                task = todo.get_nowait()
                made.put((task, ready(task)))
            except queue.Empty:
                return
            except BaseException as error:  # noqa: BLE001  (told to whoever listens)
                done.put(error)

    def second() -> None:
        while True:
            task, prepared = made.get()
            try:
                done.put(finish(task, prepared))
            except BaseException as error:  # noqa: BLE001  (told to whoever listens)
                done.put(error)
            finally:
                room.release()

    for stage in (first, second):
        for _ in range(min(workers, len(tasks))):
            threading.Thread(target=stage, daemon=True).start()
    for _ in tasks:
        outcome = done.get()
        if isinstance(outcome, BaseException):
            raise outcome
        yield outcome
