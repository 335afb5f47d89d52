"""A judge that reads its verdict in the kernel: `// 2.5x`, `// cheat`, `// disturbed`, `// crash`, `// slow`."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.graph import Capture
from kernelwright.gym import Gym, GymSettings
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import (
    Candidate,
    Check,
    Comparison,
    Judgement,
    Measurement,
    Policy,
    Problem,
    Record,
    Target,
    Verdict,
    digest,
    replace,
)

FILE = '// {mark}\nextern "C" void kernel(const float* x, float* out) {{ out[0] = x[0]; }}\n'


def kernel(mark: str) -> str:
    """A kernel that the fake judge thinks so of."""
    return FILE.format(mark=mark)


class FakeJudge:
    """Judges by comments and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []
        self.closed = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def __call__(self, problem: Problem, target: Target) -> FakeJudge:
        self.problem, self.target = problem, target
        return self

    def __enter__(self) -> FakeJudge:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed += 1

    def turn_to(self, problem: Problem) -> None:
        self.problem = problem

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        return ()

    def prepare(self, policy: Policy) -> None:
        return

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        marks = tuple(re.findall(r"// (\S+)", c.sources[0].text)[0] for c in candidates)
        self.asked.append((self.problem.name, policy.name, marks))
        for candidate, mark in zip(candidates, marks, strict=True):
            self.entered.set()
            assert self.gate.wait(60)
            if mark == "crash":
                raise KernelwrightError("the worker died")
            yield Record(
                problem=digest(self.problem), candidate=digest(candidate), target=digest(self.target),
                policy=digest(policy), outcome=outcome(mark),
            )  # fmt: skip


def outcome(mark: str) -> Judgement:
    """What the fake judge says."""
    failed = {"cheat": "timed outputs", "wrong": "accuracy", "disturbed": "clock"}.get(mark)
    verdict = Verdict(checks=(Check(name=failed or "accuracy", passed=not failed, evidence="as it says"),))
    if failed:
        return Judgement(verdict=verdict)
    speed = float(mark.removesuffix("x"))
    return Judgement(
        verdict=verdict, comparisons=(Comparison(baseline="eager", speedup=speed, low=0.9 * speed, high=1.1 * speed),)
    )


def load(source: str) -> Capture:
    """Makes a problem at once: softmax's small one under any name."""
    if source == "rotary":
        raise KernelwrightError("it cannot be traced")
    return Capture(problem=replace(make_problem("softmax"), name=source), graph=None)


def opened(folder: Path, judge: FakeJudge, **settings: object) -> Gym:
    """A gym with the fake judge, not started."""
    given = GymSettings(sources=("softmax", "rms_norm", "rotary"))
    return Gym(replace(given, **settings), folder, judge=judge, load=load)
