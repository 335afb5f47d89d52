"""Tuning and benchmarking many products, one after another, into CSV files that a later run goes on with.

`tune` measures the schedules that the model ranks first and keeps the fastest that was right; `bench` times a tuned
plan once more beside the vendor's libraries, on fresh data in a fresh measurement, and says both times.
Not here: server mode, cublasGemmEx and the exhaustive sweep over cuBLASLt's algorithms (their columns stay empty).
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.experts.gemm import Product, parse
from kernelwright.experts.gemm.product import HalfType
from kernelwright.experts.gemm.space import ranked
from kernelwright.run.gemm.binaries import Binary, Point, build
from kernelwright.run.gemm.measuring import Measuring, Outcome
from kernelwright.types import Target, replace, value

SIDES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384)
"""M, N and K of the public record's 1,000 shapes."""
COLUMNS = (
    "m", "n", "k", "ours_us", "torch_us", "cublas_us", "cublaslt_first_us", "cublaslt_tuned_us",
    "cublaslt_exhaustive_us", "plan", "confirmed",
)  # fmt: skip
TUNED, OFFLINE = "tuned.csv", "offline.csv"
AHEAD = 25
"""Shapes whose binaries are built together, before the device is asked for the first of them."""
CONFIRMING_ROUNDS = 15
Shape = tuple[int, int, int]
Told = Callable[[str], None]


@value
class Grid:
    """What a run is about."""

    shapes: tuple[Shape, ...]
    dtype: HalfType = "float16"
    top: int = 6
    """Schedules that are measured for each shape and layout."""
    workers: int = 4
    """Compilers at once."""


def read_shapes(given: str) -> tuple[Shape, ...]:
    """Returns the shapes that a name or a file says, smallest first.

    Args:
        given: `grid` for the public record's 1,000, else a file with m, n, k in the first three columns of each line.

    Raises:
        UserError: for a file that cannot be read, or a line without three whole numbers.
    """
    if given == "grid":
        return _by_work(itertools.product(SIDES, SIDES, SIDES))
    try:
        lines = Path(given).read_text().splitlines()
    except OSError as error:
        raise UserError(f"{given}: {error.strerror}", "write `grid`, or a file with m,n,k in each line") from None
    shapes = []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")][:3]
        if not line.strip() or (number == 1 and not cells[0].isdigit()):
            continue
        if len(cells) < 3 or not all(cell.isdigit() and int(cell) > 0 for cell in cells):
            raise UserError(f"{given}:{number}: {line[:60]!r} is no shape", "write m,n,k as whole numbers from 1")
        shapes.append((int(cells[0]), int(cells[1]), int(cells[2])))
    return _by_work(shapes)


def _by_work(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    return tuple(sorted(dict.fromkeys(shapes), key=lambda s: (s[0] * s[1] * s[2], s)))


def tune(grid: Grid, folder: Path, target: Target, measuring: Measuring, tell: Told) -> Path:
    """Writes the fastest right schedule of every shape to `tuned.csv`; shapes that stand there already are left out."""
    file = folder / TUNED
    todo = _left(grid, file)
    tell(f"{len(grid.shapes) - len(todo)} of {len(grid.shapes)} shapes are tuned already")
    for some in (todo[i : i + AHEAD] for i in range(0, len(todo), AHEAD)):
        points = {shape: _points(shape, grid) for shape in some}
        binaries = _binaries([p for found in points.values() for p in found], grid, folder, target)
        for found in points.values():
            outcome = measuring.measure(found[0].product, [(p, binaries[p]) for p in found])
            _append(file, _row(outcome, confirmed=""))
            tell(_line(outcome))
    return file


def bench(grid: Grid, folder: Path, target: Target, measuring: Measuring, tell: Told) -> Path:
    """Writes `offline.csv`: the tuned plan of every shape, timed once more beside all baselines.

    Raises:
        UserError: where a shape has not been tuned in this folder.
    """
    plans = {_shape(row): row for row in _rows(folder / TUNED)}
    file = folder / OFFLINE
    todo = _left(grid, file)
    if missing := [shape for shape in todo if shape not in plans]:
        message = f"{len(missing)} shapes are not tuned in {folder}, the first is {missing[0]}"
        raise UserError(message, "run `kernelwright gemm tune` with the same --shapes and --out first")
    for shape in todo:
        row = plans[shape]
        points = [_planned(shape, row["plan"], grid)] if row["plan"] else []
        binaries = _binaries(points, grid, folder, target)
        product = points[0].product if points else _product(shape, grid)
        outcome = measuring.measure(product, [(p, binaries[p]) for p in points], rounds=CONFIRMING_ROUNDS)
        again = outcome.best()
        written = _row(outcome, confirmed=f"{again.us:.3f}" if again and again.us else "failed")
        _append(file, written | {"ours_us": row["ours_us"], "plan": row["plan"]})
        tell(_line(outcome))
    return file


def _product(shape: Shape, grid: Grid) -> Product:
    return Product(m=shape[0], n=shape[1], k=shape[2], dtype=grid.dtype)


def _points(shape: Shape, grid: Grid) -> list[Point]:
    products = [replace(_product(shape, grid), layout=layout) for layout in ("nk", "kn")]
    return [Point(product=p, schedule=s) for p in products for s in ranked(p, grid.top)]


def _planned(shape: Shape, plan: str, grid: Grid) -> Point:
    layout, _, spelled = plan.partition(" ")
    return Point(product=replace(_product(shape, grid), layout=layout), schedule=parse(spelled))


def _binaries(points: Sequence[Point], grid: Grid, folder: Path, target: Target) -> dict[Point, Binary]:
    return build(points, target, folder / "binaries", workers=grid.workers)


def _row(outcome: Outcome, *, confirmed: str) -> dict[str, str]:
    best, p = outcome.best(), outcome.product

    def us(number: float | None) -> str:
        return f"{number:.3f}" if number is not None else ""

    return {
        "m": str(p.m), "n": str(p.n), "k": str(p.k), "ours_us": us(best.us if best else None),
        "torch_us": us(outcome.baseline("torch")), "cublas_us": "",
        "cublaslt_first_us": us(outcome.baseline("cublaslt_first")),
        "cublaslt_tuned_us": us(outcome.baseline("cublaslt_tuned")), "cublaslt_exhaustive_us": "",
        "plan": f"{best.layout} {best.schedule}" if best else "", "confirmed": confirmed,
    }  # fmt: skip


def _line(outcome: Outcome) -> str:
    row = _row(outcome, confirmed="")
    failed = sum(bool(r.failed) for r in outcome.rows)
    against = [f"{name} {row[name]}" for name in ("torch_us", "cublaslt_tuned_us") if row[name]]
    tail = f"; {failed} of {len(outcome.rows)} failed" if failed else ""
    sizes, ours = " x ".join(row[axis] for axis in "mnk"), row["ours_us"] or "none"
    return f"{sizes}: {ours} us, {', '.join(against)}; {row['plan']}{tail}"


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    # A line that a killed run left half written is as good as none.
    return [row for row in rows if row.get("confirmed") is not None]


def _shape(row: dict[str, str]) -> Shape:
    return int(row["m"]), int(row["n"]), int(row["k"])


def _left(grid: Grid, file: Path) -> list[Shape]:
    rows = _rows(file)
    if file.is_file():  # without the half-written line, so that the next one begins a line of its own
        _write(file, rows)
    known = {_shape(row) for row in rows}
    return [shape for shape in grid.shapes if shape not in known]


def _write(file: Path, rows: list[dict[str, str]]) -> None:
    waiting = file.with_suffix(".new")
    with waiting.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    waiting.rename(file)


def _append(file: Path, row: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file():
        _write(file, [])
    with file.open("a", newline="") as stream:
        csv.DictWriter(stream, COLUMNS).writerow(row)
