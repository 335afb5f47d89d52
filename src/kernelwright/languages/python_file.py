"""A Python file that a person wrote becomes a witnessed candidate, with the local files that it imports.

Not here: C++ files (kernel_file.py), and whether it can be loaded (judge/witness).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.types import Candidate, LaunchPlan, Problem, SourceFile, digest

Reader = Callable[[Path, Path], str]


def candidate_from_python(problem: Problem, file: Path, read: Reader) -> Candidate:
    """Returns the candidate that a Python file is.

    Args:
        problem: what it computes.
        file: its first source.
        read: gives a file's text; its second argument is what the user named.

    Raises:
        UserError: when a file cannot be read, or plainly defines neither `ModelNew` nor the reference's function.
    """
    found: dict[str, SourceFile] = {}
    todo = [file.name]
    while todo:
        name = todo.pop(0)
        if name not in found:
            text = read(file.parent / name, file)
            found[name] = SourceFile(path=name, text=text)
            todo += _imported(text, name, file.parent)
    _check_defines(problem, file, found[file.name].text)
    return Candidate(
        problem=digest(problem),
        language="python",
        sources=tuple(found.values()),
        plan=LaunchPlan(steps=()),
        author="person",
    )


def _imported(text: str, name: str, folder: Path) -> list[str]:
    """Files beside the first one, or below its folder, that a source imports by their names."""
    tree = _parsed(text)
    if tree is None:
        return []
    modules: list[str] = []
    package = Path(name).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join([*base, *([node.module] if node.module else [])])
            modules += [start, *(f"{start}.{alias.name}" if start else alias.name for alias in node.names)]
    return [path for module in modules for path in _files_of(module, folder)]


def _files_of(module: str, folder: Path) -> list[str]:
    parts = module.split(".") if module else []
    found = []
    for count in range(1, len(parts) + 1):
        stem = "/".join(parts[:count])
        found += [path for path in (f"{stem}.py", f"{stem}/__init__.py") if (folder / path).is_file()]
    return found


def _wanted(problem: Problem) -> set[str]:
    return {"ModelNew"} if problem.entry == "Model" else {"ModelNew", problem.entry}


def defines(problem: Problem, text: str, *, besides: frozenset[str] = frozenset()) -> bool:
    """Tells whether a text names what a witnessed candidate must define, `besides` what is known to be none."""
    return any(word in text for word in _wanted(problem) - besides)


def _check_defines(problem: Problem, file: Path, text: str) -> None:
    tree = _parsed(text)
    if tree is None:  # the build says where
        return
    wanted = _wanted(problem)
    if not defines(problem, text):
        what = "a class ModelNew (torch.nn.Module)"
        other = "" if problem.entry == "Model" else f" or a function {problem.entry}"
        raise UserError(f"{file} defines no {' and no '.join(sorted(wanted))}", f"define {what}{other}")


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
