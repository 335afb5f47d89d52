"""`kernelwright report`: what is known in a folder, and its page."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from kernelwright import api, run
from kernelwright.commands.options import out
from kernelwright.commands.outcomes import PAGE, give
from kernelwright.errors import UserError
from kernelwright.run.judged import judged_alone
from kernelwright.store import Store


@click.command(name="report", short_help="Print what is known in FOLDER; write its page again.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--html", "page", type=click.Path(path_type=Path), help="Where to write the page  [default: FOLDER/report.html]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def report_command(folder: Path, page: Path | None, as_json: bool) -> None:
    """Print what is known in FOLDER (an --out folder of `optimize` or `judge`), and write its HTML report again.

    Where the folder holds several problems, or one on several targets, the latest gets the page and each other one
    a page of its own beside it.
    """
    with Store(folder / api.STORE, create=False) as store:
        results = (*judged_alone(store), *run.recall(store))
    if not results:
        fix = "run `kernelwright optimize` or `kernelwright judge` with this --out first"
        raise UserError(f"{folder} holds no judged kernel", fix)
    page = page or folder / PAGE
    for number, result in enumerate(results, 1):
        last = number == len(results)
        if len(results) > 1 and not as_json:
            versions = ", ".join(f"{name} {version}" for name, version in result.target.toolchain)
            head = (
                f"{result.problem.name} on {result.target.architecture}, {result.target.threads} threads ({versions})"
            )
            out.print(Text(head, "bold"), soft_wrap=True)
        beside = page.with_name(f"{page.stem}-{number}{page.suffix}")
        give(result, folder, as_json=as_json, page=page if last else beside, best=last)
