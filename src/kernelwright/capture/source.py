"""From what the user typed to a draft of the problem: files, entry, and the specs of its inputs.

The draft has no parameters and outputs yet; the worker completes it by running the reference.
Nothing of the user's is executed here: files are read and parsed only.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from pathlib import Path

from kernelwright import problems
from kernelwright.capture import names, siblings, specs
from kernelwright.errors import SourceError, UserError
from kernelwright.types import Axis, Problem, SourceFile, TensorSpec, Workload, replace

CONTRACT = ("Model", "get_inputs", "get_init_inputs")
FORMS = "give a built-in's name, a file.py that defines Model, or file.py:function with --input"
EXAMPLE_SPEC = "float32[1024,1024]"


def draft(
    source: str,
    *,
    inputs: tuple[str, ...] = (),
    evaluation: bool = False,
    axes: tuple[Axis, ...] = (),
    gradients: tuple[str, ...] = (),
) -> Problem:
    """Returns the problem behind a source, still without parameters, outputs and counts.

    Args:
        source: a built-in's name, `file.py`, or `file.py:function`.
        inputs: one `--input` text for each argument of the function.
        evaluation: whether the reference is put into evaluation mode.
        axes: sizes that vary, with sizes still 0 (capture/axes.py).
        gradients: names of inputs and parameters as the user wrote them, `*` for all.

    Raises:
        UserError: for anything that cannot be a reference; the fix says what to type instead.
    """
    return replace(_draft(source, inputs, evaluation), axes=axes, gradients=gradients)


def _draft(source: str, inputs: tuple[str, ...], evaluation: bool) -> Problem:
    if source in problems.names():
        return _builtin(source, inputs, evaluation)
    path, function = _split(source)
    _check_path(path, source)
    main, tree = siblings.read(path, path.name)
    folder = path.resolve().parent
    files = siblings.collect(main, tree, folder)
    if function is None:
        _check_contract(tree, path, inputs)
        description = _summary(tree)
        return _problem(path.stem, files, "Model", evaluation=evaluation, description=description, origin=str(folder))
    definition = _find_function(tree, function, path)
    return _problem(
        f"{path.stem}.{function}",
        files,
        function,
        inputs=_arguments(definition, inputs, f"{path}:{function}"),
        evaluation=evaluation,
        description=_summary(definition),
        origin=str(folder),
    )


def _builtin(name: str, inputs: tuple[str, ...], evaluation: bool) -> Problem:
    if inputs:
        raise UserError(f"{name} is a built-in problem and draws its own inputs", "leave out --input")
    entry = problems.get(name)
    files = (SourceFile(path=f"{name}.py", text=problems.source_text(name)),)
    return _problem(name, files, "Model", evaluation=evaluation, description=f"{entry.description} ({entry.model})")


def _problem(
    name: str,
    files: tuple[SourceFile, ...],
    entry: str,
    *,
    inputs: tuple[TensorSpec, ...] = (),
    evaluation: bool,
    description: str,
    origin: str = "",
) -> Problem:
    return Problem(
        name=name,
        inputs=inputs,
        parameters=(),
        outputs=(),
        reference=files,
        entry=entry,
        evaluation=evaluation,
        workloads=(Workload(name="given", generator="source" if entry == "Model" else "spec"),),
        min_bytes=0,
        description=description,
        origin=origin,
    )


# ------------------------------------------------------------------------------- paths


def _split(source: str) -> tuple[Path, str | None]:
    head, colon, tail = source.rpartition(":")
    if colon and not Path(source).exists():
        if not tail.isidentifier():
            raise UserError(f"{source!r} names no function after the colon", FORMS)
        return Path(head).expanduser(), tail
    return Path(source).expanduser(), None


def _check_path(path: Path, source: str) -> None:
    if path.is_dir():
        files = sorted(p.name for p in path.glob("*.py"))
        fix = f"name a file in it, such as {path / files[0]}" if files else FORMS
        raise UserError(f"{path} is a folder", fix)
    if not path.exists():
        raise UserError(f"no such file: {path}" if path.suffix else f"no built-in or file {source!r}", _near(path))
    if path.suffix != ".py":
        raise UserError(f"{path} is not a .py file", "give a Python file that defines Model or a function")


def _near(path: Path) -> str:
    """Returns a fix that names what the user may have meant."""
    there = {p.name: p for p in path.parent.glob("*.py")} if path.parent.is_dir() else {}
    close = difflib.get_close_matches(path.name, there, n=2) or difflib.get_close_matches(path.name + ".py", there, n=1)
    suggestions = [str(there[name]) for name in close]
    if path.parent == Path():
        suggestions += [name for name in problems.close_names(path.stem) if name not in suggestions]
    if suggestions:
        return f"did you mean {' or '.join(suggestions)}?"
    return "`kernelwright problems` lists the built-ins" if not path.suffix else "check the path"


# --------------------------------------------------------------------------- contracts


def _check_contract(tree: ast.Module, path: Path, inputs: tuple[str, ...]) -> None:
    bound = set(_bound(tree))
    missing = [name for name in CONTRACT if name not in bound]
    if "*" in bound or not missing:
        if inputs:
            raise UserError(f"{path} draws its inputs with get_inputs", "leave out --input, or name path.py:function")
        return
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if "Model" not in missing:
        returned = {"get_inputs": "[torch.randn(64, 64)]", "get_init_inputs": "[]"}
        examples = (f"`def {name}(): return {returned[name]}`" for name in missing)
        raise SourceError(f"{path} defines Model but not {' and '.join(missing)}", f"add {' and '.join(examples)}")
    modules = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if modules and not functions:
        fix = f"name the module Model (such as `Model = {modules[0]}`) and add get_inputs and get_init_inputs"
        raise SourceError(f"{path} defines no Model; it defines {', '.join(modules)}", fix)
    candidates = [name for name in functions if name not in CONTRACT]
    if candidates:
        listed = ", ".join(candidates + modules)
        fix = f'name a function: {path}:{candidates[0]} --input "{EXAMPLE_SPEC}"'
        raise SourceError(f"{path} defines no Model; it defines {listed}", fix)
    raise SourceError(f"{path} defines no Model and no function", FORMS)


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yields each name that a module binds at its top level, inside if and try too; `*` for a star import."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        else:
            yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            pending.extend(child for child in ast.walk(node) if child is not node and isinstance(child, ast.stmt))


def _find_function(tree: ast.Module, name: str, path: Path) -> ast.FunctionDef:
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name in functions:
        return functions[name]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            fix = "name it Model and add get_inputs and get_init_inputs, or wrap it in a function"
            raise SourceError(f"{path}:{node.lineno}: {name} is a class, not a function", fix)
        if isinstance(node, ast.AsyncFunctionDef) and node.name == name:
            raise SourceError(f"{path}:{node.lineno}: {name} is asynchronous", "give a plain function")
    if name in _bound(tree):
        raise SourceError(f"{name} is not defined with `def` in {path}", "name the file that defines it")
    close = difflib.get_close_matches(name, functions, n=1)
    listed = f"it defines {', '.join(functions)}" if functions else "the file defines none"
    fix = f"did you mean {path}:{close[0]}?" if close else listed
    raise SourceError(f"{path} has no function {name!r}", fix)


def _arguments(definition: ast.FunctionDef, inputs: tuple[str, ...], shown: str) -> tuple[TensorSpec, ...]:
    """Returns the specs of a function's inputs, named after its parameters."""
    signature = definition.args
    positional = [a.arg for a in (*signature.posonlyargs, *signature.args)]
    required = positional[: len(positional) - len(signature.defaults)]
    only = [a.arg for a, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True) if default is None]
    if only:
        fix = "give it a default, or move it before the *"
        raise SourceError(f"{shown} has a keyword-only parameter without a default: {only[0]}", fix)
    if not positional and not signature.vararg:
        raise SourceError(f"{shown} takes no arguments", "give a function of at least one tensor")
    wanted = positional
    if signature.vararg:
        extra = len(inputs) - len(positional)
        wanted = positional + [f"{signature.vararg.arg}{i}" for i in range(extra)]
        required = required or [signature.vararg.arg]
    if not len(required) <= len(inputs) <= len(wanted):
        few = len(inputs) < len(required)
        listed = ", ".join(required if few else wanted)
        count = f"{len(inputs)} --input" if inputs else "no --input"
        example = " ".join([f'--input "{EXAMPLE_SPEC}"'] * min(len(required) if few else len(wanted), 3))
        raise UserError(f"{shown} takes {listed}, but {count} {'is' if len(inputs) < 2 else 'are'} given", example)
    safe = names.identifiers(wanted[: len(inputs)])
    return tuple(specs.parse(text, name) for text, name in zip(inputs, safe, strict=True))


def _summary(tree: ast.Module | ast.FunctionDef) -> str:
    return (ast.get_docstring(tree) or "").strip().partition("\n")[0]
