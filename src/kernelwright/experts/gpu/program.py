"""The program expert for GPUs: whole graphs as plans of several kernels, as they were written and rewritten.

The graph is cut as on the CPU (experts/partition.py). Loop nests become kernels of the CUDA loop expert, products
kernels of product.cuh, calls of the vendor's library, or kernels of the product generator (experts/gemm), by a choice
that is measured; convolutions also by the fastest of cuDNN's engines. An operator that is neither goes to whichever
other expert of the table makes CUDA kernels of it. A rewritten program that is equal for finite values only is
*guarded* on the device: a kernel looks at its witnesses and sets a flag in a workspace, and every kernel of the program
as it was written, which follows, does nothing where the flag is not set. Nothing goes to the host and back.
Covers: products and convolutions in float32, float16 and bfloat16, and what loop nests can do, in any number and order.
Does not cover: float64 products, sorting, recurrences over data-dependent lengths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from math import prod
from pathlib import Path

from kernelwright.experts import EXPERTS
from kernelwright.experts.chain import Unsupported
from kernelwright.experts.gpu import cuda, vendors
from kernelwright.experts.gpu.kernel import SIZES, Settings
from kernelwright.experts.gpu.operands import HALVES
from kernelwright.experts.gpu.printer import BINDINGS, BUFFERS, buffer_name
from kernelwright.experts.gpu.products import SUMS_BUFFER, Method, Printer, method_of, parameters
from kernelwright.experts.partition import PRODUCTS, Foreign
from kernelwright.experts.products import Product, Windows
from kernelwright.experts.program import Parts, Program, Programs, answer, program_of, programs_of
from kernelwright.experts.protocol import Answer, Expert
from kernelwright.experts.read_products import INSIDE
from kernelwright.experts.recurrence import opened
from kernelwright.graph import Graph
from kernelwright.rewrites import Rewritten
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    Launch,
    Parameter,
    Point,
    Problem,
    Refusal,
    SourceFile,
    Space,
    Step,
    Target,
    Template,
    replace,
)

READERS = {**INSIDE, **cuda.READERS}
DTYPES = frozenset({"float32", *HALVES})
OWN_NAME = "gpu.program"
FLAG = "kw_not_finite"
WORD = re.compile(r"\w+")
LOOK_THREADS = 256
LOOK_BLOCKS = 264
LOOP_DEFAULTS: Point = (("threads", 256), ("vector_bytes", 16), ("unroll", 4), ("keep", True))
"""Of programs of products alone, whose space has no choices of loops."""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for the graph as it is, where it needs several parts, and one for each rewritten version."""
    graph = opened(problem, graph)
    foreign = frozenset(node.op for node in graph.nodes if is_foreign(node.op))
    written = program_of(problem, graph, dtypes=DTYPES, foreign=foreign, readers=READERS)
    if isinstance(written, Program) and (refused := missing(written, target)):
        return refused
    found = programs_of(
        problem, graph, target, written,
        dtypes=DTYPES, foreign=foreign, readers=READERS, nest_readers=cuda.READERS,
    )  # fmt: skip
    return answer(graph, written, [template(problem, target, programs) for programs in found])


def is_foreign(op: str) -> bool:
    """Returns whether an operator is neither a product nor something that loop nests can do."""
    return op not in PRODUCTS and ".".join(op.split(".")[:2]) not in READERS


def missing(written: Program, target: Target) -> Refusal | None:
    """Returns the refusal of the first part that no other expert makes, None where there is none."""
    for part in written.foreign:
        if foreign_candidate(part.problem, part.graph, target) is None:
            op = part.graph.nodes[0].op
            return Refusal(subject=op, reason=f"no expert for {op}")
    return None


@lru_cache(maxsize=256)
def foreign_candidate(problem: Problem, graph: Graph, target: Target) -> Candidate | None:
    """Returns what another expert makes of a part by its best guess, None where none can."""
    for name in EXPERTS["cuda"]:
        if name == OWN_NAME:
            continue
        expert: Expert = import_module(f"kernelwright.experts.{name}")
        answer = expert.propose(problem, graph, target)
        offered = answer if isinstance(answer, tuple) else (answer,) if isinstance(answer, Template) else ()
        for one in offered:
            made = one.emit(one.space.default())
            if isinstance(made, Candidate) and made.language == "cuda":
                return made
    return None


def template(problem: Problem, target: Target, programs: Programs) -> Template:
    """Returns the template of a program."""
    choices = cuda.space_of(programs.kernels).parameters if programs.kernels else ()
    dtypes = {dtype_of(problem, programs, product) for product in programs.products}
    if dtypes:
        windows = any(isinstance(p.right, Windows) and not p.right.transposed for p in programs.products)
        makers = ("own", "library", *(("tuned library",) if windows else ()))
        makers += ("generated", "generated 2") if dtypes & set(HALVES) else ()
        choices += (Parameter(name="products", values=makers), *parameters(programs.products, dtypes))

    @cache
    def emit(point: Point) -> Candidate | Failure:
        return candidate(problem, target, programs, point)

    return Template(name=f"cuda-{programs.name}", space=Space(parameters=choices), emit=emit)


def dtype_of(problem: Problem, programs: Programs, product: Product) -> str:
    """Returns the dtype of a product's operands."""
    found = {spec.name: spec.dtype for spec in problem.arguments}
    for program in (programs.main, programs.fallback):
        found |= {s.name: s.dtype for s in program.partition.buffers.values()} if program else {}
    return found[product.left.base]


@dataclass(kw_only=True)
class Source(Parts):
    """A candidate of CUDA C++ in the making."""

    target: Target
    settings: Settings
    method: Method | None
    makers: str
    """Who makes the products."""
    numbered: int = 0
    """Kernels so far."""
    known: dict[str, list[str]] = field(default_factory=dict)
    """Kernels by their text without names of buffers."""

    def add(self, program: Program, *, flag: str = "") -> None:
        """Adds a program's steps; with a flag, they do nothing where it is zero."""
        for spec in program.partition.buffers.values():
            self.need(spec.name, prod(spec.shape) * SIZES[spec.dtype])
        for part in program.parts:
            if isinstance(part, Product):
                self._product(program, part, flag)
                continue
            if isinstance(part, Foreign):
                made = foreign_candidate(part.problem, part.graph, self.target)
                assert made is not None
                assert not flag
                tensors = frozenset(spec.name for spec in self.problem.arguments)
                self._embed(vendors.embedded(made, f"kw_{self.numbered}", {}, tensors))
                continue
            nests = cuda.pieces(self.problem.arguments, part, self.settings, first=self.numbered, flag=flag)
            for workspace in nests.workspaces.values():
                self.need(workspace.name, int(workspace.size_bytes))
            self._take(nests.functions, nests.steps)
            self.tables |= nests.tables

    def _embed(self, embedded: vendors.Embedded) -> None:
        self._take([embedded.text], list(embedded.steps))
        self.maps += embedded.tensor_maps
        for workspace in embedded.workspaces:
            self.need(workspace.name, int(workspace.size_bytes))

    def _product(self, program: Program, product: Product, flag: str) -> None:
        assert self.method is not None
        tensors = {spec.name: spec.dtype for spec in self.problem.arguments}
        dtypes = tensors | {s.name: s.dtype for s in program.partition.buffers.values()}
        printer = Printer(
            product, self.method, dtypes, symbol=f"kw_{self.numbered}", tensors=frozenset(tensors), flag=flag
        )
        tuned = self.makers == "tuned library"
        if (tuned or self.makers == "library") and not flag and (called := vendors.called(printer, tuned=tuned)):
            self._take(called.functions, called.steps)
            self.need(SUMS_BUFFER, called.sums_bytes)
            self.need(vendors.WORK, called.work_bytes)
            return
        if self.makers.startswith("generated") and not flag:
            place = int(self.makers.partition(" ")[2] or 1) - 1
            if embedded := vendors.generated(printer, self.target.architecture, place):
                self._embed(embedded)
                return
        made = printer.made()
        self._take(made.functions, made.steps)
        self.need(SUMS_BUFFER, made.sums_bytes)

    def _take(self, functions: list[str], steps: list[Step]) -> None:
        """Adds functions and the steps that call them; what is there already under other names is called again."""
        self.numbered += len(steps)
        if len(functions) == len(steps):
            groups = [([function], [step]) for function, step in zip(functions, steps, strict=True)]
        else:
            groups = [(functions, steps)]
        for texts, calls in groups:
            kernels = [step.symbol for step in calls if step.kind == "kernel"]
            names = dict.fromkeys(b.name for step in calls for b in step.arguments)
            known = self.known.setdefault(plain("".join(texts), kernels, list(names)), kernels)
            if known is kernels:
                self.functions += texts
            renamed = dict(zip(kernels, known, strict=True))
            self.steps += [replace(step, symbol=renamed.get(step.symbol, step.symbol)) for step in calls]

    def look(self, program: Program, version: Rewritten) -> None:
        """Adds the steps that set the flag where a witness is not finite."""
        self.need(FLAG, 4)
        flag = Binding(kind="workspace", name=FLAG, ctype="int32_t")
        self.steps.insert(0, Step(symbol="", kind="memset", arguments=(flag,), byte=0))
        specs = {spec.name: spec for spec in self.problem.arguments}
        for name in version.witnesses:
            home = program.partition.homes.get(name, name)
            spec = specs.get(home) or program.partition.buffers[home]
            if spec.dtype not in DTYPES:
                continue
            binding = Binding(kind="tensor" if home in specs else "workspace", name=home, ctype=BINDINGS[spec.dtype])
            count = prod(spec.shape)
            element, buffer = BUFFERS[spec.dtype], buffer_name(home)
            self.functions.append(
                f'extern "C" __global__ void __launch_bounds__({LOOK_THREADS}) kw_{self.numbered}(\n'
                f"    const {element}* __restrict__ {buffer}, int* __restrict__ {FLAG}) {{\n"
                f"    kw::look({buffer}, {count}, {FLAG});\n}}\n"
            )
            blocks = min(LOOK_BLOCKS, -(-count // (4 * LOOK_THREADS)))
            launch = Launch(grid=(blocks, 1, 1), block=(LOOK_THREADS, 1, 1))
            self.steps.append(Step(symbol=f"kw_{self.numbered}", arguments=(binding, flag), launch=launch))
            self.numbered += 1


def plain(text: str, kernels: list[str], names: list[str]) -> str:
    """Returns kernels' text with numbers instead of the names of the first kernel and of buffers."""
    words = {buffer_name(name): f"#{place}" for place, name in enumerate(names)}
    text = text.replace(kernels[0], "#kernel") if kernels else text
    return WORD.sub(lambda found: words.get(found[0], found[0]), text)


def candidate(problem: Problem, target: Target, programs: Programs, point: Point) -> Candidate | Failure:
    """Returns the candidate of one point."""
    given = {**dict(LOOP_DEFAULTS), **dict(point)}
    method = method_of(given) if "tile" in given else None
    settings = cuda.settings_of(tuple(given.items()))
    makers = str(given.get("products", "own"))
    source = Source(problem, 256, target=target, settings=settings, method=method, makers=makers)
    try:
        source.add(programs.main)
        if programs.fallback is not None:
            assert programs.version is not None
            source.look(programs.main, programs.version)
            source.add(programs.fallback, flag=FLAG)
    except Unsupported as fault:
        return Failure(stage="emit", kind="program", message=str(fault))
    header = cuda.header(problem, settings) + '#include "product.cuh"\n' + programs.about
    text = "\n".join([header, *map(cuda.table, source.tables.values()), *source.functions])
    sources = (SourceFile(path="kernel.cu", text=text), cuda.device_header(), product_header())
    return source.candidate(programs, point, name=f"cuda-{programs.name}", language="cuda", sources=sources)


@cache
def product_header() -> SourceFile:
    """Returns `product.cuh`."""
    return SourceFile(path="product.cuh", text=Path(__file__).with_name("product.cuh").read_text())
