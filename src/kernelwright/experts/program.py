"""The program expert: whole graphs as plans of several steps, as they were written and rewritten.

A graph with products is cut into products and loop nests (partition.py); each version that the rewrites find
(rewrites/) becomes a template of its own. A rewritten program that is equal for finite values only is *guarded*: it
runs first, and where a tensor in it that witnesses them all is not finite, the program as it was written runs after it
and overwrites the answer. So infinities and NaN come out as the reference has them.
Covers: float32 products and convolutions, and what loop nests can do, in any number and order.
Does not cover: products in other dtypes, sorting, recurrences over data-dependent lengths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from kernelwright.experts import loops
from kernelwright.experts import tensors as t
from kernelwright.experts.emit import Settings, buffer_type
from kernelwright.experts.frame import Loops
from kernelwright.experts.kernel import CTYPES, pointer
from kernelwright.experts.partition import PRODUCTS, SINGLE, Foreign, LoopStep, Partition, cut
from kernelwright.experts.products import (
    Blocks,
    Product,
    blocks_of,
    function,
    gemm_header,
    parameters,
    scratch_floats,
)
from kernelwright.experts.protocol import Answer
from kernelwright.experts.read import Read, Unreadable
from kernelwright.experts.read_products import INSIDE
from kernelwright.experts.simd import simd_header
from kernelwright.experts.space import settings_of, space_of
from kernelwright.graph import Graph
from kernelwright.rewrites import Rewritten, rewritten
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    LaunchPlan,
    Parameter,
    Point,
    Problem,
    Refusal,
    SourceFile,
    Space,
    Step,
    Target,
    Template,
    TensorMap,
    TensorSpec,
    Workspace,
    digest,
)

READERS = {**loops.READERS, **INSIDE}
SCRATCH = ("scratch_columns", "scratch_rows", "scratch_sums", "scratch_spread")


@dataclass(frozen=True)
class Program:
    """A graph as parts with their loop nests made."""

    partition: Partition
    parts: tuple[Product | list[list[Loops]] | Foreign, ...]

    @property
    def kernels(self) -> list[list[Loops]]:
        """All loop nests."""
        return [kernel for part in self.parts if isinstance(part, list) for kernel in part]

    @property
    def foreign(self) -> list[Foreign]:
        """All parts that other experts make."""
        return [part for part in self.parts if isinstance(part, Foreign)]

    @property
    def products(self) -> list[Product]:
        """All products."""
        return [part for part in self.parts if isinstance(part, Product)]


@dataclass(frozen=True)
class Programs:
    """What one template computes: a program, and what follows it where a witness is not finite."""

    name: str
    """The template's, on a CPU."""
    main: Program
    version: Rewritten | None = None
    """The rewritten graph that the program was made of, None for the graph as it is."""
    fallback: Program | None = None

    @property
    def kernels(self) -> list[list[Loops]]:
        """The loop nests from which the template's space is made."""
        return self.main.kernels or (self.fallback.kernels if self.fallback else [])

    @property
    def products(self) -> list[Product]:
        """All products of both programs."""
        return self.main.products + (self.fallback.products if self.fallback else [])

    @property
    def about(self) -> str:
        """The line of a source that names the rules, empty for the graph as it is."""
        return f"// Rewritten by: {', '.join(self.version.rules)}.\n" if self.version else ""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for the graph as it is, where it needs several parts, and one for each rewritten version."""
    written = program_of(problem, graph)
    found = programs_of(problem, graph, target, written)
    return answer(graph, written, [template(problem, target, programs) for programs in found])


def programs_of(
    problem: Problem,
    graph: Graph,
    target: Target,
    written: Program | Refusal,
    *,
    dtypes: frozenset[str] = SINGLE,
    foreign: frozenset[str] = frozenset(),
    readers: dict[str, Read] = READERS,
    nest_readers: dict[str, Read] = loops.READERS,
) -> list[Programs]:
    """Returns the graph as it is, where it needs several parts, and each rewritten version.

    Args:
        problem: what is computed.
        graph: how.
        target: where, for the rules that depend on it.
        written: what program_of made of the graph.
        dtypes: as for program_of, like the next two.
        foreign: operators of other experts.
        readers: of what loop nests do in a program.
        nest_readers: of what the loop expert does with the whole graph.
    """
    found: list[Programs] = []
    if isinstance(written, Program) and (
        written.products or written.foreign or isinstance(loops.nests_of(problem, graph, nest_readers), Refusal)
    ):
        found.append(Programs("program", written))
    # Only kernels of our own can wait for a witness.
    guard = written if isinstance(written, Program) and not written.foreign else None
    for version in rewritten(problem, graph, target):
        held = frozenset(version.witnesses)
        made = program_of(problem, version.graph, held=held, dtypes=dtypes, foreign=foreign, readers=readers)
        if isinstance(made, Program) and (guard or not version.finite):
            name = "guarded rewrite" if version.finite else "rewrite"
            found.append(Programs(name, made, version, guard if version.finite else None))
    return found


def answer(graph: Graph, written: Program | Refusal, found: list[Template]) -> Answer:
    """Returns the templates, or why there are none where that is news."""
    if found:
        return tuple(found)
    # Without products the loop expert has said the same already.
    return written if isinstance(written, Refusal) and any(node.op in PRODUCTS for node in graph.nodes) else None


def program_of(
    problem: Problem,
    graph: Graph,
    *,
    held: frozenset[str] = frozenset(),
    dtypes: frozenset[str] = SINGLE,
    foreign: frozenset[str] = frozenset(),
    readers: dict[str, Read] = READERS,
) -> Program | Refusal:
    """Returns a graph's parts, or a refusal that names what cannot be done.

    The options are those of `cut`, and the readers of what loop nests do.
    """
    unknown = [s.dtype for s in problem.arguments if s.dtype not in CTYPES]
    if unknown or any(0 in s.shape for s in problem.arguments):
        what = unknown[0] if unknown else "empty tensors"
        return Refusal(subject=what, reason=f"no expert for tensors of {what}")
    try:
        partition = cut(problem, graph, held=held, dtypes=dtypes, foreign=foreign)
    except Unreadable as fault:
        return Refusal(subject=fault.subject, reason=fault.reason)
    parts: list[Product | list[list[Loops]] | Foreign] = []
    for part in partition.parts:
        if isinstance(part, LoopStep):
            made = loops.nests_of(part.problem, part.graph, readers)
            if isinstance(made, Refusal):
                return made
            parts.append(made)
        else:
            parts.append(part)
    return Program(partition, tuple(parts))


def template(problem: Problem, target: Target, programs: Programs) -> Template:
    """Returns the template of a program."""
    shown = programs.kernels
    space = space_of(problem, shown, target) if shown else Space(parameters=bare_parameters(target))
    if programs.products:
        space = Space(parameters=space.parameters + parameters(target))

    @cache
    def emit(point: Point) -> Candidate | Failure:
        return candidate(problem, target, programs, point)

    return Template(name=programs.name, space=space, emit=emit)


def bare_parameters(target: Target) -> tuple[Parameter, ...]:
    """Returns the parameters of a program of products alone."""
    threads = (target.threads,) if target.threads == 1 else (target.threads, 1)
    return (Parameter(name="threads", values=threads),)


@dataclass
class Parts:
    """What steps have in common, whatever they are written in: a candidate in the making."""

    problem: Problem
    round_bytes: int
    """Workspaces are multiples of this."""
    functions: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of each workspace."""
    tables: dict[str, t.Table] = field(default_factory=dict)
    maps: list[TensorMap] = field(default_factory=list)

    def need(self, name: str, size_bytes: int) -> None:
        """Makes room for a workspace, which steps one after the other may share."""
        size_bytes = -(-max(size_bytes, 1) // self.round_bytes) * self.round_bytes
        self.sizes[name] = max(self.sizes.get(name, 0), size_bytes)

    def candidate(
        self, programs: Programs, point: Point, *, name: str, language: str, sources: tuple[SourceFile, ...]
    ) -> Candidate:
        """Returns the candidate of the steps so far, with the workspaces that they use."""
        used = {b.name for step in self.steps for b in step.arguments if b.kind == "workspace"}
        used |= {m.of for m in self.maps}
        version = programs.version
        return Candidate(
            problem=digest(self.problem),
            language=language,
            sources=sources,
            plan=LaunchPlan(
                steps=tuple(self.steps),
                workspaces=tuple(Workspace(name=n, size_bytes=size) for n, size in self.sizes.items() if n in used),
                tensor_maps=tuple(self.maps),
            ),
            author="expert",
            template=name,
            point=point,
            rewrites=version.rules if version else (),
            independent=version.independent if version else (),
        )


class Source(Parts):
    """A candidate of C++ in the making."""

    def add(self, program: Program, settings: Settings, blocks: Blocks | None) -> None:
        """Adds a program's steps."""
        for spec in program.partition.buffers.values():
            self.need(spec.name, size_of(spec))
        for part in program.parts:
            if isinstance(part, Product):
                assert blocks is not None
                self._product(part, blocks)
            else:
                assert isinstance(part, list)  # nothing is foreign to a CPU's programs
                self._loops(part, settings)

    def _loops(self, kernels: list[list[Loops]], settings: Settings) -> None:
        known = {spec.name for spec in self.problem.arguments}
        made = loops.pieces(known, kernels, settings, first=len(self.steps))
        for workspace in made.workspaces.values():
            assert isinstance(workspace.size_bytes, int)
            self.need(workspace.name, workspace.size_bytes)
        self.functions += made.functions
        self.steps += made.steps
        self.tables |= made.tables

    def _product(self, product: Product, blocks: Blocks) -> None:
        symbol = f"kw_{len(self.steps)}"
        specs = {spec.name: spec for spec in self.problem.arguments}
        ctypes = {name: CTYPES[specs[name].dtype] if name in specs else "float" for name in product.reads()}
        self.functions.append(function(symbol, product, blocks, ctypes))
        bindings = []
        for name in (*product.reads(), product.out):
            kind = "tensor" if name in specs else "workspace"
            bindings.append(Binding(kind=kind, name=name, ctype=ctypes.get(name, "float")))  # type: ignore[arg-type]
        for name, floats in zip(SCRATCH, scratch_floats(product, blocks), strict=True):
            self.need(name, 4 * floats)
            bindings.append(Binding(kind="workspace", name=name, ctype="float"))
        self.steps.append(Step(symbol=symbol, arguments=tuple(bindings)))


def size_of(spec: TensorSpec) -> int:
    """Returns the bytes of a buffer between steps."""
    elements = 1
    for extent in spec.shape:
        elements *= extent
    return elements * loops.SIZES[buffer_type(spec.dtype)]


def candidate(problem: Problem, target: Target, programs: Programs, point: Point) -> Candidate:
    """Returns the candidate of one point."""
    given = dict(point)
    # A program of products alone has no choices of loops; a program of loops alone none of products.
    settings = settings_of((*DEFAULTS, *point))
    blocks = blocks_of(given, target) if "tile" in given else None
    source = Source(problem, 64)
    source.add(programs.main, settings, blocks)
    if programs.fallback is not None:
        assert programs.version is not None
        first = len(source.steps)
        source.add(programs.fallback, settings, blocks)
        source.steps = [guarded(source, first, programs.version, programs.main, threads=int(given["threads"]))]
    header = loops.header(problem, settings) + '#include "gemm.hpp"\n' + programs.about
    text = "\n".join([header, *map(loops.table, source.tables.values()), *source.functions])
    sources = (SourceFile(path="kernel.cpp", text=text), simd_header(), gemm_header())
    return source.candidate(programs, point, name=programs.name, language="cpp", sources=sources)


DEFAULTS: Point = (("vector_bytes", 32), ("unroll", 4), ("prefetch", 0), ("dynamic", False))


def guarded(source: Source, first: int, version: Rewritten, main: Program, *, threads: int) -> Step:
    """Returns one step that runs the steps before `first`, looks at the witnesses, and where needed runs the others."""
    specs = {spec.name: spec for spec in source.problem.arguments}
    bound: dict[str, Binding] = {}
    for step in source.steps:
        for binding in step.arguments:
            bound.setdefault(binding.name, binding)
    checks = []
    for name in version.witnesses:
        home = main.partition.homes.get(name, name)
        spec = specs.get(home) or main.partition.buffers[home]
        if spec.dtype != "float32":
            continue
        kind = "tensor" if home in specs else "workspace"
        bound.setdefault(home, Binding(kind=kind, name=home, ctype="float"))  # type: ignore[arg-type]
        checks.append(f"kw::all_finite({pointer(home)}, {size_of(spec) // 4}, {threads})")
    outputs = {spec.name for spec in source.problem.outputs}
    arguments = ", ".join(
        f"{'const ' if b.kind == 'tensor' and b.name not in outputs else ''}{b.ctype}* {pointer(b.name)}"
        for b in bound.values()
    )
    calls = [f"{s.symbol}({', '.join(pointer(b.name) for b in s.arguments)});" for s in source.steps]
    lines = [f'extern "C" void kw_guarded({arguments}) {{', *(f"    {call}" for call in calls[:first])]
    lines += [f"    if ({' && '.join(checks) or 'true'}) return;", *(f"    {call}" for call in calls[first:]), "}", ""]
    source.functions.append("\n".join(lines))
    return Step(symbol="kw_guarded", arguments=tuple(bound.values()))
