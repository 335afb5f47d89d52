"""A sealed library of a bundle in this process: whether it may run here, and calling it.

**Covers**: instruction sets that the processor lacks, a missing OpenMP library, the size of the thread team, calls at
the same time to a library that keeps data.
**Does not cover**: a crash in it. The judge's runner is a process of its own; this one is the user's.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence

from kernelwright.deploy.bundle import BundledKernel
from kernelwright.errors import UserError
from kernelwright.languages.hardware import cpu_features

OPENMP = "libgomp.so.1"


class Library:
    """A loaded library with its entry.

    Raises:
        UserError: when it must not, or cannot, be loaded here.
    """

    def __init__(self, kernel: BundledKernel) -> None:
        if missing := sorted(set(kernel.target.features) - set(cpu_features())):
            raise UserError(
                f"{kernel.name} was built for {kernel.target.architecture}; this processor lacks {', '.join(missing)}",
                "export it on a machine like this one",
            )
        try:
            self._library = ctypes.CDLL(str(kernel.binary))
        except OSError as error:
            fix = "apt-get install libgomp1" if "gomp" in str(error) else "export it again"
            raise UserError(f"{kernel.name} cannot be loaded: {error}", fix) from None
        self._entry = self._library[kernel.artifact.entry]
        self._entry.restype = None
        self._entry.argtypes = (ctypes.c_char_p, ctypes.c_char_p)  # bytes are passed as they lie, without a copy
        self.address = int(ctypes.cast(self._entry, ctypes.c_void_p).value or 0)
        self.threads = kernel.target.threads
        self.set_threads = openmp_setter()
        self._lock = threading.Lock() if kernel.serial else None
        arguments = len(kernel.problem.arguments) + len(kernel.artifact.plan.workspaces)
        self._addresses = struct.Struct(f"={arguments}Q").pack
        self._sizes = struct.Struct(f"={len(kernel.problem.axes)}q").pack
        self._seen = threading.local()

    def call(self, buffers: Sequence[int], axes: Sequence[int]) -> None:
        """Runs the plan once; returns when it has ended."""
        if not hasattr(self._seen, "team"):  # each thread has a team size of its own
            self._seen.team = True
            if self.set_threads:
                self.set_threads(self.threads)
        addresses, sizes = self._addresses(*buffers), self._sizes(*axes)
        if self._lock is None:
            self._entry(addresses, sizes)
        else:
            with self._lock:
                self._entry(addresses, sizes)


def openmp_setter() -> ctypes._NamedFuncPointer | None:
    """Returns omp_set_num_threads of the OpenMP library that sealed libraries use, None where none is loaded."""
    try:
        return ctypes.CDLL(OPENMP).omp_set_num_threads
    except (OSError, AttributeError):
        return None
