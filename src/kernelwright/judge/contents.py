"""Fresh contents for slots and parameters before each timed round.

Covers: answers kept from earlier calls, whole, up to a factor, or for a part of the contents; what only ordinary
    numbers can do without (wild elements, a NaN); what is made from parameters that have changed since.
Does not cover: contents of families (surprises.py); integers and masks beyond what structured.Mixer mixes.
Not here: families (inputs.py); the same on a device (device/contents.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernelwright.judge.inputs import WILD, is_free, is_limited, observed
from kernelwright.judge.structured import Mixer
from kernelwright.types import TensorSpec

NOISE_SHIFTS = 1 << 14
KINDS = ("plain", "wild", "nan", "plain", "wild", "plain", "wild", "plain")
"""What each eight slots of a timed round hold, in random order: few calls of a candidate see every kind."""
RESEMBLANCES = ("none", "part", "part", "part", "part", "nearly", "nearly")
"""How a slot's tensor comes from the slot refreshed before it: not at all, but for a part, or but for little."""
APART = (16, 16, 16, 64, 256)
"""Of what is kept from the other slot, every so many-th element is fresh all the same: a few samples are mostly equal,
whole rows are not. A kernel that compares whole rows, and keeps their answers, is right but gains nothing by it."""


def make_wild(flat: torch.Tensor, places: torch.Tensor) -> None:
    """Puts wild numbers of either sign at some places."""
    half = len(places) // 2
    flat[places[:half]] = WILD
    flat[places[half:]] = -WILD


def wild_inputs(specs: Sequence[TensorSpec], given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Returns inputs of which every free tensor without limits holds wild elements."""
    made = tuple(tensor.clone() for tensor in given)
    for spec, tensor in zip(specs, made, strict=True):
        if is_free(spec, tensor) and not is_limited(spec):
            make_wild(tensor.view(-1), torch.arange(min(4, tensor.numel())))
    return made


def resemble(other: torch.Tensor, tensor: torch.Tensor, g: torch.Generator) -> None:
    """Makes a tensor mostly equal to another slot's: an answer kept by a part of its contents is then wrong.

    Args:
        other: what the slot called before holds.
        tensor: of the same shape, with fresh contents; most of them are replaced.
        g: on the CPU.
    """
    kind = RESEMBLANCES[int(torch.randint(0, len(RESEMBLANCES), (), generator=g))]
    if kind == "none":
        return
    count = tensor.numel()
    ends = torch.randint(0, count + 1, (2,), generator=g).tolist()
    first, end = min(ends), max(ends)
    if kind == "nearly":
        end = min(count, first + int(count ** float(torch.rand((), generator=g))))
    apart = APART[int(torch.randint(0, len(APART), (), generator=g))]
    mine, theirs = tensor.view(-1), other.view(-1)
    changed = mine[int(torch.randint(0, apart, (), generator=g)) :: apart]
    fresh = changed.clone()
    for kept in (slice(0, first), slice(end, count)):
        # Wild elements and NaN are the other slot's own.
        mine[kept] = torch.where(theirs[kept].abs() < WILD, theirs[kept], mine[kept])
    changed.copy_(fresh)


def changing_part(count: int, turn: int, g: torch.Generator) -> slice:
    """Returns which of a parameter's elements change: every third time all of them, else a part without the ends.

    First and last element are the ones to look at for who wants to know whether parameters have changed.
    """
    if turn % 3 == 0 or count <= 3:
        return slice(None)
    length = int(torch.randint(1, count // 2, (), generator=g)) if count > 4 else 1
    start = int(torch.randint(1, count - length, (), generator=g))
    return slice(start, start + length)


class Refresher:
    """Gives slots and parameters contents that no earlier call has seen, at the cost of a copy.

    A slot gets one of a few draws of the reference's own inputs, each element of a free tensor
    multiplied by a factor of its own. So neither an answer kept from earlier calls is right, nor a
    multiple of it. Most slots equal another one in part, which is called in the same round: what is kept by a
    part of the contents is wrong there. Some slots are of another kind: a few elements wild, or one a NaN
    (`KINDS`), so that what only ordinary numbers can do without is missed here as well. Integers and masks are
    mixed anew (structured.Mixer). Parameters change in part at times: one that has stayed says nothing about the
    others.
    """

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        draws: Sequence[Sequence[torch.Tensor]],
        parameters: Sequence[torch.Tensor],
        seed: int,
    ) -> None:
        self._draws = draws
        self._specs = specs
        self._parameters = tuple(p.clone() for p in parameters)
        self._latest = tuple(p.clone() for p in parameters)
        self._free = [is_free(spec, tensor) for spec, tensor in zip(specs, draws[0], strict=True)]
        self._rng = torch.Generator().manual_seed(seed)
        self._noise: dict[torch.dtype, torch.Tensor] = {}
        self._turn = 0
        self._before: tuple[torch.Tensor, ...] = ()
        self.mixer = Mixer(observed(specs, draws), draws, self._rng)
        """For tensors without free numbers; the session says whether the reference accepts its contents."""
        self.wild = False
        """Whether slots may hold wild elements; the session says so where the reference stands them."""

    def refresh(self, slots: Sequence[tuple[torch.Tensor, ...]]) -> list[str]:
        """Writes fresh contents into the input tensors of some slots; returns what kind each slot is now."""
        which = torch.randint(0, len(self._draws), (len(slots),), generator=self._rng).tolist()
        kinds: list[str] = []
        while len(kinds) < len(slots):
            kinds += [KINDS[i] for i in torch.randperm(len(KINDS), generator=self._rng).tolist()]
        del kinds[len(slots) :]
        marked = [
            index
            for index, spec in enumerate(self._specs)
            if self._free[index] and not is_limited(spec) and self._draws[0][index].numel()
        ]
        several = [index for index, free in enumerate(self._free) if free]
        for position, tensors in enumerate(slots):
            # Where a round has one call, the call before it was in the round before.
            before = slots[position - 1] if position else self._before
            # Of several tensors one may stay, wild elements and all: what is kept for one of them alone is wrong. Not
            # often, since it may be right to keep it.
            chance = int(torch.randint(0, 4 * max(1, len(several)), (), generator=self._rng))
            same = several[chance] if before and len(several) > 1 and chance < len(several) else -1
            for index, tensor in enumerate(tensors):
                source = self._draws[which[position]][index]
                if self._free[index]:
                    other = before[index] if before else None
                    if other is not None and other.data_ptr() == tensor.data_ptr():
                        other = other.clone()
                    self._refresh_free(source, self._specs[index], tensor)
                    if other is not None and index == same:
                        tensor.copy_(other)
                    elif other is not None:
                        resemble(other, tensor, self._rng)
                else:
                    self.mixer.write(index, which[position], tensor)
            if not marked or (kinds[position] == "wild" and not self.wild):
                kinds[position] = "plain"
            if kinds[position] != "plain":
                others = [index for index in marked if index != same] or marked
                self._mark(kinds[position], [tensors[index] for index in others])
        self._before = slots[0] if slots else ()
        return kinds

    def _refresh_free(self, source: torch.Tensor, spec: TensorSpec, into: torch.Tensor) -> None:
        self._vary(source, into, only_less=is_limited(spec))
        flat = into.view(-1)
        places = torch.randint(0, len(flat), (8,), generator=self._rng)
        flat[places[:4]] = flat[places[4:]]
        if is_limited(spec):
            into.clamp_(min=spec.low, max=spec.high)

    def _mark(self, kind: str, tensors: Sequence[torch.Tensor]) -> None:
        """Puts wild elements into some of a slot's tensors, or a NaN into one of them."""
        chosen = torch.randperm(len(tensors), generator=self._rng).tolist()
        for tensor in [tensors[i] for i in chosen[: 1 if kind == "nan" else (len(chosen) + 1) // 2]]:
            flat = tensor.view(-1)
            places = torch.randint(0, len(flat), (4,), generator=self._rng)
            if kind == "nan":
                flat[places[0]] = float("nan")
            else:
                make_wild(flat, places)

    def _vary(self, source: torch.Tensor, into: torch.Tensor, *, only_less: bool = False) -> None:
        """Writes `source` with every element multiplied by between 0.5 and 1.5 (1 where it may not grow)."""
        change = 0.1 + 0.15 * float(torch.rand((), generator=self._rng))
        if only_less or float(torch.rand((), generator=self._rng)) < 0.5:
            change = -change
        noise = self._noise.get(source.dtype)
        if noise is None or len(noise) < source.numel() + NOISE_SHIFTS:
            noise = 2.0 * torch.rand(source.numel() + NOISE_SHIFTS, generator=self._rng)
            self._noise[source.dtype] = noise = noise.to(source.dtype)
        start = int(torch.randint(0, NOISE_SHIFTS, (), generator=self._rng))
        factors = noise[start : start + source.numel()].view(source.shape)
        torch.addcmul(source, source, factors, value=change, out=into)

    def refresh_parameters(self, parameters: Sequence[torch.Tensor]) -> None:
        """Changes free parameters, all or in part, so that nothing made earlier is right (`changing_part`)."""
        self._turn += 1
        for original, latest, tensor in zip(self._parameters, self._latest, parameters, strict=True):
            count = original.numel()
            if not original.is_floating_point() or not bool(original.isfinite().all()) or not count:
                continue
            fresh = torch.empty_like(original)
            self._vary(original, fresh)
            part = changing_part(count, self._turn, self._rng)
            latest.view(-1)[part] = fresh.view(-1)[part]
            tensor.copy_(latest)
