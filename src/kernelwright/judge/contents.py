"""Fresh contents for slots and parameters before each timed round.

Covers: answers kept from earlier calls, whole, up to a factor, or for a part of the contents; what only ordinary
    numbers can do without (wild elements, a NaN); what is made from parameters that have changed since.
Does not cover: contents of families (surprises.py); integers and masks beyond what structured.Mixer mixes.
Not here: families (inputs.py); the same on a device (device/contents.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from kernelwright.errors import SourceError
from kernelwright.judge.draws import AnyDraws
from kernelwright.judge.inputs import WILD, draw_parameters, is_free, is_limited, observed
from kernelwright.judge.slots import bytes_of
from kernelwright.judge.structured import Mixer
from kernelwright.types import Problem, TensorSpec

NOISE_SHIFTS = 1 << 14
TIMED_DRAWS = 4
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


def resemblance(count: int, g: torch.Generator) -> tuple[int, int, int, int] | None:
    """Returns what a tensor of `count` elements keeps of another's, None for nothing.

    That is what lies before the first and from the second place on, but for each so many-th element, from an offset on.
    """
    kind = RESEMBLANCES[int(torch.randint(0, len(RESEMBLANCES), (), generator=g))]
    if kind == "none":
        return None
    ends = torch.randint(0, count + 1, (2,), generator=g).tolist()
    first, end = min(ends), max(ends)
    if kind == "nearly":
        end = min(count, first + int(count ** float(torch.rand((), generator=g))))
    apart = APART[int(torch.randint(0, len(APART), (), generator=g))]
    return first, end, apart, int(torch.randint(0, apart, (), generator=g))


def resemble(other: torch.Tensor, tensor: torch.Tensor, g: torch.Generator) -> None:
    """Makes a tensor mostly equal to another slot's: an answer kept by a part of its contents is then wrong.

    Args:
        other: what the slot called before holds.
        tensor: of the same shape, with fresh contents; most of them are replaced.
        g: on the CPU.
    """
    count = tensor.numel()
    if (chosen := resemblance(count, g)) is None:
        return
    first, end, apart, offset = chosen
    mine, theirs = tensor.view(-1), other.view(-1)
    changed = mine[offset::apart]
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


class AnyRefresher:
    """What every refresher has: how contents vary, kinds of slots, tensors that stay, changing parameters.

    Not here: writing into slots, which is another thing where they are stacked on a device (device/contents.py).

    Args:
        specs: the problem's inputs.
        draws: a few draws of the reference's own inputs.
        parameters: values of the parameters that are varied.
        seed: of everything that is drawn here.
    """

    def __init__(
        self,
        specs: Sequence[TensorSpec],
        draws: Sequence[Sequence[torch.Tensor]],
        parameters: Sequence[torch.Tensor],
        seed: int,
    ) -> None:
        self._specs, self._draws = specs, draws
        self._parameters = tuple(p.clone() for p in parameters)
        self._latest = tuple(p.clone() for p in parameters)
        self._free = [is_free(spec, tensor) for spec, tensor in zip(specs, draws[0], strict=True)]
        self._rng = torch.Generator().manual_seed(seed)
        self._turn = 0
        on_host = [[t if free else t.cpu() for t, free in zip(draw, self._free, strict=True)] for draw in draws]
        self.mixer = Mixer(observed(specs, on_host), on_host, self._rng)
        """For tensors without free numbers; the session says whether the reference accepts its contents."""
        self.wild = False
        """Whether slots may hold wild elements; the session says so where the reference stands them."""

    @property
    def mixes(self) -> bool:
        """Tells whether any tensor holds no free numbers."""
        return not all(self._free)

    @property
    def marked(self) -> list[int]:
        """The tensors that can hold wild elements or a NaN."""
        several = zip(self._specs, self._draws[0], self._free, strict=True)
        return [i for i, (spec, t, free) in enumerate(several) if free and not is_limited(spec) and t.numel()]

    def renew(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns tensors like these with fresh contents."""
        raise NotImplementedError

    def _varied(self, source: torch.Tensor) -> torch.Tensor:
        """Returns a tensor with every element multiplied by between 0.5 and 1.5."""
        raise NotImplementedError

    def _kinds(self, count: int) -> list[str]:
        """Returns what kind each of so many slots shall be."""
        kinds: list[str] = []
        while len(kinds) < count:
            kinds += [KINDS[i] for i in torch.randperm(len(KINDS), generator=self._rng).tolist()]
        return kinds[:count]

    def _make_alike(self, others: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> int:
        """Makes a slot's free tensors equal another slot's but for a part; returns which one stays whole, -1 for none.

        Of several one may stay, wild elements and all: what is kept for one of them alone is wrong. Not often, since
        it may be right to keep it.
        """
        several = [i for i, free in enumerate(self._free) if free and tensors[i].numel()]
        same = self._whole(several)
        for i in several:
            if i == same:
                tensors[i].copy_(others[i])
            else:
                self._resemble(others[i], tensors[i])
        return same

    def _whole(self, several: Sequence[int]) -> int:
        """Returns which of several tensors stays whole, -1 for none."""
        chance = int(torch.randint(0, 4 * max(1, len(several)), (), generator=self._rng))
        return several[chance] if len(several) > 1 and chance < len(several) else -1

    def _resemble(self, other: torch.Tensor, tensor: torch.Tensor) -> None:
        resemble(other, tensor, self._rng)

    def refresh_parameters(self, parameters: Sequence[torch.Tensor]) -> None:
        """Changes free parameters, all or in part, so that nothing made earlier is right (`changing_part`)."""
        self._turn += 1
        for original, latest, tensor in zip(self._parameters, self._latest, parameters, strict=True):
            count = original.numel()
            if not original.is_floating_point() or not count or not bool(original.isfinite().all()):
                continue
            part = changing_part(count, self._turn, self._rng)
            latest.view(-1)[part] = self._varied(original).view(-1)[part]
            tensor.copy_(latest)


R = TypeVar("R", bound=AnyRefresher)


def make_refresher(kind: type[R], problem: Problem, draws: AnyDraws[Any], *, most_bytes: int) -> R:
    """Returns a session's refresher, which knows what contents its reference stands.

    Args:
        kind: its class.
        problem: whose inputs and parameters.
        draws: the session's.
        most_bytes: what its own draws of the inputs may take together.
    """
    each = sum(bytes_of(spec) for spec in problem.inputs)
    count = max(2, min(TIMED_DRAWS, most_bytes // max(1, each)))
    timed = [draws.make_inputs(draws.seed("timed", i)) for i in range(count)]
    made = kind(problem.inputs, timed, _parameters(problem, draws, "timed parameters"), draws.seed("refresh"))
    mixed = made.renew(draws.make_inputs(draws.seed("mixed")))
    plain = [t.nan_to_num(0.0) if t.is_floating_point() else t for t in mixed]
    made.mixer.active = not made.mixes or _finite(problem, draws, plain, "mixed")
    made.wild = _finite(problem, draws, wild_inputs(problem.inputs, draws.make_inputs(draws.seed("wild"))), "wild")
    return made


def _parameters(problem: Problem, draws: AnyDraws[Any], name: str) -> tuple[torch.Tensor, ...]:
    return draw_parameters(problem.parameters, draws.initial, 0, draws.seed(name))


def _finite(problem: Problem, draws: AnyDraws[Any], inputs: Sequence[torch.Tensor], name: str) -> bool:
    """Tells whether the reference takes some inputs and gives nothing but numbers."""
    try:
        outputs = draws.own(inputs, _parameters(problem, draws, name))
    except SourceError:
        return False
    return all(bool(t.isfinite().all()) for t in outputs if t.is_floating_point())


class Refresher(AnyRefresher):
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
        super().__init__(specs, draws, parameters, seed)
        self._noise: dict[torch.dtype, torch.Tensor] = {}
        self._before: tuple[torch.Tensor, ...] = ()

    def renew(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns tensors like these with fresh contents."""
        made = tuple(torch.empty_like(t) for t in tensors)
        self.refresh([made])
        return made

    def refresh(self, slots: Sequence[tuple[torch.Tensor, ...]]) -> list[str]:
        """Writes fresh contents into the input tensors of some slots; returns what kind each slot is now."""
        which = torch.randint(0, len(self._draws), (len(slots),), generator=self._rng).tolist()
        kinds, marked = self._kinds(len(slots)), self.marked
        for position, tensors in enumerate(slots):
            # Where a round has one call, the call before it was in the round before, and perhaps on this slot.
            others = [o.clone() if o.data_ptr() == t.data_ptr() else o for o, t in zip(self._before, tensors)]  # noqa: B905
            for index, tensor in enumerate(tensors):
                if self._free[index]:
                    self._refresh_free(self._draws[which[position]][index], self._specs[index], tensor)
                else:
                    self.mixer.write(index, which[position], tensor)
            same = self._make_alike(others, tensors) if others else -1
            self._before = tensors
            if not marked or (kinds[position] == "wild" and not self.wild):
                kinds[position] = "plain"
            if kinds[position] != "plain":
                alone = [index for index in marked if index != same] or marked
                self._mark(kinds[position], [tensors[index] for index in alone])
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

    def _varied(self, source: torch.Tensor) -> torch.Tensor:
        fresh = torch.empty_like(source)
        self._vary(source, fresh)
        return fresh
