"""Running a compiler with bounds on time, memory, file size and processes.

**Covers**: wall-clock and CPU time, address space, size of each file written, number of
processes, core dumps, a clean environment, a temporary folder of its own.
**Does not cover**: the network and the rest of the file system, which are the build worker's jail's part, unless a
jail of its own is asked for.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import BinaryIO

from kernelwright.errors import UserError
from kernelwright.jail import Jail
from kernelwright.jail.layers import has_seccomp, landlock_abi
from kernelwright.process import is_stopped
from kernelwright.types import value

# A shell sets the limits and becomes the compiler: nothing runs unlimited for even a moment, and
# no Python code runs between fork and exec. -p is the process limit in dash, -u in bash.
SHELL = (
    'ulimit -c 0; ulimit -t "$1"; ulimit -v "$2"; ulimit -f "$3"; '
    '{ ulimit -p "$4" || ulimit -u "$4"; } ; shift 4; exec 2>&1; exec "$@"'
)
OUTPUT_LIMIT_BYTES = 1 << 18
BLOCK_BYTES = 512
ATTEMPTS = 3
"""How often a command is run that something outside kills or stops."""
OUTSIDE = -1000
"""The status of one that was killed or stopped each time."""
FULL_BYTES = 1 << 20
"""A compiler that fails with less free space than this failed for lack of it, as far as anybody can tell."""


@value
class Limits:
    """What one compiler process may use."""

    time_s: float = 60.0
    """Wall-clock time of one command."""
    memory_bytes: int = 3 << 30
    """Address space of each process."""
    file_bytes: int = 1 << 27
    """Size of each file that is written."""
    processes: int = 1024
    """Processes and threads beyond those that the machine already runs."""


@value
class Ended:
    """How a bounded command ended."""

    status: int | None
    """Exit status, negative for a signal; None when it was killed at its deadline, OUTSIDE by somebody else."""
    output: str
    """What it printed, cut to 256 KiB."""


def run(
    command: list[str], *, folder: Path, temporary: Path, limits: Limits, stdin: str = "", jailed: bool = False
) -> Ended:
    """Runs a command in `folder` and returns how it ended.

    The command stays in the caller's process group, so that whoever kills a build worker's group
    takes its compiler along; at the deadline the whole tree below the command is killed.

    Args:
        command: a program's path and its arguments.
        folder: where it runs.
        temporary: a folder of its own for what it forgets.
        limits: what it may use.
        stdin: what it reads.
        jailed: it runs its author's code: it gets a jail of its own, in which only `folder` can be written. Inside a
            build worker's jail this keeps it from the worker and from other candidates' files. Where this machine
            has no jail within a jail, the worker serves one candidate only (`Language.runs_author_code`).

    Raises:
        UserError: when it failed on a full disk, which is no fault of what it compiled.
    """
    temporary.mkdir(exist_ok=True)
    given, printed = temporary / "stdin", temporary / "printed"
    given.write_text(stdin)
    for _ in range(ATTEMPTS):
        begun = time.monotonic()
        with given.open("rb") as source, printed.open("wb") as sink:
            if jailed and has_inner_jail():
                status = _run_jailed(command, folder, temporary, limits, source, sink)
            else:
                status = _run(command, folder, temporary, limits, source, sink)
        with printed.open("rb") as file:
            output = file.read(OUTPUT_LIMIT_BYTES).decode(errors="replace")
        in_time = time.monotonic() - begun < 0.9 * limits.time_s
        if jailed or (status != OUTSIDE and not (in_time and _was_killed(status, output))):
            break  # an author's code may kill itself
        status = OUTSIDE
    if status != 0:
        _check_disk(temporary)
    return Ended(status=status, output=output)


def _was_killed(status: int | None, output: str) -> bool:
    """SIGKILL, to the command or to what it started: within its time, that is somebody else's, or the machine's."""
    return status in (-signal.SIGKILL, 128 + signal.SIGKILL) or "Killed signal terminated program" in output


@functools.cache
def has_inner_jail() -> bool:
    """Tells whether a jail can be put up inside a build worker's jail."""
    return landlock_abi() > 0 and has_seccomp()


def _run(
    command: list[str], folder: Path, temporary: Path, limits: Limits, source: BinaryIO, sink: BinaryIO
) -> int | None:
    bounds = (
        max(1, round(limits.time_s)),
        limits.memory_bytes // 1024,
        limits.file_bytes // BLOCK_BYTES,
        _running() + limits.processes,
    )
    process = subprocess.Popen(
        ["/bin/sh", "-c", SHELL, "sh", *map(str, bounds), *command],
        cwd=folder,
        env=_clean_environment(command[0], temporary),
        stdin=source,
        stdout=sink,
        stderr=subprocess.DEVNULL,
    )
    try:
        return process.wait(limits.time_s)
    except subprocess.TimeoutExpired:
        return OUTSIDE if kill_tree(process.pid) else None
    finally:
        if process.returncode is None:
            kill_tree(process.pid)
            process.wait()


def _run_jailed(
    command: list[str], folder: Path, temporary: Path, limits: Limits, source: BinaryIO, sink: BinaryIO
) -> int | None:
    jail = Jail(
        write=str(folder),
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.file_bytes,
        processes=limits.processes,
        cpu_s=limits.time_s,
        engine="landlock",
    )
    environment = _clean_environment(command[0], temporary)
    with jail.start(command, environment=environment, stdin=source, stdout=sink, stderr=sink) as jailed:
        try:
            status = jailed.wait(limits.time_s)
        except subprocess.TimeoutExpired:
            return None
        if jailed.reason:
            sink.write(f"\nit was ended for its {jailed.reason}\n".encode())
        return status


def _check_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < FULL_BYTES:
        fix = "free some space, or set KERNELWRIGHT_HOME to a folder on another disk"
        raise UserError(f"the disk of {folder} is full: a compiler failed with {free} bytes left", fix)


def kill_tree(root: int) -> bool:
    """Kills a process and everything below it; each is stopped before its children are listed.

    Returns whether some of it was stopped already.
    """
    found, position, stopped = [root], 0, False
    while position < len(found):
        stopped |= is_stopped(found[position])
        _signal(found[position], signal.SIGSTOP)
        found += [child for child in _children(found[position]) if child not in found]
        position += 1
    for process in reversed(found):
        _signal(process, signal.SIGKILL)
    return stopped


def _children(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(folder.name))
    return found


def _signal(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return


def _running() -> int:
    """Processes and threads on the machine now: the kernel's limit counts all of a user's together."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


def _clean_environment(program: str, temporary: Path) -> dict[str, str]:
    folders = dict.fromkeys((os.path.dirname(program) or "/usr/bin", "/usr/local/bin", "/usr/bin", "/bin"))
    return {
        "PATH": ":".join(folders),
        "LC_ALL": "C",
        "TMPDIR": str(temporary),
        "HOME": str(temporary),
        "SOURCE_DATE_EPOCH": "0",
    }
