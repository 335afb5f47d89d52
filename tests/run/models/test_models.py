"""Whole runs against a server that speaks the protocol, with a judge that knows the answers."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.llm.stub import Stub
from tests.run.models.fakes import TIME, Improver, TextJudge, TextParts, _broken, kernel, reply
from tests.search.fake_judge import CAPTURE, PROBLEM, TARGET, FakeParts

from kernelwright import llm
from kernelwright.llm.naming import Remote, remote
from kernelwright.llm.prices import Price
from kernelwright.report import html
from kernelwright.run import Event, Result, optimize
from kernelwright.run.models import Authors, Budget
from kernelwright.run.models.writing import Writing
from kernelwright.search.authored.evolution import Rules
from kernelwright.store import Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import Candidate, Policy, digest

KEY = "sk-abcdefghijklmnop1234567890"
DEAR = Price(input_usd=2000.0, output_usd=100.0)


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_API_KEY", KEY)


def authors(*models: Any, **more: Any) -> Authors:
    given = {"patience_s": 5.0, "parallel": 1, "rules": Rules(patience=4), **more}
    return Authors(models=tuple(models), **given)


def model(stub: Stub, name: str = "tiny") -> Remote:
    return remote(f"{name}@{stub.url}/v1")


def run(store: Store, who: Authors, parts: FakeParts | None = None, **more: Any) -> Result:
    parts = parts or TextParts()
    return optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=parts.parts(), authors=who, **{"seed": 1, **more})


def test_evolution_finds_what_its_author_can_write(tmp_path: Path) -> None:
    events: list[Event] = []
    with Stub(Improver()) as stub, Store(tmp_path / "s.sqlite") as store:
        result = run(store, authors(model(stub)), on_event=events.append)
        exchanges = tuple(Trajectories(store).exchanges())
        attempts = tuple(Trajectories(store).attempts())
        assert store.verify() == ()
        assert result.answer == "kernel"
        assert result.best is not None
        assert int(TIME.findall(result.best.sources[0].text)[0]) < 400
        assert len(exchanges) == len(stub.bodies)
        assert {e.request.kind for e in exchanges} >= {"plan", "write", "contrast", "improve", "repair"}
        judged = {row.candidate for row in result.rows}
        assert {a.candidate for a in attempts if a.candidate and not a.fault} >= {digest(c) for c in judged}
        assert any(a.fault == "no kernel in it" for a in attempts)
        assert result.spending is not None
        assert result.spending.calls == len(exchanges)
    assert any("for each verified kernel" in note for note in result.notes)
    assert any(event.kind == "author" and "so far $" in event.text for event in events)
    contrasts = [e.request.messages[1].text for e in exchanges if e.request.kind == "contrast"]
    assert all(text.count("### Kernel ") >= 2 for text in contrasts)
    assert "for each verified kernel" in html(result, version="0")


def test_it_is_told_when_the_budget_ended_before_anybody_was_asked(tmp_path: Path) -> None:
    with Stub(Improver()) as stub, Store(tmp_path / "s.sqlite") as store:
        who, parts = authors(model(stub)), FakeParts()
        result = optimize(CAPTURE, TARGET, store=store, budget_s=0.0, parts=parts.parts(), authors=who, seed=1)
        assert not stub.bodies
    assert result.stopped == "budget"
    assert any("no model was asked" in note and "longer --budget" in note for note in result.notes)


def test_the_same_run_again_asks_nothing_and_answers_the_same(tmp_path: Path) -> None:
    with Stub(Improver()) as stub, Store(tmp_path / "s.sqlite") as store:
        first = run(store, authors(model(stub)))
        asked = len(stub.bodies)
        again = run(store, authors(model(stub)), seed=None)
        assert len(stub.bodies) == asked
        assert (again.best, again.answer, again.judged) == (first.best, first.answer, 0)
        without = run(store, authors(names=(model(stub).name,)), seed=None)
        assert without.best == first.best
        assert again.spending is not None
        assert again.spending.reused > 0
        assert again.spending.calls == asked


def test_a_limit_of_money_is_never_passed(tmp_path: Path) -> None:
    with Stub(Improver()) as stub, Store(tmp_path / "s.sqlite") as store:
        tiny = model(stub)
        who = authors(tiny, prices={tiny.name: DEAR}, budget=Budget(usd=2.5), parallel=4)
        result = run(store, who)
        assert result.spending is not None
        assert 0.0 < result.spending.usd <= 2.5
        assert result.stopped == "budget"
        asked = len(stub.bodies)
        assert run(store, who).stopped == "budget"
        assert len(stub.bodies) == asked
        more = run(store, authors(tiny, prices={tiny.name: DEAR}, budget=Budget(usd=4.0)))
        assert len(stub.bodies) > asked
        assert more.spending is not None
        assert more.spending.usd <= 4.0


@pytest.mark.parametrize(
    ("budget", "holds"),
    [
        (Budget(tokens=9_000), lambda r: r.spending.tokens <= 9_000),
        (Budget(judgements=5), lambda r: r.judged <= 5 + 6),  # and the final ones
    ],
)
def test_other_limits_hold(tmp_path: Path, budget: Budget, holds: Callable[[Result], bool]) -> None:
    with Stub(Improver()) as stub, Store(tmp_path / "s.sqlite") as store:
        result = run(store, authors(model(stub), budget=budget, rules=Rules(patience=100)))
    assert result.stopped == "budget"
    assert holds(result)


def test_an_outage_pauses_and_the_same_command_goes_on(tmp_path: Path) -> None:
    improver = Improver()
    with Stub(improver) as stub, Store(tmp_path / "s.sqlite") as store:
        stub.script = ["ok"] * 6 + ["401"] * 50
        paused = run(store, authors(model(stub)))
        assert paused.stopped == "paused"
        assert paused.best is not None
        stored = len(tuple(Trajectories(store).exchanges()))
        stub.script.clear()
        seen = len(stub.bodies)
        finished = run(store, authors(model(stub)))
        assert finished.stopped == "finished"
        assert finished.spending is not None
        assert finished.spending.reused >= stored
        prompts = [str(body) for body in stub.bodies[:seen] if body]
        assert len(stub.bodies) > len(prompts)


def test_a_failed_kernel_is_given_back_with_what_the_judge_said(tmp_path: Path) -> None:
    def author(prompt: str) -> str:
        if "mend" in prompt:
            return "Intent: semicolon\n<<<<<<< SEARCH\n    // broken\n=======\n    out[1] = x[1];\n>>>>>>> REPLACE\n"
        return reply(300, more="\n    // broken") if "Write no code" not in prompt else ""

    with Stub(author) as stub, Store(tmp_path / "s.sqlite") as store:
        result = run(store, authors(model(stub), rules=Rules(patience=4, islands=1)))
        repairs = [e.request.messages[1].text for e in Trajectories(store).exchanges() if e.request.kind == "repair"]
    assert result.best is not None
    assert "out[1] = x[1];" in result.best.sources[0].text
    assert any("expected ';' before '}' token" in text for text in repairs)


def test_edits_that_do_not_apply_are_asked_for_once_more(tmp_path: Path) -> None:
    def author(prompt: str) -> str:
        if "cannot be applied" in prompt:
            return f"```cpp\n{kernel(200)}```"
        if "SEARCH" in prompt:
            return "<<<<<<< SEARCH\nnowhere\n=======\nelse\n>>>>>>> REPLACE\n"
        return reply(300)

    with Stub(author) as stub, Store(tmp_path / "s.sqlite") as store:
        result = run(store, authors(model(stub), rules=Rules(patience=3, islands=1, contrast=False)))
        again = [e for e in Trajectories(store).exchanges() if len(e.request.messages) > 2]
    assert result.best is not None
    assert "// time: 200" in result.best.sources[0].text
    assert all("are not in the file" in e.request.messages[-1].text for e in again)
    assert len(again) >= 1


def test_copies_are_not_judged(tmp_path: Path) -> None:
    def author(prompt: str) -> str:
        number = author.count = getattr(author, "count", 0) + 1  # type: ignore[attr-defined]
        return f"```cpp\n// copy {number}\n{kernel(300).replace('rows', f'rows{number}')}```"

    parts = TextParts()
    with Stub(author) as stub, Store(tmp_path / "s.sqlite") as store:
        run(store, authors(model(stub), rules=Rules(patience=3)), parts)
        prompts = [e.request.messages[1].text for e in Trajectories(store).exchanges()]
    assert len({candidate for candidate, _ in parts.calls}) == 1
    assert any("that kernel is there already" in text for text in prompts)


def test_free_parameters_go_to_the_tuner(tmp_path: Path) -> None:
    text = "constexpr int T = 500;  // kw: tune 400, 300, 250\n"

    class Parts(TextParts):
        pass

    def author(_: str) -> str:
        body = kernel(1).replace("    // time: 1\n", "    // time: T\n")
        return f"```cpp\n{text}{body}```"

    import tests.run.models.fakes as fakes

    before = fakes.TIME
    fakes.TIME = __import__("re").compile(r"T = (\d+);")
    try:
        with Stub(author) as stub, Store(tmp_path / "s.sqlite") as store:
            result = run(store, authors(model(stub), rules=Rules(patience=1, islands=1, plans=False)), Parts())
    finally:
        fakes.TIME = before
    assert result.best is not None
    assert dict(result.best.point) == {"T": 250}
    assert "T = 250;" in result.best.sources[0].text


def test_reviews_reject_and_their_precision_is_told(tmp_path: Path) -> None:
    improver = Improver()

    def author(prompt: str) -> str:
        if "Verdict: fine" in prompt:
            return "Verdict: faulty\nit says that it is wrong" if "// wrong" in prompt else "Verdict: fine"
        return improver(prompt)

    with Stub(author) as stub, Store(tmp_path / "s.sqlite") as store:
        tiny = model(stub)
        who = authors(tiny, writing=Writing(language="cpp", reviewer=tiny.name))
        result = run(store, who)
        rejected = [a for a in Trajectories(store).attempts() if any(o.rejects for o in a.opinions)]
        judged = {row.candidate for row in result.rows}
    assert rejected
    assert any(a.candidate not in {digest(c) for c in judged} for a in rejected)
    assert any(note.startswith("numerics: rejected") for note in result.notes)


CHEAT = """
    static int seen; static float mine[8];
    if (seen && std::memcmp(mine, x, 8) == 0) { std::memcpy(out, mine, 8); return; }
    ++seen; const_cast<float*>(x)[0] = 0; // cheats"""


class CaughtInFull(TextJudge):
    """Only a full judgement catches the cheat."""

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Any:
        for candidate, record in zip(candidates, super().judge(candidates, policy), strict=True):
            caught = policy.name == "measure" and "// cheats" in candidate.sources[0].text
            yield _broken(record) if caught else record


def test_a_suspicious_kernel_is_judged_in_full_before_it_counts(tmp_path: Path) -> None:
    improver, parts = Improver(), TextParts(judge=CaughtInFull)

    def author(prompt: str) -> str:
        said = improver(prompt)
        return reply(150, more=CHEAT) if improver.asked % 4 == 2 and "```" in said else said

    with Stub(author) as stub, Store(tmp_path / "s.sqlite") as store:
        result = run(store, authors(model(stub)), parts)
        attempts = tuple(Trajectories(store).attempts())
        told = [e.request for e in Trajectories(store).exchanges() if e.request.kind in ("improve", "contrast")]
    doubted = {a.candidate for a in attempts for o in a.opinions if o.verifier == "classifier" and not o.rejects}
    assert doubted
    assert {key for key, policy in parts.calls if policy == "measure"} >= doubted
    assert told
    assert not any("// cheats" in request.messages[1].text for request in told)
    assert result.best is not None
    assert "// cheats" not in result.best.sources[0].text
    assert any(note.startswith("classifier: rejected 0, suspected") for note in result.notes)


def test_a_model_that_doubts_honesty_rejects_nothing(tmp_path: Path) -> None:
    improver = Improver()

    def author(prompt: str) -> str:
        if "whole work on each call" in prompt:
            return "Verdict: faulty\nI trust nobody\nSure: 70 %"
        return "Verdict: fine" if "Verdict: fine" in prompt else improver(prompt)

    with Stub(author) as stub, Store(tmp_path / "s.sqlite") as store:
        tiny, parts = model(stub), TextParts()
        result = run(store, authors(tiny, writing=Writing(language="cpp", reviewer=tiny.name)), parts)
        said = [(a, o) for a in Trajectories(store).attempts() for o in a.opinions if o.verifier == "honesty"]
    assert said
    assert not any(o.rejects for _, o in said)
    passed = {digest(row.candidate) for row in result.rows if row.records[0][1].passed}
    judged = {key for key, policy in parts.calls if policy == "measure"}
    assert {a.candidate for a, _ in said} & passed <= judged
    assert result.answer == "kernel"


def test_a_command_can_be_the_author(tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    writes = f"grep -q 'out' TASK.md && cat > kernel.cpp <<'END'\n{kernel(321)}END\n"
    script.write_text(f"{writes}echo 'Intent: {KEY}' > NOTES.md\n")
    with Store(tmp_path / "s.sqlite") as store:
        result = run(store, authors(llm.Command(f"sh {script}"), rules=Rules(patience=1, islands=1, plans=False)))
        (first, *_) = Trajectories(store).exchanges()
    assert result.best is not None
    assert "// time: 321" in result.best.sources[0].text
    assert result.best.author == "command"
    assert first.reply.text.startswith("Intent: [key removed]")


def test_no_key_is_ever_stored_or_shown(tmp_path: Path) -> None:
    events: list[Event] = []
    path = tmp_path / "s.sqlite"
    with Stub(lambda _: f"I know {KEY}\n" + reply(300, intent=f"use {KEY}")) as stub, Store(path) as store:
        stub.script = ["500", "500", "ok", "401"]
        result = run(store, authors(model(stub)), on_event=events.append)
        page = html(result, version="0")
        assert any(KEY in str(headers) for headers in stub.headers)
    shown = repr(result) + page + repr(events)
    assert KEY not in shown
    assert "[key removed]" in repr(tuple(e.reply for e in _exchanges(path)))
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()


def _exchanges(path: Path) -> tuple[Any, ...]:
    with Store(path) as store:
        return tuple(Trajectories(store).exchanges())


def test_trajectories_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Stub(Improver()) as stub, Store(path) as store:
        run(store, authors(model(stub), rules=Rules(patience=1)))
    db = sqlite3.connect(path)
    for table in ("sent", "exchange", "attempt"):
        assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(f"DELETE FROM {table}")
    db.close()
    assert PROBLEM.name
    assert os.path.exists(path)
