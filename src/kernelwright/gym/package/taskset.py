"""The gym's problems as tasks of the verifiers library (https://github.com/PrimeIntellect-ai/verifiers), version 1 API.

Each task's prompt comes from the gym; the reward is the gym's for the kernel in the model's last message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from kernelwright_env.client import URL, Client


class KernelData(vf.TaskData):
    """One problem in one language."""

    problem: str
    language: str


class KernelTaskConfig(vf.TaskConfig):
    """Where rewards come from; `--env.taskset.task.*`."""

    url: str = URL
    """Of the gym."""
    patience_s: float = 900.0
    """For one verdict, waiting in the gym's queue included."""


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """Write a kernel; the judge says what it is worth."""

    @property
    def key(self) -> str:
        """What the task is, whatever machine its prompt describes."""
        return f"{self.data.problem}/{self.data.language}"

    @vf.reward(weight=1.0)
    async def judged(self, trace: vf.Trace) -> float:
        """Returns the gym's reward: at most 1, negative for a cheat. An error where the gym has no verdict."""
        return float((await self._found(trace))["reward"])

    @vf.metric
    async def verdict(self, trace: vf.Trace) -> dict[str, float]:
        """Returns whether it passed, its speedup (0 without one) and whether it was a cheat."""
        found = await self._found(trace)
        speedup = found.get("speedup") or {"value": 0.0}
        return {
            "passed": float(bool(found["passed"])), "speedup": float(speedup["value"]),
            "cheat": float(found["kind"] == "cheat"),
        }  # fmt: skip

    async def _found(self, trace: vf.Trace) -> dict[str, Any]:
        """Asks the gym; for the same answer it has the same verdict, so asking twice costs nothing."""
        client = Client(self.config.url, patience_s=self.config.patience_s)
        return await asyncio.to_thread(client.score, self.data.problem, trace.last_reply, language=self.data.language)


class KernelTasksetConfig(vf.TasksetConfig):
    """Which tasks; `--env.taskset.*`."""

    task: KernelTaskConfig = KernelTaskConfig()
    problems: tuple[str, ...] = ()
    """Names; empty for all that the gym has."""
    language: str = ""
    """Empty for the gym's first."""


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    """Every problem of a gym."""

    def load(self) -> Iterator[KernelTask]:
        """Yields a task for each problem, as the gym words it."""
        client = Client(self.config.task.url, patience_s=self.config.task.patience_s)
        language = self.config.language or client.languages()[0]
        for problem in self.config.problems or client.problems():
            task = client.task(problem, language)
            told = {message["role"]: message["content"] for message in task["messages"]}
            data = KernelData(
                id=f"{problem}/{language}", name=problem, description=task["description"], prompt=told["user"],
                system_prompt=told["system"], problem=problem, language=language,
            )  # fmt: skip
            yield KernelTask(data, self.config.task)
