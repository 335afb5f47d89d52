"""The process that a witness worker is: started, stopped, watched and ended by the judge worker.

Not here: what is said to it (witness.py), what it does (worker.py).
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
from typing import BinaryIO

from kernelwright.errors import WorkerDied
from kernelwright.judge.witness import channel, observing

WORKER = "kernelwright.judge.witness.worker"
AWAKE_DEADLINE_S = 60.0
TAIL_BYTES = 2000
PASSED_ON = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES")


class Confined:
    """A witness worker's process, in a folder of its own.

    Args:
        descriptors: of the memory that it may map: inputs (read-only), outputs, stamps.
        environment: variables beside the few that are passed on.
    """

    def __init__(self, descriptors: Sequence[int], environment: Mapping[str, str]) -> None:
        to_read, self.control = os.pipe2(os.O_CLOEXEC)
        self.reply, to_write = os.pipe2(os.O_CLOEXEC)
        self._folder = tempfile.mkdtemp(prefix="kernelwright-witness-")
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close())
        self._awake = self._closed = self._stopped = False
        self._witness = 0
        fds = (to_read, to_write, *descriptors)
        own_cpus = os.sched_getaffinity(0)
        try:
            # libgomp has bound this thread to one processor; the witness's threads need all of them.
            os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", WORKER, *map(str, fds)],
                env=self._environment(environment),
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                cwd=self._folder,
            )
        finally:
            os.sched_setaffinity(0, own_cpus)
            for fd in (to_read, to_write):
                os.close(fd)

    def _environment(self, given: Mapping[str, str]) -> dict[str, str]:
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        folders = [folder for folder in sys.path if folder and os.path.isdir(folder)]
        own = {"HOME": self._folder, "TMPDIR": self._folder, "PYTHONPATH": os.pathsep.join(folders)}
        return {**passed, **own, "PYTHONDONTWRITEBYTECODE": "1", **given}

    def wait_awake(self) -> None:
        """Returns once the process has imported everything.

        Raises:
            WorkerDied: when it does not get there.
        """
        if self._awake:
            return
        try:
            channel.receive(self.reply, deadline=time.monotonic() + AWAKE_DEADLINE_S)
        except (EOFError, TimeoutError, channel.BadMessage):
            tail = self.log_tail()
            self.close()
            raise WorkerDied(f"a witness worker did not start: {tail[-300:] or 'it said nothing'}") from None
        self._awake = True

    def find(self) -> int:
        """Returns the number of the witness worker's own process; asked before a candidate is loaded."""
        self._witness = self._process.pid
        return self._witness

    def processes(self) -> frozenset[int]:
        """Returns every process that runs in it, seen from outside."""
        return observing.descendants(self._process.pid) | {self._process.pid}

    def go_on(self) -> None:
        """Lets it run."""
        if self._stopped:
            observing.go_on(self._witness)
            self._stopped = False

    def stop(self) -> None:
        """Stops it, whatever it is doing, and returns when nothing of it runs."""
        if not self._closed and self._witness:
            observing.stop(self._witness)
            self._stopped = True

    @property
    def ended(self) -> bool:
        """True when it is gone."""
        return self._closed or self._process.poll() is not None

    def how_it_ended(self) -> tuple[str, str]:
        """Returns (kind, message) of a failure, after it has ended on its own."""
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return "protocol", "the candidate closed its process's channel to the judge"
        lines = self.log_tail().strip().splitlines()
        said = f"; it said: {lines[-1][:160]}" if lines else ""
        if code == -signal.SIGKILL:
            return "signal", f"the candidate's process was killed (out of memory?){said}"
        if code < 0:
            return "signal", f"the candidate ended its process by {signal.Signals(-code).name}{said}"
        return "exit", f"the candidate ended its process with status {code}{said}"

    def log_tail(self) -> str:
        """Returns the end of what it printed."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - TAIL_BYTES))
        return self._log.read().decode(errors="replace")

    def close(self) -> None:
        """Ends everything and removes its folder; harmless when done before."""
        if self._closed:
            return
        self._closed = True
        below = observing.descendants(self._process.pid)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        for process in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()
        for fd in (self.control, self.reply):
            os.close(fd)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
