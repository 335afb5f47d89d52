"""Inputs that hold no free numbers: indices, lengths, labels, masks; what varies in them, and how to vary it.

From several draws of the reference's own inputs it is seen what every draw has in common: values within a
range (of the tensor, or of each column), rows that are sorted, rows without repetition. A family changes
everything else: all at the lower or upper end, sorted, permuted, repeated, few values, the whole range, one
in a row. A boolean is a number from 0 to 1; its families are densities.

Covers: kernels that hold for the distribution of `get_inputs` only: high indices, unsorted ones, repeated
    ones, rows that a mask leaves empty or full.
Does not cover: values outside what was declared or seen; relations between tensors that only the
    reference's own generator knows, where the reference accepts inputs without them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from kernelwright.types import TensorSpec

STRUCTURED = ("lowest", "highest", "sorted", "permuted", "repeated", "sparse", "dense", "single")
"""Families of tensors without free numbers, in the order in which they are judged."""
SHARE = 0.1
"""Of elements that differ from the others in `sparse` and `dense`."""
NEAR_GAPS = 8
"""A size of another tensor within so many gaps of the largest index seen is taken for its limit: of uniform indices
the largest lies farther off in one case of some hundred thousand."""
MIX_SHIFTS = 1 << 12
DISTINCT_FROM = 4
Kind = Literal["free", "ordered", "distinct", "table"]


@dataclass(frozen=True, slots=True)
class Structure:
    """What every draw of one tensor has in common."""

    kind: Kind
    """`table`: floats of few distinct values; `ordered` and `distinct` are said of rows along the last dimension."""
    low: torch.Tensor
    high: torch.Tensor
    """Smallest and largest value, of the tensor or of each column; broadcast to its shape."""
    descending: bool = False
    ends: bool = False
    """The first and the last of every row are the same in all draws (offsets)."""


def observe(
    spec: TensorSpec, draws: Sequence[torch.Tensor], *, free: bool, sizes: Collection[int] = ()
) -> Structure | None:
    """Returns what draws of a tensor have in common; None for one that holds free numbers, or nothing.

    Args:
        spec: the tensor's; a declared range is used as it stands.
        draws: at least one, better several.
        free: whether it holds free numbers (inputs.is_free).
        sizes: of the problem's other tensors: what an index may count.
    """
    if free or not draws[0].numel():
        return None
    if draws[0].is_floating_point():
        return Structure("table", draws[0].min(), draws[0].max())
    seen = torch.stack([_whole(t) for t in draws])
    low, high = _range(spec, seen, sizes)
    step = seen.diff(dim=-1) if seen.dim() > 1 and seen.shape[-1] > 1 else None
    if step is not None and (bool((step >= 0).all()) or bool((step <= 0).all())) and bool((step != 0).any()):
        ends = bool((seen[..., 0] == seen[:1, ..., 0]).all()) and bool((seen[..., -1] == seen[:1, ..., -1]).all())
        return Structure("ordered", low, high, descending=bool((step <= 0).all()), ends=ends)
    long = step is not None and seen.shape[-1] >= DISTINCT_FROM and spec.high is None
    if long and bool((seen.sort(dim=-1).values.diff(dim=-1) != 0).all()):
        return Structure("distinct", low, high)
    return Structure("free", low, high)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.int64)


def _range(spec: TensorSpec, seen: torch.Tensor, sizes: Collection[int]) -> tuple[torch.Tensor, torch.Tensor]:
    if spec.dtype == "bool":
        return torch.tensor(0), torch.tensor(1)
    if spec.low is not None and spec.high is not None:
        return torch.tensor(int(spec.low)), torch.tensor(int(spec.high))
    low, high = seen.min(), seen.max()
    if seen.dim() > 2 and seen.shape[0] * seen.shape[1] >= 8:
        columns = seen.flatten(0, 1)
        tops = columns.amax(0)
        if bool((tops - low < (high - low) // 2).any()):
            # Categories of different sizes side by side: each column has a range of its own.
            return columns.amin(0), tops
    gap = int(high - low) // seen.numel() + 1
    limits = [size for size in sizes if 0 <= size - 1 - int(high) <= NEAR_GAPS * gap]
    if limits and int(high) > 0:
        high = torch.tensor(min(limits) - 1)
        low = torch.tensor(0) if 0 < int(low) <= NEAR_GAPS * gap else low
    return low, high


def fill(family: str, given: torch.Tensor, structure: Structure, g: torch.Generator) -> torch.Tensor | None:
    """Returns a tensor of a structured family, made from the reference's own draw; None where it would be the same."""
    makers = {"free": _free, "ordered": _ordered, "distinct": _distinct, "table": _table}
    made = makers[structure.kind](family, given, structure, g)
    if made is None:
        return None
    made = made.to(given.dtype).expand(given.shape).contiguous()
    return None if torch.equal(made, given) else made


def _free(family: str, given: torch.Tensor, s: Structure, g: torch.Generator) -> torch.Tensor | None:
    whole, shape = _whole(given), given.shape
    chance = torch.rand(shape, generator=g)
    boolean = given.dtype is torch.bool
    match family:
        case "lowest":
            return s.low.expand(shape)
        case "highest":
            return s.high.expand(shape)
        case "sorted":
            return whole.sort(dim=-1).values if shape else None
        case "permuted":
            return chance < 0.5 if boolean else _shuffled(whole, g)
        case "repeated":
            return whole[..., :1].expand(shape) if shape and shape[-1] > 1 else None
        case "sparse":
            rare, common = (s.high, s.low) if boolean else (_row(whole, g), _row(whole, g))
            return torch.where(chance < SHARE, rare, common)
        case "dense":
            return chance >= SHARE if boolean else _uniform(s, shape, g)
        case _:
            return torch.where(_one_in_a_row(shape, g), s.high, s.low)


def _row(whole: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    """Returns one entry along the first dimension that has several, to be broadcast."""
    dim = next((d for d, size in enumerate(whole.shape) if size > 1), 0)
    if not whole.dim():
        return whole
    at = int(torch.randint(0, whole.shape[dim], (), generator=g))
    return whole.narrow(dim, at, 1)


def _shuffled(whole: torch.Tensor, g: torch.Generator) -> torch.Tensor:
    """Returns the elements in another order, within each column, so that columns keep their ranges."""
    if not whole.dim():
        return whole
    dim = next((d for d, size in enumerate(whole.shape) if size > 1), 0)
    return whole.gather(dim, torch.rand(whole.shape, generator=g).argsort(dim=dim))


def _uniform(s: Structure, shape: torch.Size, g: torch.Generator) -> torch.Tensor:
    width = (s.high - s.low + 1).double()
    return s.low + (torch.rand(shape, generator=g, dtype=torch.float64) * width).long().clamp(max=s.high - s.low)


def _one_in_a_row(shape: torch.Size, g: torch.Generator) -> torch.Tensor:
    if not shape:
        return torch.tensor(True)
    at = torch.randint(0, shape[-1], (*shape[:-1], 1), generator=g)
    return torch.arange(shape[-1]) == at


def _ordered(family: str, given: torch.Tensor, s: Structure, g: torch.Generator) -> torch.Tensor | None:
    shape = given.shape
    if given.dtype is torch.bool:
        made = _runs(family, shape, g)
        return made if made is None or not s.descending else made.flip(-1)
    match family:
        case "lowest":
            made = s.low.expand(shape).clone()
        case "highest":
            made = s.high.expand(shape).clone()
        case "dense" | "permuted":
            made = _uniform(s, shape, g).sort(dim=-1).values
        case "repeated":
            made = _uniform(s, (*shape[:-1], -(-shape[-1] // 4)), g).sort(-1).values.repeat_interleave(4, -1)  # type: ignore[arg-type]
            made = made[..., : shape[-1]].clone()
        case "sparse":
            made = torch.where(torch.arange(shape[-1]) < shape[-1] // 2, s.low, s.high).expand(shape).clone()
        case _:
            return None
    made = made.flip(-1) if s.descending else made
    if s.ends:
        made[..., 0], made[..., -1] = _whole(given)[..., 0], _whole(given)[..., -1]
    return made


def _runs(family: str, shape: torch.Size, g: torch.Generator) -> torch.Tensor | None:
    """Returns rows whose last elements are true, as padding masks have them; how many, the family says."""
    length = shape[-1]
    few = torch.randint(0, max(1, length // 8) + 1, (*shape[:-1], 1), generator=g)
    match family:
        case "lowest":
            count = torch.zeros_like(few)
        case "highest":
            count = torch.full_like(few, length)
        case "sparse":
            count = few
        case "dense":
            count = length - few
        case "single":
            count = torch.where(torch.rand(few.shape, generator=g) < 0.5, 1, length - 1)
        case "permuted":
            count = torch.randint(0, length + 1, few.shape, generator=g)
        case _:
            return None
    return torch.arange(length) >= length - count


def _distinct(family: str, given: torch.Tensor, s: Structure, g: torch.Generator) -> torch.Tensor | None:
    whole = _whole(given)
    match family:
        case "permuted":
            return whole.gather(-1, torch.rand(whole.shape, generator=g).argsort(dim=-1))
        case "sorted" | "lowest":
            return whole.sort(dim=-1).values
        case "highest":
            return whole.sort(dim=-1, descending=True).values
        case _:
            return None


def _table(family: str, given: torch.Tensor, s: Structure, g: torch.Generator) -> torch.Tensor | None:
    if family != "permuted" or not given.dim() or given.shape[-1] < 2:
        return None
    # One order for all rows, so that one-hot rows stay one-hot and pairs of rows stay what they are to each other.
    return given[..., torch.randperm(given.shape[-1], generator=g)]


class Mixer:
    """Contents of structured tensors that no earlier call has seen, from a few draws, at the cost of a few copies.

    Half of the elements come from one draw whose rows are shifted, the others from another in random order.
    Ordered rows are drawn anew; rows without repetition get another order.
    """

    def __init__(
        self, structures: Sequence[Structure | None], draws: Sequence[Sequence[torch.Tensor]], rng: torch.Generator
    ) -> None:
        self._structures, self._draws, self._rng = structures, draws, rng
        self.active = True
        """False where the reference does not accept mixed contents: then whole draws are used."""
        self._pools = {
            index: [self._rows(_shuffled(_whole(draw[index]), rng).to(draw[index].dtype)) for draw in draws]
            for index, s in enumerate(structures)
            if s is not None and s.kind == "free"
        }
        most = max((draws[0][index].numel() for index in self._pools), default=0)
        self._choices = torch.rand(most + MIX_SHIFTS, generator=rng) < 0.5

    def to(self, device: torch.device) -> Mixer:
        """Moves what contents are made from to a device; returns itself."""
        self._draws = [tuple(t.to(device) for t in draw) for draw in self._draws]
        self._pools = {index: [t.to(device) for t in pool] for index, pool in self._pools.items()}
        self._choices = self._choices.to(device)
        return self

    def _rows(self, tensor: torch.Tensor) -> torch.Tensor:
        dim = next((d for d, size in enumerate(tensor.shape) if size > 1), 0)
        return tensor.reshape(tensor.shape[dim] if tensor.dim() else 1, -1)

    def _below(self, most: int) -> int:
        return int(torch.randint(0, max(1, most), (), generator=self._rng))

    def write(self, index: int, which: int, into: torch.Tensor) -> None:
        """Writes fresh contents of one tensor, made from the draw `which` among others."""
        structure, source = self._structures[index], self._draws[which][index]
        if structure is None or not self.active or structure.kind == "table":
            into.copy_(source)
        elif structure.kind == "free":
            rows, others = self._rows(source), self._pools[index][self._below(len(self._draws))]
            start = self._below(MIX_SHIFTS)
            chosen = self._choices[start : start + source.numel()].view(rows.shape)
            shifts = self._below(len(rows)), self._below(len(rows))
            mixed = torch.where(chosen, rows.roll(shifts[0], 0), others.roll(shifts[1], 0))
            into.copy_(mixed.view(into.shape))
        else:
            made = fill("permuted", source.cpu(), structure, self._rng)
            into.copy_(source if made is None else made)
