"""A CUDA kernel that a person wrote: one `.cu` file, whose comments say how its kernels are started.

    // kernelwright-launch: row_sums grid=ceil_div(N,128) block=128 shared=4096
    // kernelwright-launch: finish grid=1 block=32 factor=0.5
    // kernelwright-memset: partial byte=0
    // kernelwright-workspace: partial float 4096
    // kernelwright-tensor-map: x_map of=x shape=256,64 strides=512 box=64,64 swizzle=128
    // kernelwright-options: fast_math=true max_registers=128

Launches and memsets are steps, in the order of their lines. `grid`, `block` and `cluster` take up to three numbers;
those of the grid (blocks, not clusters) may be expressions over the problem's axes, without blanks. The words
`cooperative` and `programmatic` stand alone. A kernel's parameters are matched by name: pointers with tensors and
workspaces, a CUtensorMap with a tensor map (shape and box innermost first, strides in bytes), numbers with the
problem's axes or with `name=value` on the launch's line.
Not here: files for the CPU (kernel_file.py), whether it compiles (cuda.py) or is right (judge).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from kernelwright.errors import UserError
from kernelwright.languages.device_plan import CTYPES, DEVICE_BYTES, TENSOR_MAP_CTYPE
from kernelwright.types import (
    Binding,
    Launch,
    LaunchPlan,
    OptionValue,
    Problem,
    Size,
    SourceFile,
    Step,
    TensorMap,
    Workspace,
)

T = TypeVar("T")
LINE = re.compile(r"^\s*(?://|/?\*|#)\s*kernelwright-(?P<word>[a-z-]+):(?P<rest>.*)$")
WORDS = ("launch", "memset", "workspace", "tensor-map", "options")
FLAGS = ("cooperative", "programmatic")
HEAD = re.compile(r"__global__([^;{}]*)\{", re.DOTALL)
ATTRIBUTE = re.compile(r"__(?!grid_constant__|restrict__|nv_|half)\w+__\s*\((?:[^()]|\([^()]*\))*\)")
NAME_AND_PARAMETERS = re.compile(r"\b([A-Za-z_]\w*)\s*\(([^()]*)\)\s*(?:noexcept\s*)?$", re.DOTALL)
PARAMETER = re.compile(r"(.*?)(\*?)\s*(?:__restrict__|__restrict|restrict)?\s*\b([A-Za-z_]\w*)$", re.DOTALL)
IGNORED = frozenset(("const", "__restrict__", "__restrict", "restrict", "__grid_constant__", "volatile"))
SPELLINGS = {
    "long": "int64_t", "long long": "int64_t", "int": "int32_t", "unsigned": "uint32_t", "unsigned int": "uint32_t",
    "unsigned char": "uint8_t", "signed char": "int8_t", "unsigned short": "uint16_t", "short": "int16_t",
    "unsigned long long": "uint64_t", "unsigned long": "uint64_t", "size_t": "uint64_t", "half": "__half",
    "nv_bfloat16": "__nv_bfloat16",
}  # fmt: skip


class Directive(NamedTuple):
    """One line that says something about the plan."""

    word: str
    rest: str
    where: str


class Kernel(NamedTuple):
    """A kernel's head: its name and, for each parameter, (type, is const, is a pointer, name)."""

    name: str
    parameters: tuple[tuple[str, bool, bool, str], ...]


def plan_of(source: SourceFile, problem: Problem) -> tuple[LaunchPlan, tuple[tuple[str, OptionValue], ...]]:
    """Returns the launch plan and the build options that a file's comments say.

    Raises:
        UserError: when something is missing or cannot be read; the fix shows a line that works.
    """
    said = list(directives(source))
    kernels = {kernel.name: kernel for kernel in kernels_of(source.text)}
    spaces = {space.name: (space, ctype) for space, ctype in (_workspace(d) for d in said if d.word == "workspace")}
    maps = {found.name: found for found in (_tensor_map(d, problem) for d in said if d.word == "tensor-map")}
    steps = []
    for directive in said:
        if directive.word == "launch":
            steps.append(_launch(directive, kernels, spaces, maps, problem))
        elif directive.word == "memset":
            steps.append(_memset(directive, spaces, problem))
    if not steps:
        listed = ", ".join(kernels) or "none"
        message = f"{source.path} does not say how its kernels ({listed}) are started"
        raise UserError(message, f"add a comment line such as {example(problem, next(iter(kernels), 'kernel'))}")
    workspaces = tuple(space for space, _ in spaces.values())
    plan = LaunchPlan(steps=tuple(steps), workspaces=workspaces, tensor_maps=tuple(maps.values()))
    options = [item for d in said if d.word == "options" for item in _pairs(d, option_value)]
    return plan, tuple(sorted(options))


def directives(source: SourceFile) -> Iterator[Directive]:
    """Yields the lines of a file that are for kernelwright.

    Raises:
        UserError: for a word that is not known.
    """
    for number, line in enumerate(source.text.splitlines(), start=1):
        if found := LINE.match(line):
            where = f"{source.path}:{number}"
            if found["word"] not in WORDS:
                known = ", ".join(f"kernelwright-{word}:" for word in WORDS)
                raise UserError(f"{where}: there is no kernelwright-{found['word']}:", f"known are {known}")
            yield Directive(found["word"], found["rest"].removesuffix("*/").strip(), where)


def kernels_of(text: str) -> tuple[Kernel, ...]:
    """Returns the heads of the kernels that a source defines, in their order."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = []
    for head in HEAD.finditer(plain):
        if match := NAME_AND_PARAMETERS.search(ATTRIBUTE.sub(" ", head[1]).strip()):
            found.append(Kernel(match[1], tuple(_parameters(match[2]))))
    return tuple(found)


def example(problem: Problem, name: str) -> str:
    """Returns a launch line for a kernel that has one thread for each element of the first output."""
    count = 1
    for size in problem.outputs[0].shape if problem.outputs else (1,):
        count *= size
    return f"// kernelwright-launch: {name} grid={max(1, -(-count // 256))} block=256"


def skeleton(problem: Problem) -> str:
    """Returns a CUDA file for a problem that compiles, does nothing yet, and shows every name and shape."""
    name = "kw_" + re.sub(r"\W", "_", problem.name)
    shapes = "\n".join(f"// {t.name}: {t.dtype}[{', '.join(map(str, t.shape))}], {t.role}" for t in problem.arguments)
    parameters = [
        f"    {'' if t.role == 'output' else 'const '}{CTYPES.get(t.dtype, t.dtype)}* __restrict__ {t.name}"
        for t in problem.arguments
    ]
    parameters += [f"    int64_t {axis.name}" for axis in problem.axes]
    sizes = "\n".join(
        f"constexpr int64_t {t.name}_{axis} = {size};" for t in problem.arguments for axis, size in enumerate(t.shape)
    )
    headers = {"__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}
    used = {CTYPES.get(tensor.dtype, "") for tensor in problem.arguments}
    includes = "".join(f"#include <{header}>\n" for ctype, header in headers.items() if ctype in used)
    return (
        f"// {problem.name}: {problem.description}".rstrip(": ").replace("\n", " ") + f"\n{shapes}\n"
        "// Buffers are contiguous row-major and 256-byte aligned. No printf, no malloc, no __device__ variables.\n"
        f"{example(problem, name)}\n{includes}#include <cstdint>\n\n{sizes}\n\n"
        f'extern "C" __global__ void {name}(\n' + ",\n".join(parameters) + ") {\n}\n"
    )


def plan_lines(plan: LaunchPlan, options: tuple[tuple[str, OptionValue], ...] = ()) -> str:
    """Returns the comment lines that say a plan, so that `plan_of` reads it again from a source that lacks them.

    Tensor maps and library calls are left out; parameters must have the names of what is bound to them.
    """
    types = {a.name: a.ctype.removeprefix("const ") for step in plan.steps for a in step.arguments}
    lines = []
    for space in plan.workspaces if all(isinstance(space.size_bytes, int) for space in plan.workspaces) else ():
        ctype = types.get(space.name, "uint8_t")
        lines.append(f"workspace: {space.name} {ctype} {int(space.size_bytes) // DEVICE_BYTES[ctype]}")
    for step in plan.steps:
        if step.kind == "memset":
            lines.append(f"memset: {step.arguments[0].name} byte={step.byte}")
        elif step.launch is not None:
            lines.append(_launch_line(step, step.launch))
    if options:
        lines.append("options: " + " ".join(f"{n}={str(v).lower() if isinstance(v, bool) else v}" for n, v in options))
    return "".join(f"// kernelwright-{line}\n" for line in lines)


def _launch_line(step: Step, launch: Launch) -> str:
    parts = [f"grid={','.join(map(str, launch.grid))}", f"block={','.join(map(str, launch.block))}"]
    parts += [f"cluster={','.join(map(str, launch.cluster))}"] if launch.cluster != (1, 1, 1) else []
    parts += [f"shared={launch.shared_bytes}"] if launch.shared_bytes else []
    parts += [flag for flag in FLAGS if getattr(launch, flag)]
    parts += [
        f"{a.name}={str(a.scalar).lower() if isinstance(a.scalar, bool) else a.scalar}"
        for a in step.arguments if a.kind == "scalar"
    ]  # fmt: skip
    return f"launch: {step.symbol} {' '.join(parts)}"


# ------------------------------------------------------------------------------- steps

Spaces = dict[str, tuple[Workspace, str]]


def _launch(
    directive: Directive, kernels: dict[str, Kernel], spaces: Spaces, maps: dict[str, TensorMap], problem: Problem
) -> Step:
    words = directive.rest.split()
    flags = [word for word in words if word in FLAGS]
    names = [word for word in words if "=" not in word and word not in FLAGS]
    given = dict(word.split("=", 1) for word in words if "=" in word)
    if len(names) != 1 or names[0] not in kernels:
        listed = ", ".join(kernels) or "none"
        said = names[0] if len(names) == 1 else f"{len(names)} names"
        fix = example(problem, next(iter(kernels), "kernel"))
        raise UserError(f"{directive.where}: {said} for a kernel; the file defines {listed}", f"write {fix}")
    kernel = kernels[names[0]]
    for needed in ("grid", "block"):
        if needed not in given:
            raise UserError(f"{directive.where}: {needed}= is missing", f"write {example(problem, kernel.name)}")
    grid = _three([_size(part) for part in _split(given.pop("grid"))], directive)
    block = _three([_number(part, directive) for part in _split(given.pop("block"))], directive)
    cluster = _three([_number(part, directive) for part in _split(given.pop("cluster", "1"))], directive)
    shared = _number(given.pop("shared", "0"), directive)
    arguments = tuple(
        _binding(parameter, given, spaces, maps, problem, directive, kernel) for parameter in kernel.parameters
    )
    if given:
        left = next(iter(given))
        listed = ", ".join(name for _, _, _, name in kernel.parameters)
        message = f"{directive.where}: {left}= is no word of a launch and no parameter of {kernel.name} ({listed})"
        raise UserError(message, "known are grid, block, cluster, shared, cooperative, programmatic")
    launch = Launch(
        grid=grid, block=block, cluster=cluster, shared_bytes=shared, cooperative="cooperative" in flags,
        programmatic="programmatic" in flags,
    )  # fmt: skip
    return Step(symbol=kernel.name, arguments=arguments, launch=launch)


def _binding(
    parameter: tuple[str, bool, bool, str], given: dict[str, str], spaces: Spaces, maps: dict[str, TensorMap],
    problem: Problem, directive: Directive, kernel: Kernel,
) -> Binding:  # fmt: skip
    element, const, pointer, name = parameter
    tensors = {tensor.name: tensor for tensor in problem.arguments}
    where = f"{directive.where}: parameter {name!r} of {kernel.name}"
    if element == TENSOR_MAP_CTYPE and not pointer:
        if name not in maps:
            raise UserError(f"{where} is no tensor map of the file", "add // kernelwright-tensor-map: NAME of=...")
        return Binding(kind="tensor_map", name=name, ctype=TENSOR_MAP_CTYPE)
    if pointer and name in tensors:
        ctype = CTYPES.get(tensors[name].dtype, element)
        outputs_const = const and tensors[name].role == "output"
        return Binding(kind="tensor", name=name, ctype=f"const {ctype}" if outputs_const else ctype)
    if pointer and name in spaces:
        ctype = SPELLINGS.get(element, element)
        return Binding(kind="workspace", name=name, ctype=f"const {ctype}" if const else ctype)
    if pointer:
        listed = ", ".join([*tensors, *spaces])
        raise UserError(f"{where} is no tensor and no workspace; there are {listed}", "use these names for parameters")
    ctype = SPELLINGS.get(element, element)
    if name in given:
        return Binding(kind="scalar", name=name, ctype=ctype, scalar=_scalar(given.pop(name), directive))
    if name in {axis.name for axis in problem.axes}:
        return Binding(kind="axis", name=name, ctype=ctype)
    raise UserError(f"{where} has no value", f"give it on the launch's line: {name}=...")


def _memset(directive: Directive, spaces: Spaces, problem: Problem) -> Step:
    names = [word for word in directive.rest.split() if "=" not in word]
    byte = dict(_pairs(directive, lambda text: _number(text, directive))).get("byte", 0)
    tensors = {tensor.name: tensor for tensor in problem.arguments}
    if len(names) != 1 or names[0] not in {*tensors, *spaces}:
        listed = ", ".join([*spaces, *(output.name for output in problem.outputs)])
        raise UserError(
            f"{directive.where}: a memset is of one of {listed}", "write // kernelwright-memset: NAME byte=0"
        )
    name = names[0]
    if name in spaces:
        binding = Binding(kind="workspace", name=name, ctype=spaces[name][1])
    else:
        binding = Binding(kind="tensor", name=name, ctype=CTYPES[tensors[name].dtype])
    return Step(symbol="", kind="memset", arguments=(binding,), byte=byte)


def _workspace(directive: Directive) -> tuple[Workspace, str]:
    words = directive.rest.split()
    ctype = SPELLINGS.get(words[1], words[1]) if len(words) == 3 else ""
    if len(words) != 3 or ctype not in DEVICE_BYTES or not words[2].isdecimal():
        raise UserError(
            f"{directive.where}: a workspace has a name, a type and a count",
            "write // kernelwright-workspace: partial float 4096",
        )
    return Workspace(name=words[0], size_bytes=DEVICE_BYTES[ctype] * int(words[2])), ctype


def _tensor_map(directive: Directive, problem: Problem) -> TensorMap:
    name, *_ = directive.rest.split() or [""]
    given = dict(_pairs(directive, str))
    dtypes = {tensor.name: tensor.dtype for tensor in problem.arguments}
    try:
        of = given.pop("of")
        made = TensorMap(
            name=name,
            of=of,
            dtype=given.pop("dtype", dtypes.get(of, "")),
            shape=tuple(_size(part) for part in _split(given.pop("shape"))),
            strides_bytes=tuple(_size(part) for part in _split(given.pop("strides", ""))),
            box=tuple(_number(part, directive) for part in _split(given.pop("box"))),
            swizzle_bytes=_number(given.pop("swizzle", "0"), directive),  # type: ignore[arg-type]
            l2_promotion_bytes=_number(given.pop("l2_promotion", "128"), directive),  # type: ignore[arg-type]
        )
    except KeyError as error:
        raise UserError(
            f"{directive.where}: {error.args[0]}= is missing",
            "write // kernelwright-tensor-map: x_map of=x shape=256,64 strides=512 box=64,64 swizzle=128",
        ) from None
    if given:
        raise UserError(
            f"{directive.where}: there is no {next(iter(given))}=",
            "known are of, dtype, shape, strides, box, swizzle, l2_promotion",
        )
    return made


# ------------------------------------------------------------------------------ pieces


def _parameters(text: str) -> Iterator[tuple[str, bool, bool, str]]:
    for part in (part.strip() for part in text.replace("\n", " ").split(",")):
        if not part or part == "void":
            continue
        match = PARAMETER.match(part)
        words = match[1].replace("std::", "").replace("*", " ").split() if match else [part]
        element = " ".join(word for word in words if word not in IGNORED)
        yield element, "const" in words, "*" in part, match[3] if match else ""


def _pairs(directive: Directive, convert: Callable[[str], T]) -> Iterator[tuple[str, T]]:
    for word in directive.rest.split():
        if "=" in word:
            name, text = word.split("=", 1)
            yield name, convert(text)


def _split(text: str) -> list[str]:
    """The parts between commas that stand outside parentheses."""
    parts, depth, part = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [*parts, part] if part or parts else []


def _three(parts: list[Size], directive: Directive) -> tuple:  # type: ignore[type-arg]
    if not 1 <= len(parts) <= 3:
        raise UserError(f"{directive.where}: {len(parts)} sizes", "give one to three, such as grid=128 or block=32,8")
    return (*parts, *[1] * (3 - len(parts)))


def _size(text: str) -> Size:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _number(text: str, directive: Directive) -> int:
    if not re.fullmatch(r"-?\d+", text):
        raise UserError(
            f"{directive.where}: {text!r} is no whole number", "write it out: only the grid takes expressions"
        )
    return int(text)


def _scalar(text: str, directive: Directive) -> int | float:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
    except ValueError:
        raise UserError(f"{directive.where}: {text!r} is no number", "write a number, true or false") from None


def option_value(text: str) -> OptionValue:
    """Returns what an option's text stands for: true, false, a whole number, or the text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else text
