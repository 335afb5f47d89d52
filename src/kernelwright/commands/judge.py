"""`kernelwright judge`: what the judge says of a kernel that a person wrote.

What takes long to import is imported when the command runs, after its first line is shown.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kernelwright.commands.options import EFFORTS, JUDGED_ON, err, out, source_options
from kernelwright.console import Progress


@click.command(name="judge")
@source_options
@click.argument("kernel_file", type=click.Path(path_type=Path))
@click.option("--policy", type=click.Choice(EFFORTS), default="report", show_default=True, help="How thoroughly.")
@click.option(
    "--device",
    type=click.Choice(JUDGED_ON),
    default=None,
    help="emulated: CUDA C++ on the CPU, right or wrong without a time  [default: what the file is for]",
)
@click.option("--out", "folder", type=click.Path(path_type=Path), help="Keep the record in this folder's store.")
@click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
def judge_command(
    source: str, options: dict[str, Any], kernel_file: Path, policy: str, device: str | None, folder: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Judge KERNEL_FILE, a kernel that a person wrote, against SOURCE.

    KERNEL_FILE is C++ with one extern "C" function whose parameters are named as the problem's tensors, CUDA C++
    (.cu) with a line such as `// kernelwright-launch: NAME grid=128 block=256`, or Python that defines ModelNew (or a
    function of the reference's name): witnessed, since its own code runs where it is timed. `kernelwright show SOURCE
    --skeleton` (and `--language cuda`) prints one to start from. With `--device emulated` CUDA C++ is judged without a
    GPU: whether it is right, never how fast. Exit status 0: it passed, 1: it did not.
    """
    with Progress(err) as progress:
        progress.step(f"reading {source}")
        from kernelwright import api

        record = api.judge_kernel(
            source, kernel_file, device=device or "", policy=policy, out=folder, on_step=progress.step,
            on_event=progress.event, **options,
        )  # fmt: skip
    from kernelwright import codec
    from kernelwright.commands.outcomes import print_record
    from kernelwright.run.session import disturbed
    from kernelwright.types import DIGEST_TAG, digest

    click.echo(codec.dumps(record)) if as_json else print_record(record)
    if folder and not as_json and not disturbed(record):
        key = digest(record).removeprefix(DIGEST_TAG)[:12]
        out.print(f"record: {key}; `kernelwright verify {key} --out {folder}` judges it again", soft_wrap=True)
    sys.exit(0 if record.passed else 1)
