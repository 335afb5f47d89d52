"""Expert for top-k along the last dimension and what is done with the values and indices found.

Recognises `topk` of an input, of pointwise operators on inputs or of their softmax; outputs are values, indices,
`gather` along the last dimension, rows of a table at the indices, softmax or sum over the k values, and pointwise
operators on these. The code that selects is in selection.py.
Not here: other dimensions, unsorted results, gradients.
"""

from __future__ import annotations

from functools import partial
from math import prod

from kernelwright.experts.chain import Expression, Leaf, Reader, Unsupported, leaves, shaped
from kernelwright.experts.kernel import candidate, space, thread_counts, vector_lanes
from kernelwright.experts.protocol import Answer
from kernelwright.experts.selection import selection_code
from kernelwright.experts.tail import source
from kernelwright.experts.topk_code import Made, Output, Selection, direct_scores, expressions, row_loop
from kernelwright.experts.views import VIEW_OPS, Wiring, sequence, whole_number
from kernelwright.graph import Arg, Graph, Node, Ref
from kernelwright.types import Candidate, Failure, Point, Problem, Refusal, Space, Target, Template, TensorSpec

ROWS_AT = {"aten.index.Tensor": ("self", "indices"), "aten.embedding.default": ("weight", "indices")}

LONGEST_BUFFER = 1 << 18
"""The most scores of a row that are computed before they are searched."""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one top-k; None where there is none."""
    work = recognised(Wiring(problem, graph))
    if not isinstance(work, Selection):
        return work
    return Template(name="topk", space=_space(work, target), emit=partial(_emit, problem, work))


def recognised(wiring: Wiring) -> Selection | Refusal | None:
    """Returns the top-k of a graph, why it cannot be done, or None where there is none."""
    cores = [node for node in wiring.graph.nodes if node.op == "aten.topk.default"]
    if len(cores) != 1:
        return None
    try:
        return _read(wiring, cores[0])
    except Unsupported as reason:
        return Refusal(subject=cores[0].op, reason=str(reason))


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
    if values.dtype not in wiring.floats or prod(values.shape) == 0:
        raise Unsupported(f"values of {values.dtype} and shape {values.shape}")
    rows, length, count = prod(shape[:-1]), shape[-1], values.shape[-1]
    node, inner = wiring.maker(scores), 0
    softmax = node is not None and node.op == "aten._softmax.default"
    if node is not None and softmax:
        if whole_number(node.argument("dim")) % len(shape) != len(shape) - 1:
            raise Unsupported("a softmax over another dimension before it")
        scores = _tensor(node.argument("self"))
    elif node is not None and _is_maximum(wiring, node, scores):
        scores = _tensor(node.argument("self"))
        inner = wiring.shape(scores)[-1]
    expression = shaped(Reader(wiring).read(scores), (rows, length, inner) if inner else (rows, length))
    follower = _Follower(wiring, core, rows, count)
    outputs = tuple(
        follower.output(ref, spec) for ref, spec in zip(wiring.graph.outputs, wiring.problem.outputs, strict=True)
    )
    return Selection(
        core=core.name, scores=expression, inner=inner, softmax=softmax, rows=rows, length=length, count=count,
        largest=bool(core.argument("largest")), made=tuple(follower.made.values()), outputs=outputs,
    )  # fmt: skip


def _is_maximum(wiring: Wiring, node: Node, used: Ref) -> bool:
    """Says whether a node takes the maximum over the last dimension, which vanishes."""
    if node.op not in ("aten.max.dim", "aten.amax.default") or used.index or node.argument("keepdim"):
        return False
    rank = len(wiring.shape(_tensor(node.argument("self"))))
    return [whole_number(d) % rank for d in sequence(node.argument("dim"))] == [rank - 1]


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
                return Output(out=spec, table=held, width=prod(held.shape[1:]))
        if node is not None and node.op == "aten.gather.default":
            found = self.own_rows(node, spec)
            if found is not None:
                return found
        if self.is_indices(ref):
            return Output(out=spec)
        if spec.dtype not in self.wiring.floats:
            raise Unsupported(f"an output of {spec.dtype}")
        return Output(out=spec, expression=self.expression(ref))

    def own_rows(self, node: Node, spec: TensorSpec) -> Output | None:
        """Returns a gather of whole rows, in each row's own part of a table; None for other gathers."""
        index = node.argument("index")
        repeat = self.wiring.maker(index)
        if repeat is None or repeat.op != "aten.expand.default" or not self.is_indices(repeat.argument("self")):
            return None
        below, wide = self.wiring.shape(_tensor(repeat.argument("self"))), self.wiring.shape(_tensor(index))
        dim = whole_number(node.argument("dim")) % len(wide)
        table = source(self.wiring, node.argument("self"), "gathered tensor", (spec.dtype,))
        shape = self.wiring.shape(_tensor(node.argument("self")))
        same = below[: dim + 1] == wide[: dim + 1] and set(below[dim + 1 :]) == {1} and below[dim] == self.count
        if not same or shape[:dim] != wide[:dim] or shape[dim + 1 :] != wide[dim + 1 :]:
            raise Unsupported("a gather of parts of rows")
        return Output(out=spec, table=table, width=prod(shape[dim + 1 :]), height=shape[dim])

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


def _space(work: Selection, target: Target) -> Space:
    """Returns the schedules: how to select, lanes, groups of lanes, threads, rows at a time."""
    lanes = vector_lanes(target)
    # With barely more maxima than k, their k-th largest is a poor bound and too many elements pass.
    need = -(-3 * work.count // (2 * lanes[0]))
    groups = tuple(g for g in (need, 2 * need, 4 * need) if g * lanes[0] <= max(work.length // 2, lanes[0] * need))
    groups = tuple(reversed(groups[:2])) + groups[2:] if work.length >= 16 * lanes[0] * need else groups
    threads = thread_counts(target)
    rows = tuple(n for n in (16, 64, 4) if n * 2 * threads[0] <= work.rows) or (1,)
    return space(select=("filter", "library"), lanes=lanes, groups=groups, threads=threads, rows=rows)


def _emit(problem: Problem, work: Selection, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = dict(point)
    lanes, groups = int(choice["lanes"]), int(choice["groups"])
    if groups * lanes < work.count:
        return Failure(stage="emit", kind="groups", message=f"{groups} groups of {lanes} lanes are fewer than k")
    if not direct_scores(work) and work.length > LONGEST_BUFFER:
        return Failure(stage="emit", kind="memory", message=f"a row of {work.length} scores does not fit the stack")
    try:
        body = row_loop(work, lanes, int(choice["threads"]), int(choice["rows"]))
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    helpers = selection_code(
        rows=work.rows, length=work.length, count=work.count, largest=work.largest,
        filtered=choice["select"] == "filter", lanes=lanes, groups=groups,
    )  # fmt: skip
    names = {leaf.view.base for item in expressions(work) for leaf in leaves(item)}
    held = [spec for spec in problem.inputs + problem.parameters if spec.name in names]
    held += [made.table for made in work.made if made.table is not None]
    held += [output.table for output in work.outputs if output.table is not None]
    tensors = (*dict.fromkeys(held), *(output.out for output in work.outputs))
    return candidate(problem, template="topk", point=point, tensors=tensors, helpers=helpers, body=body)
