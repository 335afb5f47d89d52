"""How much memory a reference may use, and what its judgement will need.

A process that asks for more than there is would be killed without a word; under a limit the
allocation fails instead, with its size, and the user can be told.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterable
from math import prod
from pathlib import Path

from kernelwright.capture.costs import spec_bytes
from kernelwright.errors import SourceError, words_of
from kernelwright.types import TensorSpec

COPIES = 3
"""Judge, runner and a copy to compare with each hold the problem's tensors."""
TRUTH_COPIES = 2
"""The truth holds them in float64, and about as much again in between."""
ASKED = re.compile(r"tried to allocate (\d+) bytes")


def available_bytes() -> int:
    """Returns what this machine, or the group this process is confined to, has left."""
    values = {line.split(":")[0]: int(line.split()[1]) << 10 for line in Path("/proc/meminfo").read_text().splitlines()}
    free = values.get("MemAvailable", values["MemFree"])
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    return min(free, max(0, int(limit) - used)) if limit.isdigit() else free


def limit() -> int:
    """Makes allocations beyond the available memory fail in this process; returns that amount in bytes."""
    free = available_bytes()
    status = Path("/proc/self/status").read_text()
    used = next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:")), 0)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = used + free
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    return free


def check(specs: Iterable[TensorSpec], free: int) -> None:
    """Refuses a problem whose judgement would not fit.

    Args:
        specs: every tensor that is known so far.
        free: bytes that were available before anything was drawn.

    Raises:
        SourceError: with the need and what there is, in GB.
    """
    specs = tuple(specs)
    own = sum(spec_bytes(spec) for spec in specs)
    need = COPIES * own + TRUTH_COPIES * sum(8 * prod(spec.shape) for spec in specs)
    if need > free:
        message = (
            f"too little memory: its tensors take {own / 1e9:.1f} GB and judging them about {need / 1e9:.1f} GB, "
            f"but {free / 1e9:.1f} GB are available"
        )
        raise SourceError(message, f"use tensors at most {free / need:.0%} as large" if need else "")


def shortage(error: BaseException, free: int) -> SourceError | None:
    """Returns the user's error behind a failed allocation, None for any other exception."""
    text = words_of(error)
    if not isinstance(error, MemoryError) and "allocate memory" not in text and "not enough memory" not in text:
        return None
    asked = ASKED.search(text)
    what = f"it asks for {int(asked[1]) / 1e9:.1f} GB at once" if asked else "it asks for more than there is"
    return SourceError(f"too little memory: {what}, but {free / 1e9:.1f} GB were available", "use smaller shapes")
