"""robust-kbench's tasks, forward and backward, read from the user's clone; its settings become task files.

Each folder of a task holds `func_forward.py` (and `func_backward.py`) with Model and a get_inputs that takes sizes,
and `config_forward.json` (`config_backward.json`) with the settings of both. A task here is one setting: the file's
own text with the setting's numbers at its end, written below the result folder.
A backward task asks for the gradients of all inputs and parameters, with the forward pass: what their harness times
is the backward pass alone.

Not here: running them (running.py).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelwright.bench.tasks import Task, number_of
from kernelwright.errors import UserError

DIRECTIONS = ("forward", "backward")
TABLE = "highlighted/results.csv"
"""What the authors publish: for each of their best kernels its speedup over eager and over torch.compile."""
ENDING = """

# The setting of {config}, as one task.
import inspect as _inspect

INPUT_SETTING = {inputs!r}
INIT_SETTING = {init!r}
_inputs_of = get_inputs


def get_inputs():
    drawn = _inputs_of(**INPUT_SETTING)
    return [item.detach() if hasattr(item, "detach") else item for item in drawn]


def get_init_inputs():
    bound = _inspect.signature(Model).bind(**INIT_SETTING)
    bound.apply_defaults()
    return list(bound.args)
"""


def tasks(
    root: Path, folder: Path, *, directions: tuple[str, ...] = DIRECTIONS, every: bool = False, only: str = ""
) -> tuple[Task, ...]:
    """Returns robust-kbench's tasks: its own first, then its copies of KernelBench's.

    Args:
        root: the clone, which holds `tasks`.
        folder: task files are written there.
        directions: forward, backward.
        every: all settings that correctness is checked with, each as a task; else the one that is timed.
        only: tasks whose name holds this text.

    Raises:
        UserError: when no task is there, or a setting cannot be read.
    """
    base = root / "tasks"
    if not base.is_dir():
        raise UserError(f"{root} holds no folder tasks", "give the folder of a robust-kbench clone")
    published = _published(root / TABLE)
    found: list[Task] = []
    for path in sorted(base.rglob("func_*.py"), key=lambda p: _place(p.relative_to(base))):
        direction = path.stem.removeprefix("func_")
        place = path.parent.relative_to(base)
        if direction in directions:
            for name, text in _texts(path, f"{place}/{direction}", direction, every=every):
                if only in name:
                    found.append(_written(folder, name, text, direction, published.get((str(place), direction))))
    if not found:
        raise UserError(f"no task in {base} has {only!r} in its name", "see --task and --direction")
    return tuple(found)


def _place(path: Path) -> tuple[bool, list[tuple[int, str]]]:
    numbered = [(number_of(part.rpartition("_")[2]), part) for part in path.parts[:-1]]
    return len(path.parts) > 2, [*numbered, (DIRECTIONS.index("backward") * (path.stem == "func_backward"), "")]


def _texts(path: Path, name: str, direction: str, *, every: bool) -> Iterator[tuple[str, str]]:
    config = path.with_name(f"config_{direction}.json")
    try:
        given = json.loads(config.read_text(encoding="utf-8"))
        settings = list(_settings(given, "multi" if every else "single"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{config} cannot be used: {error}", "is it robust-kbench's file?") from error
    text = path.read_text(encoding="utf-8")
    for number, (inputs, init) in enumerate(settings):
        ending = ENDING.format(config=config.name, inputs=inputs, init=init)
        yield (f"{name}/{number}" if len(settings) > 1 else name), text + ending


def _settings(given: dict[str, Any], which: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yields (for get_inputs, for Model) of every combination; what both share is in both, as in their harness."""
    for init in given[f"{which}_init_configs"]:
        for inputs in given[f"{which}_input_configs"]:
            for shared in given[f"{which}_shared_configs"]:
                yield {**inputs, **shared}, {**init, **shared}


def _written(folder: Path, name: str, text: str, direction: str, claimed: float | None) -> Task:
    path = folder / f"{name.replace('/', '_')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    gradients = ("*",) if direction == "backward" else ()
    return Task(name=name, level=0, group=direction, path=str(path), gradients=gradients, published=claimed)


def _published(path: Path) -> dict[tuple[str, str], float]:
    """Returns the greatest published speedup over eager of each task and direction."""
    found: dict[tuple[str, str], float] = {}
    if path.is_file():
        csv.field_size_limit(1 << 30)  # whole kernels are in it
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if row.get("Correct") == "True" and row.get("Speedup"):
                    key = (str(row.get("task_name")), "forward" if row.get("forward") == "True" else "backward")
                    found[key] = max(found.get(key, 0.0), float(row["Speedup"] or 0.0))
    return found


def with_kernels(tasks: tuple[Task, ...], folder: Path, written: Path) -> tuple[Task, ...]:
    """Returns the forward tasks that a folder holds a kernel for, as Python that compiles and calls it.

    A kernel is `TASK/forward/*.cu` or `TASK/forward.cu`: a torch extension whose module has a function `forward` with
    the parameters of the task's forward_fn. Backward kernels cannot be judged: their harness calls them through an
    autograd function, and Python candidates are judged without gradients.

    Raises:
        UserError: when there is none.
    """
    found = []
    for task in tasks:
        place = task.name.partition(f"/{task.group}")[0]
        files = [*sorted((folder / place / task.group).glob("*.cu")), folder / place / f"{task.group}.cu"]
        kernel = next((path for path in files if path.is_file()), None)
        if kernel is None or task.group != "forward":
            continue
        solution = written / f"{task.name.replace('/', '_')}.py"
        solution.parent.mkdir(parents=True, exist_ok=True)
        code = kernel.read_text(encoding="utf-8")
        solution.write_text(Path(task.path).read_text(encoding="utf-8") + WRAPPER.format(code=code), encoding="utf-8")
        found.append(task.with_solution(str(solution), task.published))
    if not found:
        raise UserError(f"{folder} holds no forward kernel of these tasks", "kernels are TASK/forward/kernel.cu")
    return tuple(found)


WRAPPER = """

from torch.utils.cpp_extension import load_inline as _load_inline

_extension = _load_inline(name="kernel", cpp_sources="", cuda_sources={code!r}, with_cuda=True)


class ModelNew(Model):
    def forward(self, *given):
        return super().forward(*given, fn=_extension.forward)
"""
