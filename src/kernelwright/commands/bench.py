"""`kernelwright bench`: runs the tasks of a public benchmark and writes rows, a table and plots.

Not here: running (bench/running.py) and the page (bench/page.py).
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click
from rich.table import Table

from kernelwright.api import DEVICES
from kernelwright.bench import page, tasks
from kernelwright.bench.rows import Row
from kernelwright.bench.running import RESULTS, Settings, run
from kernelwright.commands.options import Seconds, err, out
from kernelwright.errors import UserError


@click.group(name="bench", short_help="Run a public benchmark's tasks from your clone of it.")
def bench_command() -> None:
    """Run a public benchmark's tasks from your own clone of it."""


@bench_command.command(name="kernelbench")
@click.option("--root", type=click.Path(exists=True, path_type=Path), required=True, help="The clone's folder.")
@click.option("--level", "levels", default="1,2,3", show_default=True, help="Which levels.")
@click.option("--task", "only", default="", help="Only tasks with this text in their name, such as level2/14_.")
@click.option(
    "--solutions", type=click.Path(exists=True, path_type=Path), help="Judge the kernels in this folder instead."
)
@click.option("--device", type=click.Choice(DEVICES), default="cpu", show_default=True)
@click.option("--budget", type=Seconds(), default="30s", show_default=True, help="Searching, for each task.")
@click.option("--cap", type=click.IntRange(16), help="Shrink sizes to at most this  [default: the published sizes]")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Tasks at a time.")
@click.option("--no-admit", is_flag=True, help="Do not look for tasks that answers without work would pass.")
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), default=Path("kernelwright-out/kernelbench"), show_default=True
)
def kernelbench_command(
    root: Path, levels: str, only: str, solutions: Path | None, device: str, budget: float, cap: int | None,
    workers: int, no_admit: bool, folder: Path,
) -> None:  # fmt: skip
    """Run KernelBench's tasks: optimize each one, or judge somebody else's kernels for them.

    The same command goes on where it was stopped. The folder of --out gets results.jsonl, README.md and two plots.
    """
    try:
        chosen = tuple(int(level) for level in levels.split(","))
    except ValueError:
        raise UserError(f"{levels!r} are no levels", "write --level 1,2,3") from None
    todo = tasks.kernelbench(root, levels=chosen, only=only)
    todo = tasks.with_solutions(todo, solutions) if solutions else todo
    settings = Settings(device=device, budget_s=budget, cap=cap or 0, admit=not no_admit)
    found = run(todo, folder, settings, workers=workers, on_row=_say)
    command = f"kernelwright {' '.join(map(shlex.quote, sys.argv[1:]))}"
    write(found, folder, title="KernelBench", command=command)
    out.print(_table(found))
    for text in page.summary("all tasks", found)[:1]:
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
        table.add_row(row.task, row.state, times[0], f"{times[1]} {row.baseline}".strip(), row.template, row.why[:80])
    return table
