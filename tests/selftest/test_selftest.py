"""The judge's own score: what it counts, what it calls missed, and when times are believed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import pytest

from kernelwright import cli, selftest
from kernelwright.commands import selftest as command
from kernelwright.errors import KernelwrightError
from kernelwright.judge import SCREEN
from kernelwright.judge.policies import FAMILIES
from kernelwright.languages import Builder, cuda_target
from kernelwright.selftest import Finding, Score, timing
from kernelwright.selftest import items as corpus
from kernelwright.selftest.sessions import PLANTED
from kernelwright.selftest.small_problems import make_problem
from kernelwright.selftest.timing import chain_step_ns, conclude
from kernelwright.types import (
    Artifact,
    Candidate,
    Check,
    Comparison,
    Failure,
    Judgement,
    Measurement,
    Record,
    Target,
    Verdict,
    replace,
)

TARGET = Target(kind="cpu", architecture="made up", features=(), threads=2, toolchain=())


def record(time_us: float, *, width: float = 0.02, noise: float = 0.01, eager_us: float = 200.0) -> Record:
    """Returns a record of a kernel that takes so long, with intervals of that relative width."""
    low, high = time_us * (1 - width), time_us * (1 + width)
    measured = Measurement(
        contender="candidate", workload="given", mode="warm", median_us=time_us, low_us=low, high_us=high, samples=20,
        calls=10, method="made up",
    )  # fmt: skip
    against = Comparison(baseline="eager", speedup=eager_us / time_us, low=eager_us / high, high=eager_us / low)
    judgement = Judgement(
        verdict=Verdict(checks=(Check(name="accuracy", passed=True, evidence=""),)), measurements=(measured,),
        comparisons=(against,), noise=noise,
    )  # fmt: skip
    return Record(problem="p", candidate="c", target="t", policy="q", outcome=judgement)


def test_equal_times_tie_and_a_known_delay_is_seen() -> None:
    found = conclude([record(100.0), record(100.5), record(99.8)], record(160.0), 60.0)
    assert (found.tie, found.delay) == ("held", "held")
    assert found.aa_spread == pytest.approx((100.5 - 99.8) / (100.5 + 99.8), rel=1e-6)
    assert found.seen_us == pytest.approx(60.0)
    assert found.seen_low_us < 60.0 < found.seen_high_us


def test_copies_that_differ_do_not_tie() -> None:
    assert conclude([record(100.0), record(130.0)], record(200.0), 60.0).tie == "failed"


@pytest.mark.parametrize("slow_us", [100.0, 130.0, 250.0])
def test_a_delay_that_is_not_seen_as_it_is_fails(slow_us: float) -> None:
    assert conclude([record(100.0), record(100.0)], record(slow_us), 60.0).delay == "failed"


def test_on_a_busy_machine_nothing_is_said() -> None:
    found = conclude([record(100.0, noise=0.2), record(180.0)], record(101.0), 60.0)
    assert (found.tie, found.delay) == ("undecided", "undecided")


def test_a_timing_kernel_that_does_not_pass_is_our_fault() -> None:
    failed = replace(record(1.0), outcome=Failure(stage="run", kind="signal", message="crashed"))
    with pytest.raises(KernelwrightError, match="did not pass"):
        conclude([record(100.0), failed], record(160.0), 60.0)


def test_a_step_of_the_chain_takes_some_cycles() -> None:
    step_ns = chain_step_ns()
    assert 0.1 < step_ns < 50.0
    assert math.isfinite(step_ns)


class FakeGpu:
    """Takes 5 µs for a kernel and 2.5 ns for each step of its chain."""

    def __init__(self, problem: object, target: Target) -> None: ...

    def __enter__(self) -> FakeGpu:
        return self

    def __exit__(self, *_: object) -> None: ...

    def judge(self, candidates: list[Candidate], policy: object) -> Iterator[Record]:
        for candidate in candidates:
            steps = re.search(r"i < (\d+); \+\+i\) chain", candidate.sources[0].text)
            made = record(5.0 + (int(steps[1]) * 0.0025 if steps else 0.0), width=0.001, noise=0.001)
            assert isinstance(made.outcome, Judgement)
            against = (replace(made.outcome.comparisons[0], baseline="graph:eager"),)
            yield replace(made, outcome=replace(made.outcome, comparisons=against))


def test_on_a_gpu_a_longer_chain_says_what_the_shorter_one_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "Judge", FakeGpu)
    found = timing.timing_test(cuda_target("sm_90a"))
    assert (found.tie, found.delay) == ("held", "held")
    assert found.delay_us == found.seen_us == pytest.approx(timing.CUDA_STEPS * 0.0025)


def test_the_timing_kernels_of_a_gpu_compile() -> None:
    problem = make_problem(timing.PROBLEM)
    with Builder(cuda_target("sm_90a"), workers=1) as builder:
        made = [timing._cuda_candidate(problem, copy=0, steps=steps) for steps in (0, 6000)]
        assert [type(built) for built in builder.build(problem, made)] == [Artifact] * 2


def test_on_a_gpu_every_bug_is_planted_that_is_not_explained() -> None:
    bugs = list(corpus.items_of("mutant", cuda_target("sm_90a")))
    assert len(bugs) > 250
    assert {bug.policy.families for bug in bugs} == {FAMILIES}
    cheats = list(corpus.items_of("cheat", cuda_target("sm_90a")))
    assert [c.name for c in cheats if c.unfit] == ["cluster_on_ampere", "wrong_architecture"]
    racy = next(c for c in cheats if c.name == "race_between_warps")
    assert racy.policy.memory_checkers == ("racecheck",)


def test_cuda_without_a_gpu_has_a_score_too() -> None:
    found = selftest.selftest(device="emulated", limit=2)
    assert found.missed == found.false_alarms == ()
    assert found.timing is None
    assert len(found.findings) + len(found.skipped) == 6


def finding(kind: str, name: str, *, right: bool, found: str = "accuracy") -> Finding:
    return Finding(kind=kind, name=name, right=right, found=found, expected=("accuracy",))  # type: ignore[arg-type]


def score(*findings: Finding) -> Score:
    timing = conclude([record(100.0), record(100.5)], record(160.0), 60.0)
    return Score(target=TARGET, findings=findings, skipped=("race",), timing=timing, seconds=1.5)


GOOD = (
    finding("cheat", "zeros", right=True),
    finding("cheat", "copy", right=True, found="written"),
    finding("mutant", "softmax.cpp:1:1 early-exit", right=True),
    finding("honest", "online", right=True, found="passed"),
)
MISSED = finding("mutant", "softmax.cpp:9:9 race", right=False, found="passed")
ALARM = finding("honest", "welford", right=False)


def run(monkeypatch: pytest.MonkeyPatch, shown: Score, *arguments: str) -> int:
    monkeypatch.setattr(command, "selftest", lambda **_: shown)
    with pytest.raises(SystemExit) as stop:
        cli.main(["selftest", *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_a_good_score(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, score(*GOOD)) == 0
    printed = capsys.readouterr().out
    for words in (
        "cheats   2 of 2 caught",
        "mutants  1 of 1 caught",
        "0 false alarms in 1",
        "another check: copy",
        "race",
    ):
        assert words in printed
    assert run(monkeypatch, score(*GOOD), "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) >= {"cheats", "mutants", "honest", "missed", "false_alarms", "aa_spread", "timing"}
    assert data["cheats"] == {"planted": 2, "caught": 2}
    assert data["mutants"] == {"planted": 1, "caught": 1}
    assert data["honest"] == {"judged": 1, "passed": 1}
    assert data["missed"] == data["false_alarms"] == []
    assert data["caught_elsewhere"] == ["copy"]
    assert data["timing"]["tie"] == "held"


@pytest.mark.parametrize(("bad", "key"), [(MISSED, "missed"), (ALARM, "false_alarms")])
def test_what_went_wrong_is_named_and_ends_with_1(
    bad: Finding, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, score(*GOOD, bad)) == 1
    assert bad.name in capsys.readouterr().out
    assert run(monkeypatch, score(*GOOD, bad), "--json") == 1
    assert json.loads(capsys.readouterr().out)[key] == [bad.name]


def test_times_that_do_not_hold_end_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = replace(score(*GOOD), timing=conclude([record(100.0), record(130.0)], record(160.0), 60.0))
    assert run(monkeypatch, shown) == 1


def test_a_few_kernels_of_each_kind_are_judged_for_real() -> None:
    told: list[str] = []
    found = selftest.selftest(limit=3, with_timing=False, tell=told.append)
    assert found.missed == found.false_alarms == ()
    assert found.holds
    assert {f.kind for f in found.findings} == set(selftest.KINDS)
    assert len(found.findings) + len(found.skipped) == 9
    assert told


def test_shares_together_are_the_whole() -> None:
    told: list[str] = []
    found = selftest.selftest(limit=3, workers=2, with_timing=False, tell=told.append)
    assert found.holds
    assert {(f.kind, f.name) for f in found.findings} | {("", name) for name in found.skipped} == {
        ("" if item.unfit else item.kind, item.name)
        for kind in selftest.KINDS
        for item in selftest._spread(list(corpus.items_of(kind, found.target)), 3)
    }
    assert told == ["share 1 of 2 is judged", "share 2 of 2 is judged"]


def test_what_passed_a_quick_judgement_is_judged_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = replace(SCREEN, name="blind", families=("given",), rounds=1, block_us=50.0)
    bugs = [i for i in corpus.items_of("mutant", TARGET) if "wrong-identity" in i.name]
    chosen = [replace(item, policy=blind, closer=PLANTED) for item in bugs]
    monkeypatch.setattr(selftest, "items_of", lambda kind, target: iter(chosen))
    assert selftest.selftest(kinds=("mutant",), with_timing=False).holds


def test_a_judge_that_looks_at_nothing_misses_bugs(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = replace(SCREEN, name="blind", families=("given",), rounds=1, block_us=50.0)
    monkeypatch.setattr(corpus, "PLANTED", blind)
    chosen = [i for i in corpus.items_of("mutant", TARGET) if "wrong-identity" in i.name]
    monkeypatch.setattr(selftest, "items_of", lambda kind, target: iter(chosen))
    found = selftest.selftest(kinds=("mutant",), with_timing=False)
    assert found.missed, "a maximum that starts at zero is harmless for ordinary inputs"
    assert not found.holds
