"""The value that says what a jailed command may do, and the running command itself.

    with Jail(write=folder, memory_bytes=2 << 30).start(["/usr/bin/g++", "x.cpp"]) as jailed:
        status = jailed.wait(60)

Everything has a bound, and a bound that cannot be kept here is an error, not a wish.
Not here: the jailer (enter.py), the file system's view (view.py), the filter (filter.py), what works here (layers.py).
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from kernelwright.errors import KernelwrightError, UserError
from kernelwright.jail import filter as calls
from kernelwright.jail import layers, view
from kernelwright.jail.layers import Strength
from kernelwright.values import value

STARTER = "import sys; sys.path.insert(0, sys.argv[1]); import enter"
"""What the jailer's Python is told: its own folder first, then itself."""
PASSED_ON = (
    "PATH", "LANG", "LC_ALL", "PYTHONPATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES",
    "KERNELWRIGHT_CXX", "KERNELWRIGHT_THREADS",
)  # fmt: skip
"""Variables of the parent that a jailed command sees; nothing else of its environment."""
GRACE_S = 10.0
"""How long the keeper may take to end everything before it is killed itself."""
TRIAL_S = 20.0
OPEN_FILES = 1024
WATCH_PERIOD_MS = 100
NO_JAIL = "apt-get install -y bubblewrap, or use a kernel with Landlock (Linux 5.13 or newer)"


def default_processes() -> int:
    """Returns how many processes and threads a command may have: libraries start a thread for each processor."""
    return 512 + 4 * (os.cpu_count() or 1)


@value
class Jail:
    """What a command, or a worker, may see, change and use.

    **Covers**: the file system (an allow-list to read, one folder to write), network, other processes, devices, system
    calls, privileges, descriptors, environment, and amounts of everything. Ended as a whole, whatever it started.
    **Does not cover**: what the command answers: whoever asked checks that. The system's programs can be read.
    """

    write: str = ""
    """The one folder that can be changed; it exists. Its files are not removed. Empty: nothing can be changed."""
    read: tuple[str, ...] = ()
    """Files and folders that can be read, beyond the system's and this Python's."""
    network: bool = False
    devices: tuple[str, ...] = ()
    """Kinds of devices that can be used: `nvidia`."""
    memory_bytes: int = 4 << 30
    """Of all its processes together, and the private memory of each (not with a GPU: CUDA reserves far more)."""
    processes: int = 0
    """Processes and threads at one time; 0 stands for `default_processes()`."""
    file_bytes: int = 1 << 29
    """Size of each file that is written."""
    disk_bytes: int = 1 << 30
    """What lies in `write`."""
    shared_bytes: int = 64 << 20
    """Of /tmp and of /dev/shm, which are the jail's own and vanish with it."""
    output_bytes: int = 64 << 20
    """What may be printed."""
    cpu_s: float = 0.0
    """Processor time of all together; 0 for no bound."""
    wall_s: float = 0.0
    """Time from the start; 0 for no bound: whoever waits for a worker has a deadline."""
    reserves: bool = False
    """It reserves far more memory than it uses, as sanitizers do: only what it uses is bounded."""
    fixed_addresses: bool = False
    """Its address space is laid out the same way each time."""
    engine: str = ""
    """`bubblewrap`, `namespaces` or `landlock`; empty for the best that works here."""
    landlock: bool = True
    """False leaves Landlock out where an engine does without it; for tests of the other layers."""
    seccomp: bool = True
    """False leaves the filter of system calls out; for tests of the other layers."""

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
    ) -> Jailed:
        """Starts a command in the jail.

        Args:
            command: an absolute path and its arguments.
            environment: variables beyond the few that are passed on.
            descriptors: open descriptors that the command keeps, under the same numbers.
            stdin: as for `subprocess.Popen`, like the two after it.
            stdout: where it prints.
            stderr: where it complains.

        Raises:
            UserError: when this machine cannot hold it, or a path does not exist.
        """
        user = (self.engine or preferred_engine()) != "namespaces" or not _without_user_namespace()
        return self._start(
            command,
            user=user,
            environment=environment,
            descriptors=descriptors,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )

    def _start(
        self,
        command: Sequence[str],
        *,
        user: bool,
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        stdin: int | IO[Any] = subprocess.DEVNULL,
        stdout: int | IO[Any] = subprocess.DEVNULL,
        stderr: int | IO[Any] = subprocess.DEVNULL,
    ) -> Jailed:
        engine = self.engine or preferred_engine()
        if self.write and not os.path.isdir(self.write):
            raise UserError(f"the jail's folder {self.write} does not exist", "make it first")
        life, own_life = os.pipe2(os.O_CLOEXEC)
        own_report, report = os.pipe2(os.O_CLOEXEC)
        try:
            spec = self._specification(engine, command, environment or {}, descriptors, report, life)
            spec["namespaces"] = [*(["user"] if user else []), *spec["namespaces"]]
            process = subprocess.Popen(
                [*self._prefix(engine), *_jailer(spec)],
                env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
                pass_fds=(life, report, *descriptors),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                cwd="/",
            )
        except BaseException:
            os.close(own_life)
            os.close(own_report)
            raise
        finally:
            os.close(life)
            os.close(report)
        return Jailed(process, own_life, own_report, engine)

    def describe(self) -> str:
        """Returns what holds a command in this jail, in words."""
        engine = self.engine or preferred_engine()
        parts = [] if engine == "landlock" else [engine]
        parts += [f"Landlock {layers.landlock_abi()}"] if self._abi(engine) else []
        parts += ["seccomp"] if self._filters() else []
        return ", ".join([*parts, "rlimits", "watch"])

    def _abi(self, engine: str) -> int:
        return layers.landlock_abi() if self.landlock or engine == "landlock" else 0

    def _filters(self) -> bool:
        return self.seccomp and layers.has_seccomp()

    def _folder(self) -> str:
        return os.path.realpath(self.write) if self.write else ""

    def _specification(
        self, engine: str, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[int],
        report: int, life: int,
    ) -> dict[str, Any]:  # fmt: skip
        folder, paths = self._folder(), self._paths()
        own_root, abi = engine != "landlock", self._abi(engine)
        processes = self.processes or default_processes()
        rules = view.landlock(
            paths, write=folder, devices=self.devices, abi=abi, own_root=own_root, network=self.network
        )
        gpu = "nvidia" in self.devices
        program = calls.program(
            network=self.network, local_sockets=gpu, memory_files=gpu, grouped=not own_root,
            signals=not own_root and abi < 6,
        ) if self._filters() else b""  # fmt: skip
        passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        own = {"HOME": folder or "/", "TMPDIR": folder or "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
        return {
            "engine": engine,
            "namespaces": ["mount", "pid", "ipc", "names", *([] if self.network else ["network"])],
            "mounts": self._mounts(paths) if engine == "namespaces" else [],
            "landlock": rules if abi else None,
            "filter": program,
            "limits": self._limits(processes),
            "folder": folder or "/",
            "write": folder,
            "command": list(command),
            "environment": {**passed, **own, **environment},
            "descriptors": list(descriptors),
            "fixed_addresses": self.fixed_addresses,
            "names_threads": gpu and engine == "namespaces",
            "report": report,
            "life": life,
            "watch": {
                "processes": processes, "memory_bytes": self.memory_bytes, "disk_bytes": self.disk_bytes,
                "output_bytes": self.output_bytes, "cpu_s": self.cpu_s, "wall_s": self.wall_s,
                "period_ms": WATCH_PERIOD_MS,
            },
        }  # fmt: skip

    def _paths(self) -> tuple[str, ...]:
        files = [path for name in self.devices for path in view.DEVICE_FILES[name]]
        for path in self.read:
            if not os.path.exists(path):
                raise UserError(f"{path}, which the jail should show, does not exist", "name another")
        return view.visible((*self.read, *files))

    def _mounts(self, paths: Sequence[str]) -> list[tuple[str, str, str]]:
        return view.mounts(paths, write=self._folder(), devices=self.devices, memory_bytes=self.shared_bytes)

    def _limits(self, processes: int) -> list[tuple[int, int]]:
        limits = [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, self.file_bytes),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_MEMLOCK, 64 << 20),
            (resource.RLIMIT_NPROC, _running() + processes),
        ]
        if "nvidia" not in self.devices and not self.reserves:
            limits.append((resource.RLIMIT_DATA, self.memory_bytes))
        if self.cpu_s:
            limits.append((resource.RLIMIT_CPU, max(1, round(self.cpu_s))))
        return limits

    def _prefix(self, engine: str) -> list[str]:
        if engine != "bubblewrap":
            return []
        names = ["user", "ipc", "pid", "uts"] + ([] if self.network else ["net"])
        words = [layers.bubblewrap(), *(f"--unshare-{name}" for name in names), "--as-pid-1", "--cap-drop", "ALL"]
        forms = {"read": "--ro-bind", "write": "--bind", "device": "--dev-bind"}
        for kind, path, detail in self._mounts(self._paths()):
            if kind == "link":
                words += ["--symlink", detail, path]
            elif kind == "memory":
                words += ["--perms", "1777", "--size", detail, "--tmpfs", path]
            else:
                words += [forms[kind], path, path]
        return [*words, "--proc", "/proc", "--remount-ro", "/", "--"]


def _jailer(spec: dict[str, Any]) -> list[str]:
    folder = str(Path(__file__).parent)
    return [sys.executable, "-I", "-S", "-c", STARTER, folder, marshal.dumps(spec).hex()]


def _running() -> int:
    """Processes and threads on the machine now: before Linux 5.14 the limit counts all of a user's together."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 1024


def preferred_engine() -> layers.Engine:
    """Returns the best engine that works on this machine; each is tried once in a process.

    Raises:
        UserError: when there is none: nothing is run half jailed.
    """
    for engine in layers.ENGINES:
        if not _fault(engine):
            return engine
    faults = "; ".join(f"{engine}: {_fault(engine)}" for engine in layers.ENGINES)
    raise UserError(f"nothing on this machine can hold other people's code ({faults})", NO_JAIL)


def strength() -> Strength:
    """Returns which layers hold on this machine; every engine is tried."""
    faults = {engine: _fault(engine) for engine in layers.ENGINES}
    return Strength(
        engines=tuple(engine for engine in layers.ENGINES if not faults[engine]),
        user_namespace=not faults["namespaces"] and not _without_user_namespace(),
        landlock=layers.landlock_abi(),
        seccomp=layers.has_seccomp(),
        problems=tuple((engine, fault) for engine, fault in faults.items() if fault),
    )


@functools.cache
def _fault(engine: layers.Engine) -> str:
    """Returns why an engine does not work here, empty when it does."""
    if engine == "bubblewrap" and not layers.bubblewrap():
        return "it is not installed"
    if engine == "landlock":
        if not layers.landlock_abi():
            return "this kernel has no Landlock"
        return "" if layers.has_seccomp() else "it needs seccomp beside it, which is not there"
    if engine == "namespaces":
        if not (fault := _try(engine, "user")):
            return ""
        return fault if os.geteuid() else _try(engine, "")
    return _try(engine, "user")


def _without_user_namespace() -> bool:
    """Root can do without where user namespaces are switched off."""
    return bool(os.geteuid() == 0 and _try("namespaces", "user"))


@functools.cache
def _try(engine: layers.Engine, user: str) -> str:
    """Runs a command that does nothing; returns why it cannot be."""
    with tempfile.TemporaryFile() as said:
        try:
            jail = Jail(engine=engine, memory_bytes=1 << 30)
            with jail._start(["/bin/true"], user=bool(user), stdout=said, stderr=said) as jailed:
                status = jailed.wait(TRIAL_S)
        except (KernelwrightError, OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    return "" if status == 0 else (lines or [f"it ended with status {status}"])[-1]


def children_of(process: int) -> list[int]:
    """Returns a process's children, none when it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return found


class Jailed:
    """A running jailed command. Closing it ends everything that it started."""

    def __init__(self, process: subprocess.Popen[bytes], life: int, report: int, engine: str) -> None:
        self._process, self._life, self._report, self.engine = process, life, report, engine
        self._told, self._group = b"", 0
        self._status: int | None = None
        self._lock = threading.Lock()
        self.reason = ""
        """Which bound ended it, in words; empty where none did."""
        self.killed_outside = False
        """The jailer itself was killed, which nobody inside can do."""
        os.set_blocking(report, False)

    @property
    def pid(self) -> int:
        """The jailer's number: the first process of everything jailed, seen from outside."""
        return self._process.pid

    def processes(self) -> list[int]:
        """Returns the jailer, the keeper and the command, seen from outside, as far as they are there."""
        found = [self.pid]
        for _ in range(2):
            found += [child for process in found for child in children_of(process) if child not in found]
        return found

    @property
    def returncode(self) -> int | None:
        """The command's exit status, negative for a signal; None while it runs."""
        return self.poll()

    def poll(self) -> int | None:
        """Returns the exit status once the whole jail is gone, negative for a signal; None before."""
        return None if self._process.poll() is None else self._ended()

    def wait(self, timeout_s: float | None = None) -> int:
        """Waits for the end and returns the exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: when the time is over first.
            UserError: when the jail could not be put up.
        """
        self._process.wait(timeout_s)
        return self._ended()

    def _ended(self) -> int:
        with self._lock:
            return self._status_told()

    def _status_told(self) -> int:
        self._hear()
        if self._status is None:
            # The jailer was killed itself. What lies in a namespace has gone with it; a group may have been left.
            self._end_group()
            self.killed_outside = self._life >= 0
            code = self._process.returncode
            self._status = code if code is not None and code < 0 else -signal.SIGKILL
        return self._status

    def _hear(self) -> None:
        """Reads what the keeper has told so far."""
        with contextlib.suppress(BlockingIOError):
            while self._report >= 0 and (part := os.read(self._report, 4096)):
                self._told += part
        for line in self._told.decode(errors="replace").splitlines():
            word, _, detail = line.partition(" ")
            if word == "group" and detail.isdecimal():
                self._group = int(detail)
            elif word == "limit":
                self.reason = detail
            elif word == "ended":
                kind, _, number = detail.partition(" ")
                self._status = -int(number) if kind == "signal" else int(number)
            elif word == "unusable":
                raise UserError(f"the jail ({self.engine}) cannot be put up: {detail}", NO_JAIL)

    def _end_group(self) -> None:
        """Where there is no namespace: kills a group whose keeper was killed, unless its number went to others."""
        if self.engine != "landlock" or not self._group:
            return
        for _ in range(100):
            try:
                os.killpg(self._group, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                return
            time.sleep(0.01)

    def kill(self) -> None:
        """Ends the command and everything it started, and waits until it is gone; harmless when it is."""
        with self._lock:
            if self._life >= 0:
                os.close(self._life)
                self._life = -1
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGCONT)  # whoever stopped the keeper
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        with contextlib.suppress(UserError):
            self._ended()

    def close(self) -> None:
        """Ends what runs and gives the channels back."""
        self.kill()
        if self._report >= 0:
            os.close(self._report)
            self._report = -1

    def __enter__(self) -> Jailed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
