"""Tasks of public benchmarks, read from the user's own clone; nothing of theirs is kept here.

Not here: running them (running.py), solutions (solutions.py), and benchmarks whose tasks are no files of the class
contract yet (robust.py, flashinfer.py).
"""

from __future__ import annotations

import re
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.types import replace, value


@value
class Task:
    """One task of a benchmark."""

    name: str
    """Unique in the benchmark: `level2/14_Gemm_Divide_Sum_Scaling`."""
    level: int
    path: str
    """The file that defines Model, get_inputs and get_init_inputs."""
    group: str = ""
    """What its results are summed up under; empty for its level."""
    gradients: tuple[str, ...] = ()
    """Whose gradients are asked for, `("*",)` for all: forward and backward together."""
    solution: str = ""
    """A kernel file of somebody else's, empty where there is none."""
    claimed: float | None = None
    """The speedup that is claimed for it."""
    refused: str = ""
    """Why a solution cannot even be given to the judge."""
    published: float | None = None
    """The speedup that the benchmark's authors publish for their best kernel, on their machine."""

    def with_solution(self, path: str, claimed: float | None, *, refused: str = "") -> Task:
        """Returns the task with somebody's kernel for it."""
        return replace(self, solution=path, claimed=claimed, refused=refused)

    def named(self, name: str) -> Task:
        """Returns the task under another name."""
        return replace(self, name=name)


def kernelbench(root: Path, *, levels: tuple[int, ...], only: str = "") -> tuple[Task, ...]:
    """Returns KernelBench's tasks in order.

    Args:
        root: the clone, or its folder KernelBench, whose folders level1, level2 ... hold a file for each task.
        levels: which of them.
        only: tasks whose name holds this text; empty for all.

    Raises:
        UserError: when no task is there.
    """
    base = next((p for p in (root / "KernelBench", root) if any(p.glob("level*/"))), None)
    if base is None:
        raise UserError(f"{root} holds no folders level1, level2 ...", "give the folder of a KernelBench clone")
    found = [
        Task(name=f"level{level}/{path.stem}", level=level, path=str(path))
        for level in levels
        for path in sorted((base / f"level{level}").glob("*.py"), key=lambda p: (number_of(p.stem), p.stem))
        if only in f"level{level}/{path.stem}"
    ]
    if not found:
        raise UserError(f"no task of levels {levels} in {base} has {only!r} in its name", "see --level and --task")
    return tuple(found)


def number_of(stem: str) -> int:
    """Returns the number that a task's file name begins with."""
    match = re.match(r"\d+", stem)
    return int(match[0]) if match else 0
