"""Tuning and confirming many products, one after another, into CSV files that a later run goes on with.

`tune` measures the schedules that the model ranks first and keeps the fastest that was right, for each layout of B.
`confirm` times those plans once more beside all the vendor's ways, on fresh data: offline.csv has the issue's columns,
with the better layout of everybody, and table.csv is the tuned table (experts/gemm/table.py) that dispatch reads.
No shape begins after the limit of one call, so that a grid can be done in several; the devices of a host share it.
baselines.csv has every contender's time by layout. Not here: server mode (served.py), pages and plots (results.py).
"""

from __future__ import annotations

import csv
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from kernelwright.errors import UserError
from kernelwright.experts.gemm import Product, parse
from kernelwright.experts.gemm.product import HalfType
from kernelwright.experts.gemm.space import ranked
from kernelwright.experts.gemm.table import VENDOR, Row, read_rows, write_rows
from kernelwright.run.gemm.binaries import Binary, Point, build
from kernelwright.run.gemm.measuring import TUNING, Measuring, Outcome
from kernelwright.types import Target, replace, value

SIDES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384)
"""M, N and K of the public record's 1,000 shapes."""
COLUMNS = (
    "m", "n", "k", "ours_us", "torch_us", "cublas_us", "cublaslt_first_us", "cublaslt_tuned_us",
    "cublaslt_exhaustive_us", "plan", "confirmed",
)  # fmt: skip
PLANS = ("m", "n", "k", "layout", "plan", "ours_us", "torch_us", "cublaslt_tuned_us")
EACH = ("m", "n", "k", "name", "us", "algorithm")
TUNED, OFFLINE, SERVER, TABLE, BASELINES = "tuned.csv", "offline.csv", "server.csv", "table.csv", "baselines.csv"
LAYOUTS = ("nk", "kn")
AHEAD, FIRST = 25, 5
"""Shapes whose binaries are built together, while devices measure those before; and the first ones of a run."""
CONFIRMING_ROUNDS = 15
Shape = tuple[int, int, int]
Told = Callable[[str], None]
Job = TypeVar("Job")


@value
class Grid:
    """What a run is about."""

    shapes: tuple[Shape, ...]
    dtype: HalfType = "float16"
    top: int = 6
    """Schedules that are measured for each shape and layout."""
    workers: int = 4
    """Compilers at once."""
    limit_s: float = 540.0
    """No further shape begins so long after the beginning."""
    baselines: tuple[str, ...] = (*TUNING, "cublas")
    """Of the confirming run; tuning has torch and cuBLASLt beside it."""
    foreign: str = ""
    """A folder of other people's kernels for the confirming run."""


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


def prepare(grid: Grid, folder: Path, target: Target, tell: Told) -> Path:
    """Builds what `tune` will measure and has not yet; needs no device."""
    todo = left(grid, folder / TUNED, PLANS)
    for some in _groups(todo):
        points = [point for shape in some for point in _points(shape, grid)]
        made = {binary.path for binary in _binaries(points, grid, folder, target).values()}
        tell(f"{len(points)} points of {len(some)} shapes to {some[-1]} have {len(made)} binaries")
    return folder / "binaries"


def tune(grid: Grid, folder: Path, target: Target, devices: Sequence[Measuring], tell: Told) -> Path:
    """Writes the fastest right schedule of every shape and layout to `tuned.csv`; what stands there is left out."""
    file = folder / TUNED
    todo = left(grid, file, PLANS)
    tell(f"{len(grid.shapes) - len(todo)} of {len(grid.shapes)} shapes are tuned already")

    def prepared() -> Iterator[list[tuple[Point, Binary]]]:
        for some in _groups(todo):
            points = [_points(shape, grid) for shape in some]
            binaries = _binaries([p for found in points for p in found], grid, folder, target)
            yield from ([(p, binaries[p]) for p in found] for found in points)

    def measured(device: Measuring, points: list[tuple[Point, Binary]]) -> Callable[[], None]:
        outcome = device.measure(points[0][0].product, points)

        def keep() -> None:
            append(file, PLANS, [_plan(outcome, layout) for layout in LAYOUTS])
            tell(line_of(outcome))

        return keep

    _spread(devices, prepared(), measured, grid.limit_s)
    return _told_of_rest(file, grid, PLANS, tell)


def confirm(grid: Grid, folder: Path, target: Target, devices: Sequence[Measuring], tell: Told) -> Path:
    """Writes `offline.csv` and `table.csv`: the tuned plans of every shape, timed once more beside all baselines.

    Raises:
        UserError: where a shape has not been tuned in this folder.
    """
    plans = plans_of(grid, folder)
    file = folder / OFFLINE

    def prepared() -> Iterator[tuple[Shape, list[tuple[Point, Binary]]]]:
        for some in _groups(left(grid, file, COLUMNS)):
            points = {shape: _planned(shape, plans[shape], grid) for shape in some}
            binaries = _binaries([p for found in points.values() for p in found], grid, folder, target)
            yield from ((shape, [(p, binaries[p]) for p in found]) for shape, found in points.items())

    def measured(device: Measuring, job: tuple[Shape, list[tuple[Point, Binary]]]) -> Callable[[], None]:
        shape, points = job
        outcome = device.measure(
            product(shape, grid), points, rounds=CONFIRMING_ROUNDS, baselines=grid.baselines, foreign=grid.foreign
        )
        name, texts = str(device.device.get("name", "")), dict(outcome.algorithms)
        sizes = dict(zip("mnk", map(str, shape), strict=True))
        others = [{"name": n, "us": us(t), "algorithm": texts.get(n, "")} for n, t in outcome.baselines]

        def keep() -> None:
            keep_rows(folder / TABLE, [table_row(outcome, layout, name) for layout in LAYOUTS])
            append(folder / BASELINES, EACH, [sizes | other for other in others])
            append(file, COLUMNS, [_row(outcome)])
            tell(line_of(outcome))

        return keep

    _spread(devices, prepared(), measured, grid.limit_s)
    return _told_of_rest(file, grid, COLUMNS, tell)


def _spread(
    devices: Sequence[Measuring],
    jobs: Iterator[Job],
    measured: Callable[[Measuring, Job], Callable[[], None]],
    limit_s: float,
) -> None:
    """Has every device measure jobs, which a thread prepares ahead; what is measured is kept one at a time."""
    until = time.monotonic() + limit_s
    ready: queue.Queue[Job | None] = queue.Queue(2 * AHEAD)
    keeping, faults = threading.Lock(), list[BaseException]()

    def over() -> bool:
        return bool(faults) or time.monotonic() > until

    def prepare_all() -> None:
        try:
            while not over() and (job := next(jobs, None)) is not None:
                ready.put(job)
        except BaseException as fault:  # noqa: BLE001  (raised again below)
            faults.append(fault)
        for _ in devices:
            ready.put(None)

    def measure_all(device: Measuring) -> None:
        while (job := ready.get()) is not None:
            if over():
                continue  # whoever prepares may be waiting for room
            try:
                keep = measured(device, job)
                with keeping:
                    keep()
            except BaseException as fault:  # noqa: BLE001  (raised again below)
                faults.append(fault)

    with ThreadPoolExecutor(len(devices) + 1) as threads:
        doing = [threads.submit(prepare_all), *(threads.submit(measure_all, device) for device in devices)]
        try:
            wait(doing)
        except BaseException as stopped:  # noqa: BLE001  (raised below; a Ctrl-C lets each device finish its shape)
            faults.append(stopped)
    if faults:
        raise faults[0]


def _groups(shapes: Sequence[Shape]) -> Iterator[Sequence[Shape]]:
    """Shapes whose binaries are built together: few at first, so that no device waits long."""
    for first in (0, *range(FIRST, len(shapes), AHEAD)):
        if some := shapes[first : FIRST if first == 0 else first + AHEAD]:
            yield some


def plans_of(grid: Grid, folder: Path) -> dict[Shape, list[dict[str, str]]]:
    """Returns the tuned plans by shape, one of each layout.

    Raises:
        UserError: where one of the grid's shapes is not tuned in this folder.
    """
    plans: dict[Shape, list[dict[str, str]]] = {}
    for row in rows_of(folder / TUNED):
        plans.setdefault(_shape(row), []).append(row)
    if missing := [shape for shape in grid.shapes if shape not in plans]:
        message = f"{len(missing)} shapes are not tuned in {folder}, the first is {missing[0]}"
        raise UserError(message, "run `kernelwright gemm tune` with the same --shapes and --out first")
    return plans


def product(shape: Shape, grid: Grid) -> Product:
    """Returns a shape's product."""
    return Product(m=shape[0], n=shape[1], k=shape[2], dtype=grid.dtype)


def _planned(shape: Shape, plans: Sequence[dict[str, str]], grid: Grid) -> list[Point]:
    return [
        Point(product=replace(product(shape, grid), layout=row["layout"]), schedule=parse(row["plan"]))
        for row in plans
        if row["plan"]
    ]


def _points(shape: Shape, grid: Grid) -> list[Point]:
    products = [replace(product(shape, grid), layout=layout) for layout in LAYOUTS]
    return [Point(product=p, schedule=s) for p in products for s in ranked(p, grid.top)]


def _binaries(points: Sequence[Point], grid: Grid, folder: Path, target: Target) -> dict[Point, Binary]:
    return build(points, target, folder / "binaries", workers=grid.workers)


# ------------------------------------------------------------------------------ rows


def us(number: float | None) -> str:
    """Returns microseconds as a cell."""
    return f"{number:.3f}" if number is not None else ""


def _plan(outcome: Outcome, layout: str) -> dict[str, str]:
    best, p = outcome.best(layout), outcome.product
    return {
        "m": str(p.m), "n": str(p.n), "k": str(p.k), "layout": layout, "plan": best.schedule if best else "",
        "ours_us": us(best.us if best else None), "torch_us": us(outcome.baseline(f"torch_{layout}")),
        "cublaslt_tuned_us": us(outcome.baseline(f"cublaslt_tuned_{layout}")),
    }  # fmt: skip


def _row(outcome: Outcome) -> dict[str, str]:
    """The issue's columns, the better layout of everybody: `ours_us` is our best kernel, `plan` what dispatch runs, and
    `confirmed` that plan's time: ours where it won, else the vendor's best."""
    best, p = outcome.best(), outcome.product
    names = ("torch", "cublas_", "cublaslt_first", "cublaslt_tuned", "cublaslt_exhaustive")
    torch, cublas, first, tuned, swept = (outcome.baseline(name) for name in names)
    if swept is not None and tuned is not None:
        swept = min(swept, tuned)  # whoever sweeps has asked the heuristic too
    ours = best.us if best else None
    vendor = min((t for t in (torch, cublas, first, tuned, swept) if t is not None), default=None)
    won = ours is not None and (vendor is None or ours <= vendor)
    figures = (ours, torch, cublas, first, tuned, swept, ours if won else vendor)
    times = dict(zip((*COLUMNS[3:9], "confirmed"), figures, strict=True))
    plan = f"{best.layout} {best.schedule}" if best and won else VENDOR
    return {"m": str(p.m), "n": str(p.n), "k": str(p.k), "plan": plan} | {name: us(t) for name, t in times.items()}


def table_row(outcome: Outcome, layout: str, device: str) -> Row:
    """Returns what dispatch shall do with one layout: ours where it won against everything but foreign kernels."""
    best, p = outcome.best(layout), outcome.product
    names = ("torch", "cublas", "cublaslt_first", "cublaslt_tuned", "cublaslt_exhaustive")
    vendors = {n: t for n in names if (t := dict(outcome.baselines).get(f"{n}_{layout}")) is not None}
    quickest = min(vendors, key=lambda n: vendors[n], default="torch")
    won = best is not None and best.us is not None and best.us <= min(vendors.values(), default=best.us)
    return Row(
        device=device, dtype=p.dtype, layout=layout, m=p.m, n=p.n, k=p.k,  # type: ignore[arg-type]
        plan=best.schedule if won and best else VENDOR, ours_us=us(best.us if best else None),
        vendor_us=us(vendors.get(quickest)),
        algorithm="" if won else dict(outcome.algorithms).get(f"{quickest}_{layout}", ""),
    )  # fmt: skip


def line_of(outcome: Outcome) -> str:
    """Returns one shape's result in a line."""
    best, p = outcome.best(), outcome.product
    failed = sum(bool(r.failed) for r in outcome.rows)
    against = [f"{n} {us(t)}" for n in ("torch", "cublaslt_tuned") if (t := outcome.baseline(n)) is not None]
    tail = f"; {failed} of {len(outcome.rows)} failed" if failed else ""
    ours, plan = us(best.us if best else None) or "none", f"{best.layout} {best.schedule}" if best else ""
    return f"{p.m} x {p.n} x {p.k}: {ours} us, {', '.join(against)}; {plan}{tail}"


# ------------------------------------------------------------------------------ files


def rows_of(file: Path) -> list[dict[str, str]]:
    """Returns the whole lines of a file; one that a killed run left half written is as good as none."""
    if not file.is_file():
        return []
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [row for row in rows if None not in row.values()]


def _shape(row: dict[str, str]) -> Shape:
    return int(row["m"]), int(row["n"]), int(row["k"])


def left(grid: Grid, file: Path, columns: Sequence[str]) -> list[Shape]:
    """Returns the shapes that a file has not yet; a half-written end is taken off the file."""
    rows = rows_of(file)
    if file.is_file():
        _write(file, columns, rows)
    known = {_shape(row) for row in rows}
    return [shape for shape in grid.shapes if shape not in known]


def _write(file: Path, columns: Sequence[str], rows: Iterable[dict[str, str]]) -> None:
    waiting = file.with_suffix(".new")
    with waiting.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, columns)
        writer.writeheader()
        writer.writerows(rows)
    waiting.rename(file)


def append(file: Path, columns: Sequence[str], rows: Iterable[dict[str, str]]) -> None:
    """Adds rows to a file, which is made where it is not there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file():
        _write(file, columns, [])
    with file.open("a", newline="") as stream:
        csv.DictWriter(stream, columns).writerows(rows)


def keep_rows(file: Path, rows: Iterable[Row]) -> None:
    """Puts rows into a tuned table in place of those of the same products."""
    known = {(r.device, r.dtype, r.layout, r.m, r.n, r.k): r for r in (*read_rows(file), *rows)}
    write_rows(file, known.values())


def _told_of_rest(file: Path, grid: Grid, columns: Sequence[str], tell: Told) -> Path:
    if rest := len(left(grid, file, columns)):
        tell(f"{rest} shapes are left for a further call")
    return file
