"""The corpus as kernelwright.selftest knows it, under the names that the tests of this folder use."""

from __future__ import annotations

from kernelwright.selftest.kernel_files import CORPUS, Kernel, judged, kernels, reason
from kernelwright.selftest.sessions import QUICK, Sessions
from kernelwright.selftest.small_problems import COLUMNS, ROWS, make_problem

HERE = CORPUS
__all__ = ["COLUMNS", "HERE", "QUICK", "ROWS", "Kernel", "Sessions", "judged", "kernels", "make_problem", "reason"]
