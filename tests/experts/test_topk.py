"""Top-k: values, and indices equal to PyTorch's also where values are equal or NaN."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced, check, refusal, strange


def _ties(*shape: int) -> torch.Tensor:
    return torch.randint(-20, 20, shape, generator=torch.Generator().manual_seed(3)).float()


def _near(*shape: int) -> torch.Tensor:
    """Mostly equal numbers, with both zeros."""
    numbers = torch.zeros(shape)
    numbers[:, ::3] = -0.0
    numbers[:, ::7] = 1.0
    return numbers


@pytest.mark.parametrize(("length", "count"), [(1024, 8), (64, 8), (37, 20), (17, 17), (1000, 1), (300, 40)])
def test_values_and_indices(length: int, count: int, tmp_path: Path) -> None:
    largest = length != 37

    def find(scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.topk(scores, count, -1, largest=largest))

    torch.manual_seed(0)
    shape = (33, length)
    rising = torch.arange(33 * length, dtype=torch.float32).reshape(shape)
    more = (strange(*shape), _ties(*shape), _near(*shape), rising, -rising, torch.full(shape, float("-inf")))
    check(tmp_path, Traced(find, torch.randn(shape)), *((item,) for item in more))


def test_gather_along_the_row(tmp_path: Path) -> None:
    def find(scores: torch.Tensor, other: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = scores.topk(6, -1)
        return torch.gather(other, 2, indices), torch.sigmoid(values) * 2.5

    torch.manual_seed(0)
    traced = Traced(find, torch.randn(3, 7, 70), torch.randn(3, 7, 90))
    check(tmp_path, traced, (_ties(3, 7, 70), torch.randn(3, 7, 90)))


def test_rows_of_a_table(tmp_path: Path) -> None:
    def find(scores: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return table[scores.topk(4, -1)[1]]

    torch.manual_seed(0)
    check(tmp_path, Traced(find, torch.randn(11, 130), torch.randn(130, 9)))


def test_best_proposals_by_their_best_class_and_their_boxes(tmp_path: Path) -> None:
    def find(logits: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores, indices = torch.topk(logits.max(dim=-1).values, 90, dim=1)
        return scores, boxes.gather(1, indices.unsqueeze(-1).expand(-1, -1, 4))

    torch.manual_seed(0)
    boxes = torch.randn(3, 500, 4)
    traced = Traced(find, torch.randn(3, 500, 20), boxes)
    check(tmp_path, traced, (strange(3, 500, 20), boxes), (_ties(3, 500, 20), boxes))


def test_router_of_experts(tmp_path: Path) -> None:
    """Softmax of all scores, the k best of them, their shares."""

    def route(scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = torch.softmax(scores, -1).topk(8, -1)
        return values / values.sum(-1, keepdim=True), indices

    torch.manual_seed(0)
    check(tmp_path, Traced(route, torch.randn(4, 9, 60)))


def test_softmax_of_the_found_and_a_bias_before(tmp_path: Path) -> None:
    def route(scores: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = (scores + bias).topk(3, dim=1)
        return torch.softmax(values, dim=1), indices

    torch.manual_seed(0)
    check(tmp_path, Traced(route, torch.randn(40, 64), torch.randn(64)), (_ties(40, 64), torch.zeros(64)))


def test_what_cannot_be_done_is_refused_by_name() -> None:
    scores = torch.randn(8, 16)
    assert "last dimension" in refusal(lambda x: torch.topk(x, 2, 0)[0], scores)
    assert "not sorted" in refusal(lambda x: torch.topk(x, 2, sorted=False)[0], scores)
    assert "values of float64" in refusal(lambda x: torch.topk(x, 2)[0], scores.double())
    assert "permuted or cut" in refusal(lambda x: torch.topk(x, 2)[0].t() + 1, scores)
