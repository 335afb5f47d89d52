"""Null candidates: answers that cost nothing, and must fail. Where one passes, the problem is weak.

A null gives zeros, a constant, an input, its first row everywhere, the mean of its rows, the answer for other
inputs, or what the reference gives for operands rounded to fewer bits. Each output is looked at on its own:
a kernel may be right in all others.

Covers: outputs that are nearly constant, saturated, or copies; bounds so wide that a downgrade passes;
    outputs that some input does not matter for; inputs that are the same in every draw.
Does not cover: weak problems whose answer needs a cleverer guess (one row of many, a neighbour's answer).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch

from kernelwright.errors import SourceError
from kernelwright.judge.draws import AnyDraws, Draw, Tensors
from kernelwright.judge.inputs import NONFINITE

PRECISIONS = {"bfloat16": 8, "float16": 11, "TF32": 11, "float32": 24}
"""Bits of the significand, by what a kernel may round its operands to; float16 has a range of its own too."""
ROUNDED = " operands"
FIRST = (("given", 0), ("given", 1), ("constant", 0), ("powers", 0))
"""The draws that most nulls fail on; the others are made only where one is left."""
MOST_TENSORS = 48
"""Inputs and parameters of which it is asked whether outputs depend on them."""
Answer = Callable[[Draw], torch.Tensor | None]


@dataclass
class Null:
    """One null candidate for one output, and what became of it."""

    output: str
    name: str
    answer: Answer
    caught_by: str = ""
    tried: int = 0
    same: bool = True
    """So far its answers were the reference's own, bit for bit."""
    skipped: bool = field(default=False)


def order_of(families: Sequence[str], draws: int) -> list[tuple[str, int]]:
    """Returns the draws of a policy, those first that most nulls fail on."""
    # What NaN makes of an answer tells nothing about its worth.
    families = [family for family in families if family != NONFINITE]
    every = [(family, number) for number in range(draws) for family in families]
    first = [pair for pair in FIRST if pair[0] in families]
    return [*first, *(pair for pair in every if pair not in first)]


class Nulls:
    """The null candidates of one problem.

    Args:
        draws: of the problem; what it keeps is used, the rest is made.
    """

    def __init__(self, draws: AnyDraws[Draw]) -> None:
        self._draws, self._problem = draws, draws.problem
        self._rounded: dict[tuple[str, int, str], Tensors | None] = {}
        self._fixed: tuple[torch.Tensor, ...] = ()

    def run(self, families: Sequence[str], draws: int, *, tell: Callable[[str], None] = lambda _: None) -> list[Null]:
        """Returns every null candidate with the family that caught it, '' where it passed them all."""
        nulls = list(self._every())
        for family, number in order_of(families, draws):
            left = [null for null in nulls if not null.caught_by and not null.skipped]
            if not left:
                break
            tell(f"family {family}, {len(left)} null candidates left")
            if draw := self._draws.draw(family, number):
                for null in left:
                    self._try(null, draw)
                self._rounded.clear()
        for null in nulls:
            # Rounded operands that change no bit anywhere are a right way to compute it.
            null.skipped = null.skipped or not null.tried or (null.name.endswith(ROUNDED) and null.same)
        return [null for null in nulls if not null.skipped]

    def _try(self, null: Null, draw: Draw) -> None:
        index = self._index(null.output)
        answer = null.answer(draw)
        if answer is None or answer.numel() != draw.truth[index].numel():
            return
        null.tried += 1
        bound = draw.bounds[index]
        dtype = getattr(bound, "dtype", draw.truth[index].dtype)
        given = answer.reshape(draw.truth[index].shape).to(dtype)
        null.same = null.same and torch.equal(given.double(), draw.truth[index].to(dtype).double())
        if not bound.check(given).passed:
            null.caught_by = draw.family

    def _index(self, output: str) -> int:
        return next(i for i, spec in enumerate(self._problem.outputs) if spec.name == output)

    def _every(self) -> Iterator[Null]:
        for index, spec in enumerate(self._problem.outputs):
            yield Null(spec.name, "zeros", lambda d, i=index: torch.zeros_like(d.truth[i]))  # type: ignore[misc]
            yield Null(spec.name, "a constant", lambda _, i=index: _typical(self._other()[i]))  # type: ignore[misc]
            yield Null(spec.name, "the answer for other inputs", lambda _, i=index: self._other()[i])  # type: ignore[misc]
            if max(spec.shape, default=1) > 1:
                yield Null(spec.name, "its first row everywhere", lambda d, i=index: _first_row(d.truth[i]))  # type: ignore[misc]
            if max(spec.shape, default=1) > 1 and ("float" in spec.dtype):
                yield Null(spec.name, "the mean of its rows", lambda d, i=index: _mean_row(d.truth[i]))  # type: ignore[misc]
            for place, source in enumerate(self._problem.inputs + self._problem.parameters):
                if math.prod(source.shape) == math.prod(spec.shape) and source.dtype == spec.dtype:
                    yield Null(spec.name, f"a copy of {source.name}", lambda d, p=place: (*d.inputs, *d.parameters)[p])  # type: ignore[misc]
            for precision in self._precisions():
                yield Null(spec.name, precision + ROUNDED, lambda d, p=precision, i=index: self._lower(d, p, i))  # type: ignore[misc]

    def _other(self) -> tuple[torch.Tensor, ...]:
        """Returns the answer for inputs of a draw that is none of those judged."""
        if not self._fixed:
            given = self._draws.draw("given", 2)
            assert given is not None
            self._fixed = given.truth
        return self._fixed

    def _precisions(self) -> list[str]:
        floats = [s.dtype for s in self._problem.inputs + self._problem.parameters if "float" in s.dtype]
        bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
        most = max((bits[d] for d in floats), default=0)
        return [name for name, kept in PRECISIONS.items() if kept < most]

    def _lower(self, draw: Draw, precision: str, index: int) -> torch.Tensor | None:
        key = (draw.family, draw.number, precision)
        if key not in self._rounded:
            inputs = [rounded(t, precision) for t in draw.inputs]
            parameters = [rounded(t, precision) for t in draw.parameters]
            try:
                self._rounded[key] = self._draws.own(inputs, parameters)
            except SourceError:
                self._rounded[key] = None
        outputs = self._rounded[key]
        return outputs[index] if outputs else None

    # ------------------------------------------------------------------------------------------- dependence

    def independent(self) -> list[tuple[str, str]]:
        """Returns (output, tensor) where the output stays within its bounds whatever the tensor holds."""
        tensors = (self._problem.inputs + self._problem.parameters)[:MOST_TENSORS]
        left = [(output.name, spec.name) for output in self._problem.outputs for spec in tensors]
        for family in ("given", "normal"):
            one, other = self._draws.draw(family, 0), self._draws.draw(family, 1)
            if one is None or other is None or not left:
                continue
            for place, spec in enumerate(tensors):
                if any(name == spec.name for _, name in left):
                    same = self._unmoved(one, other, place)
                    left = [(o, n) for o, n in left if n != spec.name or o in same]
        return left

    def _unmoved(self, one: Draw, other: Draw, place: int) -> list[str]:
        """Returns the outputs that stay within bounds when one tensor has another draw's values."""
        values, count = [*one.inputs, *one.parameters], len(one.inputs)
        changed = (*other.inputs, *other.parameters)[place]
        if torch.equal(values[place], changed):
            return []  # it never changes (see `fixed`): nothing is known
        values[place] = changed
        try:
            outputs = self._draws.own(values[:count], values[count:])
        except SourceError:
            return []
        names = [spec.name for spec in self._problem.outputs]
        return [n for n, b, t in zip(names, one.bounds, outputs, strict=True) if b.check(t).passed]

    def fixed(self) -> list[str]:
        """Returns the inputs that are the same in every draw of the reference's own."""
        draws = [self._draws.reference.make_inputs(self._draws.seed("fixed", i)) for i in range(2)]
        return [s.name for s, a, b in zip(self._problem.inputs, *draws, strict=True) if torch.equal(a, b)]


def rounded(tensor: torch.Tensor, precision: str) -> torch.Tensor:
    """Returns a floating tensor with its elements rounded to another format's precision, in its own dtype."""
    if not tensor.is_floating_point():
        return tensor
    if precision != "TF32":
        return tensor.to(getattr(torch, precision)).to(tensor.dtype)
    mantissa, exponent = torch.frexp(tensor.double())
    return torch.ldexp((mantissa * 2.0**11).round() / 2.0**11, exponent).to(tensor.dtype)


def _typical(truth: torch.Tensor) -> torch.Tensor:
    """Returns a tensor filled with the mean; with the most frequent value where numbers are whole."""
    if truth.is_floating_point():
        return torch.full_like(truth, float(truth.nan_to_num(0.0, 0.0, 0.0).mean()))
    values, counts = torch.unique(truth, return_counts=True)
    return torch.full_like(truth, values[counts.argmax()].item())


def _rows_of(truth: torch.Tensor) -> torch.Tensor:
    dim = next((d for d, size in enumerate(truth.shape) if size > 1), 0)
    return truth.movedim(dim, 0)


def _spread(row: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    dim = next((d for d, size in enumerate(truth.shape) if size > 1), 0)
    return row.expand(_rows_of(truth).shape).movedim(0, dim)


def _first_row(truth: torch.Tensor) -> torch.Tensor:
    return _spread(_rows_of(truth)[:1], truth)


def _mean_row(truth: torch.Tensor) -> torch.Tensor:
    return _spread(_rows_of(truth).mean(0, keepdim=True), truth)


def weaknesses(draws: AnyDraws[Draw], families: Sequence[str], count: int) -> tuple[str, ...]:
    """Returns a line for each null candidate that a policy would let pass."""
    found = Nulls(draws).run(families, count)
    return tuple(f"weak problem: {null.name} would pass for {null.output}" for null in found if not null.caught_by)
