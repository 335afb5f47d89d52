"""The judge's own kernels for whole tensors (own_passes.cu): each does in one pass what torch does in ten to forty.

They are in use for tensors on the device for which `use` was called; `of` gives None for all others, and callers then
do the same through torch, which is also what these are tested against. What a pass says is never the last word
against a candidate: where one finds anything, torch's way is gone, which has the evidence.
Not here: what a finding means (examine.py), the device (cuda_executor.py).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

import torch

THREADS = 256
COLUMN_THREADS = 128
BLOCKS_PER_MULTIPROCESSOR = 8
MOST_GROUPS = 200
"""A column of float32 for each group and thread must fit into shared memory."""
KINDS = {torch.float32: 0, torch.float64: 1, torch.float16: 2, torch.bfloat16: 3}
NAMES = ("kw_seal", "kw_within", "kw_within_own", "kw_pair", "kw_sums", "kw_agree", "kw_renew")
VECTOR_BYTES = 16
Launch = Callable[[str, tuple[int, int], int, int, tuple[bytes, ...]], None]
"""Starts a kernel: name, grid (x, y), threads of a block, bytes of shared memory, packed arguments."""


def _u32(number: int) -> bytes:
    return struct.pack("<I", number)


def _i32(number: int) -> bytes:
    return struct.pack("<i", number)


def _u64(number: int) -> bytes:
    return struct.pack("<Q", number)


def _double(number: float) -> bytes:
    return struct.pack("<d", number)


def _at(tensor: torch.Tensor | None) -> bytes:
    return _u64(0 if tensor is None else tensor.data_ptr())


class Passes:
    """The kernels on one device.

    Args:
        launch: starts one of them.
        device: whose tensors they are for.
        multiprocessors: of the device.
    """

    def __init__(self, launch: Launch, device: torch.device, multiprocessors: int) -> None:
        self._launch, self.device, self._most_blocks = launch, device, BLOCKS_PER_MULTIPROCESSOR * multiprocessors

    def _start(
        self, name: str, work: int, *packed: bytes, rows: int = 1, threads: int = THREADS, shared: int = 0
    ) -> None:
        blocks = max(1, min(-(-work // threads), -(-self._most_blocks // rows)))
        self._launch(name, (blocks, rows), threads, shared, packed)

    def _found(self, count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.int64, device=self.device)

    def seal(self, tensor: torch.Tensor, key: int) -> None:
        """Combines a contiguous tensor's bytes with the stream of a key; again, and they are what they were."""
        size = tensor.numel() * tensor.element_size()
        self._start("kw_seal", -(-size // VECTOR_BYTES), _at(tensor), _u64(size), _u64(key))

    def within(
        self,
        output: torch.Tensor,
        truth: tuple[torch.Tensor, int],
        marks: tuple[torch.Tensor, int] | None,
        own: tuple[torch.Tensor, int, torch.Tensor, int] | None,
        levels: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        *,
        lowest: int,
        groups: int,
    ) -> torch.Tensor:
        """Returns, as bits: the worst ratio, elements beyond their bound, of another kind, and squares by group.

        Args:
            output: contiguous, on the device.
            truth: in float64, sealed, with its key (0: not sealed).
            marks: a byte for each element (FloatBound.marks), sealed; padded to whole words.
            own: places that may err by their own change and how much each may, with their keys.
            levels: by binade: what an error is multiplied by for its ratio, for its share in the root mean square (so
                that a group's sum may be its size), and the group.
            lowest: the lowest binade's exponent.
            groups: how many.
        """
        found, count = self._found(3 + groups), output.numel()
        kind, (per_error, per_rms, group) = KINDS[output.dtype], levels
        head = (_at(output), _u32(kind), _u64(count), _at(truth[0]), _u64(truth[1]))
        self._start(
            "kw_within", -(-count // 4), *head, _at(marks[0] if marks else None), _u64(marks[1] if marks else 0),
            _at(per_error), _at(per_rms), _at(group), _i32(lowest), _u32(groups), _at(found),
            threads=COLUMN_THREADS, shared=4 * COLUMN_THREADS * groups,
        )  # fmt: skip
        if own is not None:
            places, places_key, allowed, allowed_key = own
            more = (_at(places), _u64(places_key), _at(allowed), _u64(allowed_key), _u64(places.numel()))
            self._start("kw_within_own", places.numel(), *head, *more, _at(found))
        return found

    def pair(self, a: torch.Tensor, b: torch.Tensor, first: int = 0, second: int = 0) -> torch.Tensor:
        """Returns how many elements hold byte `first` throughout in `a` and `second` in `b`, and words that differ.

        Elements are those of the tensors, which are contiguous and of one dtype and length.
        """
        found, width = self._found(2), a.element_size()
        size = a.numel() * width
        self._start(
            "kw_pair", -(-size // VECTOR_BYTES), _at(a), _at(b), _u64(size), _u32(width), _u32(first), _u32(second),
            _at(found),
        )  # fmt: skip
        return found

    def sums(self, words: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        """Returns a weighted sum over the bits of some rows of [rows, elements], whose rows begin at 16 bytes."""
        found, width = self._found(len(rows)), words.element_size()
        size = words.shape[1] * width
        chosen = torch.tensor(list(rows), device=self.device)
        self._start(
            "kw_sums", -(-size // VECTOR_BYTES), _at(words), _u64(words.stride(0) * width), _at(chosen), _u64(size),
            _at(found), rows=len(rows),
        )  # fmt: skip
        return found

    def agree(self, output: torch.Tensor, own: torch.Tensor, allowed: torch.Tensor, *, lowest: int) -> torch.Tensor:
        """Returns how many elements of two answers lie further apart than `allowed` for the second's binade."""
        found = self._found(1)
        self._start(
            "kw_agree", -(-output.numel() // 4), _at(output), _at(own), _u32(KINDS[output.dtype]),
            _u64(output.numel()), _at(allowed), _i32(lowest), _at(found),
        )  # fmt: skip
        return found

    def renew(
        self,
        stack: torch.Tensor,
        rows: Sequence[int],
        sources: Sequence[torch.Tensor],
        which: Sequence[int],
        changes: Sequence[float],
        *,
        limits: tuple[float | None, float | None],
        key: int,
        like: tuple[torch.Tensor, int, int, int, int, float] | None = None,
    ) -> None:
        """Writes sources, each element times a factor from 1 to 1 + its row's change, into some rows of a stack.

        Args:
            stack: [slots, *shape], its rows contiguous.
            rows: which.
            sources: up to four tensors of one row's shape.
            which: each row's source.
            changes: each row's.
            limits: the lowest and the highest number.
            key: of the factors; another each time.
            like: a tensor that the only row shall resemble (it may be the row itself): what lies before the first and
                from the second place on is kept but for each so many-th element from an offset, and for magnitudes
                from the last number on.
        """
        bits = [struct.unpack("<q", _double(change))[0] for change in changes]
        table = torch.tensor([list(row) for row in zip(rows, which, bits, strict=True)], device=self.device)
        count, pointers = sources[0].numel(), [*sources, *(sources[-1],) * (4 - len(sources))]
        low, high = (-math.inf if limits[0] is None else limits[0]), (math.inf if limits[1] is None else limits[1])
        other, first, end, apart, offset, wild = like or (None, 0, 0, 1, 0, 0.0)
        self._start(
            "kw_renew", -(-count // 4), _at(stack), _u64(stack.stride(0) * stack.element_size()), _at(table),
            *map(_at, pointers), _u32(KINDS[stack.dtype]), _u64(count), _double(low), _double(high), _u64(key),
            _at(other), _u64(first), _u64(end), _u64(apart), _u64(offset), _double(wild), rows=len(rows),
        )  # fmt: skip


_used: list[Passes] = []


def use(passes: Passes | None) -> None:
    """Uses these kernels from now on; None for none."""
    _used[:] = [passes] if passes else []


def of(*tensors: torch.Tensor) -> Passes | None:
    """Returns the kernels for some tensors: None where one lies elsewhere, has gaps, or does not begin at 16 bytes."""
    if not _used:
        return None
    device = _used[0].device
    fits = all(t.device == device and t.is_contiguous() and not t.data_ptr() % VECTOR_BYTES for t in tensors)
    return _used[0] if fits else None
