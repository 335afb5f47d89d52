"""`kernelwright bench`: runs the tasks of a public benchmark and writes rows, a table and plots.

Not here: running (bench/running.py) and the page (bench/page.py).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from kernelwright.bench import flashinfer, page, robust, solutions, tasks
from kernelwright.bench.rows import Row
from kernelwright.bench.running import RESULTS, Settings, run
from kernelwright.commands.options import DEVICES, EFFORTS, Seconds, err, out
from kernelwright.errors import UserError


@click.group(name="bench", short_help="Run a public benchmark's tasks from your clone of it.")
def bench_command() -> None:
    """Run a public benchmark's tasks from your own clone of it.

    Tasks are optimized, or with --solutions somebody else's kernels for them are judged. The same command goes on
    where it was stopped. The folder of --out gets results.jsonl, README.md and two plots.
    """


def shared(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns what adds the options of every benchmark."""
    usual = Path("kernelwright-out") / name
    options = (
        click.option("--root", type=click.Path(exists=True, path_type=Path), required=True, help="The clone's folder."),
        click.option("--task", "only", default="", help="Only tasks with this text in their names."),
        click.option(
            "--solutions", "solved", type=click.Path(exists=True, path_type=Path), metavar="PATH",
            help="Judge the kernels in this folder, or this released file, instead.",
        ),
        click.option("--device", type=click.Choice(DEVICES), default="cpu", show_default=True),
        click.option("--budget", type=Seconds(), default="30s", show_default=True, help="Searching, for each task."),
        click.option("--cap", type=click.IntRange(16), help="Shrink sizes to at most this  [default: as published]"),
        click.option(
            "--policy", type=click.Choice(EFFORTS), default="report", show_default=True,
            help="How thoroughly solutions are judged.",
        ),
        click.option(
            "--workers", type=click.IntRange(1), default=1, show_default=True,
            help="Tasks at a time, on each GPU where there are several; they take turns at it.",
        ),
        click.option("--devices", default="", metavar="0,1,...", help="GPUs to use  [default: the first]"),
        click.option(
            "--task-seconds", "task_s", type=click.FloatRange(1.0), metavar="S",
            help="What a task may take at a device; it is then judged less thoroughly.",
        ),
        click.option("--no-admit", is_flag=True, help="Do not look for tasks that answers without work would pass."),
        click.option("--out", "folder", type=click.Path(path_type=Path), default=usual, show_default=True),
    )  # fmt: skip

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@bench_command.command(name="kernelbench")
@click.option("--level", "levels", default="1,2,3", show_default=True, help="Which levels.")
@shared("kernelbench")
def kernelbench_command(
    root: Path, only: str, levels: str, solved: Path | None, folder: Path, **settings: Any
) -> None:  # fmt: skip
    """Run KernelBench's tasks.

    --solutions is a folder of files such as level1/19_relu.py, or a file of the CUDA-L1 release.
    """
    try:
        chosen = tuple(int(level) for level in levels.split(","))
    except ValueError:
        raise UserError(f"{levels!r} are no levels", "write --level 1,2,3") from None
    todo = tasks.kernelbench(root, levels=chosen, only=only)
    todo = solutions.with_solutions(todo, solved, folder / "solutions") if solved else todo
    _run("KernelBench", todo, folder, settings)


@bench_command.command(name="robust-kbench")
@click.option(
    "--direction", type=click.Choice((*robust.DIRECTIONS, "both")), default="both", show_default=True,
    help="backward: gradients of all inputs and parameters, together with the forward pass.",
)  # fmt: skip
@click.option("--every-setting", "every", is_flag=True, help="A task for each setting, not only for the timed one.")
@shared("robust-kbench")
def robust_command(
    root: Path, only: str, direction: str, every: bool, solved: Path | None, folder: Path, **settings: Any
) -> None:  # fmt: skip
    """Run robust-kbench's tasks, forward and backward, beside the speedups that its authors publish.

    --solutions is a folder such as the clone's `highlighted`: TASK/forward/kernel.cu, each a torch extension.
    """
    directions = robust.DIRECTIONS if direction == "both" else (direction,)
    todo = robust.tasks(root, folder / "sources", directions=directions, every=every, only=only)
    todo = robust.with_kernels(todo, solved, folder / "solutions") if solved else todo
    _run("robust-kbench", todo, folder, settings)


@bench_command.command(name="flashinfer-bench")
@click.option(
    "--workloads", "most", type=click.IntRange(0), default=3, show_default=True,
    help="The most of each definition, spread over all; 0 for all.",
)  # fmt: skip
@shared("flashinfer-bench")
def flashinfer_command(
    root: Path, only: str, most: int, solved: Path | None, folder: Path, **settings: Any
) -> None:  # fmt: skip
    """Run the workloads of a flashinfer-bench trace set.

    --solutions is the trace set's `solutions`, or one JSON file of it; claims come from its `traces`.
    """
    todo = flashinfer.tasks(root, folder / "sources", only=only, most=most)
    todo = flashinfer.with_solutions(todo, solved, folder / "solutions", root=root) if solved else todo
    _run("flashinfer-bench", todo, folder, settings)


def _run(title: str, todo: tuple[tasks.Task, ...], folder: Path, given: dict[str, Any]) -> None:
    settings = Settings(
        device=given["device"], budget_s=given["budget"], cap=given["cap"] or 0, admit=not given["no_admit"],
        policy=given["policy"], task_s=given["task_s"] or 0.0,
    )  # fmt: skip
    devices = tuple(filter(None, given["devices"].split(",")))
    found = run(todo, folder, settings, workers=given["workers"], devices=devices, on_row=_say)
    command = f"kernelwright {' '.join(map(shlex.quote, sys.argv[1:]))}"
    write(found, folder, title=title, command=command)
    out.print(_table(found))
    for text in (*page.summary("all tasks", found)[:1], *page.claims(found)[2:3]):
        out.print(text, markup=False, soft_wrap=True)
    out.print(f"{folder / RESULTS}, {folder / 'README.md'}", markup=False, soft_wrap=True)


def write(rows: tuple[Row, ...], folder: Path, *, title: str, command: str) -> None:
    """Writes the page and its plots."""
    (folder / "README.md").write_text(page.markdown(rows, title=title, command=command), encoding="utf-8")
    (folder / "distribution.svg").write_text(page.distribution(rows), encoding="utf-8")
    (folder / "fast_p.svg").write_text(page.curve(rows), encoding="utf-8")


def _say(row: Row, done: int, total: int, left_s: float) -> None:
    times = f" {row.eager:.2f}x" if row.eager else ""
    err.print(f"{done}/{total} {row.task}: {row.state}{times} ({row.seconds:.0f} s; about {left_s / 60:.0f} min left)")


def _table(rows: tuple[Row, ...]) -> Table:
    table = Table(show_edge=False)
    for column in ("task", "state", "eager", "best baseline", "kernel", "why"):
        table.add_column(column)
    for row in rows:
        times = [f"{number:.2f}x" if number else "" for number in (row.eager, row.best)]
        times[0] += f" ({row.claimed:.2f}x claimed)" if row.claimed else ""
        table.add_row(row.task, row.state, times[0], f"{times[1]} {row.baseline}".strip(), row.template, row.why[:80])
    return table
