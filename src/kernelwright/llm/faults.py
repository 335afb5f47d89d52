"""Why a call of a model did not give a reply, by what can be done about it.

Not here: doing it (pool.py).
"""

from __future__ import annotations

from kernelwright.errors import KernelwrightError, UserError
from kernelwright.llm.secrets import scrubbed

PASSING = frozenset(("rate limit", "overloaded", "server", "stalled", "dropped", "malformed", "unreachable"))
"""Kinds that may be gone when the same is asked again."""


class Fault(KernelwrightError):
    """One call failed.

    Args:
        kind: `rate limit`, `overloaded`, `server`, `stalled`, `dropped`, `malformed`, `unreachable`: may pass;
            `key`, `unknown model`, `no credit`, `request`: will not.
        message: what the provider said, already without keys.
        retry_after_s: how long it asked to be left alone, None where it did not say.
        received: characters of a reply that had come when it broke off: they are paid for all the same.
        answered: True where the provider had begun to answer, so that the prompt is paid for.
    """

    def __init__(
        self, kind: str, message: str, *, retry_after_s: float | None = None, received: int = 0, answered: bool = False
    ) -> None:
        text = scrubbed(" ".join(message.split()))[:500]
        super().__init__(f"{kind}: {text}" if text else kind)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.received = received
        self.answered = answered
        self.spent_usd = 0.0
        """What the request cost although nothing came of it."""

    @property
    def passing(self) -> bool:
        """True where asking the same again may help."""
        return self.kind in PASSING


class OutOfReach(KernelwrightError):
    """No model could be had for as long as the user wants to wait; what was stored is safe."""

    spent_usd = 0.0


class NoKey(UserError):
    """A provider's key is not in the environment."""


def fault_of_status(status: int, text: str, retry_after_s: float | None) -> Fault:
    """Returns the fault behind an HTTP status and the body that came with it."""
    low = text.lower()
    if status == 429 and any(words in low for words in ("insufficient_quota", "credit balance", "billing")):
        return Fault("no credit", text)
    if status == 400 and "credit balance" in low:
        return Fault("no credit", text)
    if status == 429:
        return Fault("rate limit", text, retry_after_s=retry_after_s)
    if status in (503, 529):
        return Fault("overloaded", f"HTTP {status}: {text}", retry_after_s=retry_after_s)
    if status >= 500 or status in (408, 409):
        return Fault("server", f"HTTP {status}: {text}", retry_after_s=retry_after_s)
    if status in (401, 403) or (status == 400 and "api key" in low):
        return Fault("key", f"HTTP {status}: {text}")
    if status == 404:
        return Fault("unknown model", f"HTTP 404: {text}")
    if status == 402:
        return Fault("no credit", f"HTTP 402: {text}")
    return Fault("request", f"HTTP {status}: {text}")
