"""Worker processes and the private channel to them.

A worker is `python -P -m MODULE READ_FD WRITE_FD TEMPORARY` (or `jailed` instead of a folder of its own):
messages are JSON with a length in front, on two pipes of their own, so that nothing a reference or
kernel prints can be mistaken for an answer and nothing that arrives can be more than data. Workers
lead a process group of their own: they are killed as a group, never see the terminal's Ctrl-C, and
end when their parent does. A worker that runs other people's code lives in a jail; what it answers
is still data from a stranger.
Not here: what workers do (capture/worker.py, judge/worker.py, languages/worker.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from kernelwright import codec
from kernelwright.errors import (
    KernelwrightError,
    MissingTool,
    SourceError,
    StoreError,
    UserError,
    WorkerDied,
    fault_of_machine,
    words_of,
)
from kernelwright.jail import Jail, Jailed

HEADER = struct.Struct("<Q")
MAX_MESSAGE_BYTES = 1 << 30
JAILED_MESSAGE_BYTES = 1 << 26
"""What a jailed worker may answer: its parent's memory is not the stranger's."""
WATCH_PERIOD_S = 0.5
STOPPED_LOOKS = 5
"""Looks in a row, a second apart, at which a worker is stopped before it is taken for lost: nobody of us stops one."""
PR_SET_DUMPABLE = 4
JAILED = "jailed"
NOT_A_MESSAGE = (codec.CodecError, ValueError, TypeError, KeyError, AttributeError, RecursionError, MemoryError)
"""What decoding raises for bytes that nobody of us wrote."""
KINDS: dict[str, type[KernelwrightError]] = {
    cls.__name__: cls for cls in (KernelwrightError, MissingTool, SourceError, StoreError, UserError)
}


class DeadlineExceeded(WorkerDied):
    """A worker was killed because its answer did not come in time."""


class WorkerKilled(WorkerDied):
    """A worker was killed or stopped from outside: nothing that ran in it is to blame."""


def is_stopped(process: int) -> bool:
    """Tells whether a process was stopped by a signal; False where it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def send(fd: int, message: object, *, deadline: float | None = None) -> None:
    """Writes one message to a pipe.

    Args:
        fd: the pipe's writing end; not blocking where there is a deadline.
        message: values, tuples and primitives.
        deadline: a `time.monotonic()` moment; None waits for as long as the other end does not read.

    Raises:
        TimeoutError: when the deadline passes first.
    """
    text = codec.dumps(message).encode(errors="replace")  # halves of surrogate pairs, as exceptions may hold them
    data = HEADER.pack(len(text)) + text
    view = memoryview(data)
    while view:
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([], [fd], [], left)[1]:
                raise TimeoutError
        with contextlib.suppress(BlockingIOError):
            view = view[os.write(fd, view) :]


def receive(
    fd: int,
    *,
    deadline: float | None = None,
    most_bytes: int = MAX_MESSAGE_BYTES,
    look: Callable[[], None] = lambda: None,
) -> Any:
    """Reads one message.

    Args:
        fd: the pipe's reading end.
        deadline: a `time.monotonic()` moment; None waits for ever.
        most_bytes: a longer message is not read.
        look: called about once a second while there is nothing to read and a deadline.

    Raises:
        EOFError: when the other end is gone.
        TimeoutError: when the deadline passes first.
        WorkerDied: when the length in front cannot be true.
    """
    (length,) = HEADER.unpack(_read_exactly(fd, HEADER.size, deadline, look))
    if length > most_bytes:
        raise WorkerDied(f"a worker announced a message of {length} bytes")
    return codec.loads(_read_exactly(fd, length, deadline, look))


def _read_exactly(fd: int, count: int, deadline: float | None, look: Callable[[], None]) -> bytes:
    parts: list[bytes] = []
    while count:
        while deadline is not None:
            left = max(0.0, deadline - time.monotonic())
            if select.select([fd], [], [], min(left, 1.0))[0]:
                break
            if left <= 1.0:
                raise TimeoutError
            look()
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class Worker:
    """One worker process and the channel to it. Use from one thread at a time."""

    def __init__(self, module: str, *, environment: Mapping[str, str] | None = None, jail: Jail | None = None) -> None:
        """Starts the worker.

        Args:
            module: the module that calls `serve`.
            environment: further variables. A jailed worker sees these and few others.
            jail: what it may see, change and use; None trusts it.

        Raises:
            UserError: when the jail cannot be put up on this machine.
        """
        self.module, self.jail = module, jail
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()
        os.set_blocking(self._out, False)
        self._log: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close())
        # What a worker forgets, or has no time to remove, goes with it. A jail has a folder of its own.
        self._temporary = "" if jail else tempfile.mkdtemp(prefix="kernelwright-")
        self._stopped_looks = 0
        # -P: a random.py in the folder that the user works in must not stand for Python's own.
        command = [sys.executable, "-P", "-m", module, str(to_read), str(to_write), self._temporary or JAILED]
        try:
            self.process: subprocess.Popen[bytes] | Jailed = (
                jail.start(
                    command,
                    environment=environment,
                    descriptors=(to_read, to_write),
                    stdout=self._log,
                    stderr=self._log,
                )
                if jail
                else subprocess.Popen(
                    command,
                    env={**os.environ, **(environment or {}), "TMPDIR": self._temporary},
                    pass_fds=(to_read, to_write),
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    start_new_session=True,
                )
            )
        except BaseException:
            for fd in (self._out, self._in):
                os.close(fd)
            self._log.close()
            self._tidy()
            raise
        finally:
            os.close(to_read)
            os.close(to_write)

    def request(
        self, verb: str, /, *, deadline_s: float, on_event: Callable[[Any], None] | None = None, **arguments: object
    ) -> Any:
        """Asks the worker for one thing and returns its answer.

        Args:
            verb: the handler's name.
            deadline_s: the worker is killed when it takes longer.
            on_event: called with each progress event that comes before the answer.
            arguments: passed to the handler by name; values, tuples and primitives.

        Raises:
            DeadlineExceeded: the deadline passed; the worker is dead.
            WorkerKilled: it was killed or stopped by somebody else; it is dead.
            WorkerDied: the worker ended on its own.
            UserError: and its kinds, where the worker raised one.
        """
        deadline = time.monotonic() + deadline_s
        try:
            send(self._out, {"verb": verb, "arguments": dict(arguments)}, deadline=deadline)
            while True:
                message = self._receive(deadline, verb)
                if "event" not in message:
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError
                if on_event:
                    on_event(message["event"])
        except TimeoutError:
            self.kill()
            raise DeadlineExceeded(f"{self.module} took longer than {deadline_s:.0f} s for {verb!r}") from None
        except (EOFError, BrokenPipeError):
            told = self._describe_end(verb)
            outside = (
                self.process.killed_outside
                if isinstance(self.process, Jailed)
                else self.process.returncode == -signal.SIGKILL
            )
            raise (WorkerKilled if outside else WorkerDied)(told) from None
        return self._result(message, verb)

    def _receive(self, deadline: float, verb: str) -> dict[str, Any]:
        most = JAILED_MESSAGE_BYTES if self.jail else MAX_MESSAGE_BYTES
        try:
            message = receive(self._in, deadline=deadline, most_bytes=most, look=lambda: self._look(verb))
        except (TimeoutError, EOFError, WorkerKilled):
            raise
        except (WorkerDied, *NOT_A_MESSAGE) as error:
            self.kill()
            raise WorkerDied(f"{self.module} sent something that is no message during {verb!r}: {error}") from None
        if not isinstance(message, dict):
            self.kill()
            raise WorkerDied(f"{self.module} sent something that is no message during {verb!r}")
        return message

    def _look(self, verb: str) -> None:
        """Ends the worker where somebody has stopped it and does not let it go on."""
        own = self.process.processes() if isinstance(self.process, Jailed) else (self.process.pid,)
        self._stopped_looks = self._stopped_looks + 1 if any(map(is_stopped, own)) else 0
        if self._stopped_looks >= STOPPED_LOOKS:
            self.kill()
            raise WorkerKilled(f"{self.module} was stopped by something outside during {verb!r}, and was ended")

    def _result(self, message: dict[str, Any], verb: str) -> Any:
        error = message.get("error")
        if "error" in message:
            if not (isinstance(error, tuple | list) and len(error) == 4 and all(isinstance(e, str) for e in error)):
                self.kill()
                raise WorkerDied(f"{self.module} sent an error that is none during {verb!r}")
            kind, text, fix, trace = error
            fault = KINDS.get(kind, KernelwrightError)(text, fix)
            fault.add_note(trace)
            raise fault
        if "result" not in message:
            self.kill()
            raise WorkerDied(f"{self.module} sent an answer without a result during {verb!r}")
        return message["result"]

    def log_tail(self, count: int = 2000) -> str:
        """Returns the end of what the worker printed."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - count))
        return self._log.read().decode(errors="replace")

    def _describe_end(self, verb: str) -> str:
        if isinstance(self.process, Jailed):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2.0)  # the keeper is about to say why
        self.kill()
        code = self.process.returncode or 0
        if isinstance(self.process, Jailed) and self.process.reason:
            return f"{self.module} was ended during {verb!r} for its {self.process.reason}"
        how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        lines = self.log_tail().strip().splitlines()
        return f"{self.module} ended {how}{hint} during {verb!r}" + (f": {lines[-1]}" if lines else "")

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Ends the worker and everything it started; harmless when it is gone already."""
        if isinstance(self.process, Jailed):
            self.process.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Kills the worker and releases the channel."""
        self.kill()
        if isinstance(self.process, Jailed):
            self.process.close()
        for fd in (self._out, self._in):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._out = self._in = -1
        self._log.close()
        self._tidy()

    def _tidy(self) -> None:
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Emit = Callable[[object], None]


def serve(handlers: Mapping[str, Callable[..., object]]) -> None:
    """Runs a worker's loop until its parent is gone. To be called from a worker's `__main__`.

    Each handler is called as `handler(emit, **arguments)`, where `emit(value)` sends a progress
    event. What it returns is the answer; an exception is the answer too and the loop goes on.
    """
    read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(read_fd, False)
    os.set_inheritable(write_fd, False)
    temporary = "" if sys.argv[3] == JAILED else sys.argv[3]
    if not temporary:
        # Nothing that runs beside it in its jail may read its memory or open its channel.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0)
    threading.Thread(target=_end_with_parent, args=(os.getppid(), temporary), daemon=True).start()
    own = os.getpid()

    def leave() -> NoReturn:
        shutil.rmtree(temporary, ignore_errors=True)
        os._exit(0)

    def answer(message: object) -> None:
        if os.getpid() != own:
            os._exit(0)  # a copy that the user's code made with fork(): the original answers
        try:
            send(write_fd, message)
        except BrokenPipeError:
            leave()

    while True:
        try:
            message = receive(read_fd)
        except EOFError:
            leave()
        try:
            handler = handlers[message["verb"]]
            result = handler(lambda event: answer({"event": event}), **message["arguments"])
            answer({"result": result})
        except Exception as error:  # noqa: BLE001  (the parent decides what to do with it)
            answer({"error": _error_data(error)})


def _error_data(error: Exception) -> tuple[str, str, str, str]:
    trace = "".join(traceback.format_exception(error))
    told = fault_of_machine(error) if isinstance(error, OSError) else error
    if isinstance(told, KernelwrightError):
        return type(told).__name__, told.message, told.fix, trace
    return (
        "KernelwrightError",
        f"{type(error).__name__}: {words_of(error)}",
        "run again with --debug to see where",
        trace,
    )


def _end_with_parent(parent: int, temporary: str) -> None:
    # PR_SET_PDEATHSIG would be tied to the parent's *thread*; watching the parent's id is not.
    while os.getppid() == parent:
        time.sleep(WATCH_PERIOD_S)
    shutil.rmtree(temporary, ignore_errors=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
