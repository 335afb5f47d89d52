"""Expert for embedding bags: rows of a table gathered and reduced to one row for each bag.

Recognises `_embedding_bag` in modes sum, mean and max, with offsets from a tensor or at even distances, and
`embedding` or `index` followed by a sum or mean over the bag's dimension; pointwise operators may follow. Rows that
will be needed soon are prefetched, also across bags. As in PyTorch, indices must lie inside the table.
Not here: gradients, tables in other dtypes than float32.
"""

from __future__ import annotations

from functools import partial
from math import prod

from kernelwright.experts.chain import Expression, Lines, Unsupported
from kernelwright.experts.kernel import candidate, indented, pointer, space, thread_counts, vector_lanes
from kernelwright.experts.protocol import Answer
from kernelwright.experts.tail import follow, in_order, source
from kernelwright.experts.views import Wiring, sequence, whole_number
from kernelwright.graph import Graph, Node, Ref
from kernelwright.types import Candidate, Failure, Point, Problem, Refusal, Space, Target, Template, TensorSpec, value

BAGS = ("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
LOOKUPS = {"aten.embedding.default": ("weight", "indices"), "aten.index.Tensor": ("self", "indices")}
REDUCTIONS = {"aten.sum.dim_IntList": "sum", "aten.mean.dim": "mean"}
INTEGERS = ("int64", "int32")


@value
class Bags:
    """One gather and reduction, and its tail."""

    core: str
    table: TensorSpec
    indices: TensorSpec
    offsets: TensorSpec | None
    """None: every bag has `length` rows."""
    weights: TensorSpec | None
    """One factor for each index."""
    tail: Expression
    tensors: tuple[TensorSpec, ...]
    out: TensorSpec
    mode: str
    """sum, mean or max."""
    bags: int
    length: int
    last_offset: bool
    """Whether the offsets end with the number of indices."""
    padding: int
    """An index that counts for nothing; negative: none."""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one embedding bag; None where there is none."""
    work = recognised(Wiring(problem, graph))
    if not isinstance(work, Bags):
        return work
    return Template(name="embedding_bag", space=_space(work, target), emit=partial(_emit, problem, work))


def recognised(wiring: Wiring) -> Bags | Refusal | None:
    """Returns the embedding bag that a graph is, why it cannot be done, or None where there is none."""
    cores = [node for node in wiring.graph.nodes if node.op in BAGS or _reduces_rows(wiring, node)]
    if len(cores) != 1:
        return None
    try:
        return _bag(wiring, cores[0]) if cores[0].op in BAGS else _looked_up(wiring, cores[0])
    except Unsupported as reason:
        return Refusal(subject=cores[0].op, reason=str(reason))


def _reduces_rows(wiring: Wiring, node: Node) -> bool:
    """Says whether a node adds up, over the last but one dimension, what a look-up of rows gave."""
    lookup = wiring.maker(node.argument("self")) if node.op in REDUCTIONS else None
    if lookup is None or lookup.op not in LOOKUPS:
        return False
    result = lookup.results[0]
    dims = tuple(whole_number(i) for i in sequence(node.argument("dim")))
    return (
        result is not None
        and len(result.shape) >= 3
        and tuple(d % len(result.shape) for d in dims) == (len(result.shape) - 2,)
    )


def _bag(wiring: Wiring, core: Node) -> Bags:
    table = source(wiring, core.argument("weight"), "weight")
    indices = source(wiring, core.argument("indices"), "indices", INTEGERS)
    result = core.results[0]
    assert result is not None
    bags, length, offsets = result.shape[0], 0, None
    made = wiring.maker(core.argument("offsets"))
    if made is not None and made.op.startswith("aten.arange"):
        length = whole_number(dict(made.arguments).get("step", 1))
        if dict(made.arguments).get("start", 0) != 0 or length * bags != prod(indices.shape):
            raise Unsupported("its offsets are a range that does not fit the indices")
    else:
        offsets = source(wiring, core.argument("offsets"), "offsets", INTEGERS)
    factors = core.argument("per_sample_weights")
    mode = ("sum", "mean", "max")[whole_number(core.argument("mode"))]
    padding = core.argument("padding_idx")
    tail = follow(wiring, core, result.shape)
    in_order(tail, core, result.shape)
    return Bags(
        core=core.name, table=table, indices=indices, offsets=offsets,
        weights=None if factors is None else source(wiring, factors, "per_sample_weights"),
        tail=tail.expression, tensors=tail.tensors, out=tail.out, mode=mode, bags=bags, length=length,
        last_offset=bool(core.argument("include_last_offset")),
        padding=whole_number(padding),
    )  # fmt: skip


def _looked_up(wiring: Wiring, core: Node) -> Bags:
    lookup = wiring.maker(core.argument("self"))
    assert lookup is not None
    table_name, indices_name = LOOKUPS[lookup.op]
    chosen = sequence(lookup.argument(indices_name))
    if len(chosen) != 1:
        raise Unsupported("it is indexed in more than one dimension")
    table = source(wiring, lookup.argument(table_name), "table")
    indices = source(wiring, chosen[0], "indices", INTEGERS)
    rows = wiring.shape(Ref(name=lookup.name))
    if len(table.shape) != 2 or rows[-1] != table.shape[1]:
        raise Unsupported(f"a table of shape {table.shape}")
    if lookup.op == "aten.index.Tensor" and (indices.low is None or indices.low < 0):
        raise Unsupported("its indices may be negative, which count from the end")
    shape = (prod(rows[:-2]), rows[-1])
    tail = follow(wiring, core, shape)
    in_order(tail, core, shape)
    return Bags(
        core=core.name, table=table, indices=indices, offsets=None, weights=None, tail=tail.expression,
        tensors=tail.tensors, out=tail.out, mode=REDUCTIONS[core.op], bags=shape[0], length=rows[-2],
        last_offset=False, padding=-1,
    )  # fmt: skip


def _space(work: Bags, target: Target) -> Space:
    """Returns the schedules: lanes, vectors of a row at once, rows prefetched ahead, threads, bags at a time."""
    width = work.table.shape[1]
    lanes = vector_lanes(target)
    lanes = lanes if width >= lanes[0] else (lanes[1], lanes[0])
    need = -(-width // lanes[0])
    tiles = (min(need, 8), *(t for t in (16, 4, 2) if t <= need))
    return space(lanes=lanes, vectors=tiles, ahead=(16, 32, 8, 4, 0), threads=thread_counts(target), bags=(16, 64, 4))


def _emit(problem: Problem, work: Bags, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = {name: int(item) for name, item in point}
    try:
        body = _body(work, choice)
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    named = (work.table, work.indices, work.offsets, work.weights, *work.tensors)
    tensors = tuple(dict.fromkeys(spec for spec in named if spec is not None))
    helpers = f"""\
typedef kw::vec<float, {choice["lanes"]}> V;
constexpr int LANES = {choice["lanes"]}, VECTORS = {choice["vectors"]}, TILE = VECTORS * LANES;
constexpr int64_t BAGS = {work.bags}, INDICES = {prod(work.indices.shape)};
constexpr int WIDTH = {work.table.shape[1]};  // of a row
constexpr int64_t AHEAD = {choice["ahead"]};  // how many indices before its use a row is asked for
"""
    return candidate(
        problem, template="embedding_bag", point=point, tensors=(*tensors, work.out), helpers=helpers, body=body
    )


def _ends(work: Bags) -> list[str]:
    """Returns the statements that find a bag's indices."""
    if work.offsets is None:
        return [f"const int64_t begin = b * {work.length}, end = begin + {work.length};"]
    offsets = pointer(work.offsets.name)
    end = f"{offsets}[b + 1]" if work.last_offset else f"b + 1 < BAGS ? int64_t({offsets}[b + 1]) : INDICES"
    return [f"const int64_t begin = {offsets}[b], end = {end};"]


def _body(work: Bags, choice: dict[str, int]) -> str:
    """Returns the kernel's statements: bags in parallel, a tile of columns at a time, rows in order."""
    lanes = choice["lanes"]
    even = work.table.shape[1] % (choice["vectors"] * lanes) == 0
    load = "kw::load<float, LANES>({})" if even else "kw::load_part<float, LANES>({}, WIDTH - (w + k * LANES), 0.0f)"
    guard = "" if even else "if (w + k * LANES < WIDTH) "
    table, indices = pointer(work.table.name), pointer(work.indices.name)
    value_code = load.format("row + k * LANES")
    if work.weights is not None:
        update = f"sum[k] += {value_code} * {pointer(work.weights.name)}[s];"
    elif work.mode == "max":
        update = f"{{ const V x = {value_code}; sum[k] = count ? kw::max_second(x, sum[k]) : x; }}"
    else:
        update = f"sum[k] += {value_code};"
    writer = Lines(("b", "w + k * LANES"), width=lanes, count="" if even else "left", held={work.core: "v"})
    result = writer.write(work.tail)
    finish = [] if even else ["const int left = WIDTH - (w + k * LANES);", "if (left <= 0) break;"]
    finish.append(
        "const V v = count ? sum[k] / float(count) : sum[k];" if work.mode == "mean" else "const V v = sum[k];"
    )
    finish += writer.lines
    target = f"{pointer(work.out.name)} + b * WIDTH + w + k * LANES"
    finish.append(f"kw::store({target}, {result});" if even else f"kw::store_part({target}, {result}, left);")
    skip = [f"if ({indices}[s] == {work.padding}) continue;"] if work.padding >= 0 else []
    prefetch = [
        f"const float* next = {table} + int64_t({indices}[s + AHEAD < INDICES ? s + AHEAD : INDICES - 1]) * WIDTH + w;",
        "for (int i = 0; i < TILE && w + i < WIDTH; i += 16) __builtin_prefetch(next + i);",
    ]
    each = [
        *(prefetch if choice["ahead"] else []),
        *skip,
        f"const float* row = {table} + int64_t({indices}[s]) * WIDTH + w;",
        "#pragma GCC unroll 16",
        f"for (int k = 0; k < VECTORS; ++k) {guard}{update}",
        "++count;",
    ]
    lines = [
        *_ends(work),
        "for (int w = 0; w < WIDTH; w += TILE) {",
        "    V sum[VECTORS] = {};",
        "    int64_t count = 0;",
        "    for (int64_t s = begin; s < end; ++s) {",
        *("        " + line for line in each),
        "    }",
        "#pragma GCC unroll 16",
        "    for (int k = 0; k < VECTORS; ++k) {",
        *("        " + line for line in finish),
        "    }",
        "}",
    ]
    return (
        f"#pragma omp parallel for num_threads({choice['threads']}) schedule(dynamic, {choice['bags']})\n"
        f"    for (int64_t b = 0; b < BAGS; ++b) {{\n{indented(lines, 2)}\n    }}"
    )
