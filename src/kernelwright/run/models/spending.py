"""What authors may cost, and what they have cost: dollars, tokens, minutes, judgements.

A call is made only where the most it can cost is still there, so a limit is never passed by more than a provider's
own miscount. What a result folder has spent before counts: its limit is a limit of the folder, not of one command.
Not here: prices (llm/prices.py), and what is done when nothing is left (writing.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from kernelwright.exchanges import Reply
from kernelwright.types import value

LEAST_OUTPUT_TOKENS = 2000
"""A call that could answer with less is not worth its prompt."""


@value
class Budget:
    """Limits; None means none."""

    usd: float | None = None
    tokens: int | None = None
    """Of prompts and replies together."""
    seconds: float | None = None
    """Of searching, in this command."""
    judgements: int | None = None
    """New ones, in this command."""


@value
class Spending:
    """What was spent, for reports."""

    calls: int = 0
    """That were paid for: stored replies of this folder."""
    reused: int = 0
    """Replies that the store had already; unpaid."""
    usd: float = 0.0
    tokens: int = 0
    lost_usd: float = 0.0
    """What calls may have cost that were in flight when a process died; part of `usd`."""
    models: tuple[tuple[str, int, float], ...] = ()
    """(model, calls, dollars)."""
    faults: int = 0
    """Calls that failed on the way."""


class Ledger:
    """Counts, and says no in time.

    Args:
        budget: the limits.
        before: replies that the folder has paid for.
        lost_usd: for calls that were in flight when a process died.
    """

    def __init__(self, budget: Budget, *, before: Iterable[Reply] = (), lost_usd: float = 0.0) -> None:
        self.budget = budget
        self.reused = 0
        self._lock = threading.Lock()
        self._lost_usd = lost_usd
        self._usd = lost_usd
        self._tokens = self._calls = self._faults = 0
        self._reserved_usd = 0.0
        self._reserved_tokens = 0
        self._models: dict[str, tuple[int, float]] = {}
        self._start_s = time.monotonic()
        for reply in before:
            self._count(reply)

    def reserve(self, *, prompt_tokens: int, output_tokens: int, usd: float) -> str:
        """Sets aside what a call can cost at most; returns why it must not be made, empty where it may."""
        with self._lock:
            left_usd, left_tokens = self._left()
            if left_usd is not None and usd > left_usd:
                spent = f"${self._usd:.2f} spent, a call may cost ${usd:.2f}"
                return f"the budget of ${self.budget.usd:.2f} is used up ({spent})"
            if left_tokens is not None and prompt_tokens + output_tokens > left_tokens:
                needed = f"{self._tokens:,} spent, a call may need {prompt_tokens + output_tokens:,}"
                return f"the budget of {self.budget.tokens:,} tokens is used up ({needed})"
            self._reserved_usd += usd
            self._reserved_tokens += prompt_tokens + output_tokens
            return ""

    def affordable(self, *, prompt_tokens: int, wanted: int, usd_per_output_token: float, prompt_usd: float) -> int:
        """Returns how many output tokens a call may be allowed, 0 where it is not worth making."""
        least = min(LEAST_OUTPUT_TOKENS, wanted)
        with self._lock:
            left_usd, left_tokens = self._left()
        if left_tokens is not None:
            wanted = min(wanted, left_tokens - prompt_tokens)
        if left_usd is not None and usd_per_output_token > 0:
            wanted = min(wanted, int((left_usd - prompt_usd) / usd_per_output_token))
        return wanted if wanted >= least else 0

    def settle(self, reply: Reply, *, prompt_tokens: int, output_tokens: int, usd: float) -> None:
        """Gives back what was set aside and counts what a call really cost."""
        with self._lock:
            self._reserved_usd -= usd
            self._reserved_tokens -= prompt_tokens + output_tokens
            self._count(reply)

    def overdue(self, judged: int, preparing_s: float) -> str:
        """Returns why no further call may begin although there is money, empty where one may."""
        budget = self.budget
        if budget.judgements is not None and judged >= budget.judgements:
            return f"the budget of {budget.judgements} judgements is used up"
        if budget.seconds is not None and time.monotonic() - self._start_s - preparing_s >= budget.seconds:
            return f"the budget of {budget.seconds:.0f} s is used up"
        return ""

    @property
    def spending(self) -> Spending:
        """Everything up to now."""
        with self._lock:
            models = tuple((name, calls, usd) for name, (calls, usd) in sorted(self._models.items()))
            return Spending(
                calls=self._calls, reused=self.reused, usd=self._usd, tokens=self._tokens, lost_usd=self._lost_usd,
                models=models, faults=self._faults,
            )  # fmt: skip

    def _left(self) -> tuple[float | None, int | None]:
        usd, tokens = self.budget.usd, self.budget.tokens
        return (
            None if usd is None else usd - self._usd - self._reserved_usd,
            None if tokens is None else tokens - self._tokens - self._reserved_tokens,
        )

    def _count(self, reply: Reply) -> None:
        self._calls += 1
        self._usd += reply.cost_usd
        self._tokens += reply.input_tokens + reply.output_tokens
        self._faults += len(reply.faults)
        calls, usd = self._models.get(reply.model, (0, 0.0))
        self._models[reply.model] = (calls + 1, usd + reply.cost_usd)


def spending_text(spending: Spending, *, verified: int) -> str:
    """Returns one line: calls, tokens, dollars, and what one verified kernel cost."""
    text = f"{spending.calls} model calls, {spending.tokens:,} tokens, ${spending.usd:.2f}"
    if spending.lost_usd:
        text += f" (up to ${spending.lost_usd:.2f} of it for calls that were cut off)"
    if verified:
        text += f"; ${spending.usd / verified:.3f} and {spending.tokens // verified:,} tokens for each verified kernel"
    return text + (f"; {spending.reused} replies from the store" if spending.reused else "")
