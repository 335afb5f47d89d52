"""The `--input` grammar: `float32[4096,1024]`, `int64[512]=0..31999`, `bool[8]`, `float32[]`; and `--dynamic`.

Not here: how many inputs a function takes (source.py) and how they are drawn (in workers).
"""

from __future__ import annotations

import difflib
import re

from kernelwright.errors import UserError
from kernelwright.types import Axis, TensorSpec

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = {"int64": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1), "uint8": (0, 255), "int8": (-128, 127)}
DTYPES = (*FLOATS, *INTEGERS, "bool")
ALIASES = {
    "float": "float32",
    "fp32": "float32",
    "f32": "float32",
    "double": "float64",
    "fp64": "float64",
    "f64": "float64",
    "half": "float16",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "long": "int64",
    "int": "int64",
    "i64": "int64",
    "i32": "int32",
    "byte": "uint8",
    "u8": "uint8",
    "i8": "int8",
}
FORM = re.compile(r"\s*(?:torch\.)?([A-Za-z_]\w*)\s*\[([^\[\]]*)\]\s*(?:=(.*))?", re.ASCII)
EXAMPLE = '"float32[4096,1024]" or "int64[512]=0..31999"'


def parse(text: str, name: str) -> TensorSpec:
    """Returns the spec that one `--input` describes.

    Args:
        text: what the user typed.
        name: the identifier of the argument that it is for.

    Raises:
        UserError: for anything else than the grammar; the fix shows how to write it.
    """
    match = FORM.fullmatch(text)
    if match is None:
        raise UserError(f"--input {text!r} is not a dtype with a shape", f"write it like {EXAMPLE}")
    dtype, sizes, interval = match.groups()
    _check_dtype(dtype, text)
    low, high = _range(interval.strip(), dtype, text) if interval is not None else (None, None)
    return TensorSpec(name=name, shape=_shape(sizes, text), dtype=dtype, role="input", low=low, high=high)


def _check_dtype(dtype: str, text: str) -> None:
    if dtype in DTYPES:
        return
    near = ALIASES.get(dtype.lower()) or next(iter(difflib.get_close_matches(dtype.lower(), DTYPES, n=1)), None)
    fix = f"did you mean {near}?" if near else f"use one of {', '.join(DTYPES)}"
    raise UserError(f"--input {text!r}: unknown dtype {dtype!r}", fix)


def _shape(sizes: str, text: str) -> tuple[int, ...]:
    if not sizes.strip():
        return ()
    parts = [part.strip() for part in sizes.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise UserError(
            f"--input {text!r}: sizes must be whole numbers with commas between", f"write it like {EXAMPLE}"
        )
    shape = tuple(int(part) for part in parts)
    if 0 in shape:
        raise UserError(f"--input {text!r} has no elements", "use sizes of at least 1")
    return shape


def _range(interval: str, dtype: str, text: str) -> tuple[float, float]:
    """Returns the smallest and largest value; whole numbers for integer dtypes."""
    if dtype == "bool":
        raise UserError(f"--input {text!r}: a bool tensor takes no range", "leave out what follows the shape")
    ends = interval.split("..")
    number = int if dtype in INTEGERS else float
    example = "0..31999" if dtype in INTEGERS else "0..1"
    try:
        low, high = (number(end) for end in ends)
    except ValueError:
        kind = "two whole numbers" if dtype in INTEGERS else "two numbers"
        raise UserError(f"--input {text!r}: a range is {kind}, LOW..HIGH", f"for example ={example}") from None
    if not low <= high:
        raise UserError(f"--input {text!r}: the range is empty", "write the smaller number first")
    if dtype in INTEGERS:
        least, most = INTEGERS[dtype]
        if low < least or high > most:
            raise UserError(f"--input {text!r}: {dtype} holds {least}..{most}", "narrow the range or widen the dtype")
    elif abs(low) == float("inf") or abs(high) == float("inf"):
        raise UserError(f"--input {text!r}: the ends of a range must be finite", f"for example ={example}")
    return low, high


AXIS = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.+?)\s*:\s*(\d+)\s*\.\.\s*(\d+)\s*", re.ASCII)
PLACE = re.compile(r"\s*([A-Za-z_]\w*)\s*\[\s*(-?\d+)\s*\]\s*", re.ASCII)


def parse_axis(text: str) -> Axis:
    """Returns the axis that one `--dynamic` declares, with its size still 0.

    Raises:
        UserError: for anything else than `B=x[0],mask[0]:1..8192`.
    """
    fix = 'write it like "B=x[0],mask[0]:1..8192"'
    match = AXIS.fullmatch(text)
    places = [PLACE.fullmatch(part) for part in match[2].split(",")] if match else []
    if match is None or not all(places):
        raise UserError(f"--dynamic {text!r} does not say which sizes vary", fix)
    found = tuple((p[1], int(p[2])) for p in places if p)
    return Axis(name=match[1], size=0, low=int(match[3]), high=int(match[4]), places=found)
