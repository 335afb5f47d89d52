from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright.graph import Capture

FILE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
def linear(x, w, b): return F.linear(x, w, b)
def conv(x, w): return F.conv2d(x, w, padding=1)
def depthwise(x, w): return F.conv2d(x, w, groups=4)
def transposed(x, w, b): return F.conv_transpose2d(x, w, b, stride=2)
def normed(x): return F.layer_norm(x, (16,)).relu()
def lookup(table, ids): return F.embedding(ids, table)
def window(x): return x[:2] * 2
def unused(x, y): return x + 1
def sorted_(x): return x.sort().values
def branch(x, w): return x @ w if x.sum() > 1e9 else x @ w * 2
"""
X, IDS = "float32[8,16]", "int64[3]=0..7"
# name: (inputs, floating-point operations, least bytes)
COUNTS = {
    "linear": (("float32[8,16]", "float32[4,16]", "float32[4]"), 2 * 8 * 4 * 16 + 8 * 4, 4 * (128 + 64 + 4 + 32)),
    "conv": (("float32[1,2,5,5]", "float32[3,2,3,3]"), 3 * 25 * 2 * 18, 4 * (50 + 54 + 75)),
    "depthwise": (("float32[1,4,5,5]", "float32[4,1,3,3]"), 4 * 9 * 2 * 9, 4 * (100 + 36 + 36)),
    "transposed": (
        ("float32[1,2,5,5]", "float32[2,3,3,3]", "float32[3]"),
        2 * 50 * 27 + 3 * 121,
        4 * (50 + 54 + 3 + 3 * 121),
    ),
    "normed": ((X,), 7 * 128 + 128, 4 * 2 * 128),
    "lookup": (("float32[1000,16]", IDS), 0, 4 * 3 * 16 + 8 * 3 + 4 * 3 * 16),
    "window": ((X,), 32, 4 * (32 + 32)),
    "unused": ((X, X), 128, 4 * 2 * 128),
    "sorted_": ((X,), 0, 4 * 2 * 128),
    # Without a graph: products as torch counts them, and every tensor in full.
    "branch": ((X, "float32[16,2]"), 2 * 8 * 16 * 2, 4 * (128 + 32 + 16)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str, load: Callable[..., Capture], write: Callable[..., Path]) -> None:
    inputs, flops, least_bytes = COUNTS[name]
    captured = load(f"{write(FILE)}:{name}", inputs=inputs)
    assert (captured.problem.flops, captured.problem.min_bytes) == (flops, least_bytes)
    assert (captured.graph is None) == (name == "branch")


def test_an_operator_without_a_count_leaves_the_count_absent(
    load: Callable[..., Capture], write: Callable[..., Path]
) -> None:
    captured = load(f"{write('import torch' + chr(10) + 'def f(x): return torch.linalg.svdvals(x)')}:f", inputs=(X,))
    assert captured.graph is not None
    assert captured.problem.flops is None
