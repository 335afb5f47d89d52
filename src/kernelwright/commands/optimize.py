"""`kernelwright optimize`: from a source to the fastest kernel that survives the judge.

What takes long to import is imported when the command runs, after its first line is shown.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kernelwright.commands.authors import author_options, authors_of
from kernelwright.commands.options import DEVICES, MOST_SEED, Seconds, err, out, source_options
from kernelwright.console import Progress


@click.command(name="optimize")
@source_options
@click.option("--device", type=click.Choice(DEVICES), default="cpu", show_default=True)
@click.option(
    "--budget",
    type=Seconds(),
    default="60s",
    show_default=True,
    help="Time for searching: 60s, 5m, 1h; preparing and the final judgements come on top.",
)
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), help="Where results go  [default: kernelwright-out/NAME]"
)
@click.option(
    "--seed", type=click.IntRange(0, MOST_SEED), help="Fixes what is proposed; the default goes on from the last run."
)
@author_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def optimize_command(
    source: str, options: dict[str, Any], device: str, budget: float, folder: Path | None, seed: int | None,
    authoring: dict[str, Any], as_json: bool,
) -> None:  # fmt: skip
    """Find the fastest kernel for SOURCE that survives the judge.

    SOURCE is a built-in problem's name (see `kernelwright problems`), a Python file that defines Model, get_inputs
    and get_init_inputs, or file.py:function with one --input for each argument.

    With --model or --author-command kernels are also written by language models, with what the experts found as seeds.

    Ctrl-C keeps everything judged so far; the same command goes on from there.
    """
    authors = authors_of(authoring, device)
    with Progress(err, budget_s=budget) as progress:
        progress.step(f"reading {source}")
        from kernelwright import api

        result = api.optimize(
            source, device=device, budget_s=budget, out=folder, seed=seed, authors=authors,
            on_step=progress.step, on_event=progress.event, **options,
        )  # fmt: skip
    from kernelwright.commands.outcomes import HAND, give

    folder = folder or Path("kernelwright-out") / result.problem.name
    give(result, folder, as_json=as_json)
    if not result.rows and result.stopped == "finished" and not as_json:
        out.print(HAND, soft_wrap=True)
    if result.stopped == "interrupted":
        sys.exit(130)
