"""The page, the plot and the CSV files of a finished run: docs/results/hgemm-DEVICE.md and beside it.

Every number is computed here from offline.csv and server.csv; nothing is typed in. The plot is plain SVG.
Not here: measuring (grid.py, served.py).
"""

from __future__ import annotations

import math
import shutil
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.experts.gemm.table import VENDOR, slug
from kernelwright.run.gemm.grid import OFFLINE, SERVER, rows_of
from kernelwright.types import value

BANDS = ((0.0, 1e8), (1e8, 1e9), (1e9, 1e10), (1e10, 1e11), (1e11, 1e12), (1e12, math.inf))
AGAINST = ("torch_us", "cublas_us", "cublaslt_first_us", "cublaslt_tuned_us", "cublaslt_exhaustive_us")
NOT_SLOWER = 0.99
WIDTH, HEIGHT, EDGE = 900, 420, 50
LOWEST, HIGHEST = 0.5, 4.0
"""Ratios at the plot's edges; what lies beyond is drawn there."""
Cells = dict[str, str]


@value
class Ratios:
    """How many times a baseline's time ours is below, over some shapes."""

    geometric: float
    least: float
    wins: int
    """Shapes on which ours is quicker."""
    count: int


def write(folder: Path, out: Path, *, device: str, dtype: str, shapes: str, command: str) -> Path:
    """Writes page, plot and CSV files; returns the page.

    Args:
        folder: of a run, with offline.csv and, where there is one, server.csv.
        out: where the page lies: docs/results.
        device: its name.
        dtype: of the operands.
        shapes: as it was given to the commands.
        command: what made the numbers.

    Raises:
        UserError: where nothing has been confirmed in the folder.
    """
    offline, server = rows_of(folder / OFFLINE), rows_of(folder / SERVER)
    if not offline:
        raise UserError(f"{folder / OFFLINE} has no rows", "run `kernelwright gemm tune` and `gemm bench` first")
    name = "-".join(["hgemm", slug(device).removeprefix("nvidia-"), *(() if dtype == "float16" else (dtype,))])
    if shapes != "grid":
        name += f"-{Path(shapes).stem}"
    out.mkdir(parents=True, exist_ok=True)
    for mode, rows in (("offline", offline), ("server", server)):
        if rows:
            shutil.copyfile(folder / f"{mode}.csv", out / f"{name}-{mode}.csv")
    (out / f"{name}.svg").write_text(plot(offline))
    lines = [f"# Matrix products on {device}: {dtype}, {len(offline)} shapes", "", f"Command: `{command}`", ""]
    lines.append(
        "Ratios are the other's time over the time of what dispatch runs (column `confirmed`): ours where it won"
    )
    lines.append(
        "this confirming run, the vendor's best call where it did not. Both sides have the better layout of B."
    )
    lines.append("")
    lines += _section("Offline: graphs of calls over rotated buffers, in turns", offline)
    lines += ["", f"![ratios]({name}.svg)", "", "## Our kernels alone, without the vendor's calls", ""]
    lines += _table([row for row in offline if row["ours_us"]], _total, ours="ours_us")
    if server:
        lines += ["", *_section("Server: isolated calls after random gaps, launch included", server)]
    page = out / f"{name}.md"
    page.write_text("\n".join(lines) + "\n")
    return page


def ratios(rows: Sequence[Cells], against: str, ours: str = "confirmed") -> Ratios | None:
    """Returns how ours stands against a column, over the rows that have both; None where none has."""
    found = [float(r[against]) / float(r[ours]) for r in rows if r.get(against) and r.get(ours)]
    if not found:
        return None
    wins = sum(ratio > 1.0 for ratio in found)
    return Ratios(geometric=statistics.geometric_mean(found), least=min(found), wins=wins, count=len(found))


def operations(row: Cells) -> float:
    """Returns a row's multiplications and additions."""
    return 2.0 * int(row["m"]) * int(row["n"]) * int(row["k"])


def _section(title: str, rows: Sequence[Cells]) -> list[str]:
    ours = sum(row["plan"] != VENDOR for row in rows)
    slow = [row for row in rows if (least := _vendors(row)) and float(row["confirmed"]) > least / NOT_SLOWER]
    lines = [
        f"## {title}",
        "",
        f"{ours} of {len(rows)} shapes run a kernel of ours, the others the vendor's best call;",
    ]
    lines += [f"{len(slow)} shapes lie below {NOT_SLOWER}x of the better vendor call.", ""]
    return [*lines, *_table(rows, _total), "", *_table(rows, _by_work)]


def _vendors(row: Cells) -> float | None:
    return min((float(row[name]) for name in AGAINST if row[name]), default=None)


def _total(row: Cells) -> str:
    del row
    return "all"


def _by_work(row: Cells) -> str:
    low, high = next(band for band in BANDS if band[0] <= operations(row) < band[1])
    return (
        f"below {high:.0e}" if not low else f"{low:.0e} and above" if math.isinf(high) else f"{low:.0e} to {high:.0e}"
    )


def _table(rows: Sequence[Cells], group: Callable[[Cells], str], ours: str = "confirmed") -> list[str]:
    groups: dict[str, list[Cells]] = {}
    for row in sorted(rows, key=operations):
        groups.setdefault(group(row), []).append(row)
    lines = ["| operations | against | geometric mean | least | won |", "|---|---|---|---|---|"]
    for name, some in groups.items():
        for against in AGAINST:
            if found := ratios(some, against, ours):
                cells = (name, against.removesuffix("_us"), f"{found.geometric:.3f}", f"{found.least:.2f}")
                lines.append(f"| {' | '.join(cells)} | {found.wins} of {found.count} |")
    return lines


def plot(rows: Sequence[Cells]) -> str:
    """Returns an SVG of the ratio to auto-tuned cuBLASLt over the operations of each shape, both logarithmic."""
    work = [math.log10(operations(row)) for row in rows]
    low, high = math.floor(min(work)), math.ceil(max(work) + 1e-9)

    def x(power: float) -> float:
        return EDGE + (power - low) / max(1, high - low) * (WIDTH - 2 * EDGE)

    def y(ratio: float) -> float:
        share = math.log(min(HIGHEST, max(LOWEST, ratio)) / LOWEST) / math.log(HIGHEST / LOWEST)
        return HEIGHT - EDGE - share * (HEIGHT - 2 * EDGE)

    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>']
    parts.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for ratio in (0.5, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0):
        colour = "#888" if ratio == 1.0 else "#ddd"
        parts.append(
            f'<line x1="{EDGE}" x2="{WIDTH - EDGE}" y1="{y(ratio):.1f}" y2="{y(ratio):.1f}" stroke="{colour}"/>'
        )
        parts.append(f'<text x="{EDGE - 6}" y="{y(ratio) + 4:.1f}" text-anchor="end">{ratio:g}</text>')
    for exponent in range(low, high + 1):
        parts.append(f'<text x="{x(exponent):.1f}" y="{HEIGHT - EDGE + 18}" text-anchor="middle">1e{exponent}</text>')
    for row, power in zip(rows, work, strict=True):
        if row["cublaslt_tuned_us"] and row["confirmed"]:
            ratio = float(row["cublaslt_tuned_us"]) / float(row["confirmed"])
            colour = "#b0b0b0" if row["plan"] == VENDOR else "#1f6feb"
            parts.append(
                f'<circle cx="{x(power):.1f}" cy="{y(ratio):.1f}" r="2.5" fill="{colour}" fill-opacity="0.6"/>'
            )
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">operations</text>')
    parts.append(
        f'<text x="{EDGE}" y="22">auto-tuned cuBLASLt / ours (blue: our kernel, grey: the vendor\'s call)</text>'
    )
    return "\n".join([*parts, "</svg>", ""])
