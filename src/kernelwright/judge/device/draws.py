"""Draws on the device: the reference, its inputs there, and what is allowed for every output, sealed.

One set for the problem as it stands (session.py), and one for each hidden shape. As judge/draws.py on the CPU.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from kernelwright.errors import SourceError
from kernelwright.judge.correctness import Bound, bounds_for
from kernelwright.judge.device.sealing import SealedBounds
from kernelwright.judge.inputs import CEILINGS, HUGE, NONFINITE, draw_parameters, fill_family
from kernelwright.judge.sensitivity import Sensitivity
from kernelwright.judge.slots import bytes_of
from kernelwright.judge.structured import STRUCTURED
from kernelwright.judge.truth import Truth, arithmetic_roundoff
from kernelwright.reference_program import load_problem, state_of
from kernelwright.types import Problem

NEARBY = 8
NEARBY_ELEMENTS = 64
NOT_FINITE = "the reference itself is not finite there"


@dataclass(frozen=True, slots=True)
class DeviceDraw:
    """One set of inputs and parameters with what is allowed for every output, sealed."""

    family: str
    number: int
    inputs: tuple[torch.Tensor, ...]
    parameters: tuple[torch.Tensor, ...]
    bounds: SealedBounds

    @property
    def size_bytes(self) -> int:
        """Returns about how much device memory the draw holds."""
        return sum(t.numel() * t.element_size() for t in (*self.inputs, *self.parameters)) + self.bounds.size_bytes


class Facts(NamedTuple):
    """What a problem's gradients say; they stay true when a worker is replaced, and cost a backward pass to find."""

    fan_in: tuple[float, ...]
    """For each output, how many numbers one element of it depends on."""
    bytes_read: int
    """No right kernel reads less."""
    bytes_written: int


class DeviceDraws:
    """All draws of one problem on a device, at the sizes that it has.

    Args:
        problem: whose inputs are drawn.
        device: where.
        secret: what every seed derives from.
        most_bytes: how much memory kept draws may hold; others are made again when they are asked for.

    Raises:
        SourceError: when the reference cannot be judged against.
    """

    def __init__(self, problem: Problem, device: torch.device, *, secret: int, most_bytes: float) -> None:
        self.problem, self.device = problem, device
        self._secret, self._most_bytes = secret, most_bytes
        self.reference = load_problem(problem)
        self._placed = False
        with self.device:
            self.truth = Truth(self.reference, self.seed("truth")).to(self.device)
            module = self.reference.make_module(self.seed("state"))
        self.initial = [t.to(self.device, copy=True) for _, t in state_of(module)]
        self._check_contract()
        self._facts: Facts | None = None
        self._kept: OrderedDict[tuple[str, int], DeviceDraw] = OrderedDict()
        self._dropped: dict[str, str] = {}

    @property
    def facts(self) -> Facts:
        """What the problem's gradients say; found at first use."""
        if self._facts is None:
            self._facts = self._measure_sensitivity()
        return self._facts

    @facts.setter
    def facts(self, known: Facts) -> None:
        self._facts = known

    def seed(self, *what: object) -> int:
        """Returns the seed of something, by name."""
        return hash((self._secret, *what)) % (1 << 62)

    def context(self) -> Any:
        """Returns what calls of the reference run in: the device, for one that makes tensors without saying where."""
        return self.device if self._placed else None

    def within(self) -> Any:
        """Returns `context` for a with statement."""
        return self.device if self._placed else contextlib.nullcontext()

    def make_inputs(self, seed: int) -> tuple[torch.Tensor, ...]:
        """Returns the reference's own draw, made on the device where its code allows that."""
        try:
            with self.device:
                made = self.reference.make_inputs(seed)
        except SourceError:
            made = self.reference.make_inputs(seed)
        return tuple(t.to(self.device) for t in made)

    def _check_contract(self) -> None:
        """The shapes are the problem's, and a call changes neither its inputs nor the module."""
        inputs = self.make_inputs(self.seed("contract"))
        for spec, tensor in zip(self.problem.inputs, inputs, strict=True):
            if tuple(tensor.shape) != spec.shape:
                raise SourceError(f"input {spec.name} is drawn with shape {tuple(tensor.shape)}, not {spec.shape}")
        with self.device:
            module = self.reference.make_module(self.seed("state")).to(self.device)
        before = [t.clone() for t in (*inputs, *(t for _, t in state_of(module)))]
        with torch.no_grad():
            try:
                self.reference.call(module, inputs)
            except SourceError:
                self._placed = True
                with self.device:
                    self.reference.call(module, inputs)
        names = [s.name for s in (*self.problem.inputs, *self.problem.parameters)]
        for name, old, new in zip(names, before, (*inputs, *(t for _, t in state_of(module))), strict=True):
            if not torch.equal(old.nan_to_num(), new.nan_to_num()):
                raise SourceError(f"the reference changes {name}", "return new tensors; judge in evaluation mode")

    def _measure_sensitivity(self) -> Facts:
        with self.device:
            found = Sensitivity(
                self.problem, self.reference, self.make_inputs(self.seed("sensitivity")), self.seed("state")
            )
            fan_in, moved = found.fan_in(), found.must_move_bytes()
        written = sum(bytes_of(spec) for spec in self.problem.outputs)
        return Facts(fan_in=fan_in, bytes_read=moved - written, bytes_written=written)

    # ----------------------------------------------------------------------------------------------- draws

    def draw(self, family: str, number: int) -> DeviceDraw | None:
        """Returns a draw of a family, None where the family does not apply (see `left_out`)."""
        if family in self._dropped:
            return None
        if found := self._kept.get((family, number)):
            self._kept.move_to_end((family, number))
            return found
        made = self._make_draw(family, number)
        if isinstance(made, str):
            self._dropped[family] = made
            return None
        if made.size_bytes + sum(d.size_bytes for d in self._kept.values()) < self._most_bytes:
            self._kept[family, number] = made
        return made

    def every(self) -> tuple[DeviceDraw, ...]:
        """Returns the draws that are kept now."""
        return tuple(self._kept.values())

    def left_out(self, families: Sequence[str]) -> tuple[str, ...]:
        """Returns which of these families do not apply and why; those that have nothing to vary are not news."""
        return tuple(f"family {f} left out: {why}" for f, why in self._dropped.items() if f in families and why)

    def kept(self, family: str, number: int) -> bool:
        """Tells whether asking for a draw costs nothing: it is kept, or does not apply."""
        return (family, number) in self._kept or family in self._dropped

    def _make_draw(self, family: str, number: int) -> DeviceDraw | str:
        """Returns a draw, or why there is none; the widest limits at which the reference stays finite are taken."""
        why: str | None = None
        for ceiling in CEILINGS if family == HUGE else CEILINGS[:1]:
            try:
                made = self._attempt(family, number, ceiling)
            except SourceError as error:
                if family == "given":
                    raise
                made = f"the reference does not accept it: {error.message}"
            if isinstance(made, DeviceDraw):
                return made
            why = made if why is None else why
        return why or ""

    def _attempt(self, family: str, number: int, ceiling: float) -> DeviceDraw | str:
        seed = self.seed(family, number)
        given = self.make_inputs(seed)
        style = number if family == "given" else number + 1
        parameters = draw_parameters(self.problem.parameters, self.initial, style, seed + 1)
        inputs = fill_family(family, self.problem.inputs, given, seed, ceiling=ceiling)
        if inputs is None and family in STRUCTURED:
            return ""
        if inputs is None:
            table = fill_family(family, self.problem.parameters, parameters, seed, ceiling=ceiling)
            if table is None:
                return "neither inputs nor parameters hold free numbers"
            inputs, parameters = given, table
        with self.within():
            exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        finite = all(bool(t.isfinite().all()) for t in (*exact, *own) if t.is_floating_point())
        if not finite and family not in (NONFINITE, "given"):
            return NOT_FINITE
        bounds = self._bounds(inputs, parameters, exact, own)
        return DeviceDraw(family, number, inputs, parameters, SealedBounds(bounds, self.device))

    def bounds_of(self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> tuple[Bound, ...]:
        """Returns the bounds for any contents, readable: to be dropped before a candidate runs again."""
        with self.within():
            exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        return self._bounds(inputs, parameters, exact, own)

    def _bounds(
        self,
        inputs: Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
        exact: Sequence[torch.Tensor],
        own: Sequence[torch.Tensor],
    ) -> tuple[Bound, ...]:
        count = NEARBY if min(t.numel() for t in exact) < NEARBY_ELEMENTS else 2
        step = max((arithmetic_roundoff(t.dtype) for t in (*inputs, *parameters) if t.is_floating_point()), default=0.0)
        with self.within():
            nearby = [
                self.truth.nearby(inputs, parameters, relative=step, seed=self.seed("near", i)) for i in range(count)
            ]
        with self.device:
            return bounds_for(self.problem, truth=exact, own=own, nearby=nearby, fan_in=self.facts.fan_in)
