"""Mutations of C-like code: statements that are missing."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.mutation.concurrency import BARRIERS, METHODS
from kernelwright.mutation.mutant import Edit, edit
from kernelwright.mutation.tokens import QUALIFIERS, TYPE_WORDS, Code


def _writes_memory(code: Code, start: int, at: int) -> bool:
    """Tells whether the assignment at `at` goes through a pointer or into an array."""
    return code.word(at - 1) == "]" or code.word(start) == "*" or (code.word(start) == "(" and code.word(at - 1) == ")")


def dropped_write(code: Code) -> Iterator[Edit]:
    """A result is computed and not written."""
    for start, stop in code.statements():
        at = code.assignment(start, stop)
        if at and code.word(start) not in TYPE_WORDS | QUALIFIERS and _writes_memory(code, start, at):
            yield edit((*code.place(start, stop - 1), ""))


def deleted_statement(code: Code) -> Iterator[Edit]:
    """An update of a variable, or a call that prepares memory, is missing."""
    for start, stop in code.statements():
        if code.word(start) in TYPE_WORDS | QUALIFIERS:
            continue
        at = code.assignment(start, stop)
        if at and not _writes_memory(code, start, at):
            yield edit((*code.place(start, stop - 1), ""))
        elif at is None and code.word(stop - 2) == ")":
            head = code.match.get(stop - 2, 0) - 1
            name = code.word(head)
            if code.kind(head) == "name" and name not in (*BARRIERS, *METHODS, "asm", "__asm__", "volatile"):
                yield edit((*code.place(start, stop - 1), ""))
