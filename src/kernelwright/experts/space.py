"""The schedule space of loop nests: which choices a kernel has, best guess first."""

from __future__ import annotations

from math import prod

from kernelwright.experts.emit import Settings
from kernelwright.experts.frame import Loops
from kernelwright.types import OptionValue, Parameter, Point, Problem, Space, Target

SMALL_ELEMENTS = 1 << 15
"""Below this many elements, starting threads costs more than they save."""


def space_of(problem: Problem, kernels: list[list[Loops]], target: Target) -> Space:
    """Returns the choices that matter for these kernels on this target."""
    every = [loops for boxes in kernels for loops in boxes]
    work = max(prod(v.extent for v in loops.variables) for loops in every)
    written = sum(prod(s.shape) * 4 for s in problem.outputs)
    threads: tuple[int, ...] = (target.threads,) if target.threads == 1 else (target.threads, 1)
    if work < SMALL_ELEMENTS:
        threads = tuple(reversed(threads))
    features = target.features
    wide = (64, 32, 16) if "avx512f" in features else (32, 16) if "avx2" in features else (16,)
    cache = target.cache_bytes or 32 << 20
    streams = (True, False) if written >= cache // 16 else (False, True)
    parameters = [
        Parameter(name="threads", values=threads),
        Parameter(name="vector_bytes", values=wide),
        Parameter(name="unroll", values=(4, 2, 1, 8)),
    ]
    if written > 1 << 12:
        parameters.append(Parameter(name="stream", values=streams))
    if any(len(loops.segments[0].folds) > 1 or loops.kernel.folds for loops in every):
        parameters.append(Parameter(name="keep", values=("costly", "none", "all")))
    if any(not loops.kernel.folds and not loops.kernel.scans for loops in every):
        parameters.append(Parameter(name="chunk", values=(16384, 4096, 65536)))
    parameters.append(Parameter(name="prefetch", values=(0, 512, 2048)))
    parameters.append(Parameter(name="dynamic", values=(False, True)))
    return Space(parameters=tuple(parameters))


def settings_of(point: Point) -> Settings:
    """Returns a point as settings; parameters that a space leaves out have one sensible value."""
    given: dict[str, OptionValue] = dict(point)
    return Settings(
        threads=int(given["threads"]),
        vector_bytes=int(given["vector_bytes"]),
        unroll=int(given["unroll"]),
        stream=bool(given.get("stream", False)),
        keep=str(given.get("keep", "costly")),
        chunk=int(given.get("chunk", 16384)),
        prefetch=int(given["prefetch"]),
        dynamic=bool(given["dynamic"]),
    )
