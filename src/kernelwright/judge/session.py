"""One problem in the judge worker: reference, slots, draws with their bounds, baselines; and judging a candidate.

Everything that does not depend on a candidate is made once and kept: a draw (inputs, parameters,
bounds) and a baseline are used for all candidates of the session. Seeds come from the operating
system and never leave this process.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from kernelwright.errors import UserError
from kernelwright.judge import integrity, timing
from kernelwright.judge.baselines import EAGER, Baseline, Unavailable, make_baseline
from kernelwright.judge.contents import Refresher, make_refresher
from kernelwright.judge.correctness import Bound
from kernelwright.judge.draws import AnyDraws, Draw, Draws
from kernelwright.judge.nulls import weaknesses
from kernelwright.judge.shapes import FAMILIES as HIDDEN_FAMILIES
from kernelwright.judge.shapes import Shape, make_shapes
from kernelwright.judge.slots import Slots
from kernelwright.judge.surprises import Surprises
from kernelwright.process import Emit
from kernelwright.types import Measurement, Policy, Problem, Target

DRAW_MEMORY_SHARE = 0.25
"""Of the free memory, for draws that are kept; others are made again for each candidate."""
SMALL_ELEMENTS = 1 << 20
KEPT_OUTPUT_BYTES = 64 << 20
TIMED_DRAW_BYTES = 256 << 20
DEFAULT_CACHE_BYTES = 32 << 20


class Session:
    """A problem made ready for judging.

    What a witnessed candidate on another device is judged with (device/witnessing.py) has other draws, slots,
    bandwidth and baselines.

    Raises:
        UserError: when memory does not suffice, or the reference cannot be judged against.
    """

    device = "cpu"
    """Where candidates run."""
    draws: AnyDraws[Draw]

    def __init__(self, problem: Problem, target: Target, program: Path, emit: Emit) -> None:
        self.problem, self.target, self.program, self._emit = problem, target, program, emit
        # Small tensors are compared by one thread: on a busy machine threads wait for each other longer than they work.
        largest = max(math.prod(spec.shape) for spec in problem.arguments)
        torch.set_num_threads(1 if largest <= SMALL_ELEMENTS else target.threads)
        self._free_bytes = available_bytes()
        cache = target.cache_bytes or DEFAULT_CACHE_BYTES
        self._secret = int.from_bytes(os.urandom(6), "little")
        self.rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
        self.draws = self._make_draws(DRAW_MEMORY_SHARE * self._free_bytes)
        self.reference, self.truth = self.draws.reference, self.draws.truth
        self.must_move_bytes = self.draws.facts.bytes_read + self.draws.facts.bytes_written
        self.slots = self._make_slots(cache)
        self._baselines: dict[str, Baseline | Unavailable] = {}
        self._shapes: tuple[Shape, ...] = ()
        self.at_close: list[Callable[[], None]] = []
        """What others began for this session, to be ended with it."""
        self._weaknesses: dict[tuple[tuple[str, ...], int], tuple[str, ...]] = {}
        self.say({"state": "drawing inputs"})
        self._refresher = make_refresher(Refresher, problem, self.draws, most_bytes=TIMED_DRAW_BYTES)
        self.kinds: dict[int, str] = {}
        """What kind of contents each slot got when it was refreshed last (contents.KINDS)."""
        self.refresh(range(self.slots.count))
        self.bandwidth = self.measure_bandwidth()
        given = self.draw("given", 0)
        assert given is not None
        self.profiles = integrity.profiles_of([given.bounds])
        self.surprises = Surprises(self.draws, self.rng)

    def say(self, news: dict[str, object]) -> None:
        """Reports what begins now."""
        self._emit(news)

    def _make_draws(self, most_bytes: float) -> AnyDraws[Draw]:
        return Draws(self.problem, self._secret, most_bytes)

    def _make_slots(self, cache_bytes: int) -> Slots:
        return Slots(self.problem, cache_bytes=cache_bytes, available_bytes=self._free_bytes)

    def measure_bandwidth(self) -> float:
        """Returns the bytes per second beyond which no time is believed, but for a margin."""
        return integrity.measure_bandwidth(self.slots.input.bytes, threads=self.target.threads)

    def _seed(self, *what: object) -> int:
        return self.draws.seed(*what)

    def draw(self, family: str, number: int) -> Draw | None:
        """Returns a draw of a family, None where the family does not apply (see `notes`)."""
        self.say({"family": family, "draw": number})
        return self.draws.draw(family, number)

    def notes(self, policy: Policy) -> tuple[str, ...]:
        """Returns what was left out and why (families, baselines), and what the policy cannot tell from an answer."""
        families = self.draws.left_out(policy.families)
        missing = [b for b in self._baselines.values() if isinstance(b, Unavailable) and b.name in policy.baselines]
        weak = self.weaknesses(policy)
        return (*families, *weak, *(f"baseline {b.name} unavailable: {b.reason}" for b in missing))

    def weaknesses(self, policy: Policy) -> tuple[str, ...]:
        """Returns a line for each answer without work that this policy would let pass."""
        key = (policy.families, policy.draws)
        if key not in self._weaknesses:
            self._weaknesses[key] = weaknesses(self.draws, policy.families, policy.draws)
        return self._weaknesses[key]

    def shapes(self, count: int) -> tuple[Shape, ...]:
        """Returns the first so many hidden shapes; made at first use, the same for every candidate."""
        while len(self._shapes) < count and self.problem.axes:
            # The more thorough policy's are drawn together, so that every axis meets every kind of size.
            for shape in self._shapes:
                shape.slots.close()
            self._emit({"hidden shapes": count})
            self._shapes = make_shapes(self.problem, count, self.rng, secret=self._secret, free_bytes=self._free_bytes)
        return self._shapes[:count]

    # ------------------------------------------------------------------------------------------ timed rounds

    def refresh(self, chosen: Sequence[int], *, parameters: bool = True) -> None:
        """Gives some slots, and the parameters, contents that no earlier call has seen."""
        kinds = self._refresher.refresh([self.slots.inputs[slot] for slot in chosen])
        self.kinds.update(zip(chosen, kinds, strict=True))
        if parameters:
            self.refresh_parameters()

    def refresh_parameters(self) -> None:
        """Gives the parameters contents that no earlier call has seen."""
        self._refresher.refresh_parameters(self.slots.parameters)

    def floor_us(self) -> float:
        """Returns the time below which moving the necessary bytes is impossible here, measured again."""
        self.bandwidth = max(self.bandwidth, self.measure_bandwidth())
        return self.must_move_bytes / (integrity.FLOOR_MARGIN * self.bandwidth) * 1e6

    def bounds_of_slot(self, slot: int) -> tuple[Bound, ...]:
        """Returns the full bounds for what a slot holds now."""
        return self.draws.bounds_of(self.slots.inputs[slot], self.slots.parameters)

    def baseline(self, name: str) -> Baseline | Unavailable:
        """Returns a baseline, compiled and warm; made at first use."""
        if name not in self._baselines:
            self._emit({"baseline": name, "state": "compiling" if name != EAGER else "warming"})
            start = time.monotonic()
            eager = self.baseline(EAGER) if name != EAGER else None
            made = self._make_baseline(name, eager if isinstance(eager, Baseline) else None)
            self._baselines[name] = made
            state = made.reason if isinstance(made, Unavailable) else "ready"
            self._emit({"baseline": name, "state": state, "seconds": round(time.monotonic() - start, 2)})
        return self._baselines[name]

    def _make_baseline(self, name: str, eager: Baseline | None) -> Baseline | Unavailable:
        return make_baseline(
            name,
            self.problem,
            self.reference,
            inputs=self.slots.inputs,
            parameters=self.slots.parameters,
            threads=self.target.threads,
            eager=eager,
        )

    def release(self) -> None:
        """Drops the outputs that baselines hold for their addresses, where they are large."""
        if self.slots.slot_bytes * self.slots.count > KEPT_OUTPUT_BYTES:
            for made in self._baselines.values():
                if isinstance(made, Baseline):
                    made.release()

    def prepare(self, policy: Policy) -> None:
        """Makes everything that the policy needs and that no candidate changes."""
        self.draws.make_ready(policy, self._emit)
        for shape in self.shapes(policy.hidden_shapes):
            for family in HIDDEN_FAMILIES:
                shape.draws.draw(family, 0)
        for name in policy.baselines:
            self.baseline(name)

    def ready_baselines(self, policy: Policy) -> list[Baseline]:
        """Returns the policy's baselines that work here."""
        return [b for b in map(self.baseline, policy.baselines) if isinstance(b, Baseline)]

    def measure_baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        """Returns the baselines' times, without a candidate."""
        self.say({"state": f"timing {policy.rounds} rounds"})
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
        """Ends what was begun for it, and gives shared memory back."""
        for end in self.at_close:
            end()
        self.slots.close()
        for shape in self._shapes:
            shape.slots.close()


def available_bytes() -> int:
    """Returns the memory that can be used now without swapping.

    Raises:
        UserError: where the system does not say.
    """
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise UserError("/proc/meminfo does not say how much memory is free", "kernelwright runs on Linux")
