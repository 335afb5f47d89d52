"""What commands print when they are done: a result with its page, or a record."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import click
from rich.text import Text

from kernelwright import codec, report
from kernelwright.commands.options import out
from kernelwright.console import answer_tables, contender_table
from kernelwright.errors import UserError
from kernelwright.run.outputs import FOLDER, RUNNER_UP
from kernelwright.run.result import Result, busy_note, verdict_of
from kernelwright.types import Failure, Record

PAGE = "report.html"
HAND = "next: write a kernel by hand; `kernelwright show ... --skeleton` starts one, `kernelwright judge` takes it"


def give(result: Result, folder: Path, *, as_json: bool, page: Path | None = None, best: bool = True) -> None:
    """Prints a result and writes its page.

    Raises:
        UserError: when the page cannot be written.
    """
    page = page or folder / PAGE
    try:
        page.write_text(report.html(result, version=metadata.version("kernelwright")), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{page} cannot be written: {error.strerror}", "name another page with --html") from error
    if as_json:
        click.echo(codec.dumps(result))
        return
    for part in answer_tables(result, report.lines(result.rows), width=out.width):
        out.print(part, soft_wrap=isinstance(part, Text))
    if best and (folder / FOLDER).is_dir():
        out.print(f"kernel: {folder / FOLDER}", soft_wrap=True)
    elif best and (folder / RUNNER_UP).is_dir():
        out.print(f"kernel: {folder / RUNNER_UP} (not shown to be faster than every baseline)", soft_wrap=True)
    out.print(f"report: {page}", soft_wrap=True)


def print_record(record: Record) -> None:
    """Prints a record, check by check."""
    if isinstance(record.outcome, Failure):
        where = f" at {record.outcome.location}" if record.outcome.location else ""
        out.print(
            Text(f"FAILED {record.outcome.stage}, {record.outcome.kind}{where}: {record.outcome.message}", "bold red"),
            soft_wrap=True,
        )
        if record.outcome.detail:
            out.print(record.outcome.detail.strip(), markup=False)
        return
    for check in record.outcome.verdict.checks:
        out.print(
            Text("held  ", "green") if check.passed else Text("FAILED", "bold red"),
            f"{check.name}: {check.evidence}",
            soft_wrap=True,
        )
    if record.passed and not record.outcome.measurements:
        for note in record.outcome.notes:
            out.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
        out.print(Text("The kernel survives the emulated judge; no time was taken.", "bold"))
    elif record.passed:
        out.print(contender_table(report.contenders(record), width=out.width))
        out.print(Text(report.noise_text(record), style="dim"))
        for note in filter(None, (*record.outcome.notes, busy_note(record))):
            out.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
        _, why = verdict_of(record, "the kernel")
        out.print(Text(f"{why[:1].upper()}{why[1:]}.", "bold"))
