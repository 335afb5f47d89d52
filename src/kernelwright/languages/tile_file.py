"""A tile kernel that a person wrote: one `.py` file, whose comments say how its kernels are started.

    # kernelwright-launch: softmax grid=ceil_div(4096,4) BLOCK=1024 num_warps=8
    # kernelwright-launch: finish grid=1 x_ptr=partial count=64
    # kernelwright-memset: partial byte=0
    # kernelwright-workspace: partial float 4096
    # kernelwright-tensor-map: x_map of=x shape=256,64 strides=512 box=64,64
    # kernelwright-options: dot_precision=ieee

The form is that of CUDA files (device_file.py), without block, cluster and shared memory, which the compilers choose. A
kernel's run-time parameters are matched by name with tensors (`x` or `x_ptr`), workspaces, tensor maps and axes;
`parameter=...` on the launch's line names another one, or gives a number: whole numbers are int32_t where they fit,
others float; `int64:5` and `double:0.5` say it otherwise. Constants and the compiler's options are given there as
well. The language is that of the kernels: @triton.jit or @cuda.tile.kernel. Not here: whether it compiles (triton.py,
cutile.py) or is right (judge).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.languages import cutile, device_file, python_source, triton
from kernelwright.languages.device_file import Directive
from kernelwright.languages.device_plan import TENSOR_MAP_CTYPE
from kernelwright.languages.python_source import KernelFunction, KernelParameter
from kernelwright.languages.tile_arguments import DEVICE_CTYPES, NO_BLOCK
from kernelwright.types import (
    Binding,
    Candidate,
    Launch,
    LaunchPlan,
    OptionValue,
    Problem,
    SourceFile,
    Step,
    TensorMap,
    Workspace,
    digest,
)

FORMS = {
    "triton": ("jit", "constexpr", frozenset(triton.WHOLE_SETTINGS),
               re.compile(r"^\s*(?:import|from)\s+triton\b", re.M)),
    "cutile": ("kernel", "Constant", frozenset(cutile.SETTINGS), re.compile(r"^\s*(?:import|from)\s+cuda\b", re.M)),
}  # fmt: skip
"""By language: the decorator, the annotation of constants, the compiler's own options, and the import that shows it."""
TYPED = re.compile(r"(int64|int32|float|double|bool):(.+)")
LAUNCH = re.compile(r"^\s*#\s*kernelwright-launch:", re.MULTILINE)
Reader = Callable[[Path, Path], str]


def language_of(text: str) -> str:
    """Returns `triton` or `cutile` for a Python file that says how its tile kernels are launched, empty for any
    other."""
    return _kernels(text)[0] if LAUNCH.search(text) else ""


def kernel_names(text: str) -> frozenset[str]:
    """Returns the names of a file's tile kernels, launched or not."""
    return _kernels(text)[1]


def _kernels(text: str) -> tuple[str, frozenset[str]]:
    source = SourceFile(path="kernel.py", text=text)
    for language, (decorator, constant, _, imported) in FORMS.items():
        if imported.search(text) and (found := python_source.kernels(source, decorator=decorator, constant=constant)):
            return language, frozenset(kernel.name for kernel in found)
    return "", frozenset()


def candidate_from_python(problem: Problem, file: Path, read: Reader) -> Candidate:
    """Returns the candidate that a file of tile kernels describes, with the local files that it imports.

    Args:
        problem: what it computes.
        file: its first source.
        read: gives a file's text; its second argument is what the user named.

    Raises:
        UserError: when a file cannot be read or its comments say no plan; the fix shows a line that works.
    """
    sources = _sources(file, read)
    language = language_of(sources[0].text)
    if not language:
        raise UserError(f"{file} has no tile kernel with a launch line", "add # kernelwright-launch: NAME grid=...")
    plan, options = plan_of(sources[0], problem, language)
    return Candidate(
        problem=digest(problem), language=language, sources=sources, plan=plan, options=options, author="person"
    )


def _sources(file: Path, read: Reader) -> tuple[SourceFile, ...]:
    found: dict[str, SourceFile] = {}
    todo = [file.name]
    while todo:
        name = todo.pop(0)
        if name in found:
            continue
        found[name] = SourceFile(path=name, text=read(file.parent / name, file))
        tree = python_source.parse(found[name])
        if isinstance(tree, ast.Module):
            modules = [m for node in ast.walk(tree) for m in python_source.imported(node)]
            names = [f"{module.replace('.', '/')}.py" for module in modules]
            todo += [one for one in names if (file.parent / one).is_file()]
    return tuple(found.values())


def plan_of(
    source: SourceFile, problem: Problem, language: str
) -> tuple[LaunchPlan, tuple[tuple[str, OptionValue], ...]]:
    """Returns the launch plan and the build options that a file's comments say.

    Raises:
        UserError: when something is missing or cannot be read.
    """
    decorator, constant, settings, _ = FORMS[language]
    kernels = {k.name: k for k in python_source.kernels(source, decorator=decorator, constant=constant)}
    said = list(device_file.directives(source))
    spaces = {space.name: (space, ctype) for space, ctype in
              (device_file._workspace(d) for d in said if d.word == "workspace")}  # fmt: skip
    maps = {
        found.name: found for found in (device_file._tensor_map(d, problem) for d in said if d.word == "tensor-map")
    }
    steps = []
    for directive in said:
        if directive.word == "launch":
            steps.append(_launch(directive, kernels, spaces, maps, problem, settings))
        elif directive.word == "memset":
            steps.append(device_file._memset(directive, spaces, problem))
    plan = LaunchPlan(
        steps=tuple(steps), workspaces=tuple(space for space, _ in spaces.values()), tensor_maps=tuple(maps.values())
    )
    options = [item for d in said if d.word == "options" for item in device_file._pairs(d, _value)]
    return plan, tuple(sorted(options))


Spaces = dict[str, tuple[Workspace, str]]


def _launch(
    directive: Directive, kernels: dict[str, KernelFunction], spaces: Spaces, maps: dict[str, TensorMap],
    problem: Problem, settings: frozenset[str],
) -> Step:  # fmt: skip
    words = directive.rest.split()
    flags = [word for word in words if word in device_file.FLAGS]
    names = [word for word in words if "=" not in word and word not in device_file.FLAGS]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    if len(names) != 1 or names[0] not in kernels:
        said = names[0] if len(names) == 1 else f"{len(names)} names"
        raise UserError(
            f"{directive.where}: {said} for a kernel; the file defines {', '.join(kernels) or 'none'}",
            "write # kernelwright-launch: NAME grid=...",
        )
    kernel = kernels[names[0]]
    if "grid" not in given:
        raise UserError(f"{directive.where}: grid= is missing", f"write # kernelwright-launch: {kernel.name} grid=128")
    grid = device_file._three([device_file._size(part) for part in device_file._split(given.pop("grid"))], directive)
    arguments = tuple(_binding(p, given, spaces, maps, problem, directive) for p in kernel.arguments)
    constants = {p.name for p in kernel.parameters if p.constant}
    options = tuple((name, _value(text)) for name, text in given.items())
    for name, _ in options:
        if name not in constants | settings:
            known = ", ".join(["grid", *sorted(settings), *(p.name for p in kernel.parameters)])
            raise UserError(f"{directive.where}: {name}= is no word of a launch of {kernel.name}", f"known are {known}")
    launch = Launch(grid=grid, block=NO_BLOCK, cooperative="cooperative" in flags, programmatic="programmatic" in flags)
    return Step(symbol=kernel.name, arguments=arguments, launch=launch, options=options)


def _binding(
    parameter: KernelParameter, given: dict[str, str], spaces: Spaces, maps: dict[str, TensorMap], problem: Problem,
    directive: Directive,
) -> Binding:  # fmt: skip
    tensors = {tensor.name: tensor for tensor in problem.arguments}
    said = given.pop(parameter.name, "")
    for name in [said] if said else [parameter.name, parameter.name.removesuffix("_ptr")]:
        if name in tensors:
            return Binding(kind="tensor", name=name, ctype=DEVICE_CTYPES.get(tensors[name].dtype, tensors[name].dtype))
        if name in spaces:
            return Binding(kind="workspace", name=name, ctype=spaces[name][1])
        if name in maps:
            return Binding(kind="tensor_map", name=name, ctype=TENSOR_MAP_CTYPE)
        if name in {axis.name for axis in problem.axes}:
            return Binding(kind="axis", name=name, ctype="int32_t")
    if not said:
        listed = ", ".join([*tensors, *spaces, *maps, *(axis.name for axis in problem.axes)])
        message = f"{directive.where}: parameter {parameter.name!r} is none of {listed}"
        raise UserError(message, f"say what it is on the launch's line: {parameter.name}=...")
    return _number(parameter.name, said, directive)


def _number(name: str, text: str, directive: Directive) -> Binding:
    typed = TYPED.fullmatch(text)
    kind, digits = (typed[1], typed[2]) if typed else ("", text)
    found = device_file._scalar(digits, directive)
    if not kind:
        kind = "bool" if isinstance(found, bool) else "float"
        if isinstance(found, int) and not isinstance(found, bool):
            kind = "int32" if -(1 << 31) <= found < 1 << 31 else "int64"
    ctype = {"int32": "int32_t", "int64": "int64_t"}.get(kind, kind)
    return Binding(kind="scalar", name=name, ctype=ctype, scalar=float(found) if kind in ("float", "double") else found)


def _value(text: str) -> OptionValue:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text
