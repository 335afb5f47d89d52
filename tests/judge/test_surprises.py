"""Contents of every family come in calls that look like timed ones, and a few parts unlike the others in one family."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.judge.kernel_files import make_problem

from kernelwright.judge.draws import Draws
from kernelwright.judge.inputs import fill_family
from kernelwright.judge.patchwork import ODD_SHARE
from kernelwright.judge.policies import FAMILIES
from kernelwright.judge.surprises import ORDINARY, SURPRISED_ELEMENTS, Surprises
from kernelwright.types import TensorSpec

MEMORY = 1 << 28


def opened(name: str) -> tuple[Draws, Surprises]:
    draws = Draws(make_problem(name), 7, MEMORY)
    for family in FAMILIES:
        draws.draw(family, 0)
    return draws, Surprises(draws, np.random.default_rng(5))


def test_every_family_that_can_vary_something_comes_and_in_random_order() -> None:
    _, surprises = opened("masked")
    found = surprises.families(FAMILIES, 1000)
    assert {"shifted", "nonfinite", "constant", "patchwork", "highest", "single"} <= set(found)
    assert not set(found) & set(ORDINARY)
    assert found != surprises.families(FAMILIES, 1000)
    assert len(surprises.families(FAMILIES, SURPRISED_ELEMENTS // 3)) == 3


def test_indices_alone_have_structured_families_only() -> None:
    _, surprises = opened("lookup")
    found = surprises.families(FAMILIES, 1000)
    assert "highest" in found
    assert "shifted" not in found


@pytest.mark.parametrize("family", ["shifted", "huge", "tiny", "constant", "zeros", "integers"])
def test_contents_are_those_of_the_family_but_no_call_has_seen_them(family: str) -> None:
    draws, surprises = opened("softmax")
    into = torch.full((64, 256), torch.nan)
    surprises.write(family, (into,))
    (seen,) = next(draw for draw in draws.every() if draw.family == family).inputs
    assert not torch.equal(into, seen)
    ratio = into.abs().max() / seen.abs().max()
    assert 0.49 < float(ratio) <= 1.0
    if family == "shifted":
        assert bool((into.std(-1) < 0.01 * into.mean(-1).abs()).all())
    if family == "integers":
        assert torch.equal(into, into.round())


def test_masks_of_a_family_replace_masks_and_leave_numbers_alone() -> None:
    _, surprises = opened("masked")
    x, mask = torch.randn(64, 128), torch.rand(64, 128) < 0.3
    before = x.clone()
    surprises.write("highest", (x, mask))
    assert bool(mask.all())
    assert torch.equal(x, before)


@pytest.mark.parametrize("shape", [(64, 256), (4, 16, 8, 8), (1, 16, 64), (1024,)])
def test_a_patchwork_begins_as_usual_and_is_odd_somewhere(shape: tuple[int, ...]) -> None:
    spec = TensorSpec(name="x", shape=shape, dtype="float32", role="input")
    made = fill_family("patchwork", (spec,), (torch.randn(shape),), 3)
    assert made is not None
    leading = next((n for n in (shape[0], shape[0] * shape[1] if len(shape) > 2 else 16) if 4 <= n < 1024), 16)
    parts = made[0].view(leading, -1).double()
    odd = (parts.mean(-1).abs() > 1) | (parts.std(-1) < 0.5) | (parts.std(-1) > 2)
    assert not bool(odd[0])
    assert 1 <= int(odd.sum()) <= max(1, leading // ODD_SHARE)
