from __future__ import annotations

import torch
from tests.judge.kernel_files import make_problem

from kernelwright.judge.sensitivity import Sensitivity
from kernelwright.judge.truth import Truth
from kernelwright.reference_program import load_problem, load_reference
from kernelwright.types import SourceFile

RMS = """
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    def forward(self, x):
        wide = x.float()
        ones = torch.ones(8, dtype=torch.float32)
        norm = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (norm * ones).to(torch.bfloat16) * self.weight
def get_inputs():
    return [torch.randn(4, 8, dtype=torch.bfloat16)]
"""


def test_truth_is_float64_even_where_the_reference_names_narrow_types() -> None:
    reference = load_reference((SourceFile(path="r.py", text=RMS),), "Model")
    (x,) = reference.make_inputs(1)
    weight = torch.randn(8).bfloat16()
    (exact,) = Truth(reference, 0).exact((x,), (weight,))
    wide = x.double()
    expected = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.double()
    assert exact.dtype == torch.float64
    torch.testing.assert_close(exact, expected, rtol=1e-14, atol=1e-14)
    (own,) = Truth(reference, 0).own((x,), (weight,))
    assert own.dtype == torch.bfloat16
    assert 0 < (own.double() - exact).abs().max() < 0.05


def test_nearby_truth_moves_by_about_one_rounding() -> None:
    reference = load_problem(make_problem("layernorm"))
    truth = Truth(reference, 0)
    (x,) = reference.make_inputs(1)
    parameters = (torch.randn(256), torch.randn(256))
    (exact,) = truth.exact((x,), parameters)
    (near,) = truth.nearby((x,), parameters, relative=2.0**-24, seed=3)
    moved = (near - exact).abs()
    assert 0 < moved.max() < 1e-5
    assert moved.median() > 1e-9


def test_fan_in_and_necessary_bytes_come_from_gradients() -> None:
    found: dict[str, tuple[float, int]] = {}
    for name in ("softmax", "layernorm", "mse", "argmax"):
        problem = make_problem(name)
        reference = load_problem(problem)
        sensitivity = Sensitivity(problem, reference, reference.make_inputs(2), 0)
        found[name] = (sensitivity.fan_in()[0], sensitivity.must_move_bytes())
    size = 64 * 256 * 4
    assert found == {
        "softmax": (256, 2 * size),
        "layernorm": (256 + 2, 2 * size + 2 * 1024),
        "mse": (2 * 64 * 256, 2 * size + 4),
        "argmax": (256, 64 * 8),  # no gradient: inputs for each output, and only the outputs must move
    }
