"""The loop expert: fused loop nests for pointwise chains, reductions, normalisations, softmaxes, losses and scans.

Covers: every graph whose operators are in the readers' tables (read*.py), of any shape.
Does not cover: products of matrices, convolutions, sorting, and whatever else has no reader; those are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kernelwright.experts import tensors as t
from kernelwright.experts.emit import Settings, Writer, buffer_type
from kernelwright.experts.expression import CTYPES
from kernelwright.experts.frame import Loops
from kernelwright.experts.print import buffer_name
from kernelwright.experts.protocol import Answer
from kernelwright.experts.read import POINTWISE, Read, Unreadable, read_graph
from kernelwright.experts.read_folds import FOLDS
from kernelwright.experts.read_views import VIEWS
from kernelwright.experts.reuse import below
from kernelwright.experts.schedule import schedule
from kernelwright.experts.simd import simd_header
from kernelwright.experts.space import settings_of, space_of
from kernelwright.graph import Graph
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    LaunchPlan,
    Point,
    Problem,
    Refusal,
    SourceFile,
    Step,
    Target,
    Template,
    Workspace,
    digest,
)

READERS = {**POINTWISE, **VIEWS, **FOLDS}
SIZES = {
    "float": 4,
    "double": 8,
    "int64_t": 8,
    "int32_t": 4,
    "int16_t": 2,
    "uint16_t": 2,
    "uint8_t": 1,
    "int8_t": 1,
    "bool": 1,
}


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns one template for the whole graph, or a refusal that names the operator."""
    kernels = nests_of(problem, graph)
    if isinstance(kernels, Refusal):
        return kernels
    identity = digest(problem)
    space = space_of(problem, kernels, target)

    @cache
    def emit(point: Point) -> Candidate | Failure:
        return candidate(problem, identity, kernels, settings_of(point), point)

    return Template(name="loops", space=space, emit=emit)


def nests_of(problem: Problem, graph: Graph, readers: dict[str, Read] = READERS) -> list[list[Loops]] | Refusal:
    """Returns the loop nests of each kernel that computes a graph, or a refusal that names what cannot be done."""
    unknown = [s.dtype for s in problem.arguments if s.dtype not in CTYPES]
    if unknown:
        return Refusal(subject=unknown[0], reason=f"no expert for tensors of {unknown[0]}")
    if any(0 in s.shape for s in problem.arguments):
        return Refusal(subject="empty tensors", reason="no expert for tensors without elements")
    try:
        outputs = read_graph(problem, graph, readers)
        check_integers(outputs)
        targets = tuple(t.Source(shape=s.shape, dtype=s.dtype, name=s.name) for s in problem.outputs)
        _, kernels = schedule(outputs, targets)
    except Unreadable as fault:
        return Refusal(subject=fault.subject, reason=fault.reason)
    return kernels


def check_integers(outputs: tuple[t.Tensor, ...]) -> None:
    """Refuses arithmetic in integers narrower than 32 bits, which wraps around where this does not."""
    for tensor in t.walk(outputs):
        narrow = tensor.dtype in ("uint8", "int8", "int16") and isinstance(tensor, t.Pointwise | t.Scan)
        if narrow and not (isinstance(tensor, t.Pointwise) and tensor.op in ("select", "max", "min")):
            raise Unreadable(tensor.dtype, f"no expert for arithmetic in {tensor.dtype}")


@dataclass(frozen=True)
class Pieces:
    """What loop nests add to a candidate."""

    functions: list[str]
    steps: list[Step]
    workspaces: dict[str, Workspace]
    tables: dict[str, t.Table]


def candidate(
    problem: Problem, identity: str, kernels: list[list[Loops]], settings: Settings, point: Point
) -> Candidate:
    """Returns the candidate of one point: a function for each kernel, called in order."""
    made = pieces({spec.name for spec in problem.arguments}, kernels, settings, first=0)
    text = "\n".join([header(problem, settings), *map(table, made.tables.values()), *made.functions])
    return Candidate(
        problem=identity,
        language="cpp",
        sources=(SourceFile(path="kernel.cpp", text=text), simd_header()),
        plan=LaunchPlan(steps=tuple(made.steps), workspaces=tuple(made.workspaces.values())),
        author="expert",
        template="loops",
        point=point,
    )


def pieces(known: set[str], kernels: list[list[Loops]], settings: Settings, *, first: int) -> Pieces:
    """Returns the functions and steps of kernels, the first of them with that number in its name.

    Args:
        known: names of the problem's tensors; every other buffer is a workspace.
        kernels: loop nests of each kernel.
        settings: the point.
        first: so that several calls can share a source.
    """
    made = Pieces([], [], {}, {})
    for number, boxes in enumerate(kernels, first):
        reads, writes = buffers_of(boxes)
        arguments = []
        for name, source in {**reads, **writes}.items():
            if name not in known and name in writes:
                size = source.size * SIZES[buffer_type(source.dtype)]
                made.workspaces.setdefault(name, Workspace(name=name, size_bytes=-(-size // 64) * 64))
            kind = "tensor" if name in known else "workspace"
            arguments.append(Binding(kind=kind, name=name, ctype=buffer_type(source.dtype)))  # type: ignore[arg-type]
        for loops in boxes:
            made.tables.update(loops.tables)
        made.functions.append(function(f"kw_{number}", boxes, settings, reads, writes))
        made.steps.append(Step(symbol=f"kw_{number}", arguments=tuple(arguments)))
    return made


def header(problem: Problem, settings: Settings) -> str:
    """Returns the first lines of a source."""
    shapes = ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in problem.arguments)
    return f'// {problem.name}: {shapes}\n// {settings}\n#include "simd.hpp"\n'


def table(tensor: t.Table) -> str:
    """Returns the C++ of a literal tensor."""
    ctype = buffer_type(tensor.dtype) if tensor.dtype == "bool" else CTYPES[tensor.dtype]
    values = ", ".join(str(v).lower() if isinstance(v, bool) else f"{ctype}({v!r})" for v in tensor.values)
    return f"static const {ctype} {buffer_name(tensor.name)}[] = {{{values}}};"


def buffers_of(boxes: list[Loops]) -> tuple[dict[str, t.Source], dict[str, t.Source]]:
    """Returns the buffers that a kernel reads and those that it writes, by name."""
    reads: dict[str, t.Source] = {}
    writes: dict[str, t.Source] = {}
    for loops in boxes:
        for segment in loops.segments:
            writes |= {w.target.name: w.target for w in segment.writes}
        for name, dtype in loads_of(loops):
            reads.setdefault(name, t.Source(shape=(), dtype=dtype, name=name))
    return {name: source for name, source in reads.items() if name not in writes}, writes


def loads_of(loops: Loops) -> list[tuple[str, str]]:
    """Returns (name, dtype) of every buffer that is read."""
    found: set[tuple[str, str]] = set()
    for segment in loops.segments:
        for e in below([*segment.folds.values(), *(w.value for w in segment.writes)]):
            if e.op == "load" and e.source.buffer not in loops.tables:
                found.add((e.source.buffer, e.source.dtype))
    return sorted(found)


def function(
    symbol: str, boxes: list[Loops], settings: Settings, reads: dict[str, t.Source], writes: dict[str, t.Source]
) -> str:
    """Returns the C++ of one kernel."""
    arguments = [f"const {buffer_type(s.dtype)}* __restrict {buffer_name(name)}" for name, s in reads.items()]
    arguments += [f"{buffer_type(s.dtype)}* __restrict {buffer_name(name)}" for name, s in writes.items()]
    lines = [f'extern "C" void {symbol}({", ".join(arguments)}) {{']
    if settings.threads > 1:
        lines += [f"    #pragma omp parallel num_threads({settings.threads})"]
    lines += ["    {"]
    for loops in boxes:
        lines += Writer(loops, settings).nest()
    if settings.stream:
        lines += ["    kw::stream_fence();"]
    return "\n".join([*lines, "    }", "}", ""])
