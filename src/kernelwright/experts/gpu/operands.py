"""The operands of a product as structs of CUDA C++, which product.cuh reads: strided matrices, and windows of images.

Not here: kernels (products.py) and how tiles are loaded (product.cuh).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from kernelwright.experts.chain import Unsupported
from kernelwright.experts.gpu.printer import BUFFERS, buffer_name
from kernelwright.experts.products import Matrix, Product, Windows

HALVES = ("float16", "bfloat16")
INT_LIMIT = 1 << 31


@dataclass(frozen=True)
class Operands:
    """Both operands of one product.

    Args:
        product: what is computed.
        dtypes: of every buffer by name.
        symbol: what the structs' names begin with.
    """

    product: Product
    dtypes: Mapping[str, str]
    symbol: str

    @property
    def groups(self) -> int:
        """Groups of a convolution, or products of a batch."""
        p = self.product
        return p.left.batch[-1][0] if isinstance(p.right, Windows) else p.batches

    @property
    def images(self) -> int:
        """Images of a convolution, which lie side by side as columns; 1 for others."""
        return self.product.batches // self.groups if isinstance(self.product.right, Windows) else 1

    @property
    def columns(self) -> int:
        """Columns of one product, all images together."""
        return self.product.n * self.images

    def operand(self, name: str) -> str:
        """Returns the struct of an operand."""
        p = self.product
        side: Matrix | Windows = p.left if name == "Left" else p.right
        lines = p.m if name == "Left" else self.columns
        if isinstance(side, Windows):
            step, along_k, body = self.windows(side)
        else:
            step, along_k, body = self.matrix(side, lines, left=name == "Left")
        ctype = BUFFERS[self.dtypes[side.base]]
        return "\n".join(
            [
                f"struct {self.symbol}_{name} {{",
                f"    static constexpr int STEP = {step};",
                f"    static constexpr bool ALONG_K = {str(along_k).lower()};",
                f"    const {ctype}* __restrict__ at;",
                *body,
                "};",
            ]
        )

    def matrix(self, m: Matrix, lines: int, *, left: bool) -> tuple[int, bool, list[str]]:
        """Returns vector width, direction and functions of a strided matrix."""
        line, k = (m.row, m.column) if left else (m.column, m.row)
        along_k = k == 1 or line != 1
        place = f"q / {m.inner} * {m.outer} + q % {m.inner} * {m.column}" if m.inner else f"q * {k}"
        far = max(lines * line, self.product.k * max(k, m.outer)) + sum(n * s for n, s in m.batch) >= INT_LIMIT
        index = "kw::i64" if far else "int"
        fixed = [m.start, *(s for _, s in m.batch)]
        others = [line if along_k else k, *((m.outer,) if m.inner else ())]
        extent = (m.inner or self.product.k) if along_k else lines
        unit = k == 1 if along_k else line == 1
        step = self.width(m.base, extent, (*fixed, *others)) if unit else 1
        return step, along_k, [
            f"    struct Line {{ {index} start; }};",
            "    __device__ __forceinline__ Line line(int number) const {",
            f"        return {{number < {lines} ? {index}(number) * {line} : {index}(-1)}};",
            "    }",
            f"    __device__ __forceinline__ {index} find(const Line& here, int number) const {{",
            f"        const {index} q = number;",
            f"        return here.start >= 0 && number < {self.product.k} ? here.start + {place} : {index}(-1);",
            "    }",
        ]  # fmt: skip

    def width(self, base: str, extent: int, strides: tuple[int, ...]) -> int:
        """Returns how many neighbours can be loaded at once: sixteen bytes, where all places are multiples of that."""
        most = 4 if self.dtypes[base] == "float32" else 8 if self.dtypes[base] in HALVES else 1
        return next(step for step in (8, 4, 2, 1) if step <= most and all(n % step == 0 for n in (extent, *strides)))

    def windows(self, w: Windows) -> tuple[int, bool, list[str]]:
        """Returns vector width, direction and functions of a convolution's windows: one line for each output place."""
        image, size, rank = self.groups * w.channels * prod(w.size), prod(w.size), len(w.out)
        plain = all(n == 1 for n in (*w.kernel, *w.stride)) and not any(w.padding)
        step = self.width(w.base, self.product.n, (image, w.channels * size, size)) if plain else 1
        if self.images * image >= INT_LIMIT:
            raise Unsupported("images of 2^31 elements")
        inside, place, corner, taps = [], [], [], []
        stride = 1
        for d in reversed(range(rank)):
            corner.append(f"        const int o{d} = o % {w.out[d]}; o /= {w.out[d]};")
            taps.append(f"        const int t{d} = c % {w.kernel[d]}; c /= {w.kernel[d]};")
            if w.transposed:
                corner.append(f"        here.u{d} = o{d} + {w.padding[d]};")
                taps.append(
                    f"        const int f{d} = here.u{d} - t{d} * {w.dilation[d]}, u{d} = f{d} / {w.stride[d]};"
                )
                inside.append(f"f{d} >= 0 && f{d} % {w.stride[d]} == 0 && u{d} < {w.size[d]}")
            else:
                corner.append(f"        here.u{d} = o{d} * {w.stride[d]} - {w.padding[d]};")
                taps.append(f"        const int u{d} = here.u{d} + t{d} * {w.dilation[d]};")
                reach = (w.out[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] - w.padding[d]
                inside += [f"unsigned(u{d}) < {w.size[d]}u"] if w.padding[d] or reach >= w.size[d] else []
            place.append(f"u{d} * {stride}")
            stride *= w.size[d]
        lines = [
            f"    struct Line {{ int start, {', '.join(f'u{d}' for d in range(rank))}; }};",
            "    __device__ __forceinline__ Line line(int number) const {",
            f"        const int image = number / {self.product.n};",
            f"        int o = number - image * {self.product.n};",
            "        Line here;",
            f"        here.start = number < {self.columns} ? image * {image} : -1;",
            *corner,
            "        return here;",
            "    }",
            "    __device__ __forceinline__ int find(const Line& here, int q) const {",
            "        int c = q;",
            *taps,
            f"        const bool there = {' && '.join(['here.start >= 0', f'q < {self.product.k}', *inside])};",
            f"        return there ? here.start + c * {size} + {' + '.join(place)} : -1;",
            "    }",
        ]
        return step, False, lines

    def starts(self) -> list[str]:
        """Returns the lines that make both operands of product `batch`."""
        p = self.product
        left, right = self.start(p.left), "0"
        if isinstance(p.right, Matrix):
            right = self.start(p.right)
        else:
            right = f"kw::i64(batch) * {p.right.channels * prod(p.right.size)}"
        return [
            f"    const {self.symbol}_Left left{{{buffer_name(p.left.base)} + {left}}};",
            f"    const {self.symbol}_Right right{{{buffer_name(p.right.base)} + {right}}};",
        ]

    def start(self, m: Matrix) -> str:
        """Returns the C++ of where matrix `batch` begins."""
        terms, inner = [str(m.start)] if m.start else [], 1
        for extent, stride in reversed(m.batch):
            if stride and extent > 1:
                terms.append(f"kw::i64(batch / {inner} % {extent}) * {stride}")
            inner *= extent
        return " + ".join(terms) or "0"
