"""`kernelwright gemm`: tunes matrix products on this machine's GPU, and times winners beside the vendor's libraries.

Not here: what is measured and how (run/gemm).
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from kernelwright.commands.options import err, out
from kernelwright.languages.device_target import detect_device_target
from kernelwright.run.gemm.grid import Grid, bench, read_shapes, tune
from kernelwright.run.gemm.measuring import Measuring
from kernelwright.types import replace


@click.command(name="gemm", short_help="Tune matrix products on a Hopper GPU, and time them beside cuBLASLt.")
@click.argument("action", type=click.Choice(["tune", "bench"]))
@click.option("--shapes", default="grid", show_default=True, help="`grid` (1,000 shapes) or a file with m,n,k lines.")
@click.option("--dtype", type=click.Choice(["float16", "bfloat16"]), default="float16", show_default=True)
@click.option(
    "--top", type=click.IntRange(1, 64), default=6, show_default=True, help="Schedules to measure for each layout."
)
@click.option("--workers", type=click.IntRange(1), help="Compilers at once; default: one for each processor.")
@click.option(
    "--out", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("kernelwright-out/gemm"),
    show_default=True, help="Where tuned.csv, offline.csv and the binaries are kept; a later run goes on there.",
)  # fmt: skip
def gemm_command(action: str, shapes: str, dtype: str, top: int, workers: int | None, folder: Path) -> None:
    """Find the fastest kernel of every shape (tune), then time it once more beside the libraries (bench).

    Inputs are random, contenders take turns over buffers of twice the level-2 cache, and a kernel that is not exact on
    whole numbers, or less exact than torch on others, has no time. Both layouts of B are tried, for the baselines too.
    """
    grid = Grid(shapes=read_shapes(shapes), top=top, workers=workers or os.cpu_count() or 1)
    grid = replace(grid, dtype=dtype)
    target = replace(detect_device_target(), architecture="sm_90a")
    folder.mkdir(parents=True, exist_ok=True)
    with Measuring() as measuring:
        done = (tune if action == "tune" else bench)(grid, folder, target, measuring, err.print)
    out.print(f"written to {done}", soft_wrap=True)
