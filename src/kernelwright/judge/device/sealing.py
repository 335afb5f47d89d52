"""Truth kept where a kernel could read it, enciphered so that reading it is of no use.

Sealed device code can read any address of its context. So expected outputs never lie in device memory
while a candidate runs: what is kept of a draw's bounds is combined (XOR) with a pseudorandom stream
whose seed stays on the host, and made readable only between runs. After that, all memory that the
allocator holds in reserve is overwritten (`Executor.scrub`), since computing the truth leaves traces.

Covers: a kernel that looks for the answer in memory. Does not cover: one that predicts the stream from
parts of it, which the truth's own leading bits would reveal only in part (Philox 4x32-10 for each draw).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from kernelwright.judge.correctness import Bound

CHUNK_WORDS = 1 << 24
SMALL = 1 << 15
"""Tensors with fewer elements than all binades take are tables: they tell nothing of single elements."""


class SealedBounds:
    """The bounds of one draw, unreadable except inside `with`.

    Args:
        bounds: what to keep; they become unreadable now.
        device: where the stream is made.
    """

    def __init__(self, bounds: Sequence[Bound], device: torch.device) -> None:
        self._bounds, self._device = tuple(bounds), device
        self._seed = int.from_bytes(os.urandom(7), "little")
        self._tensors = _elementwise(self._bounds)
        self._apply()

    @property
    def size_bytes(self) -> int:
        """Returns how much device memory is held."""
        return sum(t.numel() * t.element_size() for t in self._tensors)

    @property
    def sealed(self) -> tuple[Bound, ...]:
        """The bounds as they are: tables can be read, single elements cannot."""
        return self._bounds

    def __enter__(self) -> tuple[Bound, ...]:
        self._apply()
        return self._bounds

    def __exit__(self, *_: object) -> None:
        self._apply()

    def _apply(self) -> None:
        generator = torch.Generator(self._device).manual_seed(self._seed)
        for tensor in self._tensors:
            data = tensor.view(-1).view(torch.uint8)
            whole = len(data) // 8 * 8
            for words in torch.split(data[:whole].view(torch.int64), CHUNK_WORDS):
                words.bitwise_xor_(_stream(len(words), generator))
            if whole < len(data):
                data[whole:].bitwise_xor_(_stream(1, generator).view(torch.uint8)[: len(data) - whole])


def _stream(count: int, generator: torch.Generator) -> torch.Tensor:
    words = torch.empty(count, dtype=torch.int64, device=generator.device)
    return words.random_(-(1 << 63), None, generator=generator)


def _elementwise(bounds: Sequence[Bound]) -> list[torch.Tensor]:
    """Returns every tensor of the bounds that says something of single elements, each memory once."""
    found: dict[int, torch.Tensor] = {}
    for bound in bounds:
        for name, item in vars(bound).items():
            if not isinstance(item, torch.Tensor) or not item.numel() or name in ("table", "counts"):
                continue
            if item.numel() == max(1, _count(bound.shape)) or item.numel() > SMALL:
                kept = item if item.is_contiguous() else item.contiguous()
                setattr(bound, name, kept)
                found.setdefault(kept.data_ptr(), kept)
    return list(found.values())


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
