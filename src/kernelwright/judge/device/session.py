"""One problem in the device worker: reference, slots, draws with sealed bounds, baselines, floors.

As judge/session.py on the CPU, with everything on the device. Everything that does not depend on a
candidate is made once and kept. Seeds come from the operating system and never leave this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernelwright.errors import SourceError
from kernelwright.judge import integrity
from kernelwright.judge.baselines import EAGER, Unavailable
from kernelwright.judge.correctness import Bound, bounds_for
from kernelwright.judge.device import floors
from kernelwright.judge.device.arena import DeviceSlots
from kernelwright.judge.device.baselines import DeviceBaseline, make_device_baseline
from kernelwright.judge.device.contents import DeviceRefresher
from kernelwright.judge.device.executor import Executor
from kernelwright.judge.device.sealing import SealedBounds
from kernelwright.judge.inputs import NONFINITE, draw_parameters, fill_family, wild_inputs
from kernelwright.judge.policies import DEVICE_LIBRARIES
from kernelwright.judge.sensitivity import Sensitivity
from kernelwright.judge.slots import bytes_of
from kernelwright.judge.structured import STRUCTURED
from kernelwright.judge.truth import Truth, arithmetic_roundoff
from kernelwright.process import Emit
from kernelwright.reference_program import load_problem, state_of
from kernelwright.types import Policy, Problem, Target

NEARBY = 8
NEARBY_ELEMENTS = 64
DRAW_MEMORY_SHARE = 0.45
"""Of the free device memory, for draws that are kept; others are made again for each candidate."""
PRODUCTS = re.compile(r"@|\b(matmul|mm|bmm|addmm|baddbmm|einsum|linear|Linear|scaled_dot_product_attention)\b")
TIMED_DRAWS = 4
TIMED_DRAW_BYTES = 1 << 30


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


class DeviceSession:
    """A problem made ready for judging on a device.

    Args:
        problem: what must be computed.
        target: where.
        executor: the device.
        emit: takes progress events.
        driver: the driver's version, under which floors are stored.

    Raises:
        UserError: when memory does not suffice, or the reference cannot be judged against.
    """

    def __init__(self, problem: Problem, target: Target, executor: Executor, emit: Emit, *, driver: int = 0) -> None:
        self.problem, self.target, self.executor, self._emit = problem, target, executor, emit
        self.device = executor.device
        self._secret = int.from_bytes(os.urandom(6), "little")
        self.rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
        self._free_bytes = executor.free_bytes()
        self.floors = self._floors(driver)
        self.reference = load_problem(problem)
        self._placed = False
        with self.device:
            self.truth = Truth(self.reference, self._seed("truth")).to(self.device)
            module = self.reference.make_module(self._seed("state"))
        self._initial = [t.to(self.device, copy=True) for _, t in state_of(module)]
        self._check_contract()
        self._measure_sensitivity()
        self.slots = DeviceSlots(
            problem, self.device, cache_bytes=executor.limits.cache_bytes, free_bytes=self._free_bytes
        )
        self.order = tuple(self.rng.permutation(self.slots.count).tolist())
        """In which contenders take the slots."""
        self._kept: OrderedDict[tuple[str, int], DeviceDraw] = OrderedDict()
        self._dropped: dict[str, str] = {}
        self._baselines: dict[str, DeviceBaseline | Unavailable] = {}
        self._refresher = self._make_refresher()
        self.kinds: dict[int, str] = {}
        """What kind of contents each slot got when it was refreshed last."""
        self.refresh(range(self.slots.count))
        given = self.draw("given", 0)
        assert given is not None
        with given.bounds as bounds, self.device:
            self.profiles = integrity.profiles_of([bounds])

    def _floors(self, driver: int) -> floors.Floors:
        found = floors.stored(self.executor.limits.name, driver)
        if found is None:
            self._emit({"state": "measuring what the device can do"})
            empty = getattr(self.executor, "issue_empty", None)
            found = floors.measure(
                self.executor, driver, empty=(lambda programmatic: empty(programmatic=programmatic)) if empty else None
            )
            floors.store(found)
        return found

    def _seed(self, *what: object) -> int:
        return hash((self._secret, *what)) % (1 << 62)

    def context(self) -> Any:
        """Returns what calls of the reference run in: the device, for one that makes tensors without saying where."""
        return self.device if self._placed else None

    def _within(self) -> Any:
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
        inputs = self.make_inputs(self._seed("contract"))
        for spec, tensor in zip(self.problem.inputs, inputs, strict=True):
            if tuple(tensor.shape) != spec.shape:
                raise SourceError(f"input {spec.name} is drawn with shape {tuple(tensor.shape)}, not {spec.shape}")
        with self.device:
            module = self.reference.make_module(self._seed("state")).to(self.device)
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

    def _measure_sensitivity(self) -> None:
        with self.device:
            found = Sensitivity(
                self.problem, self.reference, self.make_inputs(self._seed("sensitivity")), self._seed("state")
            )
            self._fan_in, moved = found.fan_in(), found.must_move_bytes()
        self.bytes_written = sum(bytes_of(spec) for spec in self.problem.outputs)
        self.bytes_read = moved - self.bytes_written

    # ----------------------------------------------------------------------------------------------- draws

    def draw(self, family: str, number: int) -> DeviceDraw | None:
        """Returns a draw of a family, None where the family does not apply (see `notes`)."""
        if family in self._dropped:
            return None
        if found := self._kept.get((family, number)):
            self._kept.move_to_end((family, number))
            return found
        made = self._make_draw(family, number)
        if isinstance(made, str):
            self._dropped[family] = made
            return None
        if made.size_bytes + sum(d.size_bytes for d in self._kept.values()) < DRAW_MEMORY_SHARE * self._free_bytes:
            self._kept[family, number] = made
        return made

    def _make_draw(self, family: str, number: int) -> DeviceDraw | str:
        seed = self._seed(family, number)
        given = self.make_inputs(seed)
        style = number if family == "given" else number + 1
        parameters = draw_parameters(self.problem.parameters, self._initial, style, seed + 1)
        inputs = fill_family(family, self.problem.inputs, given, seed)
        if inputs is None and family in STRUCTURED:
            return ""
        if inputs is None:
            table = fill_family(family, self.problem.parameters, parameters, seed)
            if table is None:
                return "neither inputs nor parameters hold free numbers"
            inputs, parameters = given, table
        with self._within():
            exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        finite = all(bool(t.isfinite().all()) for t in (*exact, *own) if t.is_floating_point())
        if not finite and family not in (NONFINITE, "given"):
            return "the reference itself is not finite there"
        bounds = self._bounds(inputs, parameters, exact, own)
        return DeviceDraw(family, number, inputs, parameters, SealedBounds(bounds, self.device))

    def _bounds(
        self,
        inputs: Sequence[torch.Tensor],
        parameters: Sequence[torch.Tensor],
        exact: Sequence[torch.Tensor],
        own: Sequence[torch.Tensor],
    ) -> tuple[Bound, ...]:
        count = NEARBY if min(t.numel() for t in exact) < NEARBY_ELEMENTS else 2
        step = max((arithmetic_roundoff(t.dtype) for t in (*inputs, *parameters) if t.is_floating_point()), default=0.0)
        with self._within():
            nearby = [
                self.truth.nearby(inputs, parameters, relative=step, seed=self._seed("near", i)) for i in range(count)
            ]
        with self.device:
            return bounds_for(self.problem, truth=exact, own=own, nearby=nearby, fan_in=self._fan_in)

    def bounds_of_slot(self, slot: int) -> tuple[Bound, ...]:
        """Returns the full bounds for what a slot holds now; to be dropped before a candidate runs again."""
        inputs, parameters = self.slots.inputs(slot), self.slots.parameters
        with self._within():
            exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        return self._bounds(inputs, parameters, exact, own)

    def notes(self, policy: Policy) -> tuple[str, ...]:
        """Returns what was left out and why: families, baselines."""
        families = [f"family {f} left out: {why}" for f, why in self._dropped.items() if why and f in policy.families]
        wanted = self._names(policy)
        missing = [b for b in self._baselines.values() if isinstance(b, Unavailable) and b.name in wanted]
        return (*families, *(f"baseline {b.name} unavailable: {b.reason}" for b in missing))

    # ------------------------------------------------------------------------------------------ timed rounds

    def _make_refresher(self) -> DeviceRefresher:
        each = sum(bytes_of(spec) for spec in self.problem.inputs)
        count = max(2, min(TIMED_DRAWS, TIMED_DRAW_BYTES // max(1, each)))
        draws = [self.make_inputs(self._seed("timed", i)) for i in range(count)]
        parameters = draw_parameters(self.problem.parameters, self._initial, 0, self._seed("timed parameters"))
        made = DeviceRefresher(self.problem.inputs, draws, parameters, self._seed("refresh"))
        made.wild = self._stands_wild()
        return made

    def _stands_wild(self) -> bool:
        """Tells whether the reference is finite for inputs with a few wild elements."""
        drawn = wild_inputs(self.problem.inputs, self.make_inputs(self._seed("wild")))
        with self._within():
            outputs = self.truth.own(
                drawn, draw_parameters(self.problem.parameters, self._initial, 0, self._seed("wild"))
            )
        return all(bool(t.isfinite().all()) for t in outputs if t.is_floating_point())

    def refresh(self, chosen: Sequence[int]) -> None:
        """Gives some slots and the parameters contents that no earlier call has seen."""
        kinds = self._refresher.refresh(self.slots.input_stacks, list(chosen))
        self.kinds.update(zip(chosen, kinds, strict=True))
        self._refresher.refresh_parameters(self.slots.parameters)

    def hide_answers(self) -> None:
        """Makes sure that no answer of the reference lies in memory: to be called before a candidate runs."""
        for made in self._baselines.values():
            if isinstance(made, DeviceBaseline):
                made.hide()
        self.executor.scrub()

    def baseline(self, name: str) -> DeviceBaseline | Unavailable:
        """Returns a baseline, compiled and warm; made at first use."""
        if name not in self._baselines:
            self._emit({"baseline": name, "state": "compiling" if name.startswith("compile:") else "warming"})
            start = time.monotonic()
            eager = self.baseline(EAGER) if name != EAGER else None
            made = make_device_baseline(
                name,
                self.problem,
                self.reference,
                self.slots,
                self.executor,
                context=self.context,
                eager=eager if isinstance(eager, DeviceBaseline) else None,
            )
            self._baselines[name] = made
            state = made.reason if isinstance(made, Unavailable) else "ready"
            self._emit({"baseline": name, "state": state, "seconds": round(time.monotonic() - start, 2)})
        return self._baselines[name]

    def prepare(self, policy: Policy) -> None:
        """Makes everything that the policy needs and that no candidate changes."""
        for number in range(policy.draws):
            for family in policy.families:
                if (family, number) not in self._kept and family not in self._dropped:
                    self._emit({"family": family, "draw": number})
                    self.draw(family, number)
                    if (family, number) not in self._kept and family not in self._dropped:
                        break  # memory is full: the rest is made for each candidate
        for name in (EAGER, *self._names(policy)):
            self.baseline(name)

    def ready_baselines(self, policy: Policy) -> list[DeviceBaseline]:
        """Returns the policy's baselines that work here."""
        return [b for b in map(self.baseline, self._names(policy)) if isinstance(b, DeviceBaseline)]

    def _names(self, policy: Policy) -> tuple[str, ...]:
        """Returns the policy's baselines; where several are asked for and matrices multiplied, both BLAS as well."""
        multiplies = any(PRODUCTS.search(file.text) for file in self.problem.reference)
        more = DEVICE_LIBRARIES if multiplies and len(policy.baselines) > 1 else ()
        return tuple(dict.fromkeys((*policy.baselines, *more)))
