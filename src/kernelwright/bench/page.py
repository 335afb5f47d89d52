"""A benchmark's rows as Markdown, with two plots beside it as SVG. Pure: rows in, text out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from kernelwright.bench.rows import Row

FAST = (1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Values of p in fast_p: the share of tasks that are right and more than p times as fast as eager."""
KEPT = 0.8
"""A claim holds where this share of it is found: another device, and other versions, move times that much."""
WIDTH, HEIGHT, MARGIN = 720, 260, 46


def geometric_mean(numbers: Sequence[float]) -> float | None:
    """Returns the geometric mean, None of nothing."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else None


def fast_p(rows: Sequence[Row], p: float) -> float:
    """Returns the share of rows whose kernel passed the judge and is more than p times as fast as eager."""
    return sum(1 for row in rows if row.eager is not None and row.eager > p) / len(rows) if rows else 0.0


def real(row: Row) -> bool:
    """Returns whether a gain is of work that was done: the task is not weak, and no input was left unread."""
    return not row.weak and not row.independent


def markdown(rows: Sequence[Row], *, title: str, command: str) -> str:
    """Returns the page."""
    parts = [f"# {title}", "", f"    {command}", ""]
    parts += summary("all tasks", rows)
    kept = [row for row in rows if real(row)]
    if len(kept) != len(rows):
        parts += summary("without weak tasks, and without kernels that leave an input unread", kept)
    for group in sorted({group_of(row) for row in rows}):
        parts += summary(group, [row for row in rows if group_of(row) == group])
    parts += claims(rows)
    parts += ["![distribution of speedups](distribution.svg)", "", "![fast_p](fast_p.svg)", ""]
    parts += [
        "| task | state | eager | best baseline | interval | kernel | s | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    parts += [line(row) for row in rows]
    weak = [row for row in rows if not real(row)]
    if weak:
        parts += ["", "## Weak tasks, and gains that are not of work", ""]
        parts += [
            f"- `{row.task}`: {'; '.join((*row.weak, *(f'{n} is not read' for n in row.independent)))}" for row in weak
        ]
    return "\n".join(parts) + "\n"


def summary(name: str, rows: Sequence[Row]) -> list[str]:
    """Returns the lines about some rows."""
    states = Counter(row.state for row in rows)
    counted = ", ".join(f"{number} {state}" for state, number in states.most_common())
    solved = [row for row in rows if row.solved]
    taken = [row for row in rows if row.state not in ("unusable", "failed")]
    answers = geometric_mean([row.answer for row in taken])
    passed = geometric_mean([row.eager for row in rows if row.eager])
    best = geometric_mean([max(row.best or 1.0, 1.0) if row.state == "faster" else 1.0 for row in taken])
    curve = ", ".join(f"fast_{p:g} {100 * fast_p(rows, p):.0f} %" for p in FAST)
    means = [
        f"{label} {number:.3f}x"
        for label, number in (
            ("answers against eager", answers),
            ("against the best baseline", best),
            ("kernels that passed, against eager", passed),
        )
        if number is not None
    ]
    said = f"{len(solved)} of {len(rows)} solved: {counted}"
    lines = [f"**{name}**: {said}. Geometric means: {'; '.join(means) or 'none'}. {curve}.", ""]
    return lines + origins(rows)


def origins(rows: Sequence[Row]) -> list[str]:
    """Returns the line about what the gains of the kernels that are answers are made of, as geometric means."""
    faster = [row for row in rows if row.state == "faster" and row.parts]
    if not faster:
        return []
    parts = []
    for name in ("launch", "rewrite", "precision", "kernel"):
        found = [factor for row in faster for part, factor in row.parts if part == name and factor]
        mean = geometric_mean(found)
        unknown = sum(part == name and not factor for row in faster for part, factor in row.parts)
        if mean is not None or unknown:
            mixed = f", not told apart in {unknown}" if unknown else ""
            parts.append(f"{name} {mean or 1.0:.3f}x in {len(found)}{mixed}")
    return [f"Of the gains against eager of {len(faster)} kernels: {'; '.join(parts)}.", ""]


def group_of(row: Row) -> str:
    """Returns what a row is summed up under."""
    return row.group or f"level {row.level}"


def claims(rows: Sequence[Row]) -> list[str]:
    """Returns how many claims of solutions hold, at what speedup, and what the others fell by, most often first."""
    judged = [row for row in rows if row.outcome]
    if not judged:
        return []
    passed = [row for row in judged if row.outcome == "passed"]
    both = [(row.claimed, row.eager) for row in passed if row.claimed and row.eager]
    hold = sum(1 for claimed, honest in both if honest >= KEPT * claimed)
    claimed, honest = (geometric_mean([pair[i] for pair in both]) for i in (0, 1))
    said = f"{len(judged)} solutions were judged, {len(passed)} passed"
    if claimed is not None and honest is not None:
        said += f"; of {len(both)} with a claim {hold} reach {100 * KEPT:.0f} % of it, and their geometric mean is "
        said += f"{honest:.2f}x against eager, {claimed:.2f}x claimed"
    parts = ["## Solutions", "", f"{said}.", ""]
    for outcome, number in Counter(row.outcome for row in judged if row.outcome != "passed").most_common():
        tasks = ", ".join(f"`{row.task}`" for row in judged if row.outcome == outcome)
        parts.append(f"- {number} x {outcome}: {tasks}")
    return [*parts, ""]


def line(row: Row) -> str:
    """Returns a row of the table."""

    def times(number: float | None) -> str:
        return "" if number is None else f"{number:.2f}x"

    interval = f"{row.low:.2f} to {row.high:.2f}" if row.low is not None and row.high is not None else ""
    baseline = f"{times(row.best)} {row.baseline}" if row.best is not None else ""
    told = [(row.claimed, "claimed"), (row.published, "published")]
    claim = "".join(f" ({word} {number:.2f}x)" for number, word in told if number is not None)
    why = row.why.replace("|", "\\|")[:160]
    cells = (row.task, row.state, times(row.eager) + claim, baseline, interval, row.template, f"{row.seconds:.0f}", why)
    return f"| {' | '.join(cells)} |"


def distribution(rows: Sequence[Row]) -> str:
    """Returns the plot of all speedups against eager, from the least to the greatest, as SVG."""
    numbers = sorted(row.eager for row in rows if row.eager)
    if not numbers:
        return svg("no kernel passed", [])
    low, high = min(0.5, numbers[0]), max(2.0, numbers[-1])

    def y(number: float) -> float:
        share = math.log(number / low) / math.log(high / low)
        return HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)

    step = (WIDTH - 2 * MARGIN) / len(numbers)
    parts = [grid(y(tick), f"{tick:g}x") for tick in (0.1, 0.5, 1, 2, 5, 10, 50, 100) if low <= tick <= high]
    for place, number in enumerate(numbers):
        top, bottom = sorted((y(number), y(1.0)))
        colour = "#3a7" if number > 1 else "#c55"
        parts.append(
            f'<rect x="{MARGIN + place * step:.1f}" y="{top:.1f}" width="{max(step - 1, 0.5):.1f}" '
            f'height="{max(bottom - top, 0.5):.1f}" fill="{colour}"/>'
        )
    return svg(f"speedups against eager of {len(numbers)} kernels that passed the judge", parts)


def curve(rows: Sequence[Row]) -> str:
    """Returns the plot of fast_p over p from 0.5 to 16, as SVG."""
    points = []
    for place in range(101):
        p = 0.5 * 32.0 ** (place / 100)
        x = MARGIN + place / 100 * (WIDTH - 2 * MARGIN)
        points.append(f"{x:.1f},{HEIGHT - MARGIN - fast_p(rows, p) * (HEIGHT - 2 * MARGIN):.1f}")
    parts = [grid(HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN), f"{100 * share:.0f} %") for share in (0, 0.5, 1)]
    parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="#36a" stroke-width="2"/>')
    for p in (0.5, 1, 2, 4, 8, 16):
        x = MARGIN + math.log(p / 0.5) / math.log(32) * (WIDTH - 2 * MARGIN)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{p:g}x</text>')
    return svg("fast_p: share of tasks solved and more than p times as fast as eager", parts)


def grid(y: float, text: str) -> str:
    """Returns one horizontal line with its label."""
    return (
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ccc"/>'
        f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    )


def svg(title: str, parts: Sequence[str]) -> str:
    """Returns a drawing with a title."""
    body = "\n".join((*parts, f'<text x="{WIDTH / 2}" y="18" text-anchor="middle">{title}</text>'))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return f'{head}\n<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n'
