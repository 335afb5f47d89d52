from __future__ import annotations

import math

import pytest
import torch
from tests.judge.kernel_files import make_problem

from kernelwright.judge.inputs import VALUES, draw_parameters, fill_family, is_free
from kernelwright.judge.policies import FAMILIES, POLICIES
from kernelwright.judge.structured import STRUCTURED
from kernelwright.types import Role, TensorSpec, replace

X = make_problem("softmax").inputs[0]
GIVEN = (torch.randn(64, 256, generator=torch.Generator().manual_seed(1)),)


def test_policies_name_families_that_exist() -> None:
    assert set(FAMILIES) == set(VALUES) | {"given"} | set(STRUCTURED)
    assert all(set(policy.families) <= set(FAMILIES) for policy in POLICIES.values())
    assert POLICIES["report"].rounds >= 30


def filled(
    family: str, specs: tuple[TensorSpec, ...], given: tuple[torch.Tensor, ...], seed: int
) -> tuple[torch.Tensor, ...]:
    made = fill_family(family, specs, given, seed)
    assert made is not None
    return made


@pytest.mark.parametrize("family", ["given", *VALUES])
def test_a_family_keeps_shape_dtype_and_range_and_differs_by_seed(family: str) -> None:
    (x,) = filled(family, (X,), GIVEN, 3)
    assert (x.shape, x.dtype) == (GIVEN[0].shape, torch.float32)
    assert bool(x.isfinite().all()) == (family != "nonfinite")
    if family != "given":
        assert not torch.equal(x, filled(family, (X,), GIVEN, 4)[0])
    limited = replace(X, low=0.0, high=1.0)
    (y,) = filled(family, (limited,), (GIVEN[0].sigmoid(),), 3)
    held = y[y.isfinite()]
    assert held.min() >= 0
    assert held.max() <= 1


def test_families_have_the_property_they_are_for() -> None:
    made = {family: filled(family, (X,), GIVEN, 7)[0] for family in VALUES}
    assert torch.equal(made["integers"], made["integers"].round())
    assert made["negative"].max() < 0 < made["positive"].min()
    assert 0.2 < (made["zeros"] == 0).float().mean() < 0.8
    assert bool((made["ascending"].diff(dim=-1) >= 0).all())
    assert made["large"].std() > 30
    assert made["outliers"].abs().max() / made["outliers"].abs().median() > 100
    bad = made["nonfinite"]
    assert bad.isnan().any() or (bad.abs() == math.inf).any()
    constant = made["constant"].double()
    assert constant.std() / constant.mean().abs() < 1e-3
    coarse = constant.bfloat16().double()
    assert ((coarse - constant).sign().mean()).abs() > 0.99  # rounding errs in one direction
    assert ((constant.half().double() - constant).sign().mean()).abs() > 0.9


def test_structured_tensors_stay_as_given() -> None:
    mask = TensorSpec(name="m", shape=(64, 256), dtype="float32", role="input")
    index = TensorSpec(name="i", shape=(8,), dtype="int64", role="input")
    given = ((GIVEN[0] > 0).float(), torch.arange(8))
    assert fill_family("normal", (mask, index), given, 1) is None
    x, m, i = filled("large", (X, mask, index), (*GIVEN, *given), 1)
    assert torch.equal(m, given[0])
    assert torch.equal(i, given[1])
    assert not torch.equal(x, GIVEN[0])
    assert is_free(X, GIVEN[0].bfloat16())


def test_parameters_are_never_neutral_and_variances_stay_positive() -> None:
    shape = (256,)
    roles: tuple[tuple[str, Role], ...] = (
        ("weight", "parameter"),
        ("bias", "parameter"),
        ("running_var", "buffer"),
        ("table", "buffer"),
    )
    specs = [TensorSpec(name=name, shape=shape, dtype="float32", role=role) for name, role in roles]
    initial = [torch.ones(shape), torch.zeros(shape), torch.ones(shape), torch.arange(256.0)]
    seen = []
    for style in range(3):
        weight, bias, variance, table = draw_parameters(specs, initial, style, 11)
        assert len(set(weight.tolist())) > 100
        assert len(set(bias.tolist())) > 100
        assert variance.min() > 0
        assert len(set(variance.tolist())) > 100
        assert torch.equal(table, initial[3])
        seen.append(weight)
    assert not torch.equal(seen[1], seen[2])


def test_rows_are_masked_among_nonfinite_values() -> None:
    (drawn,) = fill_family("nonfinite", (X,), GIVEN, 3) or ()
    empty = (drawn == float("-inf")).all(dim=1)
    assert bool(empty.any())
    assert int((drawn[:, 0] == float("-inf")).sum()) > int(empty.sum())


def test_a_tensor_of_more_elements_than_float32_can_count_is_sampled_within_itself() -> None:
    count = (1 << 25) - 1
    tensor = torch.arange(1024, dtype=torch.float32).repeat(count // 1024 + 1)[:count].half()
    assert is_free(replace(X, shape=(count,), dtype="float16"), tensor)
