"""Expert for top-k along the last dimension and what is done with the values and indices found.

Recognises `topk` of an input, of pointwise operators on inputs or of their softmax; outputs are values, indices,
`gather` along the last dimension, rows of a table at the indices, softmax or sum over the k values, and pointwise
operators on these. The code that selects is in selection.py.
Not here: other dimensions, unsorted results, gradients.
"""

from __future__ import annotations

from functools import partial
from math import prod

from kernelwright.experts.chain import Expression, Leaf, Lines, Reader, Unsupported, leaves, shaped
from kernelwright.experts.kernel import candidate, indented, pointer, space, thread_counts, vector_lanes
from kernelwright.experts.protocol import Answer
from kernelwright.experts.selection import selection_code
from kernelwright.experts.tail import source
from kernelwright.experts.views import VIEW_OPS, Wiring, sequence, whole_number
from kernelwright.graph import Arg, Graph, Node, Ref
from kernelwright.types import Candidate, Failure, Point, Problem, Refusal, Space, Target, Template, TensorSpec, value

ROWS_AT = {"aten.index.Tensor": ("self", "indices"), "aten.embedding.default": ("weight", "indices")}


@value
class Made:
    """Something that each row's k results are turned into, before the outputs."""

    name: str
    kind: str
    """gather, softmax or sum."""
    of: Expression | None = None
    """What it is made of, over (rows, k); gathers have a table instead."""
    table: TensorSpec | None = None


@value
class Output:
    """One output: an expression over (rows, k), the indices, or rows of a table."""

    out: TensorSpec
    expression: Expression | None = None
    table: TensorSpec | None = None


@value
class Selection:
    """One top-k with its prologue and all that follows."""

    core: str
    scores: Expression
    """Over (rows, length)."""
    softmax: bool
    """Whether the softmax of the scores is what is searched."""
    rows: int
    length: int
    count: int
    largest: bool
    made: tuple[Made, ...]
    outputs: tuple[Output, ...]


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one top-k; None where there is none."""
    cores = [node for node in graph.nodes if node.op == "aten.topk.default"]
    if len(cores) != 1:
        return None
    try:
        work = _read(Wiring(problem, graph), cores[0])
    except Unsupported as reason:
        return Refusal(subject=cores[0].op, reason=str(reason))
    return Template(name="topk", space=_space(work, target), emit=partial(_emit, problem, work))


def _read(wiring: Wiring, core: Node) -> Selection:
    values = core.results[0]
    scores = core.argument("self")
    assert values is not None
    assert isinstance(scores, Ref)
    shape = wiring.shape(scores)
    if not shape or whole_number(core.argument("dim")) % len(shape) != len(shape) - 1:
        raise Unsupported("it is not along the last dimension")
    if not core.argument("sorted"):
        raise Unsupported("its results are not sorted, so their order is not defined")
    if values.dtype != "float32" or prod(values.shape) == 0:
        raise Unsupported(f"values of {values.dtype} and shape {values.shape}")
    rows, length, count = prod(shape[:-1]), shape[-1], values.shape[-1]
    node = wiring.maker(scores)
    softmax = node is not None and node.op == "aten._softmax.default"
    if node is not None and softmax:
        if whole_number(node.argument("dim")) % len(shape) != len(shape) - 1:
            raise Unsupported("a softmax over another dimension before it")
        scores = _tensor(node.argument("self"))
    expression = shaped(Reader(wiring).read(scores), (rows, length))
    follower = _Follower(wiring, core, rows, count)
    outputs = tuple(
        follower.output(ref, spec) for ref, spec in zip(wiring.graph.outputs, wiring.problem.outputs, strict=True)
    )
    return Selection(
        core=core.name, scores=expression, softmax=softmax, rows=rows, length=length, count=count,
        largest=bool(core.argument("largest")), made=tuple(follower.made.values()), outputs=outputs,
    )  # fmt: skip


def _tensor(item: Arg) -> Ref:
    if not isinstance(item, Ref):
        raise Unsupported("an operand that is no tensor")
    return item


class _Follower:
    """Reads what follows the top-k, and collects what has to be made of a row's results on the way."""

    def __init__(self, wiring: Wiring, core: Node, rows: int, count: int) -> None:
        self.wiring = wiring
        self.core = core
        self.rows = rows
        self.count = count
        self.made: dict[str, Made] = {}

    def output(self, ref: Ref, spec: TensorSpec) -> Output:
        """Returns how one output is written."""
        node = self.wiring.maker(ref)
        if node is not None and node.op in ROWS_AT:
            table, chosen = (node.argument(key) for key in ROWS_AT[node.op])
            if len(sequence(chosen)) == 1 and self.is_indices(sequence(chosen)[0]):
                held = source(self.wiring, table, "table", (spec.dtype,))
                if len(held.shape) < 2 or prod(held.shape[1:]) * self.rows * self.count != prod(spec.shape):
                    raise Unsupported(f"rows of a table of shape {held.shape}")
                return Output(out=spec, table=held)
        if self.is_indices(ref):
            return Output(out=spec)
        if spec.dtype != "float32":
            raise Unsupported(f"an output of {spec.dtype}")
        return Output(out=spec, expression=self.expression(ref))

    def is_indices(self, item: Arg) -> bool:
        """Says whether a tensor is the indices, perhaps under another shape."""
        while isinstance(item, Ref):
            if item.name == self.core.name:
                return item.index == 1
            node = self.wiring.maker(item)
            if node is None or node.op not in VIEW_OPS - {"aten.permute.default", "aten.expand.default"}:
                return False
            if prod(self.wiring.shape(item)) != self.rows * self.count:
                return False
            item = node.argument("self")
        return False

    def expression(self, ref: Ref) -> Expression:
        """Returns a tensor as an expression over (rows, k) whose leaves are values and made things."""
        self.collect(ref)
        item = shaped(Reader(self.wiring, self.core.name, *self.made).read(ref), (self.rows, self.count))
        for leaf in leaves(item):
            self.check(leaf)
        return item

    def check(self, leaf: Leaf) -> None:
        """Refuses results of a row that are used in another row or another order."""
        name = leaf.view.base
        if name == f"{self.core.name}.1":
            raise Unsupported("arithmetic on its indices")
        if name != self.core.name and name not in self.made:
            return
        alone = name in self.made and self.made[name].kind == "sum"
        strides = leaf.view.strides
        row = 1 if alone else self.count
        wanted = (row if self.rows > 1 else 0, 1 if not alone and self.count > 1 else 0)
        if leaf.view.start or strides != wanted:
            raise Unsupported("its results are permuted or cut before they are used")

    def collect(self, ref: Ref) -> None:
        """Adds what must be made for a tensor, operands first."""
        node = self.wiring.maker(ref)
        if node is None or node.name == self.core.name or node.name in self.made:
            return
        kind = node.op.split(".")[1]
        if kind == "gather":
            last = whole_number(node.argument("dim")) % len(self.wiring.shape(ref)) == len(self.wiring.shape(ref)) - 1
            table = source(self.wiring, node.argument("self"), "gathered tensor")
            if not last or not self.is_indices(node.argument("index")) or prod(table.shape[:-1]) != self.rows:
                raise Unsupported("a gather that is not along the last dimension at its indices")
            self.made[node.name] = Made(name=node.name, kind="gather", table=table)
            return
        if kind in ("_softmax", "sum"):
            below = _tensor(node.argument("self"))
            dims = sequence(node.argument("dim"))
            rank = len(self.wiring.shape(below))
            if [whole_number(d) % rank for d in dims] != [rank - 1] or self.wiring.shape(below)[-1] != self.count:
                raise Unsupported(f"{node.op} over other elements than the k of a row")
            item = self.expression(below)
            self.made[node.name] = Made(name=node.name, kind=kind.lstrip("_"), of=item)
            return
        for _, argument in node.arguments:
            for part in sequence(argument):
                if isinstance(part, Ref):
                    self.collect(part)


def direct_scores(work: Selection) -> str:
    """Returns the pointer to the scores where they lie in memory as they are searched, else ""."""
    item = work.scores
    return pointer(item.view.base) if isinstance(item, Leaf) and item.view.contiguous and not work.softmax else ""


def _space(work: Selection, target: Target) -> Space:
    """Returns the schedules: how to select, lanes, groups of lanes, threads, rows at a time."""
    lanes = vector_lanes(target)
    need = -(-work.count // lanes[0])
    groups = tuple(g for g in (need, 2 * need, 4 * need) if g * lanes[0] <= max(work.length // 2, lanes[0] * need))
    groups = tuple(reversed(groups[:2])) + groups[2:] if work.length >= 16 * lanes[0] * need else groups
    return space(
        select=("filter", "library"), lanes=lanes, groups=groups, threads=thread_counts(target), rows=(16, 64, 4)
    )


def _emit(problem: Problem, work: Selection, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = dict(point)
    lanes, groups = int(choice["lanes"]), int(choice["groups"])
    if groups * lanes < work.count:
        return Failure(stage="emit", kind="groups", message=f"{groups} groups of {lanes} lanes are fewer than k")
    try:
        body = _body(work, lanes, int(choice["threads"]), int(choice["rows"]))
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    helpers = selection_code(
        rows=work.rows, length=work.length, count=work.count, largest=work.largest,
        filtered=choice["select"] == "filter", lanes=lanes, groups=groups,
    )  # fmt: skip
    names = {leaf.view.base for item in _expressions(work) for leaf in leaves(item)}
    held = [spec for spec in problem.inputs + problem.parameters if spec.name in names]
    held += [made.table for made in work.made if made.table is not None]
    held += [output.table for output in work.outputs if output.table is not None]
    tensors = (*dict.fromkeys(held), *(output.out for output in work.outputs))
    return candidate(problem, template="topk", point=point, tensors=tensors, helpers=helpers, body=body)


def _expressions(work: Selection) -> tuple[Expression, ...]:
    found = [work.scores, *(made.of for made in work.made if made.of is not None)]
    return (*found, *(output.expression for output in work.outputs if output.expression is not None))


def _body(work: Selection, lanes: int, threads: int, rows: int) -> str:
    """Returns the kernel's statements for one row: scores, selection, what is made of it, outputs."""
    lines: list[str] = []
    direct = direct_scores(work)
    if direct:
        lines.append(f"const float* scores = {direct} + r * LENGTH;")
    else:
        lines += _prologue(work, lanes)
    lines += [
        "alignas(64) float values[PADDED] = {};",
        "int64_t indices[COUNT];",
        "select_row(scores, values, indices);",
    ]
    held = {work.core: "kw::load<float, LANES>(values + j)"}
    for made in work.made:
        lines += _make(made, lanes, held)
    for output in work.outputs:
        lines += _write(output, lanes, held)
    return (
        f"#pragma omp parallel for num_threads({threads}) schedule(dynamic, {rows})\n"
        f"    for (int64_t r = 0; r < ROWS; ++r) {{\n{indented(lines, 2)}\n    }}"
    )


def _prologue(work: Selection, lanes: int) -> list[str]:
    """Returns the statements that compute one row of scores."""
    writer = Lines(("r", "j"), width=lanes, count="left", held={})
    result = writer.write(work.scores)
    lines = ["alignas(64) float scores[(LENGTH + LANES - 1) / LANES * LANES];"]
    lines += ["V top = kw::broadcast<V>(-__builtin_inff());"] if work.softmax else []
    lines += ["for (int j = 0; j < LENGTH; j += LANES) {", "    const int left = LENGTH - j;"]
    lines += ["    " + line for line in writer.lines]
    lines.append(f"    const V score = {result};")
    if work.softmax:
        lines.append(
            "    top = kw::maximum(top, left >= LANES ? score : kw::select(kw::first<LANES>(left), score, top));"
        )
    lines += ["    kw::store(scores + j, score);", "}"]
    if work.softmax:
        lines.append("softmax_row(scores, LENGTH, kw::largest(top));")
    return lines


def _make(made: Made, lanes: int, held: dict[str, str]) -> list[str]:
    """Returns the statements that make one thing of a row's results, and notes how it is read."""
    name = f"made_{made.name}"
    if made.of is None:
        assert made.table is not None
        held[made.name] = f"kw::load<float, LANES>({name} + j)"
        return [
            f"alignas(64) float {name}[PADDED] = {{}};",
            f"const float* {name}_from = {pointer(made.table.name)} + r * {made.table.shape[-1]};",
            f"for (int j = 0; j < COUNT; ++j) {name}[j] = {name}_from[indices[j]];",
        ]
    writer = Lines(("r", "j"), width=lanes, count="(COUNT - j)", held=held)
    result = writer.write(made.of)
    lines = [
        f"alignas(64) float {name}[PADDED];",
        "for (int j = 0; j < COUNT; j += LANES) {",
        *("    " + line for line in writer.lines),
        f"    kw::store({name} + j, {result});",
        "}",
    ]
    if made.kind == "sum":
        held[made.name] = f"kw::broadcast<V>({name}_sum)"
        return [*lines, f"float {name}_sum = 0.0f;", f"for (int j = 0; j < COUNT; ++j) {name}_sum += {name}[j];"]
    held[made.name] = f"kw::load<float, LANES>({name} + j)"
    return [*lines, f"softmax_row({name}, COUNT, row_top({name}, COUNT));"]


def _write(output: Output, lanes: int, held: dict[str, str]) -> list[str]:
    """Returns the statements that write one output of a row."""
    to = f"{pointer(output.out.name)} + r * COUNT"
    if output.table is not None:
        width = prod(output.table.shape[1:])
        table, rows = pointer(output.table.name), f"{pointer(output.out.name)} + (r * COUNT + j) * {width}"
        return [
            "for (int j = 0; j < COUNT; ++j)",
            f"    __builtin_memcpy({rows}, {table} + indices[j] * {width}, {width} * sizeof(*{table}));",
        ]
    if output.expression is None:
        return [f"__builtin_memcpy({to}, indices, sizeof(indices));"]
    writer = Lines(("r", "j"), width=lanes, count="(COUNT - j)", held=held)
    result = writer.write(output.expression)
    return [
        "for (int j = 0; j < COUNT; j += LANES) {",
        *("    " + line for line in writer.lines),
        f"    kw::store_part({to} + j, {result}, COUNT - j);",
        "}",
    ]
