"""A corpus: what goes in passed the judge, splits do not leak, files are read as they were written, near is found."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from tests.search.fake_judge import PROBLEM

from kernelwright.graph import Capture, Graph, Node, ResultSpec
from kernelwright.search.authored.novelty import normalised
from kernelwright.store import Store
from kernelwright.training import augmenting, corpus, families, rows
from kernelwright.training.features import likeness, words_of
from kernelwright.training.judging import Court
from kernelwright.training.rows import Row
from kernelwright.types import (
    Binding,
    Candidate,
    Check,
    Comparison,
    Judgement,
    LaunchPlan,
    Measurement,
    Policy,
    Problem,
    Record,
    SourceFile,
    Step,
    Target,
    Verdict,
    digest,
    replace,
)

TARGET = Target(kind="cpu", architecture="made up", features=("avx2",), threads=2, toolchain=(("g++", "12"),))
SCREEN = Policy(name="screen", families=("normal",), draws=1, baselines=("eager",), rounds=6, block_us=1.0)
MEASURE = replace(SCREEN, name="measure", rounds=20)


class Judge:
    """Lets pass what was not broken on purpose; what loads ahead is unbelievably fast."""

    judged: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem, self.target = problem, target

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def turn_to(self, problem: Problem) -> None:
        self.problem = problem

    def prepare(self, policy: Policy) -> None:
        raise AssertionError("each policy is prepared by the judge itself")

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        return ()

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        for candidate in candidates:
            assert candidate.problem == digest(self.problem)
            self.judged.append((candidate.author, policy.name))
            bug = candidate.author.startswith("augmented") and candidate.author != "augmented: names"
            speed = 5.0 if dict(candidate.point).get("prefetch") else 1.5
            compared = Comparison(baseline="eager", speedup=speed, low=0.9 * speed, high=1.1 * speed)
            verdict = Verdict(checks=(Check(name="accuracy", passed=not bug, evidence="off by 3"),))
            outcome = Judgement(verdict=verdict, comparisons=() if bug else (compared,), noise=0.01)
            yield Record(
                problem=candidate.problem, candidate=digest(candidate), target=digest(self.target),
                policy=digest(policy), outcome=outcome,
            )  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("corpus")
    plan = corpus.Plan(names=("row_sum", "rational", "column_sum"), variants=1, each=6, bugs=1, held_out=0.34)
    for _ in range(2):
        before = len(Judge.judged)
        with (
            Store(folder / "store.sqlite") as store,
            Court(TARGET, store, screen=SCREEN, thorough=MEASURE, judge=Judge) as court,
        ):
            made = corpus.build(folder, (court,), store, plan)
        assert made.finished
        assert made.skipped == ()
    assert len(Judge.judged) == before  # the second build found everything in the store
    return folder


def test_a_build_holds_verified_kernels_and_mended_bugs_of_separate_families(built: Path) -> None:
    train, held = rows.read(built, "train"), rows.read(built, "held-out")
    assert {row.family for row in train} | {row.family for row in held} == {"row_sum", "rational", "column_sum"}
    assert not {row.family for row in train} & {row.family for row in held}
    assert not {row.fingerprint for row in train} & {row.fingerprint for row in held}
    kinds = {row.kind for row in (*train, *held)}
    assert kinds == {"kernel", "repair"}
    for row in (*train, *held):
        assert row.speedup in (1.5, 5.0)
        assert row.candidate.startswith("k1:")
        if row.kind == "repair":
            assert row.before not in ("", row.source)
            assert "accuracy failed: off by 3" in row.fault
    about = json.loads((built / "corpus.json").read_text())
    assert about["rows"] == {"train": len(train), "held-out": len(held)}


def test_gains_beyond_belief_are_judged_again_in_full(built: Path) -> None:
    policies = {row.policy for row in rows.read(built) if row.speedup == 5.0}
    assert policies <= {digest(MEASURE)}
    assert ("tune", "measure") in Judge.judged


def test_the_schedules_can_be_said_again(built: Path) -> None:
    spaces = {space.problem_digest: space for space in rows.read_spaces(built)}
    for row in rows.read(built):
        if row.point:
            parameters = spaces[row.problem_digest].space.parameters
            assert [p.name for p in parameters] == [name for name, _ in row.point]


def test_there_are_sixty_families_and_each_variant_is_one_source(tmp_path: Path) -> None:
    assert len(families.every()) == len(set(families.every())) >= 60
    found = list(families.sources(tmp_path))
    assert len({(s.source, s.inputs) for s in found}) == len(found)
    assert {s.family for s in found} == set(families.every())
    path = next(s.source for s in found if s.family == "lerp").split(":")[0]
    compile(Path(path).read_text(), path, "exec")


def row(family: str, source: str, low: float, *, features: tuple[str, ...] = (), **more: str) -> Row:
    return Row(
        kind="kernel", family=family, problem=family, problem_digest=more.pop("key", family), features=features,
        reference="", language="cpp", source=source, speedup=low, low=low, origin=more.pop("origin", "expert"),
    )  # fmt: skip


def test_of_equal_sources_the_fastest_stays_and_none_crosses_the_split() -> None:
    one, other = "void f(float* x) { x[0] = 1; }", "void f(float* y) { // said\n y[0] = 1; }"
    some = [row("a", one, 1.0), row("a", other, 2.0), *(row(name, f"int {name};", 1.0) for name in "bcde")]
    kept = rows.deduplicated(some)
    assert [r.low for r in kept if r.family == "a"] == [2.0]
    names = {r.family for r in kept}
    held = next(name for name in sorted(names) if rows.split_of(name, names) == "held-out")
    leak = row("a" if held != "a" else "b", next(r.source for r in kept if r.family == held), 1.0)
    parts = rows.separated([*kept, leak])
    assert leak not in parts["train"]
    assert {r.family for r in parts["held-out"]} == {held}


def test_the_nearest_are_those_with_the_same_operators_and_near_sizes() -> None:
    def features(*ops: str, inner: int) -> tuple[str, ...]:
        return ("target:cpu", *(f"op:{name}" for name in ops), f"inner:{inner}")

    some = [
        row("sum", "s", 1.0, features=features("sum", inner=10)),
        row("sum", "s2", 3.0, features=features("sum", inner=10)),
        row("far", "f", 9.0, features=features("sum", inner=20), key="far"),
        row("exp", "e", 9.0, features=features("exp", "mul", inner=10)),
        row("named", "n", 9.0, features=features("sum", inner=10), origin="augmented: names"),
    ]
    found = rows.nearest(some, features("sum", inner=10), count=2)
    assert [r.source for r in found] == ["s2", "f"]
    assert likeness(features("sum", inner=3), features("sum", inner=3)) == 1.0


def test_features_tell_operators_and_sizes() -> None:
    node = Node(
        name="n", op="aten.mul.Tensor", arguments=(), results=(ResultSpec(shape=(8,), dtype="float32", strides=(1,)),)
    )
    words = words_of(Capture(problem=PROBLEM, graph=Graph(nodes=(node, node), outputs=())), TARGET)
    assert words[:3] == ("target:cpu", "threads:1", "op:mul")
    assert {"inner:3", "elements:6", "rank:2", "nodes:1"} <= set(words)


def test_other_names_are_the_same_program() -> None:
    text = (
        'extern "C" void f(const float* x, float* out) {\n const int64_t i0 = 1; float a[2];\n'
        " for (int u = 0; u < 8; ++u) out[u] = x[u] + a[i0]; }"
    )
    arguments = tuple(Binding(kind="tensor", name=name, ctype="float") for name in ("x", "out"))
    plan = LaunchPlan(steps=(Step(symbol="f", arguments=arguments),))
    source = SourceFile(path="k.cpp", text=text)
    made = Candidate(problem=digest(PROBLEM), language="cpp", sources=(source,), plan=plan)
    other = augmenting.renamed(PROBLEM, made, random.Random(0))
    assert other is not None
    changed = other.sources[0].text
    assert "x[" in changed
    assert "i0" not in changed
    assert normalised(changed, own=("f",)) == normalised(text, own=("f",))
    assert other.parents == (digest(made),)
