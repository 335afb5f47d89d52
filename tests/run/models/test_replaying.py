"""Runs again from their replies, and strategies at equal budget, with judges that know the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.llm.stub import Stub
from tests.run.models.fakes import Improver, TextParts
from tests.search.fake_judge import CAPTURE, PROBLEM, TARGET, FakeParts

from kernelwright.errors import UserError
from kernelwright.llm.naming import remote
from kernelwright.run import optimize
from kernelwright.run.ablating import ablate, summaries
from kernelwright.run.models import Authors, replaying
from kernelwright.search.authored.evolution import Rules
from kernelwright.store import Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.testing.strategies import fake_policy

RULES = Rules(patience=4)


def run(store: Store, authors: Authors) -> Any:
    parts = TextParts()
    return optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=parts.parts(), authors=authors, seed=1), parts


def test_a_run_is_repeated_without_its_server(tmp_path: Path) -> None:
    with Store(tmp_path / "one.sqlite") as store:
        with pytest.raises(UserError, match="no run with models"):
            replaying.find_run(store, None)
        with Stub(Improver()) as stub:
            who = Authors(models=(remote(f"tiny@{stub.url}/v1"),), parallel=1, rules=RULES)
            first, _ = run(store, who)
        found = replaying.find_run(store, None)
        known = replaying.remembered(store, found)
        assert known.models == (who.models[0].name,)
        assert known.replies == first.spending.calls
        again, parts = run(store, _with_rules(replaying.again(store, found)))
        assert parts.calls == []
        assert (again.best, again.why) == (first.best, first.why)
        with Store(tmp_path / "two.sqlite") as fresh:
            anew, parts = run(fresh, _with_rules(replaying.anew(store, found)))
            assert parts.calls
            assert anew.best is not None
            said = [e.reply.text for e in Trajectories(fresh).exchanges()]
        assert set(said) <= {e.reply.text for e in Trajectories(store).exchanges()} | {""}
        with pytest.raises(UserError, match="there is no run 99"):
            replaying.find_run(store, 99)


def _with_rules(authors: Authors) -> Authors:
    return Authors(models=authors.models, names=authors.names, writing=authors.writing, rules=RULES, parallel=1)


def test_strategies_get_the_same_number_of_proposals(tmp_path: Path) -> None:
    fake = FakeParts()
    with Store(tmp_path / "s.sqlite") as store:
        trials = tuple(
            ablate(
                PROBLEM, TARGET, fake.templates, strategies=("random", "tune", "evolve"), judgements=24, seeds=(0, 1),
                store=store, judge=fake.parts().judge, screen=fake_policy("screen"), measure=fake_policy("measure"),
            )
        )  # fmt: skip
    assert [(t.strategy, t.seed) for t in trials] == [(n, s) for n in ("random", "tune", "evolve") for s in (0, 1)]
    assert all(len(t.curve) <= 24 for t in trials)
    assert all(t.curve[-1] == max(t.curve) > 0.0 for t in trials)
    lines = {line.strategy: line for line in summaries(trials)}
    assert lines["tune"].low <= lines["tune"].best <= lines["tune"].high
    assert len(fake.calls) == len(set(fake.calls)), "a candidate was judged twice"


def test_a_strategy_of_ones_own_is_compared_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_search_7.py").write_text(
        "from kernelwright.search.random_search import RandomSearch\n\n\n"
        "def mine(templates, *, seed, limit):\n    return RandomSearch(templates, seed=seed + 100, limit=limit)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    fake = FakeParts()
    with Store(tmp_path / "s.sqlite") as store:
        given: dict[str, Any] = {
            "judgements": 12, "seeds": (0,), "store": store, "judge": fake.parts().judge,
            "screen": fake_policy("screen"), "measure": fake_policy("measure"),
        }  # fmt: skip
        own, random = ablate(
            PROBLEM, TARGET, fake.templates, strategies=("my_search_7:mine", "random"), **given
        )  # fmt: skip
        for wrong in ("my_search_7:yours", "nowhere_7:mine", "best"):
            with pytest.raises(UserError, match="there is no strategy"):
                tuple(ablate(PROBLEM, TARGET, fake.templates, strategies=(wrong,), **given))
    assert (own.strategy, len(own.curve)) == ("my_search_7:mine", len(random.curve))
    assert own.curve != random.curve


def test_authors_are_compared_too_and_need_a_model(tmp_path: Path) -> None:
    parts = TextParts()
    with Stub(Improver()) as stub, Store(tmp_path / "s.sqlite") as store:
        given: dict[str, Any] = {
            "judgements": 16, "seeds": (0,), "store": store, "judge": parts.parts().judge,
            "screen": fake_policy("screen"), "measure": fake_policy("measure"),
        }  # fmt: skip
        names = ("authors", "authors-contrast")
        trials = tuple(
            ablate(
                PROBLEM, TARGET, (), strategies=names,
                authors=lambda: Authors(models=(remote(f"tiny@{stub.url}/v1"),), parallel=1), **given,
            )
        )  # fmt: skip
        kinds = {e.request.kind for e in Trajectories(store).exchanges()}
        with pytest.raises(UserError, match="--model"):
            tuple(ablate(PROBLEM, TARGET, (), strategies=("authors",), **given))
    assert [len(t.curve) for t in trials] == [16, 16]
    assert all(t.calls > 0 and t.tokens > 0 for t in trials)
    assert "contrast" in kinds
