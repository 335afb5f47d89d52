"""Tile candidates on the CPU: many plans in one child process, each with inputs and outputs as files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from kernelwright import codec
from kernelwright.languages import author_code
from kernelwright.languages.interpreted import INPUTS, OUTPUTS, REPORT
from kernelwright.reference_program import DTYPES
from kernelwright.types import Candidate, Failure, Problem

ROOT = Path(__file__).parents[3]
CHILDREN = 2
Job = tuple[Problem, Candidate, list[torch.Tensor]]
"""A problem, its candidate, and inputs and parameters in order."""


def run(language: str, jobs: Sequence[Job], folder: Path) -> list[list[torch.Tensor] | str]:
    """Returns each job's outputs, or what was wrong with it."""
    folders = [folder / str(number) for number in range(len(jobs))]
    for place, job in zip(folders, jobs, strict=True):
        prepare(place, job)
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.experts.gpu.interpreting_child", language]
    children = [
        subprocess.Popen(
            [*command, *map(str, folders[start::CHILDREN])],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        for start in range(CHILDREN)
    ]
    errors = [child.communicate()[1] for child in children]
    told = [errors[number % CHILDREN] for number in range(len(jobs))]
    return [outcome(place, job, text) for place, job, text in zip(folders, jobs, told, strict=True)]


def prepare(place: Path, job: Job) -> None:
    """Writes what the child reads."""
    problem, candidate, arguments = job
    author_code.write_sources(candidate, place)
    (place / INPUTS).mkdir()
    (place / OUTPUTS).mkdir()
    for spec, tensor in zip(problem.inputs + problem.parameters, arguments, strict=True):
        (place / INPUTS / spec.name).write_bytes(bytes_of(tensor))
    request = {"problem": problem, "candidate": candidate, "seed": 0}
    (place / author_code.REQUEST).write_text(codec.dumps(request))


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Returns a tensor's elements, row-major."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def outcome(place: Path, job: Job, errors: str) -> list[torch.Tensor] | str:
    """Returns what the child left: outputs, or the failure, the findings, or its traceback as text."""
    if not (place / REPORT).exists():
        return errors[-3000:]
    report = codec.loads((place / REPORT).read_text())
    if isinstance(report, Failure):
        return str(report)[:3000]
    if findings := [line for line in report if not is_of_part(line, job[1])]:
        return "\n".join(findings)[:3000]
    outputs = []
    for spec in job[0].outputs:
        content = bytearray((place / OUTPUTS / spec.name).read_bytes())
        outputs.append(torch.frombuffer(content, dtype=DTYPES[spec.dtype]).reshape(spec.shape))
    return outputs


def is_of_part(finding: str, candidate: Candidate) -> bool:
    """Tells whether a finding only says that one of several steps that write a tensor leaves a part to the others."""
    bound = [binding.name for step in candidate.plan.steps for binding in step.arguments if binding.kind == "tensor"]
    shared = {name for name in bound if bound.count(name) > 1}
    return ": unwritten: " in finding and any(f" of {name}_ptr were never" in finding for name in shared)
