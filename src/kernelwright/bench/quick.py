"""Where a benchmark's tasks are judged: how thoroughly where time is short, and in what part of a device's memory.

Not here: turns at a device (judge/device/turns.py), stages (pipeline.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

from kernelwright import api, environment, run
from kernelwright.bench.pipeline import Devices
from kernelwright.capture.costs import spec_bytes
from kernelwright.judge import Judge
from kernelwright.languages import device_probe
from kernelwright.types import Policy, Problem, Target, replace

FAMILIES = ("given", "large", "negative", "integers", "nonfinite")
MORE_FAMILIES = (*FAMILIES, "normal", "constant", "rows", "zeros", "huge", "patchwork", "exact")
SEARCH_SHARE = 0.4
"""Of a task's time, for searching; the rest is for the judge's preparation, the choice and the report."""
SHARE = 0.96
"""Of a device's memory, that judges may use; contexts and the driver have the rest."""
CONTEXT_BYTES = 6 << 30
"""A context, and slots and draws of a small problem."""
COPIES = 6
"""Slots, draws and kept contents, in tensors of the problem."""
LARGE_ELEMENTS = 1 << 28
"""As in judge/parts.py, which a parent does not import."""


def parts(target: Target, task_s: float) -> run.Parts:
    """Returns what `optimize` joins where a task may take so many seconds.

    Against the usual policies: a few families for the search and one draw of each for the report, fewer rounds, the
    cold cache alone, no memory checkers; compiled baselines are begun in the task's time only. Names say so.
    """

    def quick(policy: Policy, families: tuple[str, ...], rounds: int) -> Policy:
        deadline_s = max(policy.deadline_s, task_s)
        return replace(
            policy, name=f"quick {policy.name}", families=tuple(f for f in policy.families if f in families),
            draws=1, rounds=min(policy.rounds, rounds), deadline_s=deadline_s, memory_checkers=(),
            modes=policy.modes[:1],
        )  # fmt: skip

    usual = run.parts_for(target)
    report = quick(usual.report, usual.report.families, 24)
    return replace(
        usual,
        screen=quick(usual.screen, FAMILIES, 6),
        measure=quick(usual.measure, MORE_FAMILIES, 12),
        report=replace(report, deadline_s=task_s),
    )


def need_bytes(problem: Problem) -> int:
    """Returns about how much device memory judging a problem takes; as judge/device/arena.py counts."""
    given = sum(prod(s.shape) for s in problem.inputs + problem.parameters)
    made = sum(prod(s.shape) for s in problem.outputs)
    working = 8 * min(8 * (given + made), 2 * given + 3 * made + 8 * LARGE_ELEMENTS)
    own = sum(spec_bytes(s) for s in problem.inputs + problem.parameters + problem.outputs)
    return CONTEXT_BYTES + COPIES * own + working


@dataclass(frozen=True)
class Places:
    """The GPUs of this machine that tasks run on, all of one kind."""

    devices: Devices
    target: Target
    folder: Path
    """Files of the turns at each go there."""

    @contextlib.contextmanager
    def taken(self, problem: Problem) -> Iterator[partial[Judge]]:
        """Waits for room and gives what makes judges there."""
        with self.devices.taken(need_bytes(problem)) as (device, size):
            variables = environment.sharing(device, self.folder / "turns") | {environment.DEVICE_BYTES: str(size)}
            yield partial(Judge, variables=variables)


def places(devices: tuple[str, ...], tasks_each: int, folder: Path) -> Places:
    """Returns the GPUs of some numbers, the first where there are none.

    Raises:
        MissingTool: where there is no GPU.
    """
    target = api.target_named("cuda")
    memory = int(SHARE * device_probe.device().memory_bytes)
    return Places(Devices(dict.fromkeys(devices or ("0",), memory), tasks_each), target, folder.resolve())
