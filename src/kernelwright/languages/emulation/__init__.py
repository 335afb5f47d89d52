"""CUDA C++ judged without a GPU: kernels are compiled for the CPU, every thread of a block is a fiber.

What this says about a kernel is whether it is right, never how fast it is. An emulated target is a CPU target whose
toolchain names the emulation, so that its records are never taken for a device's.
Not here: the language's own checks of sources and plans (languages/cuda.py).
"""

from __future__ import annotations

from kernelwright.languages.emulation.build import compile_candidate, compile_checked, key
from kernelwright.languages.emulation.faults import explain
from kernelwright.languages.hardware import detect_target
from kernelwright.types import Target, replace

__all__ = [
    "ARCHITECTURE",
    "compile_candidate",
    "compile_checked",
    "emulated_target",
    "explain",
    "is_emulated",
    "key",
    "stand_in",
]

NAME, VERSION = "emulation", "1"
ARCHITECTURE = "sm_90a"
"""The device whose limits on grids, blocks and shared memory are kept."""


def emulated_target() -> Target:
    """Returns this machine as a target on which CUDA C++ is emulated; one thread runs everything.

    Raises:
        UserError: as `detect_target` does.
    """
    found = detect_target()
    return replace(found, threads=1, toolchain=tuple(sorted((*found.toolchain, (NAME, VERSION)))))


def is_emulated(target: Target) -> bool:
    """Returns whether a target emulates a device."""
    return target.kind == "cpu" and NAME in dict(target.toolchain)


def stand_in(target: Target) -> Target:
    """Returns the target against whose limits an emulated target's plans are checked."""
    return replace(target, kind="cuda", architecture=ARCHITECTURE)
