"""`kernelwright gemm`: tunes matrix products on this machine's GPU, times winners beside the vendor's libraries, and
puts tables and pages where they belong.

Not here: what is measured and how (run/gemm).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from kernelwright import environment
from kernelwright.commands.options import err, out
from kernelwright.errors import UserError
from kernelwright.experts.gemm.table import place_of, read_rows
from kernelwright.languages.device_target import detect_device_target
from kernelwright.languages.devices import cuda_target
from kernelwright.run.gemm import results, served
from kernelwright.run.gemm.grid import TABLE, Grid, confirm, keep_rows, prepare, read_shapes, tune
from kernelwright.run.gemm.measuring import PRODUCT_S, Measuring
from kernelwright.types import replace

ACTIONS = ("prepare", "tune", "bench", "install", "report")
ARCHITECTURE = "sm_90a"
COMPILED_S = 900.0
"""For one product, torch.compile's own tuning included."""
CHOSEN = ("torch", "cublaslt", "cublas")


@click.command(name="gemm", short_help="Tune matrix products on a Hopper GPU, and time them beside cuBLASLt.")
@click.argument("action", type=click.Choice(ACTIONS))
@click.option("--shapes", default="grid", show_default=True, help="`grid` (1,000 shapes) or a file with m,n,k lines.")
@click.option("--dtype", type=click.Choice(["float16", "bfloat16"]), default="float16", show_default=True)
@click.option(
    "--mode", type=click.Choice(["offline", "server"]), default="offline", show_default=True,
    help="bench: graphs of calls, or isolated calls after random gaps with the launch included.",
)  # fmt: skip
@click.option("--accumulate", type=click.Choice(["fp32"]), default="fp32", help="Sums are in float32; nothing else is.")
@click.option(
    "--top", type=click.IntRange(1, 64), default=6, show_default=True, help="Schedules to measure for each layout."
)
@click.option("--limit", type=float, default=540.0, show_default=True, help="Seconds after which no shape begins.")
@click.option("--exhaustive", is_flag=True, help="bench: also sweep over all that cuBLASLt's algorithms can do.")
@click.option("--compiled", is_flag=True, help="bench: also torch.compile's max-autotune, many seconds a shape.")
@click.option(
    "--foreign", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="bench: a folder of other people's kernels (judge/device/products/others.py says how they are called).",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(1), help="Compilers at once; default: one for each processor.")
@click.option(
    "--out", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path("kernelwright-out/gemm"),
    show_default=True, help="Where the run's CSV files and binaries are kept; a later run goes on there.",
)  # fmt: skip
@click.option(
    "--to", type=click.Path(path_type=Path),
    help="install: another table than this machine's; report: another folder than docs/results.",
)  # fmt: skip
def gemm_command(
    action: str, shapes: str, dtype: str, mode: str, accumulate: str, top: int, limit: float, exhaustive: bool,
    compiled: bool, foreign: Path | None, workers: int | None, folder: Path, to: Path | None,
) -> None:  # fmt: skip
    """Find the fastest kernel of every shape (tune; prepare builds what it needs, without a device), time it once more
    beside the libraries (bench), make its plans those of kernelwright.matmul on this machine (install), write the page
    of results (report). Every device of the host that CUDA_VISIBLE_DEVICES names takes part; a later call goes on.

    Inputs are random, contenders take turns over buffers of twice the level-2 cache, and a kernel that is not exact on
    whole numbers, or less exact than torch on others, has no time. Both layouts of B are tried, for the baselines too.
    Where ours did not win in bench, the vendor's call is the plan.
    """
    more = tuple(name for name, wanted in (("exhaustive", exhaustive), ("compiled", compiled)) if wanted)
    grid = Grid(
        shapes=read_shapes(shapes), top=top, workers=workers or os.cpu_count() or 1, limit_s=limit,
        baselines=(*CHOSEN, *more), foreign=str(foreign or ""),
    )  # fmt: skip
    grid = replace(grid, dtype=dtype)
    if action == "install":
        done = _install(folder, to)
    elif action == "report":
        made_by = f"kernelwright gemm bench --shapes {shapes} --dtype {dtype} --accumulate {accumulate}"
        devices = sorted({row.device for row in read_rows(folder / TABLE)})
        done = results.write(
            folder, to or Path("docs/results"), device=", ".join(devices) or "an unknown device", dtype=dtype,
            shapes=shapes, command=made_by,
        )  # fmt: skip
    else:
        done = _measured(action, mode, grid, folder)
    out.print(f"written to {done}", soft_wrap=True)


def _measured(action: str, mode: str, grid: Grid, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if action == "prepare":
        return prepare(grid, folder, cuda_target(ARCHITECTURE), err.print)
    if action == "bench" and mode == "server":
        return served.serve(grid, folder, err.print)
    target = replace(detect_device_target(), architecture=ARCHITECTURE)
    patience_s = COMPILED_S if "compiled" in grid.baselines else PRODUCT_S
    with contextlib.ExitStack() as stack:
        names = environment.visible_devices() or [""]
        devices = [stack.enter_context(Measuring(deadline_s=patience_s, visible=name)) for name in names]
        return (tune if action == "tune" else confirm)(grid, folder, target, devices, err.print)


def _install(folder: Path, to: Path | None) -> Path:
    rows = list(read_rows(folder / TABLE))
    if not rows:
        raise UserError(f"{folder / TABLE} has no rows", "run `kernelwright gemm bench` first")
    if to is not None:
        keep_rows(to, rows)
        return to
    for device in sorted({row.device for row in rows}):
        keep_rows(place_of(device), [row for row in rows if row.device == device])
    return place_of(rows[0].device)
