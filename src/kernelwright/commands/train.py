"""`kernelwright train`: the three stages, and what came of them.

Not here: the stages themselves (training).
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from kernelwright import api
from kernelwright.commands.corpus import USUAL, court_of
from kernelwright.commands.options import Seconds, err, out
from kernelwright.errors import UserError
from kernelwright.run.models.screening import doubts
from kernelwright.store import Store
from kernelwright.training import exercises, vocabulary
from kernelwright.training.authors import CHECKPOINT_MODEL, Author
from kernelwright.training.checkpoints import Checkpoints
from kernelwright.training.practice import CodePractice, Practice, SchedulePractice
from kernelwright.training.reward import RewardSettings
from kernelwright.training.rows import SPLITS, Split
from kernelwright.training.stages import STAGES, Settings, Stage, Training, evaluate, of_optimum
from kernelwright.types import digest

NEW = "new"
RATES = {"schedules": 3e-3, "code": 1e-5}
"""Learning rates where none is given: of a small model from nothing, and of a code model that knows much already."""
MICRO = {"schedules": 64, "code": 1, "code on a GPU": 8}
"""Answers that go through the model together while it learns."""


@click.group(name="train", short_help="Train an author: sft, select, contrast.")
def train_command() -> None:
    """Train an author of schedules or of code in three stages, on what the judge says."""


OPTIONS = (
    click.option("--model", required=True, metavar="PATH",
                 help="A folder with a model, an earlier stage's --out, or `new` for a small author of schedules."),
    click.option("--data", type=click.Path(path_type=Path), default=USUAL, show_default=True, help="A corpus."),
    click.option("--recorded", is_flag=True, help="Learn from the corpus's records only; nothing is judged."),
    click.option("--device", type=click.Choice(api.DEVICES), default="cpu", show_default=True),
    click.option("--seed", type=int, default=0, show_default=True),
    click.option("--family", "names", multiple=True, metavar="NAME", help="Practise on these only; can be repeated."),
    click.option("--slow", type=click.FloatRange(0, min_open=True), default=0.125, show_default=True,
                 help="The speedup from which a kernel earns more than for being right."),
    click.option("--fast", type=click.FloatRange(0, min_open=True), default=8.0, show_default=True,
                 help="The speedup that earns everything."),
    click.option("--temperature", type=click.FloatRange(0, 2, min_open=True), default=1.0, show_default=True),
    click.option("--tokens", type=click.IntRange(16), default=1024, show_default=True, help="Of a code answer."),
)  # fmt: skip
STAGE_OPTIONS = (
    click.option("--out", "folder", required=True, type=click.Path(path_type=Path), help="Where the stage is kept."),
    click.option("--resume", is_flag=True, help="Go on from the last checkpoint."),
    click.option("--steps", type=click.IntRange(1), default=100, show_default=True, help="In all."),
    click.option("--budget", type=Seconds(), help="Stop after this time, at any step; --resume goes on."),
    click.option("--problems", type=click.IntRange(1), default=4, show_default=True, help="Prompts of a step."),
    click.option("--group", type=click.IntRange(2), default=8, show_default=True, help="Answers to a prompt."),
    click.option("--lessons", type=click.IntRange(1), default=32, show_default=True, help="Of a step of sft."),
    click.option("--shown", type=click.IntRange(0, 4), default=2, show_default=True, help="Kernels in a prompt."),
    click.option("--exemplars", type=click.Choice(["buckets", "random", "none"]), default="buckets",
                 show_default=True, help="Which kernels are shown."),
    click.option("--plain", type=click.FloatRange(0, 1), default=0.25, show_default=True,
                 help="Share of prompts that show nothing."),
    click.option("--baseline", type=click.Choice(["group", "leave-one-out"]), default="group", show_default=True),
    click.option("--keep", type=click.FloatRange(0, 1, min_open=True), default=0.25, show_default=True,
                 help="Share that is worth imitating."),
    click.option("--fresh", is_flag=True, help="Show only what the author found itself, nothing of the corpus."),
    click.option("--rate", type=click.FloatRange(0, min_open=True), help="Of learning  [default: by kind of model]"),
    click.option("--entropy", type=click.FloatRange(0), default=0.02, show_default=True, help="Weight of its bonus."),
    click.option("--passes", type=click.IntRange(1), default=1, show_default=True, help="Updates from a sampling."),
    click.option("--save-every", type=click.IntRange(1), default=20, show_default=True, help="Steps."),
)  # fmt: skip


def _with(options: tuple[Any, ...]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def add(command: Callable[..., None]) -> Callable[..., None]:
        made = functools.wraps(command)(lambda **given: command(**given))
        for option in reversed(options):
            made = option(made)
        return made

    return add


def _stage(stage: Stage, text: str) -> None:
    @train_command.command(name=stage, short_help=text, help=text)
    @_with((*OPTIONS, *STAGE_OPTIONS))
    def command(**given: Any) -> None:
        run_stage(stage, given)


for _name, _text in zip(
    STAGES,
    (
        "Imitate the best of a corpus.",
        "Generate, have it judged, imitate what held.",
        "Show kernels of distinct speeds, generate, have it judged, learn from the difference.",
    ),
    strict=True,
):
    _stage(_name, _text)


def run_stage(stage: Stage, given: dict[str, Any]) -> None:
    """Runs or goes on with a stage as the options say, and prints how it ended."""
    names = (
        "seed",
        "problems",
        "group",
        "lessons",
        "shown",
        "exemplars",
        "plain",
        "baseline",
        "keep",
        "fresh",
        "save_every",
    )
    settings = Settings(stage=stage, **{name: given[name] for name in names})
    rates = {"entropy": given["entropy"], "passes": given["passes"], "temperature": given["temperature"]}
    about = {
        "settings": digest(settings), "rates": rates, "rate": given["rate"], "model": given["model"],
        "data": str(given["data"]), "recorded": given["recorded"], "slow": given["slow"], "fast": given["fast"],
    }  # fmt: skip
    kept = Checkpoints(given["folder"], about, resume=given["resume"])
    with _at_work(given, kept.model or given["model"], "train", rates=rates) as (practice, some, judges):
        if kept.latest is not None:
            practice.author.resume(kept.latest)
        training = Training(practice, some, judges, settings, kept, on_step=_say)
        ended = training.run(steps=given["steps"], budget_s=given["budget"] or float("inf"))
    if ended == "budget":
        out.print(f"stopped at step {kept.step} of {given['steps']}; --resume goes on", soft_wrap=True)
    out.print(f"model: {given['folder'] / CHECKPOINT_MODEL}", soft_wrap=True)


@train_command.command(name="evaluate", short_help="Say what a model's answers are worth.")
@_with(OPTIONS)
@click.option("--split", type=click.Choice(SPLITS), default="held-out", show_default=True)
@click.option("--count", type=click.IntRange(1), default=16, show_default=True, help="Answers to each problem.")
@click.option("--json", "as_json", is_flag=True, help="Print every problem as JSON.")
def evaluate_command(split: Split, count: int, as_json: bool, **given: Any) -> None:
    """Say what a model's answers to plain prompts are worth: mean and best, as shares of the best that is known."""
    with _at_work(given, given["model"], split) as (practice, some, judges):
        found = evaluate(practice, some, judges, count=count, seed=given["seed"])
    share = of_optimum(found)
    if as_json:
        plain = [{name: getattr(o, name) for name in o.__dataclass_fields__} for o in found]
        click.echo(json.dumps({"of_optimum": share, "problems": plain}, indent=1))
        return
    table = Table(show_edge=False)
    for column in ("problem", "mean reward", "best", "best known", "best speedup", "answers"):
        table.add_column(column)
    for o in found:
        kinds = ", ".join(f"{count} {kind}" for kind, count in o.kinds)
        table.add_row(o.problem, f"{o.reward:.3f}", f"{o.best:.3f}", f"{o.optimum:.3f}", f"{o.speedup:.2f}x", kinds)
    out.print(table)
    out.print(f"mean reward over the best known: {share:.3f}")


@contextlib.contextmanager
def _at_work(
    given: dict[str, Any], model: str, split: Split, *, rates: dict[str, Any] | None = None
) -> Iterator[tuple[Practice, tuple[exercises.Exercise, ...], exercises.Judges]]:
    """Gives an author with what it practises on and who judges it."""
    data: Path = given["data"]
    scale = RewardSettings(slow=given["slow"], fast=given["fast"])
    with contextlib.ExitStack() as stack:
        if given["recorded"]:
            load: Callable[[Split], tuple[exercises.Exercise, ...]] = functools.partial(exercises.recorded, data)
            court = None
        else:
            store = stack.enter_context(Store(data / api.STORE, create=False))
            court = stack.enter_context(court_of(given["device"], store, settings=scale, doubts=doubts))
            load = functools.partial(exercises.live, data, store, court)
        every = {name: load(name) for name in SPLITS}
        some = tuple(e for e in every[split] if not given["names"] or e.family in given["names"])
        author = stack.enter_context(_author(given, model, [e for group in every.values() for e in group], rates or {}))
        judges: exercises.Judges = exercises.Live(court) if court else exercises.Recorded(some, scale)
        if author.kind == "schedules":
            yield SchedulePractice(author, temperature=given["temperature"]), some, judges
            return
        if court is None:
            raise UserError("a code model's kernels must be judged", "leave --recorded out")
        language = "cuda" if given["device"] == "cuda" else "cpp"
        yield (
            CodePractice(
                author, court.target, language=language, most=given["tokens"], temperature=given["temperature"]
            ),
            some,
            judges,
        )


def _author(given: dict[str, Any], model: str, known: list[exercises.Exercise], rates: dict[str, Any]) -> Author:
    if model == NEW:
        folder, words = (
            "",
            vocabulary.words(word for e in known for word in (*e.features, *e.grammar(frozenset()).vocabulary())),
        )
    else:
        folder, words = str(model_folder(Path(model))), ()
    kind = "code" if folder and (Path(folder) / "config.json").is_file() else "schedules"
    gpu = kind == "code" and given["device"] == "cuda"
    rates = {**rates, "learning": given.get("rate") or RATES[kind], "micro": MICRO["code on a GPU" if gpu else kind]}
    return Author(folder, words=words, seed=given["seed"], rates=rates, device="" if kind == "code" else "cpu")


def model_folder(path: Path) -> Path:
    """Returns the folder that holds a model: the given one, or `model` in a stage's folder.

    Raises:
        UserError: neither holds one.
    """
    for folder in (path, path / CHECKPOINT_MODEL):
        if (folder / "config.json").is_file() or (folder / "author.json").is_file():
            return folder
    raise UserError(f"{path} holds no model", "name a folder with config.json or author.json, or a stage's --out")


def _say(line: dict[str, Any]) -> None:
    numbers = ", ".join(f"{k} {v:.4g}" for k, v in line.items() if isinstance(v, float))
    kinds = ", ".join(f"{count} {kind}" for kind, count in line.get("kinds", {}).items())
    err.print(f"step {line['step']}: {numbers}" + (f"; {kinds}" if kinds else ""), markup=False)
