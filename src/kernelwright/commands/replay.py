"""`kernelwright replay`: a run with models again, from its stored replies and without a network.

Not here: how a run goes (run).
"""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from kernelwright import api, codec, run
from kernelwright.commands.options import Seconds, err, out
from kernelwright.console import Progress
from kernelwright.run.models import replaying
from kernelwright.store import Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import digest


@click.command(name="replay", short_help="Repeat a run with models from its stored replies.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--run", "number", type=click.IntRange(1), help="Its number  [default: the latest with models]")
@click.option("--list", "listed", is_flag=True, help="Only print the trajectory: each call and what became of it.")
@click.option(
    "--into", type=click.Path(path_type=Path), help="Judge everything anew, into this folder  [default: nothing anew]"
)
@click.option("--budget", type=Seconds(), default="1h", show_default=True, help="Time for searching.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def replay_command(
    folder: Path, number: int | None, listed: bool, into: Path | None, budget: float, as_json: bool
) -> None:
    """Repeat a run with models from the replies that FOLDER (an --out folder) holds; nothing is asked or paid.

    Without --into the run's own records answer as well, and the same decisions must come out. With --into each
    kernel is judged again on this machine, and the replies are given in the order in which they came.
    """
    with Store(folder / api.STORE, create=False) as store, Progress(err, budget_s=budget) as progress:
        chosen = replaying.find_run(store, number)
        if listed:
            _list(store, chosen.problem)
            return
        capture = next(c for c in store.values("Capture") if digest(c.problem) == chosen.problem)
        target = store.get(chosen.target)
        if into is None:
            authors = replaying.again(store, chosen)
            result = run.optimize(
                capture, target, store=store, budget_s=budget, seed=chosen.seed, authors=authors,
                on_event=progress.event,
            )  # fmt: skip
        else:
            authors = replaying.anew(store, chosen)
            with Store(into / api.STORE) as fresh:
                result = run.optimize(
                    capture, api.target_of(target), store=fresh, budget_s=budget, seed=chosen.seed, authors=authors,
                    on_event=progress.event,
                )  # fmt: skip
            run.write_best(result, into)
    if as_json:
        click.echo(codec.dumps(result))
        return
    for note in result.notes:
        out.print(Text(f"note: {note}", style="dim"), soft_wrap=True)
    out.print(f"{result.judged} judged anew, {result.found} found in the store", soft_wrap=True)
    out.print(Text(f"{result.why[:1].upper()}{result.why[1:]}.", "bold"), soft_wrap=True)


def _list(store: Store, problem: str) -> None:
    trajectories = Trajectories(store)
    attempts = {attempt.request: attempt for attempt in trajectories.attempts(problem=problem)}
    for exchange in trajectories.exchanges(problem=problem):
        attempt = attempts.get(digest(exchange.request))
        fate = ""
        if attempt is not None:
            fate = attempt.fault or (attempt.candidate[:15] if attempt.candidate else "no kernel was asked for")
            fate += f"  ({attempt.intent})" if attempt.intent else ""
        reply = exchange.reply
        head = f"{exchange.id:4d} {exchange.request.kind:9} {reply.model} {reply.output_tokens:6,} tokens"
        out.print(f"{head} ${reply.cost_usd:.3f}  {fate}", markup=False, soft_wrap=True)
