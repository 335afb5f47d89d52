"""Plots as SVG text, for pages that must open anywhere without a network.

Pure: numbers in, text out. Colours are CSS variables of the page (report/template.html).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from kernelwright.types import value

WIDTH, HEIGHT = 760, 280
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 12, 34
ROW = 30


@value
class Dot:
    """One judged candidate in the progress plot."""

    order: int
    speedup: float | None
    """None for a candidate that failed."""
    label: str
    kind: str
    """Who proposed it; becomes the dot's CSS class."""


@value
class Bar:
    """One row of an interval plot."""

    label: str
    middle: float
    low: float
    high: float
    kind: str = "candidate"


def progress(dots: Sequence[Dot]) -> str:
    """Returns the plot of speedup against the order of judgement, with the best so far as a line.

    The vertical axis is logarithmic: 2x and 0.5x are equally far from 1. Failures lie at the bottom edge.
    """
    speedups = [dot.speedup for dot in dots if dot.speedup]
    if not speedups:
        return ""
    low, high = min(0.9, *speedups) / 1.1, max(1.1, *speedups) * 1.1
    last = max(2, *(dot.order for dot in dots))

    def x(order: float) -> float:
        return LEFT + (order - 1) / (last - 1) * (WIDTH - LEFT - RIGHT)

    def y(speedup: float) -> float:
        share = math.log(speedup / low) / math.log(high / low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [_tick(y(tick), f"{tick:g}x", strong=tick == 1) for tick in ticks(low, high)]
    best = 0.0
    path: list[str] = []
    for dot in sorted(dots, key=lambda dot: dot.order):
        where = y(dot.speedup) if dot.speedup else HEIGHT - BOTTOM
        title = f"<title>{escape(dot.label)}</title>"
        parts.append(
            f'<circle class="dot {escape(dot.kind)}" cx="{x(dot.order):.1f}" cy="{where:.1f}" r="3.5">{title}</circle>'
        )
        if dot.speedup and dot.speedup > best:
            path.append(
                f"{'H' if path else 'M'}{x(dot.order):.1f}"
                + (f"V{y(dot.speedup):.1f}" if path else f",{y(dot.speedup):.1f}")
            )
            best = dot.speedup
    parts.append(f'<path class="best" d="{"".join(path)}H{x(last):.1f}"/>')
    parts.append(
        f'<text x="{LEFT}" y="{HEIGHT - 8}">candidates in the order they were first judged (1 to {last})</text>'
    )
    return _svg(HEIGHT, "Speedup against eager of each judged candidate", parts)


def intervals(bars: Sequence[Bar], *, unit: str, digits: int = 2, reference: float | None = None) -> str:
    """Returns rows of middle values with their intervals as whiskers, on a linear axis from zero.

    Args:
        bars: the rows, top to bottom.
        unit: written behind each number.
        digits: of each number, behind the point.
        reference: draws a vertical line there, such as 1 for "no faster".
    """
    if not bars:
        return ""
    label_width = 250
    most = max(*(bar.high for bar in bars), reference or 0.0) * 1.05
    height = ROW * len(bars) + 16

    def x(number: float) -> float:
        return label_width + number / most * (WIDTH - label_width - 120)

    parts = []
    if reference is not None:
        where = f"{x(reference):.1f}"
        parts.append(f'<line class="one" x1="{where}" x2="{where}" y1="0" y2="{height}"/>')
        parts.append(f'<text x="{where}" y="{height + 14}" text-anchor="middle">{reference:g}{unit}</text>')
        height += 18
    for number, bar in enumerate(bars):
        middle = ROW * number + ROW / 2 + 6
        text = f"{bar.middle:.{digits}f}{unit}"
        parts += [
            f'<text class="end" x="{label_width - 10}" y="{middle + 4:.1f}">{escape(bar.label)}</text>',
            f'<rect class="bar {escape(bar.kind)}" x="{label_width}" y="{middle - 8:.1f}" '
            f'width="{x(bar.middle) - label_width:.1f}" height="16" rx="2"/>',
            f'<path class="whisker" d="M{x(bar.low):.1f},{middle:.1f}H{x(bar.high):.1f}'
            f'M{x(bar.low):.1f},{middle - 5:.1f}v10M{x(bar.high):.1f},{middle - 5:.1f}v10"/>',
            f'<text x="{x(bar.high) + 8:.1f}" y="{middle + 4:.1f}">{text}</text>',
        ]
    return _svg(height, "Medians with their 95 % intervals", parts)


@value
class Curve:
    """One line of a plot of numbers against steps."""

    label: str
    numbers: tuple[float, ...]


def curves(lines: Sequence[Curve], *, title: str, step: str = "step") -> str:
    """Returns lines over their steps, on a linear axis from the smallest number (or 0) to the largest."""
    every = [number for line in lines for number in line.numbers]
    if not every:
        return ""
    low, high = min(0.0, *every), max(1e-9, *every)
    last = max(2, *(len(line.numbers) for line in lines))

    def y(number: float) -> float:
        return HEIGHT - BOTTOM - (number - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        _tick(y(low + (high - low) * share), f"{low + (high - low) * share:.2f}", strong=False)
        for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    for place, line in enumerate(lines):
        points = [
            f"{LEFT + i / (last - 1) * (WIDTH - LEFT - RIGHT):.1f},{y(n):.1f}" for i, n in enumerate(line.numbers)
        ]
        hue = round(360 * place / len(lines))
        style = f"stroke:hsl({hue},60%,45%)"
        parts.append(f'<polyline fill="none" style="{style}" stroke-width="1.5" points="{" ".join(points)}"/>')
        colour = f"fill:hsl({hue},60%,40%)"
        parts.append(f'<text x="{LEFT + 8}" y="{TOP + 14 + 15 * place}" style="{colour}">{escape(line.label)}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">{escape(step)} (1 to {last})</text>')
    return _svg(HEIGHT, title, parts)


def ticks(low: float, high: float) -> list[float]:
    """Returns readable marks for a logarithmic axis, always with 1 where it lies inside."""
    steps = (
        [m * 10.0**e for e in range(-4, 6) for m in (1, 2, 5)] if high / low > 4 else [0.1 * n for n in range(1, 81)]
    )
    inside = [round(step, 6) for step in steps if low <= step <= high]
    while len(inside) > 9:
        inside = [step for n, step in enumerate(inside) if n % 2 == 0 or step == 1]
    return inside


def _tick(y: float, text: str, *, strong: bool) -> str:
    line = f'<line class="{"one" if strong else "grid"}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return f'{line}<text class="end" x="{LEFT - 6}" y="{y + 4:.1f}">{text}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">\n{body}\n</svg>'
    )
