"""What the tile experts share: from a graph to loops, and from loops and a point to a sealed candidate.

Not here: the body of a kernel (tile_kernel.py), the choices of a language (triton.py, cutile.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from math import prod

from kernelwright.experts.frame import Loops
from kernelwright.experts.gpu.cuda import READERS
from kernelwright.experts.gpu.kernel import SIZES
from kernelwright.experts.gpu.printer import BINDINGS
from kernelwright.experts.gpu.tile_kernel import Settings, TileWriter
from kernelwright.experts.gpu.tile_printer import LARGEST_TABLE, Dialect, buffer_name, expressions_of
from kernelwright.experts.loops import buffers_of, nests_of
from kernelwright.experts.protocol import Answer
from kernelwright.experts.read import Unreadable
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
    Template,
    Workspace,
    digest,
)

INT_LIMIT = 1 << 31
NO_BLOCK = (1, 1, 1)
"""The compiler chooses it."""


Choices = dict[str, OptionValue]
Options = tuple[tuple[str, OptionValue], ...]


@dataclass(frozen=True)
class Frame:
    """What one tile language's loop expert has of its own."""

    package: str
    """What has to be installed."""
    template: str
    dialect: Callable[[Choices], Dialect]
    """From the choices of a point; of none, the language as it checks what can be spelled."""
    parameters: Callable[[tuple[Loops, ...]], list[Parameter]]
    """The language's choices, after those of tile shapes."""
    options: Callable[[Choices, int], Options]
    """From choices and the elements of a kernel's largest tile to the options of its step."""
    build: Callable[[tuple[Loops, ...]], Options]
    """Options of a whole candidate."""


def proposed(problem: Problem, graph: Graph, frame: Frame) -> Answer:
    """Returns one template for the whole graph, or a refusal that names what is missing."""
    every = missing(frame.package) or loops_of(problem, graph, frame.dialect({}))
    if isinstance(every, Refusal):
        return every
    identity, build = digest(problem), frame.build(every)
    space = Space(parameters=(*shape_parameters(every), *frame.parameters(every)))

    @cache
    def emit(point: Point) -> Candidate | Failure:
        given: Choices = dict(point)
        return candidate(
            problem, identity, every, point,
            dialect=frame.dialect(given), template=frame.template,
            options=lambda elements: frame.options(given, elements), build=build,
        )  # fmt: skip

    return Template(name=frame.template, space=space, emit=emit)


def missing(package: str) -> Refusal | None:
    """Returns the refusal of a language whose compiler is not installed here, None where it is.

    A run goes on with the other languages then; nothing is imported to find out.
    """
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return Refusal(subject=package, reason=f"the package {package!r} is not installed")
    return None


def loops_of(problem: Problem, graph: Graph, dialect: Dialect) -> tuple[Loops, ...] | Refusal:
    """Returns the loop nests of a graph, each one a kernel, or a refusal that names what cannot be done."""
    kernels = nests_of(problem, graph, READERS)
    if isinstance(kernels, Refusal):
        return kernels
    every = tuple(loops for boxes in kernels for loops in boxes)
    try:
        check_spelling(every, dialect)
    except Unreadable as fault:
        return Refusal(subject=fault.subject, reason=fault.reason)
    return every


def check_spelling(every: tuple[Loops, ...], dialect: Dialect) -> None:
    """Refuses what a language has no words for.

    Raises:
        Unreadable: with the name of the operation.
    """
    for loops in every:
        for table in loops.tables.values():
            if table.size > LARGEST_TABLE:
                subject = f"literal tensors of {table.size} elements"
                raise Unreadable(subject, f"no expert for {subject} in {dialect.name}; {LARGEST_TABLE} is the most")
        for e in expressions_of(loops):
            if subject := dialect.refusal(e):
                raise Unreadable(subject, f"no expert for {subject} in {dialect.name}")


def shape_parameters(every: tuple[Loops, ...]) -> list[Parameter]:
    """Returns the choices of tile shapes that matter for these loops, best guess first."""
    folding = [loops for loops in every if loops.kernel.folds or loops.kernel.scans]
    found = [Parameter(name="block", values=(1024, 2048, 512, 4096, 256, 8192))]
    if any(loops.variables[-1] in loops.reduced for loops in folding):
        found.append(Parameter(name="chunk", values=(8192, 4096, 2048, 1024, 16384)))
        found.append(Parameter(name="rows", values=(0, 1, 2, 4, 8, 16)))
    if any(loops.variables[-1] not in loops.reduced for loops in folding):
        found.append(Parameter(name="lanes", values=(64, 32, 128, 256)))
    return found


def settings_of(point: Point) -> Settings:
    """Returns a point as settings; parameters that a space leaves out have one sensible value."""
    given: dict[str, OptionValue] = dict(point)
    return Settings(
        block=int(given["block"]),
        chunk=int(given.get("chunk", 8192)),
        rows=int(given.get("rows", 0)),
        lanes=int(given.get("lanes", 64)),
        stages=int(given.get("stages", 1)),
    )


def candidate(
    problem: Problem,
    identity: str,
    every: tuple[Loops, ...],
    point: Point,
    *,
    dialect: Dialect,
    template: str,
    options: Callable[[int], Options],
    build: Options = (),
) -> Candidate:
    """Returns the candidate of one point: a kernel for each loop nest, launched in order.

    Args:
        problem: what is computed.
        identity: its digest.
        every: the loop nests.
        point: the choices.
        dialect: the language.
        template: the template's name.
        options: from the elements of a kernel's tile to the options of its step.
        build: options of the whole candidate.
    """
    known = {spec.name for spec in problem.arguments}
    workspaces: dict[str, Workspace] = {}
    steps: list[Step] = []
    shapes = ", ".join(f"{s.name} {s.dtype}{list(s.shape)}" for s in problem.arguments)
    text = [f"# {problem.name}: {shapes}\n# {dict(point)}\n{dialect.header}"]
    for number, loops in enumerate(every):
        reads, writes = buffers_of([loops])
        arguments: list[Binding] = []
        for name, source in {**reads, **writes}.items():
            ctype = BINDINGS[source.dtype]
            if name not in known:
                size_bytes = source.size * SIZES[source.dtype]
                workspaces.setdefault(name, Workspace(name=name, size_bytes=size_bytes))
            arguments.append(Binding(kind="tensor" if name in known else "workspace", name=name, ctype=ctype))
        writer = TileWriter(loops, settings_of(point), dialect, index_type(problem, loops))
        lines, programs = writer.body()
        parameters = ", ".join(buffer_name(name) for name in (*reads, *writes))
        text.append("\n".join(["", dialect.decorator, f"def kw_{number}({parameters}):", *lines, ""]))
        launch = Launch(grid=(programs, 1, 1), block=NO_BLOCK)
        step = Step(symbol=f"kw_{number}", arguments=tuple(arguments), launch=launch, options=options(writer.elements))
        steps.append(step)
    return sealed(
        problem, language=dialect.name, template=template, point=point, text="\n".join(text), steps=tuple(steps),
        workspaces=tuple(workspaces.values()), build=build, identity=identity,
    )  # fmt: skip


def sealed(
    problem: Problem,
    *,
    language: str,
    template: str,
    point: Point,
    text: str,
    steps: tuple[Step, ...],
    workspaces: tuple[Workspace, ...] = (),
    build: Options = (),
    identity: str = "",
) -> Candidate:
    """Returns the candidate of one source and its plan.

    Args:
        problem: what is computed.
        language: `triton` or `cutile`.
        template: the template's name.
        point: the choices.
        text: the source.
        steps: what is launched, in order.
        workspaces: scratch memory.
        build: options of the whole candidate.
        identity: the problem's digest, where it is known.
    """
    return Candidate(
        problem=identity or digest(problem),
        language=language,
        sources=(SourceFile(path="kernel.py", text=text),),
        plan=LaunchPlan(steps=steps, workspaces=workspaces),
        options=build,
        author="expert",
        template=template,
        point=point,
    )


def index_type(problem: Problem, loops: Loops) -> str:
    """Returns the C type of places: 64 bits only where a buffer or the loops need them, tiles' margins included."""
    largest = max(prod(spec.shape) for spec in problem.arguments)
    return "int32_t" if max(largest, prod(v.axis for v in loops.variables)) * 2 < INT_LIMIT else "int64_t"
