"""Chains of pointwise operators as scalars of a CUDA thread, and as tiles of Triton.

Not here: the chains (experts/chain.py) and what is around them.
"""

from __future__ import annotations

from math import isfinite, isnan

from kernelwright.experts.chain import COMPARE, FLOAT, IOTA, Leaf, Lines, Literal, Unsupported
from kernelwright.experts.gpu.printer import BUFFERS
from kernelwright.experts.kernel import pointer
from kernelwright.experts.views import Factor

GELU_TANH = "0.79788456 * ({0} + 0.044715 * {0} * {0} * {0})"
SCALARS = {
    "relu": "kw::maximum({0}, 0.0f)", "sigmoid": "kw::sigmoid({0})", "tanh": "kw::tanh({0})", "neg": "(-{0})",
    "exp": "kw::exp({0})", "abs": "kw::abs({0})", "sqrt": "kw::sqrt({0})", "rsqrt": "kw::rsqrt({0})",
    "log": "kw::log({0})", "log1p": "kw::log1p({0})", "erf": "kw::erf({0})", "reciprocal": "(1.0f / {0})",
    "silu": "({0} * kw::sigmoid({0}))", "square": "({0} * {0})",
    "gelu": "({0} * 0.5f * (1.0f + kw::erf({0} * 0.70710678f)))",
    "gelu_tanh": "({0} * 0.5f * (1.0f + kw::tanh(0.79788456f * ({0} + 0.044715f * {0} * {0} * {0}))))",
    "leaky_relu": "({0} > 0.0f ? {0} : {0} * {1})", "maximum": "kw::maximum({0}, {1})",
    "minimum": "kw::minimum({0}, {1})", "scaled_shift": "({0} * {1} + {2})",
    **{name: f"({{0}} {sign} {{1}})" for name, sign in {**COMPARE, "add": "+", "sub": "-", "mul": "*", "div": "/",
                                                        "and": "&&", "or": "||", "xor": "!="}.items()},
    "not": "(!{0})", "select": "({0} ? {1} : {2})", "to_float": "float({0})", "truth": "({0} ? 1.0f : 0.0f)",
}  # fmt: skip
"""Every operation of a chain as CUDA C++ on scalars."""
_NAN = "propagate_nan=tl.PropagateNan.ALL"
TILES = {
    "relu": f"tl.maximum({{0}}, 0.0, {_NAN})", "sigmoid": "(1.0 / (1.0 + libdevice.exp(-{0})))",
    **{name: f"libdevice.{name}({{0}})" for name in ("tanh", "exp", "rsqrt", "log", "log1p", "erf")},
    "neg": "(-{0})", "abs": "tl.abs({0})", "sqrt": "libdevice.sqrt_rn({0})", "reciprocal": "(1.0 / {0})",
    "silu": "({0} / (1.0 + libdevice.exp(-{0})))", "square": "({0} * {0})",
    "gelu": "({0} * 0.5 * (1.0 + libdevice.erf({0} * 0.70710678)))",
    "gelu_tanh": f"({{0}} * 0.5 * (1.0 + libdevice.tanh({GELU_TANH})))",
    "leaky_relu": "tl.where({0} > 0.0, {0}, {0} * {1})", "maximum": f"tl.maximum({{0}}, {{1}}, {_NAN})",
    "minimum": f"tl.minimum({{0}}, {{1}}, {_NAN})", "scaled_shift": "({0} * {1} + {2})",
    **{name: f"({{0}} {sign} {{1}})" for name, sign in {**COMPARE, "add": "+", "sub": "-", "mul": "*", "div": "/",
                                                        "and": "&", "or": "|", "xor": "^"}.items()},
    "not": "({0} == 0)", "select": "tl.where({0}, {1}, {2})", "to_float": "({0}).to(tl.float32)",
    "truth": "tl.where({0}, 1.0, 0.0)",
}  # fmt: skip
"""Every operation of a chain as Triton on tiles."""


class ScalarLines(Lines):
    """Writes chains as statements of one thread, for one element.

    Args:
        indices: C++ names of the indices of all dimensions.
        held: code for leaves that are in registers, by base name.
    """

    spelled = SCALARS

    def __init__(self, indices: tuple[str, ...], *, held: dict[str, str]) -> None:
        super().__init__(indices, width=1, held=held)

    def literal(self, item: Literal) -> str:
        """Returns a number."""
        if item.dtype == "bool":
            return "true" if item.number else "false"
        if item.dtype != FLOAT:
            return str(int(item.number))
        if isfinite(item.number):
            return f"{float(item.number)!r}f"
        return "kw::nan()" if isnan(item.number) else f"({'-' if item.number < 0 else ''}kw::inf())"

    def leaf(self, item: Leaf) -> str:
        """Returns one element."""
        place = item.view.offset(self.indices)
        if item.view.base == IOTA:
            return f"int({place})"
        if item.dtype not in BUFFERS:
            raise Unsupported(f"{item.view.base} of {item.dtype} in a pointwise chain")
        return f"kw::value({pointer(item.view.base)}[{place}])"


class TileLines(Lines):
    """Writes chains as statements of Triton, for a tile whose dimensions are the last ones.

    Args:
        indices: names of the indices of all dimensions: numbers or tiles that broadcast to each other.
        masks: for each index the name of what tells which of its elements exist, "" where all do.
        held: code for leaves that are known, by base name.
    """

    spelled = TILES
    statement = "{0} = {1}"

    def __init__(self, indices: tuple[str, ...], masks: tuple[str, ...], *, held: dict[str, str]) -> None:
        super().__init__(indices, width=1, held=held)
        self.masks = masks

    def literal(self, item: Literal) -> str:
        """Returns a number."""
        if item.dtype == "bool":
            return str(bool(item.number))
        if item.dtype != FLOAT or isfinite(item.number):
            return repr(float(item.number) if item.dtype == FLOAT else int(item.number))
        return f'float("{item.number}")'

    def leaf(self, item: Leaf) -> str:
        """Returns a tile of elements."""
        place = tile_offset(item.view.offset(self.indices))
        if item.view.base == IOTA:
            return f"({place})"
        used = [mask for mask, factors in zip(self.masks, item.view.dims, strict=True) if mask and moves(factors)]
        mask = f", mask={' & '.join(used)}, other=0" if used else ""
        text = f"tl.load({pointer(item.view.base)} + ({place}){mask})"
        if item.dtype == "bool":
            return f"({text} != 0)"
        return f"{text}.to(tl.float32)" if item.dtype in ("float16", "bfloat16") else text


def tile_offset(text: str) -> str:
    """Returns an offset of C++ as Triton: places are not negative, and quotients are whole."""
    return text.replace(" / ", " // ")


def moves(factors: tuple[Factor, ...]) -> bool:
    """Says whether an index along these factors changes the place."""
    return any(stride for _, stride in factors)
