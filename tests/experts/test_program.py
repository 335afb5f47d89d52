"""Whole graphs as plans of several steps, against PyTorch in float64, with the judge's rule of accuracy."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.experts.candidates import TARGET, Traced, build, call, check, emitted, strange
from torch import nn
from torch.nn import functional as F  # noqa: N812

from kernelwright.experts import program
from kernelwright.experts.partition import LoopStep, cut
from kernelwright.experts.products import Product
from kernelwright.types import Refusal, Template


def templates(traced: Traced) -> dict[str, Template]:
    answer = program.propose(traced.problem, traced.graph, TARGET)
    assert isinstance(answer, tuple), answer
    return {template.name: template for template in answer}


class Block(nn.Module):
    """Two layers with a norm and a residual between, products in batches, two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(40, 40), nn.Linear(40, 33), nn.LayerNorm(40)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.norm(x + F.relu(self.a(x)))
        q = torch.bmm(y, self.b(h).view(3, 7, 33).transpose(1, 2))
        return q.softmax(-1), torch.sigmoid(self.b(h)) * 2.0


class Convolutions(nn.Module):
    """A strided convolution in groups, batch norm, pooling, and a transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 6, 3, padding=1, stride=2, groups=2), nn.BatchNorm2d(6)
        self.back = nn.ConvTranspose2d(6, 5, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return torch.tanh(self.back(y) * 0.5)


class Sums(nn.Module):
    """Row sums of a layer: algebra makes a dot of them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(300, 500)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = (self.layer(x) / 2).sum(dim=1, keepdim=True)
        return total * 1.5


class Nothing(nn.Module):
    """An answer that no finite input changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(100, 50)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        most = self.layer(x).max(dim=1, keepdim=True).values
        return F.gelu(most - most.mean(dim=1, keepdim=True))


def test_layers_norms_and_batches(tmp_path: Path) -> None:
    torch.manual_seed(0)
    traced = Traced(Block(), torch.randn(21, 40), torch.randn(3, 5, 33))
    check(tmp_path, traced, template=templates(traced)["program"], others=0)


def test_convolutions_and_pooling(tmp_path: Path) -> None:
    torch.manual_seed(0)
    traced = Traced(Convolutions(), torch.randn(2, 4, 18, 22))
    check(tmp_path, traced, template=templates(traced)["program"], others=1)


class Volumes(nn.Module):
    """A dilated convolution of volumes, and a transposed one in groups with another stride for each axis."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(2, 4, (2, 3, 1), dilation=(2, 1, 1))
        self.back = nn.ConvTranspose3d(4, 4, 2, stride=(1, 2, 1), groups=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.back(self.conv(x))
        return result


def test_spatial_axes_dilation_and_groups(tmp_path: Path) -> None:
    torch.manual_seed(0)
    traced = Traced(Volumes(), torch.randn(2, 2, 6, 7, 5))
    check(tmp_path, traced, template=templates(traced)["program"], others=0)


def test_sums_longer_than_a_block_and_operands_of_any_layout(tmp_path: Path) -> None:
    torch.manual_seed(0)
    traced = Traced(lambda a, b: torch.relu(a.T @ b.T) - 1.0, torch.randn(700, 19), torch.randn(70, 700))
    made = templates(traced)["program"]
    check(tmp_path, traced, template=made, others=1)


@pytest.mark.parametrize("model", [Sums, Nothing])
def test_a_guarded_rewrite_gives_infinities_as_the_reference_does(model: type[nn.Module], tmp_path: Path) -> None:
    """The rewritten program alone would not: a sum of products with an infinity is NaN, the product of a sum not."""
    torch.manual_seed(0)
    traced = Traced(model(), torch.randn(40, 300 if model is Sums else 100))
    odd = traced.inputs[0].clone()
    odd[3, 5], odd[7, 0] = float("inf"), float("nan")
    (candidate,) = check(tmp_path, traced, (odd,), template=templates(traced)["guarded rewrite"], others=0)
    assert candidate.rewrites
    assert candidate.independent == (() if model is Sums else ("x0", "layer_weight", "layer_bias"))
    (library,) = build(tmp_path / "again", (candidate,))
    assert bool(call(traced, candidate, library, odd)[0][3].isnan().all())


def test_a_tail_runs_on_the_product_s_registers() -> None:
    traced = Traced(
        lambda a, b, c: torch.relu(a @ b + c).view(2, 4, 6) * 0.5, *(torch.randn(n) for n in ((8, 5), (5, 6), (6,)))
    )
    parts = cut(traced.problem, traced.graph).parts
    assert [type(part) for part in parts] == [Product]


def test_what_two_readers_need_is_stored_once() -> None:
    def twice(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = a @ b
        return product.exp(), product.sum(1)

    traced = Traced(twice, torch.randn(8, 5), torch.randn(5, 6))
    partition = cut(traced.problem, traced.graph)
    assert [type(part) for part in partition.parts] == [Product, LoopStep]
    assert list(partition.buffers) == ["kept_mm"]


def test_other_dtypes_are_refused_by_name() -> None:
    traced = Traced(lambda a, b: a @ b, torch.randn(4, 5).double(), torch.randn(5, 6).double())
    answer = program.propose(traced.problem, traced.graph, TARGET)
    assert isinstance(answer, Refusal)
    assert answer.subject == "aten.mm.default"


def test_every_tile_of_the_space_can_be_emitted() -> None:
    traced = Traced(lambda a, b: a @ b, torch.randn(32, 48), torch.randn(48, 64))
    made = templates(traced)["program"]
    texts = {candidate.sources[0].text for candidate in emitted(made, others=6)}
    assert len(texts) > 3


def test_values_that_no_family_has(tmp_path: Path) -> None:
    torch.manual_seed(0)
    traced = Traced(lambda a, b: (a @ b).clamp(-3, 3), torch.randn(9, 11), torch.randn(11, 17))
    check(tmp_path, traced, (strange(9, 11), torch.randn(11, 17)), template=templates(traced)["program"], others=0)
