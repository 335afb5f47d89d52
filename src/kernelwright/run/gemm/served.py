"""Server mode: the plans that a confirming run left in table.csv, as isolated calls with the launch path included.

Not here: the worker that makes the calls (deploy/serving.py).
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelwright.errors import KernelwrightError, UserError
from kernelwright.experts.gemm.table import VENDOR, Row, read_rows
from kernelwright.process import Worker
from kernelwright.run.gemm.grid import (
    BASELINES,
    COLUMNS,
    LAYOUTS,
    SERVER,
    TABLE,
    Grid,
    Shape,
    Told,
    append,
    left,
    product,
    rows_of,
    us,
)
from kernelwright.types import replace

WORKER = "kernelwright.deploy.serving"
SHAPE_S = 180.0
"""For one shape, a start of the device and compilations included."""
ROUNDS = 40


def serve(
    grid: Grid, folder: Path, tell: Told, *, module: str = WORKER, rounds: int = ROUNDS, device: str = "cuda"
) -> Path:
    """Writes `server.csv`: every confirmed plan's isolated calls beside torch's and cuBLASLt's.

    Its `confirmed` repeats `ours_us`: what dispatch runs, whoever's kernel that is. Columns that server mode has no
    contender for are empty.

    Raises:
        UserError: where a shape has no row in this folder's table.csv.
    """
    rows: dict[Shape, list[Row]] = {}
    for row in read_rows(folder / TABLE):
        rows.setdefault((row.m, row.n, row.k), []).append(row)
    file, until = folder / SERVER, time.monotonic() + grid.limit_s
    todo = left(grid, file, COLUMNS)
    if missing := [shape for shape in todo if shape not in rows]:
        message = f"{len(missing)} shapes are not confirmed in {folder}, the first is {missing[0]}"
        raise UserError(message, "run `kernelwright gemm bench` with the same --shapes and --out first")
    known = _algorithms(folder / BASELINES)
    worker: Worker | None = None
    try:
        for shape in todo:
            if time.monotonic() > until:
                break
            if worker is None or not worker.alive:
                worker = Worker(module)
            here = [_with_algorithm(row, known) for row in rows[shape] if row.dtype == grid.dtype]
            first = {layout: known.get((shape, f"cublaslt_first_{layout}"), "") for layout in LAYOUTS}
            try:
                times: dict[str, Any] = worker.request(
                    "measure", deadline_s=SHAPE_S, product=asdict(product(shape, grid)), rows=tuple(map(asdict, here)),
                    first=first, rounds=rounds, device=device,
                )  # fmt: skip
            except KernelwrightError as error:
                tell(f"{shape}: {error}")
                worker.close()
                continue
            append(file, COLUMNS, [_row(shape, here, times)])
            tell(f"{' x '.join(map(str, shape))}: {', '.join(f'{n} {us(t)}' for n, t in sorted(times.items()))}")
    finally:
        if worker:
            worker.close()
    if rest := len(left(grid, file, COLUMNS)):
        tell(f"{rest} shapes are left for a further call")
    return file


def _algorithms(file: Path) -> dict[tuple[Shape, str], str]:
    return {((int(r["m"]), int(r["n"]), int(r["k"])), r["name"]): r["algorithm"] for r in rows_of(file)}


def _with_algorithm(row: Row, known: dict[tuple[Shape, str], str]) -> Row:
    """The row with cuBLASLt's tuned algorithm, which a table keeps only where it won."""
    text = known.get(((row.m, row.n, row.k), f"cublaslt_tuned_{row.layout}"), "")
    return row if row.plan == VENDOR and row.algorithm else replace(row, algorithm=text)


def _row(shape: Shape, rows: list[Row], times: dict[str, float]) -> dict[str, str]:
    def better(name: str) -> float | None:
        return min((t for n, t in times.items() if n.startswith(name)), default=None)

    ours = better("ours")
    layout = min((n for n in times if n.startswith("ours")), key=lambda n: times[n]).rpartition("_")[2]
    plan = next(row.plan for row in rows if row.layout == layout)
    return dict.fromkeys(COLUMNS, "") | dict(zip("mnk", map(str, shape), strict=True)) | {
        "ours_us": us(ours), "torch_us": us(better("torch")), "cublaslt_first_us": us(better("cublaslt_first")),
        "cublaslt_tuned_us": us(better("cublaslt_tuned")), "confirmed": us(ours),
        "plan": plan if plan == VENDOR else f"{layout} {plan}",
    }  # fmt: skip
