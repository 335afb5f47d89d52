"""What a person sees while a command runs, and the tables at its end.

Progress goes to standard error, answers to standard output, so that a pipe gets only answers.
On a terminal the progress is a few lines that are redrawn; elsewhere it is one line for each event.
Not here: what the numbers mean (report), and when a command ends (cli).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kernelwright.graph import Capture
from kernelwright.judge.admission import Admission
from kernelwright.report import Contender, Line, contenders, noise_text
from kernelwright.run.result import Event, Result, amount

NARROW = 100
"""Columns below which the tables leave out what does not fit; the page has everything."""
RECENT = 6
STATUS_KINDS = {"start", "prepare", "batch", "stage", "author"}
"""Events that say what is going on from now on."""
QUIET_KINDS = {"batch", "judge", "best", "end"}
"""Events that only a terminal shows: what is going on, and what another line says already."""
HEARTBEAT_S = 10.0
"""Outside a terminal, after so much silence, the next event is shown whatever its kind."""
SILENCE_S = 30.0
"""Outside a terminal, after so much silence, what is going on is said again."""


class Progress:
    """Shows events as they come; to be used in a `with` statement around the work.

    Args:
        console: where to write, usually standard error.
        budget_s: seconds of searching, for the bar; None shows no bar.
    """

    def __init__(self, console: Console, *, budget_s: float | None = None) -> None:
        self._console = console
        self._budget_s = budget_s
        self._start_s = time.monotonic()
        self._searched_s: float | None = None
        """Seconds of searching until `_ticking_since_s`; None before the search."""
        self._ticking_since_s: float | None = None
        """None while no budget passes."""
        self._line_s = self._start_s
        self._status = "starting"
        self._detail = ""
        self._best = ""
        self._counts = (0, 0)
        self._over = False
        """Whether the search is over, and only its best are judged again."""
        self._recent: deque[Text] = deque(maxlen=RECENT)
        self._live: Live | None = None
        self._writing = threading.RLock()
        self._ended = threading.Event()
        self._watch: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        else:
            self._watch = threading.Thread(target=self._break_silence, daemon=True)
            self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._live:
            self._live.stop()
        if self._watch:
            self._watch.join()

    def _break_silence(self) -> None:
        while not self._ended.wait(max(0.1, self._line_s + SILENCE_S - time.monotonic())):
            with self._writing:
                if time.monotonic() - self._line_s >= SILENCE_S:
                    self._line(f"{self._doing}, still")

    def step(self, text: str) -> None:
        """Shows a step outside the search, such as reading the source."""
        self._status, self._detail = text, ""
        if not self._live:
            self._line(text)

    def event(self, event: Event) -> None:
        """Shows one event of a run."""
        self._count_search(event)
        if event.kind in STATUS_KINDS:
            self._status, self._detail = event.text, ""
        if event.kind == "judge":
            self._detail = event.text
        if event.kind == "best":
            self._best = event.text
        self._counts = (event.judged, event.found)
        if event.kind in ("judged", "found"):
            self._recent.append(_outcome_text(event))
        if not self._live:
            self._print(event)

    def _count_search(self, event: Event) -> None:
        """Keeps the seconds that count against the budget: none of preparing, none after the search."""
        now = time.monotonic()
        if event.kind == "start":
            self._searched_s = 0.0
        if event.kind in ("prepare", "stage") and self._searched_s is not None and self._ticking_since_s is not None:
            self._searched_s += now - self._ticking_since_s
            self._ticking_since_s = None
        if event.kind == "stage":
            self._over = True
        if event.kind == "batch" and not self._over and self._ticking_since_s is None:
            self._ticking_since_s = now

    def _print(self, event: Event) -> None:
        single = event.kind == "batch" and self._budget_s is None  # nothing else says that judging has begun
        if event.kind not in QUIET_KINDS or single:
            searching = self._budget_s is not None and not self._over
            best = searching and event.speed is not None and event.speed == event.best
            self._line(f"{event.text} (best so far)" if best else event.text)
        elif event.kind in ("batch", "judge") and time.monotonic() - self._line_s > HEARTBEAT_S:
            self._line(self._doing)

    @property
    def _doing(self) -> str:
        return f"{self._status}: {self._detail}" if self._detail else self._status

    def _line(self, text: str) -> None:
        with self._writing:
            self._line_s = time.monotonic()
            passed_s = self._line_s - self._start_s
            self._console.print(f"[{passed_s:6.1f} s] {text}", markup=False, highlight=False, soft_wrap=True)

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = [Spinner("dots", Text(self._doing))]
        if self._budget_s is not None and self._searched_s is not None and not self._over:
            ticked = 0.0 if self._ticking_since_s is None else time.monotonic() - self._ticking_since_s
            passed = min(self._budget_s, self._searched_s + ticked)
            bar = Table.grid(padding=(0, 1))
            judged, found = self._counts
            known = f", {found} known before" if found else ""
            bar.add_row(
                ProgressBar(total=self._budget_s, completed=passed, width=30),
                f"{passed:.0f} of {self._budget_s:.0f} s, {judged} judged{known}",
            )
            parts.append(bar)
        parts += list(self._recent)
        if self._best:
            parts.append(Text(self._best, style="bold green"))
        return Group(*parts)


def _outcome_text(event: Event) -> Text:
    passed = event.record is not None and event.record.passed
    mark = Text("+ " if passed else "x ", style="green" if passed else "red")
    return mark.append(event.text, style="dim")


def answer_tables(result: Result, lines: tuple[Line, ...], *, width: int) -> Iterable[RenderableType]:
    """Yields what is printed at the end of `optimize`: candidates, contenders, and the answer."""
    if lines:
        yield verdict_table(lines, width=width)
    if rows := contenders(result.report, result.baselines):
        yield contender_table(rows, width=width)
        if text := noise_text(result.report):
            yield Text(text, style="dim")
    for refusal in result.refusals:
        if refusal.text not in result.why:
            yield Text(f"not done: {refusal.text}", style="dim")
    for note in result.notes:
        yield Text(f"note: {note}", style="dim")
    yield Text(result.why[:1].upper() + result.why[1:] + ".", style="bold")


def verdict_table(lines: tuple[Line, ...], *, width: int, most: int = 12) -> Table:
    """Returns the best candidates and every kind of failure, one row each; on a narrow terminal without schedules."""
    passed = [line for line in lines if line.passed]
    failed = [line for line in lines if not line.passed]
    shown = passed[:most] + failed[: max(3, most - len(passed))]
    more = len(lines) - len(shown)
    table = Table(
        title=f"{amount(len(lines), 'candidate')}: {len(passed)} passed, {len(failed)} failed", title_justify="left",
        caption=f"{more} more in the report" if more else None, caption_justify="left", show_edge=False,
    )  # fmt: skip
    right = {"justify": "right", "no_wrap": True}
    columns: list[tuple[str, dict[str, Any]]] = [
        ("#", right), ("template", {"no_wrap": True}), ("schedule", {"ratio": 1, "min_width": 24}),
        ("judged", {"no_wrap": True}), ("outcome", {"no_wrap": True}),
        ("µs", right), ("vs eager", right), ("95 % interval", right),
    ]  # fmt: skip
    kept = (0, 4, 5, 6) if width < NARROW else range(len(columns))
    for index in kept:
        table.add_column(columns[index][0], **columns[index][1])
    for line in shown:
        outcome = Text(line.outcome, style="green" if line.passed else "red")
        cells = (
            str(line.rank), line.template, line.schedule, line.policy, outcome,
            line.median, line.speedup, line.interval,
        )  # fmt: skip
        table.add_row(*(cells[index] for index in kept))
    return table


def admission_table(found: Sequence[tuple[str, Admission]]) -> Table:
    """Returns what became of each task of a folder, one row each, with a count at the end."""
    counts = Counter(admission.state for _, admission in found)
    caption = ", ".join(f"{counts[state]} {state}" for state in ("admitted", "repaired", "weak", "refused"))
    table = Table(caption=f"{amount(len(found), 'task')}: {caption}", caption_justify="left", show_edge=False)
    table.add_column("task", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("why", overflow="fold")
    styles = {"admitted": "green", "repaired": "yellow", "weak": "bold red", "refused": "red"}
    for _, admission in found:
        why = Text("; ".join(admission.why()))
        table.add_row(admission.name, Text(admission.state, styles[admission.state]), why)
    return table


def contender_table(rows: tuple[Contender, ...], *, width: int) -> Table:
    """Returns the final comparison with every baseline; on a narrow terminal without intervals."""
    table = Table(title="against what you could have had for free", title_justify="left", show_edge=False)
    narrow = width < NARROW
    compared = any(c.speedup for c in rows)
    table.add_column("contender", no_wrap=not narrow, overflow="fold")
    names = ("µs" if narrow else "median µs", "95 % interval", "speedup", "interval")
    kept = [index for index in ((0, 2) if narrow else range(len(names))) if compared or index < 2]
    for index in kept:
        table.add_column(names[index], justify="right", no_wrap=True)
    if not narrow:
        table.add_column("")
    styles = {"faster": "green", "slower": "red", "tie": "yellow", "undecided": "yellow", "": ""}
    for c in rows:
        cells = (c.median, c.interval, c.speedup, c.speedup_interval)
        verdict = () if narrow else (Text(c.verdict, style=styles[c.verdict]),)
        table.add_row(c.name, *(cells[index] for index in kept), *verdict)
    return table


def graph_text(captured: Capture) -> str:
    """Returns the operator graph as text, one line for each call, or why there is none."""
    if captured.graph is None:
        return f"no graph: {captured.reason}"
    lines = []
    for node in captured.graph.nodes:
        shapes = ", ".join(f"{r.dtype}{list(r.shape)}" if r else "-" for r in node.results)
        given = ", ".join(f"{name}={_argument_text(item)}" for name, item in node.arguments)
        lines.append(f"{node.name} = {node.op}({given}) -> {shapes}")
    return "\n".join([*lines, "return " + ", ".join(_argument_text(ref) for ref in captured.graph.outputs)])


def _argument_text(item: object) -> str:
    name = getattr(item, "name", None)
    if name is not None:
        return f"{name}[{item.index}]" if getattr(item, "index", 0) else str(name)  # type: ignore[attr-defined]
    return f"[{', '.join(map(_argument_text, item))}]" if isinstance(item, tuple) else repr(item)
