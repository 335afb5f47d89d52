"""Mutants before the judge: what builds and passes survives, what builds alike is equivalent, what is known is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.errors import UserError
from kernelwright.languages import detect_target
from kernelwright.mutation import Mutant, mutants
from kernelwright.run.mutate import MUTATE, judge_mutants
from kernelwright.selftest.kernel_files import CORPUS, kernel_of
from kernelwright.selftest.small_problems import make_problem
from kernelwright.store import Store
from kernelwright.testing.languages import scale_candidate, scale_problem
from kernelwright.types import Candidate, Check, Failure, Judgement, Policy, Problem, Record, Target, Verdict, digest

KERNEL = """\
#include <cstdint>
extern "C" void scale(const float* x, const float* weight, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * weight[i];
  if (n < 0) out[0] = 0;
}
"""
PROBLEM = scale_problem()
CANDIDATE = scale_candidate("cpp", KERNEL)


class Judge:
    """Passes what contains one of some texts, fails all else, and counts."""

    def __init__(self, *passing: str) -> None:
        self.passing, self.judged = (KERNEL, *passing), 0

    def __call__(self, problem: Problem, target: Target, *, on_event: Any = None) -> Judge:
        self.target = target
        return self

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def prepare(self, policy: Policy) -> None:
        pass

    def baselines(self, policy: Policy) -> tuple[()]:
        return ()

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        for candidate in candidates:
            self.judged += 1
            passed = any(text in candidate.sources[0].text for text in self.passing)
            verdict = Verdict(checks=(Check(name="accuracy", passed=passed, evidence="said so"),))
            yield Record(
                problem=digest(PROBLEM), candidate=digest(candidate), target=digest(self.target),
                policy=digest(policy), outcome=Judgement(verdict=verdict),
            )  # fmt: skip


def planted(*operators: str) -> tuple[Mutant, ...]:
    return mutants(CANDIDATE.sources[0], "cpp", operators=operators)


def test_states_follow_from_builds_and_verdicts(tmp_path: Path) -> None:
    found = planted("early-exit", "dropped-tail", "off-by-one", "unmasked-access", "accumulator-precision")
    # The second condition never holds: flipped by one it stays as it is, without it something is written.
    judge = Judge("n - 1;")
    told: list[object] = []
    with Store(tmp_path / "store.sqlite") as store:
        arguments: dict[str, Any] = {"store": store, "judge": judge, "on_outcome": told.append}
        outcomes = judge_mutants(PROBLEM, CANDIDATE, found, detect_target(), **arguments)
        states = {(o.mutant.operator, o.mutant.line): (o.state, o.why) for o in outcomes}
        assert states["dropped-tail", 3][0] == "survived"
        assert states["early-exit", 3] == ("killed", "check: accuracy")
        assert tuple(told) == outcomes
        judged = judge.judged
        again = judge_mutants(PROBLEM, CANDIDATE, found, detect_target(), **arguments)
        assert [(o.mutant, o.state) for o in again] == [(o.mutant, o.state) for o in outcomes]
        assert judge.judged == judged, "everything was in the store"


def test_what_does_not_build_is_invalid_and_the_same_binary_equivalent(tmp_path: Path) -> None:
    (tail,) = planted("dropped-tail")
    broken = Mutant(
        operator="race", path="kernel.cpp", line=1, column=1, before="", after="",
        source=CANDIDATE.sources[0].__class__(path="kernel.cpp", text=KERNEL + "}"),
    )  # fmt: skip
    comment = Mutant(
        operator="race", path="kernel.cpp", line=1, column=1, before="", after="",
        source=CANDIDATE.sources[0].__class__(path="kernel.cpp", text=KERNEL + "// no change\n"),
    )  # fmt: skip
    judge = Judge()
    with Store(tmp_path / "store.sqlite") as store:
        outcomes = judge_mutants(PROBLEM, CANDIDATE, (broken, comment, tail), detect_target(), store=store, judge=judge)
    assert [(o.state, o.why) for o in outcomes] == [
        ("invalid", "build: syntax"), ("equivalent", "same binary"), ("killed", "check: accuracy")
    ]  # fmt: skip
    assert judge.judged == 2


def test_a_kernel_that_fails_itself_cannot_be_mutated(tmp_path: Path) -> None:
    judge = Judge()
    judge.passing = ("nothing at all",)
    with Store(tmp_path / "store.sqlite") as store, pytest.raises(UserError, match="accuracy: said so"):
        judge_mutants(PROBLEM, CANDIDATE, planted("dropped-tail"), detect_target(), store=store, judge=judge)


def test_the_real_judge_kills_what_is_wrong(tmp_path: Path) -> None:
    kernel = kernel_of(CORPUS / "mutants" / "kernels" / "transpose_add.cpp")
    problem = make_problem(kernel.problem)
    candidate = kernel.candidate(problem)
    found = mutants(candidate.sources[0], "cpp", operators=("early-exit", "dropped-write"))
    with Store(tmp_path / "store.sqlite") as store:
        outcomes = judge_mutants(problem, candidate, found, detect_target(), store=store)
        assert len(list(store.records(policy=digest(MUTATE)))) == len(outcomes) + 1
    assert len(outcomes) > 4
    assert {o.state for o in outcomes} == {"killed"}


def test_failures_are_kills_with_their_names(tmp_path: Path) -> None:
    class Crashing(Judge):
        def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
            for record, candidate in zip(super().judge(candidates, policy), candidates, strict=True):
                crash = Failure(stage="run", kind="signal", message="crashed")
                passed = candidate.sources[0].text == KERNEL
                yield record if passed else record.__class__(
                    problem=record.problem, candidate=record.candidate, target=record.target, policy=record.policy,
                    outcome=crash,
                )  # fmt: skip

    with Store(tmp_path / "store.sqlite") as store:
        (outcome,) = judge_mutants(
            PROBLEM, CANDIDATE, planted("dropped-tail"), detect_target(), store=store, judge=Crashing()
        )
    assert (outcome.state, outcome.why) == ("killed", "run: signal")
