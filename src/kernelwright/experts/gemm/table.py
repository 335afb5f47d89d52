"""Tuned tables: for each product, layout and type the plan that won a confirming run on one kind of device.

A table is a CSV file that `kernelwright gemm bench` writes and nobody by hand. A plan is a schedule's spelling, or
`vendor` where ours did not win: then the vendor's best algorithm, where it is known, is what has to run.
Tables of this package lie in tables/, those of this machine in KERNELWRIGHT_HOME/gemm; without any, everything is
the vendor's. Not here: measuring (run/gemm), calling (deploy/matmul.py).
"""

from __future__ import annotations

import csv
import functools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from kernelwright.environment import home
from kernelwright.errors import UserError
from kernelwright.experts.gemm import rules
from kernelwright.experts.gemm.product import HalfType, Layout, Product
from kernelwright.experts.gemm.schedules import Schedule, parse
from kernelwright.types import value

PACKAGED = Path(__file__).with_name("tables")
VENDOR = "vendor"
Shape = tuple[int, int, int]


@value
class Row:
    """What a confirming run found of one product, without epilogue, on one device."""

    device: str
    dtype: HalfType
    layout: Layout
    m: int
    n: int
    k: int
    plan: str
    """A schedule's spelling, or `vendor`."""
    ours_us: str
    """Of the confirming run, empty where ours failed."""
    vendor_us: str
    """Of the same run: the better of torch and cuBLASLt's best algorithm with this layout."""
    algorithm: str = ""
    """Of cuBLASLt, where it beat torch: library's version, its 64 bytes in hexadecimal, bytes of workspace."""


COLUMNS = tuple(f.name for f in fields(Row))


class Table:
    """The rows of one device.

    Args:
        rows: a later row replaces an earlier one of the same product.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._groups: dict[tuple[str, str], dict[Shape, Row]] = {}
        for row in rows:
            self._groups.setdefault((row.dtype, row.layout), {})[row.m, row.n, row.k] = row

    def find(self, product: Product) -> Row | None:
        """Returns the row of exactly these sizes, layout and type."""
        return self._group(product).get((_rows_of(product), product.n, product.k))

    def schedule(self, product: Product, architecture: str = "sm_90a") -> Schedule | None:
        """Returns the nearest winning schedule that is possible for a product, None where none is near or it lost.

        Near is measured in powers of two of the three sizes; what lies further than `NEAR` is another kind of product.
        """
        shape = (_rows_of(product), product.n, product.k)
        near = sorted((_distance(shape, known), known, row) for known, row in self._group(product).items())
        for distance, _, row in near:
            if distance > NEAR or row.plan == VENDOR:
                return None
            schedule = parse(row.plan)
            if not rules.fault(schedule, product, architecture):
                return schedule
        return None

    def _group(self, product: Product) -> dict[Shape, Row]:
        return self._groups.get((product.dtype, product.layout), {})


NEAR = 2.0
"""Doublings, all three sizes together."""


def _rows_of(product: Product) -> int:
    return product.m * product.batch


def _distance(one: Shape, other: Shape) -> float:
    return sum(abs(math.log2(a / b)) for a, b in zip(one, other, strict=True))


def slug(device: str) -> str:
    """Returns a device's name as a file's: `NVIDIA H200` is `nvidia-h200`."""
    return re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")


def read_rows(file: Path) -> Iterator[Row]:
    """Yields the rows of a file, none where there is no file.

    Raises:
        UserError: for a file with other columns, or a row that is none.
    """
    if not file.is_file():
        return
    with file.open(newline="") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserError(f"{file} is no tuned table", "make it with `kernelwright gemm bench`")
        for number, cells in enumerate(reader, start=2):
            try:
                yield Row(**(cells | {axis: int(cells[axis]) for axis in "mnk"}))  # type: ignore[arg-type]
            except (TypeError, ValueError):
                raise UserError(f"{file}:{number} is no row of a tuned table", "make it again") from None


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Writes a table, in order of its rows' sizes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    waiting = file.with_suffix(".new")
    with waiting.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        ordered = sorted(rows, key=lambda r: (r.dtype, r.layout, r.m * r.n * r.k, r.m, r.n))
        writer.writerows([getattr(row, name) for name in COLUMNS] for row in ordered)
    waiting.rename(file)


def place_of(device: str) -> Path:
    """Returns where this machine's own table of a device lies."""
    return home() / "gemm" / f"{slug(device)}.csv"


@functools.cache
def table_of(device: str) -> Table:
    """Returns all that is known of a device: the package's rows, and this machine's in their place."""
    own = [row for file in (PACKAGED / f"{slug(device)}.csv", place_of(device)) for row in read_rows(file)]
    return Table(row for row in own if row.device == device)
