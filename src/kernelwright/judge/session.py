"""One problem in the judge worker: reference, slots, draws with their bounds, baselines; and judging a candidate.

Everything that does not depend on a candidate is made once and kept: a draw (inputs, parameters,
bounds) and a baseline are used for all candidates of the session. Seeds come from the operating
system and never leave this process.
"""

from __future__ import annotations

import math
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from kernelwright.errors import SourceError, UserError
from kernelwright.judge import integrity, timing
from kernelwright.judge.baselines import EAGER, Baseline, Unavailable, make_baseline
from kernelwright.judge.correctness import Bound, FloatBound, bounds_for
from kernelwright.judge.inputs import NONFINITE, Refresher, draw_parameters, fill_family, wild_inputs
from kernelwright.judge.sensitivity import Sensitivity
from kernelwright.judge.slots import Slots
from kernelwright.judge.truth import Truth, arithmetic_roundoff
from kernelwright.process import Emit
from kernelwright.reference_program import load_problem, state_of
from kernelwright.types import Measurement, Policy, Problem, Target

NEARBY = 8
"""Evaluations of the truth with moved inputs where an output has so few elements that one says little."""
NEARBY_ELEMENTS = 64
DRAW_MEMORY_SHARE = 0.25
"""Of the free memory, for draws that are kept; others are made again for each candidate."""
SMALL_ELEMENTS = 1 << 20
TIMED_DRAWS = 4
TIMED_DRAW_BYTES = 256 << 20
DEFAULT_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Draw:
    """One set of inputs and parameters with what is allowed for every output."""

    family: str
    number: int
    inputs: tuple[torch.Tensor, ...]
    parameters: tuple[torch.Tensor, ...]
    bounds: tuple[Bound, ...]

    @property
    def size_bytes(self) -> int:
        """Returns about how much memory the draw holds."""
        tensors = sum(t.numel() * t.element_size() for t in (*self.inputs, *self.parameters))
        return tensors + sum(bound.size_bytes for bound in self.bounds)


class Session:
    """A problem made ready for judging.

    Raises:
        UserError: when memory does not suffice, or the reference cannot be judged against.
    """

    def __init__(self, problem: Problem, target: Target, program: Path, emit: Emit) -> None:
        self.problem, self.target, self.program, self._emit = problem, target, program, emit
        # Small tensors are compared by one thread: on a busy machine threads wait for each other longer than they work.
        largest = max(math.prod(spec.shape) for spec in problem.arguments)
        torch.set_num_threads(1 if largest <= SMALL_ELEMENTS else target.threads)
        self._free_bytes = available_bytes()
        cache = target.cache_bytes or DEFAULT_CACHE_BYTES
        self._secret = int.from_bytes(os.urandom(6), "little")
        self.rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
        self.reference = load_problem(problem)
        self.truth = Truth(self.reference, self._seed("truth"))
        self._initial = [t.clone() for _, t in state_of(self.reference.make_module(self._seed("state")))]
        self._check_contract()
        sensitivity = Sensitivity(
            problem, self.reference, self.reference.make_inputs(self._seed("sensitivity")), self._seed("state")
        )
        self._fan_in = sensitivity.fan_in()
        self.must_move_bytes = sensitivity.must_move_bytes()
        del sensitivity
        self.slots = Slots(problem, cache_bytes=cache, available_bytes=self._free_bytes)
        self._kept: OrderedDict[tuple[str, int], Draw] = OrderedDict()
        self._dropped: dict[str, str] = {}
        self._baselines: dict[str, Baseline | Unavailable] = {}
        self._refresher = self._make_refresher()
        self._refresher.wild = self._stands_wild()
        self.kinds: dict[int, str] = {}
        """What kind of contents each slot got when it was refreshed last (inputs.KINDS)."""
        self.refresh(range(self.slots.count))
        self.bandwidth = integrity.measure_bandwidth(self.slots.input.bytes, threads=target.threads)
        given = self.draw("given", 0)
        assert given is not None
        self.profiles = integrity.profiles_of([given.bounds])

    def _seed(self, *what: object) -> int:
        return hash((self._secret, *what)) % (1 << 62)

    def _check_contract(self) -> None:
        """The shapes are the problem's, and a call changes neither its inputs nor the module."""
        inputs = self.reference.make_inputs(self._seed("contract"))
        for spec, tensor in zip(self.problem.inputs, inputs, strict=True):
            if tuple(tensor.shape) != spec.shape:
                raise SourceError(f"input {spec.name} is drawn with shape {tuple(tensor.shape)}, not {spec.shape}")
        module = self.reference.make_module(self._seed("state"))
        before = [t.clone() for t in (*inputs, *(t for _, t in state_of(module)))]
        with torch.no_grad():
            self.reference.call(module, inputs)
        names = [s.name for s in (*self.problem.inputs, *self.problem.parameters)]
        for name, old, new in zip(names, before, (*inputs, *(t for _, t in state_of(module))), strict=True):
            if not torch.equal(old.nan_to_num(), new.nan_to_num()):
                raise SourceError(f"the reference changes {name}", "return new tensors; judge in evaluation mode")

    # ----------------------------------------------------------------------------------------------- draws

    def draw(self, family: str, number: int) -> Draw | None:
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

    def _make_draw(self, family: str, number: int) -> Draw | str:
        seed = self._seed(family, number)
        given = self.reference.make_inputs(seed)
        style = number if family == "given" else number + 1
        parameters = draw_parameters(self.problem.parameters, self._initial, style, seed + 1)
        inputs = fill_family(family, self.problem.inputs, given, seed)
        if inputs is None:
            # A lookup's inputs are indices: the family is then one of the table's values.
            table = fill_family(family, self.problem.parameters, parameters, seed)
            if table is None:
                return "neither inputs nor parameters hold free numbers"
            inputs, parameters = given, table
        exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        # Half-precision references overflow where float64 does not; both must be finite.
        finite = all(bool(t.isfinite().all()) for t in (*exact, *own) if t.is_floating_point())
        if not finite and family not in (NONFINITE, "given"):
            return "the reference itself is not finite there"
        nearby = self._nearby(inputs, parameters, exact)
        bounds = bounds_for(self.problem, truth=exact, own=own, nearby=nearby, fan_in=self._fan_in)
        return Draw(family, number, inputs, parameters, bounds)

    def _nearby(
        self, inputs: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]
    ) -> list[tuple[torch.Tensor, ...]]:
        count = NEARBY if min(t.numel() for t in exact) < NEARBY_ELEMENTS else 2
        step = max((arithmetic_roundoff(t.dtype) for t in (*inputs, *parameters) if t.is_floating_point()), default=0.0)
        return [self.truth.nearby(inputs, parameters, relative=step, seed=self._seed("near", i)) for i in range(count)]

    def notes(self, policy: Policy) -> tuple[str, ...]:
        """Returns what was left out and why: families, baselines."""
        families = [f"family {f} left out: {why}" for f, why in self._dropped.items() if f in policy.families]
        missing = [b for b in self._baselines.values() if isinstance(b, Unavailable) and b.name in policy.baselines]
        return (*families, *(f"baseline {b.name} unavailable: {b.reason}" for b in missing))

    # ------------------------------------------------------------------------------------------ timed rounds

    def _make_refresher(self) -> Refresher:
        each = sum(t.numel() * t.element_size() for t in self.reference.make_inputs(self._seed("size")))
        count = max(2, min(TIMED_DRAWS, TIMED_DRAW_BYTES // max(1, each)))
        draws = [self.reference.make_inputs(self._seed("timed", i)) for i in range(count)]
        parameters = draw_parameters(self.problem.parameters, self._initial, 0, self._seed("timed parameters"))
        return Refresher(self.problem.inputs, draws, parameters, self._seed("refresh"))

    def _stands_wild(self) -> bool:
        """Tells whether the reference is finite for inputs with a few wild elements."""
        inputs = self.reference.make_inputs(self._seed("wild"))
        drawn = wild_inputs(self.problem.inputs, inputs)
        outputs = self.truth.own(drawn, draw_parameters(self.problem.parameters, self._initial, 0, self._seed("wild")))
        return all(bool(t.isfinite().all()) for t in outputs if t.is_floating_point())

    def refresh(self, chosen: Sequence[int]) -> None:
        """Gives some slots and the parameters contents that no earlier call has seen."""
        kinds = self._refresher.refresh([self.slots.inputs[slot] for slot in chosen])
        self.kinds.update(zip(chosen, kinds, strict=True))
        self._refresher.refresh_parameters(self.slots.parameters)

    def floor_us(self) -> float:
        """Returns the time below which moving the necessary bytes is impossible here, measured again."""
        again = integrity.measure_bandwidth(self.slots.input.bytes, threads=self.target.threads)
        self.bandwidth = max(self.bandwidth, again)
        return self.must_move_bytes / (integrity.FLOOR_MARGIN * self.bandwidth) * 1e6

    def bounds_of_slot(self, slot: int) -> tuple[Bound, ...]:
        """Returns the full bounds for what a slot holds now."""
        inputs, parameters = self.slots.inputs[slot], self.slots.parameters
        exact, own = self.truth.exact(inputs, parameters), self.truth.own(inputs, parameters)
        return bounds_for(
            self.problem, truth=exact, own=own, nearby=self._nearby(inputs, parameters, exact), fan_in=self._fan_in
        )

    def baseline(self, name: str) -> Baseline | Unavailable:
        """Returns a baseline, compiled and warm; made at first use."""
        if name not in self._baselines:
            self._emit({"baseline": name, "state": "compiling" if name != EAGER else "warming"})
            start = time.monotonic()
            eager = self.baseline(EAGER) if name != EAGER else None
            made = make_baseline(
                name,
                self.problem,
                self.reference,
                inputs=self.slots.inputs,
                parameters=self.slots.parameters,
                threads=self.target.threads,
                eager=eager if isinstance(eager, Baseline) else None,
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
        for name in policy.baselines:
            self.baseline(name)

    def ready_baselines(self, policy: Policy) -> list[Baseline]:
        """Returns the policy's baselines that work here."""
        return [b for b in map(self.baseline, policy.baselines) if isinstance(b, Baseline)]

    def measure_baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        """Returns the baselines' times, without a candidate."""
        samples, _ = timing.run_rounds(
            policy,
            slots=self.slots,
            baselines=self.ready_baselines(policy),
            refresh=self.refresh,
            inspect=lambda _: None,
            rng=self.rng,
        )
        return timing.measurements(
            samples,
            policy,
            workload=self.problem.workloads[0].name,
            cold=self.slots.cold,
            threads=self.target.threads,
        )

    def close(self) -> None:
        """Gives shared memory back."""
        self.slots.close()


def available_bytes() -> int:
    """Returns the memory that can be used now without swapping.

    Raises:
        UserError: where the system does not say.
    """
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise UserError("/proc/meminfo does not say how much memory is free", "kernelwright runs on Linux")


def null_outputs(bounds: Sequence[Bound]) -> bool:
    """Tells whether zeros everywhere would be within all of these bounds."""
    return all(
        bound.check(
            torch.zeros(bound.shape, dtype=bound.dtype if isinstance(bound, FloatBound) else torch.int64)
        ).passed
        for bound in bounds
    )
