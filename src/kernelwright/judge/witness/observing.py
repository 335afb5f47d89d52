"""What the judge worker sees of a witness worker from outside, in /proc: threads, processes, written pages.

No answer here depends on anything that runs in the candidate's process. Not here: what follows from it (witness.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelwright.jail import children_of

FILE_PAGE = np.uint64(1 << 61)
"""In /proc/PID/pagemap: the page is still the file's, not a private copy."""
PRESENT = np.uint64(1 << 63)
MOST_PIECES = 1024
"""Of one call of process_vm_readv (IOV_MAX)."""
_process_vm_readv = ctypes.CDLL(None, use_errno=True).process_vm_readv
_process_vm_readv.restype = ctypes.c_ssize_t
_process_vm_readv.argtypes = (ctypes.c_int, *(ctypes.c_void_p, ctypes.c_ulong) * 2, ctypes.c_ulong)
STOP_S = 5.0
"""A thread in the middle of a system call that cannot be interrupted stops after it."""


def threads_of(process: int) -> frozenset[int]:
    """Returns the numbers of a process's threads, none when it is gone."""
    try:
        return frozenset(int(name) for name in os.listdir(f"/proc/{process}/task"))
    except OSError:
        return frozenset()


def thread_names(process: int, threads: Collection[int]) -> list[str]:
    """Returns what some threads call themselves."""
    names = []
    for thread in sorted(threads):
        with contextlib.suppress(OSError):
            names.append(Path(f"/proc/{process}/task/{thread}/comm").read_text().strip())
    return names


def descendants(root: int) -> frozenset[int]:
    """Returns every process below one, itself left out."""
    found: set[int] = set()
    todo = [root]
    while todo:
        process = todo.pop()
        for child in children_of(process):
            if child not in found:
                found.add(child)
                todo.append(child)
    return frozenset(found)


def name_of(process: int) -> str:
    """Returns what a process calls itself."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return "?"


def named_inside(root: int, number: int) -> int:
    """Returns the process, `root` or below it, that calls itself `number` in its own namespace; 0 where none does."""
    for process in (root, *descendants(root)):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{process}/status").read_text().splitlines():
                if line.startswith("NSpid:") and int(line.split()[-1]) == number:
                    return process
    return 0


def written_page(process: int, address: int, size: int) -> int | None:
    """Returns the offset of the first page of a private file mapping that was written to, None where none was.

    Args:
        process: whose mapping.
        address: where to begin, any byte of a page.
        size: how many bytes from there.

    Raises:
        OSError: where the kernel does not tell.
    """
    entries = _pages(process, address, size)
    places = (((entries & PRESENT) != 0) & ((entries & FILE_PAGE) == 0)).nonzero()[0]
    return int(places[0]) * mmap.PAGESIZE if len(places) else None


def file_below(process: int, address: int, size: int) -> str:
    """Returns the name of a file, or of shared memory, of which a page is mapped there; empty where all is its own.

    Raises:
        OSError: where the kernel does not tell.
    """
    entries = _pages(process, address, size)
    places = (((entries & PRESENT) != 0) & ((entries & FILE_PAGE) != 0)).nonzero()[0]
    if not len(places):
        return ""
    page = (address // mmap.PAGESIZE + int(places[0])) * mmap.PAGESIZE
    for line in Path(f"/proc/{process}/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
        if first <= page < last:
            return line.split(maxsplit=5)[5] if line.count("/") else ""
    return ""


def _pages(process: int, address: int, size: int) -> NDArray[np.uint64]:
    """The entries of /proc/PID/pagemap for some bytes."""
    first = address // mmap.PAGESIZE
    count = (address + size - 1) // mmap.PAGESIZE - first + 1
    with open(f"/proc/{process}/pagemap", "rb", buffering=0) as file:
        file.seek(8 * first)
        data = file.read(8 * count)
    return np.frombuffer(data[: len(data) // 8 * 8], dtype=np.uint64)


def read_memory(process: int, addresses: NDArray[np.uint64], size: int) -> NDArray[np.uint8]:
    """Returns what lies in a process's memory at some addresses, `size` bytes each, one row for each address.

    Raises:
        OSError: where the kernel does not let it be read, or nothing lies there.
    """
    found = np.empty((len(addresses), size), dtype=np.uint8)
    for first in range(0, len(addresses), MOST_PIECES):
        part = addresses[first : first + MOST_PIECES]
        into = found[first : first + len(part)]
        theirs = np.column_stack((part, np.full(len(part), size, dtype=np.uint64)))
        mine = np.array([[into.ctypes.data, into.nbytes]], dtype=np.uint64)
        read = _process_vm_readv(process, mine.ctypes.data, 1, theirs.ctypes.data, len(part), 0)
        if read != into.nbytes:
            raise OSError(ctypes.get_errno() if read < 0 else errno.EFAULT, "another process's memory cannot be read")
    return found


def processor_ns(process: int) -> int:
    """Returns the processor time that a process's threads have used, 0 when it is gone; its children's is not in it."""
    # The number of a process's clock, as clock_getcpuclockid(3) makes it.
    try:
        return time.clock_gettime_ns((~process << 3) | 2)
    except OSError:
        return 0


def stop(process: int) -> None:
    """Stops every thread of a process and returns when they are, or when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
        until = time.monotonic() + STOP_S
        while _runs(process) and time.monotonic() < until:
            os.sched_yield()


def _runs(process: int) -> bool:
    # SIGSTOP is obeyed at once by threads in user code and at the end of a system call by others; the state of the
    # leader says T only once the whole group has stopped.
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "TtZX"


def go_on(process: int) -> None:
    """Lets a stopped process run again."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)
