"""Ideas apart from attempts: a tree of intents whose branches live and die by evidence.

After K-Search: a failed implementation does not kill a good idea. What does not compile or is wrong counts against the
attempt; what ran and brought nothing counts against the idea.
Not here: who had the idea and who implements it (evolution.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

IDLE_RUNS = 2
"""Attempts that ran, were right and brought nothing, after which an idea is dead."""
BROKEN_RUNS = 4
"""Attempts that never ran, after which an idea is put aside: it may be good, but nobody here can write it."""
GAIN = 1.03
"""A speed that is greater by this factor is evidence for an idea."""
MOST_OPEN = 24


@dataclass
class Intent:
    """One idea and what came of it."""

    text: str
    parent: Intent | None
    attempts: int = 0
    idle: int = 0
    broken: int = 0
    gain: float = 1.0
    """The greatest factor that an attempt was faster by than what it began from."""

    @property
    def state(self) -> str:
        """`new`, `worked`, `open`, `dead` or `put aside`, with the evidence."""
        if self.gain >= GAIN:
            return f"worked, {self.gain:.2f} times as fast"
        if self.idle >= IDLE_RUNS:
            return f"dead: {self.idle} kernels ran and were no faster"
        if self.broken >= BROKEN_RUNS:
            return f"put aside: {self.broken} attempts never ran"
        if not self.attempts:
            return "new"
        return f"open: {self.idle} ran without gain, {self.broken} failed"

    @property
    def alive(self) -> bool:
        """True while it is worth an attempt."""
        return self.idle < IDLE_RUNS and self.broken < BROKEN_RUNS

    @property
    def depth(self) -> int:
        """0 for an idea that follows from none."""
        return 0 if self.parent is None else 1 + self.parent.depth


class Plan:
    """All intents of a run."""

    def __init__(self) -> None:
        self._intents: dict[str, Intent] = {}

    def add(self, text: str, *, parent: str = "") -> None:
        """Takes in an idea; one that is known by other spacing and case is not taken twice."""
        key = _key(text)
        if key and key not in self._intents and sum(i.alive for i in self._intents.values()) < MOST_OPEN:
            self._intents[key] = Intent(text=text, parent=self._intents.get(_key(parent)))

    def choose(self) -> str:
        """Returns the idea that deserves the next attempt, empty where there is none.

        Evidence first, then the untried: an idea's own gain and its parent's count, attempts count against it.
        """
        alive = [i for i in self._intents.values() if i.alive]
        total = 1 + sum(i.attempts for i in alive)

        def score(intent: Intent) -> float:
            before = intent.parent.gain if intent.parent else 1.0
            hope = math.log(intent.gain) + 0.5 * math.log(before)
            return hope + 0.3 * math.sqrt(math.log(total + 1) / (1 + intent.attempts))

        return max(alive, key=score).text if alive else ""

    def tell(self, text: str, *, ran: bool, gain: float = 1.0) -> None:
        """Takes in what an attempt at an idea showed.

        Args:
            text: the idea.
            ran: whether a kernel came of it that passed.
            gain: how many times as fast as what it began from.
        """
        intent = self._intents.get(_key(text))
        if intent is None:
            return
        intent.attempts += 1
        if not ran:
            intent.broken += 1
        elif gain < GAIN:
            intent.idle += 1
        else:
            intent.gain = max(intent.gain, gain)
            intent.idle = intent.broken = 0

    def tried(self, count: int) -> tuple[tuple[str, str], ...]:
        """Returns the ideas with evidence, what worked first, at most so many."""
        attempted = [i for i in self._intents.values() if i.attempts]
        attempted.sort(key=lambda i: -i.gain)
        return tuple((i.text, i.state) for i in attempted[:count])

    @property
    def hungry(self) -> bool:
        """True when no idea is left that is worth an attempt."""
        return not any(i.alive for i in self._intents.values())


def _key(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".")
