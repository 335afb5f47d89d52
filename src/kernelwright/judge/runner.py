"""The judge worker's end of a runner: starting it, sending calls to it, stopping and ending it.

The runner (runner.cpp) is a native process that holds one sealed candidate. Whatever it does costs
only itself: every wait has a deadline, every end has a reason that becomes a `Failure`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelwright.judge.conditions import environment
from kernelwright.judge.slots import GUARD_BYTES, REGIONS, Buffer, Slots, Workspaces
from kernelwright.process import is_stopped
from kernelwright.types import KILLED, Failure

MAGIC = 0x6B77726E
READY, DONE, FAULT, LOAD_FAILED = 1, 2, 3, 4
RUN, PERTURB = 1, 2
SETUP = struct.Struct("=4I5Q")
PLACE = struct.Struct("=3Q")
HEADER = struct.Struct("=2I")
FAULT_REST = struct.Struct("=2Q")
BASES = struct.Struct("=3Q")
AXES = struct.Struct("=8q")
MAX_CALLS = 4096
MOAT_BYTES = 1 << 28
"""Addresses before and after each region that fault, as in runner.cpp."""
START_DEADLINE_S = 20.0
MEMORY_BYTES = 256 << 20
"""What a candidate may allocate beyond its workspaces and four times its inputs and outputs."""
SYSTEM_CALLS = {
    "x86_64": {0: "read", 1: "write", 2: "open", 9: "mmap", 10: "mprotect", 41: "socket", 56: "clone", 57: "fork",
               58: "vfork", 59: "execve", 62: "kill", 186: "gettid", 234: "tgkill", 257: "openat", 435: "clone3"},
    "aarch64": {56: "openat", 63: "read", 64: "write", 129: "kill", 131: "tgkill", 178: "gettid", 198: "socket",
                220: "clone", 221: "execve", 222: "mmap", 226: "mprotect", 435: "clone3"},
}  # fmt: skip
THREAD_CALLS = ("clone", "clone3", "mprotect")
"""What starting a thread takes: the C library protects the end of its stack first."""
PLAIN_SIGNALS = (signal.SIGILL, signal.SIGFPE)
"""Their address is that of the code, which says nothing about memory."""
ABORT_CALLS = ("gettid", "tgkill")
"""What abort() begins with."""


class RunnerStopped(Exception):
    """The runner ended or had to be ended; `failure` says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RunnerKilled(RunnerStopped):
    """Somebody else ended the runner, which is no fault of its candidate."""


@dataclass(frozen=True, slots=True)
class Block:
    """The calls of one `run` command and what both clocks say about them, in nanoseconds."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    sent: int
    """The judge's clock before the command was sent ..."""
    received: int
    """... and after the answer had come."""


class Runner:
    """One candidate's process. Stopped (SIGSTOP) except while it runs a block.

    Args:
        program: the built runner.cpp.
        library_fd: a sealed copy of the artifact.
        slots: the session's inputs and outputs.
        workspaces: this candidate's scratch memory.
        threads: OpenMP threads of its pool.
        cpu_seconds: processor time after which the kernel ends it.
        call_deadline_s: how long one block may take.
        axes: the sizes of the problem's dynamic axes, in their order.
        explain: what an address means at which a candidate stops on purpose: the failure's kind and words.

    Raises:
        RunnerStopped: when the library cannot be loaded.
    """

    def __init__(
        self,
        program: Path,
        library_fd: int,
        slots: Slots,
        workspaces: Workspaces,
        *,
        threads: int,
        cpu_seconds: float,
        call_deadline_s: float,
        explain: Callable[[int], tuple[str, str] | None] | None = None,
        axes: Sequence[int] = (),
    ) -> None:
        self._told = explain
        self._slots, self._workspaces, self._call_deadline_s = slots, workspaces, call_deadline_s
        to_read, self._control = os.pipe2(os.O_CLOEXEC)
        self._reply, to_write = os.pipe2(os.O_CLOEXEC)
        read_only = slots.input.read_only_fd()
        fds = (to_read, to_write, read_only, slots.output.fd, workspaces.region.fd, library_fd)
        self._bases = (0, 0, 0)
        self._cpu_seconds = max(1, int(cpu_seconds))
        self._stopped = False
        own_cpus = os.sched_getaffinity(0)
        try:
            # libgomp has bound this thread to one processor; the runner's threads need all of them.
            os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
            self.process = subprocess.Popen(
                [str(program), *map(str, fds)],
                env=environment(threads),
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # In the judge worker's process group, so that killing the worker's group ends it too.
            )
        finally:
            os.sched_setaffinity(0, own_cpus)
            for fd in (to_read, to_write, read_only):
                os.close(fd)
        try:
            self._start(threads, axes)
        except BaseException:
            self.close()
            raise

    def _start(self, threads: int, axes: Sequence[int]) -> None:
        buffers = (*self._slots.buffers, *self._workspaces.buffers)
        sizes = [r.size for r in (self._slots.input, self._slots.output, self._workspaces.region)]
        memory = MEMORY_BYTES + 4 * self._slots.slot_bytes + (16 << 20) * threads
        setup = SETUP.pack(MAGIC, threads, len(buffers), self._slots.count, *sizes, memory, self._cpu_seconds)
        places = b"".join(PLACE.pack(b.region, b.offset, b.stride) for b in buffers)
        self._send(setup + places + AXES.pack(*axes, *[0] * (8 - len(axes))))
        deadline = time.monotonic() + START_DEADLINE_S
        self._expect(READY, deadline)
        self._bases = BASES.unpack(self._read(BASES.size, deadline))

    def run(self, slots: Sequence[int]) -> Block:
        """Calls the candidate once on each of the slots, in order, and leaves the runner stopped.

        Raises:
            RunnerStopped: when the candidate faults, ends or takes too long.
        """
        assert len(slots) <= MAX_CALLS
        message = HEADER.pack(RUN, len(slots)) + np.asarray(slots, dtype=np.uint32).tobytes()
        self._continue()
        deadline = time.monotonic() + self._call_deadline_s
        sent = time.monotonic_ns()
        self._send(message)
        count = self._expect(DONE, deadline)
        data = self._read(16 * len(slots), deadline)
        received = time.monotonic_ns()
        self._stop()
        if count != len(slots):
            raise RunnerStopped(_failure("protocol", f"the runner answered {count} calls instead of {len(slots)}"))
        stamps = np.frombuffer(data, dtype=np.uint64).astype(np.int64).reshape(-1, 2)
        return Block(stamps[:, 0], stamps[:, 1], sent, received)

    def perturb(self, byte: int) -> None:
        """Fills what malloc gives from now on with a pattern; 0 switches that off."""
        self._send(HEADER.pack(PERTURB, byte))

    def _continue(self) -> None:
        if self._stopped:
            self.process.send_signal(signal.SIGCONT)
            self._stopped = False

    def _stop(self) -> None:
        """Stops every thread and waits until they are: nothing is written behind the judge's back."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self._stopped = True

    def _send(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._control, view) :]
        except BrokenPipeError:
            raise self._ended() from None

    def _read(self, count: int, deadline: float) -> bytes:
        parts: list[bytes] = []
        while count:
            if not select.select([self._reply], [], [], max(0.0, deadline - time.monotonic()))[0]:
                stopped = is_stopped(self.process.pid)  # which a candidate cannot do
                self.close()
                if stopped:
                    raise RunnerKilled(_failure(KILLED, "the runner was stopped by something outside; it was ended"))
                limit = f"{self._call_deadline_s:g} s"
                raise RunnerStopped(_failure("timeout", f"the kernel took longer than {limit}; it was killed"))
            part = os.read(self._reply, min(count, 1 << 16))
            if not part:
                raise self._ended()
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _expect(self, kind: int, deadline: float) -> int:
        found, count = HEADER.unpack(self._read(HEADER.size, deadline))
        if found == FAULT:
            address, call = FAULT_REST.unpack(self._read(FAULT_REST.size, deadline))
            self.close()
            raise RunnerStopped(self._explain(count, address, call))
        if found == LOAD_FAILED:
            why = self._read(min(count, 4096), deadline).decode(errors="replace")
            self.close()
            raise RunnerStopped(Failure(stage="load", kind="load", message=f"the library cannot be loaded: {why}"))
        if found != kind:
            self.close()
            raise RunnerStopped(_failure("protocol", f"the runner sent an answer of kind {found}, not {kind}"))
        return int(count)

    def _ended(self) -> RunnerStopped:
        used_s = self._processor_seconds()
        self.process.wait()
        code = self.process.returncode
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and used_s >= self._cpu_seconds):
            return RunnerStopped(_failure("timeout", "the kernel used up its processor time"))
        if code == -signal.SIGKILL:
            return RunnerKilled(_failure(KILLED, "the runner was killed by something outside (out of memory?)"))
        if code < 0:
            return RunnerStopped(_failure("signal", f"the kernel ended its process by {signal.Signals(-code).name}"))
        return RunnerStopped(_failure("exit", f"the kernel ended its process with status {code}"))

    def _processor_seconds(self) -> float:
        """What the ended process has used; asked before it is waited for."""
        with contextlib.suppress(ChildProcessError, OSError, ValueError, IndexError):
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def _explain(self, number: int, address: int, call: int) -> Failure:
        if number == signal.SIGSYS:
            name = SYSTEM_CALLS.get(os.uname().machine, {}).get(call, f"number {call}")
            if name in THREAD_CALLS:
                message = f"the kernel started a thread or process ({name}); use one team size in all OpenMP regions"
                return _failure("thread", message)
            if name in ABORT_CALLS:
                return _failure("abort", "the kernel gave up: abort() or a failed assertion")
            return _failure("syscall", f"the kernel made a system call ({name}); it may only compute")
        if self._told and (told := self._told(address)):
            return _failure(*told)
        name = signal.Signals(number).name
        buffers = (*self._slots.buffers, *self._workspaces.buffers)
        if number in PLAIN_SIGNALS:
            what = "an illegal instruction" if number == signal.SIGILL else "a division of whole numbers by zero"
            return _failure("signal", f"the kernel failed with {name}: {what}")
        regions = (self._slots.input, self._slots.output, self._workspaces.region)
        for base, region, title in zip(self._bases, regions, REGIONS, strict=True):
            offset = address - base
            if base and 0 <= offset < region.size:
                where = _nearest(buffers, title, offset)
                if title == "input":
                    return _failure("input-written", f"the kernel wrote to its inputs ({where}); they are read-only")
                return _failure("signal", f"the kernel failed with {name} at {where}")
            if base and -MOAT_BYTES <= offset < region.size + MOAT_BYTES:
                where = _outside(buffers, title, offset, self._slots.count)
                return _failure("out-of-bounds", f"the kernel left the {title} memory: {name} {where}")
        hint = (
            " (a null pointer, perhaps from a failed allocation)" if address < 4096 and number == signal.SIGSEGV else ""
        )
        return _failure("signal", f"the kernel failed with {name} at address {address:#x}{hint}")

    def close(self) -> None:
        """Ends the process and gives the channel back; harmless when done before."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        for fd in (self._control, self._reply):
            if fd >= 0:
                os.close(fd)
        self._control = self._reply = -1


def sealed_copy(data: bytes) -> int:
    """Returns a descriptor of an immutable copy of a file's bytes."""
    fd = os.memfd_create("kernelwright-library", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    _seal(fd)
    return fd


def _seal(fd: int) -> None:
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)


def _failure(kind: str, message: str) -> Failure:
    return Failure(stage="run", kind=kind, message=message)


def _outside(buffers: Sequence[Buffer], title: str, offset: int, slots: int) -> str:
    """Where an address outside a region lies, relative to the region's nearest tensor."""
    inside = [buffer for buffer in buffers if REGIONS[buffer.region] == title]
    if not inside:
        return f"at byte {offset}"
    if offset < 0:
        first = min(inside, key=lambda buffer: buffer.offset)
        return f"{first.offset - offset} bytes before {first.name}"
    last = max(inside, key=lambda buffer: buffer.offset + buffer.size)
    end = last.offset + (slots - 1) * last.stride + last.size
    return f"{offset - end} bytes after the end of {last.name}"


def _nearest(buffers: Sequence[Buffer], title: str, offset: int) -> str:
    inside = [b for b in buffers if REGIONS[b.region] == title]
    for buffer in inside:
        relative = offset - buffer.offset
        slot = relative // buffer.stride if buffer.stride else 0
        within = relative - slot * buffer.stride
        if slot >= 0 and 0 <= within < buffer.size:
            return f"byte {within} of {buffer.name}"
        if slot >= 0 and buffer.size <= within < buffer.size + GUARD_BYTES:
            return f"{within - buffer.size} bytes after the end of {buffer.name}"
        before = buffer.stride - within if within > buffer.size else -within
        if 0 < before <= GUARD_BYTES:
            return f"{before} bytes before {buffer.name}"
    return f"byte {offset} of the {title} memory"
