"""Which model to ask for which kind of prompt: a bandit that counts what answers cost.

UCB1 (Auer, Cesa-Bianchi and Fischer, 2002) over rewards between 0 and 1, divided by the arm's cost relative to the
mean to a power below 1: an arm that costs four times as much has to be worth twice as much. ShinkaEvolve's bandit over
models is the nearest relative; here an arm is a model with a prompt kind.
Not here: what a reward is (evolution.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernelwright.exchanges import Kind

EXPLORATION = 0.35
THRIFT = 0.5
Arm = tuple[str, Kind]


class Bandit:
    """Chooses among arms and learns from what they gave."""

    def __init__(self, arms: Iterable[Arm]) -> None:
        self._pulls: dict[Arm, int] = dict.fromkeys(arms, 0)
        self._ended: dict[Arm, int] = dict.fromkeys(self._pulls, 0)
        self._rewards: dict[Arm, float] = dict.fromkeys(self._pulls, 0.0)
        self._costs: dict[Arm, float] = dict.fromkeys(self._pulls, 0.0)

    def choose(self, allowed: Iterable[Kind]) -> Arm:
        """Returns the arm to pull among those of the allowed kinds; it counts as pulled at once.

        Several can be under way together: an arm that waits for its reward counts as having got its mean.
        """
        kinds = set(allowed)
        arms = [arm for arm in self._pulls if arm[1] in kinds]
        best = max(arms, key=lambda arm: (self._score(arm), -arms.index(arm)))
        self._pulls[best] += 1
        return best

    def reward(self, arm: Arm, reward: float, cost: float) -> None:
        """Takes in what an arm gave: a reward between 0 and 1, and what it cost in any one unit."""
        if arm not in self._pulls:
            return
        self._ended[arm] += 1
        self._rewards[arm] += min(1.0, max(0.0, reward))
        self._costs[arm] += max(0.0, cost)

    def mean(self, arm: Arm) -> float:
        """Returns an arm's mean reward, 0 before its first."""
        return self._rewards[arm] / self._ended[arm] if self._ended[arm] else 0.0

    def _score(self, arm: Arm) -> float:
        if not self._pulls[arm]:
            return math.inf
        total = sum(self._pulls.values())
        worth = self.mean(arm) + EXPLORATION * math.sqrt(math.log(total + 1) / self._pulls[arm])
        return float(worth / self._dearness(arm) ** THRIFT)

    def _dearness(self, arm: Arm) -> float:
        """Returns an arm's cost relative to the mean of all, 1 while it is not known."""
        spent, ended = sum(self._costs.values()), sum(self._ended.values())
        if not self._ended[arm] or spent <= 0.0:
            return 1.0
        return max(0.05, (self._costs[arm] / self._ended[arm]) / (spent / ended))
