"""Attention in the forms in which it is written, against PyTorch in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced, check, refusal
from torch.nn.functional import scaled_dot_product_attention as sdpa

Tensor = torch.Tensor


def _qkv(batch: int = 2, heads: int = 3, *, t: int = 37, s: int = 0, d: int = 16, e: int = 0) -> tuple[Tensor, ...]:
    s, e = s or t, e or d
    return torch.randn(batch, heads, t, d), torch.randn(batch, heads, s, d), torch.randn(batch, heads, s, e)


def _score(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-2, -1) / 4.0 + mask, -1)


def _filled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * 0.25
    return torch.softmax(scores.masked_fill(mask == 0, -math.inf), -1) @ v


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    t = q.shape[-2]
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.25
    future = torch.triu(torch.ones(t, t, dtype=torch.bool), 1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), -1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v)


def _both(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    weights = torch.softmax(torch.tanh(q @ k.transpose(-2, -1) / 5) * 5, -1)
    return weights @ v, weights


def _packed(x: Tensor) -> Tensor:
    q, k, v = (part.view(2, 33, 4, 16).transpose(1, 2) for part in torch.split(x, 64, -1))
    return sdpa(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 33, 64)


def _distances(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
    places = torch.arange(q.shape[-2])
    bias = (places[None, :] - places[:, None]).float() * slopes[:, None, None]
    return torch.softmax(q @ k.transpose(-2, -1) * 0.3 + bias, -1) @ v


def _batched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.3, -1), v)


CASES: dict[str, tuple[Callable[..., object], Callable[[], tuple[Tensor, ...]]]] = {
    "score block, additive mask": (_score, lambda: (*_qkv(s=50)[:2], torch.randn(37, 50))),
    "score block, mask of keys": (_score, lambda: (*_qkv(t=64)[:2], torch.randn(2, 1, 1, 64))),
    "filled mask, other width": (_filled, lambda: (*_qkv(s=50, e=24), (torch.rand(37, 50) < 0.7).float())),
    "filled mask of integers": (_filled, lambda: (*_qkv(s=70), (torch.rand(2, 1, 37, 70) < 0.7).long())),
    "causal": (_causal, lambda: _qkv(t=200, d=20)),
    "weights as well, soft cap": (_both, _qkv),
    "built-in": (lambda q, k, v: sdpa(q, k, v), lambda: _qkv(d=64)),
    "built-in, causal": (lambda q, k, v: sdpa(q, k, v, is_causal=True), lambda: _qkv(t=130)),
    "built-in, mask": (lambda q, k, v, m: sdpa(q, k, v, m), lambda: (*_qkv(), torch.randn(37, 37))),
    "built-in, packed projection": (_packed, lambda: (torch.randn(2, 33, 192),)),
    "built-in, shared keys": (
        lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
        lambda: (torch.randn(2, 4, 37, 16), *_qkv(heads=2)[1:]),
    ),
    "distance bias": (_distances, lambda: (*_qkv(), torch.rand(3))),
    "three dimensions": (_batched, lambda: (torch.randn(3, 9, 7), torch.randn(3, 70, 7), torch.randn(3, 70, 5))),
    "one query": (_batched, lambda: (torch.randn(3, 1, 64), torch.randn(3, 70, 64), torch.randn(3, 70, 64))),
}


MORE_SCHEDULES = ("score block, mask of keys", "filled mask, other width", "causal", "weights as well, soft cap")


@pytest.mark.parametrize("name", CASES)
def test_is_as_accurate_as_torch(name: str, tmp_path: Path) -> None:
    function, make = CASES[name]
    torch.manual_seed(0)
    traced = Traced(function, *make())
    large = tuple(item * 8 if item.is_floating_point() else item for item in make())
    check(tmp_path, traced, large, others=1 if name in MORE_SCHEDULES else 0)


def test_rows_without_a_visible_key_are_nan_or_zero_as_in_torch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    mask = torch.zeros(2, 1, 37, 37)
    mask[torch.rand(2, 1, 37, 37) < 0.3] = -math.inf
    mask[0, 0, 3] = -math.inf
    q, k, v = _qkv()
    check(tmp_path / "score", Traced(_score, q, k, mask), others=0)
    assert bool(_score(q, k, mask)[0, 0, 3].isnan().all())
    visible = mask[0, 0] == 0
    check(tmp_path / "built-in", Traced(lambda q, k, v, m: sdpa(q, k, v, m), q, k, v, visible), others=0)


def test_what_a_causal_mask_hides_can_still_make_nan(tmp_path: Path) -> None:
    """A weight of 0 times infinity is NaN: skipping masked keys must not lose that."""
    torch.manual_seed(0)
    traced = Traced(_causal, *_qkv(t=130))
    q, k, v = _qkv(t=130)
    v[0, 0, 100, 3], v[1, 1, 0, 3] = math.inf, math.nan
    r, c, w = _qkv(t=130)
    c[0, 0, 100, 3], r[1, 1, 7, 3] = math.inf, math.nan
    first = check(tmp_path, traced, (q, k, v), (r, c, w))[0]
    assert "within(first + rows - 1 + 1)" in first.sources[0].text


REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "scaled v": (lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ (v * 2), "v is scaled"),
    "activation of q": (lambda q, k, v: torch.softmax(q.relu() @ k.transpose(-2, -1), -1) @ v, "more than a scale"),
    "work after": (lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ v + 1, "aten.add.Tensor after"),
    "other dimension": (lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -2) @ v, "another dimension"),
    "transposed weights": (
        lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1).transpose(-2, -1) @ v,
        "permuted before it is multiplied",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_by_name(name: str) -> None:
    function, reason = REFUSED[name]
    torch.manual_seed(0)
    assert reason in refusal(function, *_qkv())
