"""The frame around an expert's code: includes, signature, launch plan, candidate.

Not here: what stands between the braces.
"""

from __future__ import annotations

from kernelwright.experts.simd import simd_header
from kernelwright.types import (
    Binding,
    Candidate,
    LaunchPlan,
    Parameter,
    Point,
    Problem,
    SourceFile,
    Space,
    Step,
    Target,
    TensorSpec,
    Workspace,
    digest,
)

CTYPES = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "uint8": "uint8_t",
    "int8": "int8_t", "bool": "bool", "float16": "uint16_t", "bfloat16": "uint16_t",
}  # fmt: skip


def pointer(name: str) -> str:
    """Returns what a tensor is called in the code; the underscore keeps it apart from the code's own names."""
    return f"{name}_"


def space(**choices: tuple[int | str, ...]) -> Space:
    """Returns a space with the parameters in the order given; repeated values are dropped."""
    parameters = [Parameter(name=name, values=tuple(dict.fromkeys(values))) for name, values in choices.items()]
    return Space(parameters=tuple(parameters))


def thread_counts(target: Target) -> tuple[int, ...]:
    """Returns the numbers of threads worth trying: all, then one."""
    return (max(target.threads, 1), 1)


def vector_lanes(target: Target) -> tuple[int, ...]:
    """Returns the float lanes of the widest register, then of half of it."""
    return (16, 8) if "avx512f" in target.features else (8, 4)


def candidate(
    problem: Problem,
    *,
    template: str,
    point: Point,
    tensors: tuple[TensorSpec, ...],
    helpers: str,
    body: str,
    workspaces: tuple[tuple[Workspace, str], ...] = (),
) -> Candidate:
    """Returns a candidate of one kernel.

    Args:
        problem: what it is for.
        template: the template's name; the kernel is called `kw_` and this.
        point: the schedule that made the code.
        tensors: what the kernel takes, in the order of its arguments; outputs are pointers to non-const.
        helpers: code before the kernel: functions and constants.
        body: code between the kernel's braces.
        workspaces: scratch memory with its element's C type; the code uses the workspace's own name.
    """
    symbol = f"kw_{template}"
    arguments = ", ".join(
        f"{'' if spec.role == 'output' else 'const '}{CTYPES[spec.dtype]}* __restrict__ {pointer(spec.name)}"
        for spec in tensors
    )
    arguments += "".join(f", {ctype}* __restrict__ {workspace.name}" for workspace, ctype in workspaces)
    schedule = ", ".join(f"{name}={choice}" for name, choice in point)
    text = (
        f"// Schedule: {schedule}.\n"
        '#include "simd.hpp"\n\n'
        f'{helpers.strip()}\n\nextern "C" void {symbol}({arguments}) {{\n{body.rstrip()}\n}}\n'
    )
    bindings = tuple(Binding(kind="tensor", name=spec.name, ctype=CTYPES[spec.dtype]) for spec in tensors)
    bindings += tuple(Binding(kind="workspace", name=held.name, ctype=ctype) for held, ctype in workspaces)
    return Candidate(
        problem=digest(problem),
        language="cpp",
        sources=(SourceFile(path="kernel.cpp", text=text), simd_header()),
        plan=LaunchPlan(steps=(Step(symbol=symbol, arguments=bindings),), workspaces=tuple(w for w, _ in workspaces)),
        author="expert",
        template=template,
        point=point,
    )


def indented(lines: list[str], depth: int) -> str:
    """Returns lines joined, each after four spaces for each level."""
    return "\n".join(" " * 4 * depth + line for line in lines)
