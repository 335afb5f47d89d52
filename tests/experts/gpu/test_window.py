"""Windows for GPUs: the CUDA expert, and the loop experts of all three languages, against PyTorch in float64."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced, strange
from tests.experts.gpu.special import Case, check, refusal, templates
from tests.experts.test_window import CONVOLUTIONS, POOLS
from torch import nn
from torch.nn import functional as F  # noqa: N812

from kernelwright.experts.gpu import cuda, cutile, triton, window
from kernelwright.types import Template

BY_LOOPS = {
    "cuda": (
        "average, stride 2, padding not counted",
        "average, adaptive",
        "maximum, one axis",
        "adaptive maximum",
        "large",
    ),
    "triton": ("average, adaptive", "maximum, three axes"),
    "cutile": ("average, stride 2, padded", "average, adaptive", "maximum, steps", "large"),
}
CONVOLVED = {
    "cuda": ("stride 2, two outputs a channel", "batch norm and clamp", "padded by hand"),
    "triton": ("one axis, causal",),
    "cutile": ("stride 2, two outputs a channel", "one axis, causal"),
}
MORE = {
    "adaptive maximum": (lambda x: F.adaptive_max_pool2d(x, (3, 5)), (2, 3, 10, 17)),
    "large": (lambda x: F.avg_pool2d(x, 9, 3, 4), (1, 2, 20, 21)),
}


def _pool(name: str) -> Traced:
    function, shape = {**POOLS, **MORE}[name]
    return Traced(function, torch.randn(shape))


def _convolution(name: str) -> Traced:
    make, shapes = CONVOLUTIONS[name]
    return Traced(make(), *(torch.randn(shape) for shape in shapes))


def test_windows_in_registers(tmp_path: Path) -> None:
    torch.manual_seed(1)
    cases: list[Case] = []
    for name in POOLS:
        traced = _pool(name)
        spoiled = (strange(*traced.inputs[0].shape), traced.inputs[0])
        cases.append((_only(traced), traced, tuple((item,) for item in spoiled)))
    for name in CONVOLUTIONS:
        traced = _convolution(name)
        cases.append((_only(traced), traced, (traced.inputs,)))
    check(cases, tmp_path, others=0)


def _only(traced: Traced) -> Template:
    (template,) = templates(window, traced).values()
    return template


def test_vectors_and_halves(tmp_path: Path) -> None:
    """Rows of whole vectors; a residual that is read beside the result; sums of halves in float32."""
    torch.manual_seed(1)
    half = torch.randn(2, 4, 12, 32).half()

    def block(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(F.conv2d(x, w, None, 1, 1, 1, 4))

    cases = (
        Traced(nn.AvgPool2d(2, 2), torch.randn(3, 5, 8, 24)),
        Traced(nn.MaxPool2d(3, 2, 1), torch.randn(3, 5, 14, 32)),
        Traced(block, torch.randn(2, 4, 9, 20), torch.randn(4, 1, 3, 3)),
        Traced(nn.MaxPool2d(3, 2, 1), half),
        Traced(lambda x: F.avg_pool2d(x, 4, 4), half.bfloat16()),
    )
    made = check([(_only(traced), traced, (traced.inputs,)) for traced in cases], tmp_path)
    assert [f"VECTOR = {n};" in c.sources[0].text for c, n in zip(made, (4, 4, 4, 8, 8), strict=True)] == [True] * 5


@pytest.mark.parametrize("language", ["cuda", "triton", "cutile"])
def test_windows_by_loops(language: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    expert = {"cuda": cuda, "triton": triton, "cutile": cutile}[language]
    cases = [_pool(name) for name in BY_LOOPS[language]] + [_convolution(name) for name in CONVOLVED[language]]
    cases.append(Traced(nn.EmbeddingBag(50, 24, mode="mean"), torch.randint(0, 50, (6, 5))))
    check(
        [(t, traced, (traced.inputs,)) for traced in cases for t in templates(expert, traced).values()],
        tmp_path,
        others=0,
    )


def test_what_cannot_be_done_is_refused_by_name() -> None:
    x = torch.ones(1, 4, 4, 4)
    grouped = Traced(lambda x, w: F.conv2d(x, w, groups=2), x, torch.ones(4, 2, 3, 3))
    assert "2 input channels for each of 2 groups" in refusal(window, grouped)
    assert "2 input channels for each of 2 groups" in refusal(cuda, grouped)
    indices = Traced(lambda x: F.max_pool2d(x, 2, return_indices=True), x)
    assert "result 1 of" in refusal(cuda, indices)
