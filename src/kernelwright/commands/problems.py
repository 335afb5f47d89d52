"""`kernelwright problems`: the built-in problems, and which tasks of a folder are worth judging on."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import click
from rich.table import Table

from kernelwright import environment, problems
from kernelwright.commands.options import Seconds, err, out
from kernelwright.console import Progress, admission_table
from kernelwright.run import admitting


@click.command(name="problems")
@click.option(
    "--admit",
    "folder",
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR",
    help="Instead: try answers without work on every task file in DIR, and say where they would pass.",
)
@click.option("--eval", "evaluation", is_flag=True, help="With --admit: call .eval() on the modules before use.")
@click.option(
    "--deadline", type=Seconds(), default="120s", show_default=True, help="With --admit: the most one file may take."
)
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def problems_command(folder: Path | None, evaluation: bool, deadline: float, as_json: bool) -> None:
    """List the built-in problems, or say which tasks of a folder are worth judging on.

    A task is weak where zeros, a constant, a copy of an input, its first row, a mean, another draw's answer or
    rounded operands would pass for its answer. Exit status 1 when a task of the folder is weak or cannot be used.
    """
    if folder:
        _admit(folder, evaluation, deadline, as_json=as_json)
        return
    entries = [problems.get(name) for name in problems.names()]
    if as_json:
        click.echo(
            json.dumps(
                [{n: getattr(e, n) for n in ("name", "group", "description", "model")} for e in entries], indent=1
            )
        )
        return
    table = Table(show_edge=False)
    for column in ("name", "group", "what", "shape from"):
        table.add_column(column)
    for entry in entries:
        table.add_row(entry.name, entry.group, entry.description, entry.model)
    out.print(table)


def _admit(folder: Path, evaluation: bool, deadline_s: float, *, as_json: bool) -> None:
    files = admitting.task_files(folder)
    found = []
    with (
        # What was found so far is said where somebody does not want to wait for the rest.
        contextlib.suppress(KeyboardInterrupt),
        Progress(err) as progress,
        admitting.Admissions(threads=environment.threads(), deadline_s=deadline_s, evaluation=evaluation) as admissions,
    ):
        for file, admission in admissions.every(tuple(map(str, files)), on_event=progress.step):
            found.append((file, admission))
    if as_json:
        click.echo(json.dumps([admitting.plain(file, admission) for file, admission in found], indent=1))
    else:
        out.print(admission_table(found))
    if len(found) < len(files):
        err.print(f"interrupted after {len(found)} of {len(files)} tasks")
        sys.exit(130)
    sys.exit(1 if any(admission.state in ("weak", "refused") for _, admission in found) else 0)
