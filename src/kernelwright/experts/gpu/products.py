"""Products as steps of a program on a GPU: the structs and kernels that product.cuh is instantiated with.

One product becomes one kernel, or two where its sums are shared between grids: the second one adds the shares up. What
follows the product is done on the finished sum, by the same chain as on the CPU (experts/chain.py), on numbers
instead of vectors. The images of a convolution lie side by side as columns, so that small ones fill tiles as well.
Not here: operands (operands.py), which nodes become one product (experts/partition.py), other steps (program.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelwright.experts.chain import Expression, Leaf, Literal
from kernelwright.experts.gpu.chain_printer import ScalarLines
from kernelwright.experts.gpu.operands import HALVES, Operands
from kernelwright.experts.gpu.printer import BINDINGS, BUFFERS, buffer_name
from kernelwright.experts.kernel import pointer
from kernelwright.experts.products import Product
from kernelwright.types import Binding, Launch, OptionValue, Parameter, Step, value

MULTIPROCESSORS = 132
"""Of an H100 or H200: how many tiles it takes to fill a device, where sums are shared to do so."""
SHORT = 16
"""Sums of fewer products are made by one thread each: a tile would be mostly empty."""
THREADS = 256
MOST_SHARES = 32
SHARED_LIMIT = 160 << 10
SUMS_BUFFER = "kw_sums"
TILES = ("128x128", "128x64", "64x128", "64x64", "32x64")
"""Rows and columns of a block's tile, the largest first."""
WARPS = {"128x128": (2, 4), "64x64": (2, 2), "128x64": (4, 2), "64x128": (2, 4), "32x64": (2, 2)}
SUMS = {"128x128": (8, 8), "64x64": (4, 8), "128x64": (8, 4), "64x128": (4, 8), "32x64": (4, 4)}
"""Of one thread, by multiply-adds."""


@value
class Method:
    """One point of the choices that all products of a program share."""

    tile: str = "128x128"
    depth: int = 32
    multiply: str = "six"
    """Of float32: six products of parts, three of them (less exact), or fused multiply-adds."""
    share: bool = True
    """Whether grids share long sums where there are few tiles."""


def parameters(products: list[Product], dtypes: set[str]) -> tuple[Parameter, ...]:
    """Returns those choices, best guess first, for products of some dtypes.

    The first tile is the largest with which the largest product fills the device, and the smallest where none does.
    """
    single = (Parameter(name="multiply", values=("six", "fma", "three")),) if "float32" in dtypes else ()
    most = max(products, key=lambda p: p.flops)

    def blocks(tile: str) -> int:
        down, across = (int(side) for side in tile.split("x"))
        # Images of a convolution are among the batches here, and one image's columns seldom end with a tile.
        return -(-most.m // down) * -(-(most.batches * most.n) // across)

    first = next((tile for tile in TILES if blocks(tile) >= MULTIPROCESSORS), TILES[-1])
    return (
        Parameter(name="tile", values=tuple(dict.fromkeys((first, *TILES)))),
        Parameter(name="depth", values=(32, 16)),
        *single,
        Parameter(name="share", values=(True, False)),
    )


def method_of(point: Mapping[str, OptionValue]) -> Method:
    """Returns a point as a method."""
    return Method(
        tile=str(point["tile"]),
        depth=int(point["depth"]),
        multiply=str(point.get("multiply", "six")),
        share=bool(point["share"]),
    )


class BufferLines(ScalarLines):
    """Chains as statements of one thread, whose buffers are called as loop nests call them."""

    def leaf(self, item: Leaf) -> str:
        """Returns one element."""
        base = item.view.base
        return super().leaf(item).replace(f"{pointer(base)}[", f"{buffer_name(base)}[", 1)


@dataclass
class Made:
    """What one product adds to a candidate."""

    functions: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    sums_bytes: int = 0
    """Of the workspace of unfinished sums."""
    work_bytes: int = 0
    """Of the workspace of a library's call."""


@dataclass
class Printer:
    """Prints one product.

    Args:
        product: what is computed.
        method: how.
        dtypes: of every buffer by name.
        symbol: what names of the product's kernels and structs begin with.
        tensors: names of the problem's own tensors; all other buffers are workspaces.
        flag: a buffer that says whether to run at all, empty where there is none.
    """

    product: Product
    method: Method
    dtypes: Mapping[str, str]
    symbol: str
    tensors: frozenset[str] = frozenset()
    flag: str = ""

    def __post_init__(self) -> None:
        p = self.product
        self.operands = Operands(p, self.dtypes, self.symbol)
        self.groups, self.images, self.columns = self.operands.groups, self.operands.images, self.operands.columns
        self.dtype = self.dtypes[p.left.base]
        self.direct = p.m == 1 or p.k <= SHORT or (p.m < SHORT and p.k < 4 * SHORT)
        self.tensor = self.dtype in HALVES or (self.dtype == "float32" and self.method.multiply != "fma")
        self.bm, self.bn = (int(side) for side in self.method.tile.split("x"))
        if self.direct:
            self.bm, self.bn = 1, THREADS

    def made(self) -> Made:
        """Returns the product's kernels and steps."""
        shares = self.shares()
        made = Made()
        text = [self.operands.operand("Left"), self.operands.operand("Right"), self.end("Done")]
        if shares > 1:
            text.append(self.raw_end())
            made.sums_bytes = 4 * shares * self.groups * self.product.m * self.columns
        text.append(self.main(shares))
        launch = self.launch(shares)
        names = self.names(sums=shares > 1, end=shares == 1)
        made.steps.append(Step(symbol=self.symbol, arguments=self.bindings(names), launch=launch))
        if shares > 1:
            text.append(self.adding(shares))
            names = self.names(sums=True, end=True)
            made.steps.append(
                Step(symbol=f"{self.symbol}_add", arguments=self.bindings(names), launch=self.one_each_launch())
            )
        made.functions.append("\n".join(text))
        return made

    # ------------------------------------------------------------------------- geometry

    def tiles(self) -> tuple[int, int]:
        """Returns how many tiles there are down and across."""
        return -(-self.product.m // self.bm), -(-self.columns // self.bn)

    def shares(self) -> int:
        """Returns how many grids share each sum."""
        down, across = self.tiles()
        blocks = self.groups * down * across
        if self.direct or not self.method.share or blocks * 2 > MULTIPROCESSORS:
            return 1
        steps = -(-self.product.k // self.method.depth)
        return max(1, min(MOST_SHARES, steps // 8, 2 * MULTIPROCESSORS // blocks))

    def threads(self) -> int:
        """Returns the threads of a block."""
        if self.direct:
            return THREADS
        down, across = WARPS[self.method.tile] if self.tensor else SUMS[self.method.tile]
        return 32 * down * across if self.tensor else self.bm // down * (self.bn // across)

    def element_parts(self) -> int:
        """Returns into how many half-precision parts an element is taken apart."""
        return 1 if self.dtype in HALVES else {"six": 3, "three": 2}[self.method.multiply]

    def shared_bytes(self) -> int:
        """Returns the dynamic shared memory of a block: two buffers."""
        if self.direct:
            return 0
        if self.tensor:
            return 2 * self.element_parts() * 2 * (self.bm + self.bn) * self.method.depth
        return 2 * 4 * self.method.depth * (self.bm + self.bn + 8)

    def launch(self, shares: int) -> Launch:
        """Returns how the main kernel is started."""
        if self.direct:
            return self.one_each_launch()
        down, across = self.tiles()
        blocks = shares * self.groups * down * across
        return Launch(grid=(blocks, 1, 1), block=(self.threads(), 1, 1), shared_bytes=self.shared_bytes())

    def one_each_launch(self) -> Launch:
        """Returns how a kernel with one thread for each element is started."""
        total = self.groups * self.product.m * self.columns
        return Launch(grid=(-(-total // THREADS), 1, 1), block=(THREADS, 1, 1))

    # ------------------------------------------------------------------------- ends

    def end(self, name: str) -> str:
        """Returns the struct that finishes a sum and stores it."""
        p = self.product
        writer = BufferLines(("b", "i", "j"), held={p.core: "sum"})
        result = writer.write(p.tail)
        reads = self.tail_reads()
        out, dtype = buffer_name(p.out), self.dtypes[p.out]
        fields = [f"    const {BUFFERS[self.dtypes[n]]}* __restrict__ {buffer_name(n)};" for n in reads]
        image = f"column / {p.n}" if self.images > 1 else "0"
        batch = f"image * {self.groups} + batch" if self.images > 1 else "batch"
        stored = f"kw::to<{BUFFERS[dtype]}>({result})"
        return "\n".join(
            [
                f"struct {self.symbol}_{name} {{",
                "    static constexpr bool WHOLE = true;",
                f"    static constexpr int K = {p.k};",
                *fields,
                f"    {BUFFERS[dtype]}* __restrict__ {out};",
                "    int batch;",
                "    __device__ __forceinline__ void operator()(int i, int column, float sum) const {",
                f"        if (i >= {p.m} || column >= {self.columns}) return;",
                f"        const kw::i64 image = {image}, b = {batch}, j = column - image * {p.n};",
                *(f"        {line}" for line in writer.lines),
                f"        {out}[(b * {p.m} + i) * {p.n} + j] = {stored};",
                "    }",
                "};",
            ]
        )

    def raw_end(self) -> str:
        """Returns the struct that stores a share of a sum."""
        p = self.product
        return "\n".join(
            [
                f"struct {self.symbol}_Share {{",
                "    static constexpr bool WHOLE = false;",
                f"    static constexpr int K = {p.k};",
                "    float* __restrict__ sums;",
                "    int batch, share;",
                "    __device__ __forceinline__ void operator()(int i, int column, float sum) const {",
                f"        const kw::i64 row = (kw::i64(share) * {self.groups} + batch) * {p.m} + i;",
                f"        if (i < {p.m} && column < {self.columns}) sums[row * {self.columns} + column] = sum;",
                "    }",
                "};",
            ]
        )  # fmt: skip

    def tail_reads(self) -> tuple[str, ...]:
        """Returns the buffers that what follows reads."""
        operands = {self.product.left.base, self.product.right.base}
        found = [name for name in self.product.reads() if name not in operands]
        return (*[n for n in dict.fromkeys(leaf_bases(self.product.tail)) if n in operands], *found)

    # ------------------------------------------------------------------------- kernels

    def names(self, *, sums: bool, end: bool) -> list[str]:
        """Returns the buffers that a kernel takes, in order."""
        p = self.product
        found = list(dict.fromkeys((p.left.base, p.right.base, *(self.tail_reads() if end else ()))))
        return found + ([p.out] if end else []) + ([SUMS_BUFFER] if sums else []) + ([self.flag] if self.flag else [])

    def dtype_of(self, name: str) -> str:
        """Returns the dtype of a buffer."""
        return {SUMS_BUFFER: "float32", self.flag: "int32"}.get(name) or self.dtypes[name]

    def bindings(self, names: list[str]) -> tuple[Binding, ...]:
        """Returns a kernel's arguments."""
        return tuple(
            Binding(
                kind="tensor" if n in self.tensors else "workspace", name=n, ctype=BINDINGS[self.dtype_of(n)]
            )
            for n in names
        )  # fmt: skip

    def head(self, symbol: str, names: list[str], threads: int, *, sums_written: bool = False) -> list[str]:
        """Returns a kernel's first lines."""
        written = {self.product.out, *([SUMS_BUFFER] if sums_written else [])}
        parameters = ", ".join(
            f"{'' if n in written else 'const '}{BUFFERS[self.dtype_of(n)]}* __restrict__ {buffer_name(n)}"
            for n in names
        )
        lines = [f'extern "C" __global__ void __launch_bounds__({threads}) {symbol}({parameters}) {{']
        return lines + ([f"    if (*{buffer_name(self.flag)} == 0) return;"] if self.flag else [])

    def done(self, batch: str) -> str:
        """Returns the line that makes the end."""
        p = self.product
        held = ", ".join([*(buffer_name(n) for n in self.tail_reads()), buffer_name(p.out), batch])
        return f"    const {self.symbol}_Done done{{{held}}};"

    def one_each(self) -> list[str]:
        """Returns the lines that find a thread's element: product, row and column."""
        p = self.product
        total = self.groups * p.m * self.columns
        return [
            f"    const kw::i64 number = kw::i64(blockIdx.x) * {THREADS} + threadIdx.x;",
            f"    if (number >= {total}) return;",
            f"    const int column = int(number % {self.columns}), row = int(number / {self.columns} % {p.m});",
            f"    const int batch = int(number / {self.columns * p.m});",
        ]

    def main(self, shares: int) -> str:
        """Returns the kernel that multiplies."""
        p = self.product
        names = self.names(sums=shares > 1, end=shares == 1)
        lines = self.head(self.symbol, names, self.threads(), sums_written=True)
        if self.direct:
            lines += [*self.one_each(), *self.operands.starts(), self.done("batch")]
            lines += [f"    done(row, column, kw::whole_sum(left, right, row, column, {p.k}));", "}", ""]
            return "\n".join(lines)
        down, across = self.tiles()
        lines += [
            f"    const int batch = int(blockIdx.x) / {down * across} % {self.groups};",
            "    int tile_m, tile_n;",
            f"    kw::band_of(int(blockIdx.x) % {down * across}, {down}, {across}, tile_m, tile_n);",
            *self.operands.starts(),
        ]  # fmt: skip
        begin, end = "0", str(p.k)
        if shares > 1:
            steps = -(-p.k // self.method.depth)
            lines.append(f"    const int share = int(blockIdx.x) / {down * across * self.groups};")
            lines.append(f"    const {self.symbol}_Share done{{{SUMS_BUFFER}, batch, share}};")
            begin = f"{steps} * share / {shares} * {self.method.depth}"
            last = f"{steps} * (share + 1) / {shares} * {self.method.depth}"
            end = f"share == {shares - 1} ? {p.k} : {last}"
        else:
            lines.append(self.done("batch"))
        shape = f"{self.symbol}_Shape"
        a, b = WARPS[self.method.tile] if self.tensor else SUMS[self.method.tile]
        numbers = {"BM": self.bm, "BN": self.bn, "BK": self.method.depth}
        if self.tensor:
            numbers |= {"WARPS_M": a, "WARPS_N": b, "PARTS": self.element_parts()}
            kind = "Half" if self.dtype == "float16" else "Brain"
            call = f"kw::tensor_product<{shape}, kernelwright::{kind}>"
        else:
            numbers |= {"TM": a, "TN": b}
            call = f"kw::plain_product<{shape}>"
        held = ", ".join(f"{name} = {number}" for name, number in numbers.items())
        lines.append(f"    {call}(left, right, tile_m * {self.bm}, tile_n * {self.bn}, {begin}, {end}, done);")
        return "\n".join([f"struct {shape} {{ static constexpr int {held}; }};", *lines, "}", ""])

    def ending_names(self) -> list[str]:
        """Returns the buffers that `ending` takes."""
        return list(dict.fromkeys((*self.tail_reads(), self.product.out, SUMS_BUFFER)))

    def ending(self) -> str:
        """Returns the kernel that does what follows sums that somebody else has made, in the product's own order."""
        p = self.product
        names, element = self.ending_names(), BUFFERS[self.dtype]
        lines = self.head(self.symbol, names, THREADS)
        lines[0] = lines[0].replace(
            f"const float* __restrict__ {SUMS_BUFFER}", f"const {element}* __restrict__ {SUMS_BUFFER}"
        )
        image = f"(kw::i64(column / {p.n}) * {self.groups} + batch)" if self.images > 1 else "kw::i64(batch)"
        lines += [
            *self.one_each(),
            self.done("batch"),
            f"    done(row, column, kw::value({SUMS_BUFFER}[({image} * {p.m} + row) * {p.n} + column % {p.n}]));",
            "}",
            "",
        ]
        return "\n".join(lines)

    def adding(self, shares: int) -> str:
        """Returns the kernel that adds shares up and finishes the sums."""
        p = self.product
        each = self.groups * p.m * self.columns
        lines = self.head(f"{self.symbol}_add", self.names(sums=True, end=True), THREADS)
        lines += [
            *self.one_each(),
            *self.operands.starts(),
            self.done("batch"),
            "    float sum = 0.0f;",
            "    #pragma unroll 4",
            f"    for (int s = 0; s < {shares}; ++s) sum += {SUMS_BUFFER}[kw::i64(s) * {each} + number];",
            f"    if (!kw::finite(sum)) sum = kw::whole_sum(left, right, row, column, {p.k});",
            "    done(row, column, sum);",
            "}",
            "",
        ]
        return "\n".join(lines)


def leaf_bases(tail: Expression) -> list[str]:
    """Returns the names of what a tail reads, in order."""
    if isinstance(tail, Leaf):
        return [tail.view.base]
    return [] if isinstance(tail, Literal) else [n for o in tail.operands for n in leaf_bases(o)]
