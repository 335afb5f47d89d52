"""Live progress: what counts against the budget, and what a log without a terminal gets."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from kernelwright import console
from kernelwright.console import Progress
from kernelwright.run.result import Event, EventKind


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def told(clock: Clock, *events: tuple[float, EventKind, str], terminal: bool, budget_s: float | None = 30.0) -> str:
    """Returns what was on the screen at the end, or the whole log where there is no terminal."""
    screen = Console(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    progress = Progress(screen, budget_s=budget_s)
    for now_s, kind, text in events:
        clock.now_s = now_s
        speed = 2.0 if kind in ("judged", "best") else None
        progress.event(Event(kind=kind, text=text, elapsed_s=now_s, judged=0, found=0, speed=speed, best=speed))
    if terminal:
        screen.print(progress._render())
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_preparing_takes_no_budget(clock: Clock) -> None:
    searching: tuple[tuple[float, EventKind, str], ...] = (
        (0, "start", "softmax: 1 template"),
        (0, "prepare", "preparing the judge (screen)"),
        (8, "batch", "building and judging 8 candidates (screen)"),
        (20, "prepare", "preparing the judge (measure)"),
        (29, "judge", "family normal, draw 0"),
    )
    seen = told(clock, *searching, terminal=True)
    assert "12 of 30 s" in seen
    assert "preparing the judge (measure): family normal, draw 0" in seen


def test_the_bar_ends_with_the_search(clock: Clock) -> None:
    seen = told(
        clock, (0, "start", "go"), (0, "batch", "b"), (9, "stage", "choosing"), (9, "batch", "final"), terminal=True
    )
    assert "of 30 s" not in seen


def test_a_log_has_one_line_for_each_outcome_and_a_sign_of_life(clock: Clock) -> None:
    seen = told(
        clock,
        (0, "start", "softmax: 1 template"),
        (1, "prepare", "preparing the judge (screen)"),
        (2, "judge", "family normal, draw 0"),
        (13, "judge", "baseline compile:default: compiling"),
        (14, "judged", "2.00x against eager, loops"),
        (14, "best", "best so far (screen): 2.00x against eager, loops"),
        (15, "end", "the kernel wins"),
        terminal=False,
    )
    assert seen.splitlines() == [
        "[   0.0 s] softmax: 1 template",
        "[   1.0 s] preparing the judge (screen)",
        "[  13.0 s] preparing the judge (screen): baseline compile:default: compiling",
        "[  14.0 s] 2.00x against eager, loops (best so far)",
    ]


def test_a_long_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "SILENCE_S", 0.01)
    screen = Console(file=io.StringIO(), force_terminal=False, width=100)
    assert isinstance(screen.file, io.StringIO)
    limit_s = time.monotonic() + 60
    with Progress(screen) as progress:
        progress.step("tracing")
        while screen.file.getvalue().count("tracing, still") < 2:
            assert time.monotonic() < limit_s
            time.sleep(0.01)
    seen = screen.file.getvalue()
    time.sleep(0.3)
    assert screen.file.getvalue() == seen


def test_a_single_kernel_is_not_called_the_best_so_far(clock: Clock) -> None:
    events: tuple[tuple[float, EventKind, str], ...] = (
        (0, "batch", "building and judging 1 candidate (report)"),
        (1, "judged", "2.00x against eager, mine.cpp"),
    )
    seen = told(clock, *events, terminal=False, budget_s=None)
    assert [line.partition("] ")[2] for line in seen.splitlines()] == [text for _, _, text in events]
    assert "best" not in seen
