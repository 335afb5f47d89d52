"""`kernelwright ablate`: strategies compared at equal budget.

Not here: the strategies (search), and driving them (run/ablating.py).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from kernelwright import api, capture, codec, experts, run
from kernelwright.commands.authors import author_options, authors_of
from kernelwright.commands.options import err, out, source_options
from kernelwright.console import Progress
from kernelwright.errors import UserError
from kernelwright.run.ablating import WITH_AUTHORS, WITHOUT_AUTHORS, Trial, ablate, summaries
from kernelwright.store import Store


@click.command(name="ablate", short_help="Compare strategies on SOURCE at equal budget.")
@source_options
@click.option(
    "--strategy", "strategies", multiple=True, metavar="NAME",
    help="random, tune, evolve, authors, authors-contrast, or MODULE:NAME of your own; can be repeated  [default: the "
    "first three; with --model all]",
)  # fmt: skip
@click.option("--each", "limit", type=click.IntRange(4), default=48, show_default=True, help="Proposals of one trial.")
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Trials of each strategy.")
@click.option("--device", type=click.Choice(api.DEVICES), default="cpu", show_default=True)
@click.option("--out", "folder", type=click.Path(path_type=Path), help="[default: kernelwright-out/ablate-NAME]")
@author_options
@click.option("--json", "as_json", is_flag=True, help="Print every trial as JSON.")
def ablate_command(
    source: str, options: dict[str, Any], strategies: tuple[str, ...], limit: int, seeds: int, device: str,
    folder: Path | None, authoring: dict[str, Any], as_json: bool,
) -> None:  # fmt: skip
    """Compare strategies on SOURCE: each makes the same number of proposals, with several seeds.

    Records are shared through the store, so that a candidate is judged once, whoever asks for it. `authors` are models
    without contrasted kernels in their prompts, `authors-contrast` the same with them.
    """
    authored = authors_of(authoring, device) is not None
    if "" not in sys.path:
        sys.path.insert(0, "")  # a strategy of one's own lies where one works
    names = strategies or (WITHOUT_AUTHORS + (WITH_AUTHORS if authored else ()))
    with Progress(err) as progress:
        captured = capture.load(source, on_event=progress.step, **options)
        if captured.graph is None:
            raise UserError(f"{captured.problem.name}: {captured.reason}", "there are no templates to compare with")
        target = api.target_named(device)
        parts = run.parts_for(target)
        templates = experts.templates(captured.problem, captured.graph, target=target).templates
        where = folder or Path("kernelwright-out") / f"ablate-{captured.problem.name}"
        with Store(where / api.STORE) as store:
            store.put(captured)
            trials = tuple(
                ablate(
                    captured.problem, target, templates, strategies=names, judgements=limit, seeds=tuple(range(seeds)),
                    store=store, judge=parts.judge, screen=parts.screen, measure=parts.measure,
                    authors=lambda: authors_of(authoring, device), on_event=progress.event,
                )
            )  # fmt: skip
    if as_json:
        click.echo(json.dumps([codec.to_data(trial) for trial in trials], indent=1))
    else:
        out.print(_table(captured.problem.name, trials, limit))


def _table(name: str, trials: tuple[Trial, ...], limit: int) -> Table:
    table = Table(title=f"{name}: best measured speed against eager after {limit} proposals", show_edge=False)
    for column in ("strategy", "median", "over seeds", "90 % after", "tokens", "$"):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    for one in summaries(trials):
        spread = f"{one.low:.2f} to {one.high:.2f}"
        table.add_row(one.strategy, f"{one.best:.2f}x", spread, str(one.reached), f"{one.tokens:,}", f"{one.usd:.2f}")
    return table
