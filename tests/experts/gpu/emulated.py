"""CUDA candidates on the CPU: compiled by g++ with the emulation header, called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import torch

from kernelwright.experts.gpu.cuda import device_header
from kernelwright.reference_program import DTYPES
from kernelwright.types import Candidate, Problem

HEADER = Path(__file__).with_name("cuda_on_cpu.hpp")
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-ffp-contract=off")
POISON = 0xFF
GUARD_BYTES = 256
Job = tuple[str, Problem, Candidate]


def source_of(jobs: Sequence[Job]) -> str:
    """Returns one C++ text: the headers, every job's kernels in a namespace, and a function that runs its plan."""
    device = "\n".join(line for line in device_header().text.splitlines() if not line.startswith("#include <"))
    call = "template <class... P, class... A>\nvoid kw_call(void (*f)(P...), A... a) { f((P)a...); }\n"
    parts = [f'#include "{HEADER}"', device, call]
    for name, problem, candidate in jobs:
        text = candidate.sources[0].text.replace('#include "device.cuh"', "").replace('extern "C" ', "")
        parts += [f"namespace of_{name} {{", text, "}", f'extern "C" void {name}(void* const* buffers) {{']
        order = [spec.name for spec in problem.arguments] + [w.name for w in candidate.plan.workspaces]
        for step in candidate.plan.steps:
            assert step.launch is not None
            arguments = ", ".join(f"(void*)buffers[{order.index(binding.name)}]" for binding in step.arguments)
            grid, block = step.launch.grid[0], step.launch.block[0]
            parts.append(
                f"  emulation::launch({grid}, {block}, [&] {{ kw_call(of_{name}::{step.symbol}, {arguments}); }});"
            )
        parts.append("}")
    return "\n".join([*parts, ""])


def build(jobs: Sequence[Job], folder: Path, name: str, *, descending: bool = False) -> ctypes.CDLL:
    """Returns a library with a function for each job."""
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    source.write_text(source_of(jobs))
    extra = ["-DKW_DESCENDING"] if descending else []
    done = subprocess.run(
        ["g++", *FLAGS, *extra, str(source), "-o", str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(library))


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
