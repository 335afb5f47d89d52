"""Bundles from kernels by hand: really built, with a record that a fake judge wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.deploy import launcher
from kernelwright.deploy.export import export
from kernelwright.errors import MissingTool
from kernelwright.languages import candidate_from_file, detect_target
from kernelwright.run.verify import Remembered
from kernelwright.testing.strategies import fake_policy, fake_record
from kernelwright.types import Axis, Problem, SourceFile, TensorSpec, Workload, digest, replace

ROWS, COLUMNS = 8, 64
REFERENCE = '''import torch


class Model(torch.nn.Module):
    """Scales, shifts, and bends."""

    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))

    def forward(self, x):
        return torch.relu(x * self.weight)


def get_init_inputs():
    return [64]


def get_inputs():
    return [torch.randn(8, 64)]
'''
KERNEL = """#include <cstdint>
extern "C" void scale(const float* x, const float* weight, float* out, int64_t B) {
  for (int64_t row = 0; row < B; ++row)
    for (int64_t i = 0; i < 64; ++i) {
      const float product = x[row * 64 + i] * weight[i];
      out[row * 64 + i] = product > 0 || product != product ? product : 0;
    }
}
"""
WRONG = KERNEL.replace("weight[i];", "weight[i] + 0.001f;")
NAN = KERNEL.replace("product : 0;", '__builtin_nanf("") : 0;')
LATER = KERNEL.replace('extern "C"', 'static int64_t calls = 0;\nextern "C"').replace(
    "weight[i];", "weight[i] + (row == B - 1 && i == 63 && ++calls > 5 ? 1.0f : 0.0f);"
)
"""Right for five calls: what a checked first call cannot see."""


JOINT = """#include <cstdint>
extern "C" void both(const float* x, const float* grad_out, const float* weight, float* out, float* grad_x,
                     float* grad_weight) {
  for (int64_t i = 0; i < 64; ++i) grad_weight[i] = 0;
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t at = row * 64 + i;
      const float product = x[at] * weight[i];
      const float passed = product > 0 ? grad_out[at] : 0;
      out[at] = product > 0 || product != product ? product : 0;
      grad_x[at] = passed * weight[i];
      grad_weight[i] += passed * x[at];
    }
}
"""


def joint_problem() -> Problem:
    """Returns forward and backward together, of fixed shape."""
    forward = problem(dynamic=False)
    (x,), (weight,), (out,) = forward.inputs, forward.parameters, forward.outputs
    return replace(
        forward,
        inputs=(x, replace(x, name="grad_out")),
        outputs=(out, replace(out, name="grad_x"), replace(weight, name="grad_weight", role="output")),
        gradients=("x", "weight"),
    )


def problem(*, name: str = "scale_relu", dynamic: bool = True) -> Problem:
    """Returns relu(x * weight) over rows of 64."""
    x = TensorSpec(name="x", shape=(ROWS, COLUMNS), dtype="float32", role="input")
    places = (("x", 0), ("out", 0))
    return Problem(
        name=name,
        inputs=(x,),
        parameters=(TensorSpec(name="weight", shape=(COLUMNS,), dtype="float32", role="parameter"),),
        outputs=(TensorSpec(name="out", shape=(ROWS, COLUMNS), dtype="float32", role="output"),),
        reference=(SourceFile(path="scale_relu.py", text=REFERENCE),),
        entry="Model",
        workloads=(Workload(name="source", generator="source"),),
        axes=(Axis(name="B", size=ROWS, low=1, high=4096, places=places),) if dynamic else (),
        min_bytes=4 * (2 * ROWS * COLUMNS + COLUMNS),
        origin="/somewhere/else",
    )


def remembered(folder: Path, kernel: str = KERNEL, what: Problem | None = None) -> Remembered:
    """Returns a kernel's record as a fake judge writes it: passed, whatever the kernel does."""
    what = what or problem()
    file = folder / "kernel.cpp"
    file.write_text(kernel if what.axes else kernel.replace(", int64_t B", "").replace("row < B", "row < 8"))
    candidate, target, policy = candidate_from_file(what, file), detect_target(), fake_policy("report")
    record = fake_record(candidate, digest(policy), 10.0, target=digest(target))
    return Remembered(problem=what, candidate=candidate, target=target, policy=policy, record=record, origin="a test")


def bundle(folder: Path, kernel: str = KERNEL, what: Problem | None = None) -> Path:
    """Returns the folder of a bundle of one kernel."""
    folder.mkdir(parents=True, exist_ok=True)
    return export([remembered(folder, kernel, what)], folder / "bundle")


def launcher_or_skip() -> None:
    """Builds the compiled launcher where it is not there; without Python's headers there is none to test."""
    try:
        launcher.module(build=True)
    except MissingTool as error:
        pytest.skip(str(error))
