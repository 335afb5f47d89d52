"""A kernel that a person wrote: one `.cpp` or `.cu` file becomes a candidate (for `.cu` see device_file.py, for
witnessed `.py` files python_file.py).

The launch plan is inferred where the file has exactly one `extern "C"` function whose parameters
are the problem's tensors by name. Otherwise the file says it, in a comment anywhere in it:

    // kernelwright-plan: {
    //   "steps": [
    //     {"call": "partial_sums", "arguments": ["x", "partial", {"name": "rows", "type": "int64_t", "value": 4096}]},
    //     {"call": "finish", "arguments": ["partial", "out"]}
    //   ],
    //   "workspaces": {"partial": {"type": "float", "count": 4096}},
    //   "options": {"opt": "O2"}
    // }

A string names a tensor, a workspace or a dynamic axis; its C type follows from the problem or the workspace (an axis
is int64_t; {"name": "B", "type": "int32_t"} without a value is one as well). Where sizes vary, a workspace's count can
be an expression over the axes: "B * 32". `workspaces` and `options` may be left out. Options alone
(`{"options": {...}}`) keep the inferred steps.
Not here: whether it compiles (cpp.py) or is right (judge).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from kernelwright.errors import UserError
from kernelwright.languages import device_file, gate, python_file, tile_file
from kernelwright.languages.plan import ELEMENT_BYTES, check_plan, element_ctype, pointer_ctype, signature
from kernelwright.types import (
    Binding,
    Candidate,
    LaunchPlan,
    OptionValue,
    Problem,
    Size,
    SourceFile,
    Step,
    TensorSpec,
    Workspace,
    digest,
)

DEVICE_SUFFIX = ".cu"
PLAN_MARK = "kernelwright-plan:"
LOCAL_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
FUNCTION = re.compile(r'extern\s+"C"\s+([^;{}()"]*?)\b([A-Za-z_]\w*)\s*\(([^()]*)\)\s*(?:noexcept\s*)?\{')
BLOCK = re.compile(r'extern\s+"C"\s*\{')
IN_BLOCK = re.compile(r"(?:^|[;}])\s*(void\s+)([A-Za-z_]\w*)\s*\(([^()]*)\)\s*(?:noexcept\s*)?\{")
PARAMETER = re.compile(r"(.*?)(\*?)\s*(?:__restrict__|__restrict|restrict)?\s*\b([A-Za-z_]\w*)$")
SPELLINGS = {
    "long": "int64_t", "long long": "int64_t", "int": "int32_t", "unsigned char": "uint8_t", "signed char": "int8_t",
    "unsigned short": "uint16_t", "short": "int16_t",
}  # fmt: skip


class _Function(NamedTuple):
    name: str
    returns: str
    parameters: tuple[tuple[str, bool, bool, str], ...]
    """(element type, is const, is a pointer, name)."""


def candidate_from_file(problem: Problem, path: str | Path) -> Candidate:
    """Returns the candidate that a file describes, with the local files that it includes or imports.

    A Python file with launch lines describes tile kernels (tile_file.py).

    Raises:
        UserError: when there is no such file, or its plan cannot be inferred or is wrong; the fix
            lists the problem's tensors with their C types and shows a signature that works.
    """
    file = Path(path)
    if file.suffix == ".py":
        text = file.read_text(errors="replace") if file.is_file() else ""
        names = tile_file.kernel_names(text)
        # Tile kernels that nothing in the file calls lack only their launch lines, which is what to say then.
        if tile_file.language_of(text) or (names and not python_file.defines(problem, text, besides=names)):
            return tile_file.candidate_from_python(problem, file, _read)
        return python_file.candidate_from_python(problem, file, _read)
    sources = sources_of(file)
    if file.suffix == DEVICE_SUFFIX:
        plan, options = device_file.plan_of(sources[0], problem)
        return Candidate(
            problem=digest(problem), language="cuda", sources=sources, plan=plan, options=options, author="person"
        )
    given = _given_plan(sources[0], problem)
    options = _options(given.get("options", {}), sources[0].path, problem)
    if "steps" in given:
        plan = _plan_from(given, sources[0].path, problem)
    else:
        plan = LaunchPlan(steps=(_inferred_step(sources[0], problem),))
    candidate = Candidate(
        problem=digest(problem), language="cpp", sources=sources, plan=plan, options=options, author="person"
    )
    if fault := check_plan(problem, candidate):
        raise UserError(f"{file}: {fault.message}", _advice(problem))
    return candidate


def skeleton(problem: Problem, *, language: str = "cpp") -> str:
    """Returns a kernel file for a problem that compiles, does nothing yet, and shows every name and shape."""
    if language == "cuda":
        return device_file.skeleton(problem)
    name = "kw_" + re.sub(r"\W", "_", problem.name)
    parameters = ",\n".join(f"    {_spaced(pointer_ctype(t))}{t.name}" for t in problem.arguments)
    shapes = "\n".join(f"// {t.name}: {t.dtype}[{', '.join(_dims(problem, t))}], {t.role}" for t in problem.arguments)
    shapes += "".join(f"\n// {axis.name}: {axis.low} to {axis.high}" for axis in problem.axes)
    sizes = "\n".join(
        f"constexpr int64_t {t.name}_{axis} = {size};"
        for t in problem.arguments
        for axis, size in enumerate(t.shape)
        if (t.name, axis) not in {place for found in problem.axes for place in found.places}
    )
    parameters += "".join(f",\n    int64_t {axis.name}" for axis in problem.axes)
    named = [tensor.name for tensor in problem.arguments] + [axis.name for axis in problem.axes]
    unused = "".join(f"    (void){name};\n" for name in named)
    header = f"// {problem.name}: {problem.description}".rstrip(": ").replace("\n", " ")
    return (
        f"{header}\n{shapes}\n"
        "// Buffers are contiguous row-major and 64-byte aligned. Use OpenMP for threads; no input or output.\n"
        f"#include <cmath>\n#include <cstdint>\n\n{sizes}\n\n"
        f'extern "C" void {name}(\n{parameters}) {{\n'
        "    // #pragma omp parallel for\n"
        f"{unused}}}\n"
    )


def _dims(problem: Problem, tensor: TensorSpec) -> list[str]:
    """Returns a tensor's sizes as text; those that vary by their axes' names."""
    named = {place: axis.name for axis in problem.axes for place in axis.places}
    return [named.get((tensor.name, dim), str(size)) for dim, size in enumerate(tensor.shape)]


def _spaced(ctype: str) -> str:
    return f"{ctype} __restrict__ "


def sources_of(file: Path) -> tuple[SourceFile, ...]:
    """Returns a kernel file and, depth first, each local file that it includes; paths relative to its folder.

    Raises:
        UserError: when one cannot be read, or is no source.
    """
    device = file.suffix == DEVICE_SUFFIX
    if file.suffix not in (".cpp", ".cc", ".cxx") and not device:
        raise UserError(f"{file} is no C++, CUDA or Python source", "give a kernel as a .cpp, .cu or .py file")
    found: dict[str, SourceFile] = {}
    todo = [file.name]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        text = _read(file.parent / name, file)
        found[name] = SourceFile(path=name, text=text)
        for included in LOCAL_INCLUDE.findall(text):
            near = Path(name).parent / included
            inside = [p for p in (near.as_posix(), included) if ".." not in p and not p.startswith("/")]
            here = [p for p in inside if (file.parent / p).is_file()]
            if here:
                todo.append(here[0])
            elif not device and included not in gate.HEADERS:
                fix = f"put it beside {file.name}, or below its folder"
                raise UserError(f'{file.parent / name} includes "{included}", which cannot be found', fix)
    return tuple(found.values())


def _read(path: Path, file: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"there is no file {path}", "check the path of the kernel file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}", "save it as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", f"check the path and rights of {file}") from None


# ------------------------------------------------------------------------- given plans


def _given_plan(source: SourceFile, problem: Problem) -> dict[str, Any]:
    lines = source.text.splitlines()
    marked = [
        number for number, line in enumerate(lines) if PLAN_MARK in line and line.lstrip().startswith(("//", "/*", "*"))
    ]
    if not marked:
        return {}
    if len(marked) > 1:
        where = f"{source.path}:{marked[1] + 1}"
        raise UserError(f"{where}: a second {PLAN_MARK}", "keep one plan; it can have several steps")
    text = lines[marked[0]].split(PLAN_MARK, 1)[1]
    for line in lines[marked[0] + 1 :]:
        text += "\n" + re.sub(r"^\s*(//|\*(?!/))", "", line)
    where = f"{source.path}:{marked[0] + 1}"
    try:
        plan, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError as error:
        line_number = marked[0] + getattr(error, "lineno", 1)
        message = f"{source.path}:{line_number}: the plan is no JSON: {getattr(error, 'msg', error)}"
        raise UserError(
            message, "write it as // kernelwright-plan: {...}, each further line starting with //"
        ) from None
    if not isinstance(plan, dict):
        raise UserError(f"{where}: the plan is no JSON object", _advice(problem))
    unknown = sorted(set(plan) - {"steps", "workspaces", "options"})
    if unknown:
        raise UserError(f"{where}: the plan has no member {unknown[0]!r}", "known are steps, workspaces, options")
    return plan


def _options(given: object, path: str, problem: Problem) -> tuple[tuple[str, OptionValue], ...]:
    if not isinstance(given, dict) or not all(isinstance(v, str | int | float | bool) for v in given.values()):
        message = f"{path}: the plan's options are not an object of names and plain values"
        raise UserError(message, 'write "options": {"opt": "O2"}')
    return tuple(sorted(given.items()))


def _plan_from(given: dict[str, Any], path: str, problem: Problem) -> LaunchPlan:
    try:
        spaces = given.get("workspaces", {})
        types = {name: str(space["type"]) for name, space in spaces.items()}
        workspaces = tuple(
            Workspace(name=name, size_bytes=_bytes(space["count"], ELEMENT_BYTES[types[name]]))
            for name, space in spaces.items()
        )
        steps = tuple(
            Step(
                symbol=str(step["call"]),
                arguments=tuple(_binding(item, types, problem) for item in step["arguments"]),
            )
            for step in given["steps"]
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"lacks or does not know {error}" if isinstance(error, KeyError) else f"has the wrong form ({error})"
        raise UserError(f"{path}: the plan {what}", _plan_example(problem)) from None
    return LaunchPlan(steps=steps, workspaces=workspaces)


def _bytes(count: str | int, width: int) -> Size:
    return f"({count}) * {width}" if isinstance(count, str) else int(count) * width


def _binding(item: object, workspaces: dict[str, str], problem: Problem) -> Binding:
    axes = {axis.name for axis in problem.axes}
    if isinstance(item, dict) and "value" not in item and item["name"] in axes:
        return Binding(kind="axis", name=item["name"], ctype=str(item["type"]))
    if isinstance(item, dict):
        return Binding(kind="scalar", name=str(item["name"]), ctype=str(item["type"]), scalar=item["value"])
    if not isinstance(item, str):
        raise TypeError(f"{item!r} is neither a name nor a scalar")
    if item in axes:
        return Binding(kind="axis", name=item, ctype="int64_t")
    if item in workspaces:
        return Binding(kind="workspace", name=item, ctype=workspaces[item])
    tensor = next((t for t in problem.arguments if t.name == item), None)
    return Binding(kind="tensor", name=item, ctype=element_ctype(tensor) if tensor else "float")


# ---------------------------------------------------------------------- inferred plans


def _inferred_step(source: SourceFile, problem: Problem) -> Step:
    functions = _functions(source.text)
    if not functions:
        raise UserError(f'{source.path} defines no extern "C" function', _advice(problem))
    if len(functions) > 1:
        listed = ", ".join(function.name for function in functions)
        message = f'{source.path} has {len(functions)} extern "C" functions ({listed}), so their order is not known'
        raise UserError(message, "say it in a plan: " + _plan_example(problem))
    function = functions[0]
    where = f"{source.path}: {function.name}"
    if function.returns != "void":
        raise UserError(f"{where} returns {function.returns}, not void", _advice(problem))
    tensors = {tensor.name: tensor for tensor in problem.arguments}
    bindings = []
    axes = {axis.name for axis in problem.axes}
    for element, const, pointer, name in function.parameters:
        if not pointer and name in axes:
            bindings.append(Binding(kind="axis", name=name, ctype=SPELLINGS.get(element, element)))
            continue
        if not pointer:
            what = f"{element} {name}".strip()
            sizes = ", ".join(sorted(axes))
            fix = (
                f"sizes that vary are {sizes}; " if axes else "use a constexpr for sizes, since all shapes are fixed, "
            )
            fix += "or give the value in a plan: "
            raise UserError(
                f"{where}: the value of the scalar {what!r} cannot be inferred", fix + _plan_example(problem)
            )
        if name not in tensors:
            listed = ", ".join(tensors)
            message = f"{where}: parameter {name!r} is no tensor of the problem; it has {listed}"
            raise UserError(message, _advice(problem))
        if SPELLINGS.get(element, element) != element_ctype(tensors[name]):
            message = f"{where}: parameter {name!r} points to {element}, but {name} is {tensors[name].dtype}"
            raise UserError(message, f"declare it as {pointer_ctype(tensors[name])} {name}")
        if not const and tensors[name].role != "output":
            message = f"{where}: parameter {name!r} is an input and must not be written"
            raise UserError(message, f"declare it as {pointer_ctype(tensors[name])} {name}")
        ctype = element_ctype(tensors[name])
        bindings.append(
            Binding(
                kind="tensor", name=name, ctype=f"const {ctype}" if const and tensors[name].role == "output" else ctype
            )
        )
    return Step(symbol=function.name, arguments=tuple(bindings))


def _functions(text: str) -> tuple[_Function, ...]:
    """The functions that a source defines with C linkage, in their order."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = [(match.start(), match) for match in FUNCTION.finditer(plain)]
    for block in BLOCK.finditer(plain):
        inside = plain[block.end() : _closing(plain, block.end())]
        flat = _without_bodies(inside)
        found += [(block.end() + match.start(), match) for match in IN_BLOCK.finditer(flat)]
    return tuple(
        _Function(match[2], " ".join(match[1].split()), _parameters(match[3]))
        for _, match in sorted(found, key=lambda f: f[0])
    )


def _closing(text: str, start: int) -> int:
    depth = 1
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text)


def _without_bodies(text: str) -> str:
    """Text with everything between inner braces blanked, so that only definitions' heads are left."""
    kept, depth = [], 0
    for character in text:
        depth -= character == "}"
        kept.append(character if depth == 0 else " ")
        depth += character == "{"
    return "".join(kept)


def _parameters(text: str) -> tuple[tuple[str, bool, bool, str], ...]:
    parts = [part.strip() for part in text.replace("\n", " ").split(",") if part.strip() and part.strip() != "void"]
    found = []
    for part in parts:
        match = PARAMETER.match(part)
        if match is None:
            found.append((part, False, False, ""))
            continue
        words = match[1].replace("std::", "").replace("*", " ").split()
        element = " ".join(word for word in words if word not in ("const", "__restrict__", "restrict"))
        found.append((element, "const" in words, "*" in part, match[3]))
    return tuple(found)


# --------------------------------------------------------------------------- messages


def _advice(problem: Problem) -> str:
    listed = "; ".join(f"{pointer_ctype(t)} {t.name} [{', '.join(_dims(problem, t))}]" for t in problem.arguments)
    listed += "".join(f"; int64_t {axis.name}" for axis in problem.axes)
    return f"the problem's tensors are {listed}; a signature that works: {_example(problem)}"


def _example(problem: Problem) -> str:
    tensors = tuple(Binding(kind="tensor", name=t.name, ctype=element_ctype(t)) for t in problem.arguments)
    sizes = tuple(Binding(kind="axis", name=axis.name, ctype="int64_t") for axis in problem.axes)
    step = Step(symbol="kw_" + re.sub(r"\W", "_", problem.name), arguments=tensors + sizes)
    return signature(step, problem)


def _plan_example(problem: Problem) -> str:
    names = [tensor.name for tensor in problem.arguments]
    scalar = {"name": "rows", "type": "int64_t", "value": 8}
    plan = {
        "steps": [{"call": "first", "arguments": [*names[:1], "scratch", scalar]},
                  {"call": "second", "arguments": ["scratch", *names[-1:]]}],
        "workspaces": {"scratch": {"type": "float", "count": 8}},
    }  # fmt: skip
    return f"// {PLAN_MARK} {json.dumps(plan)}"
