"""C++ of folds and scans: accumulators, one step, joining them, and the result.

Sums of many elements are made in blocks, so that rounding errors do not grow with the length of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.experts import tensors as t
from kernelwright.experts.print import ELEMENTS, VECTORS


@dataclass(frozen=True)
class Accumulator:
    """The C++ of one fold, by the number that its variables carry."""

    fold: t.Fold
    number: int
    ctype: str
    """The C type of what is folded."""

    @property
    def vector(self) -> str:
        """The vector type."""
        return VECTORS[self.ctype]

    @property
    def place(self) -> bool:
        """True for folds that find where something is."""
        return self.fold.kind in ("argmax", "argmin")

    @property
    def wide(self) -> bool:
        """True for sums of floats that are made in double."""
        return self.fold.kind == "sum" and self.ctype == "float" and self.fold.dtype == "float64"

    def neutral(self) -> str:
        """Returns the vector that changes nothing."""
        if self.fold.kind in ("sum", "any"):
            return f"{self.vector}{{}}"
        if self.fold.kind == "product":
            return f"kw::broadcast<{self.vector}>(1)"
        if self.fold.kind == "all":
            return "kw::broadcast<M>(-1)"
        low = self.fold.kind in ("max", "max_of_exp", "argmax")
        return f"kw::broadcast<{self.vector}>({extreme(self.ctype, low=low)})"

    def declare(self) -> list[str]:
        """Returns the lines that make the accumulators."""
        k = self.number
        if self.wide:
            return [f"kw::wide<N> a{k}[U] = {{}};"]
        lines = [f"{self.vector} a{k}[U];", f"for (int u = 0; u < U; ++u) a{k}[u] = {self.neutral()};"]
        if self.place:
            lines += [f"I p{k}[U] = {{}};"]
        return lines

    def step(self, value: str, place: str) -> str:
        """Returns the line that takes in one vector, of which n lanes are in use."""
        k = self.number
        kept = f"kw::keep({value}, n, {self.neutral()})"
        match self.fold.kind:
            case "sum" if self.wide:
                return f"a{k}[u].add({kept});"
            case "sum":
                return f"a{k}[u] += {kept};"
            case "product":
                return f"a{k}[u] *= {kept};"
            case "any":
                return f"a{k}[u] |= {kept};"
            case "all":
                return f"a{k}[u] &= {kept};"
            case "argmax" | "argmin":
                name = "take_larger" if self.fold.kind == "argmax" else "take_smaller"
                return f"kw::{name}(a{k}[u], p{k}[u], {kept}, {place});"
        return f"a{k}[u] = {self.join_call()}(a{k}[u], {kept});"

    def join_call(self) -> str:
        """Returns the function of two vectors for maxima and minima."""
        return {"max": "kw::maximum", "min": "kw::minimum", "max_of_exp": "kw::max_second"}[self.fold.kind]

    def join(self) -> list[str]:
        """Returns the lines that join the U accumulators into the first, as a tree."""
        k = self.number
        head = "for (int h = U / 2; h > 0; h /= 2) for (int u = 0; u < h; ++u) "
        match self.fold.kind:
            case "sum" if self.wide:
                body = f"a{k}[u].join(a{k}[u + h]);"
            case "sum":
                body = f"a{k}[u] += a{k}[u + h];"
            case "product":
                body = f"a{k}[u] *= a{k}[u + h];"
            case "any":
                body = f"a{k}[u] |= a{k}[u + h];"
            case "all":
                body = f"a{k}[u] &= a{k}[u + h];"
            case "argmax" | "argmin":
                name = "merge_larger" if self.fold.kind == "argmax" else "merge_smaller"
                body = f"kw::{name}(a{k}[u], p{k}[u], a{k}[u + h], p{k}[u + h]);"
            case _:
                body = f"a{k}[u] = {self.join_call()}(a{k}[u], a{k}[u + h]);"
        return [head + body]

    def across(self) -> tuple[str, str]:
        """Returns C type and C++ of the result over the lanes of the first accumulator."""
        k = self.number
        match self.fold.kind:
            case "sum" if self.wide:
                return "double", f"kw::sum(a{k}[0].low + a{k}[0].high)"
            case "argmax":
                return "int32_t", f"kw::place_of_largest(a{k}[0], p{k}[0])"
            case "argmin":
                return "int32_t", f"kw::place_of_smallest(a{k}[0], p{k}[0])"
            case "any":
                return "bool", f"kw::any(a{k}[0])"
            case "all":
                return "bool", f"!kw::any(~a{k}[0])"
        names = {"sum": "sum", "product": "product", "max": "largest", "max_of_exp": "largest", "min": "smallest"}
        return self.ctype, f"kw::{names[self.fold.kind]}(a{k}[0])"

    @property
    def blocked(self) -> bool:
        """True where long rows are folded block by block."""
        return self.fold.kind == "sum" and self.ctype in ("float", "double") and not self.wide


def extreme(ctype: str, *, low: bool) -> str:
    """Returns the C++ of the smallest (or largest) value of a type."""
    sign = "-" if low else ""
    if ctype in ("float", "double"):
        return f"{sign}__builtin_inf{'f' if ctype == 'float' else ''}()"
    top = "INT32_MAX" if ctype == "int32_t" else "INT64_MAX"
    return f"-{top} - 1" if low else top


def scan_type(ctype: str) -> str:
    """Returns the C type in which a scan runs: floats in double, as PyTorch's do on the CPU."""
    return "double" if ctype == "float" else ELEMENTS[ctype]
