from __future__ import annotations

import itertools
import math

import torch
from tests.judge.kernel_files import make_problem

from kernelwright.judge.sensitivity import Sensitivity
from kernelwright.judge.truth import Truth, untie
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


IN_PLACE = """\
import torch
HALF = torch.full((3,), 0.5)
def add_into(index, x):
    made = torch.zeros(3).index_add_(0, index, x)
    made[1] += x[0]
    kept = HALF.clone()
    return made + kept.mul_(3.0) + torch.zeros(3, dtype=torch.float16).add_(x[:3])
"""


def test_truth_keeps_what_a_reference_writes_into_tensors_of_its_own() -> None:
    reference = load_reference((SourceFile(path="add_into.py", text=IN_PLACE),), "add_into")
    index, x = torch.tensor([0, 1, 1, 2]), torch.tensor([0.1, 0.2, 0.3, 0.4])
    (exact,) = Truth(reference, 0).exact((index, x), ())
    wide = x.double()
    own_sums = torch.stack([wide[0], wide[1] + wide[2] + wide[0], wide[3]])
    assert exact.dtype == torch.float64
    torch.testing.assert_close(exact, own_sums + 1.5 + wide[:3], rtol=1e-15, atol=0)


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


def test_untying_tells_apart_what_no_relative_change_does_and_keeps_the_order() -> None:
    values = torch.tensor([0.0, 0.0, math.inf, math.inf, -math.inf, -math.inf, math.nan, math.nan, 1.0, 1.0])
    moved = untie(values, 2.0**-24, torch.Generator().manual_seed(3))
    assert bool(moved.isfinite().all())
    assert len(set(moved.tolist())) == len(values)
    by_kind = [moved[4:6], moved[0:2], moved[8:10], moved[2:4], moved[6:8]]
    for lower, higher in itertools.pairwise(by_kind):
        assert float(lower.max()) < float(higher.min())
    assert float(moved[0:2].abs().max()) < 1e-280
    other = untie(values, -(2.0**-24), torch.Generator().manual_seed(3))
    assert bool(((moved[0] < moved[1]) != (other[0] < other[1])).item())
    assert bool(((moved[6] < moved[7]) != (other[6] < other[7])).item())
