"""The author of schedules: a small transformer over words, sampled and trained under a grammar's masks.

Not here: the grammar itself (training/grammar.py), which the parent walks along, one decision of all rows at a time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from kernelwright.errors import UserError
from kernelwright.training.authors import ABOUT
from kernelwright.training.models.learner import Episode, masked_log_softmax
from kernelwright.training.models.transformer import Transformer
from kernelwright.training.vocabulary import PAD, UNKNOWN

WEIGHTS = "weights.pt"
KIND = "schedules"


class ScheduleAuthor:
    """Chooses words.

    Args:
        words: the vocabulary, in the order of their ids.
        seed: of the first weights.
        shape: of the transformer, where it is not the usual one.
    """

    def __init__(self, words: Sequence[str], *, seed: int = 0, shape: dict[str, int] | None = None) -> None:
        self.words = tuple(words)
        self._ids = {word: place for place, word in enumerate(self.words)}
        self.pad = self._ids[PAD]
        self.device = torch.device("cpu")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.module = Transformer(len(self.words), **(shape or {}))

    def ids(self, words: Sequence[str]) -> list[int]:
        """Returns the ids of words; those that are not known become one."""
        unknown = self._ids[UNKNOWN]
        return [self._ids.get(word, unknown) for word in words]

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns float32 [batch, time, words]."""
        longest = self.module.shape["longest"]
        if ids.shape[1] > longest:
            raise UserError(
                f"a schedule's prompt has {ids.shape[1]} words; {longest} is the most", "show fewer kernels"
            )
        return torch.as_tensor(self.module(ids))

    @torch.no_grad()
    def decide(
        self, episodes: Sequence[Episode], asked: Sequence[tuple[str, Sequence[str], Sequence[bool]]], *,
        temperature: float, generator: torch.Generator | None,
    ) -> list[int]:  # fmt: skip
        """Makes the next decision of each episode, and returns which of the offered words it was.

        Args:
            episodes: grow by the forced word and the chosen one.
            asked: for each the forced word, the words offered, and which of those may be chosen.
            temperature: of sampling.
            generator: of the draws; None takes the likeliest.
        """
        offered = []
        for episode, (name, words, may) in zip(episodes, asked, strict=True):
            episode.ids += self.ids((name,))
            offered.append([i for i, ok in zip(self.ids(words), may, strict=True) if ok])
        longest = max(len(episode.ids) for episode in episodes)
        ids = torch.full((len(episodes), longest), self.pad)
        for row, episode in enumerate(episodes):
            ids[row, : len(episode.ids)] = torch.tensor(episode.ids)
        last = torch.tensor([len(episode.ids) - 1 for episode in episodes])
        logits = self.logits(ids)[torch.arange(len(episodes)), last]
        logs = masked_log_softmax(logits / temperature, offered)
        chosen = logs.argmax(-1) if generator is None else torch.multinomial(logs.exp(), 1, generator=generator)[:, 0]
        picked = []
        for row, (episode, (_, words, _)) in enumerate(zip(episodes, asked, strict=True)):
            word = int(chosen[row])
            extend(episode, word, offered[row], float(logs[row, word]))
            picked.append(self.ids(words).index(word))
        return picked

    def save(self, folder: Path) -> None:
        """Writes the author into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        about = {"kind": KIND, "words": self.words, "shape": self.module.shape}
        (folder / ABOUT).write_text(json.dumps(about), encoding="utf-8")
        torch.save(self.module.state_dict(), folder / WEIGHTS)

    @classmethod
    def load(cls, folder: Path) -> ScheduleAuthor:
        """Reads an author from a folder."""
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        author = cls(about["words"], shape=about["shape"])
        author.module.load_state_dict(torch.load(folder / WEIGHTS, weights_only=True))
        return author


def extend(episode: Episode, word: int, offered: list[int], log: float) -> None:
    """Adds a decision to an episode."""
    episode.decisions.append(len(episode.ids))
    episode.ids.append(word)
    episode.logs.append(log)
    assert episode.allowed is not None
    episode.allowed.append(offered)
