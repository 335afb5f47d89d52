"""`Authors`: who writes in a run, with what limits; and the strategy that they make together with experts and tuner.

Not here: one brief (writing.py), one call (calls.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.graph import Capture
from kernelwright.llm import Model, Pool, Recorded
from kernelwright.llm.dialects import estimated_tokens
from kernelwright.llm.prices import Price
from kernelwright.llm.prompts import Prompt, messages
from kernelwright.run.models import screening
from kernelwright.run.models.calls import Calls
from kernelwright.run.models.spending import Budget, Ledger, spending_text
from kernelwright.run.models.telling import baselines_of, hardware_sheet
from kernelwright.run.models.writing import Writer, Writing
from kernelwright.search import Chain, Results, Strategy
from kernelwright.search.authored import Authored
from kernelwright.search.authored.evolution import Rules
from kernelwright.search.tune import Tune
from kernelwright.store import Run, Store
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import Candidate, Problem, Target, Template, digest, replace

SEED_LIMITS = (4, 16)
"""Least and most proposals of the experts' templates that authors start from."""
SEEDS_PER_S = 0.15
"""Of the budget: authors are to have most of it."""
TYPICAL_OUTPUT_TOKENS = 4000
"""Of one answer with a kernel and its reasons, for the estimate before the first call."""
TYPICAL_CALLS = 24
GROWTH = 2.0
"""By which prompts with exemplars and feedback are longer than the first."""


class Chooser(Protocol):
    """Makes a strategy that chooses among the experts' schedules, as a trained model does."""

    def __call__(
        self, capture: Capture, target: Target, templates: tuple[Template, ...], *, seed: int, limit: int
    ) -> Strategy:
        """Returns the strategy."""


@dataclass(frozen=True)
class Authors:
    """Models with prices and limits.

    Args:
        models: whom to ask; without any, only stored replies answer.
        prices: by model's name.
        budget: its seconds are the search's own and need not be set.
        writing: how prompts are filled.
        rules: of the search.
        parallel: calls at once.
        patience_s: how long all models may be out of reach.
    """

    models: tuple[Model, ...]
    prices: dict[str, Price] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    writing: Writing = field(default_factory=lambda: Writing(language="cpp"))
    rules: Rules = field(default_factory=Rules)
    parallel: int = 4
    patience_s: float = 900.0
    seed_limit: int | None = None
    """Proposals of the experts' templates before the authors begin; None follows from the budget."""
    names: tuple[str, ...] = ()
    """Of the models, where there are none to ask: a replay's."""
    chooser: Chooser | None = None
    """Is asked first: an author of schedules. After it come models, or evolution where there are none."""

    @property
    def model_names(self) -> tuple[str, ...]:
        """The names by which the search knows the models."""
        return self.names or tuple(model.name for model in self.models)


def estimate_text(authors: Authors, problem: Problem, target: Target) -> str:
    """Returns what a run may cost, before its first call."""
    prompt = Prompt(problem=problem, language=authors.writing.language, hardware=hardware_sheet(target))
    tokens = sum(estimated_tokens(message.text) for message in messages("write", prompt))
    parts = []
    for model in authors.models:
        price = authors.prices.get(model.name)
        if price is None or model.local:
            parts.append(f"{model.name}: nothing to pay")
            continue
        one = price.of(tokens * GROWTH, TYPICAL_OUTPUT_TOKENS)
        parts.append(f"{model.name}: about ${one:.3f} a call, ${one * TYPICAL_CALLS:.2f} for {TYPICAL_CALLS}")
    limits = []
    if authors.budget.usd is not None:
        limits.append(f"${authors.budget.usd:.2f}")
    if authors.budget.tokens is not None:
        limits.append(f"{authors.budget.tokens:,} tokens")
    return "; ".join(parts) + (f"; stops at {' or '.join(limits)}" if limits else "; no limit of money or tokens")


class Staff:
    """Authors at work on one problem.

    Args:
        authors: who and how.
        problem: what they write for.
        target: where it runs.
        store: keeps their replies.
        run: that this belongs to.
        progress: returns (new judgements, seconds that were only preparing).
        budget_s: of the search.
        say: called with lines of progress.
    """

    def __init__(
        self, authors: Authors, problem: Problem, target: Target, *, store: Store, run: Run, budget_s: float,
        progress: Callable[[], tuple[int, float]], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.authors = authors
        self.trajectories = Trajectories(store)
        self._store = store
        self._budget_s = budget_s
        key = self._key = digest(problem)
        same = {r.id for r in store.runs(problem=key) if (r.command, r.seed) == (run.command, run.seed)}
        said = [exchange for exchange in self.trajectories.exchanges(problem=key) if exchange.run in same]
        for model in authors.models:
            if isinstance(model, Recorded):
                model.skip(said)
        self.ledger = Ledger(
            replace(authors.budget, seconds=budget_s), before=self.trajectories.paid(problem=key),
            lost_usd=self.trajectories.lost_usd(problem=key),
        )  # fmt: skip
        self.pool = (
            Pool(authors.models, prices=authors.prices, patience_s=authors.patience_s, on_event=say)
            if authors.models
            else None
        )
        self.calls = Calls(
            self.pool, self.ledger, self.trajectories, run, parallel=authors.parallel, on_event=say,
            overdue=lambda: self.ledger.overdue(*progress()),
        )  # fmt: skip
        self.writer = Writer(
            problem, target, calls=self.calls, trajectories=self.trajectories, run=run, writing=authors.writing
        )

    def strategy(self, templates: tuple[Template, ...], *, seed: int, limit: int | None = None) -> Strategy:
        """Returns the tuner over the experts' templates for a while, then the authors with its results as seeds."""
        least, most = SEED_LIMITS
        planned = int(min(most, max(least, SEEDS_PER_S * self._budget_s)))
        asked = self.authors.seed_limit
        first = Tune(templates, seed=seed, limit=planned if asked is None else asked)

        def then(told: Results) -> Strategy:
            timed = (found for _, record in told if (found := baselines_of(record)))
            self.writer.baselines = next(timed, ())
            left = None if limit is None else max(0, limit - len(told))
            return Authored(
                self.writer, models=self.authors.model_names, seed=seed, told=told, limit=left,
                rules=self.authors.rules,
            )  # fmt: skip

        return Chain(first, then, name="tune, then authors")

    def suspects(self, candidate: Candidate) -> bool:
        """Tells whether a candidate, or the written kernel whose free parameters it sets, was found suspicious."""
        written = candidate.parents if candidate.point else ()
        return not self.writer.suspected.isdisjoint((digest(candidate), *written))

    @property
    def writers(self) -> frozenset[str]:
        """The names of all models that have written something in this store."""
        return frozenset(name for name, _, _ in self.ledger.spending.models)

    def notes(self, *, verified: int) -> tuple[str, ...]:
        """Returns what it cost, and how right the soft verifiers were.

        Args:
            verified: kernels of these authors that the judge let pass.
        """
        spent = self.ledger.spending
        if not (spent.calls or spent.reused) and not self.calls.stopped:
            return ("no model was asked: the budget ended with the experts' kernels; give a longer --budget",)
        attempts = tuple(self.trajectories.attempts(problem=self._key))
        found = screening.precisions(attempts, self._store)
        opinions = [screening.precision_text(one) for one in found if one.rejected or one.suspected]
        return (spending_text(spent, verified=verified), *opinions)
