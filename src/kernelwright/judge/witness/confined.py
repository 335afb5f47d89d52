"""The process that a witness worker is: started in a jail, stopped, watched and ended by the judge worker.

Not here: what is said to it (witness.py), what it does (worker.py), what a jail is (kernelwright.jail).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from kernelwright.errors import WorkerDied
from kernelwright.jail import Jail, Jailed
from kernelwright.judge.witness import channel, observing
from kernelwright.process import is_stopped
from kernelwright.types import KILLED

WORKER = "kernelwright.judge.witness.worker"
AWAKE_DEADLINE_S = 120.0
LOOK_S = 5.0
"""How often it is looked whether somebody has stopped it before it was awake."""
END_S = 10.0
TAIL_BYTES = 2000
OWN_BYTES = 2 << 30
"""What torch itself may need beside what a candidate may allocate."""


class Confined:
    """A witness worker's process, jailed, in a folder of its own.

    Args:
        descriptors: of the memory that it may map: inputs (read-only), outputs, stamps.
        environment: variables beside the few that a jail passes on.
        memory_bytes: what a candidate may allocate.
        devices: kinds of devices that it may use.

    Raises:
        UserError: when nothing on this machine can hold it.
    """

    def __init__(
        self,
        descriptors: Sequence[int],
        environment: Mapping[str, str],
        *,
        memory_bytes: int,
        devices: tuple[str, ...] = (),
    ) -> None:
        to_read, self.control = os.pipe2(os.O_CLOEXEC)
        self.reply, to_write = os.pipe2(os.O_CLOEXEC)
        self._folder = tempfile.mkdtemp(prefix="kernelwright-witness-")
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close())
        self._closed = self._stopped = False
        self._inner = self._witness = 0
        fds = (to_read, to_write, *descriptors)
        jail = Jail(write=self._folder, memory_bytes=OWN_BYTES + memory_bytes, devices=devices)
        own_cpus = os.sched_getaffinity(0)
        try:
            # libgomp has bound this thread to one processor; the witness's threads need all of them.
            os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
            self._jailed: Jailed = jail.start(
                [sys.executable, "-P", "-m", WORKER, *map(str, fds)],
                environment=environment,
                descriptors=fds,
                stdout=self._log.fileno(),
                stderr=self._log.fileno(),
            )
        finally:
            os.sched_setaffinity(0, own_cpus)
            for fd in (to_read, to_write):
                os.close(fd)

    def wait_awake(self) -> None:
        """Returns once the process has imported everything, and finds it; before any candidate is loaded.

        Raises:
            WorkerDied: when it does not get there.
        """
        if self._inner:
            return
        try:
            self._inner = int(self._first_message()["awake"])
        except (EOFError, TimeoutError, channel.BadMessage):
            tail = self.log_tail()
            self.close()
            raise WorkerDied(f"a witness worker did not start: {tail[-300:] or 'it said nothing'}") from None
        self._witness = observing.named_inside(self._jailed.pid, self._inner)

    def _first_message(self) -> Any:
        until = time.monotonic() + AWAKE_DEADLINE_S
        while True:
            try:
                return channel.receive(self.reply, deadline=min(until, time.monotonic() + LOOK_S))
            except TimeoutError:
                if time.monotonic() > until or any(map(is_stopped, self._jailed.processes())):
                    raise

    @property
    def process(self) -> int:
        """The witness worker's own process, seen from outside."""
        return self._witness

    def processes(self) -> frozenset[int]:
        """Returns every process that runs in the jail, seen from outside."""
        return observing.descendants(self._jailed.pid)

    def go_on(self) -> None:
        """Lets it run."""
        if self._stopped:
            observing.go_on(self._witness)
            self._stopped = False

    def stop(self) -> None:
        """Stops it, whatever it is doing, and returns when it has."""
        if not self._closed and self._witness:
            observing.stop(self._witness)
            self._stopped = True

    @property
    def ended(self) -> bool:
        """True when it is gone."""
        return self._closed or self._jailed.poll() is not None

    def how_it_ended(self) -> tuple[str, str]:
        """Returns (kind, message) of a failure, after it has ended on its own."""
        try:
            code = self._jailed.wait(END_S)
        except subprocess.TimeoutExpired:
            return "protocol", "the candidate closed its process's channel to the judge"
        lines = self.log_tail().strip().splitlines()
        said = f"; it said: {lines[-1][:160]}" if lines else ""
        if self._jailed.reason:
            kind = "memory" if "memory" in self._jailed.reason else "limit"
            return kind, f"the candidate's process was ended: {self._jailed.reason}"
        if code < 0:
            hint = " (out of memory?)" if code == -signal.SIGKILL else ""
            kind = KILLED if code == -signal.SIGKILL else "signal"  # perhaps by somebody else
            return kind, f"the candidate ended its process by {signal.Signals(-code).name}{hint}{said}"
        return "exit", f"the candidate ended its process with status {code}{said}"

    def log_tail(self) -> str:
        """Returns the end of what it printed."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - TAIL_BYTES))
        return self._log.read().decode(errors="replace")

    def close(self) -> None:
        """Ends everything in the jail and removes its folder; harmless when done before."""
        if self._closed:
            return
        self._closed = True
        self._jailed.close()
        for fd in (self.control, self.reply):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
