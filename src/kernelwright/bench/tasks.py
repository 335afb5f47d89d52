"""Tasks of public benchmarks, read from the user's own clone; nothing of theirs is kept here.

Not here: running them (running.py).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.types import value


@value
class Task:
    """One task of a benchmark."""

    name: str
    """Unique in the benchmark: `level2/14_Gemm_Divide_Sum_Scaling`."""
    level: int
    path: str
    """The file that defines Model, get_inputs and get_init_inputs."""
    solution: str = ""
    """A kernel file of somebody else's, empty where there is none."""
    claimed: float | None = None
    """The speedup that is claimed for it."""


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


def with_solutions(tasks: tuple[Task, ...], folder: Path) -> tuple[Task, ...]:
    """Returns the tasks that somebody has solved, with their files.

    A solution is a Python file that defines ModelNew, below `level2/` or with `level2` in its name, whose own name
    begins with the task's number. `claims.json` in the folder may hold {task: speedup}.

    Raises:
        UserError: when there is none.
    """
    claims_file = folder / "claims.json"
    claims: dict[str, float] = json.loads(claims_file.read_text()) if claims_file.is_file() else {}
    files = sorted(path for path in folder.rglob("*.py"))
    found = []
    for task in tasks:
        match = next((path for path in files if fits(path, task)), None)
        if match is not None:
            claimed = claims.get(task.name, claims.get(str(match.relative_to(folder))))
            found.append(Task(name=task.name, level=task.level, path=task.path, solution=str(match), claimed=claimed))
    if not found:
        fix = "name files level1/19_relu.py or level_1_problem_19.py, as the tasks are"
        raise UserError(f"{folder} holds no solution of these tasks", fix)
    return tuple(found)


def fits(path: Path, task: Task) -> bool:
    """Returns whether a file's name says that it solves a task."""
    number = number_of(Path(task.path).stem)
    if match := re.search(r"level_?(\d+)_(?:problem_?)?(\d+)", path.stem):
        return (int(match[1]), int(match[2])) == (task.level, number)
    return path.parent.name in (f"level{task.level}", f"level_{task.level}") and number_of(path.stem) == number
