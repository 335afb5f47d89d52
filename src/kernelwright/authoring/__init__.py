"""Kernels from Python: write one (`kernel`), or have a NumPy function made into one (`fuse`), or the regions
of a model (`optimize_model`); in a notebook too.

Not here: judging, searching and bundles, which are the command line's own (run, deploy).
"""

from kernelwright.authoring.fused import Fused, fuse
from kernelwright.authoring.whole import RegionResult, optimize_model
from kernelwright.authoring.written import Written, kernel

__all__ = ["Fused", "RegionResult", "Written", "fuse", "kernel", "optimize_model"]
