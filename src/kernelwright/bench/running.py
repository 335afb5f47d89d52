"""Runs tasks of a benchmark one after the other, or several at a time; what is done is not done again.

What needs no device (loading, checking, tracing) runs ahead of what does (pipeline.py).
Not here: which tasks there are (tasks.py), and the page about them (page.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelwright import api, capture, environment
from kernelwright.bench import pipeline, quick, rows, shrinking, solutions, variants
from kernelwright.bench.rows import Row, State
from kernelwright.bench.tasks import Task
from kernelwright.errors import KernelwrightError, SourceError, UserError
from kernelwright.graph import Capture
from kernelwright.report.gains import gains as parts_of
from kernelwright.run.admitting import Admissions
from kernelwright.run.result import Result, best_baseline, outcome_name, verdict_of
from kernelwright.types import Failure, Measurement, Record, value

RESULTS = "results.jsonl"
SMALL_CAP = 64
"""Sizes of the copies that are checked on a CPU for a task that a GPU is to judge."""
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
    task_s: float = 0.0
    """What one task may take at the device, 0 for as long as it takes; then it is judged less thoroughly (quick.py)."""


@value
class Ready:
    """A task made ready: all that needs no device."""

    source: str
    captured: Capture
    evaluation: bool
    cap: int
    weak: tuple[str, ...]
    seconds: float


def run(
    tasks: tuple[Task, ...],
    folder: Path,
    settings: Settings,
    *,
    workers: int = 1,
    devices: tuple[str, ...] = (),
    on_row: Callable[[Row, int, int, float], None] | None = None,
) -> tuple[Row, ...]:
    """Returns a row for each task, in order; those that `folder` holds already are not made again.

    Args:
        tasks: what to run.
        folder: results, stores and shrunk copies go there.
        settings: how.
        workers: tasks at a time, on each device where there are some. There they take turns; on a CPU times are taken
            while others run, which adds noise.
        devices: numbers of the GPUs to use; empty for the first.
        on_row: called with each new row, how many are done, how many there are, and the seconds that are left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / RESULTS
    keys = {task.name: key_of(task, settings) for task in tasks}
    known = {r.task: r for r in rows.read(path) if r.state != "failed" and r.key == keys.get(r.task)}
    missing = [task for task in tasks if task.name not in known]
    start_s = time.monotonic()
    room = quick.places(devices, workers, folder) if settings.device == "cuda" and missing else None
    made = pipeline.run(
        missing,
        lambda task: ready(task, folder, settings),
        lambda task, prepared: finished(task, folder, settings, prepared, room),
        workers=workers * max(1, len(devices)),
        # On a CPU what runs ahead would disturb the times.
        ahead=pipeline.AHEAD if room else 0,
    )
    for done, row in enumerate(made, 1):
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


def ready(task: Task, folder: Path, settings: Settings) -> Ready | Row:
    """Returns a task made ready, or its row where it ends here."""
    begun_s = time.monotonic()
    home = folder / "tasks" / task.name
    try:
        if why := _refusal(task, settings):
            return _row(task, settings, begun_s, "unusable", why)
        source, captured, evaluation, cap = usable(task, home, settings)
        weak: tuple[str, ...] = ()
        if settings.admit and not task.gradients:
            small = source
            if settings.device == "cuda":
                # Answers without work are tried on a copy that a CPU can hold.
                small = str(shrinking.write(Path(source), home / "small", cap or SMALL_CAP))
            weak = weaknesses(small, evaluation=evaluation)
        seconds = time.monotonic() - begun_s
        return Ready(source=source, captured=captured, evaluation=evaluation, cap=cap, weak=weak, seconds=seconds)
    except UserError as error:
        return _row(task, settings, begun_s, "unusable", str(error))
    except Exception as error:  # noqa: BLE001  (one task must not end the run)
        return _row(task, settings, begun_s, "failed", _told(error))


def finished(task: Task, folder: Path, settings: Settings, prepared: Ready | Row, room: quick.Places | None) -> Row:
    """Returns what becomes of a task that was made ready; whatever goes wrong is a row."""
    if isinstance(prepared, Row):
        return prepared
    about: dict[str, Any] = {"evaluation": prepared.evaluation, "cap": prepared.cap, "weak": prepared.weak}
    with room.taken(prepared.captured.problem) if room else contextlib.nullcontext() as judge:
        begun_s = time.monotonic() - prepared.seconds
        try:
            target = room.target if room else api.target_named(settings.device)
            more: dict[str, Any] = {"target": target, "out": folder / "tasks" / task.name}
            if judge:
                more["judge"] = judge
            if task.solution:
                record = api.judge_captured(prepared.captured, task.solution, policy=settings.policy, **more)
                about |= {"template": "solution", "outcome": outcome_name(record), **speedups(record)}
                state, why = of_record(record)
                return _row(task, settings, begun_s, state, why, **about)
            budget_s = settings.budget_s
            if settings.task_s:
                budget_s = min(budget_s, quick.SEARCH_SHARE * settings.task_s)
                more["parts"] = quick.parts(target, settings.task_s)
            result = api.optimize_captured(prepared.captured, budget_s=budget_s, seed=settings.seed, **more)
            if result.stopped == "interrupted":
                # An unfinished search is no result: the same command goes on with this task.
                raise KeyboardInterrupt
            state, why = of_result(result)
            return _row(task, settings, begun_s, state, why, **about, **gains(result, prepared.captured))
        except UserError as error:
            return _row(task, settings, begun_s, "unusable", str(error), **about)
        except Exception as error:  # noqa: BLE001  (one task must not end the run)
            return _row(task, settings, begun_s, "failed", _told(error), **about)


def _row(task: Task, settings: Settings, begun_s: float, state: State, why: str, **more: Any) -> Row:
    return Row(
        task=task.name, level=task.level, device=settings.device, state=state, why=" ".join(why.split()),
        claimed=task.claimed, published=task.published, group=task.group, key=key_of(task, settings),
        seconds=round(time.monotonic() - begun_s, 1), **more,
    )  # fmt: skip


def _refusal(task: Task, settings: Settings) -> str:
    if task.refused or not task.solution:
        return task.refused
    path = Path(task.solution)
    return solutions.refusal(path.read_text(encoding="utf-8", errors="replace"), settings.device)


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, KernelwrightError) else f"{type(error).__name__}: {error}"


def usable(task: Task, home: Path, settings: Settings) -> tuple[str, Capture, bool, int]:
    """Returns a task's file, what it captures to, whether in evaluation mode, and the cap on its sizes.

    For a GPU, whose tasks may have sizes that a host has neither memory nor patience for, a small copy is checked on
    the CPU and the task itself is traced without contents.

    Raises:
        UserError: where it can be used in no way that was tried.
    """
    large = settings.device == "cuda" and not settings.cap and not task.gradients
    cap = SMALL_CAP if large else settings.cap
    while True:
        source = shrinking.write(Path(task.path), home / f"cap{cap}", cap) if cap else Path(task.path)
        try:
            found, captured, evaluation = _captured(
                source, home, "checked" if large else "whole", copies=not task.solution
            )
        except SourceError:
            # Sizes that no longer fit each other; a larger cap changes fewer of them.
            if not cap or cap >= LARGEST_CAP:
                raise
            cap *= 2
            continue
        if not large:
            return str(found), captured, evaluation, cap
        whole = variants.as_a_function(Path(task.path), home / "copy") if found != source else Path(task.path)
        return str(whole), capture.load(str(whole), evaluation=evaluation, form="outlined"), evaluation, 0


def _captured(source: Path, home: Path, form: capture.Form, *, copies: bool) -> tuple[Path, Capture, bool]:
    """Returns the file that was taken (the task's, or a copy that is a function of its inputs), and its capture."""
    try:
        return source, capture.load(str(source), deadline_s=CAPTURE_S, form=form), False
    except UserError as error:
        refused, said = error, str(error)
    if copies and any(words in said for words in variants.WANTED):
        copy = variants.as_a_function(source, home / source.parent.name / "copy")
        with contextlib.suppress(UserError):
            return copy, capture.load(str(copy), deadline_s=CAPTURE_S, form=form), False
    if not any(word in said for word in IN_EVALUATION):
        raise refused
    return source, capture.load(str(source), evaluation=True, deadline_s=CAPTURE_S, form=form), True


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
    return ("baseline" if result.report is not None or result.baselines else "no candidate"), result.why


def gains(result: Result, captured: Capture) -> dict[str, Any]:
    """Returns the speedups of an optimisation's best kernel and what it is."""
    free = free_speedup(result.baselines)
    if result.report is None or result.best is None:
        return {"free": free, "baseline": result.baseline}
    bound = {b.name for step in result.best.plan.steps for b in step.arguments}
    ignored = {s.name for s in captured.problem.inputs if s.name not in bound} | set(result.best.independent)
    return {
        **speedups(result.report),
        "template": result.best.template,
        "rewrites": result.best.rewrites,
        "independent": tuple(sorted(ignored)),
        "free": free,
        "parts": tuple((g.name, g.factor) for g in parts_of(result)),
    }


def free_speedup(baselines: tuple[Measurement, ...]) -> float | None:
    """Returns how much faster than eager the fastest baseline is, None where eager was not timed."""
    first = next((m.mode for m in baselines), "")
    times = {m.contender: m.median_us for m in baselines if m.mode == first}
    eager = next((us for name, us in times.items() if name.endswith("eager") and ":" not in name), None)
    return eager / min(times.values()) if eager else None


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
