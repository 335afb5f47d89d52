"""A quality-diversity archive: the fastest kernel of each way of being fast, and islands that each keep one.

After Mouret and Clune, "Illuminating search spaces by mapping elites" (2015), over four axes of optimisation as
KernelFoundry uses three: memory, compute, parallelism, launch, each with levels 0 to 3 read off the source. The levels
say what an author tried, not what it was worth: that is the speed's part.
Not here: who is asked to improve what (evolution.py).
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterable

from kernelwright.search.authored.briefs import Exemplar
from kernelwright.types import Candidate, digest

LEVELS = 3
Cell = tuple[int, int, int, int]
AXES = ("memory", "compute", "parallelism", "launch")
PATTERNS: dict[str, tuple[tuple[int, str], ...]] = {
    "memory": (
        (1, r"__restrict__|__restrict\b|__ldg|alignas|assume_aligned"),
        (1, r"float4|float2|int4|uint4|half2|bfloat162|_mm\d*_loadu?_|vector_size|reinterpret_cast<const \w+4"),
        (1, r"_mm\d*_stream_|__stcs|__ldcs|prefetch|nontemporal|__shared__|\bchunk|\btile|TILE|BLOCK_[MNK]"),
        (1, r"cp\.async|cuda::memcpy_async|__pipeline|cp_async|tensor_map|make_tensor_descriptor|num_stages"),
    ),
    "compute": (
        (1, r"omp simd|#pragma GCC ivdep|\bunroll\b|vectorize|static_range"),
        (1, r"_mm\d*_fmadd|__fmaf|std::fma|fmaf\(|exp2f?\(|__expf|rsqrt|_mm512_|_mm256_"),
        (1, r"online|running_max|rescale|polynomial|\bpoly\b|horner|correction"),
        (2, r"mma\.sync|wmma|wgmma|tl\.dot|ct\.mma|_mm512_dpbf16|_tile_dpb"),
    ),
    "parallelism": (
        (1, r"omp parallel|threadIdx|tl\.program_id|ct\.bid"),
        (1, r"collapse\(|schedule\(|omp for|__shfl|tl\.reduce|tl\.max|tl\.sum|__syncthreads"),
        (1, r"omp sections|omp task|cooperative_groups|__reduce_|atomicAdd|num_warps=(?:8|16)|reduction\("),
        (1, r"cluster|setmaxnreg|warp.?speciali|omp_get_thread_num|split.?k"),
    ),
    "launch": (
        (1, r"num_warps|__launch_bounds__|num_threads\("),
        (1, r"persistent|grid.?stride|gridDim|tl\.num_programs|range\(tl\.program_id"),
        (1, r"cooperative=|programmatic=|griddepcontrol"),
    ),
}
BUCKET = 1.25
"""Kernels whose speeds differ by less than this factor are of one speed bucket."""
STEPS_FUSED = 1


def cell_of(candidate: Candidate) -> Cell:
    """Returns the levels of the four axes, read off a candidate's sources and plan."""
    text = "\n".join(source.text for source in candidate.sources)
    found = []
    for axis in AXES:
        score = sum(weight for weight, pattern in PATTERNS[axis] if re.search(pattern, text, re.IGNORECASE))
        if axis == "launch" and len(candidate.plan.steps) > STEPS_FUSED:
            score += 1
        found.append(min(LEVELS, score))
    return found[0], found[1], found[2], found[3]


class Archive:
    """The fastest exemplar of each cell."""

    def __init__(self) -> None:
        self._cells: dict[Cell, Exemplar] = {}

    def add(self, exemplar: Exemplar) -> bool:
        """Takes in a kernel that passed; True where it is the fastest of its cell."""
        cell = cell_of(exemplar.candidate)
        known = self._cells.get(cell)
        if known is not None and known.speed >= exemplar.speed:
            return False
        self._cells[cell] = exemplar
        return True

    @property
    def elites(self) -> tuple[Exemplar, ...]:
        """The fastest of each cell, the fastest first; of equals the one with the smaller digest."""
        return tuple(sorted(self._cells.values(), key=lambda e: (-e.speed, digest(e.candidate))))

    @property
    def best(self) -> Exemplar | None:
        """The fastest of all."""
        return next(iter(self.elites), None)

    def parent(self, rng: random.Random) -> Exemplar | None:
        """Returns a kernel to go on from: the best in half of the draws, else any elite, rather a faster one."""
        elites = self.elites
        if not elites:
            return None
        if rng.random() < 0.5:
            return elites[0]
        return elites[min(rng.randrange(len(elites)), rng.randrange(len(elites)))]


def contrasted(known: Iterable[Exemplar], count: int, rng: random.Random) -> tuple[Exemplar, ...]:
    """Returns kernels of distinct speed buckets, from slow to fast, the fastest always among them.

    After CUDA-L1, which contrasts kernels of different speeds so that a model can see what makes the difference; two
    of nearly one speed would only show noise. The others are drawn, the faster buckets with more weight.
    """
    buckets: dict[int, list[Exemplar]] = {}
    for exemplar in sorted(known, key=lambda e: (-e.speed, digest(e.candidate))):
        buckets.setdefault(math.floor(math.log(max(exemplar.speed, 1e-9), BUCKET)), []).append(exemplar)
    order = sorted(buckets, reverse=True)
    chosen = [buckets[order[0]][0]] if order else []
    rest = order[1:]
    while rest and len(chosen) < count:
        weights = [1.0 / (1 + place) for place in range(len(rest))]
        bucket = rng.choices(rest, weights)[0]
        rest.remove(bucket)
        chosen.append(rng.choice(buckets[bucket]))
    return tuple(sorted(chosen, key=lambda e: (e.speed, digest(e.candidate))))


class Islands:
    """Archives that evolve apart and send their best to the next one now and then.

    Args:
        count: how many.
        every: rounds between migrations.
    """

    def __init__(self, count: int, *, every: int = 4) -> None:
        self.archives = tuple(Archive() for _ in range(count))
        self._every = every
        self._rounds = 0

    def seed(self, exemplars: Iterable[Exemplar]) -> None:
        """Deals kernels out, one island after the other, so that each begins somewhere else; the first to all."""
        for place, exemplar in enumerate(exemplars):
            for archive in self.archives if place == 0 else (self.archives[place % len(self.archives)],):
                archive.add(exemplar)

    def home(self, place: int) -> Archive:
        """Returns an island's archive, or the one with the fastest kernel of all while the island is empty."""
        if self.archives[place].best is not None:
            return self.archives[place]
        return max(self.archives, key=lambda archive: archive.best.speed if archive.best else 0.0)

    def everything(self) -> tuple[Exemplar, ...]:
        """Returns every elite of every island once."""
        found = {digest(e.candidate): e for archive in self.archives for e in archive.elites}
        return tuple(found.values())

    def turn(self) -> bool:
        """Counts a round; at every `every`th, each island's best goes on to the next in the ring."""
        self._rounds += 1
        if len(self.archives) < 2 or self._rounds % self._every:
            return False
        leaving = [archive.best for archive in self.archives]
        for place, exemplar in enumerate(leaving):
            if exemplar is not None:
                self.archives[(place + 1) % len(self.archives)].add(exemplar)
        return True
