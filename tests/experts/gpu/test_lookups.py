"""Top-k and embedding bags for GPUs, by emulation, against PyTorch; indices exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced, strange
from tests.experts.gpu.special import Case, answers, arguments, check, refusal, templates
from tests.experts.test_bag import OFFSETS, _indices
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from kernelwright.experts.gpu import bag, topk
from kernelwright.experts.protocol import Expert
from kernelwright.types import Candidate, Template

Bags = Callable[..., Tensor]


def _best(count: int, *, largest: bool = True) -> Callable[[Tensor], tuple[Tensor, ...]]:
    return lambda x: tuple(torch.topk(x, count, -1, largest=largest))


def _proposals(logits: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
    scores, indices = torch.topk(logits.max(dim=-1).values, 90, dim=1)
    return scores, boxes.gather(1, indices.unsqueeze(-1).expand(-1, -1, 4))


def _route(scores: Tensor) -> tuple[Tensor, ...]:
    values, indices = torch.softmax(scores, -1).topk(8, -1)
    return values / values.sum(-1, keepdim=True), indices


def _biased(scores: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    values, indices = (scores + bias).topk(3, dim=1)
    return torch.softmax(values, dim=1), indices


def _gathered(scores: Tensor, other: Tensor) -> tuple[Tensor, ...]:
    values, indices = scores.topk(6, -1)
    return torch.gather(other, 2, indices), torch.sigmoid(values) * 2.5


def test_selections(tmp_path: Path) -> None:
    torch.manual_seed(0)
    cases = (
        Traced(_best(8), torch.randn(5, 1024)),
        Traced(_best(20, largest=False), torch.randn(9, 37)),
        Traced(_best(17), torch.randn(3, 17)),
        Traced(_best(40), torch.randn(4, 300)),
        Traced(_proposals, torch.randn(2, 300, 20), torch.randn(2, 300, 4)),
        Traced(_route, torch.randn(2, 9, 60)),
        Traced(_biased, torch.randn(20, 64), torch.randn(64)),
        Traced(_gathered, torch.randn(2, 7, 70), torch.randn(2, 7, 90)),
        Traced(lambda x, table: table[x.topk(4, -1)[1]], torch.randn(5, 130), torch.randn(130, 9)),
    )
    check([(_only(topk, traced), traced, (traced.inputs,)) for traced in cases], tmp_path, others=0)


def _only(expert: Expert, traced: Traced) -> Template:
    (template,) = templates(expert, traced).values()
    return template


@pytest.mark.parametrize("largest", [True, False])
def test_equal_values_and_nan_in_the_order_of_places(largest: bool, tmp_path: Path) -> None:
    """NaN counts as the largest number, both zeros are equal, and of equals the first place comes first."""
    generator = torch.Generator().manual_seed(3)
    ties = torch.randint(-3, 3, (4, 300), generator=generator).float()
    ties[:, ::7] = -0.0
    spoiled = torch.cat([strange(4, 300), torch.full((2, 300), float("-inf")), ties])
    traced = Traced(_best(50, largest=largest), spoiled)
    template = _only(topk, traced)
    for number, keys in enumerate(("kept", "read")):
        point = tuple((name, keys if name == "keys" else item) for name, item in template.space.default())
        made = template.emit(point)
        assert isinstance(made, Candidate)
        folder = tmp_path / str(number)
        folder.mkdir()
        ((values, indices),) = answers([(traced, made, (spoiled,))], folder)
        orders = spoiled.nan_to_num(float("inf"), 3e38, -3e38).sort(dim=-1, descending=largest, stable=True)
        assert torch.equal(indices, orders.indices[:, :50])
        assert torch.equal(values.nan_to_num(9.0), spoiled.gather(1, indices).nan_to_num(9.0))
    assert arguments(traced, (spoiled,))[0] is spoiled


def test_bags(tmp_path: Path) -> None:
    torch.manual_seed(0)
    cases: list[Case] = []
    for mode in ("sum", "mean", "max"):
        for width in (64, 23):
            function: Bags = lambda t, i, o, mode=mode: F.embedding_bag(i, t, o, mode=mode)  # noqa: E731
            traced = Traced(function, torch.randn(50, width), _indices(), OFFSETS)
            spoiled = (strange(50, width), _indices(1), OFFSETS)
            cases.append((_only(bag, traced), traced, (traced.inputs, spoiled)))
    indices = _indices()
    indices[:3] = 3  # a bag of padding alone
    padded = nn.EmbeddingBag(50, 40, mode="mean", padding_idx=3, include_last_offset=True)
    weighted: Bags = lambda t, i, o, w: F.embedding_bag(i, t, o, mode="sum", per_sample_weights=w)  # noqa: E731
    for traced in (
        Traced(padded, indices, torch.cat([OFFSETS, torch.tensor([400])])),
        Traced(weighted, torch.randn(50, 200), _indices(), OFFSETS, torch.randn(400)),
        Traced(
            lambda t, i: torch.tanh(F.embedding(i, t).mean(-2)), torch.randn(50, 24).half(), _indices(0, 60).view(12, 5)
        ),
    ):
        cases.append((_only(bag, traced), traced, (traced.inputs,)))
    made = check(cases, tmp_path, others=0)
    assert "VECTOR = 4;" in made[0].sources[0].text
    assert "VECTOR = 8;" in made[-1].sources[0].text


def test_what_cannot_be_done_is_refused_by_name() -> None:
    assert "2048 is the most" in refusal(topk, Traced(_best(3000), torch.randn(2, 4000)))
    assert "last dimension" in refusal(topk, Traced(lambda x: torch.topk(x, 2, 0)[0], torch.randn(8, 16)))
    negative = Traced(lambda t, i: t[i].sum(1), torch.randn(50, 8), _indices().reshape(80, 5))
    assert "may be negative" in refusal(bag, negative)
