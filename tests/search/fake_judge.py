"""A judge that knows the answers, and parts for `optimize` that need no compiler and no torch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelwright.graph import Capture, Graph
from kernelwright.run import Parts
from kernelwright.testing.strategies import (
    WIDE,
    Landscape,
    coupled,
    fake_measurement,
    fake_policy,
    fake_record,
    make_template,
    noise_of,
)
from kernelwright.types import (
    Candidate,
    Measurement,
    Policy,
    Problem,
    Record,
    Refusal,
    SourceFile,
    Target,
    Template,
    TensorSpec,
    Workload,
    digest,
    replace,
)

X = TensorSpec(name="x", shape=(8, 8), dtype="float32", role="input")
PROBLEM = Problem(
    name="rows",
    inputs=(X,),
    parameters=(),
    outputs=(replace(X, name="out", role="output"),),
    reference=(SourceFile(path="rows.py", text="def rows(x):\n    return x\n"),),
    entry="rows",
    workloads=(Workload(name="spec", generator="spec"),),
    min_bytes=512,
)
TARGET = Target(kind="cpu", architecture="made up", features=("avx2",), threads=2, toolchain=(("g++", "12.2.0"),))
CAPTURE = Capture(problem=PROBLEM, graph=Graph(nodes=(), outputs=()))


@dataclass
class FakeJudge:
    """Judges by a landscape; the same candidate under the same policy always gets the same record."""

    problem: Problem
    target: Target
    landscape: Landscape = coupled
    noise: float = 0.02
    pause_s: float = 0.0
    log: Path | None = None
    on_event: Callable[..., None] | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    hangs_at: int | None = None
    """That judgement, counted from 0, has no end: whoever watches has all the time to come."""
    interrupt_at: int | None = None
    """Ctrl-C comes before that judgement, counted from 0."""
    fails_under: tuple[str, ...] = ()
    """Names of policies under which everything fails."""
    forgets: bool = False
    preparing_s: float = 0.0

    def __enter__(self) -> FakeJudge:
        if self.on_event:
            self.on_event("the judge is ready")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        for candidate in candidates if not self.forgets else ():
            if self.interrupt_at == len(self.calls):
                raise KeyboardInterrupt
            time.sleep(600.0 if self.hangs_at == len(self.calls) else self.pause_s)
            time_us = self.landscape(candidate.template, candidate.point)
            if time_us is not None:
                time_us *= noise_of(candidate, policy.name, self.noise)
            if policy.name in self.fails_under:
                time_us = None
            record = fake_record(candidate, digest(policy), time_us, target=digest(self.target))
            self.calls.append((digest(candidate), policy.name))
            note(self.log, "judged", record)
            yield record

    def prepare(self, policy: Policy) -> None:
        time.sleep(self.preparing_s)
        if self.on_event:
            self.on_event({"baseline": "eager", "state": "warming", "seconds": 0.5})

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        return fake_measurement("eager", 1000.0), fake_measurement("compile:default", 800.0)


def note(log: Path | None, event: str, record: Record) -> None:
    """Appends a line about a record to a file, on the disk when this returns."""
    if log is None:
        return
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(fd, f"{event} {record.candidate} {record.policy}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)


@dataclass(frozen=True)
class Offer:
    templates: tuple[Template, ...]
    refusals: tuple[Refusal, ...] = ()


def fake_templates() -> tuple[Template, ...]:
    """Returns templates whose candidates belong to PROBLEM."""
    return tuple(_of_problem(make_template(name, *WIDE, broken="rows")) for name in ("rows", "tiles"))


def _of_problem(template: Template) -> Template:
    def emit(point: Any) -> Any:
        made = template.emit(point)
        return replace(made, problem=digest(PROBLEM)) if isinstance(made, Candidate) else made

    return replace(template, emit=emit)


@dataclass
class FakeParts:
    """Makes `Parts`, and keeps the judges that were made so that their calls can be looked at."""

    templates: tuple[Template, ...] = field(default_factory=fake_templates)
    refusals: tuple[Refusal, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    judges: list[FakeJudge] = field(default_factory=list)

    def parts(self) -> Parts:
        screen, measure, report = (fake_policy(name) for name in ("screen", "measure", "report"))
        return Parts(
            experts=lambda problem, graph, *, target: Offer(self.templates, self.refusals),
            judge=self._judge,
            screen=screen,
            measure=measure,
            report=report,
        )

    def _judge(self, problem: Problem, target: Target, *, on_event: Callable[..., None] | None = None) -> FakeJudge:
        self.judges.append(FakeJudge(problem, target, on_event=on_event, **self.options))
        return self.judges[-1]

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [call for judge in self.judges for call in judge.calls]
