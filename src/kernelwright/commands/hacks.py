"""`kernelwright hacks`: the cheats that the judge caught, to be searched and listed.

Not here: what is known of them (hacks), and which records are cheats (training/reward.py).
"""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.table import Table

from kernelwright import api, codec
from kernelwright.commands.options import out
from kernelwright.hacks import HackBook, Resemblance, bundled, idioms, of_store
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
@click.argument("query", metavar="TEXT|FILE")
@FOLDERS
@AS_JSON
def search_command(query: str, folders: tuple[Path, ...], as_json: bool) -> None:
    """Search the cheats by words, or for those that a kernel FILE resembles.

    A resemblance is a reason to look closer and no verdict: `kernelwright judge` gives that.
    """
    book, path = _book(folders), Path(query)
    if path.suffix not in SUFFIXES or not path.is_file():
        _print(book.search(query), as_json=as_json)
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    found = [r for language in SUFFIXES[path.suffix] for r in book.resembling(text, language=language, most=10)]
    if not as_json:
        out.print(f"idioms: {', '.join(idioms(text)) or 'none that stand out'}", soft_wrap=True)
    _print(tuple(sorted(found, key=lambda r: -r.score)), as_json=as_json)


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
