"""`kernelwright verify`: judges a stored record again and says whether it holds.

Not here: finding it (run/recollect.py) and comparing (run/verify.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from rich.text import Text

from kernelwright import codec, languages
from kernelwright.commands.options import err, out
from kernelwright.console import Progress
from kernelwright.judge.policies import POLICIES, policies_for
from kernelwright.run.recollect import recollect
from kernelwright.run.verify import Verification, verify
from kernelwright.types import Target, digest


@click.command(name="verify", short_help="Judge a stored RECORD again, and say whether it holds.")
@click.argument("record")
@click.option(
    "--policy", type=click.Choice(sorted(POLICIES)), help="How thoroughly  [default: the record's own policy]"
)
@click.option(
    "--out", "folders", type=click.Path(path_type=Path), multiple=True,
    help="A result folder whose store is searched for a digest  [default: kernelwright-out/*]",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
def verify_command(record: str, policy: str | None, folders: tuple[Path, ...], as_json: bool) -> None:
    """Judge a stored RECORD again, here, and say whether it holds.

    RECORD is a folder that `optimize` wrote (best or runner-up), its evidence.json, or the digest of a record or
    candidate (six digits are enough). It is judged on the kind of device that it was taken on. The verdict must come
    out again everywhere; the speedups where machine, tools and policy are those of the record, within both intervals
    and the noise. Exit status 0: it holds, 1: it does not.
    """
    remembered = recollect(record, folders=folders)
    target = _target_like(remembered.target)
    with Progress(err) as progress:
        chosen = policies_for(target)[policy] if policy else None
        found = verify(remembered, target, policy=chosen, on_event=progress.event)
    if as_json:
        click.echo(json.dumps(_plain(found), indent=1))
    else:
        _print(found)
    sys.exit(0 if found.holds else 1)


def _target_like(target: Target) -> Target:
    """Returns the same kind of device, as it is here."""
    if languages.is_emulated(target):
        return languages.emulated_target()
    return languages.detect_device_target() if target.kind == "cuda" else languages.detect_target()


def _plain(found: Verification) -> dict[str, object]:
    return {
        "holds": found.holds,
        "problem": found.remembered.problem.name,
        "candidate": digest(found.remembered.candidate),
        "checks": [codec.to_data(check) for check in found.checks],
        "notes": list(found.notes),
        "recorded": codec.to_data(found.remembered.record),
        "again": codec.to_data(found.again),
    }


def _print(found: Verification) -> None:
    remembered = found.remembered
    where = f"{remembered.target.device or remembered.target.architecture}, {remembered.record.when}"
    out.print(f"{remembered.problem.name}, judged on {where} ({remembered.origin})", markup=False, soft_wrap=True)
    for check in found.checks:
        mark = Text("holds ", "green") if check.passed else Text("FAILED", "bold red")
        out.print(mark, f"{check.name}: {check.evidence}", soft_wrap=True)
    for note in found.notes:
        out.print(Text("not compared  ", "yellow"), note, soft_wrap=True)
    out.print(Text("The record holds." if found.holds else "The record does not hold.", "bold"))
