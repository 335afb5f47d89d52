"""Strategies: what proposes candidates from what the records say, and nothing else.

A strategy sees templates, proposals and records; it cannot see the judge, the store or the clock.
Not here: who judges the proposals, when to stop, and the final selection (run).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

from kernelwright.errors import KernelwrightError
from kernelwright.types import Effort, Proposal, Record, digest

__all__ = ["Chain", "Results", "Strategy", "Turns"]

Results = tuple[tuple[Proposal, Record], ...]
"""Proposals with what the judge found about them, in the order they were asked for."""


class Strategy(Protocol):
    """Proposes candidates in batches and learns from their records.

    Covers:
    - `ask` returns the next batch. Until each proposal of a batch was told, `ask` returns those that
      were not; an empty batch says that the strategy has finished, and stays so.
    - `tell` may be given a batch at once or piece by piece, in any order, and may be told failures;
      none of this changes what is asked next.
    - What is asked is a function of the templates, the seed and the told records: the same records
      told again, from a store for instance, give the same batches in the same order.
    - No candidate, by digest, is asked for twice with the same effort.
    Does not cover: time. A strategy does not know what a judgement costs or how much is left; whoever
    drives it stops asking.
    """

    name: str

    def ask(self) -> tuple[Proposal, ...]:
        """Returns the proposals to be judged next, empty when finished."""

    def tell(self, results: Results) -> None:
        """Takes in the records of proposals that were asked for."""


Batches = Generator[tuple[Proposal, ...], Results, None]
"""A strategy as straight code: yields a batch, receives its results in the batch's order."""


class Turns:
    """Gives a generator of batches the ask-and-tell form, with all that `Strategy` promises."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._batch: dict[tuple[str, Effort], Proposal] = {}
        self._told: dict[tuple[str, Effort], Record] = {}
        self._started = self._finished = False

    def ask(self) -> tuple[Proposal, ...]:
        """Returns what is still to be told of this batch, or the next batch."""
        waiting = tuple(p for key, p in self._batch.items() if key not in self._told)
        if waiting or self._finished:
            return waiting
        results = tuple((proposal, self._told[key]) for key, proposal in self._batch.items())
        try:
            batch = self._batches.send(results) if self._started else next(self._batches)
        except StopIteration:
            batch = ()
        self._started = True
        self._finished = not batch
        self._batch = {proposal_key(proposal): proposal for proposal in batch}
        self._told = {}
        return tuple(self._batch.values())

    def tell(self, results: Results) -> None:
        """Takes in records of the present batch.

        Raises:
            KernelwrightError: for a proposal that is not in it, or a record of another candidate.
        """
        for proposal, record in results:
            key = proposal_key(proposal)
            if key not in self._batch or record.candidate != key[0]:
                raise KernelwrightError(f"a strategy was told about {record.candidate}, which it did not ask for")
            self._told.setdefault(key, record)


def proposal_key(proposal: Proposal) -> tuple[str, Effort]:
    """Returns what makes two proposals the same request: candidate digest and effort."""
    return digest(proposal.candidate), proposal.effort


class Chain:
    """One strategy after another: the second is made from everything the first was told.

    Args:
        first: asked until it has finished.
        then: makes the second strategy; it must not ask again for what it is given.
        name: what the pair is called.
    """

    def __init__(self, first: Strategy, then: Callable[[Results], Strategy], *, name: str) -> None:
        self.name = name
        self._turns = Turns(_one_after_the_other(first, then))

    def ask(self) -> tuple[Proposal, ...]:
        """Returns the next batch of the strategy whose turn it is."""
        return self._turns.ask()

    def tell(self, results: Results) -> None:
        """Takes in records for the strategy whose turn it is."""
        self._turns.tell(results)


def _one_after_the_other(first: Strategy, then: Callable[[Results], Strategy]) -> Batches:
    told: list[tuple[Proposal, Record]] = []
    while batch := first.ask():
        results = yield batch
        first.tell(results)
        told.extend(results)
    second = then(tuple(told))
    while batch := second.ask():
        second.tell((yield batch))
