"""The loop expert for Triton: the same fused loop nests as for CUDA C++, one kernel of tiles for each.

Covers: every graph whose operators are in the readers' tables (experts/read*.py), of any shape.
Does not cover: what has no reader, sin, cos and tan, and literal tensors of more than 64 elements; those are refused by
name.
"""

from __future__ import annotations

from functools import cache

from kernelwright.experts.frame import Loops
from kernelwright.experts.gpu.tile_candidate import candidate, loops_of, missing, shape_parameters
from kernelwright.experts.gpu.tile_printer import expressions_of, has_two_products
from kernelwright.experts.gpu.triton_dialect import FAST, TritonDialect
from kernelwright.experts.protocol import Answer
from kernelwright.graph import Graph
from kernelwright.types import (
    Candidate,
    Failure,
    OptionValue,
    Parameter,
    Point,
    Problem,
    Refusal,
    Space,
    Target,
    Template,
    digest,
)

ELEMENTS_OF_WARP = 256
MOST_WARPS = 16


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns one template for the whole graph, or a refusal that names what is missing."""
    del target
    every = missing("triton") or loops_of(problem, graph, TritonDialect())
    if isinstance(every, Refusal):
        return every
    identity = digest(problem)
    # What is 0 in PyTorch because two equal products cancel must not become one product's rounding error.
    build = (
        (("fp_fusion", False),) if any(has_two_products(e) for loops in every for e in expressions_of(loops)) else ()
    )

    @cache
    def emit(point: Point) -> Candidate | Failure:
        given: dict[str, OptionValue] = dict(point)

        def options(elements: int) -> tuple[tuple[str, OptionValue], ...]:
            warps = int(given["warps"]) or max(1, min(MOST_WARPS, elements // ELEMENTS_OF_WARP))
            return (("num_stages", int(given.get("stages", 1))), ("num_warps", warps))

        return candidate(
            problem, identity, every, point,
            dialect=TritonDialect(fast=given.get("math") == "fast"), template="triton-loops",
            options=options, build=build,
        )  # fmt: skip

    return Template(name="triton-loops", space=space_of(every), emit=emit)


def space_of(every: tuple[Loops, ...]) -> Space:
    """Returns the choices that matter for these loops, best guess first; 0 warps leaves them to the tile's size."""
    parameters = [*shape_parameters(every), Parameter(name="warps", values=(0, 4, 8, 2, 16, 1))]
    if any(loops.kernel.folds or loops.kernel.scans for loops in every):
        parameters.append(Parameter(name="stages", values=(1, 2, 3, 4)))
    if any(e.op in FAST or e.op in ("div", "sigmoid") for loops in every for e in expressions_of(loops)):
        parameters.append(Parameter(name="math", values=("exact", "fast")))
    return Space(parameters=tuple(parameters))
