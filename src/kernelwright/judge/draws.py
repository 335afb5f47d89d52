"""Draws: sets of inputs and parameters of every family, with what is allowed for every output.

A draw is made once and kept for all candidates of a session where memory allows. Seeds derive from a secret
that never leaves the process. The same on a device (device/draws.py), but for where tensors are made and how
bounds are kept. Not here: where a candidate finds the values (slots.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import torch

from kernelwright.errors import SourceError
from kernelwright.judge.correctness import FINER, Bound, FloatBound, bounds_for, exact_bounds
from kernelwright.judge.exact_bound import Finding
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
    is_free,
    observed,
    within_seen,
)
from kernelwright.judge.parts import LARGE_ELEMENTS, Runs, in_parts, picked, runs_of
from kernelwright.judge.sensitivity import Sensitivity
from kernelwright.judge.slots import bytes_of
from kernelwright.judge.structured import STRUCTURED, Structure
from kernelwright.judge.truth import Truth, arithmetic_roundoff
from kernelwright.process import Emit
from kernelwright.reference_program import load_problem, state_of
from kernelwright.types import Policy, Problem, TensorSpec

NEARBY = 8
"""Evaluations of the truth with moved inputs where an output has so few elements that one says little."""
NEARBY_ELEMENTS = 64
CLOSER, CLOSER_ELEMENTS = 32, 1 << 21
"""Evaluations of the truth for a closer look, and how many elements of arguments they may have together."""
SEEN_DRAWS = 4
"""From which it is observed what integers and masks have in common."""
NOT_FINITE = "the reference itself is not finite there"

Tensors = tuple[torch.Tensor, ...]
Inputs = Sequence[torch.Tensor]
Parts = Sequence[Runs | None]


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
    def limits(self) -> tuple[Bound, ...]:
        """Its bounds."""
        return self.bounds

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the draw holds."""
        tensors = sum(t.numel() * t.element_size() for t in (*self.inputs, *self.parameters))
        return tensors + sum(bound.size_bytes for bound in self.bounds)


class Facts(NamedTuple):
    """What looking at a reference says; it stays true when a worker is replaced, and costs backward passes to find."""

    fan_in: tuple[float, ...]
    """For each output, how many numbers one element of it depends on."""
    bytes_read: int
    """No right kernel reads less."""
    bytes_written: int
    sums_only: bool
    """Whether small integers leave no rounding (exactness.py)."""


class AnyDraw(Protocol):
    """What is kept of a draw, wherever it lies. **Covers**: inputs, size, limits. **Does not cover**: the truth."""

    @property
    def family(self) -> str:
        """Its family's name."""

    @property
    def inputs(self) -> Tensors:
        """What it holds."""

    @property
    def limits(self) -> tuple[Bound, ...]:
        """Its bounds, of which only the tables must be readable: what is allowed at each magnitude."""

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the draw holds."""


D = TypeVar("D", bound=AnyDraw)


def moved(bounds: Sequence[Bound], device: torch.device) -> tuple[Bound, ...]:
    """Returns the bounds with all their tensors on a device."""
    for bound in bounds:
        for name, item in vars(bound).items():
            if isinstance(item, torch.Tensor):
                setattr(bound, name, item.to(device))
    return tuple(bounds)


class AnyDraws(Generic[D]):
    """All draws of one problem, at the sizes that it has.

    Args:
        problem: whose inputs are drawn.
        secret: what every seed derives from.
        most_bytes: how much memory kept draws may hold; others are made again when they are asked for.
        device: where they lie; None for the CPU.
        known: the facts, where somebody found them before.

    Raises:
        SourceError: when the reference cannot be judged against.
    """

    def __init__(
        self,
        problem: Problem,
        secret: int,
        most_bytes: float,
        *,
        device: torch.device | None = None,
        known: Facts | None = None,
    ) -> None:
        self.problem, self._secret, self._most_bytes, self._device = problem, secret, most_bytes, device
        self._placed, self._looks = False, 0
        self._twin: Truth | None = None
        self.reference = load_problem(problem)
        self.truth = self._truth()
        with self.where():
            module = self.reference.make_module(self.seed("state"))
        self.initial = [t.to(device, copy=True) for _, t in state_of(module)]
        self._check_contract()
        many = 2 if sum(math.prod(spec.shape) for spec in problem.inputs) > LARGE_ELEMENTS else SEEN_DRAWS
        seen = [self.make_inputs(self.seed("seen", i)) for i in range(many)]
        self.structures = self._observed(seen)
        self.facts = known or self._facts(seen)
        self.fan_in = self.facts.fan_in
        self._kept: OrderedDict[tuple[str, int], D] = OrderedDict()
        self._dropped: dict[str, str] = {}

    def _made(
        self, family: str, number: int, inputs: Tensors, parameters: Tensors, bounds: tuple[Bound, ...], exact: Tensors
    ) -> D:
        raise NotImplementedError

    def context(self) -> Any:
        """Returns what calls of the reference run in: the device, for one that makes tensors without saying where."""
        return self._device if self._placed else None

    def within(self) -> Any:
        """Returns `context` for a with statement."""
        return self.context() or contextlib.nullcontext()

    def where(self) -> Any:
        """Returns what tensors are made in, for a with statement, so that they lie where the draws do."""
        return self._device or contextlib.nullcontext()

    def own(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> Tensors:
        """Returns the reference's outputs in its own precision."""
        with self.within():
            return self.truth.own(self._there(inputs), self._there(parameters))

    def _there(self, tensors: Sequence[torch.Tensor]) -> Tensors:
        """Returns tensors where the reference is evaluated: elsewhere for draws that are kept on the host."""
        return tuple(tensors)

    def make_inputs(self, seed: int) -> Tensors:
        """Returns the reference's own draw, made on the device where its code allows that."""
        if self._device is None:
            return self.reference.make_inputs(seed)
        try:
            with self._device:
                made = self.reference.make_inputs(seed)
        except SourceError:
            made = self.reference.make_inputs(seed)
        return tuple(t.to(self._device) for t in made)

    def _truth(self) -> Truth:
        with self.where():
            made = Truth(self.reference, self.seed("truth"))
        return made.to(self._device) if self._device else made

    def _observed(self, seen: Sequence[Tensors]) -> tuple[Structure | None, ...]:
        """What draws have in common is found, and filled, on the CPU; free numbers are looked at where they lie."""
        free = [is_free(spec, tensor) for spec, tensor in zip(self.problem.inputs, seen[0], strict=True)]
        near = [[t if f else t.cpu() for t, f in zip(draw, free, strict=True)] for draw in seen]
        return observed(self.problem.inputs, near, self.problem.parameters)

    def _structured(self, family: str, given: Tensors, seed: int) -> Tensors | None:
        near = [t.cpu() if s else t for t, s in zip(given, self.structures, strict=True)]
        varied = fill_structured(family, self.structures, near, seed)
        return None if varied is None else tuple(t.to(g.device) for t, g in zip(varied, given, strict=True))

    def seed(self, *what: object) -> int:
        """Returns the seed of something, by name: the same in every process, for one secret."""
        named = hashlib.blake2b(repr((self._secret, *what)).encode(), digest_size=8).digest()
        return int.from_bytes(named, "little") >> 2

    def _check_contract(self) -> None:
        """The shapes are the problem's, and a call changes neither its inputs nor the module."""
        inputs = self.make_inputs(self.seed("contract"))
        for spec, tensor in zip(self.problem.inputs, inputs, strict=True):
            if tuple(tensor.shape) != spec.shape:
                raise SourceError(f"input {spec.name} is drawn with shape {tuple(tensor.shape)}, not {spec.shape}")
        with self.where():
            module = self.reference.make_module(self.seed("state")).to(self._device)
        there = self._there(inputs)
        before = [t.clone() for t in (*there, *(t for _, t in state_of(module)))]
        with torch.no_grad():
            try:
                self.reference.call(module, there)
            except SourceError:
                if self._device is None:
                    raise
                self._placed = True
                with self._device:
                    self.reference.call(module, there)
        names = [s.name for s in (*self.problem.inputs, *self.problem.parameters)]
        for name, old, new in zip(names, before, (*there, *(t for _, t in state_of(module))), strict=True):
            if not torch.equal(old.nan_to_num(), new.nan_to_num()):
                raise SourceError(f"the reference changes {name}", "return new tensors; judge in evaluation mode")

    def _facts(self, seen: Sequence[Tensors]) -> Facts:
        """Returns how many numbers outputs depend on at most, and the fewest bytes that must move.

        Under a mask both depend on the draw: several are looked at, with masks as open and as closed as they come.
        """
        looked_at = [seen[0]]
        if any(self.structures):
            ends = [self._structured(f, seen[0], self.seed(f)) for f in ("lowest", "highest")]
            looked_at = [*seen[:2], *(inputs for inputs in ends if inputs is not None)]
        found: list[tuple[tuple[float, ...], int]] = []
        with self.where():
            for number, inputs in enumerate(looked_at):
                facts = Sensitivity(self.problem, self.reference, self._there(inputs), self.seed("state"))
                if facts.usable or not number:
                    found.append((facts.fan_in(), facts.must_move_bytes()))
            only = sums_only(self.reference, self._there(seen[0]), self.seed("state"))
        most = tuple(max(column) for column in zip(*(fan_in for fan_in, _ in found), strict=True))
        # What the ends of a range say about bytes holds for no ordinary call.
        moved = min(must_move for _, must_move in found[:2])
        written = sum(bytes_of(spec) for spec in self.problem.outputs)
        return Facts(fan_in=most, bytes_read=moved - written, bytes_written=written, sums_only=only)

    def kept(self, family: str, number: int) -> bool:
        """Tells whether asking for a draw costs nothing: it is kept, or does not apply."""
        return (family, number) in self._kept or family in self._dropped

    def every(self) -> tuple[D, ...]:
        """Returns the draws that are kept now."""
        return tuple(self._kept.values())

    def draw(self, family: str, number: int) -> D | None:
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

    def make_ready(self, policy: Policy, emit: Emit) -> None:
        """Makes a policy's draws, as far as there is memory for them."""
        for number in range(policy.draws):
            for family in policy.families:
                if not self.kept(family, number):
                    emit({"family": family, "draw": number})
                    self.draw(family, number)
                    if not self.kept(family, number):
                        break  # memory is full: the rest is made for each candidate

    def left_out(self, families: Sequence[str]) -> tuple[str, ...]:
        """Returns which of these families do not apply and why; those that have nothing to vary are not news."""
        return tuple(f"family {f} left out: {why}" for f, why in self._dropped.items() if f in families and why)

    # -------------------------------------------------------------------------------------------- making one

    def _make(self, family: str, number: int) -> D | str:
        """Returns a draw, or why there is none; limits are tried from the widest to what the reference is known for."""
        if family == EXACT and not self.facts.sums_only:
            return ""
        why = ""
        for ceiling, seen in self._attempts(family):
            try:
                made = self._attempt(family, number, ceiling=ceiling, seen=seen)
            except SourceError as error:
                if family == "given":
                    raise
                made = f"the reference does not accept it: {error.message}"
            if not isinstance(made, str):
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
        given = self.make_inputs(seed)
        style = number if family == "given" else number + 1
        parameters = draw_parameters(self.problem.parameters, self.initial, style, seed + 1)
        if family in STRUCTURED:
            varied = self._structured(family, given, seed)
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

    def _attempt(self, family: str, number: int, *, ceiling: float, seen: bool) -> D | str:
        values = self._values(family, number, ceiling=ceiling, seen=seen)
        if values is None:
            return "" if family in STRUCTURED else "neither inputs nor parameters hold free numbers"
        inputs, parameters = values
        runs = self._runs(family, number)
        exact, own = self._answers(inputs, parameters, runs)
        # Half-precision references overflow where float64 does not; both must be finite.
        finite = all(bool(t.isfinite().all()) for t in (*exact, *own) if t.is_floating_point())
        if not finite and family not in (NONFINITE, "given"):
            return NOT_FINITE
        if family == EXACT:
            with self.where():
                bounds = in_parts(exact_bounds(self.problem, truth=exact, own=own, fan_in=self.fan_in), runs)
            return self._made(family, number, inputs, parameters, bounds, exact) if bounds else ""
        bounds = self._bounds(inputs, parameters, exact, own, runs)
        return self._made(family, number, inputs, parameters, bounds, exact)

    def _runs(self, *what: object) -> tuple[Runs | None, ...]:
        """Returns which runs of each output are compared, None for all of it."""
        counts = [math.prod(spec.shape) if self._device else 0 for spec in self.problem.outputs]
        seeds = [self.seed("runs", index, *what) for index in range(len(counts))]
        return tuple(runs_of(n, seed) if n > LARGE_ELEMENTS else None for n, seed in zip(counts, seeds, strict=True))

    def _answers(self, inputs: Inputs, parameters: Inputs, runs: Parts) -> tuple[Tensors, Tensors]:
        """Returns the truth, and the reference's own outputs; what is not compared is given back at once."""
        inputs, parameters = self._there(inputs), self._there(parameters)
        with self.within():
            exact = picked(self.truth.exact(inputs, parameters), runs)
            return exact, picked(self.truth.own(inputs, parameters), runs)

    def _bounds(self, inputs: Inputs, parameters: Inputs, exact: Inputs, own: Inputs, runs: Parts) -> tuple[Bound, ...]:
        """Returns bounds from the truth for inputs that each moved by one rounding, a few times."""
        inputs, parameters = self._there(inputs), self._there(parameters)
        finer: list[Tensors] = []
        count = NEARBY if min(t.numel() for t in exact) < NEARBY_ELEMENTS else 2
        step = self._rounding(inputs, parameters)

        def near(number: int, relative: float) -> Tensors:
            with self.within():
                moved = self.truth.nearby(inputs, parameters, relative=relative, seed=self.seed("near", number))
                return picked(moved, runs)

        def fine() -> Tensors:
            if not finer:
                finer.append(near(0, step / FINER))
            return finer[0]

        nearby = [near(number, step) for number in range(count)]
        with self.where():
            made = bounds_for(self.problem, truth=exact, own=own, nearby=nearby, fan_in=self.fan_in, finer=fine)
        return in_parts(made, runs)

    def _rounding(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> float:
        return max((arithmetic_roundoff(t.dtype) for t in (*inputs, *parameters) if t.is_floating_point()), default=0.0)

    def bounds_of(self, inputs: Inputs, parameters: Inputs) -> tuple[Bound, ...]:
        """Returns the bounds for any contents."""
        self._looks += 1
        runs = self._runs(self._looks)
        exact, own = self._answers(inputs, parameters, runs)
        return self._bounds(inputs, parameters, exact, own, runs)

    def settled(
        self,
        bounds: Sequence[Bound],
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
    ) -> tuple[list[Finding], bool]:
        """Returns what bounds find of outputs; where that is doubtful what better ones find, and whether it was."""
        found = [bound.check(output) for bound, output in zip(bounds, outputs, strict=True)]
        failed = [finding for finding in found if not finding.passed]
        if not failed:
            return found, False
        better: tuple[Bound, ...] | None = None
        if all(finding.doubtful for finding in failed):
            better = self.closer_bounds(inputs, parameters, runs=[bound.runs for bound in bounds])
        elif any(isinstance(bound, FloatBound) and bound.odd for bound in bounds):
            better = self.other_bounds(inputs, parameters)
        if not better:
            return found, False
        return [bound.check(output) for bound, output in zip(better, outputs, strict=True)], True

    def other_bounds(self, inputs: Inputs, parameters: Inputs) -> tuple[Bound, ...] | None:
        """Returns bounds from the reference as the CPU computes it; None where all bounds are from there.

        One operator is several algorithms: on a GPU a sum of squares that overflows may give NaN where the CPU gives
        an infinity. A kernel that does as either does is right.
        """
        if self._device is None or any(self._runs()):
            return None
        near, state = [t.cpu() for t in inputs], [t.cpu() for t in parameters]
        step = self._rounding(near, state)
        with torch.device("cpu"):
            if self._twin is None:
                self._twin = Truth(self.reference, self.seed("truth"))
            exact, own = self._twin.exact(near, state), self._twin.own(near, state)
            nearby = [self._twin.nearby(near, state, relative=step, seed=self.seed("near", i)) for i in range(2)]
            made = bounds_for(self.problem, truth=exact, own=own, nearby=nearby, fan_in=self.fan_in)
        return moved(made, self._device)

    def closer_bounds(self, inputs: Inputs, parameters: Inputs, *, runs: Parts | None = None) -> tuple[Bound, ...]:
        """Returns bounds for any contents from many more moved inputs, which settle what is doubtful."""
        inputs, parameters = self._there(inputs), self._there(parameters)
        runs = runs if runs is not None else self._runs("closer")
        exact, own = self._answers(inputs, parameters, runs)
        step = self._rounding(inputs, parameters)
        pairs = max(2, min(CLOSER, CLOSER_ELEMENTS // max(1, sum(t.numel() for t in (*inputs, *exact)))) // 2)

        def moved(relative: float, pair: int) -> Tensors:
            seed = self.seed("closer", pair)
            with self.within():
                return picked(self.truth.nearby(inputs, parameters, relative=relative, seed=seed, untied=True), runs)

        nearby = [moved(sign * step, pair) for pair in range(pairs) for sign in (1.0, -1.0)]
        finer = moved(step / FINER, 0)
        with self.where():
            made = bounds_for(
                self.problem, truth=exact, own=own, nearby=nearby, fan_in=self.fan_in, finer=lambda: finer, closer=True
            )
        return in_parts(made, runs)


class Draws(AnyDraws[Draw]):
    """Draws on the CPU, where no candidate shares the memory that they lie in."""

    def _made(
        self, family: str, number: int, inputs: Tensors, parameters: Tensors, bounds: tuple[Bound, ...], exact: Tensors
    ) -> Draw:
        return Draw(family, number, inputs, parameters, bounds, exact)
