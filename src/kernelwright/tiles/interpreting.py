"""The child's side of `languages.interpreted`: buffers, steps in order, outputs; shared by both tile languages.

Workspaces and outputs start with conspicuous contents, never with zeros.
Not here: how one kernel runs (triton_interpret.py, cutile_interpret.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from kernelwright import codec, sizes
from kernelwright.languages import author_code
from kernelwright.languages.interpreted import INPUTS, OUTPUTS, REPORT
from kernelwright.languages.tile_arguments import Matched, PlanFault
from kernelwright.tiles.serving import import_sources
from kernelwright.types import Candidate, Failure, Problem, TensorSpec

STORAGE = {"bfloat16": "uint16", "bool": "bool"}
"""NumPy's type for the bytes of a dtype that NumPy does not have."""
POISON_BYTE = 0xCB
Run = Callable[["Buffers", ModuleType, Matched], list[str]]


class Buffers:
    """The contents of every tensor and workspace of a plan."""

    def __init__(self, problem: Problem, candidate: Candidate, folder: Path, seed: int) -> None:
        self.problem, self.candidate, self.seed = problem, candidate, seed
        self.axes = {axis.name: axis.size for axis in problem.axes}
        self.arrays: dict[str, Any] = {}
        self.dtypes: dict[str, str] = {}
        self.written: set[str] = set()
        """Outputs and workspaces that a step has written."""
        for tensor in problem.arguments:
            self.dtypes[tensor.name] = tensor.dtype
            if tensor.role == "output":
                self.arrays[tensor.name] = poisoned(tensor)
            else:
                content = (folder / INPUTS / tensor.name).read_bytes()
                self.arrays[tensor.name] = np.frombuffer(bytearray(content), storage(tensor.dtype)).reshape(
                    tensor.shape
                )
        for workspace in candidate.plan.workspaces:
            self.arrays[workspace.name] = np.full(workspace.size_bytes, POISON_BYTE, np.uint8)

    def grid(self, matched: Matched) -> tuple[int, ...]:
        """Returns a step's grid at the axes' sizes."""
        launch = matched.step.launch
        assert launch is not None  # match() has passed
        return tuple(sizes.evaluate(size, self.axes) for size in launch.grid)


def storage(dtype: str) -> Any:
    """Returns the NumPy dtype that holds a dtype's bytes."""
    return np.dtype(STORAGE.get(dtype, dtype))


def poisoned(tensor: TensorSpec) -> Any:
    """Returns an array of conspicuous contents."""
    made = np.empty(tensor.shape, storage(tensor.dtype))
    made.reshape(-1).view(np.uint8)[:] = 1 if tensor.dtype == "bool" else POISON_BYTE
    return made


def serve(run: Run, match: Callable[[Candidate], tuple[Matched, ...]]) -> None:
    """Runs the plan that the folder named on the command line asks for, and leaves outputs and a report there.

    Args:
        run: runs one kernel step in place and returns findings as text.
        match: pairs the candidate's steps with its kernels.
    """
    folder = Path(sys.argv[1]).resolve()
    request = codec.loads((folder / author_code.REQUEST).read_text())
    problem, candidate = request["problem"], request["candidate"]
    report: object
    try:
        buffers = Buffers(problem, candidate, folder, request["seed"])
        report = _run_plan(buffers, run, match, folder)
    except PlanFault as fault:
        report = fault.failure()
    if not isinstance(report, Failure):
        for tensor in problem.outputs:
            (folder / OUTPUTS / tensor.name).write_bytes(np.ascontiguousarray(buffers.arrays[tensor.name]).tobytes())
    (folder / REPORT).write_text(codec.dumps(report))


def _run_plan(
    buffers: Buffers, run: Run, match: Callable[[Candidate], tuple[Matched, ...]], folder: Path
) -> tuple[str, ...] | Failure:
    module = import_sources(buffers.candidate, folder)
    if isinstance(module, Failure):
        return module
    findings: list[str] = []
    matched = iter(match(buffers.candidate))
    for step in buffers.candidate.plan.steps:
        if step.kind == "memset":
            name = step.arguments[0].name
            buffers.arrays[name].reshape(-1).view(np.uint8)[:] = step.byte
            buffers.written.add(name)
        else:
            findings += run(buffers, module, next(matched))
    return tuple(findings)
