"""What both kinds of author learn by: masked log-probabilities, imitation, and a clipped policy gradient.

Sampling and loss use the same masked, renormalised distribution, so that no gradient is spent on moving probability to
words that the grammar allows, and a ratio of new to old is one of like to like. TRL and verl have no place for such
masks; that is why this is ours.
Methods: PPO's clip with a higher upper bound (DAPO, 2025) over group-relative advantages (GRPO, DeepSeekMath 2024), the
loss averaged over all decisions of a batch (DAPO), an entropy bonus against the collapse that small models show within
ten steps; no critic and no KL term (Kevin-32B, 2025, found it to slow learning down and stop nothing).
Not here: rewards and advantages (training/reward.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from kernelwright.types import value


@value
class Rates:
    """How a step of learning is made."""

    learning: float = 3e-3
    entropy: float = 0.02
    clip_low: float = 0.2
    clip_high: float = 0.28
    passes: int = 1
    """Updates from one batch of samples."""
    most_gradient: float = 1.0
    """Norm that a gradient is cut to."""
    temperature: float = 1.0
    micro: int = 64
    """Episodes that go through the model together."""


@dataclass
class Episode:
    """One answer: its words, which of them were decisions, and what could have been chosen."""

    ids: list[int]
    decisions: list[int] = field(default_factory=list)
    """Places in `ids` of the words that the model chose."""
    allowed: list[list[int]] | None = None
    """The words that each decision could take; None where all can."""
    logs: list[float] = field(default_factory=list)
    """Log-probability of each decision when it was made."""


class Scorer(Protocol):
    """What learning needs of an author."""

    pad: int
    device: torch.device

    @property
    def module(self) -> torch.nn.Module:
        """What is trained."""

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns float32 [batch, time, words]."""


def masked_log_softmax(logits: torch.Tensor, allowed: Sequence[Sequence[int]] | None) -> torch.Tensor:
    """Returns log-probabilities over the allowed words only; minus infinity for all others.

    Args:
        logits: float32 [rows, words].
        allowed: for each row the words that may be said; None allows all.
    """
    if allowed is None:
        return torch.log_softmax(logits, dim=-1)
    mask = torch.full(logits.shape, float("-inf"))
    for row, words in enumerate(allowed):
        mask[row, list(words)] = 0.0
    return torch.log_softmax(logits + mask.to(logits.device), dim=-1)


def scored(author: Scorer, episodes: Sequence[Episode], temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns (log-probability, entropy) of every decision of every episode, in order, as two vectors."""
    longest = max(len(episode.ids) for episode in episodes)
    ids = torch.full((len(episodes), longest), author.pad)
    for row, episode in enumerate(episodes):
        ids[row, : len(episode.ids)] = torch.tensor(episode.ids)
    logits = author.logits(ids.to(author.device))
    rows = [row for row, episode in enumerate(episodes) for _ in episode.decisions]
    places = [place - 1 for episode in episodes for place in episode.decisions]
    allowed = [words for e in episodes for words in (e.allowed or [])] if episodes[0].allowed is not None else None
    logs = masked_log_softmax(logits[rows, places].float() / temperature, allowed)
    chosen = torch.tensor([e.ids[place] for e in episodes for place in e.decisions], device=logs.device)
    entropy = -(logs.exp() * logs.masked_fill(torch.isinf(logs), 0.0)).sum(dim=-1)
    return logs.gather(1, chosen[:, None])[:, 0], entropy


class Learner:
    """An author with an optimiser.

    Args:
        author: whose weights change.
        rates: how.
    """

    def __init__(self, author: Scorer, rates: Rates) -> None:
        self.author, self.rates = author, rates
        self.optimiser = torch.optim.AdamW(
            author.module.parameters(), lr=rates.learning, betas=(0.9, 0.95), weight_decay=0.0
        )

    def imitate(self, episodes: Sequence[Episode], weights: Sequence[float]) -> dict[str, float]:
        """Makes the decisions of the episodes more likely, each by its weight; returns loss and entropy."""
        per_decision = [w for e, w in zip(episodes, weights, strict=True) for _ in e.decisions]
        total = max(1e-9, sum(per_decision))

        def loss(logs: torch.Tensor, entropy: torch.Tensor, start: int) -> torch.Tensor:
            del entropy
            return -(logs * torch.tensor(per_decision[start : start + len(logs)], device=logs.device)).sum() / total

        return self._step(episodes, loss)

    def reinforce(self, episodes: Sequence[Episode], advantages: Sequence[float]) -> dict[str, float]:
        """Makes what did better than its group more likely.

        Returns loss, entropy and gradient norm of the last pass.
        """
        rates, found = self.rates, {}
        spread = [a for e, a in zip(episodes, advantages, strict=True) for _ in e.decisions]
        before = [log for episode in episodes for log in episode.logs]
        if not spread or not any(spread):
            return {"loss": 0.0, "gradient": 0.0}

        def loss(logs: torch.Tensor, entropy: torch.Tensor, start: int) -> torch.Tensor:
            slot = slice(start, start + len(logs))
            gain = torch.tensor(spread[slot], device=logs.device)
            ratio = (logs - torch.tensor(before[slot], device=logs.device)).exp()
            cut = ratio.clamp(1.0 - rates.clip_low, 1.0 + rates.clip_high)
            return -(torch.minimum(ratio * gain, cut * gain) + rates.entropy * entropy).sum() / len(spread)

        for _ in range(rates.passes):
            found = self._step(episodes, loss)
        return found

    def _step(self, episodes: Sequence[Episode], loss: Any) -> dict[str, float]:
        self.optimiser.zero_grad(set_to_none=True)
        total = entropy_sum = 0.0
        start = 0
        for first in range(0, len(episodes), self.rates.micro):
            some = episodes[first : first + self.rates.micro]
            logs, entropy = scored(self.author, some, self.rates.temperature)
            part = loss(logs, entropy, start)
            part.backward()
            start += len(logs)
            total += float(part.detach())
            entropy_sum += float(entropy.detach().sum())
        norm = torch.nn.utils.clip_grad_norm_(self.author.module.parameters(), self.rates.most_gradient)
        self.optimiser.step()
        return {"loss": total, "entropy": entropy_sum / max(1, start), "gradient": float(norm)}

    def save(self, path: Path) -> None:
        """Writes the optimiser's state."""
        torch.save({"optimiser": self.optimiser.state_dict(), "random": torch.get_rng_state()}, path)

    def load(self, path: Path) -> None:
        """Takes up a state that `save` wrote, with this learner's rates."""
        state = torch.load(path, weights_only=True, map_location=self.author.device)
        self.optimiser.load_state_dict(state["optimiser"])
        for group in self.optimiser.param_groups:
            group["lr"] = self.rates.learning
        torch.set_rng_state(state["random"].cpu())
