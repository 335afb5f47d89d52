"""Matrix products C = activation(alpha A B + beta C + bias): a space of schedules and the kernels they print.

Parent-side and text only: nothing here compiles or runs anything.
"""

from kernelwright.experts.gemm.print import candidate
from kernelwright.experts.gemm.product import Product, problem_of
from kernelwright.experts.gemm.rules import fault
from kernelwright.experts.gemm.schedules import Direct, Dot, Hopper, Schedule, Warps, parse, spell

__all__ = [
    "Direct",
    "Dot",
    "Hopper",
    "Product",
    "Schedule",
    "Warps",
    "candidate",
    "fault",
    "parse",
    "problem_of",
    "spell",
]
