"""Mutations of C-like code: which element is meant, where memory lies, how wide its index is."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.mutation.mutant import Edit, edit
from kernelwright.mutation.tokens import Code, Declared

NARROWER = {
    "int64_t": "int", "size_t": "int", "ptrdiff_t": "int", "long": "short", "long long": "int", "int": "short",
    "int32_t": "int16_t", "unsigned": "unsigned short", "uint32_t": "uint16_t", "uint64_t": "uint32_t",
    "unsigned int": "unsigned short", "short": "signed char", "int16_t": "int8_t",
}  # fmt: skip
UNSIGNED = {
    "int8_t": "uint8_t", "uint8_t": "int8_t", "int16_t": "uint16_t", "uint16_t": "int16_t", "signed char": "uint8_t",
    "char": "unsigned char", "unsigned char": "signed char",
}  # fmt: skip
SMALLEST_OVERFLOW = 1 << 15


def subscripts(code: Code) -> Iterator[tuple[int, int]]:
    """Yields [start, stop) of what stands in the brackets of every subscript that is no declaration."""
    declared = {d.name for d in code.declared if d.array}
    for index in code.indices("["):
        if index in code.match and code.is_binary(index) and index - 1 not in declared:
            yield index + 1, code.match[index]


def addresses(code: Code) -> Iterator[tuple[int, int]]:
    """Yields subscripts, and what is added to a pointer where one is made or read: `x + r * n`."""
    yield from subscripts(code)
    for found in code.declared:
        if found.pointer and found.init:
            yield found.init
    for index in code.indices("*", "&"):
        if not code.is_binary(index) and code.word(index + 1) == "(" and index + 1 in code.match:
            yield index + 2, code.match[index + 1]


def wrong_index(code: Code) -> Iterator[Edit]:
    """The element beside the one that is meant."""
    for start, stop in subscripts(code):
        yield edit((*code.place(start, stop), f"{code.span(start, stop)} + 1"))


def wrong_broadcast(code: Code) -> Iterator[Edit]:
    """A value is taken from the wrong row or column: `i % n` for `i / n`, one loop's index for another's."""
    for start, stop in addresses(code):
        for index in range(start, stop):
            if code.word(index) in ("/", "%") and code.is_binary(index):
                yield edit((*code.place(index, index + 1), "%" if code.word(index) == "/" else "/"))
        if stop == start + 1 and code.kind(start) == "name":
            for other in _other_indices(code, start):
                yield edit((*code.place(start, stop), other))
    for found in code.declared:
        if found.init and not found.pointer and "float" not in code.span(*found.type):
            for index in range(*found.init):
                if code.word(index) == "%" and code.is_binary(index):
                    yield edit((*code.place(index, index + 1), "/"))


def _other_indices(code: Code, at: int) -> Iterator[str]:
    """Yields the variables of the loops around a token, other than itself."""
    for loop in code.loops:
        if loop.body[0] <= at < loop.body[1]:
            for index in range(*loop.init):
                name = code.word(index - 1)
                if code.word(index) == "=" and name != code.word(at):
                    yield name


def wrong_stride(code: Code) -> Iterator[Edit]:
    """Rows lie one element nearer to each other than they do, or at no distance at all."""
    for start, stop in addresses(code):
        for index in range(start, stop):
            if code.word(index) != "*" or not code.is_binary(index):
                continue
            after, before = code.operand_after(index), code.operand_before(index)
            if after is None or before is None:
                continue
            text = code.span(index + 1, after)
            yield edit((*code.place(index + 1, after), f"({text} - 1)"))
            yield edit((code.tokens[index - 1].stop, code.tokens[after - 1].stop, ""))


def int_overflow(code: Code) -> Iterator[Edit]:
    """A whole number is kept in too few bits."""
    for found in code.declared:
        if found.first and not found.pointer and not _counts_few(code, found):
            yield from _retyped(code, found, NARROWER)
    for index in code.indices("static_cast"):
        if code.word(index + 1) == "<" and code.word(index + 3) == ">" and code.word(index + 2) in NARROWER:
            yield edit((*code.place(index + 2, index + 3), NARROWER[code.word(index + 2)]))
    for opened in code.indices("("):
        inside = code.match.get(opened, 0)
        known = code.is_cast(opened) and inside == opened + 2 and code.word(opened + 1) in NARROWER
        if known and code.operand_after(inside) is not None and code.kind(opened - 1) != "name":
            yield edit((*code.place(opened + 1, inside), NARROWER[code.word(opened + 1)]))


def _counts_few(code: Code, found: Declared) -> bool:
    """Tells whether a name counts a loop up to a number that fits into every type."""
    for loop in code.loops:
        if loop.init[0] <= found.name < loop.init[1]:
            part = code.split(*loop.condition, "&&")[0]
            limit = code.constant(part[0] + 2, part[1])
            return limit is not None and limit < SMALLEST_OVERFLOW
    limit = code.constant(*found.init) if found.init and "constexpr" in code.span(*found.type) else None
    return limit is not None and limit < SMALLEST_OVERFLOW


def lost_sign_bit(code: Code) -> Iterator[Edit]:
    """A byte or half word is read as signed where it is not, or the other way round."""
    for found in code.declared:
        if found.first:
            yield from _retyped(code, found, UNSIGNED)


def _retyped(code: Code, found: Declared, table: dict[str, str]) -> Iterator[Edit]:
    words = [i for i in range(*found.type) if code.word(i) in table or code.word(i) in ("long", "unsigned", "signed")]
    if words and words == list(range(words[0], words[-1] + 1)):
        new = table.get(code.span(words[0], words[-1] + 1))
        if new:
            yield edit((*code.place(words[0], words[-1] + 1), new))


def stale_storage(code: Code) -> Iterator[Edit]:
    """A buffer keeps what the iteration, stage or row before left in it."""
    for found in code.declared:
        inside = any(loop.body[0] <= found.name < loop.body[1] for loop in code.loops)
        words = {code.word(i) for i in range(*found.type)}
        if inside and found.init and found.array and not words & {"const", "constexpr", "static", "__shared__"}:
            start = code.tokens[found.type[0]].start
            yield edit((start, start, "static thread_local "))
    for index in code.indices("^"):
        if code.is_binary(index) and code.word(index + 1) == "1":
            yield edit((*code.place(index, index + 2), ""))
    for index in code.indices("-"):
        if code.word(index - 1) == "1" and code.word(index - 2) in ("[", "=", "(") and code.kind(index + 1) == "name":
            yield edit((*code.place(index - 1, index + 1), ""))
    for index in code.indices("%"):
        # (stage + 1) % 2: the buffer that is being read instead of the next one.
        opened = code.match.get(index - 1, index)
        if code.word(index + 1) == "2" and code.word(opened) == "(" and code.word(opened + 2) == "+":
            yield edit((*code.place(opened, index), code.word(opened + 1)))
