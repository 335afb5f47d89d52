"""The problem that tests/cheats_python and tests/honest_python are about, and one session that judges them all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.judge.kernel_files import HERE, QUICK

from kernelwright.judge import Judge
from kernelwright.languages import detect_target
from kernelwright.types import (
    Candidate,
    LaunchPlan,
    Problem,
    Record,
    Role,
    SourceFile,
    TensorSpec,
    Workload,
    digest,
    replace,
)

PYTHON_QUICK = replace(
    QUICK,
    name="python quick",
    families=("given", "large", "negative", "constant", "integers", "rows", "nonfinite", "powers"),
    call_deadline_s=60.0,
    deadline_s=300.0,
)
"""Long deadlines: on a busy machine importing torch's compiler takes its time."""
REFERENCE = """\
import torch
class Model(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.eps = eps
    def forward(self, x):
        y = torch.nn.functional.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)
        return y, x.amax(dim=-1)
def get_inputs():
    return [torch.randn(64, 256)]
def get_init_inputs():
    return [256, 1e-5]
"""


def _tensor(name: str, shape: tuple[int, ...], role: Role) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype="float32", role=role)


def python_problem() -> Problem:
    """Parameters, two outputs, arguments of the constructor: everything that a Python candidate can get wrong."""
    return Problem(
        name="norm_and_max",
        inputs=(_tensor("x", (64, 256), "input"),),
        parameters=(_tensor("weight", (256,), "parameter"), _tensor("bias", (256,), "parameter")),
        outputs=(_tensor("y", (64, 256), "output"), _tensor("m", (64,), "output")),
        reference=(SourceFile(path="norm_and_max.py", text=REFERENCE),),
        entry="Model",
        workloads=(Workload(name="given", generator="source"),),
        min_bytes=4 * 64 * 256,
    )


@dataclass(frozen=True)
class PythonFile:
    """A file with what its head says: `TRICK:` and `CAUGHT BY:` (names of checks or failure kinds), or `LOOKS:`."""

    path: Path

    def said(self, key: str) -> str:
        found = re.search(rf"^# {key}: (.*)$", self.path.read_text(), re.MULTILINE)
        return found[1].strip() if found else ""

    @property
    def caught_by(self) -> list[str]:
        return [word.strip() for word in self.said("CAUGHT BY").split("|") if word.strip()]


def python_files(folder: str) -> list[PythonFile]:
    return [PythonFile(path) for path in sorted((HERE / folder).glob("*.py"))]


def python_candidate(problem: Problem, text: str) -> Candidate:
    return Candidate(
        problem=digest(problem),
        language="python",
        sources=(SourceFile(path="kernel.py", text=text),),
        plan=LaunchPlan(steps=()),
    )


class Courtroom:
    """One session for all files; each is judged when its test asks for it."""

    def __init__(self) -> None:
        self.problem = python_problem()
        self.judge = Judge(self.problem, replace(detect_target(), cache_bytes=2 << 20))

    def record(self, file: PythonFile) -> Record:
        candidate = python_candidate(self.problem, file.path.read_text())
        policy = PYTHON_QUICK
        if deadline := file.said("CALL DEADLINE"):
            policy = replace(policy, call_deadline_s=float(deadline))
        return next(self.judge.judge([candidate], policy))

    def close(self) -> None:
        self.judge.close()
