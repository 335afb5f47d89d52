"""Attention for GPUs: CUDA by emulation and Triton by its interpreter, against PyTorch in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from tests.experts.candidates import Traced
from tests.experts.gpu.special import Inputs, check, refusal, templates
from tests.experts.test_attention import CASES
from torch.nn.functional import scaled_dot_product_attention as sdpa

from kernelwright.experts.gpu import attention

Tensor = torch.Tensor
CUDA = (
    "score block, additive mask", "filled mask, other width", "filled mask of integers", "weights as well, soft cap",
    "built-in, packed projection", "built-in, shared keys", "one query",
)  # fmt: skip
TRITON = ("filled mask, other width", "one query")


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    t = q.shape[-2]
    hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
    return torch.softmax((q @ k.transpose(-2, -1) * 0.25).masked_fill(hidden, -math.inf), -1) @ v


def _scores(q: Tensor, k: Tensor) -> Tensor:
    """As in GPT-2: what is hidden is -inf whatever q and k hold."""
    t = q.shape[-2]
    hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
    return torch.softmax((q @ k.transpose(-2, -1) * 0.25).masked_fill(hidden, -math.inf), -1)


def _built_in(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return sdpa(q, k, v, is_causal=True)


def _masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return sdpa(q, k, v, mask)


def _numbers(*shape: int, count: int = 3, dtype: torch.dtype = torch.float32) -> Inputs:
    return tuple(torch.randn(shape).to(dtype) for _ in range(count))


def test_cuda_is_as_accurate_as_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    cases = []
    for name in CUDA:
        function, make = CASES[name]
        inputs = make()
        traced = Traced(function, *inputs)
        cases.append((templates(attention, traced)["cuda-attention"], traced, (inputs,)))
    check(cases, tmp_path)


def test_cuda_in_halves(tmp_path: Path) -> None:
    torch.manual_seed(0)
    cases = []
    references: tuple[tuple[Callable[..., Tensor], int], ...] = ((_built_in, 3), (_scores, 2))
    for dtype in (torch.float16, torch.bfloat16):
        for function, count in references:
            inputs = _numbers(1, 2, 75, 24, count=count, dtype=dtype)
            traced = Traced(function, *inputs)
            cases.append((templates(attention, traced)["cuda-attention"], traced, (inputs,)))
    made = check(cases, tmp_path, others=0)
    assert all("ldmatrix4_transposed" in c.sources[2].text for c in made)
    assert [len(c.plan.steps) for c in made] == [2, 1, 2, 1]


def test_triton_is_as_accurate_as_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    cases = []
    for name in TRITON:
        function, make = CASES[name]
        traced = Traced(function, *make())
        cases.append((templates(attention, traced)["triton-attention"], traced, (traced.inputs,)))
    for function, dtype in ((_scores, torch.float32), (_built_in, torch.float16)):
        inputs = _numbers(1, 1, 37, 16, count=2 if function is _scores else 3, dtype=dtype)
        traced = Traced(function, *inputs)
        cases.append((templates(attention, traced)["triton-attention"], traced, (inputs,)))
    check(cases, tmp_path, others=0)


def test_what_a_mask_hides_and_what_is_infinite(tmp_path: Path) -> None:
    """A weight of 0 times infinity is NaN, also where tiles are left out; split float32 keeps what is infinite."""
    torch.manual_seed(0)
    q, k, v = _numbers(1, 2, 130, 16)
    v[0, 0, 100, 3], v[0, 1, 0, 3] = math.inf, math.nan
    r, c, w = _numbers(1, 2, 130, 16)
    c[0, 0, 100, 3], r[0, 1, 7, 3] = -math.inf, math.nan
    whole = Traced(_causal, q, k, v)
    scores = Traced(_scores, r, c)
    unseen = torch.rand(37, 37) < 0.6
    unseen[3] = False
    masked = Traced(_masked, *_numbers(1, 2, 37, 16), unseen)
    mask = torch.zeros(2, 1, 1, 64)
    mask[:, :, :, 50:] = -math.inf
    mask[1] = -math.inf
    function, _ = CASES["score block, mask of keys"]
    padded = Traced(function, *_numbers(2, 3, 64, 16, count=2), mask)
    cases = (
        (templates(attention, whole)["cuda-attention"], whole, ((q, k, v), (r, c, w))),
        (templates(attention, scores)["cuda-attention"], scores, ((r, c),)),
        (templates(attention, masked)["cuda-attention"], masked, (masked.inputs,)),
        (templates(attention, padded)["cuda-attention"], padded, (padded.inputs,)),
    )
    made = check(cases, tmp_path, others=0)
    assert [step.symbol for step in made[0].plan.steps] == ["kw_look", "kw_attention"]
    assert [step.symbol for step in made[1].plan.steps] == ["kw_attention"]
    assert bool(padded.run()[0][1].isnan().all())


def test_what_cannot_be_done_is_refused_by_name() -> None:
    q, k, v = _numbers(1, 1, 5, 300)
    assert "more than 256 elements" in refusal(attention, Traced(_causal, q, k, v))
    q, k, v = _numbers(1, 1, 5, 8)
    mixed = Traced(lambda q, k, v: _scores(q, k) @ v.float(), q, k, v.half())
    assert "q, k and v of float16, float32" in refusal(attention, mixed)
    assert "aten.add.Tensor after" in refusal(attention, Traced(lambda q, k, v: _causal(q, k, v) + 1, q, k, v))
