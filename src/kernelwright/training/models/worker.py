"""The process that holds a model: it samples, learns, saves; it never sees the judge or the store.

Not here: what is asked of it (training/authors.py, llm/local.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import KernelwrightError, UserError
from kernelwright.process import Emit, serve
from kernelwright.training.authors import ABOUT
from kernelwright.training.models.code import CodeAuthor
from kernelwright.training.models.learner import Episode, Learner, Rates
from kernelwright.training.models.schedules import ScheduleAuthor, extend

OPTIMISER = "optimiser.pt"


class Desk:
    """One model and the episodes that it is in the middle of."""

    def __init__(self) -> None:
        self.author: ScheduleAuthor | CodeAuthor | None = None
        self.learner: Learner | None = None
        self.episodes: list[Episode] = []
        self.generator: torch.Generator | None = None
        self.temperature = 1.0

    def open(
        self, emit: Emit, folder: str, words: tuple[str, ...], seed: int, rates: dict[str, Any], device: str
    ) -> dict[str, Any]:
        """Loads a model; without a folder, makes a fresh author of schedules from `words`."""
        del emit
        path = Path(folder)
        if not folder:
            self.author = ScheduleAuthor(words, seed=seed)
        elif (path / ABOUT).is_file():
            self.author = ScheduleAuthor.load(path)
        else:
            self.author = CodeAuthor(path, device=device)
        if isinstance(self.author, ScheduleAuthor):
            torch.set_num_threads(1)  # its products are so small that a second thread mostly waits
        self.learner = Learner(self.author, Rates(**rates))
        count = sum(p.numel() for p in self.author.module.parameters())
        known = self.author.words if isinstance(self.author, ScheduleAuthor) else ()
        return {"kind": "schedules" if known else "code", "parameters": count, "words": known}

    # ----------------------------------------------------------------------- schedules

    def begin(self, emit: Emit, prompts: tuple[tuple[str, ...], ...], seed: int | None, temperature: float) -> None:
        """Begins an episode for each prompt; without a seed, the likeliest words are taken."""
        del emit
        author = self._schedules()
        self.episodes = [Episode(ids=author.ids(prompt), allowed=[]) for prompt in prompts]
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.temperature = temperature

    def decide(self, emit: Emit, asked: tuple[Any, ...]) -> tuple[int, ...]:
        """Makes one decision in each named episode; `asked` holds (episode, forced word, words, may be chosen)."""
        del emit
        some = [self.episodes[row] for row, *_ in asked]
        offers = [(name, words, may) for _, name, words, may in asked]
        author = self._schedules()
        return tuple(author.decide(some, offers, temperature=self.temperature, generator=self.generator))

    def imitate(self, emit: Emit, answers: tuple[Any, ...], weights: tuple[float, ...]) -> dict[str, float]:
        """Learns given answers: (prompt, decisions), each decision (forced word, words, may be chosen, chosen)."""
        del emit
        author, episodes = self._schedules(), []
        for prompt, decisions in answers:
            episode = Episode(ids=author.ids(prompt), allowed=[])
            for name, words, may, chosen in decisions:
                ids = author.ids(words)
                episode.ids += author.ids((name,))
                extend(episode, ids[chosen], [i for i, ok in zip(ids, may, strict=True) if ok], 0.0)
            episodes.append(episode)
        return self._learner().imitate(episodes, weights)

    # ---------------------------------------------------------------------------- code

    def write(
        self, emit: Emit, prompts: tuple[Any, ...], count: int, most: int, temperature: float, seed: int
    ) -> tuple[tuple[tuple[str, int, int, bool], ...], ...]:
        """Answers each prompt, `count` times; returns (text, tokens of the prompt, of the answer, broke off)."""
        author = self._code()
        ids = [author.prompt(messages) for messages in prompts]
        groups = author.write(ids, count, most=most, temperature=temperature, seed=seed)
        emit({"written": len(groups)})
        self.episodes = [episode for group in groups for episode, _ in group]
        self.temperature = temperature
        return tuple(
            tuple((author.text(e.ids[len(prompt) :]), len(prompt), len(e.decisions), off) for e, off in group)
            for prompt, group in zip(ids, groups, strict=True)
        )

    def imitate_text(self, emit: Emit, answers: tuple[Any, ...], weights: tuple[float, ...]) -> dict[str, float]:
        """Learns given answers: (messages, text)."""
        del emit
        author, episodes = self._code(), []
        for messages, text in answers:
            prompt, answer = author.prompt(messages), author.answer(text)
            start = len(prompt)
            episodes.append(Episode(ids=[*prompt, *answer], decisions=list(range(start, start + len(answer)))))
        return self._learner().imitate(episodes, weights)

    # ---------------------------------------------------------------------------- both

    def reinforce(self, emit: Emit, advantages: tuple[float, ...]) -> dict[str, float]:
        """Learns from the episodes of the last sampling, one advantage for each."""
        del emit
        pairs = [(e, a) for e, a in zip(self.episodes, advantages, strict=True) if e.decisions]
        episodes = [episode for episode, _ in pairs]
        learner = self._learner()
        if isinstance(self.author, CodeAuthor) and any(a for _, a in pairs):
            self.author.recall(episodes, self.temperature, learner.rates.micro)
        return learner.reinforce(episodes, [a for _, a in pairs])

    def save(self, emit: Emit, folder: str) -> None:
        """Writes model and optimiser into a folder."""
        del emit
        if self.author is None:
            raise KernelwrightError("there is no model to save")
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        self.author.save(path / "model")
        self._learner().save(path / OPTIMISER)

    def resume(self, emit: Emit, folder: str) -> None:
        """Takes up an optimiser's state."""
        del emit
        self._learner().load(Path(folder) / OPTIMISER)

    def _schedules(self) -> ScheduleAuthor:
        if not isinstance(self.author, ScheduleAuthor):
            raise UserError("this model writes code; it does not choose schedules", "name another --model")
        return self.author

    def _code(self) -> CodeAuthor:
        if not isinstance(self.author, CodeAuthor):
            raise UserError("this model chooses schedules; it does not write code", "name another --model")
        return self.author

    def _learner(self) -> Learner:
        if self.learner is None:
            raise KernelwrightError("no model is open")
        return self.learner


VERBS = ("open", "begin", "decide", "imitate", "write", "imitate_text", "reinforce", "save", "resume")


if __name__ == "__main__":
    desk = Desk()
    serve({verb: getattr(desk, verb) for verb in VERBS})
