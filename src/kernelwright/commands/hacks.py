"""`kernelwright hacks`: the cheats that the judge caught, to be searched, listed and held against a kernel.

Not here: what is known of them (hacks), and which records are cheats (training/reward.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table

from kernelwright import api, codec
from kernelwright.commands.options import out
from kernelwright.hacks import HackBook, Resemblance, bundled, of_store
from kernelwright.hacks.reviewing import Doubting, Remembering, asking, nearest, reviews, usual
from kernelwright.store import Store
from kernelwright.training.reward import RewardSettings, reward
from kernelwright.types import Record

SUFFIXES = {".cpp": ("cpp",), ".cu": ("cuda",), ".py": ("python", "triton", "cutile")}
FOLDERS = click.option(
    "--out", "folders", type=click.Path(path_type=Path), multiple=True, help="Also the cheats in this folder's store."
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(name="hacks", short_help="Search the cheats that the judge has caught.")
def hacks_command() -> None:
    """Search the cheats that the judge has caught: its own corpus, and those in stores."""


@hacks_command.command(name="list")
@click.option("--caught-by", metavar="CHECK", help="Only those that this check or failure kind catches.")
@click.option("--language", help="cpp, cuda, python, triton ...")
@FOLDERS
@AS_JSON
def list_command(caught_by: str | None, language: str | None, folders: tuple[Path, ...], as_json: bool) -> None:
    """List the cheats, with what each tries and what catches it."""
    found = [
        hack
        for hack in _book(folders).hacks
        if caught_by in (None, *hack.caught_by) and language in (None, hack.language)
    ]
    _print(tuple(Resemblance(hack=hack, score=1.0) for hack in found), as_json=as_json, scored=False)


@hacks_command.command(name="search")
@click.argument("query", metavar="TEXT")
@FOLDERS
@AS_JSON
def search_command(query: str, folders: tuple[Path, ...], as_json: bool) -> None:
    """Search the cheats by words."""
    _print(_book(folders).search(query), as_json=as_json)


@hacks_command.command(name="review", short_help="Say how much KERNEL looks like a cheat, and why.")
@click.argument("kernel", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--language", help="[default: by the file's name]")
@click.option("--model", "models", multiple=True, metavar="NAME", help="Ask this model too, as after optimize --model.")
@FOLDERS
@AS_JSON
def review_command(
    kernel: Path, language: str | None, models: tuple[str, ...], folders: tuple[Path, ...], as_json: bool
) -> None:
    """Say how much KERNEL looks like a cheat: each reviewer's suspicion and reasons, and the nearest known cheats.

    A suspicion is a reason to judge in full and no verdict: `kernelwright judge` gives that. Without one, nothing is
    accepted; docs/results/reviewer.md says how much of what the judge finds is foreseen.
    """
    book, text = _book(folders), kernel.read_text(encoding="utf-8", errors="replace")
    languages = (language,) if language else SUFFIXES.get(kernel.suffix, ())
    reviewers = (Remembering(book), *usual()[1:], *(Doubting(name, asking(name), book=book) for name in models))
    said = [review for one in languages for review in reviews(text, language=one, reviewers=reviewers)]
    near = [r for one in languages for r in nearest(text, language=one, book=book)]
    if as_json:
        told = {"reviews": codec.to_data(tuple(said)), "nearest": [_plain(r, scored=True) for r in near]}
        click.echo(json.dumps({"suspicious": any(one.suspicious for one in said), **told}, indent=1))
        return
    for one in said:
        out.print(
            f"{one.reviewer}: suspicion {one.suspicion:.2f}; {', '.join(one.reasons) or 'no reason'}", soft_wrap=True
        )
    _print(tuple(sorted(near, key=lambda r: -r.score)), as_json=False)
    doubted = any(one.suspicious for one in said)
    out.print("suspicious: judge it in full (kernelwright judge)" if doubted else "not suspicious, which is no verdict")


def cheated(record: Record) -> bool:
    """Tells whether a record's candidate was caught cheating, not just wrong."""
    return reward(record, settings=RewardSettings()).kind == "cheat"


def _book(folders: tuple[Path, ...]) -> HackBook:
    book = bundled()
    for folder in folders:
        with Store(folder / api.STORE, create=False) as store:
            book = book.with_more(of_store(store, cheated))
    return book


def _print(found: tuple[Resemblance, ...], *, as_json: bool, scored: bool = True) -> None:
    if as_json:
        click.echo(json.dumps([_plain(r, scored=scored) for r in found], indent=1))
        return
    if not found:
        out.print("nothing resembles it")
        return
    table = Table(show_edge=False)
    for column in ("hack", "language", "caught by", "what it tries", *(("score",) if scored else ())):
        table.add_column(column, overflow="fold")
    for r in found:
        row = (r.hack.name, r.hack.language, ", ".join(r.hack.caught_by), r.hack.trick)
        table.add_row(*row, *((f"{r.score:.2f}",) if scored else ()))
    out.print(table)


def _plain(found: Resemblance, *, scored: bool) -> dict[str, object]:
    known: dict[str, object] = {name: item for name, item in codec.to_data(found.hack).items() if name}
    return known | ({"score": found.score} if scored else {})
