"""Mutations of C-like code: numbers, their precision, and what is done with them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernelwright.mutation.addressing import subscripts
from kernelwright.mutation.mutant import Edit, edit
from kernelwright.mutation.tokens import Code, Declared

ROUNDED = {
    "cpp": "(float)(_Float16)({0})",
    "cuda": "__uint_as_float(__float_as_uint({0}) & 0xffffe000u)",
}
"""One sum in the precision of half the bits; without headers that the source may not include."""
EXPONENTIALS = ("exp", "expf", "__expf", "exp2", "exp2f", "ex2", "fast_exp", "fexp", "exp2_approx")
LOWEST = re.compile(
    r"-\s*(?:std::numeric_limits<\w+>::(?:infinity|max)\(\)|INFINITY|FLT_MAX|DBL_MAX|CUDART_INF_F|HUGE_VALF?|"
    r"__builtin_inff?\(\)|__int_as_float\(0x7f800000\)|1e3\d+f?|3\.4\d*e\+?38f?)|"
    r"(?:std::)?numeric_limits<\w+>::lowest\(\)|__int_as_float\(0xff800000u?\)"
)
HIGHEST = re.compile(r"INFINITY|FLT_MAX|DBL_MAX|CUDART_INF_F|(?:std::)?numeric_limits<\w+>::(?:infinity|max)\(\)")
CHOICES = {
    "max": "min", "min": "max", "fmaxf": "fminf", "fminf": "fmaxf", "fmax": "fmin", "fmin": "fmax",
    "__hmax": "__hmin", "__hmin": "__hmax", "_mm256_max_ps": "_mm256_min_ps", "_mm256_min_ps": "_mm256_max_ps",
    "_mm512_max_ps": "_mm512_min_ps", "_mm512_min_ps": "_mm512_max_ps",
}  # fmt: skip
MAGNITUDES = ("abs", "fabs", "fabsf", "labs")
NAN_TESTS = ("isnan", "isinf", "isfinite", "__isnanf")
FRACTION = re.compile(r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?[fF]?$")
SMALL_CONSTANT = 1e-2
GARBAGE = {"float": "3.5e-2f", "double": "3.5e-2", "int": "1", "int64_t": "1"}
"""What an uninitialised register may hold, made certain."""
OPERATIONS = {"+": "-", "-": "+", "*": "+", "/": "*", "+=": "-=", "-=": "+=", "*=": "+=", "/=": "*="}


def accumulators(code: Code) -> Iterator[Declared]:
    """Yields the floating variables that something is added to, or that are made from themselves."""
    grown = {code.word(i - 1) for i in code.indices("+=", "-=", "*=")}
    grown |= {code.word(code.match.get(i - 1, 0) - 1) for i in code.indices("+=", "-=") if code.word(i - 1) == "]"}
    for start, stop in code.statements():
        at = code.assignment(start, stop)
        if at == start + 1 and code.word(start) in {code.word(i) for i in range(at + 1, stop)}:
            grown.add(code.word(start))
    for found in code.declared:
        if code.word(found.name) in grown and not found.pointer:
            yield found


def is_floating(code: Code, name: str) -> bool:
    """Tells whether a name was declared with a floating type."""
    return bool(re.search(r"\b(float|double|half|_Float16|\w*bfloat16)\b", code.types.get(name, "")))


def accumulator_precision(code: Code) -> Iterator[Edit]:
    """Sums are kept in fewer bits: double in float, float in half."""
    for found in code.declared:
        if "double" in code.span(*found.type) and found.first:
            index = next(i for i in range(*found.type) if code.word(i) == "double")
            yield edit((*code.place(index, index + 1), "float"))
    form = ROUNDED["cuda" if "__global__" in code.text else "cpp"]
    for start, stop in code.statements():
        at = code.assignment(start, stop)
        if at is None or code.word(at) != "+=" or not _holds_floats(code, start, at):
            continue
        target, added = code.span(start, at), code.span(at + 1, stop - 1)
        yield edit((*code.place(start, stop - 1), f"{target} = {form.format(f'{target} + ({added})')}"))


def _holds_floats(code: Code, start: int, stop: int) -> bool:
    names = [code.word(i) for i in range(start, stop) if code.kind(i) == "name"]
    return bool(names) and is_floating(code, names[0]) and "++" not in code.span(start, stop)


def uninitialised(code: Code) -> Iterator[Edit]:
    """A sum starts from what a register happened to hold instead of from nothing."""
    for found in accumulators(code):
        if not found.init or found.array:
            continue
        words = [code.word(i) for i in range(*found.type) if code.word(i) in GARBAGE]
        if words and re.fullmatch(r"0|0?\.0*f?|0\.?0*f?|0x0", code.span(*found.init)):
            yield edit((*code.place(*found.init), GARBAGE[words[0]]))


def wrong_identity(code: Code) -> Iterator[Edit]:
    """A maximum starts at zero, a product at zero."""
    for pattern, zero in ((LOWEST, "0.0f"), (HIGHEST, "0.0f")):
        for found in pattern.finditer(code.text):
            if any(t.start <= found.start() < t.stop and t.kind in ("name", "mark") for t in code.tokens):
                negative = code.text[: found.start()].rstrip().endswith("-")
                if pattern is LOWEST or not negative:
                    yield edit((found.start(), found.end(), zero))
    for declared in accumulators(code):
        if declared.init and re.fullmatch(r"1(\.0*)?f?", code.span(*declared.init)):
            yield edit((*code.place(*declared.init), "0"))


def skipped_max(code: Code) -> Iterator[Edit]:
    """An exponential of a difference forgets to subtract."""
    for _, arguments in code.calls(*EXPONENTIALS):
        for start, stop in arguments[:1]:
            minus = [i for i in range(start + 1, stop) if code.word(i) == "-" and code.is_binary(i)]
            if minus:
                after = code.operand_after(minus[-1], products=True)
                if after:
                    yield edit((code.tokens[minus[-1] - 1].stop, code.tokens[after - 1].stop, ""))


def swapped_operands(code: Code) -> Iterator[Edit]:
    """What is subtracted or divided changes places with what it is taken from."""
    for index in code.indices("-", "/"):
        if not code.is_binary(index) or index in code.angles:
            continue
        sums = code.word(index) == "-"
        before, after = code.operand_before(index, products=sums), code.operand_after(index, products=False)
        if sums and after is not None:
            after = code.operand_after(index, products=True)
        if before is None or after is None:
            continue
        left, right = code.span(before, index), code.span(index + 1, after)
        if left != right:
            yield edit((*code.place(before, after), f"{right} {code.word(index)} ({left})"))


def wrong_operation(code: Code) -> Iterator[Edit]:
    """Adds where it should subtract, multiplies where it should divide."""
    inside = {i for start, stop in subscripts(code) for i in range(start, stop)}
    heads = {i for loop in code.loops for i in range(loop.init[0], loop.step[1])}
    for index in code.indices(*OPERATIONS):
        if index in inside | heads or index in code.angles or not code.is_binary(index):
            continue
        yield edit((*code.place(index, index + 1), OPERATIONS[code.word(index)]))


def lost_accumulation(code: Code) -> Iterator[Edit]:
    """Each term replaces the sum."""
    heads = {i for loop in code.loops for i in range(loop.init[0], loop.step[1])}
    for index in code.indices("+=", "*=", "|="):
        if index not in heads:
            yield edit((*code.place(index, index + 1), "="))


def wrong_constant(code: Code) -> Iterator[Edit]:
    """A constant such as epsilon or a factor is not what the formula says."""
    for index, token in enumerate(code.tokens):
        if token.kind != "number" or not FRACTION.fullmatch(token.text) or not re.search(r"[.eE]", token.text):
            continue
        number = float(token.text.rstrip("fF"))
        if number == 0.0 or (code.word(index - 1) == "=" and code.word(index + 1) in (";", ",") and number > 1e30):
            continue
        factor = 100.0 if number < SMALL_CONSTANT else 1.125
        suffix = "f" if token.text[-1] in "fF" else ""
        yield edit((token.start, token.stop, f"{number * factor:.9g}{suffix}"))
    for index in code.indices("/"):
        # The divisor of a mean: one less.
        after = code.operand_after(index)
        if code.is_binary(index) and after == index + 2 and code.kind(index + 1) in ("number", "name"):
            text = code.word(index + 1)
            if not is_floating(code, text) and not re.search(r"[.fF]", text):
                yield edit((*code.place(index + 1, after), f"({text} - 1)"))


def lost_sign(code: Code) -> Iterator[Edit]:
    """A minus or an absolute value is gone."""
    for index in code.indices("-"):
        is_sign = not code.is_binary(index) and code.operand_after(index) is not None
        if is_sign and not LOWEST.match(code.text, code.tokens[index].start):
            yield edit((*code.place(index, index + 1), ""))
    for index, arguments in code.calls(*MAGNITUDES):
        start = code.qualified(index)
        if len(arguments) == 1:
            yield edit((*code.place(start, index + 1), ""))


def min_max_swapped(code: Code) -> Iterator[Edit]:
    """The largest is taken for the smallest."""
    for index, _ in code.calls(*CHOICES):
        yield edit((*code.place(index, index + 1), CHOICES[code.word(index)]))


def nan_blind(code: Code) -> Iterator[Edit]:
    """Nothing is done about NaN and infinity any more."""
    for index, _ in code.calls(*NAN_TESTS):
        start = code.qualified(index)
        yield edit((*code.place(start, code.match[index + 1] + 1), "false"))
    for index in code.indices("!="):
        before, after = code.operand_before(index), code.operand_after(index)
        if before and after and code.span(before, index) == code.span(index + 1, after):
            yield edit((*code.place(before, after), "false"))
    for index in code.indices("!"):
        # !(a <= b) is true for NaN, a > b is not.
        opened, closed = index + 1, code.match.get(index + 1, 0)
        if code.word(opened) == "(" and closed:
            marks = [i for i in range(opened + 1, closed) if code.word(i) in ("<", "<=", ">", ">=")]
            opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
            if len(marks) == 1 and marks[0] not in code.angles:
                at = marks[0]
                yield edit((*code.place(index, opened), ""), (*code.place(at, at + 1), opposite[code.word(at)]))
