"""Under which variables every contender runs: threads, how long they wait, what the allocator keeps.

The judge worker (baselines) and the runner (candidate) get the same. Set before a process starts,
because libgomp and glibc read them once.
"""

from __future__ import annotations

SPIN_COUNT = 10_000
"""How often an idle OpenMP thread looks for work before it sleeps: about 0.5 ms (Zen 4, 2026).
libgomp's default (300,000) would keep the cores busy for 15 ms after each block."""


COMPILING = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_VEC_ISA_OK": "1"}
"""For torch.compile where something is timed: processes that wait for more to compile would disturb, and be taken for a
candidate's. The processor says which vectors it has: no trial compilations for each."""


def environment(threads: int, *, bound: bool = True) -> dict[str, str]:
    """Returns the variables under which candidate and baselines run alike.

    Args:
        threads: how many a parallel region has.
        bound: whether threads are bound to processors. Not where a GPU does the work: the first thread of every
            process would be bound to the same processor, and judges on several GPUs wait for each other.

    Threads are bound to processors: two that are woken at once otherwise often share one for a whole
    block, and a 0.15 ms softmax then takes 1.1 ms (2 cores of Zen 4, 2026). The allocator keeps freed
    memory, so that no contender pays for page faults of its outputs; docs/facts.md says what that is worth.
    """
    binding = {"OMP_PROC_BIND": "spread", "OMP_PLACES": "threads"} if bound else {}
    return {
        "OMP_NUM_THREADS": str(threads),
        "OMP_DYNAMIC": "false",
        **binding,
        "GOMP_SPINCOUNT": str(SPIN_COUNT),
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "MALLOC_TOP_PAD_": str(64 << 20),
    }
