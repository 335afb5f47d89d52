"""`kernelwright doctor`: what this machine has and what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.text import Text

from kernelwright import codec, doctor
from kernelwright.commands.options import out
from kernelwright.errors import UserError
from kernelwright.store.salvage import salvage


@click.command(name="doctor", short_help="Say what this machine has and what is missing.")
@click.option("--store", type=click.Path(path_type=Path), help="Check this store file as well.")
@click.option(
    "--salvage",
    "fresh",
    type=click.Path(path_type=Path),
    help="Copy what can be trusted of --store into this new file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor_command(store: Path | None, fresh: Path | None, as_json: bool) -> None:
    """Say what this machine has, what is missing, and the command that mends it.

    Exit status 1 when something that kernelwright needs is missing.
    """
    if fresh:
        if store is None:
            raise UserError("--salvage needs the damaged file", "name it with --store")
        saved = salvage(store, fresh)
        out.print(
            f"{fresh}: {saved.records} records, {saved.values} values, {saved.blobs} blobs; {saved.lost} rows were lost"
        )
        return
    found = doctor.findings(store)
    if as_json:
        click.echo(json.dumps([codec.to_data(finding) for finding in found], indent=1))
    else:
        marks = {"ok": Text("ok", "green"), "optional": Text("--", "yellow"), "missing": Text("no", "bold red")}
        for finding in found:
            out.print(marks[finding.state], f"{finding.subject:<10} {finding.found}", soft_wrap=True)
            if finding.fix:
                out.print(f"   fix: {finding.fix}", soft_wrap=True, markup=False)
    sys.exit(1 if any(finding.state == "missing" for finding in found) else 0)
