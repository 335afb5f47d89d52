"""A holder in the test's own process, over the judge's regions: what does not need a jail is tested without one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from kernelwright.judge.slots import POISONS, Slots
from kernelwright.judge.witness.engine import Engine, Processor
from kernelwright.judge.witness.handover import tree_of
from kernelwright.judge.witness.holder import Holder
from kernelwright.judge.witness.memory import Memory, place_of
from kernelwright.judge.witness.witness import setup_of, stamps_region
from kernelwright.types import Problem


class Stand:
    """Slots, the witness's view of them and a holder.

    Args:
        problem: small; of the class contract, with one module argument list.
        init: the constructor's arguments.
        device: `cpu` or `cuda:0`.
    """

    def __init__(self, problem: Problem, init: Sequence[Any] = (256, 1e-5), device: str = "cpu") -> None:
        self.slots = Slots(problem, cache_bytes=1 << 20, available_bytes=1 << 31)
        stamps = stamps_region()
        outputs = tuple(torch.empty(o.shape) for o in problem.outputs)
        described = {
            "entry": problem.entry,
            "evaluation": False,
            "init": list(init),
            "fixed": [],
            "state": [(spec.name, index, True) for index, spec in enumerate(problem.parameters)],
            "tree": tree_of(outputs if len(outputs) > 1 else outputs[0]),
            "orders": [list(range(t.dim())) for t in outputs],
            "aliases": [False] * len(outputs),
        }
        setup = setup_of(self.slots, stamps, described)
        fds = (self.slots.input.read_only_fd(), self.slots.output.fd, stamps.fd)
        self.memory = Memory([place_of(data) for data in setup["places"]], fds, setup["sizes"])
        os.close(fds[0])
        self.stamps = stamps
        self.engine: Engine = self._engine(device)
        self.holder = Holder(self.memory, self.engine, setup)

    def _engine(self, device: str) -> Engine:
        if device == "cpu":
            return Processor(self.memory)
        from kernelwright.judge.witness.cuda import Accelerator

        return Accelerator(self.memory, device)

    def load(self, text: str) -> list[tuple[str, str]]:
        return self.holder.load([{"path": "kernel.py", "text": text}])

    def draw(self, seed: int) -> None:
        """Writes fresh contents everywhere."""
        generator = torch.Generator().manual_seed(seed)
        for tensors in (*self.slots.inputs, self.slots.parameters):
            for tensor in tensors:
                tensor.copy_(torch.randn(tensor.shape, generator=generator))

    def call(self, slots: Sequence[int], *, moved: bool = False) -> list[tuple[str, str]]:
        """Runs one block; returns what was found wrong with it."""
        self.slots.poison(slots, POISONS[0])
        self.holder.ready(slots, moved=moved)
        assert self.holder.go()[0] == len(slots)
        return self.holder.hand_in()
