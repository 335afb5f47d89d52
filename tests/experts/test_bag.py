"""Embedding bags against PyTorch in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced, check, refusal, strange
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

OFFSETS = torch.tensor([0, 3, 3, 10, 20, 100, 350])
"""With an empty bag and bags of many lengths."""


def _indices(seed: int = 0, count: int = 400) -> torch.Tensor:
    return torch.randint(0, 50, (count,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("width", [64, 23])
def test_ragged_bags(mode: str, width: int, tmp_path: Path) -> None:
    def bags(table: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, table, offsets, mode=mode)

    torch.manual_seed(0)
    traced = Traced(bags, torch.randn(50, width), _indices(), OFFSETS)
    every_empty = torch.full_like(OFFSETS, 400)
    every_empty[0] = 0
    more = (
        (strange(50, width), _indices(1), OFFSETS),
        (torch.randn(50, width), _indices(2), every_empty),
    )
    check(tmp_path, traced, *more)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_padding_index_and_last_offset(mode: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.EmbeddingBag(50, 40, mode=mode, padding_idx=3, include_last_offset=True)
    indices = _indices()
    indices[:3] = 3  # a bag of padding alone
    traced = Traced(module, indices, torch.cat([OFFSETS, torch.tensor([400])]))
    check(tmp_path, traced)


def test_even_bags_of_int32_and_an_epilogue(tmp_path: Path) -> None:
    class Even(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(50, 48, mode="mean")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.bag(x))

    torch.manual_seed(0)
    check(tmp_path, Traced(Even(), _indices().reshape(80, 5).int()))


def test_weights_for_each_index(tmp_path: Path) -> None:
    def bags(table: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(indices, table, offsets, mode="sum", per_sample_weights=factors)

    torch.manual_seed(0)
    check(tmp_path, Traced(bags, torch.randn(50, 200), _indices(), OFFSETS, torch.randn(400)))


@pytest.mark.parametrize("mean", [False, True])
def test_embedding_then_reduction(mean: bool, tmp_path: Path) -> None:
    class Looked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 30)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            rows: Tensor = self.table(x)
            return rows.mean(-2) if mean else rows.sum(1)

    torch.manual_seed(0)
    shape = (4, 20, 5) if mean else (80, 5)
    check(tmp_path, Traced(Looked(), _indices().reshape(shape)))


def test_what_cannot_be_done_is_refused_by_name() -> None:
    def negative(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return table[indices].sum(1)

    assert "may be negative" in refusal(negative, torch.randn(50, 8), _indices().reshape(80, 5))

    def computed(table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        return F.embedding(indices, table * 2).sum(1)

    assert "made by aten.mul.Tensor" in refusal(computed, torch.randn(50, 8), _indices().reshape(80, 5))
