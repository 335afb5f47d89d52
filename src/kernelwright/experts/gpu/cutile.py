"""The loop expert for cuTile: the same fused loop nests as for CUDA C++, one kernel of tiles for each.

Covers: every graph whose operators are in the readers' tables (experts/read*.py) and in cuTile's, of any shape;
windows and even embedding bags as well.
Does not cover: erfc, erf in float64, fmod of floats, literal tensors of more than 64 elements; those are refused by
name.
"""

from __future__ import annotations

from kernelwright.experts.frame import Loops
from kernelwright.experts.gpu.cutile_dialect import CutileDialect
from kernelwright.experts.gpu.tile_candidate import Choices, Frame, Options, proposed
from kernelwright.experts.protocol import Answer
from kernelwright.graph import Graph
from kernelwright.types import Parameter, Problem, Target


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns one template for the whole graph, or a refusal that names what is missing."""
    del target
    return proposed(problem, graph, FRAME)


def parameters(every: tuple[Loops, ...]) -> list[Parameter]:
    """Returns cuTile's own choices, best guess first; 0 leaves it to the compiler."""
    del every
    return [Parameter(name="occupancy", values=(0, 2, 4, 8, 16, 1))]


def options(given: Choices, elements: int) -> Options:
    """Returns the options of a step, whatever the size of its tile."""
    del elements
    occupancy = int(given["occupancy"])
    return (("occupancy", occupancy),) if occupancy else ()


FRAME = Frame(
    package="cuda-tile", template="cutile-loops", dialect=lambda _: CutileDialect(), parameters=parameters,
    options=options, build=lambda _: (),
)  # fmt: skip
