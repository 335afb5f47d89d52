"""Problems with gradients: forward and backward together, in truth, in baselines and in kernels."""

from __future__ import annotations

import pytest
import torch
from tests.judge.kernel_files import QUICK, judged
from tests.judge.problems import problem_of

from kernelwright.capture import gradients
from kernelwright.errors import SourceError
from kernelwright.graph import Ref
from kernelwright.judge import Judge
from kernelwright.judge.baselines import make_baseline
from kernelwright.judge.draws import Draws
from kernelwright.judge.truth import Truth
from kernelwright.languages import detect_target
from kernelwright.reference_program import load_problem
from kernelwright.types import Binding, Candidate, LaunchPlan, Problem, SourceFile, Step, digest, replace

SCALED = "self.weight = torch.nn.Parameter(torch.randn(64))"


def joint(body: str = "return torch.softmax(x, -1) * self.weight", *wanted: str, inputs: str = "") -> Problem:
    problem = problem_of(body, inputs or "torch.randn(32, 64)", name="joint", parameters=SCALED)
    labels = [spec.name for spec in problem.inputs]
    return gradients.complete(replace(problem, gradients=wanted or ("*",)), labels)


def test_gradients_of_outputs_are_inputs_and_those_of_tensors_outputs() -> None:
    problem = joint()
    assert [spec.name for spec in problem.inputs] == ["x", "grad_out"]
    assert [spec.name for spec in problem.outputs] == ["out", "grad_x", "grad_weight"]
    assert [spec.shape for spec in problem.outputs] == [(32, 64), (32, 64), (64,)]
    assert problem.gradients == ("x", "weight")
    assert joint("return torch.softmax(x, -1) * self.weight", "weight").gradients == ("weight",)


def test_truth_is_the_derivative_in_float64() -> None:
    reference = load_problem(joint())
    x, grad = reference.make_inputs(1)
    weight = torch.randn(64)
    out, grad_x, grad_weight = Truth(reference, 0).exact((x, grad), (weight,))
    p = torch.softmax(x.double(), -1)
    scaled = grad.double() * weight.double()
    torch.testing.assert_close(out, p * weight.double(), rtol=1e-13, atol=1e-15)
    expected = p * (scaled - (scaled * p).sum(-1, keepdim=True))
    torch.testing.assert_close(grad_x, expected, rtol=1e-10, atol=1e-14)
    torch.testing.assert_close(grad_weight, (grad.double() * p).sum(0), rtol=1e-12, atol=1e-14)
    own = Truth(reference, 0).own((x, grad), (weight,))
    assert [t.dtype for t in own] == [torch.float32] * 3
    assert not any(t.requires_grad for t in own)


def test_sums_of_the_backward_pass_are_seen() -> None:
    _, of_x, of_weight = Draws(joint(), 3, 64 << 20).fan_in
    assert of_x >= 64
    assert of_weight >= 32


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return x.detach() * 2", "no output has a gradient"),
        ("return x.argmax(-1)", "no output is floating"),
        ("return torch.sqrt(x - x.amin(-1, keepdim=True)) * self.weight", "NaN|infinite"),
    ],
)
def test_what_has_no_gradient_is_refused(body: str, words: str) -> None:
    with pytest.raises(SourceError, match=words):
        joint(body)


def test_of_all_gradients_those_are_left_out_that_no_output_has() -> None:
    assert joint("return x * 2").gradients == ("x",)
    with pytest.raises(SourceError, match="no output has a gradient"):
        joint("return x * 2", "weight")


def test_a_name_that_has_no_gradient_is_refused() -> None:
    with pytest.raises(SourceError, match=r"there is no gradient for 'mask'.*x, weight"):
        joint("return x.masked_fill(y > 0, 0.0) * self.weight", "mask", inputs="torch.randn(8, 64), torch.arange(64)")


def test_baselines_give_the_same_outputs_and_keep_up_with_changed_memory() -> None:
    problem = joint()
    reference = load_problem(problem)
    inputs, weight = reference.make_inputs(1), torch.randn(64)
    made = make_baseline("eager", problem, reference, inputs=[inputs] * 8, parameters=(weight,), threads=1)
    weight.mul_(2.0)
    truth = Truth(reference, 0).exact(inputs, (weight,))
    assert len(made.outputs(0)) == 3  # type: ignore[union-attr]
    for own, exact in zip(made.outputs(0), truth, strict=True):  # type: ignore[union-attr]
        torch.testing.assert_close(own.double(), exact, rtol=1e-4, atol=1e-5)


def test_the_graph_of_both_passes_gives_what_the_reference_gives() -> None:
    problem = joint()
    reference = load_problem(problem)
    arguments = reference.make_inputs(1)
    graph, reason = gradients.trace(problem, reference, arguments)
    assert graph is not None, reason
    assert len(graph.outputs) == 3
    named = {item.name for node in graph.nodes for _, item in node.arguments if isinstance(item, Ref)}
    assert {"x", "grad_out", "weight"} <= named


KERNEL = """
#include <cmath>
extern "C" void kernel(const float* x, const float* grad_out, const float* weight, float* out, float* grad_x,
                       float* grad_weight) {
  for (int c = 0; c < 64; ++c) grad_weight[c] = 0;
  for (int r = 0; r < 32; ++r) {
    const float *a = x + r * 64, *g = grad_out + r * 64;
    float p[64], m = -INFINITY, s = 0, dot = 0;
    for (int c = 0; c < 64; ++c) m = std::isnan(a[c]) || a[c] > m ? a[c] : m;
    for (int c = 0; c < 64; ++c) m = std::isnan(a[c]) ? a[c] : m;
    for (int c = 0; c < 64; ++c) s += p[c] = std::exp(a[c] - m);
    for (int c = 0; c < 64; ++c) p[c] /= s, dot += p[c] * g[c] * weight[c];
    for (int c = 0; c < 64; ++c) {
      out[r * 64 + c] = p[c] * weight[c];
      grad_x[r * 64 + c] = p[c] * (g[c] * weight[c] - DOT);
      grad_weight[c] += p[c] * g[c];
    }
  }
}
"""


def test_a_kernel_of_both_passes_is_judged_and_a_forgotten_term_is_found() -> None:
    problem = joint()
    arguments = tuple(Binding(kind="tensor", name=t.name, ctype="float") for t in problem.arguments)
    right, wrong = (
        Candidate(
            problem=digest(problem),
            language="cpp",
            sources=(SourceFile(path="kernel.cpp", text=KERNEL.replace("DOT", term)),),
            plan=LaunchPlan(steps=(Step(symbol="kernel", arguments=arguments),)),
        )
        for term in ("dot", "dot * 0.999f")
    )
    with Judge(problem, replace(detect_target(), cache_bytes=2 << 20)) as session:
        passed, failed = list(session.judge([right, wrong], replace(QUICK, rounds=2)))
    checks = {check.name: check for check in judged(passed).verdict.checks}
    assert checks["accuracy"].passed, checks["accuracy"]
    assert "grad_x" in judged(failed).verdict.checks[-1].evidence
    assert not failed.passed
