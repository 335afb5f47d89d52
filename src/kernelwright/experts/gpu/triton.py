"""The loop expert for Triton: the same fused loop nests as for CUDA C++, one kernel of tiles for each.

Covers: every graph whose operators are in the readers' tables (experts/read*.py), of any shape; windows and even
embedding bags as well.
Does not cover: what has no reader, sin, cos and tan, and literal tensors of more than 64 elements; those are refused by
name.
"""

from __future__ import annotations

from kernelwright.experts.frame import Loops
from kernelwright.experts.gpu.tile_candidate import Choices, Frame, Options, proposed
from kernelwright.experts.gpu.tile_printer import expressions_of, has_two_products
from kernelwright.experts.gpu.triton_dialect import FAST, TritonDialect
from kernelwright.experts.protocol import Answer
from kernelwright.graph import Graph
from kernelwright.types import Parameter, Problem, Target

ELEMENTS_OF_WARP = 256
MOST_WARPS = 16


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns one template for the whole graph, or a refusal that names what is missing."""
    del target
    return proposed(problem, graph, FRAME)


def parameters(every: tuple[Loops, ...]) -> list[Parameter]:
    """Returns Triton's own choices, best guess first; 0 warps leaves them to the tile's size."""
    found = [Parameter(name="warps", values=(0, 4, 8, 2, 16, 1))]
    if any(loops.kernel.folds or loops.kernel.scans for loops in every):
        found.append(Parameter(name="stages", values=(1, 2, 3, 4)))
    if any(e.op in FAST or e.op in ("div", "sigmoid") for loops in every for e in expressions_of(loops)):
        found.append(Parameter(name="math", values=("exact", "fast")))
    return found


def options(given: Choices, elements: int) -> Options:
    """Returns the options of a step whose largest tile has that many elements."""
    warps = int(given["warps"]) or max(1, min(MOST_WARPS, elements // ELEMENTS_OF_WARP))
    return (("num_stages", int(given.get("stages", 1))), ("num_warps", warps))


def build(every: tuple[Loops, ...]) -> Options:
    """Returns the options of a whole candidate.

    What is 0 in PyTorch because two equal products cancel must not become one product's rounding error.
    """
    cancel = any(has_two_products(e) for loops in every for e in expressions_of(loops))
    return (("fp_fusion", False),) if cancel else ()


FRAME = Frame(
    package="triton", template="triton-loops", dialect=lambda given: TritonDialect(fast=given.get("math") == "fast"),
    parameters=parameters, options=options, build=build,
)  # fmt: skip
