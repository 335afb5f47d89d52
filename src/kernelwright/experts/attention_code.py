"""C++ for attention: packed keys, register tiles of scores, softmax of whole rows, register tiles of values.

Keys are packed once for each head so that a vector holds neighbouring keys. A block of queries then computes all
its scores (a row of scores fits the cache, so the softmax needs no running maximum), and multiplies them with v.
Where a mask hides every key from some place on, the blocks behind it are not computed at all.
Not here: which graphs are attention (attention.py).
"""

from __future__ import annotations

from kernelwright.experts.chain import Expression, Lines, Unsupported
from kernelwright.experts.kernel import candidate, indented, pointer, space, thread_counts, vector_lanes
from kernelwright.experts.views import View
from kernelwright.types import Candidate, Failure, Point, Problem, Space, Target, TensorSpec, Workspace, value

SCRATCH_BYTES = 1 << 26
"""The most scratch memory that a schedule may take."""


@value
class Attention:
    """One attention: where q, k, v and the results lie, and how a score is made of a product."""

    core: str
    """The first product's name: the leaf of `score` that stands for it."""
    q: View
    """By (head, query, depth)."""
    k: View
    """By (head, depth, key)."""
    v: View | None
    """By (head, key, element)."""
    scale: float
    score: Expression
    """Over (head, query, key)."""
    masks: tuple[TensorSpec, ...]
    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    """Elements of a row of v."""
    weights_out: View | None
    values_out: View | None
    outs: tuple[TensorSpec, ...]
    guarded: bool
    """Rows whose scores are all -inf give 0, not NaN."""
    horizon: int | None
    """Keys from query + horizon on are masked; None: no such rule."""
    visible: Expression | None
    """What `score` is where no such rule masks."""
    sheltered: bool = False
    """Whether what that rule masks is -inf whatever q and k hold; else NaN may be left of it."""


def attention_space(work: Attention, target: Target) -> Space:
    """Returns the schedules: register tile, tiles in a query block, keys at a time of v, threads, kind of store."""
    wide = vector_lanes(target)[0] == 16
    all_tiles = ["6x4", "8x3", "12x2", "4x4"] if wide else ["6x2", "4x3", "4x2"]
    small = ("1x4", "2x4", "1x2") if wide else ("1x4", "2x2")
    tiles = tuple(t for t in all_tiles if int(t.split("x")[0]) <= work.queries) or small
    stream = work.weights_out is not None and work.keys % 16 == 0
    return space(
        tile=tiles,
        tiles=(8, 4, 2, 1),
        values=(256, 128, 64) if work.v is not None else (256,),
        threads=thread_counts(target),
        store=("plain", "stream") if stream else ("plain",),
        lanes=vector_lanes(target)[:1],
    )


def emit_attention(problem: Problem, work: Attention, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = dict(point)
    rows, vectors = (int(part) for part in str(choice["tile"]).split("x"))
    lanes, threads = int(choice["lanes"]), int(choice["threads"])
    block = min(rows * int(choice["tiles"]), -(-work.queries // rows) * rows)
    span = -(-work.keys // (vectors * lanes)) * vectors * lanes
    padded = -(-max(work.width, 1) // lanes) * lanes
    scratch = threads * block * (span + padded) * 4
    packed = work.heads * span * work.depth * 4
    if scratch + packed > SCRATCH_BYTES * (4 if rows == 1 else 1):
        return Failure(stage="emit", kind="memory", message=f"{scratch + packed} bytes of scratch memory")
    try:
        helpers = _helpers(work, rows, vectors, lanes, block, int(choice["values"]))
        body = _body(work, lanes, vectors, threads, str(choice["store"]))
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    views = [view.base for view in (work.q, work.k, work.v) if view is not None]
    names = dict.fromkeys([*views, *(mask.name for mask in work.masks)])
    held = {spec.name: spec for spec in problem.inputs + problem.parameters}
    return candidate(
        problem,
        template="attention",
        point=point,
        tensors=(*(held[name] for name in names), *work.outs),
        helpers=helpers,
        body=body,
        workspaces=(
            (Workspace(name="packed", size_bytes=packed), "float"),
            (Workspace(name="scratch", size_bytes=scratch), "float"),
            (Workspace(name="strange", size_bytes=4 * work.heads), "int32_t"),
        ),
    )


def _stride(view: View, dim: int) -> int:
    factors = view.dims[dim]
    return factors[0][1] if factors else 0


def _helpers(work: Attention, rows: int, vectors: int, lanes: int, block: int, values: int) -> str:
    """Returns sizes and the three inner loops."""
    value_vectors = min(-(-max(work.width, 1) // lanes), max(1, 24 // rows), 4)
    text = f"""\
#include <omp.h>

typedef kw::vec<float, {lanes}> V;
constexpr int LANES = {lanes}, ROWS = {rows}, VECTORS = {vectors}, TILE = VECTORS * LANES;  // register tile
constexpr int64_t HEADS = {work.heads};
constexpr int QUERIES = {work.queries}, KEYS = {work.keys}, DEPTH = {work.depth};
constexpr int BLOCK = {block}, BLOCKS = (QUERIES + BLOCK - 1) / BLOCK;  // of queries
constexpr int TILES = (KEYS + TILE - 1) / TILE, SPAN = TILES * TILE;   // of keys, the last one filled up
constexpr int64_t Q_STEP = {_stride(work.q, 2)}, K_STEP = {_stride(work.k, 1)}, KEY_STEP = {_stride(work.k, 2)};
constexpr float SCALE = {work.scale!r}f;
constexpr float NOTHING = -__builtin_inff();
{_PACK}{_DOTS}{_SOFTMAX}"""
    if work.horizon is not None:
        text += _MASKED
    if work.v is not None:
        text += f"""
constexpr int WIDTH = {work.width}, PADDED = {-(-work.width // lanes) * lanes};  // of a row of v
constexpr int VALUE_VECTORS = {value_vectors}, VALUE_TILE = VALUE_VECTORS * LANES, VALUE_KEYS = {values};
constexpr int64_t V_STEP = {_stride(work.v, 1)};
{_VALUES}{_STRANGE if work.horizon is not None else ""}"""
    return text


_PACK = """
// Keys first ... first + TILE of one head, as rows of TILE keys, one row for each element of depth.
static void pack_keys(const float* keys, int first, float* to) {
    const int n = KEYS - first < TILE ? KEYS - first : TILE;
    if (n < TILE) __builtin_memset(to, 0, sizeof(float) * DEPTH * TILE);
    if (KEY_STEP == 1) {
        for (int d = 0; d < DEPTH; ++d) __builtin_memcpy(to + d * TILE, keys + d * K_STEP + first, n * sizeof(float));
    } else {
        for (int d = 0; d < DEPTH; d += 16)  // a few columns at a time, so that both sides stay in the cache
            for (int s = 0; s < n; ++s)
                for (int i = d; i < DEPTH && i < d + 16; ++i)
                    to[i * TILE + s] = keys[(first + s) * KEY_STEP + i * K_STEP];
    }
}
"""

_DOTS = """
// Products of ROWS queries with TILE packed keys.
static KW_INLINE void dot_tile(const float* const (&query)[ROWS], const float* keys, V (&sum)[ROWS][VECTORS]) {
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
        for (int k = 0; k < VECTORS; ++k) sum[r][k] = V{};
    for (int d = 0; d < DEPTH; ++d) {
        V key[VECTORS];
#pragma GCC unroll 8
        for (int k = 0; k < VECTORS; ++k) key[k] = kw::load<float, LANES>(keys + d * TILE + k * LANES);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
            const V q = kw::broadcast<V>(query[r][d * Q_STEP]);
#pragma GCC unroll 8
            for (int k = 0; k < VECTORS; ++k) sum[r][k] += q * key[k];
        }
    }
}
"""

_SOFTMAX = """
// Makes exp(score - largest) of n scores (whole vectors) in place; returns one over their sum.
static inline float exponentials(float* row, int n, bool* seen) {
    V top = kw::broadcast<V>(NOTHING);
    for (int s = 0; s < n; s += LANES) top = kw::maximum(top, kw::load<float, LANES>(row + s));
    const float largest = kw::largest(top);
    *seen = largest != NOTHING;
    V sums[2] = {};
    for (int s = 0; s < n; s += 2 * LANES) {
        const V e = kw::exp(kw::load<float, LANES>(row + s) - largest);
        kw::store(row + s, e);
        sums[0] += e;
        if (s + LANES < n) {
            const V f = kw::exp(kw::load<float, LANES>(row + s + LANES) - largest);
            kw::store(row + s + LANES, f);
            sums[1] += f;
        }
    }
    return 1.0f / kw::sum(sums[0] + sums[1]);
}
"""

_MASKED = """
// The number of keys that are computed, when those from n on are masked.
static inline int within(int n) { return n < 1 ? 1 : n < KEYS ? n : KEYS; }
"""

_STRANGE = """
// Says whether v holds NaN or infinity, which even a weight of 0 does not hide.
static bool has_strange(const float* v) {
    V found = {};
    for (int s = 0; s < KEYS; ++s)
        for (int w = 0; w < WIDTH; w += LANES) {
            const V x = kw::load_part<float, LANES>(v + s * V_STEP + w, WIDTH - w, 0.0f);
            found += x - x;
        }
    return kw::sum(found) != 0.0f;
}
"""

_VALUES = """
// Adds weights times rows first ... last of v to ROWS rows of results.
static KW_INLINE void add_values(const float* weights, const float* v, int first, int last, float* results) {
#pragma GCC unroll 4
    for (int w = 0; w < WIDTH; w += VALUE_TILE) {
        V sum[ROWS][VALUE_VECTORS];
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int k = 0; k < VALUE_VECTORS; ++k)
                sum[r][k] = w + k * LANES < PADDED ? kw::load<float, LANES>(results + r * PADDED + w + k * LANES) : V{};
        for (int s = first; s < last; ++s) {
            V x[VALUE_VECTORS];
#pragma GCC unroll 8
            for (int k = 0; k < VALUE_VECTORS; ++k) {
                const int left = WIDTH - w - k * LANES;
                const float* from = v + s * V_STEP + w + k * LANES;
                x[k] = left >= LANES ? kw::load<float, LANES>(from)
                     : left > 0      ? kw::load_part<float, LANES>(from, left, 0.0f) : V{};
            }
#pragma GCC unroll 16
            for (int r = 0; r < ROWS; ++r) {
                const V weight = kw::broadcast<V>(weights[r * SPAN + s]);
#pragma GCC unroll 8
                for (int k = 0; k < VALUE_VECTORS; ++k) sum[r][k] += weight * x[k];
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 8
            for (int k = 0; k < VALUE_VECTORS; ++k)
                if (w + k * LANES < PADDED) kw::store(results + r * PADDED + w + k * LANES, sum[r][k]);
    }
}
"""


def _body(work: Attention, lanes: int, vectors: int, threads: int, store: str) -> str:
    """Returns the kernel's statements: pack, then blocks of queries."""
    partial = work.keys % (vectors * lanes) != 0
    count = "left" if partial else ""
    # A scale that belongs to q and k is applied to the product.
    held = "sum[r][k]" if work.scale == 1.0 else "(sum[r][k] * SCALE)"
    k = f"{pointer(work.k.base)} + {work.k.offset(('n', '', ''))}"
    query = f"{pointer(work.q.base)} + {work.q.offset(('n', 't', ''))}"
    end = "KEYS"
    if work.horizon is not None:
        end = f"within(first + rows - 1 + {work.horizon})"
    score = _scores(work.score, Lines(("n", "t", "s + k * LANES"), width=lanes, count=count, held={work.core: held}))
    if work.visible is not None:
        plain = Lines(("n", "t", "s + k * LANES"), width=lanes, held={work.core: held})
        score = (
            f"                    if (s + TILE <= KEYS && s + TILE <= first + r0 + {work.horizon}) {{\n"
            f"{_scores(work.visible, plain)}\n                        continue;\n                    }}\n{score}"
        )
    check = ""
    if work.v is not None and work.horizon is not None:
        value = f"{pointer(work.v.base)} + {work.v.offset(('n', '', ''))}"
        check = f"            if (task % TILES == 0) strange[n] = has_strange({value});\n"
    return f"""\
#pragma omp parallel num_threads({threads})
    {{
#pragma omp for schedule(static)
        for (int64_t task = 0; task < HEADS * TILES; ++task) {{
            [[maybe_unused]] const int64_t n = task / TILES;
{check}            pack_keys({k}, int(task % TILES) * TILE, packed + task * DEPTH * TILE);
        }}
        float* scores = scratch + int64_t(omp_get_thread_num()) * BLOCK * {"(SPAN + PADDED)" if work.v else "SPAN"};
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < HEADS * BLOCKS; ++task) {{
            [[maybe_unused]] const int64_t n = task / BLOCKS;
            const int first = int(task % BLOCKS) * BLOCK, rows = QUERIES - first < BLOCK ? QUERIES - first : BLOCK;
            const int end = {end}, stop = (end + TILE - 1) / TILE * TILE;
            for (int s = 0; s < end; s += TILE)
                for (int r0 = 0; r0 < rows; r0 += ROWS) {{
                    const float* query[ROWS];
                    for (int r = 0; r < ROWS; ++r) {{
                        [[maybe_unused]] const int t = first + r0 + r < QUERIES ? first + r0 + r : QUERIES - 1;
                        query[r] = {query};
                    }}
                    V sum[ROWS][VECTORS];
                    dot_tile(query, packed + (n * TILES + s / TILE) * DEPTH * TILE, sum);
{score}
                }}
{_finish(work, store)}
        }}
    }}"""


def _scores(score: Expression, writer: Lines) -> str:
    """Returns the loops that turn a tile of products into scores; lanes beyond the last key get -inf."""
    result = writer.write(score)
    if writer.count:
        result = f"kw::select(kw::first<LANES>({writer.count}), {result}, kw::broadcast<V>(NOTHING))"
    left = ["const int rest = KEYS - s - k * LANES, left = rest > 0 ? rest : 0;"] if writer.count else []
    inner = indented([*left, *writer.lines, f"kw::store(scores + (r0 + r) * SPAN + s + k * LANES, {result});"], 7)
    return f"""\
#pragma GCC unroll 16
                    for (int r = 0; r < ROWS; ++r) {{
                        [[maybe_unused]] const int t = first + r0 + r < QUERIES ? first + r0 + r : QUERIES - 1;
#pragma GCC unroll 8
                        for (int k = 0; k < VECTORS; ++k) {{
{inner}
                        }}
                    }}"""


def _finish(work: Attention, store: str) -> str:
    """Returns the statements after a block's scores: softmax, weights, values."""
    lines = [
        "const int made = (rows + ROWS - 1) / ROWS * ROWS;",
        "float inverse[BLOCK];",
        "for (int r = 0; r < made; ++r) {",
        "    bool seen;",
        "    inverse[r] = exponentials(scores + r * SPAN, stop, &seen);",
    ]
    if work.guarded:
        lines += [
            "    if (!seen) {  // no key is visible: zeros instead of NaN",
            "        __builtin_memset(scores + r * SPAN, 0, stop * sizeof(float));",
            "        inverse[r] = 1.0f;",
            "    }",
        ]
    lines.append("}")
    if work.weights_out is not None:
        lines += _write_weights(work.weights_out, store)
    if work.v is not None and work.values_out is not None:
        lines += _write_values(work, work.v, work.values_out)
    return indented(lines, 3)


def _write_weights(out: View, store: str) -> list[str]:
    put = "kw::stream(to + s, w);" if store == "stream" else "kw::store_part(to + s, w, KEYS - s);"
    return [
        "for (int r = 0; r < rows; ++r) {",
        "    [[maybe_unused]] const int t = first + r;",
        f"    float* to = {pointer(out.base)} + {out.offset(('n', 't', ''))};",
        "    for (int s = 0; s < KEYS && s < stop; s += LANES) {",
        "        const V w = kw::load<float, LANES>(scores + r * SPAN + s) * inverse[r];",
        f"        {put}",
        "    }",
        "    const V w = kw::broadcast<V>(0.0f * inverse[r]);  // masked; NaN where the row is",
        f"    for (int s = stop; s < KEYS; s += LANES) {put}",
        "}",
        *(["kw::stream_fence();"] if store == "stream" else []),
    ]


def _write_values(work: Attention, v: View, out: View) -> list[str]:
    lines = [
        "float* results = scores + BLOCK * SPAN;",
        "__builtin_memset(results, 0, made * PADDED * sizeof(float));",
    ]
    if work.horizon is None:
        lines.append("const int last = KEYS;")
    else:
        lines += [
            "const int last = strange[n] ? KEYS : end;",
            "if (strange[n])",
            "    for (int r = 0; r < made; ++r)",
            "        __builtin_memset(scores + r * SPAN + stop, 0, (SPAN - stop) * sizeof(float));",
        ]
    return [
        *lines,
        f"const float* v = {pointer(v.base)} + {v.offset(('n', '', ''))};",
        "for (int s = 0; s < last; s += VALUE_KEYS)",
        "    for (int r0 = 0; r0 < made; r0 += ROWS) {",
        "        const int after = s + VALUE_KEYS < last ? s + VALUE_KEYS : last;",
        "        add_values(scores + r0 * SPAN, v, s, after, results + r0 * PADDED);",
        "    }",
        "for (int r = 0; r < rows; ++r) {",
        "    [[maybe_unused]] const int t = first + r;",
        f"    float* to = {pointer(out.base)} + {out.offset(('n', 't', ''))};",
        "    for (int w = 0; w < WIDTH; w += LANES)",
        "        kw::store_part(to + w, kw::load<float, LANES>(results + r * PADDED + w) * inverse[r], WIDTH - w);",
        "}",
    ]
