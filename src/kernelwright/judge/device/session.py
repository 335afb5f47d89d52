"""One problem in the device worker: reference, slots, draws with sealed bounds, baselines, floors.

As judge/session.py on the CPU, with everything on the device. Everything that does not depend on a
candidate is made once and kept. Seeds come from the operating system and never leave this process.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from kernelwright.judge import integrity
from kernelwright.judge.baselines import EAGER, Unavailable
from kernelwright.judge.contents import make_refresher
from kernelwright.judge.correctness import Bound
from kernelwright.judge.device import floors
from kernelwright.judge.device.arena import DeviceSlots, working_bytes
from kernelwright.judge.device.baselines import DeviceBaseline, form_of, make_device_baseline
from kernelwright.judge.device.contents import DeviceRefresher
from kernelwright.judge.device.draws import DeviceDraw, DeviceDraws, Facts
from kernelwright.judge.device.executor import Executor
from kernelwright.judge.device.shapes import DeviceShape, make_device_shapes
from kernelwright.judge.device.turns import Turns
from kernelwright.judge.policies import DEVICE_LIBRARIES
from kernelwright.judge.shapes import FAMILIES as HIDDEN_FAMILIES
from kernelwright.judge.surprises import Surprises
from kernelwright.process import Emit
from kernelwright.types import Policy, Problem, Target

DRAW_MEMORY_SHARE = 0.6
"""Of the device memory that slots leave, for draws that are kept; others are made again for each candidate."""
PRODUCTS = re.compile(r"@|\b(matmul|mm|bmm|addmm|baddbmm|einsum|linear|Linear|scaled_dot_product_attention)\b")
MOST_IDLE_BYTES = 1 << 30
"""Of memory that torch's allocator holds for nobody, before a candidate is examined."""
TIMED_DRAW_BYTES = 1 << 30


class DeviceSession:
    """A problem made ready for judging on a device.

    Args:
        problem: what must be computed.
        target: where.
        executor: the device.
        emit: takes progress events.
        driver: the driver's version, under which floors are stored.
        known: what `facts` of an earlier session of the same problem were.
        turns: who else uses the device; None where nobody does.

    Raises:
        UserError: when memory does not suffice, or the reference cannot be judged against.
    """

    def __init__(
        self,
        problem: Problem,
        target: Target,
        executor: Executor,
        emit: Emit,
        *,
        driver: int = 0,
        known: Facts | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.turns = turns or Turns(None)
        self.problem, self.target, self.executor, self._emit = problem, target, executor, emit
        self.device = executor.device
        self._secret = int.from_bytes(os.urandom(6), "little")
        self.rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
        self._free_bytes = executor.free_bytes()
        with self._told("floors"):
            self.floors = self._floors(driver)
        with self._told("slots"):
            self.slots = DeviceSlots(
                problem, self.device, cache_bytes=executor.limits.cache_bytes, free_bytes=self._free_bytes
            )
        with self._told("reference"):
            free = executor.free_bytes()
            most = max(0.0, min(DRAW_MEMORY_SHARE * free, free - working_bytes(problem)))
            self.draws = DeviceDraws(problem, self.device, secret=self._secret, most_bytes=most, known=known)
            self.reference, self.truth, self.facts = self.draws.reference, self.draws.truth, self.draws.facts
        self.order = tuple(self.rng.permutation(self.slots.count).tolist())
        """In which contenders take the slots."""
        self._shapes: tuple[DeviceShape, ...] = ()
        self._baselines: dict[str, DeviceBaseline | Unavailable] = {}
        self.kinds: dict[int, str] = {}
        """What kind of contents each slot got when it was refreshed last."""
        with self._told("contents"):
            self._refresher = make_refresher(DeviceRefresher, problem, self.draws, most_bytes=TIMED_DRAW_BYTES)
            self.refresh(range(self.slots.count))
        with self._told("first draw"):
            given = self.draw("given", 0)
            assert given is not None
            with given.bounds as bounds, self.device:
                self.profiles = integrity.profiles_of([bounds])
        self.surprises = Surprises(self.draws, self.rng)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Says afterwards how long a step of the opening took."""
        begun = time.monotonic()
        yield
        self._emit({"opening": what, "seconds": round(time.monotonic() - begun, 3)})

    def _floors(self, driver: int) -> floors.Floors:
        found = floors.stored(self.executor.limits.name, driver)
        if found is None:
            self._emit({"state": "measuring what the device can do"})
            empty = getattr(self.executor, "issue_empty", None)
            with self.turns.taken("alone"):
                # Perhaps somebody has measured it meanwhile.
                found = floors.stored(self.executor.limits.name, driver) or floors.measure(
                    self.executor,
                    driver,
                    empty=(lambda programmatic: empty(programmatic=programmatic)) if empty else None,
                )
            floors.store(found)
        return found

    def bounds_of_slot(self, slot: int) -> tuple[Bound, ...]:
        """Returns the full bounds for what a slot holds now; to be dropped before a candidate runs again."""
        inputs, parameters = self.slots.inputs(slot), self.slots.parameters
        return self.draws.bounds_of(inputs, parameters)

    def draw(self, family: str, number: int) -> DeviceDraw | None:
        """Returns a draw of a family, None where the family does not apply (see `notes`)."""
        return self.draws.draw(family, number)

    def shapes(self, count: int) -> tuple[DeviceShape, ...]:
        """Returns the first so many hidden shapes; made at first use, the same for every candidate."""
        if len(self._shapes) < count and self.problem.axes:
            # The more thorough policy's are drawn together, so that every axis meets every kind of size.
            self._shapes = ()
            self._emit({"hidden shapes": count})
            self._shapes = make_device_shapes(
                self.problem, count, self.rng, self.device, secret=self._secret, free_bytes=self._free_bytes
            )
        return self._shapes[:count]

    def notes(self, policy: Policy) -> tuple[str, ...]:
        """Returns what was left out and why: families, baselines."""
        families = self.draws.left_out(policy.families)
        wanted = self._names(policy)
        missing = [b for b in self._baselines.values() if isinstance(b, Unavailable) and b.name in wanted]
        return (*families, *(f"baseline {b.name} unavailable: {b.reason}" for b in missing))

    # ------------------------------------------------------------------------------------------ timed rounds

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
                context=self.draws.context,
                eager=eager if isinstance(eager, DeviceBaseline) else None,
                turns=self.turns,
            )
            self._baselines[name] = made
            state = made.reason if isinstance(made, Unavailable) else "ready"
            self._emit({"baseline": name, "state": state, "seconds": round(time.monotonic() - start, 2)})
        return self._baselines[name]

    def prepare(self, policy: Policy) -> None:
        """Makes everything that the policy needs and that no candidate changes."""
        self.draws.make_ready(policy, self._emit)
        for shape in self.shapes(policy.hidden_shapes):
            for family in HIDDEN_FAMILIES:
                shape.draws.draw(family, 0)
        begun = time.monotonic()
        for name in (EAGER, *self._names(policy)):
            late = time.monotonic() - begun > policy.deadline_s and form_of(name)[0]
            if late and name not in self._baselines:
                self._baselines[name] = Unavailable(name, f"nothing is compiled after {policy.deadline_s:g} s")
            self.baseline(name)

    def release(self) -> None:
        """Gives back memory that making draws and bounds has left: all that stays is overwritten again and again."""
        if (
            self.device.type == "cuda"
            and torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > MOST_IDLE_BYTES
        ):
            torch.cuda.empty_cache()

    def ready_baselines(self, policy: Policy) -> list[DeviceBaseline]:
        """Returns the policy's baselines that work here."""
        return [b for b in map(self.baseline, self._names(policy)) if isinstance(b, DeviceBaseline)]

    def _names(self, policy: Policy) -> tuple[str, ...]:
        """Returns the policy's baselines; where several are asked for and matrices multiplied, both BLAS as well."""
        multiplies = any(PRODUCTS.search(file.text) for file in self.problem.reference)
        more = DEVICE_LIBRARIES if multiplies and len(policy.baselines) > 1 else ()
        return tuple(dict.fromkeys((*policy.baselines, *more)))
