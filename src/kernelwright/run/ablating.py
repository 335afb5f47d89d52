"""Strategies compared at equal budget: the same problem, the same number of judgements, several seeds.

Every strategy is driven through ask and tell and pays for each new judgement; records are shared between strategies and
seeds through the store, since a candidate's record does not depend on who asked for it.
**Covers**: the best measured speed after each number of judgements, model calls, tokens and dollars.
**Does not cover**: what a strategy would do with other models or more seeds: the spread over seeds is shown for that.
"""

from __future__ import annotations

import dataclasses
import importlib
import statistics
from collections.abc import Callable, Iterator

from kernelwright.errors import UserError
from kernelwright.run.models.authors import Authors, Staff
from kernelwright.run.models.spending import Spending
from kernelwright.run.session import JudgeFactory, Judging, OnEvent, Session
from kernelwright.search import Chain, Strategy
from kernelwright.search.authored.evolution import Rules
from kernelwright.search.evolve import Evolve
from kernelwright.search.random_search import RandomSearch
from kernelwright.search.speed import speed
from kernelwright.search.tune import Tune
from kernelwright.store import Store
from kernelwright.types import Candidate, Policy, Problem, Proposal, Target, Template, value

WITHOUT_AUTHORS = ("random", "tune", "evolve")
WITH_AUTHORS = ("authors", "authors-contrast")
TUNED_SHARE = 0.5
"""Of the judgements, that `evolve` leaves to `tune` before it begins."""


@value
class Trial:
    """One strategy with one seed."""

    strategy: str
    seed: int
    curve: tuple[float, ...]
    """The best speed against eager among the measured after each proposal; 0 while there is none."""
    calls: int = 0
    """Replies, those of the store included."""
    tokens: int = 0
    """Paid for in this trial."""
    usd: float = 0.0

    @property
    def best(self) -> float:
        """The best speed at the end."""
        return self.curve[-1] if self.curve else 0.0


@value
class Summary:
    """One strategy over all seeds."""

    strategy: str
    best: float
    """Median over seeds of the best speed."""
    low: float
    high: float
    reached: int
    """Median of the proposals after which nine tenths of the trial's own best were reached."""
    usd: float
    tokens: int


def ablate(
    problem: Problem,
    target: Target,
    templates: tuple[Template, ...],
    *,
    strategies: tuple[str, ...],
    judgements: int,
    seeds: tuple[int, ...],
    store: Store,
    judge: JudgeFactory,
    screen: Policy,
    measure: Policy,
    authors: Callable[[], Authors | None] = lambda: None,
    on_event: OnEvent | None = None,
) -> Iterator[Trial]:
    """Yields each trial as it ends.

    Args:
        problem: what kernels are for.
        target: where they run.
        templates: of the experts.
        strategies: names out of WITHOUT_AUTHORS and WITH_AUTHORS, or MODULE:NAME of one's own: it is called with the
            templates, `seed` and `limit`, and returns a `Strategy`.
        judgements: proposals that each trial may make.
        seeds: one trial for each.
        store: keeps records and replies.
        judge: makes the judge.
        screen: the policy of quick looks.
        measure: the policy whose speeds count.
        authors: makes the authors of one trial, afresh, so that recorded replies begin anew.
        on_event: called with lines of progress.

    Raises:
        UserError: for a strategy that is not known, or one of authors without any.
    """
    for name in strategies:
        if name not in WITHOUT_AUTHORS + WITH_AUTHORS and ":" not in name:
            known = ", ".join((*WITHOUT_AUTHORS, *WITH_AUTHORS))
            raise UserError(f"there is no strategy {name!r}", f"use some of {known}, or MODULE:NAME")
    session = Session(problem, target, store=store, policies=(screen, measure), on_event=on_event)
    with judge(problem, target, on_event=session.hear) as it:
        for name in strategies:
            for seed in seeds:
                session.say("start", f"{name}, seed {seed}")
                strategy, staff = _made(name, templates, problem, target, store, seed, judgements, authors())
                before = staff.ledger.spending if staff else Spending()
                curve = tuple(driven(strategy, session, it, screen, measure, judgements))
                spent = staff.ledger.spending if staff else Spending()
                yield Trial(
                    strategy=name, seed=seed, curve=curve, calls=spent.calls - before.calls + spent.reused,
                    tokens=spent.tokens - before.tokens, usd=spent.usd - before.usd,
                )  # fmt: skip


def _made(
    name: str, templates: tuple[Template, ...], problem: Problem, target: Target, store: Store, seed: int, limit: int,
    authors: Authors | None,
) -> tuple[Strategy, Staff | None]:  # fmt: skip
    if name == "random":
        return RandomSearch(templates, seed=seed, limit=limit), None
    if name == "tune":
        return Tune(templates, seed=seed, limit=limit), None
    if name == "evolve":
        first = Tune(templates, seed=seed, limit=max(1, round(TUNED_SHARE * limit)))
        return Chain(first, lambda told: Evolve(templates, seed=seed, told=told, patience=limit), name=name), None
    if ":" in name:
        return _own(name)(templates, seed=seed, limit=limit), None
    if authors is None:
        raise UserError(f"{name} needs somebody who writes", "add --model")
    rules = Rules(contrast=name == "authors-contrast", patience=limit)
    run = store.begin_run(f"ablate {name}", problem, target, seed=seed)
    staff = Staff(
        dataclasses.replace(authors, rules=rules), problem, target, store=store, run=run, budget_s=float("inf"),
        progress=lambda: (0, 0.0), say=lambda _: None,
    )  # fmt: skip
    first_authors = staff.strategy(templates, seed=seed, limit=limit)
    # Authors may have no more to say, recorded ones above all: what is left is spent as without them.
    return Chain(
        first_authors, lambda told: Evolve(templates, seed=seed, told=told, patience=limit), name=name
    ), staff  # fmt: skip


def _own(name: str) -> Callable[..., Strategy]:
    """Returns what makes a strategy of the user's own."""
    module, _, attribute = name.partition(":")
    try:
        made: Callable[..., Strategy] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"there is no strategy {name!r}: {error}", "name a module that Python finds") from None
    return made


def driven(
    strategy: Strategy, session: Session, judge: Judging, screen: Policy, measure: Policy, limit: int
) -> Iterator[float]:
    """Yields the best measured speed after each of at most `limit` proposals of a strategy."""
    best, made = 0.0, 0
    while made < limit and (batch := strategy.ask()):
        for policy, effort in ((screen, "screen"), (measure, "measure")):
            asked: dict[Candidate, Proposal] = {p.candidate: p for p in batch if p.effort == effort}
            asked = dict(list(asked.items())[: limit - made])
            for candidate, record in session.judge(judge, tuple(asked), policy):
                strategy.tell(((asked[candidate], record),))
                made += 1
                best = max(best, (speed(record) or 0.0) if effort == "measure" else 0.0)
                yield best


def summaries(trials: tuple[Trial, ...]) -> tuple[Summary, ...]:
    """Returns one line for each strategy, in the order of the trials."""
    found = []
    for name in dict.fromkeys(trial.strategy for trial in trials):
        own = [trial for trial in trials if trial.strategy == name]
        reached = [next((i for i, s in enumerate(t.curve, 1) if s >= 0.9 * t.best), len(t.curve)) for t in own]
        found.append(
            Summary(
                strategy=name,
                best=statistics.median(t.best for t in own),
                low=min(t.best for t in own),
                high=max(t.best for t in own),
                reached=round(statistics.median(reached)),
                usd=sum(t.usd for t in own),
                tokens=sum(t.tokens for t in own),
            )
        )
    return tuple(found)
