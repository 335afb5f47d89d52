"""The loop expert for CUDA: the same fused loop nests as on the CPU, one kernel for each.

Covers: every graph whose operators are in the readers' tables (experts/read*.py), of any shape; windows and even
embedding bags as well.
Does not cover: products of matrices, other convolutions, sorting, and whatever else has no reader; those are refused by
name.
"""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path

from kernelwright.experts import tensors as t
from kernelwright.experts.frame import Loops
from kernelwright.experts.gpu.kernel import SIZES, Settings, Writer, below_roots
from kernelwright.experts.gpu.printer import BINDINGS, BUFFERS, buffer_name
from kernelwright.experts.loops import READERS as LOOP_READERS
from kernelwright.experts.loops import Pieces, buffers_of, nests_of
from kernelwright.experts.protocol import Answer
from kernelwright.experts.read_windows import WINDOWS
from kernelwright.graph import Graph
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    Launch,
    LaunchPlan,
    OptionValue,
    Parameter,
    Point,
    Problem,
    Refusal,
    SourceFile,
    Space,
    Step,
    Target,
    Template,
    TensorSpec,
    Workspace,
    digest,
)

READERS = {**LOOP_READERS, **WINDOWS}
INT_LIMIT = 1 << 31
APPROXIMATED = ("exp", "log", "log2", "sigmoid")
"""Operations of which the hardware has an approximation; whether that is near enough, the judge says."""
LONG_ROW = 1 << 13
"""Elements of a row from which on large blocks come first (H200, docs/log.md)."""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns one template for the whole graph, or a refusal that names the operator."""
    del target
    kernels = nests_of(problem, graph, READERS)
    if isinstance(kernels, Refusal):
        return kernels
    identity = digest(problem)
    space = space_of(kernels)

    @cache
    def emit(point: Point) -> Candidate | Failure:
        return candidate(problem, identity, kernels, settings_of(point), point)

    return Template(name="cuda-loops", space=space, emit=emit)


def space_of(kernels: list[list[Loops]]) -> Space:
    """Returns the choices that matter for these kernels, best guess first."""
    every = [loops for boxes in kernels for loops in boxes]
    folding = any(loops.kernel.folds or loops.kernel.scans for loops in every)
    large = max(map(row_length, every)) >= LONG_ROW or any(
        loops.reduced and loops.variables[-1] not in loops.reduced for loops in every
    )
    unrolls = ((8, 4, 2, 1) if large else (4, 2, 1, 8)) if folding else (1, 2, 4)
    parameters = [
        Parameter(name="threads", values=(512, 1024, 256, 128) if large else (256, 128, 512, 1024)),
        Parameter(name="vector_bytes", values=(16, 8, 4)),
        Parameter(name="unroll", values=unrolls),
    ]
    if folding:
        parameters.append(Parameter(name="group", values=(0, 32, 64, 128, 256, 512, 1024)))
        parameters.append(Parameter(name="keep", values=(True, False)))
    if any(e.op in APPROXIMATED for loops in every for segment in loops.segments for e in below_roots(segment)):
        parameters.append(Parameter(name="math", values=("exact", "fast")))
    return Space(parameters=tuple(parameters))


def row_length(loops: Loops) -> int:
    """Returns how many elements are folded into one where neighbours are, 0 elsewhere."""
    lane = loops.variables[-1]
    return prod(v.axis for v in loops.reduced) if lane in loops.reduced else 0


def settings_of(point: Point) -> Settings:
    """Returns a point as settings; parameters that a space leaves out have one sensible value."""
    given: dict[str, OptionValue] = dict(point)
    return Settings(
        threads=int(given["threads"]),
        vector_bytes=int(given["vector_bytes"]),
        unroll=int(given["unroll"]),
        group=int(given.get("group", 0)),
        keep=bool(given.get("keep", False)),
        fast=given.get("math") == "fast",
    )


def candidate(
    problem: Problem, identity: str, kernels: list[list[Loops]], settings: Settings, point: Point
) -> Candidate:
    """Returns the candidate of one point: a kernel for each loop nest, launched in order."""
    made = pieces(problem.arguments, kernels, settings)
    text = "\n".join([header(problem, settings), *map(table, made.tables.values()), *made.functions])
    return Candidate(
        problem=identity,
        language="cuda",
        sources=(SourceFile(path="kernel.cu", text=text), device_header()),
        plan=LaunchPlan(steps=tuple(made.steps), workspaces=tuple(made.workspaces.values())),
        author="expert",
        template="cuda-loops",
        point=point,
    )


def pieces(
    tensors: tuple[TensorSpec, ...], kernels: list[list[Loops]], settings: Settings, *, first: int = 0, flag: str = ""
) -> Pieces:
    """Returns the functions and steps of loop nests, a kernel for each.

    Args:
        tensors: the problem's; every other buffer is a workspace.
        kernels: loop nests.
        settings: the point.
        first: the number in the first kernel's name, so that several calls can share a source.
        flag: a workspace of one integer without which the kernels do nothing where it is zero; empty for none.
    """
    made, known = Pieces([], [], {}, {}), {spec.name for spec in tensors}
    for number, loops in enumerate((loops for boxes in kernels for loops in boxes), first):
        reads, writes = buffers_of([loops])
        arguments = []
        for name, source in {**reads, **writes}.items():
            if name not in known and name in writes:
                size = source.size * SIZES[source.dtype]
                made.workspaces.setdefault(name, Workspace(name=name, size_bytes=-(-size // 256) * 256))
            kind = "tensor" if name in known else "workspace"
            arguments.append(Binding(kind=kind, name=name, ctype=BINDINGS[source.dtype]))  # type: ignore[arg-type]
        made.tables.update(loops.tables)
        writer = Writer(loops, settings, index_type(tensors, loops))
        lines, geometry = writer.body()
        parameters = [f"const {BUFFERS[s.dtype]}* __restrict__ {buffer_name(n)}" for n, s in reads.items()]
        parameters += [f"{BUFFERS[s.dtype]}* __restrict__ {buffer_name(n)}" for n, s in writes.items()]
        if flag:
            arguments.append(Binding(kind="workspace", name=flag, ctype="int32_t"))
            parameters.append(f"const int* __restrict__ {flag}")
            lines = [f"    if (*{flag} == 0) return;", *lines]
        head = f'extern "C" __global__ void __launch_bounds__({geometry.threads}) kw_{number}'
        made.functions.append("\n".join([f"{head}({', '.join(parameters)}) {{", *lines, "}", ""]))
        launch = Launch(grid=(geometry.blocks, 1, 1), block=(geometry.threads, 1, 1))
        made.steps.append(Step(symbol=f"kw_{number}", arguments=tuple(arguments), launch=launch))
    return made


def index_type(tensors: tuple[TensorSpec, ...], loops: Loops) -> str:
    """Returns the integer type of places: 64 bits only where a buffer or the loops need them."""
    largest = max(prod(spec.shape) for spec in tensors)
    return "int" if max(largest, prod(v.axis for v in loops.variables)) < INT_LIMIT else "kw::i64"


def header(problem: Problem, settings: Settings) -> str:
    """Returns the first lines of a source."""
    shapes = ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in problem.arguments)
    fast = "#define KW_FAST\n" * settings.fast
    return f'// {problem.name}: {shapes}\n// {settings}\n{fast}#include "device.cuh"\n'


def table(tensor: t.Table) -> str:
    """Returns the C++ of a literal tensor."""
    ctype = BUFFERS[tensor.dtype]
    values = ", ".join(str(v).lower() if isinstance(v, bool) else f"{ctype}({v!r})" for v in tensor.values)
    return f"static __device__ const {ctype} {buffer_name(tensor.name)}[] = {{{values}}};"


@cache
def device_header() -> SourceFile:
    """Returns the header that every generated kernel includes."""
    return SourceFile(path="device.cuh", text=Path(__file__).with_name("device.cuh").read_text())
