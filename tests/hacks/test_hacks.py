"""The hack database: it is the corpus, words and kernels find in it what they should, honest kernels nothing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.gym.fakes import outcome
from tools import hacks_data

from kernelwright.cli import cli
from kernelwright.commands.hacks import cheated
from kernelwright.hacks import bundled, of_store
from kernelwright.judge.policies import policies_for
from kernelwright.languages import detect_target
from kernelwright.run.models.screening import doubts
from kernelwright.selftest.small_problems import make_problem
from kernelwright.store import Store
from kernelwright.types import Candidate, LaunchPlan, Record, SourceFile, digest

TESTS = Path(__file__).parents[1]


def candidate(text: str) -> Candidate:
    return Candidate(
        problem=digest(make_problem("softmax")), language="cpp", sources=(SourceFile(path="kernel.cpp", text=text),),
        plan=LaunchPlan(steps=()),
    )  # fmt: skip


def test_the_bundled_file_is_the_corpus() -> None:
    made, kept = hacks_data.book(), bundled()
    again = "run `python tools/hacks_data.py` again"
    assert kept.hacks == made.hacks, again
    assert kept._honest == made._honest, again


def test_honest_kernels_are_not_suspected_and_unknown_cheats_often_are() -> None:
    honest_suspected, honest, caught, cheats = hacks_data.score(every=12)
    assert honest > 15
    assert honest_suspected == 0
    assert caught >= cheats // 10 > 0


def test_words_find_hacks() -> None:
    found = bundled().search("keeps answers by address")
    assert "pointer_cache" in [r.hack.name for r in found]
    assert all(earlier.score >= later.score for earlier, later in itertools.pairwise(found))
    assert bundled().search("xyzzy") == ()


def test_a_renamed_cheat_is_recognised() -> None:
    text = (TESTS / "cheats" / "cache_by_samples.cpp").read_text().replace("kept", "memory").replace("key", "mark")
    found = bundled().resembling(text, language="cpp")
    assert found[0].hack.name == "cache_by_samples"
    assert found[0].score > 0.8
    opinion = doubts(candidate(text))[0]
    assert (opinion.verifier, opinion.rejects) == ("hacks", False)
    assert "cache_by_samples" in opinion.reason
    assert doubts(candidate((TESTS.parent / "examples" / "softmax.cpp").read_text())) == ()


def test_stores_give_their_cheats_and_not_their_mistakes(tmp_path: Path) -> None:
    problem, policy = make_problem("softmax"), policies_for(detect_target())["screen"]
    target = detect_target()
    with Store(tmp_path / "store.sqlite") as store:
        for mark in ("cheat", "wrong", "2.0x"):
            made = candidate(f"static int {mark[:3].replace('2.0', 'fast')}; // {mark}")
            record = Record(
                problem=digest(problem), candidate=digest(made), target=digest(target), policy=digest(policy),
                outcome=outcome(mark),
            )  # fmt: skip
            store.append(record, problem, made, target, policy)
        (hack,) = of_store(store, cheated)
    assert (hack.caught_by, hack.idioms, hack.problem) == (("timed outputs",), ("keeps state",), problem.name)
    listed = CliRunner().invoke(cli, ["hacks", "list", "--out", str(tmp_path), "--json"], catch_exceptions=False)
    assert hack.name in [row["name"] for row in json.loads(listed.stdout)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("list", "--caught-by", "timed outputs", "--language", "cpp"), "content_cache"),
        (("search", "looks at a clock"), "clock"),
        (("review", str(TESTS.parent / "examples" / "softmax.cpp")), "nothing resembles it"),
    ],
)
def test_the_command_shows_them(arguments: tuple[str, ...], words: str) -> None:
    said = CliRunner().invoke(cli, ["hacks", *arguments], catch_exceptions=False)
    assert said.exit_code == 0
    assert words in said.output
