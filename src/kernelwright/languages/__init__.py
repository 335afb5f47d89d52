"""Languages: how sources and a launch plan become an artifact, and where that happens.

Not here: loading an artifact, which only the judge's runner does.
"""

from kernelwright.languages.builder import Builder
from kernelwright.languages.device_target import detect_device_target
from kernelwright.languages.devices import cuda_target
from kernelwright.languages.emulation import emulated_target, is_emulated
from kernelwright.languages.hardware import detect_target
from kernelwright.languages.kernel_file import candidate_from_file, skeleton
from kernelwright.languages.plan import check_plan
from kernelwright.languages.program import build_program
from kernelwright.languages.table import load, names

__all__ = [
    "Builder",
    "build_program",
    "candidate_from_file",
    "check_plan",
    "cuda_target",
    "detect_device_target",
    "detect_target",
    "emulated_target",
    "is_emulated",
    "load",
    "names",
    "skeleton",
]
