"""Products as steps of a program: matrices read where they lie, and what follows them done on registers.

A product takes strided operands (transposed and batched ones as they are), sums by the scheme of gemm.hpp, and ends
with a chain of element-by-element operators whose result it stores. A convolution is the product of its weights with
the windows of its input, which are copied panel by panel and never lie in memory as a whole.
Not here: which nodes of a graph become one product (partition.py), other steps (loops.py).
"""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path

from kernelwright.experts.chain import Expression, Leaf, Lines, leaves
from kernelwright.experts.kernel import pointer
from kernelwright.experts.views import View
from kernelwright.types import OptionValue, Parameter, SourceFile, Target, value

TILES = {16: ("14x2", "8x3", "28x1", "6x4"), 8: ("6x2", "4x3", "12x1")}
"""Rows and vectors of a register tile, by lanes: as many sums as registers hold beside the operands."""
FEW_PRODUCTS = 2
"""From this many products for each thread on, each thread takes whole ones."""


@value
class Matrix:
    """A strided operand: `base[start + batch + i * rows + k * columns]`."""

    base: str
    start: int
    batch: tuple[tuple[int, int], ...]
    """(extent, stride) of each batch dimension, outermost first."""
    row: int
    column: int
    inner: int = 0
    """Not 0: column k lies at `k / inner * outer + k % inner * column`, as transposed convolutions have it."""
    outer: int = 0


@value
class Windows:
    """The second operand of a convolution: input windows, one row for each weight, one column for each output place."""

    base: str
    channels: int
    """Of one group."""
    size: tuple[int, ...]
    """Of the input, without images and channels."""
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool = False

    @property
    def spreads(self) -> bool:
        """True where windows reach beyond the input, or between its elements."""
        return self.transposed or any(self.padding)

    @property
    def extents(self) -> tuple[int, ...]:
        """Sizes of the field that windows move over: of the input itself, or of what it is spread out to."""
        if not self.spreads:
            return self.size
        reach = [step * (taps - 1) for step, taps in zip(self.dilation, self.kernel, strict=True)]
        moves = [1] * len(self.out) if self.transposed else self.stride
        return tuple((n - 1) * move + more + 1 for n, move, more in zip(self.out, moves, reach, strict=True))

    def scale(self, axis: int) -> int:
        """Returns how far apart neighbours of the input lie in the field."""
        return self.stride[axis] if self.transposed else 1

    def lead(self, axis: int) -> int:
        """Returns where the input's first element lies in the field; negative where it is cut off."""
        if self.transposed:
            return self.dilation[axis] * (self.kernel[axis] - 1) - self.padding[axis]
        return self.padding[axis]


@value
class Product:
    """One product and what follows it."""

    core: str
    """The node whose result the tail reads as a leaf."""
    batches: int
    m: int
    n: int
    k: int
    left: Matrix
    right: Matrix | Windows
    tail: Expression
    """Over (batches, m, n)."""
    out: str
    """The buffer that is written, in row-major order of (batches, m, n)."""

    def reads(self) -> tuple[str, ...]:
        """Returns the buffers that are read."""
        tail = (leaf.view.base for leaf in leaves(self.tail) if leaf.view.base not in (self.core, "@iota"))
        return tuple(dict.fromkeys((self.left.base, self.right.base, *tail)))

    @property
    def flops(self) -> int:
        """Operations of the product alone."""
        return 2 * self.batches * self.m * self.n * self.k


@cache
def gemm_header() -> SourceFile:
    """Returns `gemm.hpp`."""
    return SourceFile(path="gemm.hpp", text=Path(__file__).with_name("gemm.hpp").read_text())


def parameters(target: Target) -> tuple[Parameter, ...]:
    """Returns the choices that all products of a program share."""
    lanes = 16 if "avx512f" in target.features else 8
    return (
        Parameter(name="tile", values=TILES[lanes]),
        Parameter(name="block_k", values=(256, 384, 192, 512)),
        Parameter(name="block_m", values=(8, 4, 16)),
        Parameter(name="block_n", values=(1024, 512, 2048, 4096)),
    )


@value
class Blocks:
    """One point of those choices."""

    lanes: int
    mr: int
    nv: int
    kc: int
    mc: int
    nc: int
    threads: int

    @property
    def panel_floats(self) -> int:
        """Floats of one thread's panels of the second operand, rounded up."""
        width = self.lanes * self.nv
        return self.kc * (-(-self.nc // width)) * width

    @property
    def row_floats(self) -> int:
        """Floats of one thread's panels of the first operand."""
        return self.kc * self.mc


def blocks_of(point: dict[str, OptionValue], target: Target) -> Blocks:
    """Returns a point as blocks."""
    rows, vectors = (int(part) for part in str(point["tile"]).split("x"))
    return Blocks(
        lanes=16 if "avx512f" in target.features else 8,
        mr=rows,
        nv=vectors,
        kc=int(point["block_k"]),
        mc=int(point["block_m"]) * rows,
        nc=int(point["block_n"]),
        threads=int(point["threads"]),
    )


def whole_each(product: Product, blocks: Blocks) -> bool:
    """Returns whether each thread takes products of its own."""
    return product.batches >= FEW_PRODUCTS * blocks.threads


def scratch_floats(product: Product, blocks: Blocks) -> tuple[int, int, int, int]:
    """Returns a product's floats of scratch memory: column panels, row panels, sums between blocks, spread images."""
    each = blocks.threads if whole_each(product, blocks) else 1
    sums = each * product.m * product.n if product.k > blocks.kc else 0
    w = product.right
    field = w.channels * prod(w.extents) if isinstance(w, Windows) and w.spreads else 0
    return blocks.threads * blocks.panel_floats, blocks.threads * blocks.row_floats, sums, blocks.threads * field


def grid(product: Product, blocks: Blocks) -> tuple[int, int]:
    """Returns into how many bands of rows and of columns threads cut one product: what copies least."""
    pairs = [(t, blocks.threads // t) for t in range(1, blocks.threads + 1) if blocks.threads % t == 0]
    return min(pairs, key=lambda pair: -(-product.m // pair[0]) + -(-product.n // pair[1]))


def band(extent: int, count: int, step: int, place: str) -> tuple[str, str]:
    """Returns the C++ of where a band begins and ends: whole steps, the last one takes the rest."""
    steps = -(-extent // step)
    low, high = (f"{steps} * ({place}{more}) / {count} * {step}" for more in ("", " + 1"))
    return ("0", str(extent)) if count == 1 else (low, f"({high} < {extent} ? {high} : {extent})")


def function(symbol: str, product: Product, blocks: Blocks, ctypes: dict[str, str]) -> str:
    """Returns the C++ of one product.

    Args:
        symbol: the function's name; it takes the buffers of `reads`, then the output and the scratch memory.
        product: what is computed.
        blocks: how.
        ctypes: the element's C type of each buffer that is read.
    """
    parameters = [f"const {ctypes[name]}* __restrict__ {pointer(name)}" for name in product.reads()]
    parameters += [
        f"float* __restrict__ {pointer(product.out)}",
        "float* panels",
        "float* rows_",
        "float* sums",
        "float* spread",
    ]
    b, p = blocks, product
    each = whole_each(p, b)
    tall, wide = (1, 1) if each else grid(p, b)
    m0, m1 = band(p.m, tall, b.mr, f"rank / {wide}")
    n0, n1 = band(p.n, wide, b.lanes * b.nv, f"rank % {wide}")
    first, last = (
        (f"{p.batches} * rank / {b.threads}", f"{p.batches} * (rank + 1) / {b.threads}") if each else ("0", p.batches)
    )
    team = "rank" if each else "0"
    shape = f"{b.lanes}, {b.mr}, {b.nv}, {b.kc}, {b.mc}, {b.nc}"
    lines = [
        f'extern "C" void {symbol}({", ".join(parameters)}) {{',
        f"    constexpr int L = {b.lanes};",
        "    typedef kw::vec<float, L> V;",
        f"    #pragma omp parallel num_threads({b.threads})",
        "    {",
        "    const int64_t rank = omp_get_thread_num();",
        f"    for (int64_t b = {first}; b < {last}; ++b) {{",
        f"        const float* left = {pointer(p.left.base)} + {offset(p.left)};",
        *(right_lines(p, b)),
        f"        kw::product<{shape}>(",
        f"            {m0}, {m1}, {n0}, {n1}, {p.k}, {p.n},",
        f"            panels + rank * {b.panel_floats}, rows_ + rank * {b.row_floats},",
        f"            sums + {team} * {p.m * p.n},",
        "            [&](int64_t i, int64_t n, int64_t k0, int64_t kn, float* out) __attribute__((always_inline)) {",
        *left_lines(p.left, b.mr),
        "            columns,",
        "            [&](int64_t i, int64_t j, int n, V sum) __attribute__((always_inline)) {",
        *done_lines(p, b.lanes),
        "            });",
        "    }",
        "    }",
        "}",
        "",
    ]
    return "\n".join(lines)


def left_lines(m: Matrix, mr: int) -> list[str]:
    """Returns the lines that copy a panel of the first operand."""
    if not m.inner:
        return [f"                kw::pack<L, {mr}, {m.row}, {m.column}>(left + i * {m.row}, n, k0, kn, out); }},"]
    place = f"(k0 + k) / {m.inner} * {m.outer} + (k0 + k) % {m.inner} * {m.column}"
    return [
        f"                for (int64_t k = 0; k < kn; ++k) for (int64_t r = 0; r < {mr}; ++r)",
        f"                    out[k * {mr} + r] = r < n ? left[(i + r) * {m.row} + {place}] : 0.0f; }},",
    ]


def offset(matrix: Matrix) -> str:
    """Returns the C++ of where a matrix of the batch begins."""
    terms, inner = [str(matrix.start)], 1
    for extent, stride in reversed(matrix.batch):
        if stride:
            terms.append(f"b / {inner} % {extent} * {stride}")
        inner *= extent
    return " + ".join(terms)


def right_lines(p: Product, b: Blocks) -> list[str]:
    """Returns the lines that define how panels of the second operand are copied."""
    arguments = "int64_t j, int64_t n, int64_t k0, int64_t kn, float* out"
    head = f"        auto columns = [&]({arguments}) __attribute__((always_inline)) {{"
    width = b.lanes * b.nv
    if isinstance(p.right, Matrix):
        m = p.right
        return [
            f"        const float* right = {pointer(m.base)} + {offset(m)};",
            f"{head}",
            f"            kw::pack<L, {width}, {m.column}, {m.row}>(right + j * {m.column}, n, k0, kn, out); }};",
        ]
    return window_lines(p, p.right, head, width)


def window_lines(p: Product, w: Windows, head: str, width: int) -> list[str]:
    """Returns the lines that copy a panel of windows: for each weight's place, the inputs that it meets.

    An input with a border, or with zeros between its elements as transposed convolutions have them, is spread out once
    for each image, so that no window has to look where it ends.
    """
    rank, extents = len(w.out), w.extents
    lines = [f"        const float* image = {pointer(w.base)} + b * {w.channels * prod(w.size)};"]
    lines += spread_lines(w) if w.spreads else []
    lines += [
        head,
        f"            int32_t at[{width}];  // where each column's window begins",
        "            bool run = true;",
        f"            for (int64_t c = 0; c < {width}; ++c) {{",
        "                int64_t o = j + (c < n ? c : n - 1), place = 0;",
    ]
    step = 1
    for d in reversed(range(rank)):
        stride = 1 if w.transposed else w.stride[d]
        lines.append(f"                place += o % {w.out[d]} * {stride * step}; o /= {w.out[d]};")
        step *= extents[d]
    lines += [
        "                at[c] = int32_t(place); run = run && at[c] == at[0] + c;",
        "            }",
        "            for (int64_t k = 0; k < kn; ++k) {",
        "                int64_t q = k0 + k, tap = 0;",
    ]
    step = 1
    for d in reversed(range(rank)):
        place = f"{w.kernel[d] - 1} - q % {w.kernel[d]}" if w.transposed else f"q % {w.kernel[d]}"
        lines.append(f"                tap += ({place}) * {w.dilation[d] * step}; q /= {w.kernel[d]};")
        step *= extents[d]
    lines += [
        f"                const float* from = image + q * {prod(extents)} + tap;",
        f"                if (run) for (int v = 0; v < {width}; v += L)",
        f"                    kw::store(out + k * {width} + v, kw::load<float, L>(from + at[0] + v));",
        f"                else for (int c = 0; c < {width}; ++c) out[k * {width} + c] = from[at[c]];",
        "            } };",
    ]
    return lines


def spread_lines(w: Windows) -> list[str]:
    """Returns the lines that spread one image out over a field of zeros; `image` is that field afterwards."""
    rank, extents = len(w.out), w.extents
    field = w.channels * prod(extents)
    lines = [
        f"        float* field = spread + rank * {field};",
        f"        __builtin_memset(field, 0, {4 * field});",
        f"        for (int64_t r = 0; r < {w.channels * prod(w.size[:-1])}; ++r) {{",
        "            int64_t q = r, row = 0; bool in = true;",
    ]
    step = extents[-1]
    for d in reversed(range(rank - 1)):
        lines.append(
            f"            {{ const int64_t u = q % {w.size[d]} * {w.scale(d)} + {w.lead(d)}; q /= {w.size[d]};"
        )
        lines.append(f"              in = in && uint64_t(u) < {extents[d]}; row += u * {step}; }}")
        step *= extents[d]
    last = rank - 1
    low = max(0, -(w.lead(last) // w.scale(last)))
    high = min(w.size[last], -(-(extents[last] - w.lead(last)) // w.scale(last)))
    lines += [
        f"            float* to = field + q * {prod(extents)} + row + {w.lead(last)};",
        f"            if (in) for (int64_t i = {low}; i < {high}; ++i)",
        f"                to[i * {w.scale(last)}] = image[r * {w.size[last]} + i];",
        "        }",
        "        image = field;",
    ]
    return lines


def done_lines(p: Product, lanes: int) -> list[str]:
    """Returns the lines that finish one vector of the result and store it."""
    writer = Lines(("b", "i", "j"), width=lanes, count="n", held={p.core: "sum"})
    result = writer.write(p.tail)
    where = f"{pointer(p.out)} + (b * {p.m} + i) * {p.n} + j"
    return [f"                {line}" for line in (*writer.lines, f"kw::store_part({where}, {result}, n);")]


def core_leaf(product_shape: tuple[int, int, int], core: str) -> Leaf:
    """Returns a product's own result as a leaf over (batches, m, n)."""
    batches, m, n = product_shape
    dims = tuple(((size, stride),) if size != 1 else () for size, stride in ((batches, m * n), (m, n), (n, 1)))
    return Leaf(view=View(base=core, dims=dims), dtype="float32")
