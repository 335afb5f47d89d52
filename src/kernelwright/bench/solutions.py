"""Somebody else's kernels for a benchmark's tasks: folders of files, or released files with code and claims.

Not here: judging them (running.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelwright.bench.tasks import Task, number_of
from kernelwright.errors import UserError

CLAIMS = ("score_default", "score", "speedup")
"""Where a released file says how many times as fast as eager its code is."""
COMPILES = re.compile(r"cpp_extension|load_inline|__global__")
NEEDS_CUDA = re.compile(rf"{COMPILES.pattern}|\bimport triton|\bfrom triton|\bcupy\b|\.cuda\(\)|CUDAGraph|device=.cuda")


def with_solutions(tasks: tuple[Task, ...], where: Path, written: Path) -> tuple[Task, ...]:
    """Returns the tasks that somebody has solved, with their files.

    A folder holds Python files that define ModelNew, below `level2/` or with `level2` in their names, whose own names
    begin with the task's number; `claims.json` in it may hold {task: speedup}. A file is one of the CUDA-L1 release:
    JSON, whole or line by line, an object for each task with `level_id`, `task_id`, `ref_code`, `custom_code` and
    `score_default` (or, by level, `score`). What it calls the reference is then the task: sizes have changed since.

    Args:
        tasks: of the benchmark.
        where: the folder or the file.
        written: the code of a released file is written below this folder.

    Raises:
        UserError: when there is none.
    """
    found = _released(tasks, where, written) if where.is_file() else _of_folder(tasks, where)
    if not found:
        fix = "name files level1/19_relu.py or level_1_problem_19.py, as the tasks are"
        raise UserError(f"{where} holds no solution of these tasks", fix)
    return found


def _of_folder(tasks: tuple[Task, ...], folder: Path) -> tuple[Task, ...]:
    claims_file = folder / "claims.json"
    claims: dict[str, float] = json.loads(claims_file.read_text()) if claims_file.is_file() else {}
    files = sorted(folder.rglob("*.py"))
    found = []
    for task in tasks:
        match = next((path for path in files if fits(path, task)), None)
        if match is not None:
            claimed = claims.get(task.name, claims.get(str(match.relative_to(folder))))
            found.append(task.with_solution(str(match), claimed))
    return tuple(found)


def _released(tasks: tuple[Task, ...], file: Path, written: Path) -> tuple[Task, ...]:
    by_number = {(task.level, number_of(Path(task.path).stem)): task for task in tasks}
    found = []
    for level, entry in _entries(file):
        task, code = by_number.get((level, int(entry.get("task_id", 0)))), entry.get("custom_code")
        if task is None or not code:
            continue
        place = written / task.name
        place.mkdir(parents=True, exist_ok=True)
        (place / "solution.py").write_text(code, encoding="utf-8")
        path = task.path
        if entry.get("ref_code"):
            path = str(place / f"{Path(task.path).stem}.py")
            Path(path).write_text(entry["ref_code"], encoding="utf-8")
        claim = next((entry[name] for name in CLAIMS if entry.get(name)), None)
        solved = Task(name=task.name, level=task.level, path=path, group=task.group)
        found.append(solved.with_solution(str(place / "solution.py"), float(claim) if claim else None))
    return tuple(found)


def _entries(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (level, entry) of a released file.

    Raises:
        UserError: when it is none.
    """
    text = file.read_text(encoding="utf-8")
    try:
        try:
            whole = json.loads(text)
        except ValueError:
            whole = [json.loads(line) for line in text.splitlines() if line.strip()]
        by_level = whole if isinstance(whole, dict) else {"": whole if isinstance(whole, list) else [whole]}
        if isinstance(whole, dict) and "custom_code" in whole:
            by_level = {"": [whole]}
        for level, entries in by_level.items():
            for entry in entries:
                yield int(level or entry["level_id"]), entry
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        fix = "give a folder of Python files, or a JSON file with level_id, task_id and custom_code for each task"
        raise UserError(f"{file} is no released file of solutions: {error}", fix) from error


def fits(path: Path, task: Task) -> bool:
    """Returns whether a file's name says that it solves a task."""
    number = number_of(Path(task.path).stem)
    if match := re.search(r"level_?(\d+)_(?:problem_?)?(\d+)", path.stem):
        return (int(match[1]), int(match[2])) == (task.level, number)
    return path.parent.name in (f"level{task.level}", f"level_{task.level}") and number_of(path.stem) == number


def refusal(text: str, device: str) -> str:
    """Returns why a solution cannot run here, empty where nothing speaks against it.

    Covers: code for a GPU on the CPU, and CUDA that it compiles itself where there is no compiler for it.
    Does not cover: packages that it imports; the judge says which one is missing.
    """
    if device == "cpu" and (word := NEEDS_CUDA.search(text)):
        return f"it is written for a GPU ({word[0]!r}); judge it with --device cuda"
    if device == "cuda" and COMPILES.search(text):
        lacking = [name for name, there in (("nvcc", _nvcc()), ("ninja", shutil.which("ninja"))) if not there]
        if lacking:
            return (
                f"it compiles CUDA itself (torch.utils.cpp_extension), and {' and '.join(lacking)} is not here: "
                "install the CUDA toolkit and ninja, or set CUDA_HOME"
            )
    return ""


def _nvcc() -> str | None:
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return shutil.which("nvcc") or next((h for h in homes if (Path(h) / "bin" / "nvcc").is_file()), None)
