"""What a kernel file in Python may contain, and which kernels it defines, read without running it.

**Covers**: syntax errors with their line, imports (an allow-list of each language's own modules and the candidate's own
files), names that no kernel file needs (open, exec, eval ...), paths and sizes of the files.
**Does not cover**: what the file does when it is imported: that happens in a process of its own, jailed. This gate is
there for clear messages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kernelwright.types import Failure, OptionValue, SourceFile, value

PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*){0,4}\.py")
TOTAL_LIMIT_BYTES = 1 << 20
_REFUSED_NAMES = "open exec eval compile __import__ input breakpoint exit quit globals vars __builtins__ __loader__"
REFUSED = frozenset(_REFUSED_NAMES.split())


@value
class KernelParameter:
    """One parameter of a kernel function, as the source writes it."""

    name: str
    constant: bool
    """True where the annotation says that the value is fixed when the kernel is compiled."""
    default: OptionValue | None
    """The default, where it is a plain literal."""
    annotation: str
    line: int


@value
class KernelFunction:
    """One kernel that a source defines."""

    name: str
    parameters: tuple[KernelParameter, ...]
    decorators: tuple[str, ...]
    path: str
    line: int
    """Where its `def` stands."""

    @property
    def location(self) -> str:
        """file:line."""
        return f"{self.path}:{self.line}"

    @property
    def arguments(self) -> tuple[KernelParameter, ...]:
        """The parameters that a launch passes: those that are not fixed when the kernel is compiled."""
        return tuple(parameter for parameter in self.parameters if not parameter.constant)


def check_sources(sources: tuple[SourceFile, ...], allowed: tuple[str, ...]) -> Failure | None:
    """Returns why these files may not be imported, None where they may.

    Args:
        sources: the candidate's files.
        allowed: modules that may be imported, by exact name; `triton.language.*` means those below it.
    """
    if not sources:
        return _refuse("source", "the candidate has no source file")
    if sum(len(source.text) for source in sources) > TOTAL_LIMIT_BYTES:
        return _refuse("source", f"the sources are larger than {TOTAL_LIMIT_BYTES} bytes together")
    seen: set[str] = set()
    for source in sources:
        if not PATH.fullmatch(source.path):
            return _refuse("source", f"{source.path!r} is no usable file name: relative, without '..', ending in .py")
        if source.path in seen:
            return _refuse("source", f"the candidate has two files named {source.path!r}")
        seen.add(source.path)
    own = frozenset(path.removesuffix(".py").replace("/", ".") for path in seen)
    return next((fault for source in sources if (fault := _check_file(source, own, allowed))), None)


def _check_file(source: SourceFile, own: frozenset[str], allowed: tuple[str, ...]) -> Failure | None:
    tree = parse(source)
    if isinstance(tree, Failure):
        return tree
    for node in ast.walk(tree):
        where = f"{source.path}:{getattr(node, 'lineno', 0)}"
        for module in imported(node):
            if module not in own and not any(module == name or _below(module, name) for name in allowed):
                message = f"import of {module!r}: a kernel file may import {', '.join(allowed)} and its own files"
                return _refuse("import", message, where)
        if isinstance(node, ast.Name) and node.id in REFUSED:
            return _refuse("name", f"{node.id!r} is not for kernel files", where)
        if isinstance(node, ast.Attribute) and node.attr.startswith("__") and node.attr.endswith("__"):
            return _refuse("name", f"{node.attr!r} is not for kernel files", where)
    return None


def _below(module: str, name: str) -> bool:
    return name.endswith(".*") and module.startswith(name[:-1])


def imported(node: ast.AST) -> Iterator[str]:
    """Yields the modules that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif isinstance(node, ast.ImportFrom):
        if node.level:
            yield "." * node.level + (node.module or "")
        elif node.module in ("cuda", "triton"):  # `from cuda import tile`: what is imported is a module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        else:
            yield node.module or ""


def parse(source: SourceFile) -> ast.Module | Failure:
    """Returns a source's syntax tree, or the failure that names the line of its syntax error."""
    try:
        return ast.parse(source.text, filename=source.path)
    except SyntaxError as error:
        caret = f"\n{error.text.rstrip()}\n{' ' * max(0, (error.offset or 1) - 1)}^" if error.text else ""
        where = f"{source.path}:{error.lineno or 0}"
        return Failure(stage="build", kind="syntax", message=error.msg, location=where, detail=error.msg + caret)
    except (ValueError, RecursionError, MemoryError) as error:
        return Failure(stage="build", kind="syntax", message=f"{source.path} cannot be read as Python: {error}")


def kernels(source: SourceFile, *, decorator: str, constant: str) -> tuple[KernelFunction, ...]:
    """Returns the functions of a source that carry a decorator, in their order.

    Args:
        source: Python text that has no syntax error.
        decorator: the last name of the decorator: `jit` for `@triton.jit`.
        constant: the last name of an annotation that fixes a parameter's value when compiling: `constexpr`.
    """
    tree = parse(source)
    if isinstance(tree, Failure):
        return ()
    found = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        decorators = tuple(ast.unparse(d) for d in node.decorator_list)
        if not any(d.split("(")[0].rpartition(".")[2] == decorator for d in decorators):
            continue
        found.append(
            KernelFunction(
                name=node.name,
                parameters=tuple(_parameters(node, constant)),
                decorators=decorators,
                path=source.path,
                line=node.lineno,
            )
        )
    return tuple(found)


def _parameters(node: ast.FunctionDef, constant: str) -> Iterator[KernelParameter]:
    listed = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [None] * (len(listed) - len(node.args.defaults)) + list(node.args.defaults)
    keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    for argument, default in [*zip(listed, defaults, strict=True), *keywords]:
        annotation = ast.unparse(argument.annotation) if argument.annotation else ""
        literal = default.value if isinstance(default, ast.Constant) else None
        yield KernelParameter(
            name=argument.arg,
            constant=bool(re.search(rf"\b{constant}\b", annotation)),
            default=literal if isinstance(literal, str | int | float | bool) else None,
            annotation=annotation,
            line=argument.lineno,
        )


def _refuse(kind: str, message: str, location: str = "") -> Failure:
    return Failure(stage="build", kind=kind, message=message, location=location)
