"""C++ for pooling: rows of a window are combined first, then columns, both on whole vectors.

The combined row lies in a buffer whose borders hold the neutral value (0 or -inf), so that the column pass has
no edges; with a column stride of 2 the buffer is kept as even and odd columns. Only windows at the top and
bottom take fewer rows. Not here: which graphs are pooling (window.py).
"""

from __future__ import annotations

from kernelwright.experts.chain import Expression, Lines, Unsupported
from kernelwright.experts.kernel import candidate, indented, pointer, space, thread_counts, vector_lanes
from kernelwright.types import Candidate, Failure, Point, Problem, Space, Target, TensorSpec, value


@value
class Span:
    """The windows along one axis."""

    size: int
    """Elements of the input."""
    made: int
    """Windows, that is elements of the output."""
    taps: int
    """Elements of a window; adaptive: the most that any window has."""
    stride: int
    """Distance of neighbouring windows; 0 for adaptive ones, which begin at floor(i * size / made)."""
    pad: int
    """Neutral elements before the first."""
    step: int
    """Distance of neighbouring taps."""

    @classmethod
    def single(cls) -> Span:
        """Returns an axis of one element."""
        return cls(size=1, made=1, taps=1, stride=1, pad=0, step=1)

    def range(self, index: int) -> tuple[int, int]:
        """Returns the first input element of a window, without padding, and one past its last."""
        if not self.stride:
            return index * self.size // self.made, -(-(index + 1) * self.size // self.made)
        begin = index * self.stride - self.pad
        return max(begin, 0), min(begin + self.taps, self.size)

    def counts(self, *, padding: bool) -> tuple[int, ...]:
        """Returns how many elements each window's average is over."""
        result = []
        for index in range(self.made):
            low, high = self.range(index)
            if padding and self.stride:
                low = index * self.stride - self.pad
                high = min(low + self.taps, self.size + self.pad)
            result.append(high - low)
        return tuple(result)


@value
class Pooling:
    """One pooling operation and its tail."""

    name: str
    """avg_pool or max_pool."""
    core: str
    """The node's name, which is the core's leaf in the tail."""
    x: TensorSpec
    tail: Expression
    tensors: tuple[TensorSpec, ...]
    out: TensorSpec
    planes: int
    spans: tuple[Span, Span, Span]
    """Depth, rows and columns."""
    divisor: int | None
    counts_padding: bool


def pooling_space(pooling: Pooling, target: Target) -> Space:
    """Returns the schedules: lanes, threads, rows in one task, kind of store."""
    columns, rows = pooling.spans[2].made, pooling.spans[1].made
    lanes = vector_lanes(target)
    if columns <= lanes[1]:
        lanes = (*lanes[1:], lanes[0])
    plain = columns * 4 % 64 != 0
    large = 4 * pooling.planes * pooling.spans[0].made * rows * columns > max(target.cache_bytes, 1 << 24)
    stores: tuple[str, ...] = ("plain",) if plain else ("stream", "plain") if large else ("plain", "stream")
    bands = tuple(b for b in (rows, 16, 4) if b <= rows)
    return space(lanes=lanes, threads=thread_counts(target), band=bands, store=stores)


def emit_pooling(problem: Problem, pooling: Pooling, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    try:
        body = _body(pooling, dict(point))
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    choices = dict(point)
    return candidate(
        problem,
        template=pooling.name,
        point=point,
        tensors=(pooling.x, *(t for t in pooling.tensors if t.name != pooling.x.name), pooling.out),
        helpers=_helpers(pooling, int(choices["lanes"])),
        body=body,
    )


def _table(ctype: str, name: str, values: tuple[int, ...]) -> str:
    return f"static const {ctype} {name}[] = {{{', '.join(map(str, values))}}};"


def _helpers(pooling: Pooling, lanes: int) -> str:
    """Returns types, sizes, tables and the row pass."""
    columns = pooling.spans[2]
    maximum = pooling.name == "max_pool"
    lines = [
        f"typedef kw::vec<float, {lanes}> V;",
        f"constexpr int LANES = {lanes};",
        f"constexpr int64_t PLANES = {pooling.planes};",
    ]
    for letter, span in zip("DHW", pooling.spans, strict=True):
        lines.append(
            f"constexpr int {letter} = {span.size}, OUT_{letter} = {span.made}, TAPS_{letter} = {span.taps}, "
            f"STRIDE_{letter} = {span.stride}, PAD_{letter} = {span.pad}, STEP_{letter} = {span.step};"
        )
    phases = 2 if columns.stride == 2 else 1
    reach = max((columns.made - 1) * columns.stride + (columns.taps - 1) * columns.step + 1, columns.pad + columns.size)
    length = -(-reach // phases) + 3 * lanes
    lines += [
        f"constexpr int PHASES = {phases}, LENGTH = {-(-length // 16) * 16};  // of the row buffer",
        f"constexpr float NEUTRAL = {'-__builtin_inff()' if maximum else '0.0f'};",
    ]
    for letter, span in zip("DHW", pooling.spans, strict=True):
        if not span.stride:
            lines.append(_table("int", f"BEGIN_{letter}", tuple(span.range(i)[0] for i in range(span.made))))
            lines.append(_table("int", f"END_{letter}", tuple(span.range(i)[1] for i in range(span.made))))
        if not maximum and _uneven(pooling):
            counts = span.counts(padding=pooling.counts_padding)
            lines.append(_table("float", f"COUNT_{letter}", counts))
    join = "kw::maximum(v, x)" if maximum else "v + x"
    return "\n".join(lines) + _ROW_PASS.replace("JOIN", join)


def _uneven(pooling: Pooling) -> bool:
    """Says whether averages are over different counts."""
    if pooling.divisor is not None or pooling.name == "max_pool":
        return False
    return any(len(set(span.counts(padding=pooling.counts_padding))) > 1 for span in pooling.spans)


_ROW_PASS = """

// Elements w ... of `count` input rows, combined; FULL is their number where it is the usual one, else 0.
template <int FULL> static inline V combined(const float* const* rows, int count, int w) {
    const int n = FULL ? FULL : count, left = W - w;
    V v = FULL ? kw::load_part<float, LANES>(rows[0] + w, left, NEUTRAL) : kw::broadcast<V>(NEUTRAL);
#pragma GCC unroll 8
    for (int r = FULL ? 1 : 0; r < n; ++r) {
        const V x = kw::load_part<float, LANES>(rows[r] + w, left, NEUTRAL);
        v = JOIN;
    }
    return v;
}

template <int FULL> static inline void combine_rows(const float* const* rows, int count, float (*line)[LENGTH]) {
    for (int w = 0; w < W; w += LANES * PHASES) {
        const V v = combined<FULL>(rows, count, w);
        if constexpr (PHASES == 1) {
            kw::store(line[0] + PAD_W + w, v);
        } else {
            const V u = w + LANES < W ? combined<FULL>(rows, count, w + LANES) : kw::broadcast<V>(NEUTRAL);
            const kw::vec<int32_t, LANES> even = kw::iota<kw::vec<int32_t, LANES>>() * 2;
            kw::store(line[PAD_W % 2] + (PAD_W + w) / 2, __builtin_shuffle(v, u, even));
            kw::store(line[(PAD_W + 1) % 2] + (PAD_W + 1 + w) / 2, __builtin_shuffle(v, u, even + 1));
        }
    }
}
"""


def _body(pooling: Pooling, point: dict[str, object]) -> str:
    """Returns the kernel's statements: tasks over planes and bands of rows."""
    band, threads = point["band"], point["threads"]
    head = f"""\
#pragma omp parallel num_threads({threads})
    {{
        alignas(64) float line[PHASES][LENGTH];
        for (int phase = 0; phase < PHASES; ++phase)
            for (int i = 0; i < LENGTH; ++i) line[phase][i] = NEUTRAL;
        constexpr int BAND = {band}, BANDS = (OUT_H + BAND - 1) / BAND;
#pragma omp for schedule(static)
        for (int64_t task = 0; task < PLANES * OUT_D * BANDS; ++task) {{
            const int64_t p = task / (OUT_D * BANDS);
            const int od = int(task / BANDS % OUT_D), first = int(task % BANDS) * BAND;
            const int last = first + BAND < OUT_H ? first + BAND : OUT_H;
            for (int oh = first; oh < last; ++oh) {{
                const float* rows[TAPS_D * TAPS_H];
                int count = 0;
"""
    depth, rows, _ = pooling.spans
    lines = [_range("d", "od", depth), _range("h", "oh", rows)]
    lines += [
        "for (int d = begin_d; d < end_d; d += STEP_D)",
        "    for (int h = begin_h; h < end_h; h += STEP_H)",
        f"        rows[count++] = {pointer(pooling.x.name)} + ((p * D + d) * H + h) * W;",
        "if (count == TAPS_D * TAPS_H) combine_rows<TAPS_D * TAPS_H>(rows, count, line);",
        "else combine_rows<0>(rows, count, line);",
    ]
    lines += _columns(pooling, str(point["store"]), int(str(point["lanes"])))
    close = "            }\n        }\n"
    fence = "        kw::stream_fence();\n" if point["store"] == "stream" else ""
    return head + indented(lines, 4) + "\n" + close + fence + "    }"


def _range(letter: str, index: str, span: Span) -> str:
    """Returns the statement that finds the input rows of a window."""
    up = letter.upper()
    if not span.stride:
        return f"const int begin_{letter} = BEGIN_{up}[{index}], end_{letter} = END_{up}[{index}];"
    if not span.pad and (span.made - 1) * span.stride + (span.taps - 1) * span.step < span.size:
        return (
            f"const int begin_{letter} = {index} * STRIDE_{up}, "
            f"end_{letter} = begin_{letter} + (TAPS_{up} - 1) * STEP_{up} + 1;"
        )
    # Rows above the image are skipped in whole steps, so that the first one inside is a tap.
    return (
        f"const int edge_{letter} = {index} * STRIDE_{up} - PAD_{up};\n"
        f"                const int begin_{letter} = edge_{letter} < 0 "
        f"? edge_{letter} + (-edge_{letter} + STEP_{up} - 1) / STEP_{up} * STEP_{up} : edge_{letter};\n"
        f"                const int stop_{letter} = edge_{letter} + (TAPS_{up} - 1) * STEP_{up} + 1, "
        f"end_{letter} = stop_{letter} < {up} ? stop_{letter} : {up};"
    )


def _columns(pooling: Pooling, store: str, lanes: int) -> list[str]:
    """Returns the column pass of one output row, the tail and the store."""
    columns = pooling.spans[2]
    lines: list[str] = []
    if not columns.stride:
        lines += [
            "alignas(64) float sums[(OUT_W + LANES - 1) / LANES * LANES];",
            "for (int ow = 0; ow < OUT_W; ++ow) {",
            "    float sum = 0.0f;",
            "    for (int w = BEGIN_W[ow]; w < END_W[ow]; ++w) sum += line[0][w];",
            "    sums[ow] = sum;",
            "}",
        ]
    lines += [
        f"float* row = {pointer(pooling.out.name)} + ((p * OUT_D + od) * OUT_H + oh) * OUT_W;",
        "for (int ow = 0; ow < OUT_W; ow += LANES) {",
        "    const int left = OUT_W - ow;",
    ]
    inner = ["V v;"] if columns.stride else ["V v = kw::load<float, LANES>(sums + ow);"]
    if columns.stride:
        if columns.stride <= 2:
            tap = "kw::load<float, LANES>(line[tap * STEP_W % PHASES] + ow * STRIDE_W / PHASES + tap * STEP_W / PHASES)"
        else:
            tap = "kw::load_strided<float, LANES>(line[0] + ow * STRIDE_W + tap * STEP_W, STRIDE_W, left, NEUTRAL)"
        inner = [
            f"V v = {tap.replace('tap', '0')};",
            "#pragma GCC unroll 16",
            "for (int tap = 1; tap < TAPS_W; ++tap) {",
            f"    const V x = {tap};",
            f"    v = {'kw::maximum(v, x)' if pooling.name == 'max_pool' else 'v + x'};",
            "}",
        ]
    inner += _average(pooling)
    writer = Lines(("p", "od", "oh", "ow"), width=lanes, count="left", held={pooling.core: "v"})
    result = writer.write(pooling.tail)
    inner += writer.lines
    if store == "stream":
        inner.append(f"kw::stream(row + ow, {result});" if columns.made % lanes == 0 else _mixed(result))
    else:
        inner.append(f"kw::store_part(row + ow, {result}, left);")
    return lines + ["    " + line if not line.startswith("#") else line for line in inner] + ["}"]


def _mixed(result: str) -> str:
    return f"if (left >= LANES) kw::stream(row + ow, {result}); else kw::store_part(row + ow, {result}, left);"


def _average(pooling: Pooling) -> list[str]:
    """Returns the statements that make an average of a sum."""
    if pooling.name == "max_pool":
        return []
    if _uneven(pooling):
        return [
            "const V columns = kw::load_part<float, LANES>(COUNT_W + ow, left, 1.0f);",
            "v = v / (columns * (COUNT_D[od] * COUNT_H[oh]));",
        ]
    count = pooling.divisor
    if count is None:
        count = 1
        for span in pooling.spans:
            count *= span.counts(padding=pooling.counts_padding)[0]
    return [f"v = v * (1.0f / {float(count)!r}f);"]
