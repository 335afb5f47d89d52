"""Runs tasks of a benchmark one after the other, or several at a time; what is done is not done again.

Not here: which tasks there are (tasks.py), and the page about them (page.py).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from kernelwright import api, capture, environment
from kernelwright.bench import rows, shrinking, solutions
from kernelwright.bench.rows import Row, State
from kernelwright.bench.tasks import Task
from kernelwright.errors import KernelwrightError, SourceError, UserError
from kernelwright.graph import Capture
from kernelwright.run.admitting import Admissions
from kernelwright.run.result import Result, best_baseline, outcome_name, verdict_of
from kernelwright.types import Failure, Record, value

RESULTS = "results.jsonl"
LARGEST_CAP = 4096
CAPTURE_S = 120.0
IN_EVALUATION = ("--eval", "running statistics", "dropout")
"""What a refusal says where evaluation mode would help."""


@value
class Settings:
    """How tasks are run."""

    device: str = "cpu"
    budget_s: float = 30.0
    cap: int = 0
    """Largest size of shrunk tasks, 0 for the published sizes."""
    admit: bool = True
    policy: str = "report"
    """For solutions: how thoroughly they are judged."""
    seed: int | None = None


def run(
    tasks: tuple[Task, ...],
    folder: Path,
    settings: Settings,
    *,
    workers: int = 1,
    on_row: Callable[[Row, int, int, float], None] | None = None,
) -> tuple[Row, ...]:
    """Returns a row for each task, in order; those that `folder` holds already are not made again.

    Args:
        tasks: what to run.
        folder: results, stores and shrunk copies go there.
        settings: how.
        workers: tasks at a time. Times are taken while others run, so on one device more than one adds noise.
        on_row: called with each new row, how many are done, how many there are, and the seconds that are left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RESULTS
    keys = {task.name: key_of(task, settings) for task in tasks}
    known = {r.task: r for r in rows.read(path) if r.state != "failed" and r.key == keys.get(r.task)}
    missing = [task for task in tasks if task.name not in known]
    start_s = time.monotonic()
    for done, row in enumerate(_every(missing, folder, settings, workers), 1):
        rows.append(path, row)
        known[row.task] = row
        if on_row:
            left_s = (time.monotonic() - start_s) / done * (len(missing) - done)
            on_row(row, len(tasks) - len(missing) + done, len(tasks), left_s)
    return tuple(known[task.name] for task in tasks if task.name in known)


def key_of(task: Task, settings: Settings) -> str:
    """Returns a digest of a task's texts and of how it is run."""
    files = [Path(name).read_bytes() for name in (task.path, task.solution) if name and Path(name).is_file()]
    return hashlib.sha256(repr((task.gradients, settings, files)).encode()).hexdigest()[:16]


def _every(tasks: list[Task], folder: Path, settings: Settings, workers: int) -> Iterator[Row]:
    if workers == 1:
        for task in tasks:
            yield one(task, folder, settings)
        return
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(one, task, folder, settings) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def one(task: Task, folder: Path, settings: Settings) -> Row:
    """Returns what becomes of one task; whatever goes wrong is a row."""
    start_s, key = time.monotonic(), key_of(task, settings)

    def row(state: State, why: str, /, **more: Any) -> Row:
        return Row(
            task=task.name, level=task.level, device=settings.device, state=state, why=" ".join(why.split()),
            claimed=task.claimed, published=task.published, group=task.group, key=key,
            seconds=round(time.monotonic() - start_s, 1), **more,
        )  # fmt: skip

    home = folder / "tasks" / task.name
    try:
        if why := _refusal(task, settings):
            return row("unusable", why)
        source, captured, evaluation, cap = usable(task, home, settings)
    except UserError as error:
        return row("unusable", str(error))
    except Exception as error:  # noqa: BLE001  (one task must not end the run)
        return row("failed", _told(error))
    about: dict[str, Any] = {"evaluation": evaluation, "cap": cap}
    try:
        admits = settings.admit and settings.device == "cpu" and not task.gradients
        about["weak"] = weaknesses(source, evaluation=evaluation) if admits else ()
        more: dict[str, Any] = {
            "evaluation": evaluation,
            "gradients": task.gradients,
            "device": settings.device,
            "out": home,
        }
        if task.solution:
            record = api.judge_kernel(source, task.solution, policy=settings.policy, **more)
            about |= {"template": "solution", "outcome": outcome_name(record), **speedups(record)}
            return row(*of_record(record), **about)
        result = api.optimize(source, budget_s=settings.budget_s, seed=settings.seed, **more)
        if result.stopped == "interrupted":
            # An unfinished search is no result: the same command goes on with this task.
            raise KeyboardInterrupt
        return row(*of_result(result), **about, **gains(result, captured))
    except UserError as error:
        return row("unusable", str(error), **about)
    except Exception as error:  # noqa: BLE001  (one task must not end the run)
        return row("failed", _told(error), **about)


def _refusal(task: Task, settings: Settings) -> str:
    if task.refused or not task.solution:
        return task.refused
    path = Path(task.solution)
    return solutions.refusal(path.read_text(encoding="utf-8", errors="replace"), settings.device)


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, KernelwrightError) else f"{type(error).__name__}: {error}"


def usable(task: Task, home: Path, settings: Settings) -> tuple[str, Capture, bool, int]:
    """Returns a task's file, what it captures to, whether in evaluation mode, and the cap on its sizes.

    Raises:
        UserError: where it can be used in no way that was tried.
    """
    cap = settings.cap
    while True:
        source = shrinking.write(Path(task.path), home / f"cap{cap}", cap) if cap else Path(task.path)
        try:
            captured, evaluation = _captured(str(source))
            return str(source), captured, evaluation, cap
        except SourceError:
            # Sizes that no longer fit each other; a larger cap changes fewer of them.
            if not cap or cap >= LARGEST_CAP:
                raise
            cap *= 2


def _captured(source: str) -> tuple[Capture, bool]:
    try:
        return capture.load(source, deadline_s=CAPTURE_S), False
    except UserError as error:
        if not any(word in str(error) for word in IN_EVALUATION):
            raise
    return capture.load(source, evaluation=True, deadline_s=CAPTURE_S), True


def weaknesses(source: str, *, evaluation: bool) -> tuple[str, ...]:
    """Returns which answers without work would pass, in words."""
    with Admissions(threads=environment.threads(), evaluation=evaluation, deadline_s=60.0) as admissions:
        found = admissions.admit(source)
    said = found.why() if found.state == "weak" else ()
    independent = tuple(f"{output} does not depend on {tensor}" for output, tensor in found.independent)
    return tuple(dict.fromkeys((*said, *independent)))


def of_result(result: Result) -> tuple[State, str]:
    """Returns the state of an optimisation, and why."""
    if result.answer == "kernel":
        return "faster", result.why
    return ("baseline" if result.report is not None else "no candidate"), result.why


def gains(result: Result, captured: Capture) -> dict[str, Any]:
    """Returns the speedups of an optimisation's best kernel and what it is."""
    if result.report is None or result.best is None:
        return {}
    bound = {b.name for step in result.best.plan.steps for b in step.arguments}
    ignored = {s.name for s in captured.problem.inputs if s.name not in bound} | set(result.best.independent)
    return {
        **speedups(result.report),
        "template": result.best.template,
        "rewrites": result.best.rewrites,
        "independent": tuple(sorted(ignored)),
    }


def speedups(record: Record) -> dict[str, Any]:
    """Returns a record's speedups against eager and against the fastest baseline."""
    hardest = best_baseline(record)
    if hardest is None or isinstance(record.outcome, Failure):
        return {}
    eager = next((c for c in record.outcome.comparisons if c.baseline.endswith("eager")), None)
    return {
        "eager": eager.speedup if eager else None,
        "best": hardest.speedup,
        "low": hardest.low,
        "high": hardest.high,
        "baseline": hardest.baseline,
    }


def of_record(record: Record) -> tuple[State, str]:
    """Returns the state of a judged solution, and why."""
    if isinstance(record.outcome, Failure):
        return "no candidate", f"{outcome_name(record)}: {record.outcome.message}"
    if not record.passed:
        failed = next(c for c in record.outcome.verdict.checks if not c.passed)
        return "no candidate", f"{failed.name}: {failed.evidence}"
    answer, why = verdict_of(record, "the solution")
    return ("faster" if answer == "kernel" else "baseline"), why
