"""Index arithmetic over loop variables: affine forms, and reshapes as exact division.

An index of a tensor is, for each axis, an affine form over loop variables and over integers that are only known
when the kernel runs (`Symbol`: an element of an index tensor). A reshape linearises an index and divides it again;
where a loop variable straddles a divisor it has to be split in two, which is asked for by raising `SplitNeeded`:
the caller splits and starts over, so that in the end every variable is an atom of all views.
Not here: what is computed (expression.py) and which loops there are (frame.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


class SplitNeeded(Exception):
    """A loop variable must be split so that its inner part has `inner` values."""

    def __init__(self, variable: Variable, inner: int) -> None:
        super().__init__(variable, inner)
        self.variable = variable
        self.inner = inner


class CutNeeded(Exception):
    """A loop over a variable must be cut at a value, because what is read changes there."""

    def __init__(self, variable: Variable, at: int) -> None:
        super().__init__(variable, at)
        self.variable = variable
        self.at = at


class NotAffine(Exception):
    """An index has no affine form over these loops; the tensor has to be stored first."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A loop variable that runs over [low, high), a part of its axis [0, whole)."""

    name: str
    high: int
    low: int = 0
    whole: int = 0
    """The extent of the axis; 0 stands for `high`."""

    @property
    def extent(self) -> int:
        """The number of values."""
        return self.high - self.low

    @property
    def axis(self) -> int:
        """The extent of the axis, of which a cut loop runs over a part only."""
        return self.whole or self.high

    def part(self, low: int, high: int) -> Variable:
        """Returns the variable of a loop over a part of this one."""
        return Variable(self.name, high, low, self.axis)


@dataclass(frozen=True)
class Affine:
    """`offset` plus coefficients times terms; a term is a Variable or a Symbol (any hashable object)."""

    offset: int = 0
    terms: tuple[tuple[object, int], ...] = ()

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.offset + other, self.terms)
        sums = dict(self.terms)
        for term, coefficient in other.terms:
            sums[term] = sums.get(term, 0) + coefficient
        kept = tuple((term, coefficient) for term, coefficient in sums.items() if coefficient)
        return Affine(self.offset + other.offset, kept)

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(self.offset * factor, tuple((term, c * factor) for term, c in self.terms))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Affine) and self.offset == other.offset and dict(self.terms) == dict(other.terms)

    def __hash__(self) -> int:
        return hash((self.offset, frozenset(self.terms)))

    def coefficient(self, term: object) -> int:
        """Returns the factor of a term, 0 where it does not occur."""
        return next((c for t, c in self.terms if t is term), 0)

    def without(self, term: object) -> Affine:
        """Returns the form less one term."""
        return Affine(self.offset, tuple((t, c) for t, c in self.terms if t is not term))

    def bounds(self) -> tuple[int, int]:
        """Returns the smallest and the largest value.

        Raises:
            NotAffine: when a symbol occurs, whose value is unknown.
        """
        low = high = self.offset
        for term, c in self.terms:
            if not isinstance(term, Variable):
                raise NotAffine("the range of an element of a tensor is unknown")
            ends = (c * term.low, c * (term.high - 1))
            low, high = low + min(ends), high + max(ends)
        return low, high


Index = tuple[Affine, ...]


def variable(v: Variable) -> Affine:
    """Returns the form that is one variable; a variable of one value is a number."""
    return Affine(v.low) if v.extent == 1 else Affine(0, ((v, 1),))


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the row-major strides of a shape, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def linearise(index: Index, shape: Sequence[int]) -> Affine:
    """Returns the position of an element in row-major order."""
    total = Affine()
    for part, stride in zip(index, strides_of(shape), strict=True):
        total = total + part * stride
    return total


def delinearise(position: Affine, shape: Sequence[int]) -> Index:
    """Returns the index at a row-major position.

    Raises:
        SplitNeeded: when a variable straddles an axis boundary.
        NotAffine: when no split of variables helps.
    """
    parts: list[Affine] = []
    for axis in range(len(shape) - 1, 0, -1):
        position, rest = divide(position, shape[axis])
        parts.append(rest)
    return tuple(reversed([*parts, position][: len(shape)])) if shape else ()


def divide(form: Affine, by: int) -> tuple[Affine, Affine]:
    """Returns quotient and remainder of a non-negative form by a positive number, both affine.

    Raises:
        SplitNeeded, NotAffine: as `delinearise`.
    """
    if by == 1:
        return form, Affine()
    whole = Affine(form.offset // by, tuple((t, c // by) for t, c in form.terms if c % by == 0))
    rest = Affine(form.offset % by, tuple((t, c) for t, c in form.terms if c % by))
    if rest.terms:
        try:
            low, high = rest.bounds()
        except NotAffine:
            low, high = -1, by
        if low < 0 or high >= by:
            for term, c in rest.terms:
                if isinstance(term, Variable) and 0 < c < by and by % c == 0:
                    inner = by // c
                    if term.axis > inner and term.axis % inner == 0:
                        raise SplitNeeded(term, inner)
            raise NotAffine(f"{len(rest.terms)} loop variables cross a multiple of {by}")
    return whole, rest


def side_of(form: Affine, at: int) -> bool:
    """Returns whether a form stays below a number; for the parts of a concatenation.

    Raises:
        CutNeeded: when that depends on a variable whose loop can be cut.
        NotAffine: when it depends on more than that.
    """
    low, high = form.bounds()
    if high < at:
        return True
    if low >= at:
        return False
    for term, c in form.terms:
        if not isinstance(term, Variable) or c <= 0:
            continue
        rest_low, rest_high = form.without(term).bounds()
        if (at - rest_low) % c == 0 and rest_high - rest_low < c:
            raise CutNeeded(term, (at - rest_low) // c)
    raise NotAffine("a concatenation's boundary crosses several loops")
