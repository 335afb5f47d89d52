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
the floor is at least 4 sqrt(K) u |truth| (2 sqrt(K) u for the root mean square: where all terms are
multiples of a few numbers, as in family `integers`, the same rounding comes again and again), and the factors at
least sqrt(K)/4; K counts up to 16,384, which keeps the floor eight times below what
TF32 or float16 operands show (family `constant`). Elementwise outputs (K of a few) are not affected.

Luck and ill-conditioned inputs. The reference may be exact by chance (a scalar is one sample), and
where the inputs nearly cancel any two right kernels differ. The truth for inputs that each moved by
one rounding shows how much the answer is worth there (backward stability: an answer that is exact
for inputs which round to the same numbers is right). Six sqrt(K) of its typical change in the
group, two for the root mean square, pass as well: a running mean (Welford) needs three. Typical is
the median where a group has many elements, so that a jump of a discontinuous function at a few
places widens nothing. The others of its group say little about an element whose inputs cancel far more than
theirs (a sum of large numbers that comes out small, beside sums of small ones). Such an element may err by its
own change: in rare binades, which together hold at most one element in a hundred; where a group reaches over many
binades, few elements in each (what exponentials leave of large numbers); and elsewhere where it changes eight times
as much as is typical. Where more than one in a thousand do, the change must become an eighth when inputs move by an
eighth of a rounding (rows that are worse conditioned than others): anything else is a jump.

A closer look. What fails with few elements is settled with many more moved inputs, in pairs of opposite moves, which
also tell equal numbers apart. An element that changes four times as much as is typical may then err by its own change
wherever that is no jump. Zeros of the truth may come out as what float64 itself cannot tell from zero (1 + erf of a
large negative number).

Covers: a downgrade to float16, bfloat16 or TF32 anywhere that the answer shows it; an error in one row.
Does not cover: errors that stay within the reference's own in the same binade; ties in operators
    whose order PyTorch leaves open (top-k, sort): there only determined elements are compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kernelwright.judge.exact_bound import ExactBound, Finding
from kernelwright.judge.magnitudes import (
    BINADES,
    SMALL_GROUP,
    exponents,
    groups_of,
    histogram,
    kinds,
    lowest_exponent,
    odd_kinds,
    smallest_of,
)
from kernelwright.judge.parts import InParts
from kernelwright.judge.truth import arithmetic_roundoff
from kernelwright.types import Problem, ToleranceRule

MOST_TERMS = 16_384
MOVED_SAMPLE = 1 << 15
"""Elements from which the typical change of a group is taken."""
MEDIAN_TO_SIGMA = 1.4826
RARE_SHARE, RARE_FROM = 0.01, 4096
"""The share of all elements that rare binades hold together, in outputs of at least so many elements."""
UNLIKE_SMOOTH = 2.0
"""The same where changes are known to be no jumps."""
FINER = 8
"""The fraction of a rounding by which inputs move to see whether the truth moves by that fraction as well."""
SCATTERED = 4
"""Binades from the first to the last of a group, from which on its elements say little about one another."""
MOST_LUCK = 2.0**14
"""By how much one move of the inputs may change the truth more than another: a jump is more than a slope by 2^20."""
UNLIKE, UNLIKE_SHARE = 8.0, 1e-3
"""How often the typical change makes an element unlike its group, and the share of all that may be so."""
ILL_LUCK, MOST_ILL = 8.0, 768.0
"""How much more an element may err than its group by this change, which is one or two samples of chance; in all
at most MOST_ILL roundings of its inputs, ten times below what TF32 would make of them."""
CLOSER_UNLIKE = 4.0
"""How often the typical change makes an element unlike its group, where it was seen that no jump is near."""
FEW_SHARE, FEW_ELEMENTS = 0.1, 4
"""The share of an output's elements, or their number, up to which what fails deserves a closer look."""
MOST_BINS = 2048
CHUNK = 1 << 25
"""Elements that are compared at once: what differs is held in several tensors of float64."""
ZERO = 2.0**-50
"""Of the largest element: what float64 cannot tell from zero where numbers of that size cancel."""
RMS_GROUP = 32
"""A root mean square of fewer elements says no more than their maximum."""
TIES_LEFT_OPEN = re.compile(r"\b(topk|sort|argsort|msort|kthvalue|median|nanmedian|mode)\b")


@dataclass(frozen=True, slots=True)
class _Part:
    """What some elements of an output say; `at` is the place of the worst, or of the first that differs in kind."""

    at: int
    differing: int = 0
    ratio: float = 0.0
    many: int = 0
    squares: torch.Tensor | None = None


class FloatBound(InParts):
    """What is allowed for one floating output on one draw.

    Everything that is allowed depends on an element's binade alone, so that a bound is the truth, an
    index, and a small table.
    """

    def __init__(
        self,
        name: str,
        *,
        truth: torch.Tensor,
        own: torch.Tensor,
        nearby: Sequence[torch.Tensor],
        rule: ToleranceRule,
        terms: float,
        finer: Callable[[], torch.Tensor] | None = None,
        closer: bool = False,
        jittered: bool = False,
    ) -> None:
        self.name, self.shape, self.dtype = name, tuple(own.shape), own.dtype
        self.truth = truth.reshape(-1).double()
        own64 = own.reshape(-1).double()
        self._kinds, self._own_kinds, self._odd = odd_kinds(self.truth.to(own.dtype), own64)
        self.lowest = lowest = lowest_exponent(own.dtype)
        index = exponents(self._counted(self.truth), own.dtype) - lowest
        self._index = index.to(torch.int16)
        self.counts = histogram(index if self._odd is None else index[~self._odd])
        self._group = groups_of(self.counts)
        own_error = self._counted((own64 - self.truth).abs())
        most, rms = self._by_group(own_error, index)
        root = math.sqrt(min(max(1.0, terms), MOST_TERMS))
        typical = self._typical_change(nearby, index)
        moved = root * typical
        # The middle of each binade, and the distance of neighbouring numbers in it.
        middle = torch.ldexp(torch.full((BINADES,), 0.75, dtype=torch.float64), torch.arange(BINADES) + lowest)
        ulp, rounding = middle * torch.finfo(own.dtype).eps / 1.5, middle * arithmetic_roundoff(own.dtype)
        smallest = smallest_of(own.dtype)
        floor = torch.maximum(rule.floor_ulps * ulp, 4.0 * root * rounding) + smallest
        floor[0] += ZERO * float(self._counted(self.truth).abs().max()) if len(self.truth) else 0.0
        by_group = torch.maximum(max(rule.max_factor, root / 4.0) * most, 6.0 * moved)
        self.table = torch.maximum(by_group[self._group], floor)
        factor = min(6.0 * root * (1.0 if closer else ILL_LUCK), MOST_ILL)
        unlike = CLOSER_UNLIKE if closer else UNLIKE_SMOOTH
        self._ill, self._ill_allowed = self._ill_conditioned(
            nearby, typical, factor, finer, unlike, always=closer or jittered
        )
        low = torch.maximum(rule.floor_ulps / 2.0 * ulp, 2.0 * root * rounding) + smallest
        low[0] = floor[0]
        self._rms_allowed = torch.maximum(
            torch.maximum(max(rule.rms_factor, root / 4.0) * rms, 2.0 * moved),
            # Binades beyond float64 are infinite, and times 0 elements no number, which no root mean square exceeds.
            self._rms(self._grouped(torch.where(self.counts > 0, low.square() * self.counts, 0.0))),
        )

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the bound holds."""
        return self.truth.numel() * (10 if self._odd is None else 13)

    @property
    def odd(self) -> bool:
        """Tells whether the reference's answer holds an infinity or a NaN."""
        return self._odd is not None

    @property
    def allowed(self) -> torch.Tensor:
        """Returns the error that is allowed for each element."""
        return self.table[self._index.long()]

    @property
    def sizes(self) -> list[float]:
        """Returns how many elements each group has; 0 where they are too few for a root mean square."""
        sizes = self._grouped(self.counts)
        return torch.where(sizes >= RMS_GROUP, sizes, 0.0).tolist()

    def levels(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns for each binade one over the error allowed, one over the root mean square allowed, and the group."""
        rms = self._rms_allowed.clamp(min=5e-324)[self._group]
        return 1.0 / self.table, 1.0 / rms, self._group.to(torch.int16)

    def marks(self) -> torch.Tensor | None:
        """Returns a byte for each element, up to a multiple of 16; None where all would be 0.

        The kind of the truth, 4 times that of the reference's own answer, and 16 where an element may err by its own
        change (`own_places`).
        """
        if self._odd is None and not len(self._ill):
            return None
        count = len(self.truth)
        made = torch.zeros(-(-count // 16) * 16, dtype=torch.uint8, device=self.truth.device)
        for kinds_there, factor in ((self._kinds, 1), (self._own_kinds, 4)):
            if kinds_there is not None:
                made[:count] += factor * kinds_there
        made[self._ill] += 16
        return made

    @property
    def own_places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the elements that may err by their own change, and how much each may."""
        return self._ill, self._ill_allowed

    def check(self, output: torch.Tensor) -> Finding:
        """Compares a candidate's output, or the runs of it that are compared, with the truth."""
        if not (given := self.compared(output)).numel():
            return Finding(True, "accuracy", 0.0, "")
        parts = [self._part(given, slice(at, at + CHUNK)) for at in range(0, len(given), CHUNK)]
        if differing := sum(part.differing for part in parts):
            at = next(part.at for part in parts if part.differing)
            return self._fault("non-finite", at, given, f"{differing} elements differ in kind")
        worst = max(parts, key=lambda part: part.ratio)
        if worst.ratio > 1.0:
            wrong_by = abs(float(given[worst.at].double()) - float(self.truth[worst.at]))
            many = sum(part.many for part in parts)
            detail = f"error {wrong_by:.3g} > {wrong_by / worst.ratio:.3g} allowed; {many} elements"
            few = many <= max(FEW_ELEMENTS, FEW_SHARE * len(given))
            return self._fault("accuracy", worst.at, given, detail, worst.ratio, doubtful=few)
        squares = torch.stack([part.squares for part in parts if part.squares is not None]).sum(0)
        return self._check_rms(self._rms(squares), worst.ratio)

    def _part(self, output: torch.Tensor, where: slice) -> _Part:
        """Compares some elements: differences of a large output would take many times its memory at once."""
        given, truth, index = output[where].double(), self.truth[where], self._index[where].int()
        error = (given - truth).abs_()
        if self._odd is not None or not bool(given.isfinite().all()):
            found = kinds(given)
            wanted, own = (torch.zeros_like(found) if k is None else k[where] for k in (self._kinds, self._own_kinds))
            wrong = (found != wanted) & (found != own)
            if bool(wrong.any()):
                return _Part(differing=int(wrong.sum()), at=where.start + int(wrong.nonzero()[0]))
            # Where only the reference overflows, the exact value is judged as well.
            error = torch.where((wanted == 0) & (found == 0), error, 0.0)
        share = error / self.table[index]
        if len(self._ill):
            here = (self._ill >= where.start) & (self._ill < where.stop)
            places = self._ill[here] - where.start
            share[places] = error[places] / self._ill_allowed[here]
            error = error.index_fill(0, places, 0.0)
        worst, place = share.max(0)
        ratio = float(worst)
        if self._odd is not None:
            error = torch.where(self._odd[where], 0.0, error)
        many = int((share > 1).sum()) if ratio > 1.0 else 0
        return _Part(at=where.start + int(place), ratio=ratio, many=many, squares=self._squares(error, index))

    def _check_rms(self, rms: torch.Tensor, ratio: float) -> Finding:
        sizes = self._grouped(self.counts)
        excess = torch.where(sizes >= RMS_GROUP, rms / self._rms_allowed.clamp(min=5e-324), 0.0)
        group = int(excess.argmax())
        if float(excess[group]) > 1.0:
            text = (
                f"{self.name}: root-mean-square error {float(rms[group]):.3g} > {float(self._rms_allowed[group]):.3g} "
                f"allowed among {int(sizes[group])} elements of one magnitude"
            )
            return Finding(False, "accuracy", float(excess[group]), text, doubtful=float(excess[group]) < ILL_LUCK)
        return Finding(True, "accuracy", max(ratio, float(excess[group])), "")

    def _counted(self, values: torch.Tensor) -> torch.Tensor:
        return values if self._odd is None else torch.where(self._odd, 0.0, values)

    def _by_group(self, error: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the largest and the root-mean-square error of each group."""
        number = int(self._group[-1]) + 1
        if error.is_cuda:
            # A scatter would wait at a few addresses for all elements of one binade.
            group = self._group[index]
            most = torch.stack([torch.where(group == g, error, 0.0).amax() for g in range(number)])
            return most, self._rms(self._squares(error, index))
        most = torch.zeros(BINADES, dtype=torch.float64).scatter_reduce_(0, index, error, "amax")
        grouped = torch.zeros(number, dtype=torch.float64).scatter_reduce_(0, self._group, most, "amax")
        return grouped, self._rms(self._squares(error, index))

    def _squares(self, error: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Returns the sum of squares of each group."""
        if error.is_cuda:
            # Few bins are summed in shared memory there, the faster the fewer threads meet at one of them.
            count = int(self._group[-1]) + 1
            lanes = max(1, min(32, MOST_BINS // count))
            apart = self._group[index] + count * (torch.arange(len(index)) % lanes)
            return torch.bincount(apart, weights=error.square(), minlength=lanes * count).view(lanes, count).sum(0)
        return self._grouped(torch.bincount(index, weights=error.square(), minlength=BINADES))

    def _grouped(self, by_binade: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(int(self._group[-1]) + 1, dtype=torch.float64)
        return total.index_add_(0, self._group, by_binade.double())

    def _rms(self, squares: torch.Tensor) -> torch.Tensor:
        return (squares / self._grouped(self.counts).clamp(min=1)).sqrt()

    def _typical_change(self, nearby: Sequence[torch.Tensor], index: torch.Tensor) -> torch.Tensor:
        """Returns for each group how much the truth changes, typically, when inputs move by one rounding."""
        typical = torch.zeros(int(self._group[-1]) + 1, dtype=torch.float64)
        if not nearby:
            return typical
        taken = self._sample(index, len(nearby))
        group, truth = self._group[index[taken]].repeat(len(nearby)), self.truth[taken]
        changes = [(other.reshape(-1)[taken].double() - truth).abs() for other in nearby]
        change = torch.cat(changes).nan_to_num(0.0, 0.0)
        order = torch.argsort(change)
        order = order[torch.argsort(group[order], stable=True)]
        change, sizes = change[order], torch.bincount(group, minlength=len(typical))
        start = sizes.cumsum(0) - sizes
        for number in sizes.nonzero().flatten().tolist():
            part = change[int(start[number]) : int(start[number] + sizes[number])]
            few = len(part) < SMALL_GROUP * len(nearby)
            typical[number] = part[-1] if few else MEDIAN_TO_SIGMA * part[len(part) // 2]
        return typical

    def _sample(self, index: torch.Tensor, count: int) -> torch.Tensor:
        """Returns the places that typical changes are taken from: all of small groups, some of large ones."""
        step = max(1, self.truth.numel() * count // MOVED_SAMPLE)
        if step == 1:
            return torch.arange(self.truth.numel())
        sizes = self._grouped(self.counts)
        taken = (sizes < SMALL_GROUP * step)[self._group][index]
        taken[::step] = True
        return taken.nonzero().flatten()

    def _ill_conditioned(
        self,
        nearby: Sequence[torch.Tensor],
        typical: torch.Tensor,
        factor: float,
        finer: Callable[[], torch.Tensor] | None,
        from_here: float,
        *,
        always: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the elements that may err by `factor` times their own change, and how much that is."""
        none = torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.float64)
        if not nearby or (len(self.truth) < RARE_FROM and not always):
            return none
        sizes = self._grouped(self.counts)
        ordered, places = sizes.sort()
        rare = torch.zeros(len(sizes), dtype=torch.bool)
        rare[places] = (ordered.cumsum(0) <= RARE_SHARE * len(self.truth)) & (len(self.truth) >= RARE_FROM)
        change = torch.zeros_like(self.truth)
        for other in nearby:
            torch.maximum(change, (other.reshape(-1).double() - self.truth).abs_().nan_to_num_(0.0, 0.0), out=change)
        index = self._index.long()
        group = self._group[index]
        many = len(self.truth) >= RARE_FROM
        eligible = (rare[group] | self._scattered()[index]) & many
        unlike = change > UNLIKE * typical[group]
        few = int(unlike.sum()) <= UNLIKE_SHARE * len(change)
        if many and few:
            eligible |= unlike
        if finer and (always or not few):
            eligible |= (change > from_here * typical[group]) & self._smooth(nearby[0], finer(), change)
        change *= factor
        found = (eligible & (change > self.table[index])).nonzero().flatten()
        return found, change[found]

    def _smooth(self, near: torch.Tensor, finer: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Tells where a change follows from its cause: a fraction of the one gives that fraction of the other.

        A move away from a jump changes little or nothing, however small: another move's large change is then one.
        """
        whole = near.reshape(-1).double() - self.truth
        part = (finer.reshape(-1).double() - self.truth) * FINER
        follows = (part - whole).abs() <= 0.5 * whole.abs()
        return (follows & (change <= MOST_LUCK * whole.abs())).nan_to_num_(False)

    def _scattered(self) -> torch.Tensor:
        """Returns which binades hold few elements of a group that reaches over many: no neighbour is of their size."""
        present = self.counts > 0
        places = torch.arange(BINADES)
        number = int(self._group[-1]) + 1
        top = torch.zeros(number, dtype=torch.long).scatter_reduce_(0, self._group[present], places[present], "amax")
        bottom = torch.full((number,), BINADES).scatter_reduce_(0, self._group[present], places[present], "amin")
        wide = top - bottom > SCATTERED
        return wide[self._group] & (self.counts < SMALL_GROUP)

    def _fault(
        self, check: str, at: int, given: torch.Tensor, why: str, ratio: float = math.inf, *, doubtful: bool = False
    ) -> Finding:
        where = torch.unravel_index(torch.tensor(at), self.shape) if self.shape and not self.runs else ()
        place = ",".join(str(int(i)) for i in where) or (f"element {self.place(at)}" if self.runs else "")
        text = f"{self.name}[{place}] is {float(given[at]):.9g}, truth {float(self.truth[at]):.9g}: {why}"
        return Finding(False, check, ratio, text, doubtful)


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
    finer: Callable[[], Sequence[torch.Tensor]] | None = None,
    closer: bool = False,
) -> tuple[Bound, ...]:
    """Returns the bound of every output on one draw.

    Args:
        problem: whose outputs and tolerance rule these are.
        truth: outputs in float64.
        own: outputs in the reference's own precision.
        nearby: the truth for inputs moved by one rounding, any number of times.
        fan_in: how many numbers an element of each output depends on.
        finer: gives the truth for inputs moved as for the first of `nearby`, but by 1/FINER of it.
        closer: whether `nearby` holds many pairs of opposite moves, for a closer look.
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
                    jittered=bool(problem.gradients),
                    finer=(lambda i=index: finer()[i]) if finer else None,  # type: ignore[misc]
                    closer=closer,
                )
            )
        else:
            made.append(
                ExactBound(
                    spec.name,
                    truth=truth[index],
                    own=own[index],
                    nearby=moved,
                    ties_open=ties_left_open(problem),
                    places=max((size for tensor in problem.arguments for size in tensor.shape), default=0),
                )
            )
    return tuple(made)


def exact_bounds(
    problem: Problem, *, truth: Sequence[torch.Tensor], own: Sequence[torch.Tensor], fan_in: Sequence[float]
) -> tuple[Bound, ...]:
    """Returns bounds without any tolerance for a draw of small integers; none where some sum could have rounded.

    Args:
        problem: whose outputs these are.
        truth: outputs in float64.
        own: outputs in the reference's own precision, which must be the same numbers.
        fan_in: how many numbers an element of each output depends on.
    """
    made: list[Bound] = []
    for spec, exact, given, terms in zip(problem.outputs, truth, own, fan_in, strict=True):
        if given.is_floating_point():
            most = 2.0 / torch.finfo(given.dtype).eps
            largest = float(exact.abs().max()) if exact.numel() else 0.0
            if not torch.equal(given.double(), exact) or max(largest, terms) > most:
                return ()
            if not torch.equal(exact, exact.round()):
                return ()
        made.append(
            ExactBound(spec.name, truth=exact.to(given.dtype), own=given, nearby=(), ties_open=ties_left_open(problem))
        )
    return tuple(made)
