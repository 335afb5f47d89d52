"""Under which variables every contender runs: threads, how long they wait, what the allocator keeps.

The judge worker (baselines) and the runner (candidate) get the same. Set before a process starts,
because libgomp and glibc read them once.
"""

from __future__ import annotations

SPIN_COUNT = 20_000
"""How often an idle OpenMP thread looks for work before it sleeps.
libgomp's default (300,000) would keep the cores busy for milliseconds after each block."""


def environment(threads: int) -> dict[str, str]:
    """Returns the variables under which candidate and baselines run alike.

    The allocator keeps freed memory, so that no contender pays for page faults of its outputs; what
    that is worth is in docs/facts.md.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "OMP_DYNAMIC": "false",
        "GOMP_SPINCOUNT": str(SPIN_COUNT),
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "MALLOC_TOP_PAD_": str(64 << 20),
    }
