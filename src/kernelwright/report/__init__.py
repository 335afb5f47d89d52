"""What was found, for people: one self-contained HTML page, and the same numbers as text tables.

Pure: a `Result` in, text out. The page needs no network, no script and no font of its own.
Not here: judging or choosing (run), live progress (console).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelwright.report.plot import Bar, Dot, intervals, progress
from kernelwright.run.result import Result, Row, outcome_name, standing
from kernelwright.search.speed import against_reference, speed
from kernelwright.types import Comparison, Failure, Judgement, Measurement, Record, TensorSpec, digest, value

__all__ = ["Contender", "Line", "contenders", "html", "lines", "markdown", "noise_text", "tensor_text"]

SHOWN = 200
"""Candidates that the page lists; more are counted, and stay in the store."""
WITNESSED = " (witnessed)"
"""Beside what passed although its author's own Python ran in the measured process."""
PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@value
class Line:
    """One candidate as a row of the verdict table."""

    rank: int
    template: str
    schedule: str
    author: str
    policy: str
    outcome: str
    passed: bool
    speedup: str
    interval: str
    median: str
    reason: str
    """The failed check's evidence or the failure's message; empty for what passed."""


@value
class Contender:
    """The winner's final comparison with one baseline, ready to print."""

    name: str
    median: str
    interval: str
    speedup: str
    speedup_interval: str
    verdict: str
    """faster, slower, or tie; empty for the kernel itself."""


def lines(rows: Iterable[Row]) -> tuple[Line, ...]:
    """Returns the verdict table: one line for each candidate, in the order given."""
    return tuple(_line(number, row) for number, row in enumerate(rows, 1))


def _line(rank: int, row: Row) -> Line:
    policy, record = row.records[-1]
    comparison, measured = _against(record), _candidate_time(record)
    return Line(
        rank=rank,
        template=row.candidate.template or ("-" if row.candidate.author == "person" else row.candidate.author),
        schedule=" ".join(f"{name}={choice}" for name, choice in row.candidate.point) or "as written",
        author=row.candidate.author,
        policy=policy,
        outcome=outcome_name(record) + (WITNESSED if row.candidate.witnessed and record.passed else ""),
        passed=record.passed,
        speedup=f"{comparison.speedup:.2f}x" if comparison else "",
        interval=f"{comparison.low:.2f} to {comparison.high:.2f}" if comparison else "",
        median=f"{measured.median_us:.1f}" if measured else "",
        reason=_reason(record),
    )


def _against(record: Record) -> Comparison | None:
    judgement = _judgement(record)
    return against_reference(judgement) if judgement else None


def _candidate_time(record: Record) -> Measurement | None:
    judgement = _judgement(record)
    return next((m for m in judgement.measurements if m.contender == "candidate"), None) if judgement else None


def _reason(record: Record) -> str:
    if isinstance(record.outcome, Failure):
        where = f" ({record.outcome.location})" if record.outcome.location else ""
        return record.outcome.message + where
    return "; ".join(f"{c.name}: {c.evidence}" for c in record.outcome.verdict.checks if not c.passed)


def contenders(record: Record | None, baselines: tuple[Measurement, ...] = ()) -> tuple[Contender, ...]:
    """Returns a final comparison: the kernel and each baseline that it was timed beside, in the order of the record.

    Args:
        record: the kernel's; None or a failed one gives the baselines alone.
        baselines: used where the record holds no times.
    """
    judgement = _judgement(record)
    noise = (judgement.noise or 0.0) if judgement else 0.0
    measurements = compared((judgement.measurements if judgement else ()) or baselines)
    return tuple(_contender(m, judgement.against(m.contender) if judgement else None, noise) for m in measurements)


def compared(measurements: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
    """Returns the measurements of the mode that contenders are compared in: the first one's."""
    return tuple(m for m in measurements if m.mode == measurements[0].mode)


def _judgement(record: Record | None) -> Judgement | None:
    return record.outcome if record and isinstance(record.outcome, Judgement) else None


def _contender(measured: Measurement, against: Comparison | None, noise: float) -> Contender:
    return Contender(
        name="this kernel" if measured.contender == "candidate" else measured.contender,
        median=f"{measured.median_us:.1f}",
        interval=f"{measured.low_us:.1f} to {measured.high_us:.1f}",
        speedup=f"{against.speedup:.2f}x" if against else "",
        speedup_interval=f"{against.low:.2f} to {against.high:.2f}" if against else "",
        verdict=standing(against, noise) if against else "",
    )


def noise_text(record: Record | None) -> str:
    """Returns the noise of a final comparison and what it does to the verdicts; empty where none was measured."""
    judgement = _judgement(record)
    if judgement is None or judgement.noise is None:
        return ""
    measured = f"noise (the same baseline against itself): {100 * judgement.noise:.1f} %"
    return f"{measured}; a speedup whose interval does not clear 1 by that factor is no difference"


def tensor_text(spec: TensorSpec) -> str:
    """Returns a tensor as people write it: `x: float32[4096, 1024]`."""
    return f"{spec.name}: {spec.dtype}[{', '.join(map(str, spec.shape))}]"


def html(result: Result, *, version: str) -> str:
    """Returns the whole page of one optimisation.

    Args:
        result: what `run.optimize` or `run.recall` returned.
        version: kernelwright's, for the foot of the page.
    """
    judgement = _judgement(result.report)
    return PAGES.get_template("template.html").render(
        result=result,
        problem=result.problem,
        arguments=[(spec.role, tensor_text(spec)) for spec in result.problem.arguments],
        judgement=judgement,
        contenders=contenders(result.report, result.baselines),
        lines=lines(result.rows[:SHOWN]),
        hidden=max(0, len(result.rows) - SHOWN),
        progress=progress(_dots(result.rows)),
        speedups=intervals(_speedup_bars(judgement), unit="x", reference=1.0) if judgement else "",
        times=intervals(_time_bars(result), unit=" µs", digits=1),
        noise=noise_text(result.report),
        method=_method(result),
        digests={"problem": digest(result.problem), "target": digest(result.target), "policy": digest(result.policy)},
        candidate_digest=digest(result.best) if result.best else "",
        version=version,
    )


def markdown(result: Result) -> str:
    """Returns the final comparison as a Markdown table, headed by the answer."""
    head = f"**{result.problem.name}**: {result.why}\n\n| contender | median µs | interval | speedup | interval | |\n"
    body = "\n".join(
        f"| {c.name} | {c.median} | {c.interval} | {c.speedup} | {c.speedup_interval} | {c.verdict} |"
        for c in contenders(result.report, result.baselines)
    )
    return f"{head}|---|---|---|---|---|---|\n{body}\n"


def _dots(rows: Iterable[Row]) -> list[Dot]:
    # As first judged: only numbers of one policy can stand beside each other.
    first = sorted(rows, key=lambda row: row.records[0][1].when)
    return [
        Dot(
            order=n,
            speedup=speed(row.records[0][1]),
            label=f"{_line(n, row).schedule}: {_line(n, row).outcome}",
            kind=row.candidate.author,
        )
        for n, row in enumerate(first, 1)
    ]


def _speedup_bars(judgement: Judgement) -> list[Bar]:
    return [Bar(label=c.baseline, middle=c.speedup, low=c.low, high=c.high) for c in judgement.comparisons]


def _measurements(result: Result) -> tuple[Measurement, ...]:
    judgement = _judgement(result.report)
    return compared((judgement.measurements if judgement else ()) or result.baselines)


def _time_bars(result: Result) -> list[Bar]:
    measurements = _measurements(result)
    return [
        Bar(
            label="this kernel" if m.contender == "candidate" else m.contender,
            middle=m.median_us,
            low=m.low_us,
            high=m.high_us,
            kind="candidate" if m.contender == "candidate" else "baseline",
        )
        for m in measurements
    ]


def _method(result: Result) -> str:
    measurements = _measurements(result)
    return measurements[0].method if measurements else "nothing was timed"
