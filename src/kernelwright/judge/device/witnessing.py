"""What a witnessed candidate on a device is judged with: inputs on the host, truth and baselines on the device.

The witness has a context of its own and sees the judge's memory on the host only, as on the CPU; so expected outputs,
which lie in this process's device memory, are out of its reach. Baselines are called here by the very engine that calls
the candidate there (witness/cuda.py): graphs back to back, or directly where a policy's name says so.

Not here: the witness and the verdict (judge/witness), sealed candidates (session.py).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from kernelwright.judge.baselines import EAGER, Baseline, Unavailable, disagreement, sharing_module
from kernelwright.judge.device.baselines import form_of
from kernelwright.judge.device.draws import HostedDraws
from kernelwright.judge.draws import AnyDraws, Draw
from kernelwright.judge.session import Session
from kernelwright.judge.slots import Slots
from kernelwright.judge.witness.describing import describe
from kernelwright.judge.witness.engine import Engine
from kernelwright.judge.witness.memory import Memory, place_of
from kernelwright.judge.witness.witness import setup_of, stamps_region
from kernelwright.process import Emit
from kernelwright.reference_program import load_problem, outputs_of
from kernelwright.types import Problem, Target

SLOTS = 128
"""Each has a graph of its own in the candidate's process and in every captured baseline's. With many, a block of a
quick kernel is not short beside the way to its process and back, which the judge's clock cannot see into."""
CACHE_FACTOR = 4.0
"""How much faster than from memory so few slots may come from the level-2 cache: nothing slower is refused."""
ASKED = "a policy asks for it as it is called from Python"
EngineMaker = Callable[[Memory, str, str], Engine]
"""Makes an engine from the judge's memory, a device's name, and why it does not capture (empty: it does)."""


def accelerator(memory: Memory, device: str, direct: str) -> Engine:
    """Returns the engine of a CUDA device."""
    from kernelwright.judge.witness.cuda import Accelerator

    return Accelerator(memory, device, direct=direct)


class WitnessedBaseline(Baseline):
    """One baseline, called on the device as a witnessed candidate is.

    Args:
        name: as in a policy.
        call: a module on the device, or compiled code.
        engine: calls it.
        filled: gives the full argument list for a slot's tensors.
        follow: gives parameters their present values.
        count: how many slots there are.
    """

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        engine: Engine,
        *,
        filled: Callable[[Sequence[torch.Tensor]], tuple[object, ...]],
        follow: Callable[[], None],
        count: int,
    ) -> None:
        super().__init__(name, call, [()] * count, threads=1)
        self._engine, self._filled, self._follow = engine, filled, follow

    def _block(self, slots: Sequence[int]) -> tuple[list[Any], list[int]]:
        self._follow()
        given = [self._filled(self._engine.arguments(slot, moved=False)) for slot in slots]
        self._engine.prepare(self._call, given)
        results, starts, ends = self._engine.run(self._call, given)
        return results, [end - start for start, end in zip(starts, ends, strict=True)]

    def run(self, slots: Sequence[int]) -> list[int]:
        """Returns the nanoseconds of one call on each of the slots."""
        return self._block(slots)[1]

    def outputs(self, slot: int) -> tuple[torch.Tensor, ...]:
        """Returns the outputs of a call on a slot's present contents, on the host."""
        (result,), _ = self._block((slot,))
        return tuple(t.cpu().clone() for t in outputs_of(result))

    def release(self) -> None:
        """Nothing is kept but graphs."""


class WitnessedSession(Session):
    """A problem made ready for judging Python on a device.

    Args:
        problem: what must be computed.
        target: where.
        emit: takes progress events.
        device: the device's name, for torch.
        bandwidth: the most bytes per second that its memory was seen to move.
        engine: makes what calls baselines.

    Raises:
        UserError: when memory does not suffice, or the reference cannot be judged against.
    """

    def __init__(
        self,
        problem: Problem,
        target: Target,
        emit: Emit,
        *,
        device: str,
        bandwidth: float,
        engine: EngineMaker = accelerator,
    ) -> None:
        self.device, self._measured_bandwidth, self._engine = device, bandwidth, engine
        super().__init__(problem, target, Path(), emit)
        stamps = stamps_region()
        setup = setup_of(self.slots, stamps, describe(self))
        fds = (self.slots.input.read_only_fd(), self.slots.output.fd, stamps.fd)
        self._memory = Memory([place_of(place) for place in setup["places"]], fds, setup["sizes"])
        os.close(fds[0])
        stamps.close()

    def _make_draws(self, most_bytes: float) -> AnyDraws[Draw]:
        return HostedDraws(self.problem, torch.device(self.device), secret=self._secret, most_bytes=most_bytes)

    def _make_slots(self, cache_bytes: int) -> Slots:
        return Slots(self.problem, cache_bytes=cache_bytes, available_bytes=self._free_bytes, most=SLOTS)

    def measure_bandwidth(self) -> float:
        """Returns the bytes per second beyond which no time is believed, but for a margin."""
        return CACHE_FACTOR * self._measured_bandwidth

    def _make_baseline(self, name: str, eager: Baseline | None) -> Baseline | Unavailable:
        mode, captured = form_of(name)
        device = torch.device(self.device)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                there = [t.to(device, copy=True) for t in self.slots.parameters]
                with device:
                    module: Any = sharing_module(load_problem(self.problem), there)
                called = torch.compile(module, mode=mode, dynamic=False) if mode else module
                made = WitnessedBaseline(
                    name,
                    called,
                    self._engine(self._memory, self.device, "" if captured else ASKED),
                    filled=self.reference.arguments_with,
                    follow=lambda: _follow(there, self.slots.parameters),
                    count=self.slots.count,
                )
                made.settle(range(self.slots.count))
                reason = disagreement(made, eager) if eager else ""
        except Exception as error:
            if name == EAGER:
                raise
            return Unavailable(name, f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}")
        return Unavailable(name, reason) if reason else made


@torch.no_grad()
def _follow(there: Sequence[torch.Tensor], here: Sequence[torch.Tensor]) -> None:
    for mine, present in zip(there, here, strict=True):
        mine.copy_(present)
