"""Draws of problems whose inputs are indices and masks: what applies, what is repaired, and what sums depend on."""

from __future__ import annotations

import torch
from tests.judge.problems import problem_of

from kernelwright.judge.draws import Draws
from kernelwright.judge.exact_bound import ExactBound

MEMORY = 64 << 20


def test_sums_under_a_mask_are_as_long_as_the_widest_mask_allows() -> None:
    problem = problem_of(
        "return x.masked_fill(mask, 0.0).sum(-1)",
        "torch.randn(16, 256), torch.arange(256)[None] >= torch.randint(1, 9, (1, 1))",
        mask="bool",
    )
    for secret in range(3):
        assert Draws(problem, secret, MEMORY).fan_in == (256,)


def test_small_integers_are_compared_without_tolerance_where_the_reference_only_sums() -> None:
    sums = Draws(problem_of("return x.cumsum(-1)", "torch.randn(8, 64)"), 1, MEMORY)
    draw = sums.draw("exact", 0)
    assert draw is not None
    (bound,) = draw.bounds
    assert isinstance(bound, ExactBound)
    assert set(draw.inputs[0].flatten().tolist()) == {-1.0, 0.0, 1.0}
    right = draw.inputs[0].cumsum(-1)
    assert bound.check(right).passed
    nearly = right.clone()
    nearly[3, 5] = torch.nextafter(nearly[3, 5], torch.tensor(100.0))
    assert not bound.check(nearly).passed
    for body in (
        "return torch.softmax(x, -1)",
        "return x.mean(-1)",
        "return x.sum(-1) / 3",
        "return (0.1 * x).sum(-1)",
    ):
        rounded = Draws(problem_of(body, "torch.randn(8, 64)"), 1, MEMORY)
        assert rounded.draw("exact", 0) is None
        assert rounded.left_out(("exact",)) == ()


def test_families_reach_large_magnitudes_as_far_as_the_reference_stays_finite() -> None:
    def most(body: str) -> float:
        draw = Draws(problem_of(body, "torch.randn(32, 64)"), 1, MEMORY).draw("huge", 0)
        assert draw is not None
        return float(draw.inputs[0].abs().max())

    assert most("return torch.relu(x)") > 1e6
    assert 1e4 < most("return (x ** 7).sum(-1)") < 1e6
    assert 100 < most("return (x ** 12).sum(-1)") < 1e4


def test_a_reference_that_accepts_a_range_only_gets_families_within_it() -> None:
    body = "return torch.nn.functional.binary_cross_entropy(x, y)"
    draws = Draws(problem_of(body, "torch.rand(32, 64), torch.rand(32, 64)"), 1, MEMORY)
    for family in ("normal", "negative", "heavy"):
        draw = draws.draw(family, 0)
        assert draw is not None, family
        assert all(0 <= float(t.min()) <= float(t.max()) <= 1 for t in draw.inputs)


def test_indices_that_the_reference_refuses_are_left_out_with_a_reason() -> None:
    body = "assert int(i[0]) == 3\n        return x[i]"
    made = "torch.randn(64, 8), torch.cat([torch.tensor([3]), torch.randint(0, 64, (99,))])"
    draws = Draws(problem_of(body, made, i="int64"), 1, MEMORY)
    assert draws.draw("highest", 0) is None
    assert "does not accept it" in draws.left_out(("highest",))[0]


def test_indices_are_pushed_to_the_limits_of_the_table() -> None:
    draws = Draws(problem_of("return x[i]", "torch.randn(500, 8), torch.randint(0, 500, (200,))", i="int64"), 1, MEMORY)
    highest, lowest = draws.draw("highest", 0), draws.draw("lowest", 0)
    assert highest is not None
    assert lowest is not None
    assert set(highest.inputs[1].tolist()) == {499}
    assert set(lowest.inputs[1].tolist()) == {0}


def test_a_closer_look_settles_cancelling_elements_and_excuses_neither_jumps_nor_fewer_bits() -> None:
    draws = Draws(problem_of("return x.cumsum(dim=-1)", "torch.randn(64, 256)"), 7, 1e9)
    g = torch.Generator().manual_seed(3)
    x = torch.randn(64, 256, generator=g) * 10.0 ** (4 * torch.rand(64, 1, generator=g) - 2)
    (bound,) = draws.closer_bounds((x,), ())
    blocks = x.view(64, 16, 16).cumsum(-1)
    before = torch.nn.functional.pad(blocks[..., -1].cumsum(-1)[:, :-1], (1, 0))
    assert bound.check((blocks + before[..., None]).reshape(64, 256)).passed
    coarse = x.bfloat16().float().double().cumsum(-1).float()
    assert not bound.check(coarse).passed

    steps = Draws(problem_of("return torch.floor(x)", "torch.randn(64, 256)"), 7, 1e9)
    y = 0.3 + torch.randint(0, 9, (64, 256), generator=g)
    y[:, 0] = 5.0  # on a jump, which moved inputs are not
    (bound,) = steps.closer_bounds((y,), ())
    answer = torch.floor(y)
    assert bound.check(answer).passed
    answer[3, 0] -= 1
    finding = bound.check(answer)
    assert not finding.passed
    assert "out[3,0]" in finding.evidence
