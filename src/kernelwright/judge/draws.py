"""Draws: sets of inputs and parameters of every family, with what is allowed for every output.

A draw is made once and kept for all candidates of a session where memory allows. Seeds derive from a secret
that never leaves the process. Not here: where a candidate finds the values (slots.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelwright.errors import SourceError
from kernelwright.judge.correctness import FINER, Bound, bounds_for, exact_bounds
from kernelwright.judge.exactness import sums_only
from kernelwright.judge.inputs import (
    CEILINGS,
    EXACT,
    HUGE,
    NONFINITE,
    draw_parameters,
    exact_parameters,
    fill_family,
    fill_structured,
    observed,
    within_seen,
)
from kernelwright.judge.sensitivity import Sensitivity
from kernelwright.judge.structured import STRUCTURED
from kernelwright.judge.truth import Truth, arithmetic_roundoff
from kernelwright.reference_program import load_problem, state_of
from kernelwright.types import Problem, TensorSpec

NEARBY = 8
"""Evaluations of the truth with moved inputs where an output has so few elements that one says little."""
NEARBY_ELEMENTS = 64
CLOSER, CLOSER_ELEMENTS = 32, 1 << 21
"""Evaluations of the truth for a closer look, and how many elements of arguments they may have together."""
SEEN_DRAWS = 4
"""From which it is observed what integers and masks have in common."""
NOT_FINITE = "the reference itself is not finite there"

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of inputs and parameters with what is allowed for every output."""

    family: str
    number: int
    inputs: Tensors
    parameters: Tensors
    bounds: tuple[Bound, ...]
    truth: Tensors
    """The outputs in float64; the same memory as the bounds'."""

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the draw holds."""
        tensors = sum(t.numel() * t.element_size() for t in (*self.inputs, *self.parameters))
        return tensors + sum(bound.size_bytes for bound in self.bounds)


class Draws:
    """All draws of one problem, at the sizes that it has.

    Args:
        problem: whose inputs are drawn.
        secret: what every seed derives from.
        most_bytes: how much memory kept draws may hold; others are made again when they are asked for.

    Raises:
        SourceError: when the reference cannot be judged against.
    """

    def __init__(self, problem: Problem, secret: int, most_bytes: float) -> None:
        self.problem, self._secret, self._most_bytes = problem, secret, most_bytes
        self.reference = load_problem(problem)
        self.truth = Truth(self.reference, self.seed("truth"))
        self.initial = [t.clone() for _, t in state_of(self.reference.make_module(self.seed("state")))]
        self._check_contract()
        seen = [self.reference.make_inputs(self.seed("seen", i)) for i in range(SEEN_DRAWS)]
        self.structures = observed(problem.inputs, seen, problem.parameters)
        self.fan_in, self.must_move_bytes = self._sensitivity(seen)
        self.sums_only = sums_only(self.reference, seen[0], self.seed("state"))
        self._kept: OrderedDict[tuple[str, int], Draw] = OrderedDict()
        self._dropped: dict[str, str] = {}

    def seed(self, *what: object) -> int:
        """Returns the seed of something, by name."""
        return hash((self._secret, *what)) % (1 << 62)

    def _check_contract(self) -> None:
        """The shapes are the problem's, and a call changes neither its inputs nor the module."""
        inputs = self.reference.make_inputs(self.seed("contract"))
        for spec, tensor in zip(self.problem.inputs, inputs, strict=True):
            if tuple(tensor.shape) != spec.shape:
                raise SourceError(f"input {spec.name} is drawn with shape {tuple(tensor.shape)}, not {spec.shape}")
        module = self.reference.make_module(self.seed("state"))
        before = [t.clone() for t in (*inputs, *(t for _, t in state_of(module)))]
        with torch.no_grad():
            self.reference.call(module, inputs)
        names = [s.name for s in (*self.problem.inputs, *self.problem.parameters)]
        for name, old, new in zip(names, before, (*inputs, *(t for _, t in state_of(module))), strict=True):
            if not torch.equal(old.nan_to_num(), new.nan_to_num()):
                raise SourceError(f"the reference changes {name}", "return new tensors; judge in evaluation mode")

    def _sensitivity(self, seen: Sequence[Tensors]) -> tuple[tuple[float, ...], int]:
        """Returns how many numbers outputs depend on at most, and the fewest bytes that must move.

        Under a mask both depend on the draw: several are looked at, with masks as open and as closed as they come.
        """
        looked_at = [seen[0]]
        if any(self.structures):
            ends = [fill_structured(f, self.structures, seen[0], self.seed(f)) for f in ("lowest", "highest")]
            looked_at = [*seen[:2], *(inputs for inputs in ends if inputs is not None)]
        found: list[tuple[tuple[float, ...], int]] = []
        for number, inputs in enumerate(looked_at):
            facts = Sensitivity(self.problem, self.reference, inputs, self.seed("state"))
            if facts.usable or not number:
                found.append((facts.fan_in(), facts.must_move_bytes()))
        most = tuple(max(column) for column in zip(*(fan_in for fan_in, _ in found), strict=True))
        # What the ends of a range say about bytes holds for no ordinary call.
        return most, min(must_move for _, must_move in found[:2])

    def kept(self, family: str, number: int) -> bool:
        """Tells whether asking for a draw costs nothing: it is kept, or does not apply."""
        return (family, number) in self._kept or family in self._dropped

    def every(self) -> tuple[Draw, ...]:
        """Returns the draws that are kept now."""
        return tuple(self._kept.values())

    def draw(self, family: str, number: int) -> Draw | None:
        """Returns a draw of a family, None where the family does not apply (see `left_out`)."""
        if family in self._dropped:
            return None
        if found := self._kept.get((family, number)):
            self._kept.move_to_end((family, number))
            return found
        made = self._make(family, number)
        if isinstance(made, str):
            self._dropped[family] = made
            return None
        if made.size_bytes + sum(d.size_bytes for d in self._kept.values()) < self._most_bytes:
            self._kept[family, number] = made
        return made

    def left_out(self, families: Sequence[str]) -> tuple[str, ...]:
        """Returns which of these families do not apply and why; those that have nothing to vary are not news."""
        return tuple(f"family {f} left out: {why}" for f, why in self._dropped.items() if f in families and why)

    # -------------------------------------------------------------------------------------------- making one

    def _make(self, family: str, number: int) -> Draw | str:
        """Returns a draw, or why there is none; limits are tried from the widest to what the reference is known for."""
        if family == EXACT and not self.sums_only:
            return ""
        why = ""
        for ceiling, seen in self._attempts(family):
            try:
                made = self._attempt(family, number, ceiling=ceiling, seen=seen)
            except SourceError as error:
                if family == "given":
                    raise
                made = f"the reference does not accept it: {error.message}"
            if isinstance(made, Draw):
                return made
            why = why or made
        return why

    def _attempts(self, family: str) -> list[tuple[float, bool]]:
        if family in ("given", NONFINITE, EXACT) or family in STRUCTURED:
            return [(0.0, False)]
        if family == HUGE:
            return [(ceiling, False) for ceiling in CEILINGS]
        return [(0.0, False), (0.0, True)]

    def _values(self, family: str, number: int, *, ceiling: float, seen: bool) -> tuple[Tensors, Tensors] | None:
        seed = self.seed(family, number)
        given = self.reference.make_inputs(seed)
        style = number if family == "given" else number + 1
        parameters = draw_parameters(self.problem.parameters, self.initial, style, seed + 1)
        if family in STRUCTURED:
            varied = fill_structured(family, self.structures, given, seed)
            return None if varied is None else (varied, parameters)
        inputs = self._filled(family, self.problem.inputs, given, seed, ceiling=ceiling, seen=seen)
        if family == EXACT:
            parameters = exact_parameters(self.problem.parameters, parameters, seed + 2)
            return (inputs or given), parameters
        if inputs is not None:
            return inputs, parameters
        # A lookup's inputs are indices: the family is then one of the table's values.
        table = self._filled(family, self.problem.parameters, parameters, seed, ceiling=ceiling, seen=seen)
        return None if table is None else (given, table)

    def _filled(
        self,
        family: str,
        specs: Sequence[TensorSpec],
        given: Tensors,
        seed: int,
        *,
        ceiling: float,
        seen: bool,
    ) -> Tensors | None:
        specs = within_seen(specs, given) if seen else specs
        return fill_family(family, specs, given, seed, ceiling=ceiling)

    def _attempt(self, family: str, number: int, *, ceiling: float, seen: bool) -> Draw | str:
        values = self._values(family, number, ceiling=ceiling, seen=seen)
        if values is None:
            return "" if family in STRUCTURED else "neither inputs nor parameters hold free numbers"
        inputs, parameters = values
        exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        # Half-precision references overflow where float64 does not; both must be finite.
        finite = all(bool(t.isfinite().all()) for t in (*exact, *own) if t.is_floating_point())
        if not finite and family not in (NONFINITE, "given"):
            return NOT_FINITE
        if family == EXACT:
            bounds = exact_bounds(self.problem, truth=exact, own=own, fan_in=self.fan_in)
            return Draw(family, number, inputs, parameters, bounds, exact) if bounds else ""
        bounds = self._bounds(inputs, parameters, exact, own)
        return Draw(family, number, inputs, parameters, bounds, exact)

    def _bounds(
        self,
        inputs: Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
        exact: Sequence[torch.Tensor],
        own: Sequence[torch.Tensor],
    ) -> tuple[Bound, ...]:
        """Returns bounds from the truth for inputs that each moved by one rounding, a few times."""
        finer: list[Tensors] = []
        count = NEARBY if min(t.numel() for t in exact) < NEARBY_ELEMENTS else 2
        step = self._rounding(inputs, parameters)

        def near(number: int, relative: float) -> Tensors:
            return self.truth.nearby(inputs, parameters, relative=relative, seed=self.seed("near", number))

        def fine() -> Tensors:
            if not finer:
                finer.append(near(0, step / FINER))
            return finer[0]

        nearby = [near(number, step) for number in range(count)]
        return bounds_for(self.problem, truth=exact, own=own, nearby=nearby, fan_in=self.fan_in, finer=fine)

    def _rounding(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> float:
        return max((arithmetic_roundoff(t.dtype) for t in (*inputs, *parameters) if t.is_floating_point()), default=0.0)

    def bounds_of(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> tuple[Bound, ...]:
        """Returns the bounds for any contents."""
        exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        return self._bounds(inputs, parameters, exact, own)

    def closer_bounds(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> tuple[Bound, ...]:
        """Returns bounds for any contents from many more moved inputs, which settle what is doubtful."""
        exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        step = self._rounding(inputs, parameters)
        pairs = max(2, min(CLOSER, CLOSER_ELEMENTS // max(1, sum(t.numel() for t in (*inputs, *exact)))) // 2)

        def moved(relative: float, pair: int) -> Tensors:
            return self.truth.nearby(inputs, parameters, relative=relative, seed=self.seed("closer", pair), untied=True)

        nearby = [moved(sign * step, pair) for pair in range(pairs) for sign in (1.0, -1.0)]
        finer = moved(step / FINER, 0)
        return bounds_for(
            self.problem, truth=exact, own=own, nearby=nearby, fan_in=self.fan_in, finer=lambda: finer, closer=True
        )
