"""The reward's properties: bounded, never falling with speed, never paying what was not earned."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.training.reward import Baseline, RewardSettings, advantages, copied, of_noise, of_speedup, reward
from kernelwright.types import Check, Comparison, Failure, Judgement, Record, Verdict, replace

SETTINGS = RewardSettings(thorough=("k1:full",))
SPEEDS = st.floats(min_value=1e-3, max_value=1e3)
KERNEL = 'extern "C" void f(const float* x, float* out) { /* one */ for (int i = 0; i < 8; ++i) out[i] = x[i]; }'
RENAMED = 'extern "C" void f(const float* a,\n  float* b) {\n  for (int j = 0; j < 8; ++j) b[j] = a[j]; }'
OTHER = 'extern "C" void f(const float* x, float* out) { for (int i = 0; i < 8; i += 2) out[i] = x[i]; }'


def judged(speedup: float, low: float | None = None, *, failed: tuple[str, ...] = (), policy: str = "p") -> Record:
    checks = (
        Check(name="accuracy", passed=True, evidence=""),
        *(Check(name=n, passed=False, evidence="") for n in failed),
    )
    timed = Comparison(baseline="eager", speedup=speedup, low=speedup if low is None else low, high=2 * speedup)
    outcome = Judgement(verdict=Verdict(checks=checks), comparisons=(timed,), noise=0.02)
    return Record(problem="a", candidate="b", target="c", policy=policy, outcome=outcome)


def value_of(record: Record) -> float:
    return reward(record, settings=SETTINGS).value


@given(SPEEDS, SPEEDS)
def test_is_bounded_and_never_falls_with_speed(one: float, other: float) -> None:
    slow, fast = sorted((one, other))
    assert SETTINGS.right <= of_speedup(slow, SETTINGS) <= of_speedup(fast, SETTINGS) <= 1.0


@given(SPEEDS)
def test_rounds_down_by_less_than_a_step(speedup: float) -> None:
    exact = SETTINGS.right + (1 - SETTINGS.right) * min(
        1.0, max(0.0, math.log(speedup / SETTINGS.slow) / math.log(SETTINGS.fast / SETTINGS.slow))
    )
    found = of_speedup(speedup, SETTINGS)
    assert exact - of_noise(SETTINGS.step, SETTINGS) - 1e-6 <= found <= exact + 1e-6


@given(st.integers(-150, 150))
def test_a_power_of_the_step_keeps_its_place(power: int) -> None:
    assert of_speedup(1.01**power, SETTINGS) == pytest.approx(of_speedup(1.01 ** (power + 0.5), SETTINGS), abs=1e-12)


@pytest.mark.parametrize(("speedup", "expected"), [(1.0, 0.55), (8.0, 1.0), (100.0, 1.0), (0.125, 0.1), (1e-9, 0.1)])
def test_known_values(speedup: float, expected: float) -> None:
    assert of_speedup(speedup, SETTINGS) == pytest.approx(expected, abs=1e-12)


def test_no_number_earns_only_for_being_right() -> None:
    assert of_speedup(math.nan, SETTINGS) == SETTINGS.right


@given(SPEEDS, st.floats(min_value=0.1, max_value=1.0))
def test_the_lower_end_counts(speedup: float, share: float) -> None:
    record = judged(speedup, low=speedup * share, policy="k1:full")
    assert value_of(record) == of_speedup(min(speedup, speedup * share), SETTINGS)


def test_an_interval_above_its_own_middle_earns_no_more_than_the_middle() -> None:
    assert value_of(judged(1.5, low=7.0)) == of_speedup(1.5, SETTINGS)


def test_a_suspicious_gain_earns_nothing_until_it_was_judged_in_full() -> None:
    first = reward(judged(5.0), settings=SETTINGS)
    assert (first.value, first.kind, first.counts) == (0.0, "suspicious", False)
    again = reward(judged(5.0, policy="k1:full"), settings=SETTINGS)
    assert (again.kind, again.counts) == ("verified", True)
    assert again.value > value_of(judged(2.9))


@pytest.mark.parametrize("check", SETTINGS.foul_checks)
def test_cheats_are_worth_less_than_anything(check: str) -> None:
    found = reward(judged(50.0, failed=("accuracy", check)), settings=SETTINGS)
    assert (found.kind, found.value) == ("cheat", SETTINGS.foul)
    assert found.value < value_of(judged(2.0, failed=("accuracy",))) < value_of(judged(1e-9))


def test_honest_faults_cost_nothing_and_earn_nothing() -> None:
    record = judged(1.0)
    wrong = reward(judged(5.0, failed=("guards",)), settings=SETTINGS)
    unbuilt = reward(replace(record, outcome=Failure(stage="build", kind="syntax", message="")), settings=SETTINGS)
    foul = reward(replace(record, outcome=Failure(stage="run", kind="syscall", message="")), settings=SETTINGS)
    assert [(r.value, r.kind) for r in (wrong, unbuilt, foul)] == [(0.0, "wrong"), (0.0, "failed"), (-1.0, "cheat")]


def test_a_disturbed_or_untimed_record_does_not_count() -> None:
    untimed = Judgement(verdict=Verdict(checks=(Check(name="accuracy", passed=True, evidence=""),)))
    for record in (judged(2.0, failed=("clock",)), replace(judged(1.0), outcome=untimed)):
        found = reward(record, settings=SETTINGS)
        assert (found.kind, found.value, found.counts) == ("unclear", 0.0, False)


def test_a_verdict_without_checks_is_no_pass() -> None:
    record = replace(judged(2.0), outcome=Judgement(verdict=Verdict(checks=())))
    assert reward(record, settings=SETTINGS).kind == "wrong"


def test_copies_of_an_exemplar_earn_nothing() -> None:
    record = judged(2.0)
    shown = (OTHER, KERNEL)
    assert reward(record, settings=SETTINGS, exemplar_texts=shown, text=RENAMED).kind == "copy"
    assert reward(record, settings=SETTINGS, exemplar_texts=(OTHER,), text=RENAMED).kind == "verified"
    assert copied(RENAMED, (KERNEL,))
    assert not copied(RENAMED, (OTHER,))


BASELINES: tuple[Baseline, ...] = ("group", "leave-one-out")
VALUES = st.lists(st.sampled_from([-1.0, 0.0, 0.1, 0.3, 0.55, 0.551, 0.7, 1.0]), min_size=2, max_size=16)


@given(VALUES, st.floats(min_value=0.0, max_value=0.5))
def test_advantages_keep_the_order_and_are_bounded(values: list[float], noise: float) -> None:
    for baseline in BASELINES:
        found = advantages(values, settings=SETTINGS, noise=noise, baseline=baseline)
        for (v, a), (w, b) in itertools.combinations(zip(values, found, strict=True), 2):
            assert a <= b + 1e-12 if v < w else b <= a + 1e-12
        assert all(abs(a) <= SETTINGS.clip for a in found)


@given(VALUES)
def test_both_baselines_are_centred(values: list[float]) -> None:
    wide = replace(SETTINGS, clip=1e9)
    assert math.fsum(advantages(values, settings=wide)) == pytest.approx(0.0, abs=1e-6)
    found = advantages(values, settings=wide, baseline="leave-one-out")
    assert math.fsum(found) == pytest.approx(0.0, abs=1e-9)
    mean = math.fsum(values) / len(values)
    assert found[0] == pytest.approx((values[0] - mean) * len(values) / (len(values) - 1), abs=1e-9)


def test_equal_members_teach_nothing_and_noise_teaches_little() -> None:
    assert advantages([0.5] * 4, settings=SETTINGS) == (0.0,) * 4
    near = [of_speedup(1.50, SETTINGS), of_speedup(1.52, SETTINGS)] * 4
    assert max(advantages(near, settings=SETTINGS)) == pytest.approx(1.0)
    assert max(advantages(near, settings=SETTINGS, noise=0.2)) < 0.1
    assert advantages([0.7], settings=SETTINGS) == (0.0,)
