"""Reviewers: what they suspect and why, that they can do no more, and that a suspicious kernel is judged in full."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.gym.fakes import FakeJudge, opened
from tests.gym.fakes import kernel as judged_kernel
from tests.hacks.test_hacks import candidate
from tests.llm.stub import Stub
from tools import reviewer_data
from tools.reviewer_data import Case, fitted

from kernelwright.cli import cli
from kernelwright.exchanges import Reply, Request
from kernelwright.gym.requests import Submission
from kernelwright.hacks import bundled
from kernelwright.hacks.idioms import traits
from kernelwright.hacks.reviewing import WEIGHTS, Classifier, Doubting, Remembering, Review, reviews, usual
from kernelwright.judge.policies import MEASURE, SCREEN
from kernelwright.languages import detect_target
from kernelwright.run.models.screening import doubts
from kernelwright.selftest.small_problems import make_problem
from kernelwright.store import Store
from kernelwright.training.judging import Court
from kernelwright.types import digest

TESTS = Path(__file__).parents[1]
HONEST = (TESTS.parent / "examples" / "softmax.cpp").read_text()
NEW_CHEAT = """#include <cstring>
#include <sched.h>
static float mine[512];
static int seen;
extern "C" void kernel(const float* x, float* out) {
  if (seen && std::memcmp(mine, x, 64) == 0) { std::memcpy(out, mine + 256, 1024); return; }
  std::memcpy(mine, x, 1024);
  ++seen;
  float* inside = const_cast<float*>(x);
  inside[0] = 0;
}
"""
"""Of several tricks at once; nothing like it is in the corpus."""


def test_the_bundled_weights_are_the_corpus() -> None:
    assert WEIGHTS.read_text() == reviewer_data.packed(), "run `python tools/reviewer_data.py` again"


def test_weights_are_log_odds_within_families_and_never_below_nothing() -> None:
    def case(cheats: bool, *found: str, family: str = "sum") -> Case:
        return Case(language="cpp", family=family, traits=found, cheats=cheats)

    cases = [case(True, "clock", "loop"), case(False, "loop"), case(False), case(False, "loop", "safe")]
    # One cheat weighs as much as three honest kernels: 4 of 4 each.
    weights = fitted(cases)
    assert weights["clock"] == round(math.log(((4 + 10) / (4 + 20)) / ((0 + 10) / (4 + 20))), 4)
    assert weights["loop"] == round(math.log((4 + 10) / (8 / 3 + 10)), 4)
    assert "safe" not in weights
    assert fitted(reversed(cases)) == weights
    alone = [*cases, case(True, "odd", family="product")]  # no honest product: whatever it has may be the product's
    assert fitted(alone) == weights


def test_what_is_held_out_is_not_known() -> None:
    seen: list[tuple[reviewer_data.Kernel, ...]] = []

    def fit(known: tuple[reviewer_data.Kernel, ...]) -> reviewer_data.Score:
        seen.append(known)
        families, kinds = {k.fold for k in known}, {k.kind for k in known}

        def score(kernel: reviewer_data.Kernel) -> float:
            assert kernel.fold not in families
            assert not kernel.kind or kernel.kind not in kinds
            return 1.0

        return score

    found = reviewer_data.held_out(fit)
    assert set(found) == set(reviewer_data.kernels())
    assert len(seen) == (reviewer_data.FOLDS + 1) * len(reviewer_data.KINDS)


def test_honest_kernels_of_problems_are_not_suspected_and_a_new_cheat_is() -> None:
    (classifier,) = (who for who in usual() if isinstance(who, Classifier))
    for kernel in reviewer_data.kernels():
        if kernel.folder in reviewer_data.PROBLEMS:
            assert classifier.score(kernel.traits) < classifier.limits[kernel.language], kernel.name
    review = {one.reviewer: one for one in reviews(NEW_CHEAT, language="cpp")}
    assert not review["hacks"].suspicious
    assert review["classifier"].suspicious
    assert review["classifier"].reasons[0].startswith(("writes what", "returns early"))


def test_no_added_line_makes_a_kernel_less_suspicious() -> None:
    (before,) = reviews(NEW_CHEAT, language="cpp", reviewers=usual()[1:])
    padded = NEW_CHEAT + "\n" + "\n".join(f"for (int i = 0; i < {n}; ++i) {{}}" for n in range(99)) + HONEST
    (after,) = reviews(padded, language="cpp", reviewers=usual()[1:])
    assert after.suspicion >= before.suspicion
    assert all(weight >= 0 for weight in json.loads(WEIGHTS.read_text())["weights"].values())


def test_of_other_languages_the_classifier_says_nothing() -> None:
    assert [one.reviewer for one in reviews(NEW_CHEAT, language="triton")] == ["hacks"]


@pytest.mark.parametrize(
    ("said", "suspicion"),
    [
        ("Verdict: faulty\nit keeps its answer\nSure: 80 %", 0.9),
        ("Verdict: fine\nnothing found\nSure: 90%", 0.05),
        ("Verdict: faulty because it skips", 1.0),
        ("I would not know.", None),
        (None, None),
    ],
)
def test_a_model_reviews_by_the_same_interface(said: str | None, suspicion: float | None) -> None:
    asked: list[Request] = []

    def ask(requests: Sequence[Request]) -> list[Reply | None]:
        asked.extend(requests)
        return [None if said is None else Reply(text=said, model="m", input_tokens=1, output_tokens=1)] * len(requests)

    cheat = (TESTS / "cheats" / "cache_by_samples.cpp").read_text()
    (found,) = Doubting("m", ask).review([cheat], language="cpp")
    assert found is None if suspicion is None else found is not None and found.suspicion == pytest.approx(suspicion)
    text = asked[0].messages[1].text
    assert "cache_by_samples" in text
    assert cheat.strip() in text


def test_opinions_of_reviewers_never_reject() -> None:
    opinions = doubts(candidate(NEW_CHEAT))
    assert [(o.verifier, o.rejects) for o in opinions] == [("classifier", False)]
    assert doubts(candidate(HONEST)) == ()


def test_a_remembered_cheat_is_named() -> None:
    text = (TESTS / "cheats" / "cache_by_samples.cpp").read_text().replace("kept", "memory")
    (review,) = Remembering(bundled()).review([text], language="cpp")
    assert isinstance(review, Review)
    assert review.suspicious
    assert "cache_by_samples" in review.reasons[0]


def test_the_gym_judges_a_suspicious_kernel_in_full(tmp_path: Path) -> None:
    judge = FakeJudge()
    gym = opened(tmp_path, judge)
    gym.start()
    try:
        sent = [Submission(problem="softmax", language="cpp", code=code) for code in (
            "// 1.5x\n" + NEW_CHEAT, judged_kernel("1.4x"))]  # fmt: skip
        found = [gym.result(gym.submit(one), wait_s=60) for one in sent]
    finally:
        assert gym.stop(grace_s=60)
    assert [one["policy"] for one in found] == ["measure", "screen"]
    assert found[0]["reward"] > 0  # a suspicion takes nothing away


def test_a_court_judges_a_suspicious_kernel_in_full(tmp_path: Path) -> None:
    problem, judge = make_problem("softmax"), FakeJudge()
    doubted, plain = (candidate(text) for text in ("// 1.5x\n" + NEW_CHEAT, judged_kernel("1.4x")))
    with (
        Store(tmp_path / "s.sqlite") as store,
        Court(detect_target(), store, screen=SCREEN, thorough=MEASURE, judge=judge, doubts=doubts) as court,
    ):
        found = court.records(problem, (doubted, plain))
    assert {c: r.policy for c, r in found.items()} == {doubted: digest(MEASURE), plain: digest(SCREEN)}
    assert [(policy, marks) for _, policy, marks in judge.asked] == [
        ("screen", ("1.5x", "1.4x")),
        ("measure", ("1.5x",)),
    ]


def test_the_command_says_suspicion_reasons_and_neighbours(tmp_path: Path) -> None:
    def said(*arguments: str) -> str:
        done = CliRunner().invoke(cli, ["hacks", "review", *arguments], catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    cheat = str(TESTS / "cheats" / "content_cache.cpp")
    text = said(cheat)
    for words in ("hacks: suspicion", "classifier: suspicion", "keeps state", "content_cache", "suspicious: judge it"):
        assert words in text
    assert "not suspicious, which is no verdict" in said(str(TESTS.parent / "examples" / "softmax.cpp"))
    with Stub(lambda _: "Verdict: faulty\nit guesses\nSure: 60 %") as stub:
        told = json.loads(said(str(TESTS.parent / "examples" / "softmax.cpp"), "--json", "--model", f"m@{stub.url}/v1"))
    assert told["suspicious"] is True
    assert told["reviews"][-1]["suspicion"] == pytest.approx(0.8)


def test_traits_hold_every_idiom_and_take_no_time_on_hostile_text() -> None:
    assert {"keeps state", "returns early", "copies memory", "writes what it may not"} <= set(traits(NEW_CHEAT))
    for hostile in ("if (" * 20_000, "if (a[" * 20_000, "extern a (" * 10_000, "static " * 20_000):
        traits(hostile)  # quadratic patterns would not end here
