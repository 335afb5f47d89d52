"""The corpus as kernelwright.selftest knows it, under the names that the tests of this folder use."""

from __future__ import annotations

from kernelwright.selftest.kernel_files import Kernel, judged, kernels, reason
from kernelwright.selftest.sessions import QUICK, Sessions
from kernelwright.selftest.small_problems import COLUMNS, ROWS, make_problem

__all__ = ["COLUMNS", "QUICK", "ROWS", "Kernel", "Sessions", "judged", "kernels", "make_problem", "reason"]
