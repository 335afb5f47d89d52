"""The parts of evolution by authors, with authors that are functions."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from tests.run.models.fakes import kernel
from tests.search.fake_judge import PROBLEM

from kernelwright.run.models.kernels import candidate_of, template_of
from kernelwright.search import Results, Strategy
from kernelwright.search.authored import Authored, Brief, Draft, Exemplar
from kernelwright.search.authored.archive import Archive, Islands, cell_of, contrasted
from kernelwright.search.authored.bandit import Bandit
from kernelwright.search.authored.evolution import Rules
from kernelwright.search.authored.intents import Plan
from kernelwright.search.authored.novelty import fingerprint, normalised
from kernelwright.search.random_search import RandomSearch
from kernelwright.testing.strategies import fake_record, make_template
from kernelwright.types import Candidate, Proposal, digest


def candidate(time_us: int, more: str = "") -> Candidate:
    return candidate_of(PROBLEM, kernel(time_us, more), language="cpp", author="a")


def exemplar(time_us: int, more: str = "") -> Exemplar:
    return Exemplar(candidate=candidate(time_us, more), speed=1000 / time_us)


def records(batch: tuple[Proposal, ...]) -> Results:
    found = []
    for proposal in batch:
        text = proposal.candidate.sources[0].text
        time_us = float(text.split("// time: ")[1].split()[0])
        found.append((proposal, fake_record(proposal.candidate, proposal.effort, time_us)))
    return tuple(found)


def test_names_comments_and_spacing_make_nothing_new() -> None:
    one = (
        'extern "C" void f(const float* x, float* out) { float sum = 0; // add\n sum += std::exp(x[0]); out[0] = sum; }'
    )
    same = 'extern "C" void g(const float*x,float* out){float total=0;total+=std::exp(x[0]);\n\nout[0]=total;}'
    assert normalised(one) == normalised(same)
    assert normalised(one) != normalised(one.replace("exp", "log"))
    assert normalised(one) != normalised(one.replace("= 0", "= 1"))
    assert normalised("a = tl.load(x)  # one\n") == normalised("b = tl.load(x)\n")
    assert fingerprint(candidate(300)) == fingerprint(
        candidate_of(PROBLEM, kernel(300).replace("rows", "lines"), language="cpp", author="b")
    )
    assert fingerprint(candidate(300)) != fingerprint(candidate(301))


def test_an_archive_keeps_the_fastest_of_each_cell() -> None:
    archive = Archive()
    plain, wide = exemplar(300), exemplar(400, "\n#pragma omp parallel for\n#pragma omp simd\n")
    assert cell_of(plain.candidate) != cell_of(wide.candidate)
    assert archive.add(plain)
    assert archive.add(wide)
    assert not archive.add(exemplar(350))
    assert archive.add(exemplar(250))
    assert [round(e.speed, 2) for e in archive.elites] == [4.0, 2.5]
    assert archive.best == archive.elites[0]
    drawn = {archive.parent(random.Random(seed)) for seed in range(20)}
    assert drawn == set(archive.elites)


def test_contrasted_kernels_are_of_distinct_speeds_and_hold_the_fastest() -> None:
    known = [exemplar(t) for t in (100, 102, 104, 200, 205, 400, 800)]
    for seed in range(20):
        shown = contrasted(known, 3, random.Random(seed))
        speeds = [e.speed for e in shown]
        assert speeds == sorted(speeds)
        assert speeds[-1] == 10.0
        assert len(shown) == 3
        assert all(b / a > 1.2 for a, b in itertools.pairwise(speeds))
    assert contrasted([], 3, random.Random(0)) == ()
    assert len(contrasted(known[:3], 3, random.Random(0))) == 1


def test_islands_send_their_best_round_the_ring() -> None:
    islands = Islands(2, every=2)
    islands.archives[0].add(exemplar(300))
    assert islands.home(1) is islands.archives[0]
    assert not islands.turn()
    assert islands.archives[1].best is None
    assert islands.turn()
    assert islands.archives[1].best == islands.archives[0].best


def test_the_bandit_prefers_what_pays_and_counts_its_cost() -> None:
    arms = [("cheap", "improve"), ("dear", "improve")]
    worth: dict[str, tuple[float, float]] = {"cheap": (0.30, 1.0), "dear": (0.35, 10.0)}

    def pulled(costs: bool) -> int:
        bandit, count = Bandit(arms), 0  # type: ignore[arg-type]
        for _ in range(200):
            arm = bandit.choose(("improve",))
            count += arm[0] == "dear"
            reward, cost = worth[arm[0]]
            bandit.reward(arm, reward, cost if costs else 1.0)
        return count

    assert pulled(costs=True) < 40 < pulled(costs=False)


def test_an_idea_outlives_its_failed_attempts_but_not_its_failures() -> None:
    plan = Plan()
    plan.add("Good idea.")
    plan.add("bad idea")
    plan.add("good  idea")
    for _ in range(3):
        plan.tell("good idea", ran=False)
    plan.tell("good idea", ran=True, gain=1.5)
    plan.tell("bad idea", ran=True, gain=1.0)
    plan.tell("bad idea", ran=True, gain=0.9)
    assert dict(plan.tried(5)) == {
        "Good idea.": "worked, 1.50 times as fast", "bad idea": "dead: 2 kernels ran and were no faster"
    }  # fmt: skip
    assert plan.choose() == "Good idea."
    plan.add("its child", parent="good idea")
    assert plan.choose() == "its child"


def authored(write: Any, **more: Any) -> Authored:
    return Authored(write, models=("m",), seed=1, rules=Rules(patience=3), **more)


def improving(briefs: tuple[Brief, ...]) -> tuple[Draft, ...]:
    drafts = []
    for brief in briefs:
        made = candidate(max(100, 900 - 40 * brief.number))
        drafts.append(Draft(candidate=None if brief.kind == "plan" else made, model="m", intent=f"idea {brief.number}"))
    return tuple(drafts)


def drive(strategy: Strategy, *, pieces: bool = False) -> list[str]:
    asked = []
    while batch := strategy.ask():
        asked += [f"{digest(p.candidate)} {p.effort}" for p in batch]
        results = records(batch)
        for part in [(r,) for r in reversed(results)] if pieces else [results]:
            strategy.tell(part)
    return asked


def test_the_same_drafts_and_records_give_the_same_proposals() -> None:
    asked = drive(authored(improving))
    assert drive(authored(improving), pieces=True) == asked
    assert len(asked) == len(set(asked)) > 10


def test_a_limit_counts_every_proposal() -> None:
    assert len(drive(authored(improving, limit=7))) == 7


def test_it_ends_when_nothing_more_is_written() -> None:
    assert drive(authored(lambda briefs: tuple(Draft(stop="no money") for _ in briefs))) == []
    assert drive(authored(lambda briefs: tuple(Draft(fault="nonsense") for _ in briefs))) == []


def test_seeds_are_contrasted_from_the_first_brief_on() -> None:
    told = records(tuple(Proposal(candidate=candidate(t), effort="screen") for t in (900, 500, 300)))
    seen: list[Brief] = []

    def write(briefs: tuple[Brief, ...]) -> tuple[Draft, ...]:
        seen.extend(briefs)
        return tuple(Draft(stop="enough") for _ in briefs)

    drive(Authored(write, models=("m",), seed=1, told=told, rules=Rules(plans=False)))
    contrasts = [brief for brief in seen if brief.kind == "contrast"]
    assert contrasts
    assert [round(e.speed, 2) for e in contrasts[0].exemplars] == [1.11, 2.0, 3.33]


def test_free_parameters_become_a_template() -> None:
    code = "constexpr int T = 8;  // kw: tune 16, 32\n" + kernel(300)
    made = candidate_of(PROBLEM, code, language="cpp", author="a")
    template = template_of(PROBLEM, code, made, language="cpp")
    assert template is not None
    assert template.space.size() == 3
    emitted = template.emit((("T", 32),))
    assert isinstance(emitted, Candidate)
    assert "T = 32;" in emitted.sources[0].text
    assert emitted.parents == (digest(made),)
    first = template.emit(template.space.default())
    assert isinstance(first, Candidate)
    assert digest(first) == digest(made)


@pytest.mark.parametrize("limit", [5, 20])
def test_random_search_makes_as_many_proposals_as_it_may(limit: int) -> None:
    template = make_template("t", ("a", (1, 2, 4, 8)), ("b", (1, 2, 3, 4, 5)))
    strategy, asked = RandomSearch((template,), seed=0, limit=limit), list[Proposal]()
    while batch := strategy.ask():
        asked += batch
        strategy.tell(tuple((p, fake_record(p.candidate, p.effort, 100.0 + len(asked))) for p in batch))
    assert len(asked) <= limit
    assert {p.effort for p in asked} == {"screen", "measure"}
    assert len({(digest(p.candidate), p.effort) for p in asked}) == len(asked)


def test_a_cuda_kernel_tunes_its_launch() -> None:
    code = (
        "// kernelwright-launch: twice grid=1 block={T}\nconstexpr int T = 64;  // kw: tune 32\n"
        'extern "C" __global__ void twice(const float* __restrict__ x, float* __restrict__ out) {\n'
        "    for (int i = threadIdx.x; i < 64; i += T) out[i] = 2 * x[i];\n}\n"
    )
    made = candidate_of(PROBLEM, code, language="cuda", author="a")
    assert made.language == "cuda"
    template = template_of(PROBLEM, code, made, language="cuda")
    assert template is not None
    emitted = template.emit((("T", 32),))
    assert isinstance(emitted, Candidate)
    launches = [step.launch for one in (made, emitted) for step in one.plan.steps]
    assert [launch.block for launch in launches if launch] == [(64, 1, 1), (32, 1, 1)]
