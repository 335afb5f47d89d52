"""C++ for depthwise convolution: each plane is copied with its zero border, then computed in register tiles.

A tile is `rows` output rows by `vectors` vectors of columns; each loaded vector serves every output row that it
reaches. With a column stride the copy keeps the columns of each residue together, so that taps stay contiguous.
Not here: which graphs are depthwise convolutions (window.py).
"""

from __future__ import annotations

from kernelwright.experts.chain import Expression, Lines, Unsupported
from kernelwright.experts.kernel import candidate, indented, pointer, space, thread_counts, vector_lanes
from kernelwright.experts.pooling import Span
from kernelwright.types import Candidate, Failure, Point, Problem, Space, Target, TensorSpec, value

COPY_BYTES = 1 << 20
"""The most stack that a thread's copy may take."""


@value
class Depthwise:
    """One depthwise convolution and its tail."""

    core: str
    x: TensorSpec
    weight: TensorSpec
    bias: TensorSpec | None
    tail: Expression
    tensors: tuple[TensorSpec, ...]
    out: TensorSpec
    images: int
    channels: int
    """Output channels."""
    multiplier: int
    """Output channels for each input channel."""
    rows: Span
    columns: Span


def depthwise_space(work: Depthwise, target: Target) -> Space:
    """Returns the schedules: lanes, register tile, rows copied at once, threads."""
    lanes = vector_lanes(target)
    wide, narrow = (-(-work.columns.made // n) * n for n in lanes)
    made = work.rows.made
    heavy = work.rows.taps * work.columns.taps > 9
    # Few taps: no lane should be idle. Many: the wider vector wins although some are.
    if narrow < wide and not heavy:
        lanes = (lanes[1], lanes[0])
    tiles = tuple(r for r in ((8, 4, 2, 1) if heavy else (4, 8, 2, 1)) if r <= made)
    vectors = (4, 8, 1, 2) if made == 1 else (1, 2)
    bands = tuple(b for b in ((made, 32, 16) if heavy else (32, made, 16)) if b <= made)
    return space(lanes=lanes, rows=tiles, vectors=vectors, band=bands, threads=thread_counts(target))


def emit_depthwise(problem: Problem, work: Depthwise, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = dict(point)
    rows, vectors, lanes = int(choice["rows"]), int(choice["vectors"]), int(choice["lanes"])
    if vectors > 1 and vectors * lanes > work.columns.made:
        return Failure(stage="emit", kind="tile", message=f"{vectors} vectors of {lanes} are wider than a row")
    bands = -(-work.rows.made // int(choice["band"]))
    if rows * vectors > 24 or rows > work.rows.made // bands:
        return Failure(stage="emit", kind="tile", message=f"{rows} rows by {vectors} vectors do not fit")
    copied = _copy_rows(work, bands) * work.columns.stride * _length(work, vectors, lanes) * 4
    if copied > COPY_BYTES:
        return Failure(stage="emit", kind="memory", message=f"the copy of a band takes {copied} bytes of stack")
    try:
        body = _body(work, vectors, lanes, int(choice["threads"]))
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    named = (work.x, work.weight, work.bias, *work.tensors)
    tensors = tuple(dict.fromkeys(spec for spec in named if spec is not None))
    return candidate(
        problem,
        template="depthwise",
        point=point,
        tensors=(*tensors, work.out),
        helpers=_helpers(work, rows, vectors, lanes, bands),
        body=body,
    )


def _copy_rows(work: Depthwise, bands: int) -> int:
    """Returns the input rows that a band reads, its border included."""
    high = work.rows
    return (-(-high.made // bands) - 1) * high.stride + (high.taps - 1) * high.step + 1


def _length(work: Depthwise, vectors: int, lanes: int) -> int:
    """Returns the floats of one residue of one copied row, with room for what vectors touch beyond the ends."""
    wide = work.columns
    columns = max(wide.made, vectors * lanes)
    taps = (wide.taps - 1) * wide.step // wide.stride + 1
    copied = -(-(wide.pad + wide.size) // wide.stride) + 2 * lanes
    return -(-max(columns + taps, copied) // 16) * 16


def _helpers(work: Depthwise, rows: int, vectors: int, lanes: int, bands: int) -> str:
    """Returns types, sizes, the copy of one input row and the sums of a tile."""
    high, wide = work.rows, work.columns
    return f"""\
typedef kw::vec<float, {lanes}> V;
constexpr int LANES = {lanes}, ROWS = {rows}, VECTORS = {vectors}, TILE = VECTORS * LANES;
constexpr int64_t IMAGES = {work.images}, CHANNELS = {work.channels}, MULTIPLIER = {work.multiplier};
constexpr int H = {high.size}, OUT_H = {high.made}, TAPS_H = {high.taps}, STRIDE_H = {high.stride};
constexpr int PAD_H = {high.pad}, STEP_H = {high.step};
constexpr int W = {wide.size}, OUT_W = {wide.made}, TAPS_W = {wide.taps}, STRIDE_W = {wide.stride};
constexpr int PAD_W = {wide.pad}, STEP_W = {wide.step};
constexpr int BANDS = {bands};
constexpr int BAND_ROWS = {_copy_rows(work, bands)};  // input rows that a band reads, its border included
constexpr int LENGTH = {_length(work, vectors, lanes)};  // of one residue of columns of one copied row
{_COPY}"""


_COPY = """
// Copies one input row behind its left border, columns of each residue modulo the stride together.
static inline void copy_row(const float* from, float (*to)[LENGTH]) {
    if constexpr (STRIDE_W == 1) {
        __builtin_memcpy(to[0] + PAD_W, from, W * sizeof(float));
    } else if constexpr (STRIDE_W == 2) {
        const kw::vec<int32_t, LANES> even = kw::iota<kw::vec<int32_t, LANES>>() * 2;
        for (int w = 0; w < W; w += 2 * LANES) {
            const V v = kw::load_part<float, LANES>(from + w, W - w, 0.0f);
            const V u = w + LANES < W ? kw::load_part<float, LANES>(from + w + LANES, W - w - LANES, 0.0f) : V{};
            kw::store(to[PAD_W % 2] + (PAD_W + w) / 2, __builtin_shuffle(v, u, even));
            kw::store(to[(PAD_W + 1) % 2] + (PAD_W + 1 + w) / 2, __builtin_shuffle(v, u, even + 1));
        }
    } else {
        for (int w = 0; w < W; ++w) to[(PAD_W + w) % STRIDE_W][(PAD_W + w) / STRIDE_W] = from[w];
    }
}

// Adds all taps to a tile of sums; every loaded vector goes to each output row that it reaches.
static KW_INLINE void tile_sums(float (*from)[STRIDE_W][LENGTH], int ow, const float* taps, V (&sum)[ROWS][VECTORS]) {
    constexpr int REACH = (ROWS - 1) * STRIDE_H + (TAPS_H - 1) * STEP_H + 1;
#pragma GCC unroll 64
    for (int h = 0; h < REACH; ++h)
#pragma GCC unroll 32
        for (int t = 0; t < TAPS_W; ++t)
#pragma GCC unroll 8
            for (int k = 0; k < VECTORS; ++k) {
                const float* row = from[h][t * STEP_W % STRIDE_W] + ow + t * STEP_W / STRIDE_W;
                const V v = kw::load<float, LANES>(row + k * LANES);
#pragma GCC unroll 32
                for (int r = 0; r < ROWS; ++r) {
                    const int offset = h - r * STRIDE_H;
                    if (offset >= 0 && offset % STEP_H == 0 && offset / STEP_H < TAPS_H)
                        sum[r][k] += v * taps[offset / STEP_H * TAPS_W + t];
                }
            }
}
"""


def _body(work: Depthwise, vectors: int, lanes: int, threads: int) -> str:
    """Returns the kernel's statements: tasks over planes and bands; copy; tiles; tail."""
    narrow = work.columns.made < vectors * lanes
    count = "OUT_W" if narrow else ""
    writer = Lines(("p", "oh + r", "ow + k * LANES"), width=lanes, count=count, held={work.core: "v"})
    result = writer.write(work.tail)
    store = f"kw::store_part(row, {result}, OUT_W);" if narrow else f"kw::store(row + k * LANES, {result});"
    finish = indented(["const V v = sum[r][k];", *writer.lines, store], 7)
    bias = "0.0f" if work.bias is None else f"{pointer(work.bias.name)}[c]"
    column = "0" if narrow else "begin + TILE <= OUT_W ? begin : OUT_W - TILE"
    return f"""\
#pragma omp parallel num_threads({threads})
    {{
        alignas(64) float copy[BAND_ROWS][STRIDE_W][LENGTH];
        __builtin_memset(copy, 0, sizeof(copy));
#pragma omp for schedule(static)
        for (int64_t task = 0; task < IMAGES * CHANNELS * BANDS; ++task) {{
            const int64_t p = task / BANDS, c = p % CHANNELS;
            const int band = int(task % BANDS), first = band * OUT_H / BANDS, last = (band + 1) * OUT_H / BANDS;
            const int64_t from = p / CHANNELS * (CHANNELS / MULTIPLIER) + c / MULTIPLIER;  // input plane
            const float* plane = {pointer(work.x.name)} + from * H * W;
            const float* taps = {pointer(work.weight.name)} + c * TAPS_H * TAPS_W;
            for (int r = 0; r < BAND_ROWS; ++r) {{
                const int h = first * STRIDE_H - PAD_H + r;
                if (h >= 0 && h < H) copy_row(plane + h * W, copy[r]);
                else if (BANDS > 1) __builtin_memset(copy[r], 0, sizeof(copy[r]));
            }}
            for (int begin_row = first; begin_row < last; begin_row += ROWS) {{
                const int oh = begin_row + ROWS <= last ? begin_row : last - ROWS;  // the last tile overlaps
                for (int begin = 0; begin < OUT_W; begin += TILE) {{
                    const int ow = {column};
                    V sum[ROWS][VECTORS];
                    for (int r = 0; r < ROWS; ++r)
                        for (int k = 0; k < VECTORS; ++k) sum[r][k] = kw::broadcast<V>({bias});
                    tile_sums(copy + (oh - first) * STRIDE_H, ow, taps, sum);
#pragma GCC unroll 32
                    for (int r = 0; r < ROWS; ++r) {{
                        float* row = {pointer(work.out.name)} + (p * OUT_H + oh + r) * OUT_W + ow;
#pragma GCC unroll 8
                        for (int k = 0; k < VECTORS; ++k) {{
{finish}
                        }}
                    }}
                }}
            }}
        }}
    }}"""
