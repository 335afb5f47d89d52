"""The special experts' first points, compiled for every architecture: nothing lies outside registers."""

from __future__ import annotations

import math

import pytest
import torch
from tests.experts.candidates import Traced
from tests.experts.gpu.special import compiled, templates
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from kernelwright.experts.gpu import attention, bag, topk, window

FEW_BYTES = 16
"""What the compiler spills of 96 registers on sm_100, where it would have more."""


def _built_in(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return sdpa(q, k, v, is_causal=True)


def _scores(q: Tensor, k: Tensor) -> Tensor:
    hidden = torch.ones(256, 256, dtype=torch.bool).triu(1)
    return torch.softmax((q @ k.transpose(-2, -1) * 0.125).masked_fill(hidden, -math.inf), -1)


def _proposals(logits: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
    scores, indices = torch.topk(logits.max(dim=-1).values, 300, dim=1)
    return scores, boxes.gather(1, indices.unsqueeze(-1).expand(-1, -1, 4))


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a", "sm_100"])
def test_without_spills(architecture: str) -> None:
    half = torch.randn(1, 2, 128, 64).half()
    single = torch.randn(1, 2, 256, 64)
    cases = (
        (attention, Traced(_built_in, half, half, half)),
        (attention, Traced(_scores, single, single)),
        (window, Traced(nn.Conv2d(4, 4, 7, padding=3, groups=4), torch.randn(2, 4, 56, 56))),
        (window, Traced(nn.MaxPool2d(3, 2, 1), torch.randn(2, 4, 112, 112))),
        (topk, Traced(_proposals, torch.randn(2, 8400, 8), torch.randn(2, 8400, 4))),
        (bag, Traced(nn.EmbeddingBag(100, 64, mode="sum"), torch.randint(0, 100, (64, 32)))),
    )
    chosen = [
        (template, traced)
        for expert, traced in cases
        for name, template in templates(expert, traced).items()
        if name != "triton-attention" or (architecture != "sm_100" and traced is cases[0][1])  # slow to compile
    ]
    for (template, _), kernels in zip(chosen, compiled(chosen, architecture), strict=True):
        for kernel in kernels:
            assert kernel.spill_bytes <= (FEW_BYTES if architecture == "sm_100" else 0), template.name
