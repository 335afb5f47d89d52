"""The page of benchmarks/gpu.py: a line for each problem and language, then what they come to. Pure.

Not here: measuring (gpu.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu_problems

Row = dict[str, Any]
LARGE_BYTES = 64 << 20
"""Problems that move so much are held against the measured copy bandwidth, where memory limits them."""
HEAD = (
    "| problem | largest input | language | template | µs | of the floor | of a copy | against eager |"
    " best free baseline | against it | noise | judged | s |"
)
TEMPLATE_HEAD = "| problem | template | µs | against the best free baseline | judged | s |"


def line(row: Row) -> str:
    """Returns one line of the table."""
    head = [row["problem"], row["shape"], row.get("language", "-"), row["template"]]
    tail = [str(row.get("judged", "-")), str(row.get("seconds", "-"))]
    if row.get("error"):
        return f"| {' | '.join([*head, *'----', row['error'].replace('|', '/')[:80], '-', '-', *tail])} |"
    cells = [
        f"{row['kernel_us']:.2f}",
        _percent(row["floor_us"] / row["kernel_us"] if row["floor_us"] else None),
        _percent(row.get("of_copy")),
        ratio(row["eager"]),
        row["hardest"]["name"] if row["hardest"] else "-",
        ratio(row["hardest"]),
        f"{100 * row['noise']:.2f} %" if row["noise"] is not None else "-",
    ]
    return f"| {' | '.join([*head, *cells, *tail])} |"


def _template_line(row: Row) -> str:
    why = row["error"].replace("|", "/")[:80] if row.get("error") else ratio(row["hardest"])
    us = "-" if row.get("error") else f"{row['kernel_us']:.2f}"
    cells = (row["problem"], row["template"], us, why, str(row.get("judged", "-")), str(row.get("seconds", "-")))
    return f"| {' | '.join(cells)} |"


def _percent(share: float | None) -> str:
    return f"{100 * share:.0f} %" if share else "-"


def ratio(found: Row | None) -> str:
    """Returns a ratio with its interval in words."""
    return f"{found['ratio']:.2f} [{found['low']:.2f}, {found['high']:.2f}]" if found else "-"


def best_rows(rows: Iterable[Row], *, by: Sequence[str] = ("problem",)) -> list[Row]:
    """Returns the fastest row of each problem, or of each problem and language."""
    best: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = tuple(str(row.get(name, "-")) for name in by)
        if not row.get("error") and row["kernel_us"] < best.get(key, {"kernel_us": math.inf})["kernel_us"]:
            best[key] = row
    return list(best.values())


def summary(rows: list[Row]) -> list[str]:
    """Returns counts and geometric means: the best language of each problem, then each language by itself."""
    best = best_rows(rows)
    beyond = [r for r in best if r["hardest"] and r["hardest"]["low"] > 1 + (r["noise"] or 0.0)]
    lines = [
        f"- problems with a right kernel: {len(best)} of {len({r['problem'] for r in rows})}",
        f"- faster than every free baseline beyond the A/A noise (95 % intervals): {len(beyond)}",
        f"- best language of each problem: {_means(best)}",
    ]
    several = best_rows(rows, by=("problem", "language"))
    for language in sorted({str(row.get("language", "-")) for row in several}):
        own = [row for row in several if str(row.get("language", "-")) == language]
        lines.append(f"- {language}, {len(own)} problems: {_means(own)}")
    copies = [row["of_copy"] for row in best if row.get("of_copy")]
    if copies:
        enough = sum(share >= 0.9 for share in copies)
        lines.append(
            f"- memory-bound, {LARGE_BYTES >> 20} MiB and more, of the copy bandwidth measured in the same run: "
            f"geometric mean {_mean(copies)}, least {min(copies):.2f}, at 0.90 or more {enough} of {len(copies)}"
        )
    return lines


def _means(rows: list[Row]) -> str:
    hardest = [r["hardest"]["ratio"] for r in rows if r["hardest"]]
    eager = [r["eager"]["ratio"] for r in rows if r["eager"]]
    floors = [r["floor_us"] / r["kernel_us"] for r in rows if r["floor_us"]]
    return (
        f"geometric mean against the best free baseline {_mean(hardest)}, against eager {_mean(eager)}, "
        f"of the device's floor {_mean(floors)}"
    )


def _mean(numbers: list[float]) -> str:
    return f"{math.exp(sum(map(math.log, numbers)) / len(numbers)):.2f}" if numbers else "-"


def of_copy(copy: dict[str, float], moved_bytes: int, kernel_us: float) -> float:
    """Returns the fraction of a copy's bandwidth that a kernel reaches.

    Args:
        copy: bytes read and written in a second, by the size of the copied buffer.
        moved_bytes: what the kernel must read and write; a copy of half of that is nearest to it.
        kernel_us: its time.
    """
    size = min(copy, key=lambda known: abs(math.log(int(known) / max(1, moved_bytes // 2))))
    return moved_bytes / (kernel_us * 1e-6) / copy[size]


def document(data: Row) -> str:
    """Returns the results page."""
    rows: list[Row] = sorted(data["rows"].values(), key=lambda r: (_place(r["problem"]), r["template"]))
    method = next((r["method"] for r in rows if r.get("method")), "")
    best = best_rows(rows, by=("problem", "language"))
    shown = [r for r in rows if r in best or r["problem"] not in {b["problem"] for b in best}]
    copy = {size: rate for size, rate in data.get("copy", {}).items() if int(size) >= 1 << 26}
    rates = ", ".join(f"{rate / 1e9:.0f} GB/s at {int(size) >> 20} MiB" for size, rate in copy.items())
    return "\n".join(
        [
            "# GPU results",
            "",
            f"Made by `python benchmarks/gpu.py` on {data['device']}, {data['when']}; {data['tools']}.",
            f"Copying, measured in the same run: {rates or 'not measured'}.",
            "",
            *summary(rows),
            "",
            "The built-in problems at larger sizes (benchmarks/gpu_problems.py), float32. Ratios are the baseline's",
            "time over the kernel's with 95 % bootstrap intervals, from runs that had no part in choosing the kernel.",
            f"The best free baseline is the fastest of {', '.join(data['baselines'])}; the modes of torch.compile are",
            "timed once for each problem, and the fastest of those that compile in time stands beside every kernel.",
            "The floor is the time that the bytes that must move take at the best bandwidth measured on this device,",
            "or the operations at its best rate; a copy is one of half of those bytes.",
            "",
            HEAD,
            "|" + "---|" * (HEAD.count(" | ") + 1),
            *map(line, shown),
            "",
            "Every template:",
            "",
            TEMPLATE_HEAD,
            "|" + "---|" * (TEMPLATE_HEAD.count(" | ") + 1),
            *map(_template_line, rows),
            "",
            f"Method: {method}",
            "",
            *(f"- {row['problem']}: {note}" for row in best_rows(rows) for note in row.get("left_out", ())),
        ]
    )


def _place(name: str) -> int:
    known = list(gpu_problems.SIZES)
    return known.index(name) if name in known else len(known)


def own_file(results: Path, share: tuple[int, int]) -> Path:
    """Returns the file of one process of several: each writes its own."""
    number, count = share
    return results if count == 1 else results.with_name(f"{results.stem}-{number}of{count}{results.suffix}")


def merged(results: Path) -> Row:
    """Returns what all processes have found, each template's last row."""
    files = [results, *sorted(results.parent.glob(f"{results.stem}-*of*{results.suffix}"))]
    together: Row = {}
    rows: dict[str, Row] = {}
    for data in (json.loads(path.read_text()) for path in files if path.exists()):
        together |= data
        for key, row in data["rows"].items():
            if key not in rows or row.get("measured", "") >= rows[key].get("measured", ""):
                rows[key] = row
    return together | {"rows": rows}
