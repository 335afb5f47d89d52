"""How cuTile spells what tile kernels need.

cuTile 1.7 has no libdevice: what it lacks is composed here from what it has, with errors of a few units in the last
place. Buffers are read at offsets from their first element (`Array.get_raw_memory`), so that any view of any rank is
one access. Method source: expm1 and log1p after Kahan (HP-15C handbook, 1982); erf by two minimax polynomials, split
at 475/512, the larger part through an exponential (coefficients after N. Juffa's erff, errors below 1 ulp each with
fused sums). Not here: what is computed (tile_kernel.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelwright.experts.expression import CTYPES, Expression
from kernelwright.types import Dtype

HEADER = """\
import math

import cuda.tile as ct


def expm1(x):
    e = ct.exp(x)
    near = (e - 1.0) * (x / ct.log(ct.where(e == 1.0, 2.0 * e, e)))
    result = ct.where(e == 1.0, x, ct.where(e - 1.0 == -1.0, -1.0 + 0.0 * e, near))
    return ct.where(e == math.inf, e, result)


def log1p(x):
    u = 1.0 + x
    near = ct.log(u) * (x / ct.where(u == 1.0, u, u - 1.0))
    return ct.where(u == 1.0, x, ct.where(u == math.inf, u, near))


def erf(x):
    a = ct.abs(x)
    s = x * x
    r = (-1.72853470e-5 * a + 3.83197126e-4) * s + (-3.88396438e-3 * a + 2.42546219e-2)
    r = ((r * a - 1.06777877e-1) * a - 6.34846687e-1) * a - 1.28717512e-1
    far = 1.0 - ct.exp(r * a - a)
    r = ((-5.96761703e-4 * s + 4.99119423e-3) * s - 2.67681349e-2) * s + 1.12819925e-1
    near = ((r * s - 3.76125336e-1) * s + 1.28379166e-1) * x + x
    return ct.where(a > 0.927734375, ct.where(x < 0.0, -far, far), near)


def trunc(x):
    return ct.where(x < 0.0, ct.ceil(x), ct.floor(x))


def round_even(x):
    low = ct.floor(x)
    rest = x - low
    odd = low - 2.0 * ct.floor(low * 0.5) != 0.0
    up = (rest > 0.5) | ((rest == 0.5) & odd)
    return ct.where(up, low + 1.0, low)
"""
OWN = {"expm1": "expm1", "log1p": "log1p", "erf": "erf", "trunc": "trunc", "round": "round_even"}
LOG10 = "0.4342944819032518"
STORED = {
    "float32": "ct.float32", "float64": "ct.float64", "float16": "ct.float16", "bfloat16": "ct.bfloat16",
    "int64": "ct.int64", "int32": "ct.int32", "int16": "ct.int16", "int8": "ct.int8", "uint8": "ct.uint8",
    "bool": "ct.bool_",
}  # fmt: skip
"""By dtype of a buffer."""
TYPES = {"float": "ct.float32", "double": "ct.float64", "int32_t": "ct.int32", "int64_t": "ct.int64",
         "bool": "ct.bool_"}  # fmt: skip
"""By C type of expression.py."""


class CutileDialect:
    """Text of cuda.tile 1.7."""

    name = "cutile"
    header = HEADER
    decorator = "@ct.kernel"

    def refusal(self, e: Expression) -> str:
        """Returns why an operation cannot be spelled, empty where it can."""
        ctype = e.args[0].ctype if e.args else e.ctype
        if e.op == "erfc":
            return "erfc"
        if e.op == "erf" and ctype == "double":
            return "erf in float64"
        return "fmod of floats" if e.op == "fmod" and not ctype.startswith("int") else ""

    def program(self, index: str) -> str:
        """See Dialect."""
        return "ct.astype(ct.bid(0), ct.int64)" if index == "int64_t" else "ct.bid(0)"

    def arange(self, count: int, axis: int, index: str) -> str:
        """See Dialect."""
        return f"ct.arange({count}, dtype={TYPES[index]})[{':, None' if axis == 0 else 'None, :'}]"

    def full(self, shape: tuple[int, int], value: str, ctype: str) -> str:
        """See Dialect."""
        return f"ct.full({shape}, {value}, {TYPES[ctype]})"

    def number(self, text: str) -> str:
        """See Dialect."""
        return text.replace("nan", "math.nan").replace("inf", "math.inf")

    def load(self, name: str, place: str, mask: str, dtype: Dtype, ctype: str) -> str:
        """See Dialect."""
        nothing = ", padding_value=False" if dtype == "bool" else ""
        text = f"{name}.get_raw_memory().load_offset({place}{f', mask={mask}{nothing}' if mask else ''})"
        same = CTYPES[dtype] == ctype and dtype not in ("float16", "bfloat16", "int16", "int8", "uint8")
        return text if same else self.cast(text, ctype)

    def store(self, name: str, place: str, value: str, mask: str, dtype: Dtype) -> str:
        """See Dialect."""
        value = f"ct.astype({value}, {STORED[dtype]})"
        return f"{name}.get_raw_memory().store_offset({place}, {value}{f', mask={mask}' if mask else ''})"

    def cast(self, text: str, ctype: str) -> str:
        """See Dialect."""
        return f"ct.astype({text}, {TYPES[ctype]})"

    def where(self, condition: str, yes: str, no: str) -> str:
        """See Dialect."""
        return f"ct.where({condition}, {yes}, {no})"

    def call(self, op: str, ctype: str, args: Sequence[str]) -> str:
        """See Dialect."""
        a, b = args[0], args[-1]
        if op in ("max", "min"):
            return f"ct.{op}imum({a}, {b}{'' if ctype.startswith('int') else ', propagate_nan=True'})"
        if op == "max_second":
            return f"ct.maximum({a}, {b})"
        if op == "sign":
            return self.cast(f"ct.where({a} > 0, 1, 0) - ct.where({a} < 0, 1, 0)", ctype)
        if op == "floor_div":
            return f"{a} // {b}"
        if op == "fmod":
            return f"{a} - {b} * ({self.divide(a, b, ctype)})"
        composed = {
            "sigmoid": f"1.0 / (1.0 + ct.exp(-{a}))",
            "reciprocal": f"1.0 / {a}",
            "log10": f"ct.log({a}) * {LOG10}",
            "atan": f"ct.atan2({a}, 1.0 + 0.0 * {a})",
            "asin": f"ct.atan2({a}, ct.sqrt((1.0 - {a}) * (1.0 + {a})))",
            "acos": f"ct.atan2(ct.sqrt((1.0 - {a}) * (1.0 + {a})), {a})",
        }
        if op in composed:
            return composed[op]
        return f"{OWN.get(op, f'ct.{op}')}({', '.join(args)})"

    def divide(self, left: str, right: str, ctype: str) -> str:
        """See Dialect."""
        if not ctype.startswith("int"):
            return f"{left} / {right}"
        # cuTile's quotient is rounded down; one that is cut is larger where signs differ and something is left over.
        left_over = f"({left} % {right} != 0) & (({left} < 0) ^ ({right} < 0))"
        return f"{left} // {right} + {self.cast(left_over, ctype)}"

    def rounded(self, text: str, ctype: str) -> str:
        """See Dialect; tileiras (13.4) fuses whatever it sees, rounding modes or not, but does not see through bits."""
        bits = "ct.int32" if ctype == "float" else "ct.int64"
        return f"ct.bitcast(ct.bitcast({text}, {bits}), {TYPES[ctype]})" if ctype in ("float", "double") else text

    def fold(self, kind: str, text: str, axis: int, ctype: str) -> str:
        """See Dialect."""
        name = {"product": "prod", "max_of_exp": "max"}.get(kind, kind)
        nan = ", propagate_nan=True" if kind in ("max", "min") and not ctype.startswith("int") else ""
        return f"ct.{name}({text}, axis={axis}, keepdims=True{nan})"

    def scan(self, kind: str, text: str, axis: int) -> str:
        """See Dialect."""
        return f"ct.{'cumsum' if kind == 'sum' else 'cumprod'}({text}, axis={axis})"

    def loop(self, name: str, count: int, stages: int) -> str:
        """See Dialect."""
        del stages
        return f"for {name} in range({count}):"
