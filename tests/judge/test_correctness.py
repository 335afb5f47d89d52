"""The bounds: what must pass and what must not, with answers made in torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.judge.kernel_files import make_problem

from kernelwright.judge import correctness
from kernelwright.judge.correctness import FloatBound, bounds_for, ties_left_open
from kernelwright.judge.exact_bound import ExactBound
from kernelwright.judge.inputs import VALUES
from kernelwright.judge.magnitudes import exponents, groups_of, kinds
from kernelwright.judge.truth import nudge
from kernelwright.types import SourceFile, ToleranceRule, replace

RULE = ToleranceRule()
Make = Callable[[torch.Tensor], torch.Tensor]


def _inputs(rows: int = 128, columns: int = 512) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(5))


def _bound(function: Make, x: torch.Tensor, *, terms: float) -> FloatBound:
    nearby = [function(x.double() * (1 + 2.0**-24 * torch.sign(torch.randn(x.shape, generator=torch.Generator()))))]
    return FloatBound("out", truth=function(x.double()), own=function(x), nearby=nearby, rule=RULE, terms=terms)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def rounded(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Keeps that many bits after the leading one."""
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp(torch.round(mantissa * 2 ** (bits + 1)) / 2 ** (bits + 1), exponent)


def sequential(x: torch.Tensor) -> torch.Tensor:
    """Softmax with the plainest sum, one after the other."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    s = torch.zeros(x.shape[0])
    for column in range(x.shape[1]):
        s = s + e[:, column]
    return e / s[:, None]


@pytest.mark.parametrize("make", [softmax, sequential, lambda x: softmax(x.double()).float()])
def test_right_answers_in_another_order_pass(make: Make) -> None:
    x = _inputs()
    found = _bound(softmax, x, terms=512).check(make(x))
    assert found.passed, found.evidence
    assert found.ratio < 1


@pytest.mark.parametrize(
    "make",
    [
        lambda x: softmax(x.half()).float(),
        lambda x: softmax(x.bfloat16()).float(),
        lambda x: softmax(rounded(x, 10)),
        lambda x: rounded(softmax(x), 10),
        lambda x: softmax(x) * (1 + 2.0**-13),
        torch.zeros_like,
        lambda x: torch.full_like(x, 1 / 512),
        lambda x: x,
        lambda x: softmax(x.flip(0)),
    ],
    ids=["float16", "bfloat16", "tf32 in", "tf32 out", "biased", "zeros", "constant", "copy", "other rows"],
)
def test_wrong_answers_fail(make: Make) -> None:
    x = _inputs()
    found = _bound(softmax, x, terms=512).check(make(x))
    assert (found.passed, found.check) == (False, "accuracy")
    assert found.ratio > 1


def test_an_error_in_one_row_is_seen() -> None:
    x = _inputs()
    given = softmax(x)
    given[77] *= 1 + 1e-4
    found = _bound(softmax, x, terms=512).check(given)
    assert not found.passed
    assert "out[77," in found.evidence


def test_an_elementwise_function_has_no_room_for_sums() -> None:
    x = _inputs()
    bound = _bound(torch.exp, x, terms=1)
    assert bound.check(torch.exp(x)).passed
    assert bound.check(torch.exp(x) * (1 + 2**-23)).passed
    assert not bound.check(torch.exp(x) * (1 + 16 * 2.0**-23)).passed


def test_cancellation_is_judged_by_what_the_answer_is_worth() -> None:
    g = torch.Generator().manual_seed(9)
    x = 1000 + torch.randn(64, 4096, generator=g)

    def centred(t: torch.Tensor) -> torch.Tensor:
        return (t - 1000).mean(-1) if t.dtype == torch.float64 else t.mean(-1) - 1000

    bound = _bound(centred, x, terms=4096)
    assert bound.check(x.flip(-1).cumsum(-1)[:, -1] / 4096 - 1000).passed
    assert not bound.check(x.bfloat16().float().mean(-1) - 1000).passed


def test_a_lucky_scalar_does_not_set_the_scale() -> None:
    x = _inputs().square()
    truth = x.double().mean()
    bound = FloatBound("out", truth=truth, own=truth.float(), nearby=[truth], rule=RULE, terms=float(x.numel()))
    lanes = x.reshape(-1, 16).cumsum(0)[-1].sum() / x.numel()
    assert bound.check(lanes).passed
    assert not bound.check(lanes * (1 + 1e-4)).passed


def test_the_kind_of_every_element_must_be_the_references() -> None:
    truth = torch.tensor([1.0, math.nan, math.inf, -math.inf, 2.0], dtype=torch.float64)
    bound = FloatBound("out", truth=truth, own=truth.float(), nearby=[], rule=RULE, terms=1)
    assert bound.check(truth.float()).passed
    for place, bad in ((0, math.nan), (1, 0.0), (2, 3e38), (3, math.inf), (4, math.inf)):
        given = truth.float()
        given[place] = bad
        found = bound.check(given)
        assert (found.passed, found.check) == (False, "non-finite")
        assert f"out[{place}]" in found.evidence
    assert bound.odd
    finite = FloatBound("out", truth=truth[:1], own=truth[:1].float(), nearby=[], rule=RULE, terms=1)
    assert not finite.odd
    assert finite.check(torch.tensor([math.nan])).check == "non-finite"


def test_a_large_output_is_compared_in_parts_as_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    truth = torch.randn(5000, dtype=torch.float64).exp()
    truth[4100] = math.inf
    near = truth * (1 + 1e-7)
    bound = FloatBound("out", truth=truth, own=truth.float(), nearby=[near], rule=RULE, terms=64)
    wrong = [truth.float() for _ in range(4)]
    wrong[1][3333] *= 1.01
    wrong[2][4999] = math.nan
    wrong[3][::2] *= 1.0 + 4e-6
    whole = [bound.check(given) for given in wrong]
    monkeypatch.setattr(correctness, "CHUNK", 1000)
    parts = [bound.check(given) for given in wrong]
    assert [found.passed for found in whole] == [True, False, False, False]
    for one, other in zip(whole, parts, strict=True):
        assert (one.passed, one.check, one.evidence, one.doubtful) == (
            other.passed, other.check, other.evidence, other.doubtful,
        )  # fmt: skip
        assert one.ratio == pytest.approx(other.ratio, rel=1e-12)


def test_overflow_of_the_reference_or_its_exact_value_are_both_right() -> None:
    truth = torch.tensor([1e39, 1.0], dtype=torch.float64)
    bound = FloatBound("out", truth=truth, own=torch.tensor([math.inf, 1.0]), nearby=[], rule=RULE, terms=1)
    assert bound.check(torch.tensor([math.inf, 1.0])).passed
    assert not bound.check(torch.tensor([math.nan, 1.0])).passed


def test_half_precision_problems_expect_float32_sums() -> None:
    x = _inputs().bfloat16()
    truth, own = x.double().sum(-1), x.float().sum(-1).bfloat16()
    bound = FloatBound("out", truth=truth, own=own, nearby=[], rule=RULE, terms=512)
    assert bound.check(x.float().flip(-1).sum(-1).bfloat16()).passed
    narrow = torch.zeros(128, dtype=torch.bfloat16)
    for column in range(512):
        narrow = narrow + x[:, column]
    assert not bound.check(narrow).passed


def test_groups_are_binades_joined_until_they_are_large_enough() -> None:
    counts = torch.zeros(20, dtype=torch.long)
    counts[18], counts[10], counts[9], counts[2] = 5, 100, 40, 3
    group = groups_of(counts).tolist()
    assert group[18] == group[10] == 1
    assert group[9] == group[2] == group[0] == 0
    assert groups_of(torch.tensor([0, 7, 0])).tolist() == [0, 0, 0]
    assert groups_of(torch.tensor([500, 40, 0, 60])).tolist() == [0, 1, 1, 2]
    assert groups_of(torch.tensor([5, 7, 0, 60])).tolist() == [0, 0, 0, 0]
    assert groups_of(torch.tensor([500, 0, 0])).tolist() == [0, 0, 0]


def _pool(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(x, 2)


def _pool_across(x: torch.Tensor) -> torch.Tensor:
    return ((x[..., ::2, ::2] + x[..., 1::2, 1::2]) + (x[..., ::2, 1::2] + x[..., 1::2, ::2])) * 0.25


@pytest.mark.parametrize("family", ["zeros", "rows", "outliers", "normal"])
@pytest.mark.parametrize("seed", range(3))
def test_sums_that_nearly_cancel_pass_in_any_order(family: str, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = VALUES[family]((16, 32, 64, 64), generator)
    nearby = [_pool(nudge(x, 2.0**-24, generator)) for _ in range(2)]
    bound = FloatBound("out", truth=_pool(x.double()), own=_pool(x), nearby=nearby, rule=RULE, terms=4)
    found = bound.check(_pool_across(x))
    assert found.passed, found.evidence
    for coarse in (_pool(rounded(x, 10)), _pool(x) * (1 + 2.0**-18)):
        assert not bound.check(coarse).passed


def test_binades() -> None:
    values = torch.tensor([0.0, 1.0, 1.99, 2.0, 0.5, 1e-45, 1.2e-38]).double()
    assert exponents(values, torch.float32).tolist() == [-126, 1, 1, 2, 0, -126, -125]


def test_kinds() -> None:
    assert kinds(torch.tensor([0.0, math.nan, math.inf, -math.inf])).tolist() == [0, 1, 2, 3]


def test_integers_must_be_equal_except_where_rounding_decides() -> None:
    truth = torch.tensor([3, 1, 2])
    bound = ExactBound("out", truth=truth, own=truth, nearby=[torch.tensor([3, 1, 0])], ties_open=False)
    assert bound.check(truth).passed
    assert not bound.check(torch.tensor([3, 1, 0])).passed
    either = ExactBound("out", truth=truth, own=torch.tensor([3, 0, 2]), nearby=[truth], ties_open=False)
    assert either.check(torch.tensor([3, 0, 2])).passed
    assert either.check(truth).passed
    assert not either.check(torch.tensor([3, 2, 2])).passed


def test_open_ties_leave_out_what_moves_and_nothing_else() -> None:
    truth = torch.tensor([3, 1, 2])
    bound = ExactBound("out", truth=truth, own=truth, nearby=[torch.tensor([3, 1, 1])], ties_open=True)
    assert bound.check(torch.tensor([3, 1, 1])).passed
    assert not bound.check(torch.tensor([3, 2, 2])).passed
    assert not bound.check(torch.tensor([3, 1, 99])).passed
    plain = make_problem("argmax")
    assert not ties_left_open(plain)
    text = SourceFile(path="r.py", text="def f(x):\n    return torch.topk(x, 3)\n")
    assert ties_left_open(replace(plain, reference=(text,)))


def test_bounds_follow_the_problems_outputs() -> None:
    problem = make_problem("argmax")
    (bound,) = bounds_for(problem, truth=[torch.tensor([1])], own=[torch.tensor([1])], nearby=[], fan_in=[1.0])
    assert isinstance(bound, ExactBound)
