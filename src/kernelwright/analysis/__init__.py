"""What compiled device code is like, found without a device: `analyze` of a cubin or of a CUDA source.

Resources and occupancy from the cubin's tables, instructions from nvdisasm, mapped to source lines, and rules that
say what to try and why. Everything here is read from code: how often a line runs, and how long it takes, only a
profile on a device says (ncu.py).
Not here: whether a kernel is right or fast (judge).
"""

from kernelwright.analysis.findings import Analysis, KernelAnalysis, analyze, analyze_candidate, analyze_cubin
from kernelwright.analysis.ncu import Profile, profile, read_launches, read_rules
from kernelwright.analysis.occupancy import Occupancy, occupancy
from kernelwright.analysis.text import lines

__all__ = [
    "Analysis",
    "KernelAnalysis",
    "Occupancy",
    "Profile",
    "analyze",
    "analyze_candidate",
    "analyze_cubin",
    "lines",
    "occupancy",
    "profile",
    "read_launches",
    "read_rules",
]
