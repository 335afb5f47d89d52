"""Comparisons of whole tensors on the device, each in one pass where our own kernels can; bit for bit, or by a profile.

Not here: comparisons with sealed truth (sealing.py), and what a difference means (examine.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernelwright.judge import integrity
from kernelwright.judge.device import passes
from kernelwright.judge.slots import POISONS
from kernelwright.types import TensorSpec


def wrote_the_same(outputs: Sequence[torch.Tensor], pair: Sequence[int], specs: Sequence[TensorSpec]) -> bool | None:
    """Tells whether two calls wrote the same; None where an element may not have been written, or no pass can tell.

    Args:
        outputs: each output's bits in all slots, [slots, elements].
        pair: the slots of the calls; before them they held the first and the second poison.
        specs: the outputs.
    """
    rows = [(words[pair[0]], words[pair[1]]) for words in outputs]
    own = passes.of(*(row for both in rows for row in both))
    if own is None or any(spec.dtype == "bool" for spec in specs):
        return None
    found = torch.stack([own.pair(*both, *POISONS) for both in rows]).tolist()
    return None if any(left for left, _ in found) else not any(differing for _, differing in found)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Returns whether two tensors hold the same bits, not waiting for it."""
    if own := passes.of(a, b):
        return own.pair(a, b)[1] == 0
    return (_bits(a) == _bits(b)).all()


def agree(
    ours: Sequence[torch.Tensor], theirs: Sequence[torch.Tensor], profiles: Sequence[integrity.Profile | None]
) -> bool:
    """Tells whether every element is as near as two right answers are; False may also mean that no pass can tell."""
    own = passes.of(*ours, *theirs)
    if own is None or any(p is not None and a.dtype not in passes.KINDS for a, p in zip(ours, profiles, strict=True)):
        return False
    apart = [
        own.agree(a, b, p.allowed, lowest=p.lowest)[0] if p is not None else own.pair(a, b)[1]
        for a, b, p in zip(ours, theirs, profiles, strict=True)
    ]
    return not any(torch.stack(apart).tolist())


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    return flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()])
