"""Pooling and depthwise convolution against PyTorch in float64, with the judge's rule of accuracy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced, check, emitted, only, refusal, strange
from torch import nn
from torch.nn import functional as F  # noqa: N812

Function = Callable[..., object]

POOLS: dict[str, tuple[Function, tuple[int, ...]]] = {
    "average, stride 2, padded": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 13, 35)),
    "average, stride 2, padding not counted": (
        lambda x: F.relu(F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
        (2, 3, 14, 70),
    ),
    "average, ceiling": (lambda x: F.avg_pool2d(x, (3, 4), (2, 3), (1, 2), ceil_mode=True), (1, 2, 10, 41)),
    "average, own divisor, stride 1": (lambda x: F.avg_pool2d(x, 5, 1, 2, divisor_override=7), (3, 2, 9, 33)),
    "average, one axis": (lambda x: F.avg_pool1d(x, 4, 4), (2, 5, 67)),
    "average, three axes": (lambda x: F.avg_pool3d(x, (2, 3, 2), (2, 1, 2), (0, 1, 1)), (1, 2, 5, 6, 20)),
    "average, adaptive": (lambda x: F.adaptive_avg_pool2d(x, (3, 5)), (2, 3, 10, 17)),
    "average, adaptive and even": (lambda x: F.adaptive_avg_pool2d(x, 4), (2, 3, 8, 12)),
    "maximum, stride 2, padded": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 15, 37)),
    "maximum, steps": (lambda x: F.max_pool2d(x, 3, 2, 1, dilation=2), (2, 2, 12, 40)),
    "maximum, steps of three and padding": (lambda x: F.max_pool2d(x, 4, 3, 2, dilation=3), (2, 2, 19, 44)),
    "maximum, one axis": (lambda x: F.max_pool1d(x, 3, 1, 1) * 2.0, (4, 50)),
    "maximum, three axes": (lambda x: F.max_pool3d(x, 2, 2), (1, 2, 4, 6, 36)),
}


@pytest.mark.parametrize("name", POOLS)
def test_pooling_is_as_accurate_as_torch(name: str, tmp_path: Path) -> None:
    function, shape = POOLS[name]
    torch.manual_seed(1)
    traced = Traced(function, torch.randn(shape))
    check(tmp_path, traced, (strange(*shape),), (torch.randn(shape) * 1e4,))


class Separable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False)
        self.norm = nn.BatchNorm2d(6)
        with torch.no_grad():
            self.norm.running_mean.normal_()  # type: ignore[union-attr]
            self.norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu6(self.norm(self.conv(x)))


class Causal(nn.Module):
    """Convolution along time as state-space models have it: padded on both sides, then cut."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(8, 8, 4, padding=3, groups=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.conv(x)[..., : x.shape[-1]])


def _padded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.pad(x, (1, 2, 0, 3)), w, None, 2, 0, 1, 4)


CONVOLUTIONS: dict[str, tuple[Callable[[], object], tuple[tuple[int, ...], ...]]] = {
    "3 by 3": (lambda: nn.Conv2d(5, 5, 3, padding=1, groups=5), ((2, 5, 11, 40),)),
    "7 by 7, narrow": (lambda: nn.Conv2d(4, 4, 7, padding=3, groups=4), ((2, 4, 14, 14),)),
    "7 by 7, very narrow": (lambda: nn.Conv2d(4, 4, 7, padding=3, groups=4), ((1, 4, 7, 7),)),
    "stride 2, two outputs a channel": (lambda: nn.Conv2d(3, 6, 3, 2, 1, groups=3), ((2, 3, 20, 45),)),
    "stride 3, steps of 2": (lambda: nn.Conv2d(3, 3, (3, 5), 3, 2, dilation=2, groups=3), ((1, 3, 19, 70),)),
    "batch norm and clamp": (Separable, ((2, 6, 9, 33),)),
    "one axis, causal": (Causal, ((2, 8, 150),)),
    "padded by hand": (lambda: _padded, ((2, 4, 10, 21), (4, 1, 3, 3))),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_depthwise_is_as_accurate_as_torch(name: str, tmp_path: Path) -> None:
    make, shapes = CONVOLUTIONS[name]
    torch.manual_seed(2)
    reference = make()
    traced = Traced(reference, *(torch.randn(shape) for shape in shapes))
    more = tuple(torch.randn(shape) * 100 for shape in shapes)
    check(tmp_path, traced, more, others=2)


def test_residual_after_depthwise_reads_a_second_input(tmp_path: Path) -> None:
    def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(F.conv2d(x, w, None, 1, 1, 1, 4))

    traced = Traced(block, torch.randn(2, 4, 9, 20), torch.randn(4, 1, 3, 3))
    first = check(tmp_path, traced)[0]
    assert [b.name for b in first.plan.steps[0].arguments] == ["x0", "x1", "out"]


def test_a_tile_wider_than_a_row_is_a_failure_not_a_wrong_kernel() -> None:
    template = only(Traced(nn.Conv2d(4, 4, 3, padding=1, groups=4), torch.randn(1, 4, 9, 20)))
    point = tuple((k, {"vectors": 2, "lanes": 16}.get(k, v)) for k, v in template.space.default())
    made = template.emit(point)
    assert getattr(made, "stage", None) == "emit"


def test_emission_is_pure() -> None:
    template = only(Traced(nn.MaxPool2d(2), torch.randn(1, 2, 8, 8)))
    assert emitted(template, others=3) == emitted(template, others=3)


REFUSED: dict[str, tuple[Function, tuple[torch.Tensor, ...], str]] = {
    "indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), (torch.ones(1, 1, 4, 4),), "more than one output"),
    "computed input": (lambda x: F.avg_pool2d(x * 2, 2), (torch.ones(1, 1, 4, 4),), "made by aten.mul.Tensor"),
    "grouped": (
        lambda x, w: F.conv2d(x, w, groups=2),
        (torch.ones(1, 4, 4, 4), torch.ones(4, 2, 3, 3)),
        "2 input channels for each of 2 groups",
    ),
    "permuted": (lambda x: F.avg_pool2d(x, 2).permute(0, 2, 3, 1), (torch.ones(1, 3, 4, 4),), "permuted or cut"),
    "softmax behind": (lambda x: F.avg_pool2d(x, 2).softmax(-1), (torch.ones(1, 3, 4, 4),), "aten._softmax.default"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_by_name(name: str) -> None:
    function, inputs, reason = REFUSED[name]
    assert reason in refusal(function, *inputs)
