"""A Python kernel file (Triton, cuTile) as a syntax tree whose nodes know their characters.

Not here: what is changed (python_operators.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.errors import UserError

DECORATORS = ("jit", "kernel", "function")
"""Last names of decorators that make a function device code."""


class Module:
    """A parsed Python source. Only device functions are looked at, where any function is marked as one.

    Raises:
        UserError: when the text is no Python.
    """

    def __init__(self, text: str, path: str = "kernel.py") -> None:
        self.text = text
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise UserError(
                f"{path}:{line}: no Python: {getattr(error, 'msg', error)}", "mend the file first"
            ) from None
        self._lines = [0]
        for line_text in text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line_text))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        marked = [node for node in functions if any(_is_device(d) for d in node.decorator_list)]
        self.functions = tuple(marked or functions)
        self.nodes = tuple(self._walk())

    def _walk(self) -> Iterator[ast.AST]:
        for function in self.functions:
            for statement in function.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    continue  # a docstring
                yield from ast.walk(statement)

    def place(self, node: ast.AST) -> tuple[int, int]:
        """Returns the characters [start, stop) of a node."""
        start = self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        return start, self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        first = self._lines[line - 1]
        text = self.text[first : self._lines[line]]
        if not text.isascii():
            column = len(text.encode()[:column].decode())
        return first + column

    def source(self, node: ast.AST) -> str:
        """Returns a node's text."""
        start, stop = self.place(node)
        return self.text[start:stop]

    def of(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """Yields the nodes of some kinds."""
        return (node for node in self.nodes if isinstance(node, kinds))

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Yields the calls of functions with these last names, such as `load` for `tl.load`."""
        for node in self.nodes:
            if isinstance(node, ast.Call) and last_name(node.func) in names:
                yield node

    def between(self, left: ast.AST, right: ast.AST) -> tuple[int, int]:
        """Returns the characters between two nodes."""
        return self.place(left)[1], self.place(right)[0]


def last_name(node: ast.AST) -> str:
    """Returns `load` of `tl.load`, the name of a name, '' of all else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_device(decorator: ast.AST) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return last_name(node) in DECORATORS


def normalised(text: str) -> str:
    """Returns what two Python sources have in common when they differ in nothing but their layout."""
    return ast.dump(ast.parse(text))
