"""Mutation: real kernel bugs, planted by name in any CUDA, C++, Triton or cuTile source.

`mutants(source, language)` gives every way in which the operators of `OPERATORS` can break a source, each as a
located value. What a test, or the judge, does not notice of them is what it cannot see. The idea is mutation
analysis (DeMillo, Lipton & Sayward 1978); the operators here are bugs that GPU and SIMD kernels really have.
Not here: running mutants (run/mutate.py and trial.py).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kernelwright.errors import UserError
from kernelwright.mutation.mutant import Finder, Mutant, Operator, made
from kernelwright.mutation.operators import OPERATORS
from kernelwright.mutation.python_source import Module, normalised
from kernelwright.mutation.tokens import Code, scan
from kernelwright.types import SourceFile

__all__ = ["LANGUAGES", "OPERATORS", "Mutant", "Operator", "language_of", "mutants"]

CLIKE, PYTHON = ("cpp", "cuda"), ("triton", "cutile", "cute", "python")
LANGUAGES = (*CLIKE, *PYTHON)
SUFFIXES = {
    ".cpp": "cpp", ".cc": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".h": "cpp", ".c": "cpp", ".cu": "cuda", ".cuh": "cuda",
    ".py": "triton",
}  # fmt: skip


def language_of(path: str) -> str:
    """Returns the language that a file's name stands for.

    Raises:
        UserError: when it stands for none.
    """
    suffix = path[path.rfind(".") :] if "." in path else ""
    if suffix not in SUFFIXES:
        raise UserError(
            f"{path} is no kernel that can be mutated", f"its name must end with one of {' '.join(SUFFIXES)}"
        )
    return SUFFIXES[suffix]


def mutants(
    source: SourceFile, language: str, *, operators: Sequence[str] = (), limit: int | None = None, seed: int = 0
) -> tuple[Mutant, ...]:
    """Returns the mutants of a source in the order of their places; the same for the same arguments, everywhere.

    Of mutants whose sources differ in nothing but layout the first is kept, and none is the original.

    Args:
        source: the kernel's text.
        language: one of `LANGUAGES`.
        operators: names of the operators to use; empty: all that apply to the language.
        limit: at most so many, drawn so that every operator keeps its share.
        seed: of that draw.

    Raises:
        UserError: for an unknown language or operator, or a Python source that cannot be parsed.
    """
    chosen = _chosen(language, operators)
    parsed = Code(source.text) if language in CLIKE else Module(source.text, source.path)
    seen = {_normal(source.text, language)}
    found: list[Mutant] = []
    for operator, finder in chosen:
        edits = sorted(finder(parsed), key=lambda change: change.changes)
        for change in edits:
            mutant = made(source, operator.name, change)
            if (normal := _normal(mutant.source.text, language)) not in seen:
                seen.add(normal)
                found.append(mutant)
    if limit is not None and len(found) > limit:
        found = _drawn(found, limit, seed)
    rank = {operator.name: place for place, (operator, _) in enumerate(chosen)}
    return tuple(sorted(found, key=lambda m: (m.line, m.column, rank[m.operator], m.after)))


def _chosen(language: str, names: Sequence[str]) -> list[tuple[Operator, Finder]]:
    if language not in LANGUAGES:
        raise UserError(f"there is no language {language!r} to mutate", f"choose one of {', '.join(LANGUAGES)}")
    known = {operator.name: operator for operator in OPERATORS}
    if unknown := [name for name in names if name not in known]:
        raise UserError(f"there is no operator {unknown[0]!r}", f"known are {', '.join(known)}")
    finders = ((o, o.clike if language in CLIKE else o.python) for o in OPERATORS if not names or o.name in names)
    return [(operator, finder) for operator, finder in finders if finder]


def _normal(text: str, language: str) -> str:
    if language in PYTHON:
        try:
            return normalised(text)
        except SyntaxError:
            return text
    return " ".join(_words(text))


def _words(text: str) -> Iterator[str]:
    return (token.text if token.kind != "directive" else f"\n{token.text}\n" for token in scan(text))


def _drawn(found: list[Mutant], limit: int, seed: int) -> list[Mutant]:
    """Returns `limit` mutants, taken from the operators in turns so that rare ones are among them."""
    generator = random.Random(seed)
    groups: dict[str, list[Mutant]] = {}
    for mutant in found:
        groups.setdefault(mutant.operator, []).append(mutant)
    for group in groups.values():
        generator.shuffle(group)
    drawn: list[Mutant] = []
    while len(drawn) < limit:
        for group in groups.values():
            if group and len(drawn) < limit:
                drawn.append(group.pop())
    return drawn
