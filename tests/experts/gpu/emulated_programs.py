"""Whole CUDA programs on the CPU: kernels by the emulation, library steps by the judge's own calls on the CPU."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tests.experts.gpu.emulated import FLAGS, GUARD_BYTES, POISON, TOLD, VISIBLE, aligned

from kernelwright.judge.device import library
from kernelwright.languages.emulation.launches import HEADER, SPACE
from kernelwright.languages.emulation.shared_memory import rewrite
from kernelwright.reference_program import DTYPES
from kernelwright.types import Candidate, Problem, Step


@dataclass
class Program:
    """A candidate whose kernels are compiled, each step to be called alone."""

    problem: Problem
    candidate: Candidate
    built: Any

    def __call__(self, arguments: Sequence[torch.Tensor], order: int = 0) -> list[torch.Tensor]:
        """Returns the outputs; they, their guards and the workspaces start poisoned.

        Args:
            arguments: inputs, then parameters.
            order: in which order the threads of a block run.
        """
        given = iter(arguments)
        held: dict[str, torch.Tensor] = {}
        views: dict[str, torch.Tensor] = {}
        for spec in self.problem.arguments:
            count = int(torch.Size(spec.shape).numel()) * DTYPES[spec.dtype].itemsize
            if spec.role == "output":
                held[spec.name] = aligned(torch.full((count + GUARD_BYTES,), POISON, dtype=torch.uint8))
            else:
                held[spec.name] = aligned(next(given))
            views[spec.name] = held[spec.name][:count].view(DTYPES[spec.dtype]).view(spec.shape)
        for w in self.candidate.plan.workspaces:
            views[w.name] = held[w.name] = aligned(torch.full((int(w.size_bytes),), POISON, dtype=torch.uint8))
        before = {s.name: held[s.name].clone() for s in self.problem.inputs + self.problem.parameters}
        for number, step in enumerate(self.candidate.plan.steps):
            self._run(number, step, held, views, order)
        assert all(torch.equal(held[name], was) for name, was in before.items()), "an input was written"
        for spec in self.problem.outputs:
            assert bool((held[spec.name][-GUARD_BYTES:] == POISON).all()), "wrote beyond an output"
        return [views[spec.name] for spec in self.problem.outputs]

    def _run(
        self, number: int, step: Step, held: dict[str, torch.Tensor], views: dict[str, torch.Tensor], order: int
    ) -> None:
        if step.kind == "memset":
            held[step.arguments[0].name].fill_(step.byte)
        elif step.kind == "library":
            library.call_of(step, views)()
        else:
            pointers = [held[binding.name].data_ptr() for binding in step.arguments]
            getattr(self.built, f"step_{number}")((ctypes.c_void_p * len(pointers))(*pointers), order)


def build(problem: Problem, candidate: Candidate, folder: Path) -> Program:
    """Returns a candidate with a function for each of its kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    for source in candidate.sources:
        (folder / source.path).write_text(source.text.replace('extern "C" __global__', "__global__"))
    call = "template <class... P, class... A>\nvoid kw_call(void (*f)(P...), A... a) { f((P)a...); }\n"
    parts = [TOLD, f"#include <{HEADER}>", call, f'#include "{candidate.sources[0].path}"']
    for number, step in enumerate(candidate.plan.steps):
        if step.kind != "kernel":
            continue
        assert step.launch is not None
        arguments = ", ".join(f"buffers[{place}]" for place in range(len(step.arguments)))
        grid, block, shared = step.launch.grid[0], step.launch.block[0], step.launch.shared_bytes
        parts.append(f"{VISIBLE} void step_{number}(void* const* buffers, int order) {{")
        parts.append(f"  {SPACE}::call_number = order;\n  {SPACE}::begin_call();")
        parts.append(
            f"  {SPACE}::launch({grid}, {block}, {shared}, [&] {{ kw_call({step.symbol}, {arguments}); }});\n}}"
        )
    (folder / "entry.cpp").write_text("\n".join([*parts, ""]))
    _run(folder, *FLAGS, "-E", "entry.cpp", "-o", "entry.ii")
    text = rewrite((folder / "entry.ii").read_text())
    assert isinstance(text, str), text
    (folder / "entry.ii").write_text(text)
    _run(folder, *FLAGS, "-c", "-x", "c++-cpp-output", "entry.ii", "-o", "entry.o")
    _run(folder, "-shared", "entry.o", "-o", "program.so")
    return Program(problem, candidate, ctypes.CDLL(str(folder / "program.so")))


def _run(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["g++", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
