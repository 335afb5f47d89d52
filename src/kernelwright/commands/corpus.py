"""`kernelwright corpus`: makes a corpus of verified kernels, and finds the nearest of them.

Not here: how (training/corpus.py, training/rows.py).
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from kernelwright import api, capture, languages
from kernelwright.commands.options import Seconds, err, out, source_options
from kernelwright.errors import UserError
from kernelwright.judge import policies_for
from kernelwright.store import Store
from kernelwright.training import corpus, exercises, families, prompting, rows
from kernelwright.training.features import words_of
from kernelwright.training.judging import Court
from kernelwright.types import Policy, Target

USUAL = Path("kernelwright-out") / "corpus"


@click.group(name="corpus", short_help="Make a corpus of verified kernels to learn from.")
def corpus_command() -> None:
    """Make a corpus of verified kernels, to learn from and to be shown."""


@corpus_command.command(name="build", short_help="Make or complete a corpus.")
@click.option("--out", "folder", type=click.Path(path_type=Path), default=USUAL, show_default=True)
@click.option("--family", "names", multiple=True, metavar="NAME", help="Can be repeated  [default: all]")
@click.option("--variants", type=click.IntRange(1, len(families.SHAPES)), default=len(families.SHAPES),
              show_default=True, help="Shapes of each function.")  # fmt: skip
@click.option("--each", type=click.IntRange(4), default=12, show_default=True, help="Schedules of each problem.")
@click.option("--bugs", type=click.IntRange(0), default=2, show_default=True, help="Planted bugs of each problem.")
@click.option("--device", type=click.Choice(api.JUDGED_ON), multiple=True, default=("cpu",), show_default=True,
              help="Can be repeated. On an emulated GPU kernels are right or wrong and have no times.")  # fmt: skip
@click.option("--from", "others", multiple=True, type=click.Path(path_type=Path), metavar="FOLDER",
              help="Take over what another --out folder's store holds; can be repeated.")  # fmt: skip
@click.option("--budget", type=Seconds(), help="End after this time; the same command goes on.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--parquet", is_flag=True, help="Write Parquet too (needs pyarrow).")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as JSON.")
def build_command(
    folder: Path, names: tuple[str, ...], variants: int, each: int, bugs: int, device: tuple[str, ...],
    others: tuple[Path, ...], budget: float | None, seed: int, parquet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Make or complete a corpus: verified kernels and mended bugs over many families, split by family.

    Every schedule, renaming and bug goes before the judge, once; what the folder's store knows is not judged again.
    """
    if unknown := sorted(set(names) - set(families.every())):
        raise UserError(f"there is no family {unknown[0]!r}", f"families are {', '.join(families.every())}")
    plan = corpus.Plan(names=names, variants=variants, each=each, bugs=bugs, seed=seed, budget_s=budget or float("inf"))
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store(folder / api.STORE))
        courts = tuple(stack.enter_context(court_of(name, store)) for name in device)
        known = tuple(stack.enter_context(Store(path / api.STORE, create=False)) for path in others)
        built = corpus.build(
            folder, courts, store, plan, others=known, on_text=lambda text: err.print(text, markup=False)
        )
    if parquet:
        rows.write_parquet(folder, {split: rows.read(folder, split) for split in rows.SPLITS})
    if as_json:
        click.echo(json.dumps(
            {"rows": dict(built.rows), "families": dict(built.families), "skipped": list(built.skipped),
             "finished": built.finished, "judged": built.judged}, indent=1,
        ))  # fmt: skip
        return
    for split, count in built.rows:
        out.print(f"{split}: {count} rows of {dict(built.families)[split]} families")
    for line in built.skipped:
        out.print(f"left out: {line}", markup=False, soft_wrap=True)
    if not built.finished:
        out.print("the budget is used up; the same command goes on from here")
    out.print(f"corpus: {folder} ({built.judged} judged now)", soft_wrap=True)


@corpus_command.command(name="nearest", short_help="Show the verified kernels that are nearest to SOURCE.")
@source_options
@click.option("--data", "folder", type=click.Path(path_type=Path), default=USUAL, show_default=True)
@click.option("--count", type=click.IntRange(1), default=3, show_default=True)
@click.option("--language", default="", help="Only kernels of this language.")
@click.option("--text", is_flag=True, help="Print their sources.")
def nearest_command(source: str, options: dict[str, Any], folder: Path, count: int, language: str, text: bool) -> None:
    """Show the verified kernels of a corpus whose problems are most like SOURCE."""
    captured = capture.load(source, **options)
    target = languages.detect_target()
    found = rows.nearest(rows.read(folder), words_of(captured, target), count=count, language=language)
    table = Table(show_edge=False)
    for column in ("problem", "language", "against eager", "schedule"):
        table.add_column(column)
    for row in found:
        speed = f"{row.speedup:.2f}x" if row.speedup else "not timed"
        table.add_row(row.problem, row.language, speed, " ".join(f"{k}={v}" for k, v in row.point))
    out.print(table)
    for row in found if text else ():
        click.echo(f"\n// {row.problem}, {row.candidate}\n{row.source}")


@corpus_command.command(name="prompts", short_help="Write contrastive prompts for other trainers.")
@click.option("--data", "folder", type=click.Path(path_type=Path), default=USUAL, show_default=True)
@click.option("--out", "where", required=True, type=click.Path(path_type=Path))
@click.option("--device", type=click.Choice(api.DEVICES), default="cpu", show_default=True)
@click.option("--each", type=click.IntRange(1), default=8, show_default=True, help="Prompts of each problem.")
@click.option("--shown", type=click.IntRange(0, 4), default=2, show_default=True, help="Kernels in a prompt.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--parquet", is_flag=True, help="Write Parquet too (needs pyarrow).")
def prompts_command(folder: Path, where: Path, device: str, each: int, shown: int, seed: int, parquet: bool) -> None:
    """Write prompts that show kernels of distinct speeds, in the form that verl reads; held-out prompts show none.

    Kernels are drawn once a line, so that all answers to it see the same. `examples/training` has the rest.
    """
    where.mkdir(parents=True, exist_ok=True)
    with Store(folder / api.STORE, create=False) as store, court_of(device, store) as court:
        for split in rows.SPLITS:
            some = exercises.live(folder, store, court, split)
            lines = list(prompting.lines(some, court.target, split=split, each=each, shown=shown, seed=seed))
            text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            (where / f"{split}.jsonl").write_text(text, encoding="utf-8")
            if parquet:
                rows.to_parquet(lines, where / f"{split}.parquet")
            out.print(f"{split}: {len(lines)} prompts of {len(some)} problems")


def court_of(device: str, store: Store, **settings: Any) -> Court:
    """Returns a court on this machine's device of that name."""
    emulated = device == api.EMULATED
    target: Target = languages.emulated_target() if emulated else api.target_named(device)
    policies: dict[str, Policy] = policies_for(target)
    return Court(target, store, screen=policies["screen"], thorough=policies["measure"], **settings)
