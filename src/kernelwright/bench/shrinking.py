"""Smaller copies of tasks, for machines on which the published sizes would take hours.

The whole numbers that a file assigns at its top level are divided by powers of two until none is larger than a cap:
divisors, kernel sizes and numbers of groups stay what they are to each other. A copy that does not run is made anew
with a larger cap. Numbers for GPUs are not comparable with those of a shrunk task, and every row says its cap.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SMALLEST = 16
"""Numbers up to this are left alone: kernel sizes, groups, heads."""


def shrunk(text: str, cap: int) -> str:
    """Returns a file's text with its top-level whole numbers divided by powers of two until they are at most `cap`."""
    lines = text.splitlines(keepends=True)
    places = sorted(_numbers(ast.parse(text)), key=lambda n: (n.lineno, n.col_offset), reverse=True)
    for place in places:
        number = place.value
        assert isinstance(number, int)
        while number > max(cap, SMALLEST) and number % 2 == 0:
            number //= 2
        if place.end_col_offset is not None:
            line = lines[place.lineno - 1].encode()
            changed = line[: place.col_offset] + str(number).encode() + line[place.end_col_offset :]
            lines[place.lineno - 1] = changed.decode()
    return "".join(lines)


def _numbers(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yields the whole numbers that are assigned to names outside of functions and classes."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            for node in ast.walk(statement.value):
                whole = isinstance(node, ast.Constant) and type(node.value) is int
                if isinstance(node, ast.Constant) and whole and node.value > SMALLEST:  # type: ignore[operator]
                    yield node


def write(source: Path, folder: Path, cap: int) -> Path:
    """Writes a shrunk copy of a task and returns where it is."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / source.name
    path.write_text(shrunk(source.read_text(encoding="utf-8"), cap), encoding="utf-8")
    return path
