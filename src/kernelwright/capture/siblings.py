"""Which files of the user's own folder a reference needs, found by reading its imports.

Covers: `import name`, `import package.module`, `from name import x` at any depth of the file, and
everything that those files import in turn, relative imports inside packages included.
Does not cover: imports by a computed name, and data files that the reference opens itself; these
resolve only on the machine that holds the folder (Problem.origin).
"""

from __future__ import annotations

import ast
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from kernelwright.errors import SourceError
from kernelwright.types import SourceFile

MAX_SHOWN = 80
"""Characters of a line with a syntax error."""
MAX_BYTES = 8 << 20
"""All carried files together; a reference that needs more is importing something unintended."""


def collect(main: SourceFile, tree: ast.Module, folder: Path) -> tuple[SourceFile, ...]:
    """Returns the main file, then every file below `folder` that it imports, in the order found.

    Raises:
        SourceError: for a relative import in the main file, a syntax error or too much text.
    """
    found = {main.path: main}
    pending = [(PurePosixPath(main.path), tree)]
    while pending:
        path, tree = pending.pop(0)
        for module in _imported(path, tree, main.path):
            for name in _files(module, folder):
                if name in found:
                    continue
                if not (folder / name).exists():
                    found[name] = SourceFile(path=name, text="")
                    continue
                file, parsed = read(folder / name, name)
                found[name] = file
                pending.append((PurePosixPath(name), parsed))
    total = sum(len(file.text) for file in found.values())
    if total > MAX_BYTES:
        raise SourceError(
            f"{main.path} imports {total >> 20} MB of files from {folder}", "move it to a folder of its own"
        )
    return tuple(found.values())


def read(path: Path, name: str) -> tuple[SourceFile, ast.Module]:
    """Returns a file's text and its syntax tree.

    Args:
        path: where it lies.
        name: what it is called in messages and in the problem.

    Raises:
        SourceError: when it cannot be read or is not Python; the message holds file, line and text.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        return SourceFile(path=name, text=text), ast.parse(text, filename=name)
    except OSError as error:
        raise SourceError(f"{name} cannot be read: {error.strerror}", "check its permissions") from None
    except UnicodeDecodeError:
        raise SourceError(f"{name} is not UTF-8 text", "save it as UTF-8") from None
    except SyntaxError as error:
        line = textwrap.shorten(error.text or "", MAX_SHOWN, placeholder=" ...") or (error.text or "")[:MAX_SHOWN]
        shown = f": `{line.strip()}`" if line.strip() else ""
        place = f"{name}:{error.lineno}" if error.lineno else name
        raise SourceError(f"{place}: {error.msg}{shown}", "correct the syntax there") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceError(f"{name} cannot be parsed: {error}", "is it Python source?") from None


def _imported(path: PurePosixPath, tree: ast.Module, main: str) -> Iterator[tuple[str, ...]]:
    """Yields each imported module as its parts, and `package.name` for each imported name as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base: tuple[str, ...] = ()
            if node.level:
                if str(path) == main:
                    raise SourceError(
                        f"{main}:{node.lineno}: relative import in a file that belongs to no package",
                        f"write `from {node.module or '...'} import ...` without the dot",
                    )
                parents = path.parts[:-1]
                base = parents[: len(parents) - (node.level - 1)]
            base += tuple(node.module.split(".")) if node.module else ()
            if base:
                yield base
            yield from ((*base, alias.name) for alias in node.names)


def _files(module: tuple[str, ...], folder: Path) -> Iterator[str]:
    """Yields the paths, relative to the folder, of the files that importing a module runs.

    A folder without `__init__.py` yields one all the same: carried empty, it resolves elsewhere too.
    """
    if module[0] in sys.stdlib_module_names or module[0] in ("torch", "numpy", "kernelwright"):
        return
    for depth in range(1, len(module) + 1):
        stem = "/".join(module[:depth])
        package = folder / stem / "__init__.py"
        if package.is_file():
            yield f"{stem}/__init__.py"
        elif (folder / f"{stem}.py").is_file():
            yield f"{stem}.py"
            return
        elif (folder / stem).is_dir() and any((folder / stem).glob("**/*.py")):
            yield f"{stem}/__init__.py"
        else:
            return
