"""Truth kept where a kernel could read it, enciphered so that reading it is of no use.

Sealed device code can read any address of its context. So expected outputs never lie in device memory
while a candidate runs: what is kept of a draw's bounds is combined (XOR) with a pseudorandom stream
whose seed stays on the host, and made readable only between runs. After that, all memory that the
allocator holds in reserve is overwritten (`Executor.scrub`), since computing the truth leaves traces.

Most outputs are compared with what is sealed (`SealedBounds.passed`): the truth is made readable in registers only.

Covers: a kernel that looks for the answer in memory. Does not cover: one that predicts the stream from
    parts of it, which the truth's own leading bits would reveal only in part (Philox 4x32-10 for each draw), or
    finds a key among what the parameters of earlier launches have left on the device.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright.judge.correctness import Bound, FloatBound
from kernelwright.judge.device import passes

CHUNK_WORDS = 1 << 24
SMALL = 1 << 15
"""Tensors with fewer elements than all binades take are tables: they tell nothing of single elements."""


NEARLY = 0.999
"""Of a root mean square that is allowed: sums of float32 say no more about what comes nearer."""


@dataclass(frozen=True, slots=True)
class _Sealed:
    """What comparing one output in one pass takes."""

    bound: FloatBound
    marks: torch.Tensor | None
    levels: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    sizes: list[float]


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
        with device:
            self._quick = self._prepared()
        self._keys = {t.data_ptr(): 1 + (self._seed ^ n << 56) for n, t in enumerate(self._tensors)}
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

    def _prepared(self) -> tuple[_Sealed, ...] | None:
        """Returns what `passed` needs; None where there are no kernels for that."""
        made = []
        for bound in self._bounds:
            if not isinstance(bound, FloatBound) or bound.dtype not in passes.KINDS or not passes.of(bound.truth):
                return None
            sizes, marks = bound.sizes, bound.marks()
            if len(sizes) > passes.MOST_GROUPS:
                return None
            if marks is not None:
                self._tensors.append(marks)
            made.append(_Sealed(bound, marks, bound.levels(), sizes))
        return tuple(made)

    def passed(self, outputs: Sequence[torch.Tensor]) -> float | None:
        """Returns the largest error as a fraction of what is allowed; None where opened bounds must tell."""
        if self._quick is None or not (own := passes.of(*outputs)):
            return None
        found = []
        for quick, output in zip(self._quick, outputs, strict=True):
            bound, marks = quick.bound, quick.marks
            places, allowed = bound.own_places
            found.append(
                own.within(
                    bound.compared(output),
                    (bound.truth, self._key(bound.truth)),
                    None if marks is None else (marks, self._key(marks)),
                    (places, self._key(places), allowed, self._key(allowed)) if len(places) else None,
                    quick.levels,
                    lowest=bound.lowest,
                    groups=len(quick.sizes),
                )
            )
        numbers, ratios = torch.cat(found).tolist(), [0.0]
        for quick in self._quick:
            (worst, beyond, different), rest = numbers[:3], numbers[3 : 3 + len(quick.sizes)]
            numbers = numbers[3 + len(quick.sizes) :]
            shares = [(_double(bits) / size) ** 0.5 for bits, size in zip(rest, quick.sizes, strict=True) if size]
            if beyond or different or max((0.0, *shares)) > NEARLY:
                return None
            ratios += [_double(worst), *shares]
        return max(ratios)

    def _key(self, tensor: torch.Tensor) -> int:
        return self._keys.get(tensor.data_ptr(), 0)

    def _apply(self) -> None:
        generator = torch.Generator(self._device).manual_seed(self._seed)
        for tensor in self._tensors:
            if own := passes.of(tensor):
                own.seal(tensor, self._key(tensor))
                continue
            data = tensor.view(-1).view(torch.uint8)
            whole = len(data) // 8 * 8
            for words in torch.split(data[:whole].view(torch.int64), CHUNK_WORDS):
                words.bitwise_xor_(_stream(len(words), generator))
            if whole < len(data):
                data[whole:].bitwise_xor_(_stream(1, generator).view(torch.uint8)[: len(data) - whole])


def _double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


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
                kept = item if item.is_contiguous() and not item.data_ptr() % passes.VECTOR_BYTES else item.clone()
                kept = kept.contiguous()
                setattr(bound, name, kept)
                found.setdefault(kept.data_ptr(), kept)
    return list(found.values())


def _count(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
