"""The report: the page says what the values say, opens without a network, and escapes what it is given."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from kernelwright import console, report
from kernelwright.report.plot import Bar, Dot, intervals, progress, ticks
from kernelwright.run.result import Result, Row
from kernelwright.types import (
    Candidate,
    Check,
    Comparison,
    Failure,
    Judgement,
    LaunchPlan,
    Measurement,
    Policy,
    Problem,
    Record,
    Refusal,
    SourceFile,
    Target,
    TensorSpec,
    Verdict,
    digest,
    replace,
)

PROBLEM = Problem(
    name="row_sum",
    inputs=(TensorSpec(name="x", shape=(4, 8), dtype="float32", role="input"),),
    parameters=(),
    outputs=(TensorSpec(name="out", shape=(4,), dtype="float32", role="output"),),
    reference=(SourceFile(path="row_sum.py", text="def f(x): return x.sum(1)  # <b>&"),),
    entry="f",
    workloads=(),
    min_bytes=144,
)
TARGET = Target(kind="cpu", architecture="Test CPU", features=("avx2",), threads=2, toolchain=(("g++", "12.2.0"),))
POLICY = Policy(name="report", families=("normal",), draws=1, baselines=("eager",), rounds=3, block_us=1.0)


def candidate(text: str, author: str = "tune") -> Candidate:
    sources = (SourceFile(path="kernel.cpp", text=text),)
    plan = LaunchPlan(steps=())
    point = (("unroll", len(text)),)
    return Candidate(
        problem=digest(PROBLEM),
        language="cpp",
        sources=sources,
        plan=plan,
        author=author,
        template="loops",
        point=point,
    )


def measured(contender: str, median: float) -> Measurement:
    return Measurement(
        contender=contender, workload="w", mode="cold", median_us=median, low_us=median - 1, high_us=median + 1,
        samples=3, calls=2, method="a clock",
    )  # fmt: skip


def passed(item: Candidate, eager: tuple[float, float, float], compiled: tuple[float, float, float]) -> Record:
    comparisons = tuple(
        Comparison(baseline=name, speedup=middle, low=low, high=high)
        for name, (low, middle, high) in (("eager", eager), ("compile:default", compiled))
    )
    outcome = Judgement(
        verdict=Verdict(checks=(Check(name="accuracy", passed=True, evidence="0.5 of the bound"),)),
        measurements=(measured("candidate", 10.0), measured("eager", 20.0), measured("compile:default", 10.5)),
        comparisons=comparisons,
        noise=0.01,
    )
    return record(item, outcome)


def record(item: Candidate, outcome: Failure | Judgement) -> Record:
    problem, target, policy = digest(PROBLEM), digest(TARGET), digest(POLICY)
    return Record(
        problem=problem, candidate=digest(item), target=target, policy=policy, outcome=outcome, when="2026-01-01"
    )


GOOD, BAD = candidate("int a; // <script>"), candidate("int bb;", author="evolve")
REPORT = passed(GOOD, (1.9, 2.0, 2.1), (0.98, 1.05, 1.1))
FAILURE = record(BAD, Failure(stage="build", kind="syntax", message="expected ';'", location="kernel.cpp:3"))
RESULT = Result(
    problem=PROBLEM, target=TARGET, policy=POLICY, seed=7, answer="baseline", why="the best kernel ties", best=GOOD,
    report=REPORT, baseline="compile:default",
    rows=(Row(candidate=GOOD, records=(("report", REPORT),)), Row(candidate=BAD, records=(("screen", FAILURE),))),
    baselines=(), refusals=(Refusal(subject="aten.svd", reason="no expert"),),
    counts=(("passed", 1), ("build: syntax", 1)), judged=2, found=0, stopped="budget", seconds=12.0,
    notes=("one note",),
)  # fmt: skip


class Text(HTMLParser):
    """Collects what a reader sees, and what a browser would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.fetched: list[str] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "line", "circle", "path", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "circle", "path", "rect"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.seen.append(data)


def test_the_page_says_what_was_found() -> None:
    page = Text(report.html(RESULT, version="1.2.3"))
    seen = " ".join(" ".join(page.seen).split())
    numbers = ("2.00x", "1.90 to 2.10", "faster", "1.05x", "tie", "0.5 of the bound")
    names = ("The best kernel ties", "aten.svd", "one note", "expected ';'", "kernel.cpp:3", "1.2.3", "Test CPU")
    for words in (*numbers, *names, digest(GOOD)):
        assert words in seen, words
    assert page.open == []


def test_the_page_needs_no_network_and_runs_nothing() -> None:
    text = report.html(RESULT, version="1")
    assert Text(text).fetched == []
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "url(" not in text
    assert "&lt;b&gt;&amp;" in text


def test_a_result_without_a_kernel_has_a_page() -> None:
    bare = replace(RESULT, best=None, report=None, rows=(), counts=(), baselines=(measured("eager", 20.0),))
    seen = " ".join(Text(report.html(bare, version="1")).seen)
    assert "20.0" in seen
    assert "Checks that it passed" not in seen


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((1.02, 1.1, 1.2), "faster"),
        ((1.005, 1.1, 1.2), "tie"),
        ((0.9, 0.95, 0.98), "slower"),
        ((0.9, 0.95, 0.995), "tie"),
    ],
)
def test_a_ratio_inside_the_noise_is_a_tie(interval: tuple[float, float, float], verdict: str) -> None:
    rows = report.contenders(passed(GOOD, interval, interval))
    assert [row.verdict for row in rows] == ["", verdict, verdict]
    assert rows[0].name == "this kernel"


def test_markdown_has_a_row_for_each_contender() -> None:
    text = report.markdown(RESULT)
    assert text.startswith("**row_sum**: the best kernel ties")
    assert "| eager | 20.0 | 19.0 to 21.0 | 2.00x | 1.90 to 2.10 | faster |" in text
    assert len(text.strip().splitlines()) == 2 + 2 + 3


def test_progress_shows_failures_below_and_the_best_so_far() -> None:
    dots = [Dot(order=n, speedup=s, label=f"<{n}>", kind="tune") for n, s in enumerate((1.0, None, 2.0, 1.5), 1)]
    text = progress(dots)
    places = [float(y) for y in re.findall(r'<circle[^>]*cy="([\d.]+)"', text)]
    assert places[1] == max(places)
    assert places[2] == min(places)
    assert "&lt;1&gt;" in text
    (path,) = re.findall(r'class="best" d="([^"]+)"', text)
    assert path.count("V") == 1


def test_nothing_to_plot_is_no_plot() -> None:
    assert progress([Dot(order=1, speedup=None, label="", kind="tune")]) == ""
    assert intervals([], unit="x") == ""


def test_bars_grow_with_their_numbers() -> None:
    text = intervals(
        [Bar(label="a", middle=1.0, low=0.9, high=1.1), Bar(label="b", middle=2.0, low=1.9, high=2.1)], unit="x"
    )
    first, second = (float(width) for width in re.findall(r'width="([\d.]+)" height="16"', text))
    assert second == pytest.approx(2 * first, rel=0.01)


@pytest.mark.parametrize(("low", "high"), [(0.5, 1.4), (0.9, 1.2), (0.01, 40.0), (0.3, 5.0)])
def test_ticks_are_few_and_hold_one(low: float, high: float) -> None:
    marks = ticks(low, high)
    assert 1 in marks
    assert 2 <= len(marks) <= 10
    assert all(low <= mark <= high for mark in marks)


@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_tables_fit_the_terminal_and_keep_their_numbers(width: int) -> None:
    contender = report.Contender(
        name="compile:max-autotune-no-cudagraphs", median="345.6", interval="340.0 to 350.0", speedup="12.34x",
        speedup_interval="11.1 to 13.2", verdict="faster",
    )  # fmt: skip
    line = report.Line(
        rank=1, template="loops", schedule="threads=2 vector_bytes=64 unroll=4", author="tune", policy="report",
        outcome="passed", passed=True, speedup="12.34x", interval="11.1 to 13.2", median="345.6", reason="",
    )  # fmt: skip
    file = io.StringIO()
    tables = console.verdict_table((line,), width=width), console.contender_table((contender,), width=width)
    Console(width=width, file=file).print(*tables)
    printed = file.getvalue()
    assert max(len(text) for text in printed.splitlines()) <= width
    assert printed.count("345.6") == printed.count("12.34x") == 2
    assert "…" not in printed


def test_what_passed_as_witnessed_says_so() -> None:
    witnessed = replace(GOOD, language="python")
    rows = tuple(Row(candidate=item, records=(("report", REPORT),)) for item in (GOOD, witnessed))
    assert [line.outcome for line in report.lines(rows)] == ["passed", "passed (witnessed)"]
