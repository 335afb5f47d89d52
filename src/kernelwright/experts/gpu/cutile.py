"""The loop expert for cuTile: the same fused loop nests as for CUDA C++, one kernel of tiles for each.

Covers: every graph whose operators are in the readers' tables (experts/read*.py) and in cuTile's, of any shape.
Does not cover: erfc, erf in float64, fmod of floats, literal tensors of more than 64 elements; those are refused by
name.
"""

from __future__ import annotations

from functools import cache

from kernelwright.experts.gpu.cutile_dialect import CutileDialect
from kernelwright.experts.gpu.tile_candidate import candidate, loops_of, missing, shape_parameters
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


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns one template for the whole graph, or a refusal that names what is missing."""
    del target
    dialect = CutileDialect()
    every = missing("cuda-tile") or loops_of(problem, graph, dialect)
    if isinstance(every, Refusal):
        return every
    identity = digest(problem)
    # 0 leaves it to the compiler.
    space = Space(parameters=(*shape_parameters(every), Parameter(name="occupancy", values=(0, 2, 4, 8, 16, 1))))

    @cache
    def emit(point: Point) -> Candidate | Failure:
        occupancy = int(dict(point)["occupancy"])
        options: tuple[tuple[str, OptionValue], ...] = (("occupancy", occupancy),) if occupancy else ()
        return candidate(
            problem, identity, every, point,
            dialect=dialect, template="cutile-loops", options=lambda _: options,
        )  # fmt: skip

    return Template(name="cutile-loops", space=space, emit=emit)
