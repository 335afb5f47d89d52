"""What a device ran, by CUPTI's activity records: every kernel, copy and memset of this process, on all streams.

In the witness worker. The library's functions are held from when this is imported: before a candidate is. Only fields
are read that lie at the same place in every layout of such a record from CUDA 11 to 13.

Not here: what the records mean (spans.py, in the judge's process), and the block that is recorded (cuda.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from ctypes import CFUNCTYPE, POINTER, byref, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Protocol

import torch

COPY, MEMSET, KERNEL, PEER_COPY = KINDS = 1, 2, 10, 22
LAYOUT = struct.Struct("<I4xQQQ8xI4xI")
"""Kind, bytes (not a kernel's), start and end in nanoseconds, the stream of a copy or memset, that of a kernel."""
BUFFERS, BUFFER_BYTES, MOST = 16, 1 << 20, 16_384
"""How many activities are told of, at most, is what a reply has room for."""
NAMES = ("RegisterCallbacks", "Enable", "Disable", "FlushAll", "GetNextRecord", "GetNumDroppedRecords")
_REQUESTED = CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
_COMPLETED = CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)


def _functions() -> dict[str, Any]:
    major = (torch.version.cuda or "").split(".")[0]
    name, packages = f"libcupti.so.{major}", Path(torch.__file__).parent.parent / "nvidia"
    # By its name first: torch's own profiler has loaded it, and two copies would know nothing of each other.
    for place in (name, packages / f"cu{major}" / "lib" / name, packages / "cuda_cupti" / "lib" / name):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(str(place))
            return {short: getattr(library, f"cuptiActivity{short}") for short in NAMES}
    return {}


FUNCTIONS = _functions()
"""CUPTI's by their short names; empty where it is not installed."""


class Recorder(Protocol):
    """Records what a device runs between `start` and `stop`.

    **Covers**: kernels, copies and memsets that this process starts, on any stream and in replays of graphs.
    **Does not cover**: graphs that a kernel launches, what began before, other processes, whoever switches it off.
    """

    def start(self) -> str:
        """Begins; returns why that is not possible, empty where it is."""

    def stop(self) -> dict[str, Any]:
        """Returns each activity's start, end, stream and, of a copy, bytes; how many found no room; an error's code."""


class Cupti:
    """The recorder that CUPTI is. Nothing of it is called before the first `start`: what is attached slows launches."""

    def __init__(self) -> None:
        self._buffers: dict[int, Any] = {}
        self._free: list[int] = []
        self._activities: list[tuple[int, int, int, int]] = []
        self._callbacks = _REQUESTED(self._request), _COMPLETED(self._complete)

    def start(self) -> str:
        """Begins; returns why that is not possible, empty where it is."""
        if not FUNCTIONS:
            return "torch's CUPTI is not installed"
        if not self._buffers:
            made = [(ctypes.c_uint8 * BUFFER_BYTES)() for _ in range(BUFFERS)]
            self._buffers = {ctypes.addressof(buffer): buffer for buffer in made}
            self._free = list(self._buffers)
        self._activities = []
        code = FUNCTIONS["RegisterCallbacks"](*self._callbacks) or max(map(FUNCTIONS["Enable"], KINDS))
        _dropped()
        return f"it cannot be switched on, code {code}" if code else ""

    def stop(self) -> dict[str, Any]:
        """Returns what was recorded; the device must be idle."""
        code = FUNCTIONS["FlushAll"](1) or max(map(FUNCTIONS["Disable"], KINDS))
        more = max(0, len(self._activities) - MOST)
        return {"activities": self._activities[:MOST], "dropped": _dropped() + more, "code": code}

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        # Without a buffer it drops records, and counts them.
        buffer[0], size[0], most[0] = (self._free.pop(), BUFFER_BYTES, 0) if self._free else (None, 0, 0)

    def _complete(self, context: int, stream: int, buffer: int, size: int, valid: int) -> None:
        del context, stream, size
        record = c_void_p()
        while FUNCTIONS["GetNextRecord"](c_void_p(buffer), c_size_t(valid), byref(record)) == 0:
            at = (record.value or 0) - buffer
            kind, length, start, end, of_copy, of_kernel = LAYOUT.unpack_from(self._buffers[buffer], at)
            if kind in KINDS:
                self._activities.append((start, end, *((of_kernel, 0) if kind == KERNEL else (of_copy, length))))
        self._free.append(buffer)


def _dropped() -> int:
    """How many records found no room since this was asked last."""
    count = c_size_t()
    FUNCTIONS["GetNumDroppedRecords"](None, 0, byref(count))
    return count.value
