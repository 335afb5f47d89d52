"""Tensors of which a few parts are unlike the others: what one part shows says nothing about the rest.

A kernel that looks at one row to choose between a careful way and a quick one is right on every family that fills a
whole tensor alike. Not here: the families themselves (inputs.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

MOST_DRAWN = 24
"""How often unlike parts are drawn; of a tensor with more of them, several at a time."""
Maker = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]
FEWEST_PARTS = 4
"""Parts are the slices along as many leading axes as give at least so many; a tensor that has none is cut into
PIECES runs of elements."""
PIECES = 16
ODD_SHARE = 8
"""One part in so many is unlike the others, and never the first: that is where a kernel looks."""


def patchwork(shape: tuple[int, ...], g: torch.Generator, *, usual: Maker, odd: Sequence[Maker]) -> torch.Tensor:
    """Returns a tensor like `usual` but for a few parts, drawn by `odd` in turn, beginning with any of them."""
    drawn = usual(shape, g)
    parts = _parts(drawn)
    if len(parts) < 2:
        return drawn
    count = max(1, len(parts) // ODD_SHARE)
    chosen = 1 + torch.randperm(len(parts) - 1, generator=g, device=g.device)[:count]
    first = int(torch.randint(0, len(odd), (), generator=g, device=g.device))
    for number, some in enumerate(chosen.tensor_split(min(count, MOST_DRAWN))):
        made = odd[(first + number) % len(odd)]((len(some), *parts.shape[1:]), g)
        parts[some] = made.to(drawn.dtype)
    return drawn


def _parts(drawn: torch.Tensor) -> torch.Tensor:
    """A view of a contiguous tensor whose first axis counts its parts."""
    shape = drawn.shape
    for axes in range(1, drawn.dim()):
        if (count := math.prod(shape[:axes])) >= FEWEST_PARTS:
            return drawn.view(count, -1)
    pieces = next((n for n in (PIECES, PIECES // 2, FEWEST_PARTS) if drawn.numel() and drawn.numel() % n == 0), 1)
    return drawn.view(pieces, -1)
