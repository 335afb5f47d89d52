"""`kernelwright mutate`: plants bugs in a kernel and says which of them a test, or the judge, notices.

Not here: planting (mutation), judging (run/mutate.py), running a user's test (mutation/against.py).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from kernelwright import api, capture, languages, mutation
from kernelwright.commands.options import MOST_SEED, Seconds, err, out
from kernelwright.console import Progress
from kernelwright.errors import UserError
from kernelwright.mutation.against import Project, try_against
from kernelwright.mutation.score import STATES, Outcome, Score
from kernelwright.run.mutate import judge_mutants
from kernelwright.store import Store
from kernelwright.types import SourceFile

STYLES = {"killed": "green", "survived": "bold red", "equivalent": "dim", "invalid": "dim"}


@click.command(name="mutate", short_help="Plant bugs in KERNEL and say which of them your test notices.")
@click.argument("kernel", type=click.Path(path_type=Path))
@click.option("--source", help="Let the judge look for the bugs; KERNEL solves this SOURCE.")
@click.option("--against", "command", metavar="CMD", help="Let your own test look for them: a shell command.")
@click.option("--list", "only_list", is_flag=True, help="Only list the bugs.")
@click.option("--limit", type=click.IntRange(1), help="At most so many, with every operator among them.")
@click.option(
    "--seed", type=click.IntRange(0, MOST_SEED), default=0, show_default=True, help="Of the draw that --limit makes."
)
@click.option(
    "--operator", "operators", multiple=True, metavar="NAME", help="Only this class of bugs; can be repeated."
)
@click.option(
    "--language", type=click.Choice(mutation.LANGUAGES), help="Of KERNEL  [default: what its name ends with says]"
)
@click.option("--eval", "evaluation", is_flag=True, help="With --source: call .eval() on the module before use.")
@click.option("--input", "inputs", multiple=True, metavar="SPEC", help="With --source: as for `optimize`.")
@click.option("--root", type=click.Path(path_type=Path), help="With --against: the folder to copy  [default: this one]")
@click.option("--timeout", type=Seconds(), help="With --against: for each bug  [default: ten times the first run]")
@click.option("--out", "folder", type=click.Path(path_type=Path), help="With --source: keep records here and go on.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
def mutate_command(
    kernel: Path, source: str | None, command: str | None, only_list: bool, limit: int | None, seed: int,
    operators: tuple[str, ...], language: str | None, evaluation: bool, inputs: tuple[str, ...], root: Path | None,
    timeout: float | None, folder: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Plant bugs in KERNEL, one at a time, and say which of them are noticed.

    KERNEL is CUDA (.cu), C++ (.cpp) or a Python file with Triton or cuTile kernels. With --source each bug goes
    before the judge; with --against your own command runs in a copy of the project that holds the broken kernel,
    and notices it by an exit status other than 0. The original is never changed.

    A comment `// kw: equivalent OPERATOR: why` on a line says that this change makes no difference there.
    Exit status 0: everything was noticed, 1: something survived.
    """
    file = _read(kernel)
    planted = mutation.mutants(
        file, language or mutation.language_of(file.path), operators=operators, limit=limit, seed=seed
    )
    if only_list or not (source or command):
        if not only_list:
            raise UserError("nothing says who looks for the bugs", "give --source or --against, or --list to list them")
        _print_list(planted, as_json=as_json)
        return
    if source and command:
        raise UserError("--source and --against cannot be used together", "run the command twice")
    if not planted:
        raise UserError(f"no operator can change anything in {kernel}", "`kernelwright mutate --list` shows what can")
    begun = time.monotonic()
    told = _Told(len(planted))
    if command:
        project = Project(root or Path.cwd(), kernel, command, timeout_s=timeout)
        outcomes = try_against(project, planted, on_outcome=told)
    else:
        assert source is not None
        outcomes = _judged(source, inputs, evaluation, kernel, planted, folder, told)
    score = Score(kernel=file, outcomes=outcomes, seconds=time.monotonic() - begun)
    _print_score(score, as_json=as_json)
    sys.exit(1 if score.survivors else 0)


class _Told:
    """Says each outcome on standard error as it comes."""

    def __init__(self, total: int) -> None:
        self._total, self._count = total, 0

    def __call__(self, outcome: Outcome) -> None:
        self._count += 1
        where = f"{self._count}/{self._total}"
        state = Text(f"{outcome.state:<10}", STYLES[outcome.state])
        err.print(where, state, f"{outcome.mutant.name} ({outcome.why})", markup=False)


def _read(kernel: Path) -> SourceFile:
    try:
        return SourceFile(path=kernel.name, text=kernel.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no file {kernel}", "check the path of the kernel") from None
    except UnicodeDecodeError:
        raise UserError(f"{kernel} is no UTF-8 text", "give the kernel's source") from None


def _judged(
    source: str, inputs: tuple[str, ...], evaluation: bool, kernel: Path, planted: tuple[mutation.Mutant, ...],
    folder: Path | None, told: _Told,
) -> tuple[Outcome, ...]:  # fmt: skip
    with Progress(err) as progress:
        captured = capture.load(source, inputs=inputs, evaluation=evaluation, on_event=progress.step)
        candidate = languages.candidate_from_file(captured.problem, kernel)
    with Store(folder / api.STORE if folder else ":memory:") as store:
        return judge_mutants(
            captured.problem, candidate, planted, languages.detect_target(), store=store, on_outcome=told
        )


def _plain(mutant: mutation.Mutant) -> dict[str, Any]:
    names = ("operator", "path", "line", "column", "before", "after")
    return {name: getattr(mutant, name) for name in names}


def _print_list(planted: tuple[mutation.Mutant, ...], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([_plain(m) | {"equivalent": m.equivalent} for m in planted], indent=1))
        return
    for mutant in planted:
        said = f"  (equivalent: {mutant.equivalent})" if mutant.equivalent else ""
        out.print(f"{mutant.name}: {mutant.before}  =>  {mutant.after}{said}", markup=False, soft_wrap=True)
    out.print(f"{len(planted)} mutants", markup=False)


def _print_score(score: Score, *, as_json: bool) -> None:
    counts: dict[str, int] = {state: score.count(state) for state in STATES}
    if as_json:
        outcomes = [_plain(o.mutant) | {"state": o.state, "why": o.why} for o in score.outcomes]
        data: dict[str, object] = {
            "kernel": score.kernel.path,
            **counts,
            "score": score.ratio,
            "seconds": score.seconds,
        }
        click.echo(json.dumps(data | {"outcomes": outcomes}, indent=1))
        return
    for outcome in score.survivors:
        out.print(Text("survived", "bold red"), f"{outcome.mutant.name} ({outcome.why})", soft_wrap=True)
        out.print(outcome.mutant.diff(score.kernel), markup=False, soft_wrap=True)
    table = Table(show_edge=False)
    for column in ("operator", "killed", "survived", "equivalent", "invalid"):
        table.add_column(column, justify="left" if column == "operator" else "right")
    for name in dict.fromkeys(o.mutant.operator for o in score.outcomes):
        states = [o.state for o in score.outcomes if o.mutant.operator == name]
        table.add_row(name, *(str(states.count(state)) for state in STATES))
    out.print(table)
    ratio = "no mutant counts" if score.ratio is None else f"{100 * score.ratio:.0f} % noticed"
    out.print(Text(f"{ratio}: {', '.join(f'{n} {state}' for state, n in counts.items())}", "bold"))
