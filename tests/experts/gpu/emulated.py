"""CUDA candidates on the CPU: many compiled together with the product's emulation, called through ctypes.

Races, misaligned accesses and indices outside arrays end the process, after a line that says so.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch

from kernelwright.experts.gpu.cuda import device_header
from kernelwright.languages.emulation.build import BOUNDS, MORE, WATCHED
from kernelwright.languages.emulation.launches import HEADER, SPACE
from kernelwright.languages.emulation.shared_memory import rewrite
from kernelwright.reference_program import DTYPES
from kernelwright.types import Candidate, Problem

# Hidden: of two libraries in one process, each has its own shared memory.
FLAGS = ("-std=c++17", "-fPIC", "-w", "-fvisibility=hidden", "-ffp-contract=off", *MORE, *BOUNDS, *WATCHED)
TOLD = '#include <cstdio>\n#define KWE_TOLD(kind, line) std::fprintf(stderr, "fault %d, line %d\\n", int(kind), line)'
VISIBLE = 'extern "C" __attribute__((visibility("default")))'
POISON = 0xFF
GUARD_BYTES = 256
Job = tuple[str, Problem, Candidate]
SYSTEM = re.compile(r"#include <(kernelwright_\w+\.h)>")


def source_of(jobs: Sequence[Job], call_number: int) -> str:
    """Returns one C++ text: the headers, every job's kernels in a namespace, and a function that runs its plan."""
    call = "template <class... P, class... A>\nvoid kw_call(void (*f)(P...), A... a) { f((P)a...); }\n"
    system = sorted({found for _, _, c in jobs for found in SYSTEM.findall(text_of(c))})
    parts = [TOLD, f"#include <{HEADER}>", *(f"#include <{name}>" for name in system), device_header().text, call]
    for name, problem, candidate in jobs:
        text = SYSTEM.sub("", text_of(candidate)).replace('extern "C" ', "")
        parts += [f"namespace of_{name} {{", text, "}", f"{VISIBLE} void {name}(void* const* buffers) {{"]
        parts.append(f"  {SPACE}::call_number = {call_number};\n  {SPACE}::begin_call();")
        order = [spec.name for spec in problem.arguments] + [w.name for w in candidate.plan.workspaces]
        for step in candidate.plan.steps:
            assert step.launch is not None
            arguments = ", ".join(f"(void*)buffers[{order.index(binding.name)}]" for binding in step.arguments)
            sizes = ", ".join(f"dim3({', '.join(map(str, d))})" for d in (step.launch.grid, step.launch.block))
            call = f"kw_call(of_{name}::{step.symbol}, {arguments});"
            parts.append(f"  {SPACE}::launch({sizes}, {step.launch.shared_bytes}, [&] {{ {call} }});")
        parts.append("}")
    return "\n".join([*parts, ""])


def text_of(candidate: Candidate) -> str:
    """Returns a candidate's source with its own headers, but for device.cuh, in their places."""
    text = candidate.sources[0].text.replace('#include "device.cuh"', "")
    for source in candidate.sources[1:]:
        text = text.replace(f'#include "{source.path}"', source.text.replace("#pragma once", ""))
    return text


def build(jobs: Sequence[Job], folder: Path, name: str, *, descending: bool = False) -> ctypes.CDLL:
    """Returns a library with a function for each job."""
    source, made, library = (folder / f"{name}.{ending}" for ending in ("cpp", "ii", "so"))
    source.write_text(source_of(jobs, 1 if descending else 0))
    _run("g++", *FLAGS, "-E", str(source), "-o", str(made))
    text = rewrite(made.read_text())
    assert isinstance(text, str), text
    made.write_text(text)
    _run("g++", *FLAGS, "-c", "-x", "c++-cpp-output", str(made), "-o", f"{library}.o")
    _run("g++", "-shared", f"{library}.o", "-o", str(library))
    return ctypes.CDLL(str(library))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


def run(library: ctypes.CDLL, job: Job, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the outputs for inputs and parameters in order; outputs, guards and workspaces start poisoned."""
    name, problem, candidate = job
    given = iter(arguments)
    held, outputs = [], []
    for spec in problem.arguments:
        if spec.role != "output":
            held.append(aligned(next(given)))
            continue
        count = int(torch.Size(spec.shape).numel()) * DTYPES[spec.dtype].itemsize
        memory = torch.full((count + GUARD_BYTES + 256,), POISON, dtype=torch.uint8)
        start = -memory.data_ptr() % 256
        memory = memory[start : start + count + GUARD_BYTES]
        outputs.append((memory, spec, count))
        held.append(memory)
    held += [aligned(torch.full((int(w.size_bytes),), POISON, dtype=torch.uint8)) for w in candidate.plan.workspaces]
    getattr(library, name)((ctypes.c_void_p * len(held))(*[tensor.data_ptr() for tensor in held]))
    assert all(bool((memory[count:] == POISON).all()) for memory, _, count in outputs), "wrote beyond an output"
    return [memory[:count].view(DTYPES[spec.dtype]).view(spec.shape) for memory, spec, count in outputs]


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a contiguous copy that starts at a multiple of 256 bytes."""
    raw = tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else tensor.reshape(-1).view(torch.uint8)
    memory = torch.empty(raw.numel() + 256, dtype=torch.uint8)
    start = -memory.data_ptr() % 256
    memory[start : start + raw.numel()] = raw
    return memory[start : start + raw.numel()]
