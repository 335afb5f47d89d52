"""How wrong an output may be, and whether it is.

The rule. Elements are grouped by the binade of the truth (groups with few elements are joined to
the next one down). In each group the largest and the root-mean-square error of the candidate
against float64 truth may be `max_factor` and `rms_factor` times what the reference itself shows in
the same group on the same inputs in its own dtype. Below a floor of `floor_ulps` units in the last
place of the output's dtype (half of that for the root mean square), plus the smallest normal
number (four of them, except in float16), an error always passes.

Sums. Where an output depends on K numbers (`fan_in`, found by differentiating the reference), a
right kernel may add them in another order, and plain recursive summation errs by about sqrt(K) u
(Higham & Mary 2019, probabilistic bound), whatever cleverer order the reference happens to use. So
the floor is at least 3 sqrt(K) u |truth| (1 sqrt(K) u for the root mean square), and the factors at
least sqrt(K)/4 and sqrt(K)/8; K counts up to 16,384, which keeps the floor ten times below what
TF32 or float16 operands show (family `constant`). Elementwise outputs (K of a few) are not affected.

Luck and ill-conditioned inputs. The reference may be exact by chance (a scalar is one sample), and
where the inputs nearly cancel any two right kernels differ. The truth for inputs that each moved by
one rounding shows how much the answer is worth there (backward stability: an answer that is exact
for inputs which round to the same numbers is right). Three sqrt(K) of its typical change in the
group, one for the root mean square, pass as well. Typical is the median where a group has many
elements, so that a jump of a discontinuous function at a few places widens nothing.

Covers: a downgrade to float16, bfloat16 or TF32 anywhere that the answer shows it; an error in one row.
Does not cover: errors that stay within the reference's own in the same binade; ties in operators
    whose order PyTorch leaves open (top-k, sort): there only determined elements are compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright.judge.truth import arithmetic_roundoff
from kernelwright.types import Problem, ToleranceRule

SMALL_GROUP = 32
"""Groups with fewer elements are joined to the next binade down."""
MOST_TERMS = 16_384
MOVED_SAMPLE = 1 << 15
"""Elements from which the typical change of a group is taken."""
MEDIAN_TO_SIGMA = 1.4826
RMS_GROUP = 32
"""A root mean square of fewer elements says no more than their maximum."""
TIES_LEFT_OPEN = re.compile(r"\b(topk|sort|argsort|msort|kthvalue|median|nanmedian|mode)\b")


@dataclass(frozen=True, slots=True)
class Finding:
    """What the comparison of one output with its bound found."""

    passed: bool
    check: str
    """The name of the check that failed; `accuracy` when none did."""
    ratio: float
    """The largest error as a fraction of what is allowed."""
    evidence: str


class FloatBound:
    """What is allowed for one floating output on one draw."""

    def __init__(
        self,
        name: str,
        *,
        truth: torch.Tensor,
        own: torch.Tensor,
        nearby: Sequence[torch.Tensor],
        rule: ToleranceRule,
        terms: float,
    ) -> None:
        self.name, self.shape, self.dtype = name, tuple(own.shape), own.dtype
        self.truth = truth.reshape(-1).double()
        own64 = own.reshape(-1).double()
        self._kinds = kinds(self.truth.to(own.dtype))
        self._own_kinds = kinds(own64)
        self._finite = (self._kinds == 0) & self.truth.isfinite()
        counted = self._finite & (self._own_kinds == 0)
        self.groups, self._group = grouped(self.truth, counted, own.dtype)
        own_error = torch.where(counted, (own64 - self.truth).abs(), 0.0)
        most, rms, count = self._by_group(own_error, counted)
        root = math.sqrt(min(max(1.0, terms), MOST_TERMS))
        moved = root * self._typical_change(nearby, counted)
        floors = Floors(self.truth, own.dtype)
        floor = floors.at(ulps=rule.floor_ulps, roundings=3.0 * root)
        self.allowed = torch.maximum(
            torch.maximum(max(rule.max_factor, root / 4) * most, 3.0 * moved)[self._group], floor
        )
        low = torch.where(counted, floors.at(ulps=rule.floor_ulps / 2.0, roundings=root), 0.0)
        _, rms_floor, _ = self._by_group(low, counted)
        self.allowed_rms = torch.maximum(torch.maximum(max(rule.rms_factor, root / 8) * rms, moved), rms_floor)
        self._counted, self._count = counted, count

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the bound holds."""
        return self.truth.numel() * 30

    def check(self, output: torch.Tensor) -> Finding:
        """Compares a candidate's output with the truth."""
        given = output.reshape(-1).double()
        found = kinds(given)
        wrong = (found != self._kinds) & (found != self._own_kinds)
        if bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            return self._fault("non-finite", at, given, f"{int(wrong.sum())} elements differ in kind")
        error = torch.where(self._finite & (found == 0), (given - self.truth).abs(), 0.0)
        share = error / self.allowed
        worst = int(share.argmax()) if len(share) else 0
        ratio = float(share[worst]) if len(share) else 0.0
        if ratio > 1.0:
            detail = f"error {float(error[worst]):.3g} > {float(self.allowed[worst]):.3g} allowed"
            return self._fault("accuracy", worst, given, f"{detail}; {int((share > 1).sum())} elements", ratio)
        _, rms, _ = self._by_group(torch.where(self._counted, error, 0.0), self._counted)
        excess = torch.where(self._count >= RMS_GROUP, rms / self.allowed_rms, 0.0)
        if len(excess) and float(excess.max()) > 1.0:
            group = int(excess.argmax())
            text = (
                f"{self.name}: root-mean-square error {float(rms[group]):.3g} > {float(self.allowed_rms[group]):.3g} "
                f"allowed among {int(self._count[group])} elements of one magnitude"
            )
            return Finding(False, "accuracy", float(excess[group]), text)
        return Finding(True, "accuracy", max(ratio, float(excess.max()) if len(excess) else 0.0), "")

    def _typical_change(self, nearby: Sequence[torch.Tensor], counted: torch.Tensor) -> torch.Tensor:
        """Returns for each group how much the truth changes, typically, when inputs move by one rounding."""
        typical = torch.zeros(self.groups, dtype=torch.float64)
        if not nearby:
            return typical
        places = counted.nonzero().flatten()
        places = places[:: max(1, len(places) * len(nearby) // MOVED_SAMPLE)]
        group = self._group[places].repeat(len(nearby))
        change = torch.cat([(other.reshape(-1).double()[places] - self.truth[places]).abs() for other in nearby])
        change = change.nan_to_num(0.0, 0.0)
        order = torch.argsort(change)
        order = order[torch.argsort(group[order], stable=True)]
        change, sizes = change[order], torch.bincount(group, minlength=self.groups)
        start = sizes.cumsum(0) - sizes
        for number, (first, size) in enumerate(zip(start.tolist(), sizes.tolist(), strict=True)):
            if size:
                part = change[first : first + size]
                few = size < SMALL_GROUP * len(nearby)
                typical[number] = part[-1] if few else MEDIAN_TO_SIGMA * part[size // 2]
        return typical

    def _by_group(self, error: torch.Tensor, counted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        group, number = self._group, self.groups
        most = torch.zeros(number, dtype=torch.float64).scatter_reduce_(0, group, error, "amax")
        squares = torch.bincount(group, weights=error.square(), minlength=number)
        count = torch.bincount(group, weights=counted.double(), minlength=number)
        return most, (squares / count.clamp(min=1)).sqrt(), count

    def _fault(self, check: str, at: int, given: torch.Tensor, why: str, ratio: float = math.inf) -> Finding:
        index = ",".join(str(int(i)) for i in torch.unravel_index(torch.tensor(at), self.shape)) if self.shape else ""
        text = f"{self.name}[{index}] is {float(given[at]):.9g}, truth {float(self.truth[at]):.9g}: {why}"
        return Finding(False, check, ratio, text)


class ExactBound:
    """What is allowed for one integer or boolean output on one draw: the truth, or what the reference gives.

    Elements whose truth changes when the inputs move by one rounding are left out where rounding
    decided (truth and reference differ somewhere) or where PyTorch leaves the order of ties open.
    """

    def __init__(
        self,
        name: str,
        *,
        truth: torch.Tensor,
        own: torch.Tensor,
        nearby: Sequence[torch.Tensor],
        ties_open: bool,
    ) -> None:
        self.name, self.shape = name, tuple(own.shape)
        self._truth, self._own = truth.reshape(-1), own.reshape(-1)
        self._open = torch.zeros(self._truth.shape, dtype=torch.bool)
        if ties_open or not torch.equal(self._truth, self._own):
            for other in nearby:
                self._open |= other.reshape(-1) != self._truth

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the bound holds."""
        return self._truth.numel() * 17

    def check(self, output: torch.Tensor) -> Finding:
        """Compares a candidate's output with the truth, element for element."""
        given = output.reshape(-1)
        wrong = (given != self._truth) & (given != self._own) & ~self._open
        if self._open.any():
            wrong |= self._open & ((given < self._truth.min()) | (given > self._truth.max()))
        if not bool(wrong.any()):
            return Finding(True, "accuracy", 0.0, "")
        at = int(wrong.nonzero()[0])
        text = f"{self.name}[{at}] is {given[at].item()}, truth {self._truth[at].item()}"
        text += f"; {int(wrong.sum())} elements differ"
        return Finding(False, "accuracy", math.inf, text)


Bound = FloatBound | ExactBound


def ties_left_open(problem: Problem) -> bool:
    """Tells whether the reference names an operator whose order among equals PyTorch leaves open."""
    return any(TIES_LEFT_OPEN.search(file.text) for file in problem.reference)


def bounds_for(
    problem: Problem,
    *,
    truth: Sequence[torch.Tensor],
    own: Sequence[torch.Tensor],
    nearby: Sequence[Sequence[torch.Tensor]],
    fan_in: Sequence[float],
) -> tuple[Bound, ...]:
    """Returns the bound of every output on one draw.

    Args:
        problem: whose outputs and tolerance rule these are.
        truth: outputs in float64.
        own: outputs in the reference's own precision.
        nearby: the truth for inputs moved by one rounding, any number of times.
        fan_in: how many numbers an element of each output depends on.
    """
    made: list[Bound] = []
    for index, spec in enumerate(problem.outputs):
        moved = [outputs[index] for outputs in nearby]
        if own[index].is_floating_point():
            made.append(
                FloatBound(
                    spec.name,
                    truth=truth[index],
                    own=own[index],
                    nearby=moved,
                    rule=problem.tolerance,
                    terms=fan_in[index],
                )
            )
        else:
            made.append(
                ExactBound(
                    spec.name, truth=truth[index], own=own[index], nearby=moved, ties_open=ties_left_open(problem)
                )
            )
    return tuple(made)


def kinds(values: torch.Tensor) -> torch.Tensor:
    """Returns 0 for finite numbers, 1 for NaN, 2 and 3 for plus and minus infinity."""
    if bool(values.isfinite().all()):
        return torch.zeros(values.shape, dtype=torch.uint8)
    kind = values.isnan().to(torch.uint8)
    kind[values == math.inf] = 2
    kind[values == -math.inf] = 3
    return kind


def exponents(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns the binade of each value, subnormal numbers and zero in the lowest one of the dtype."""
    lowest = int(math.log2(torch.finfo(dtype).tiny))
    exponent = torch.frexp(values).exponent
    return torch.where(values == 0, lowest, exponent).clamp(lowest, 1100).long()


def grouped(truth: torch.Tensor, counted: torch.Tensor, dtype: torch.dtype) -> tuple[int, torch.Tensor]:
    """Returns the number of groups and the group of each element (0 for those not counted)."""
    exponent = exponents(torch.where(counted, truth, 0.0), dtype)
    lowest = int(exponent.min()) if len(exponent) else 0
    counts = torch.bincount((exponent - lowest)[counted]).tolist()
    group_of, group, size = [0] * max(1, len(counts)), 0, 0
    for position in range(len(counts) - 1, -1, -1):
        group_of[position] = group
        size += counts[position]
        if size >= SMALL_GROUP:
            group, size = group + 1, 0
    if size and group and sum(counts):
        # The rest at the low end is too few: it belongs to the group above.
        group_of = [min(g, group - 1) for g in group_of]
        group -= 1
    member = torch.tensor(group_of)[(exponent - lowest).clamp(max=len(group_of) - 1)]
    return max(group_of) + 1, torch.where(counted, member, 0)


class Floors:
    """Errors that always pass, for each element of a truth: units in the last place, or roundings of a sum."""

    def __init__(self, truth: torch.Tensor, dtype: torch.dtype) -> None:
        info = torch.finfo(dtype)
        magnitude = truth.abs().nan_to_num(0.0, info.max, info.max)
        self._ulp = torch.ldexp(torch.full_like(magnitude, info.eps / 2.0), torch.frexp(magnitude).exponent)
        self._rounding = magnitude.mul_(arithmetic_roundoff(dtype))
        # Vector exponentials stop a little above the smallest normal number; in float16 that would not be little.
        self._smallest = info.tiny if dtype is torch.float16 else 4.0 * info.tiny

    def at(self, *, ulps: float, roundings: float) -> torch.Tensor:
        """Returns the larger of so many units in the last place and so many roundings, plus the smallest number."""
        return torch.maximum(ulps * self._ulp, roundings * self._rounding) + self._smallest
