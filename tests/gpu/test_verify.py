"""What is judged on a device at sizes that vary and with gradients, and verification of its records."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gpu.conftest import Judges
from tests.judge.kernel_files import judged, kernels, make_problem, reason
from tests.judge.test_gradients import joint

from kernelwright.judge import policies_for
from kernelwright.run.verify import Remembered, verify
from kernelwright.types import Binding, Candidate, Launch, LaunchPlan, Policy, SourceFile, Step, Target, digest, replace

BOTH_PASSES = """
extern "C" __global__ void kernel(const float* x, const float* grad_out, const float* weight, float* out,
                                  float* grad_x, float* grad_weight) {
  const int c = threadIdx.x;
  __shared__ float p[64];
  float sum_of_column = 0;
  for (int r = 0; r < 32; ++r) {
    const float *a = x + r * 64, *g = grad_out + r * 64;
    float m = a[0], s = 0, dot = 0;
    for (int i = 0; i < 64; ++i) m = a[i] > m || a[i] != a[i] ? a[i] : m;
    for (int i = 0; i < 64; ++i) s += expf(a[i] - m);
    p[c] = expf(a[c] - m) / s;
    __syncthreads();
    for (int i = 0; i < 64; ++i) dot += p[i] * g[i] * weight[i];
    out[r * 64 + c] = p[c] * weight[c];
    grad_x[r * 64 + c] = p[c] * (g[c] * weight[c] - FACTOR * dot);
    sum_of_column += p[c] * g[c];
    __syncthreads();
  }
  grad_weight[c] = sum_of_column;
}
"""


def test_a_kernel_for_every_size_is_judged_at_hidden_shapes(judges: Judges, quick: Policy) -> None:
    kernel = next(k for k in kernels("honest_cuda", suffix=".cu") if k.problem == "dynamic")
    problem = make_problem("dynamic")
    (record,) = judges.of(problem).judge([kernel.candidate(problem)], replace(quick, name="hidden", hidden_shapes=3))
    assert reason(record) == "passed", record.outcome
    assert "hidden shapes" in {check.name for check in judged(record).verdict.checks}


def test_forward_and_backward_are_judged_together(judges: Judges, quick: Policy) -> None:
    problem = joint()
    arguments = tuple(Binding(kind="tensor", name=t.name, ctype="float") for t in problem.arguments)
    step = Step(symbol="kernel", arguments=arguments, launch=Launch(grid=(1, 1, 1), block=(64, 1, 1)))
    right, wrong = (
        Candidate(
            problem=digest(problem), language="cuda", plan=LaunchPlan(steps=(step,)),
            sources=(SourceFile(path="kernel.cu", text=BOTH_PASSES.replace("FACTOR", factor)),),
        )
        for factor in ("1.0f", "0.999f")
    )  # fmt: skip
    passed, failed = list(judges.of(problem).judge([right, wrong], quick))
    assert reason(passed) == "passed", passed.outcome
    assert reason(failed) == "accuracy"


@pytest.mark.alone
def test_a_record_of_a_device_holds(judges: Judges, target: Target, tmp_path: Path) -> None:
    problem = make_problem("softmax")
    kernel = next(k for k in kernels("honest_cuda", suffix=".cu") if k.path.stem == "softmax_block")
    candidate, policy = kernel.candidate(problem), policies_for(target)["measure"]
    (record,) = judges.of(problem).judge([candidate], policy)
    assert record.passed, record.outcome
    remembered = Remembered(
        problem=problem, candidate=candidate, target=target, policy=policy, record=record, origin="this test"
    )
    found = verify(remembered, target)
    assert found.checks[0].passed, found.checks
