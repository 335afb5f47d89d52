"""Candidates in CUDA C++ of experts that write their kernels as text: signatures, bindings, steps, headers.

Not here: what the kernels do; the loop expert has a frame of its own (cuda.py).
"""

from __future__ import annotations

from math import prod
from pathlib import Path

from kernelwright.experts.gpu.cuda import INT_LIMIT, device_header
from kernelwright.experts.gpu.printer import BINDINGS, BUFFERS
from kernelwright.experts.kernel import pointer
from kernelwright.types import (
    Binding,
    Candidate,
    Launch,
    LaunchPlan,
    Point,
    Problem,
    SourceFile,
    Step,
    TensorSpec,
    Workspace,
    digest,
    value,
)


@value
class KernelText:
    """One kernel and its launch."""

    symbol: str
    tensors: tuple[TensorSpec, ...]
    """What it takes, in order; outputs are pointers to non-const."""
    body: str
    """Between its braces; tensors are called by `pointer(name)`, scratch memory by its own name."""
    grid: tuple[int, int, int]
    threads: int
    scratch: tuple[tuple[str, str], ...] = ()
    """(name, element's C type) of the workspaces that it takes after the tensors."""
    shared_bytes: int = 0
    cluster: int = 1
    """Blocks along x that form a cluster."""


def candidate(
    problem: Problem,
    *,
    template: str,
    point: Point,
    helpers: str,
    kernels: tuple[KernelText, ...],
    workspaces: tuple[Workspace, ...] = (),
    header: str = "",
) -> Candidate:
    """Returns a candidate of some kernels, launched in order.

    Args:
        problem: what it is for.
        template: the template's name.
        point: the schedule that made the code.
        helpers: constants and types before the kernels.
        kernels: what is launched.
        workspaces: scratch memory.
        header: the file beside this module that is included after the helpers.
    """
    schedule = ", ".join(f"{name}={choice}" for name, choice in point)
    text = [f'// Schedule: {schedule}.\n#include "device.cuh"']
    if header:
        text.append("#include <kernelwright_warps.h>")
    text.append(helpers.strip())
    sources = [device_header()]
    if header:
        text.append(f'#include "{header}"')
        sources.append(SourceFile(path=header, text=Path(__file__).with_name(header).read_text()))
    steps = []
    for kernel in kernels:
        parameters = [
            f"{'' if spec.role == 'output' else 'const '}{BUFFERS[spec.dtype]}* __restrict__ {pointer(spec.name)}"
            for spec in kernel.tensors
        ] + [f"{ctype}* __restrict__ {name}" for name, ctype in kernel.scratch]
        head = f'extern "C" __global__ void __launch_bounds__({kernel.threads}) {kernel.symbol}'
        text.append(f"{head}({', '.join(parameters)}) {{\n{kernel.body.rstrip()}\n}}")
        bound = [Binding(kind="tensor", name=spec.name, ctype=BINDINGS[spec.dtype]) for spec in kernel.tensors]
        bound += [Binding(kind="workspace", name=name, ctype=ctype) for name, ctype in kernel.scratch]
        cluster, shared = (kernel.cluster, 1, 1), kernel.shared_bytes
        launch = Launch(grid=kernel.grid, block=(kernel.threads, 1, 1), cluster=cluster, shared_bytes=shared)
        steps.append(Step(symbol=kernel.symbol, arguments=tuple(bound), launch=launch))
    return Candidate(
        problem=digest(problem),
        language="cuda",
        sources=(SourceFile(path="kernel.cu", text="\n\n".join(text) + "\n"), *sources),
        plan=LaunchPlan(steps=tuple(steps), workspaces=workspaces),
        author="expert",
        template=template,
        point=point,
    )


def place_type(problem: Problem) -> str:
    """Returns the integer type of places: 64 bits only where a tensor needs them."""
    return "int" if max(prod(spec.shape) for spec in problem.arguments) < INT_LIMIT else "kw::i64"


def constants(**named: int | bool | str) -> str:
    """Returns C++ constants: whole numbers and truths, or floats as text."""
    lines = []
    for name, item in named.items():
        kind = "bool" if isinstance(item, bool) else "float" if isinstance(item, str) else "int"
        lines.append(f"constexpr {kind} {name} = {str(item).lower() if isinstance(item, bool) else item};")
    return "\n".join(lines)
