"""How Triton spells what tile kernels need.

Arithmetic is PyTorch's: NaN stays in maxima and minima, divisions and square roots round correctly, and exponentials
and their like come from libdevice, since Triton's own are hardware approximations. The "fast" way takes those; the
judge says where they are good enough. Not here: what is computed (tile_kernel.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.experts.expression import CTYPES, Expression
from kernelwright.types import Dtype

HEADER = """\
import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice


@triton.jit
def join_max(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def join_min(a, b):
    return tl.where((a < b) | (a != a), a, b)


@triton.jit
def join_product(a, b):
    return a * b
"""
LIBDEVICE = {
    name: name
    for name in ("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "tanh", "erf", "erfc",
                 "asin", "acos", "atan", "sinh", "cosh", "rsqrt", "floor", "ceil", "trunc", "pow", "atan2", "fmod")
} | {"sqrt": "sqrt_rn", "round": "rint", "reciprocal": "rcp_rn"}  # fmt: skip
FAST = {"exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log", "log2": "tl.log2", "sqrt": "tl.sqrt"}
"""Hardware approximations of float32, by operation."""
TYPES = {"float": "tl.float32", "double": "tl.float64", "int32_t": "tl.int32", "int64_t": "tl.int64",
         "bool": "tl.int1"}  # fmt: skip
"""By C type of expression.py."""


class TritonDialect:
    """Text of Triton 3.6.

    Args:
        fast: whether approximations of the hardware stand for exponentials, logarithms, divisions and roots.
    """

    name = "triton"
    header = HEADER
    decorator = "@triton.jit"

    def __init__(self, *, fast: bool = False) -> None:
        self.fast = fast

    def refusal(self, e: Expression) -> str:
        """Returns why an operation cannot be spelled, empty where it can.

        libdevice keeps the digits of 2/pi for large angles in a variable in device memory, which no kernel may have.
        """
        return f"{e.op} without state on the device" if e.op in ("sin", "cos", "tan") else ""

    def program(self, index: str) -> str:
        """See Dialect."""
        return "tl.program_id(0).to(tl.int64)" if index == "int64_t" else "tl.program_id(0)"

    def arange(self, count: int, axis: int, index: str) -> str:
        """See Dialect."""
        text = f"tl.arange(0, {count})[{':, None' if axis == 0 else 'None, :'}]"
        return f"{text}.to(tl.int64)" if index == "int64_t" else text

    def full(self, shape: tuple[int, int], value: str, ctype: str) -> str:
        """See Dialect."""
        return f"tl.full({shape}, {value}, {TYPES[ctype]})"

    def number(self, text: str) -> str:
        """See Dialect."""
        return f'float("{text}")' if text in ("nan", "inf", "-inf") else text

    def load(self, name: str, place: str, mask: str, dtype: Dtype, ctype: str) -> str:
        """See Dialect."""
        text = f"tl.load({name} + {place}, mask={mask}, other=0)" if mask else f"tl.load({name} + {place})"
        same = CTYPES[dtype] == ctype and dtype not in ("float16", "bfloat16", "int16", "int8", "uint8")
        return text if same else f"{text}.to({TYPES[ctype]})"

    def store(self, name: str, place: str, value: str, mask: str, dtype: Dtype) -> str:
        """See Dialect."""
        del dtype  # a store converts, to nearest
        return f"tl.store({name} + {place}, {value}{f', mask={mask}' if mask else ''})"

    def cast(self, text: str, ctype: str) -> str:
        """See Dialect."""
        return f"tl.cast({text}, {TYPES[ctype]})"

    def where(self, condition: str, yes: str, no: str) -> str:
        """See Dialect."""
        return f"tl.where({condition}, {yes}, {no})"

    def call(self, op: str, ctype: str, args: Sequence[str]) -> str:
        """See Dialect."""
        a, b = args[0], args[-1]
        if op in ("max", "min"):
            if ctype == "double":
                return f"tl.where(({a} {'>' if op == 'max' else '<'} {b}) | ({a} != {a}), {a}, {b})"
            nan = ", propagate_nan=tl.PropagateNan.ALL" if ctype == "float" else ""
            return f"tl.{op}imum({a}, {b}{nan})"
        if op == "max_second":
            return f"tl.maximum({a}, {b})"
        if op == "abs":
            return f"tl.abs({a})"
        if op == "sign":
            return self.cast(f"tl.where({a} > 0, 1, 0) - tl.where({a} < 0, 1, 0)", ctype)
        if op == "floor_div":
            return f"{a} // {b} - (({a} % {b} != 0) & (({a} < 0) ^ ({b} < 0))).to({TYPES[ctype]})"
        if op == "fmod" and ctype.startswith("int"):
            return f"{a} % {b}"
        if op == "sigmoid":
            return self.divide("1.0", f"(1.0 + {self.call('exp', ctype, [f'(-{a})'])})", ctype)
        if self.fast and ctype == "float" and op in FAST:
            return f"{FAST[op]}({a})"
        return f"libdevice.{LIBDEVICE[op]}({', '.join(args)})"

    def divide(self, left: str, right: str, ctype: str) -> str:
        """See Dialect."""
        if ctype.startswith("int"):
            return f"{left} // {right}"
        if left == "1.0" and not self.fast:
            return f"libdevice.rcp_rn({right})"
        return f"{left} / {right}" if self.fast else f"libdevice.div_rn({left}, {right})"

    def rounded(self, text: str, ctype: str) -> str:
        """See Dialect; a build option keeps all sums from being fused instead."""
        del ctype
        return text

    def fold(self, kind: str, text: str, axis: int, ctype: str) -> str:
        """See Dialect."""
        if kind == "sum":
            return f"tl.sum({text}, axis={axis}, keep_dims=True)"
        if kind == "max_of_exp" or (kind in ("max", "min") and ctype.startswith("int")):
            return f"tl.{kind[:3]}({text}, axis={axis}, keep_dims=True)"
        return f"tl.reduce({text}, {axis}, join_{kind}, keep_dims=True)"

    def scan(self, kind: str, text: str, axis: int) -> str:
        """See Dialect."""
        return f"tl.{'cumsum' if kind == 'sum' else 'cumprod'}({text}, axis={axis})"

    def loop(self, name: str, count: int, stages: int) -> str:
        """See Dialect."""
        ahead = f"tl.range(0, {count}, num_stages={stages})" if stages > 1 else f"range({count})"
        return f"for {name} in {ahead}:"
