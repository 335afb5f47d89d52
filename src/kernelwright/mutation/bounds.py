"""Mutations of C-like code: where loops end, what conditions let through."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.mutation.mutant import Edit, edit
from kernelwright.mutation.tokens import OPENING, Code

FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "!=", "!=": "=="}
SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def comparisons(code: Code, start: int, stop: int, *words: str) -> Iterator[int]:
    """Yields the comparison operators among tokens [start, stop)."""
    for index in range(start, stop):
        if code.kind(index) == "mark" and code.word(index) in words and index not in code.angles:
            yield index


def limits(code: Code) -> Iterator[tuple[int, int, int]]:
    """Yields (operator, start, stop) of every upper limit `i < LIMIT` of a loop."""
    for loop in code.loops:
        for start, stop in code.split(*loop.condition, "&&"):
            for index in comparisons(code, start, stop, "<", "<=", "!="):
                if index > start and stop > index + 1:
                    yield index, index + 1, stop


def conditions(code: Code) -> Iterator[tuple[int, int]]:
    """Yields [start, stop) of every condition of an `if`, a `while` or a `?:`."""
    for keyword in code.indices("if", "while"):
        opened = keyword + 1 if code.word(keyword + 1) == "(" else keyword + 2
        if code.word(opened) == "(" and opened in code.match:
            yield opened + 1, code.match[opened]
    for mark in code.indices("?"):
        start = mark
        while start and code.word(start - 1) not in ("=", "(", ",", "return", ";", "{", "?", ":", "+=", "*=", "["):
            start = code.match[start - 1] if start - 1 in code.match else start - 1
        if start < mark:
            yield start, mark


def whole(code: Code, start: int, stop: int) -> str:
    """Returns tokens [start, stop) as an operand: in parentheses unless they are one token."""
    text = code.span(start, stop)
    return text if stop == start + 1 else f"({text})"


def dropped_tail(code: Code) -> Iterator[Edit]:
    """The last element of a loop is left out, or a loop over what is left over never runs."""
    for _, start, stop in limits(code):
        yield edit((*code.place(start, stop), f"{whole(code, start, stop)} - 1"))
    for loop in code.loops:
        if loop.init[0] == loop.init[1] and loop.condition[1] > loop.condition[0]:
            yield edit((*code.place(*loop.condition), "false"))


def early_exit(code: Code) -> Iterator[Edit]:
    """A loop ends halfway."""
    for _, start, stop in limits(code):
        yield edit((*code.place(start, stop), f"{whole(code, start, stop)} / 2"))


def off_by_one(code: Code) -> Iterator[Edit]:
    """A limit or a comparison takes one more or one less; a loop starts one late."""
    for loop in code.loops:
        for index in comparisons(code, *loop.condition, *SHIFTED):
            yield edit((*code.place(index, index + 1), SHIFTED[code.word(index)]))
        for index in range(*loop.init):
            if code.word(index) == "=" and code.kind(index + 1) == "number" and code.word(index + 2) in (";", ","):
                number = code.word(index + 1)
                yield edit((*code.place(index + 1, index + 2), f"{number} + 1"))
    for start, stop in conditions(code):
        for index in comparisons(code, start, stop, *SHIFTED):
            yield edit((*code.place(index, index + 1), SHIFTED[code.word(index)]))


def flipped_comparison(code: Code) -> Iterator[Edit]:
    """A condition asks for the opposite."""
    for start, stop in conditions(code):
        for index in comparisons(code, start, stop, *FLIPPED):
            yield edit((*code.place(index, index + 1), FLIPPED[code.word(index)]))
        for index in range(start, stop):
            if code.word(index) in ("&&", "||") and code.is_binary(index):
                yield edit((*code.place(index, index + 1), "||" if code.word(index) == "&&" else "&&"))


def unmasked_access(code: Code) -> Iterator[Edit]:
    """A guard such as `if (i < n)` or `i < n ? a[i] : 0` is gone."""
    for start, stop in conditions(code):
        inside = list(comparisons(code, start, stop, "<", "<=", ">", ">=", "==", "!="))
        guards = code.word(start - 2) in ("if", "constexpr") and inside
        if guards or (code.word(stop) == "?" and "[" in code.span(stop, stop + 8)):
            yield edit((*code.place(start, stop), "true"))
        for part in code.split(start, stop, "&&"):
            if (part[0], part[1]) != (start, stop) and any(part[0] <= i < part[1] for i in inside):
                yield edit((*code.place(*part), "true"))


def aligned_only(code: Code) -> Iterator[Edit]:
    """What is right for whole blocks only: a rounded-up division rounds down, a remainder counts as none."""
    for index in code.indices("/"):
        group = index - 1
        if code.word(group) != ")" or group not in code.match:
            continue
        start, stop = code.match[group] + 1, group
        plus = [i for i in range(start, stop) if code.word(i) == "+" and code.is_binary(i)]
        divisor = code.operand_after(index)
        repeated = divisor and plus and code.span(index + 1, divisor) in code.span(plus[0], stop)
        if repeated or (plus and code.span(stop - 2, stop).replace(" ", "") == "-1"):
            yield edit((code.tokens[plus[0] - 1].stop, code.tokens[stop - 1].stop, ""))
    for loop in code.loops:
        if code.word(loop.step[1] - 2) == "+=" and code.word(loop.condition[0]) == code.word(loop.step[0]):
            for index in comparisons(code, *loop.condition, "<"):
                by = code.span(loop.step[1] - 1, loop.step[1])
                if by not in ("1", "blockDim", "gridDim"):
                    yield edit((*code.place(index + 1, loop.condition[1]),
                                f"{whole(code, index + 1, loop.condition[1])} / {by} * {by}"))  # fmt: skip


def ternary_arms(code: Code) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yields the two arms of every `?:` without another one inside."""
    for mark in code.indices("?"):
        at = mark + 1
        while at < len(code.tokens) and code.word(at) not in (":", ";", "?", ")"):
            at = code.match.get(at, at) + 1 if code.word(at) in OPENING else at + 1
        if code.word(at) != ":":
            continue
        stop = at + 1
        while stop < len(code.tokens) and code.word(stop) not in (";", ",", ")", "]", "}", "?", ":"):
            stop = code.match.get(stop, stop) + 1 if code.word(stop) in OPENING else stop + 1
        if code.word(stop) != "?":
            yield (mark + 1, at), (at + 1, stop)


def swapped_arms(code: Code) -> Iterator[Edit]:
    """The two results of a `?:` change places."""
    for one, other in ternary_arms(code):
        yield edit((*code.place(*one), code.span(*other)), (*code.place(*other), code.span(*one)))
