"""The two authors as the parent sees them: a model in its process that answers prompts, and learns from advantages.

Not here: torch (models), and what is asked (stages.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.exchanges import Message
from kernelwright.process import Worker
from kernelwright.training.grammar import Choices, Grammar
from kernelwright.types import value

WORKER = "kernelwright.training.models.worker"
OPEN_S, SAMPLE_S, LEARN_S, SAVE_S = 600.0, 1800.0, 1800.0, 600.0
ABOUT, CHECKPOINT_MODEL = "author.json", "model"
"""The file by which a folder of an author of schedules is known; where a stage's folder keeps its model."""


@value
class Asked:
    """One row of a sampling: a prompt's words and what may be said after it."""

    prompt: tuple[str, ...]
    without: tuple[Choices, ...] = ()
    """Schedules that may not be said: those that the prompt shows."""


@value
class Written:
    """One answer of a code author."""

    text: str
    prompt_tokens: int
    tokens: int
    broke_off: bool


class Author:
    """A model in a process of its own.

    Args:
        folder: of the model; empty makes a fresh author of schedules.
        words: the vocabulary of a fresh author.
        seed: of its first weights.
        rates: how it learns (models/learner.py), by name.
        device: cpu, cuda, or empty for a GPU where there is one.
    """

    def __init__(
        self, folder: str, *, words: Sequence[str] = (), seed: int = 0, rates: dict[str, Any] | None = None,
        device: str = "",
    ) -> None:  # fmt: skip
        self._worker = Worker(WORKER)
        try:
            about = self._worker.request(
                "open", folder=folder, words=tuple(words), seed=seed, rates=rates or {}, device=device,
                deadline_s=OPEN_S,
            )  # fmt: skip
        except BaseException:
            self._worker.close()
            raise
        self.kind: str = about["kind"]
        self.parameters: int = about["parameters"]
        self.words: frozenset[str] = frozenset(about["words"])

    # ----------------------------------------------------------------------- schedules

    def choose(
        self, asked: Sequence[tuple[Grammar, Asked]], *, seed: int | None, temperature: float = 1.0
    ) -> tuple[Choices, ...]:
        """Returns a schedule for each row; every one of them emits.

        Args:
            asked: grammar and prompt of each row.
            seed: of the draws; None takes the likeliest words.
            temperature: of sampling.
        """
        prompts = tuple(row.prompt for _, row in asked)
        self._worker.request("begin", prompts=prompts, seed=seed, temperature=temperature, deadline_s=SAMPLE_S)
        chosen: list[Choices] = [()] * len(asked)
        without = [frozenset(row.without) for _, row in asked]
        while True:
            offers = []
            for number, (grammar, _) in enumerate(asked):
                slot = grammar.slot(chosen[number])
                if slot is not None:
                    may = _open(grammar, chosen[number], without[number])
                    offers.append((number, slot.name, slot.words, may))
            if not offers:
                return tuple(chosen)
            picked = self._worker.request("decide", asked=tuple(offers), deadline_s=SAMPLE_S)
            for (number, *_), place in zip(offers, picked, strict=True):
                chosen[number] = (*chosen[number], place)

    def imitate(self, answers: Sequence[tuple[Grammar, Asked, Choices]], weights: Sequence[float]) -> dict[str, float]:
        """Learns schedules that were right; returns the loss."""
        told = []
        for grammar, row, choices in answers:
            decisions = []
            for length, place in enumerate(choices):
                slot = grammar.slot(choices[:length])
                assert slot is not None
                may = list(_open(grammar, choices[:length], frozenset(row.without)))
                may[place] = True
                decisions.append((slot.name, slot.words, tuple(may), place))
            told.append((row.prompt, tuple(decisions)))
        return self._learn("imitate", answers=tuple(told), weights=tuple(weights))

    # ---------------------------------------------------------------------------- code

    def write(
        self, prompts: Sequence[Sequence[Message]], count: int, *, most: int, temperature: float, seed: int
    ) -> tuple[tuple[Written, ...], ...]:
        """Returns `count` answers to each prompt of at most `most` tokens."""
        told = tuple(tuple((m.role, m.text) for m in messages) for messages in prompts)
        found = self._worker.request(
            "write", prompts=told, count=count, most=most, temperature=temperature, seed=seed, deadline_s=SAMPLE_S
        )
        return tuple(
            tuple(Written(text=t, prompt_tokens=p, tokens=n, broke_off=b) for t, p, n, b in group) for group in found
        )

    def imitate_text(
        self, answers: Sequence[tuple[Sequence[Message], str]], weights: Sequence[float]
    ) -> dict[str, float]:
        """Learns answers that were right; returns the loss."""
        told = tuple((tuple((m.role, m.text) for m in messages), text) for messages, text in answers)
        return self._learn("imitate_text", answers=told, weights=tuple(weights))

    # ---------------------------------------------------------------------------- both

    def reinforce(self, advantages: Sequence[float]) -> dict[str, float]:
        """Learns from the last sampling: one advantage for each answer, in order."""
        return self._learn("reinforce", advantages=tuple(advantages))

    def save(self, folder: Path) -> None:
        """Writes the model and its optimiser into a folder."""
        self._worker.request("save", folder=str(folder), deadline_s=SAVE_S)

    def resume(self, folder: Path) -> None:
        """Takes up the optimiser's state that lies in a folder; the model was opened from there."""
        self._worker.request("resume", folder=str(folder), deadline_s=SAVE_S)

    def _learn(self, verb: str, **arguments: Any) -> dict[str, float]:
        found: dict[str, float] = self._worker.request(verb, deadline_s=LEARN_S, **arguments)
        return found

    def close(self) -> None:
        """Ends the process."""
        self._worker.close()

    def __enter__(self) -> Author:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(grammar: Grammar, begun: Choices, without: frozenset[Choices]) -> tuple[bool, ...]:
    """Returns what may be said next; where only what is not wanted is left, that."""
    may = grammar.allowed(begun, without=without)
    return may if any(may) else grammar.allowed(begun)
