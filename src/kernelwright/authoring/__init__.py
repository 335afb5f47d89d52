"""Kernels from Python: write one (`kernel`), or have a NumPy function made into one (`fuse`); in a notebook too.

Not here: judging, searching and bundles, which are the command line's own (run, deploy).
"""

from kernelwright.authoring.fused import Fused, fuse
from kernelwright.authoring.written import Written, kernel

__all__ = ["Fused", "Written", "fuse", "kernel"]
