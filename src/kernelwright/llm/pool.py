"""Several models as one that is always there, as far as possible: waits, tries again, switches, pauses, gives up.

One layer tries again, here; nothing below it does. A refusal is no fault of the network: the next model is asked, and
where all refuse, the refusal is the reply.
Not here: money (run/spending.py) and storing (run/writing.py).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from kernelwright.exchanges import Reply, Request
from kernelwright.llm.dialects import OnText, estimated_tokens, texts
from kernelwright.llm.faults import Fault, OutOfReach
from kernelwright.llm.naming import Model
from kernelwright.llm.prices import FREE, Price
from kernelwright.values import replace

TRIES = 4
"""Calls of one model for one request before the others are asked."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 120.0
WAIT_HERE_S = 8.0
"""A longer wait is spent with another model where there is one."""
PATIENCE_S = 900.0
"""How long all models may be out of reach before the run ends; the same command goes on from there."""


class Pool:
    """The models of a run.

    Args:
        models: asked in this order where the one that a request names is not to be had.
        prices: by model's name; one that is missing costs nothing.
        patience_s: seconds without any model before `OutOfReach`.
        on_event: called with a line about each fault, from the thread that waits.
    """

    def __init__(
        self,
        models: tuple[Model, ...],
        *,
        prices: dict[str, Price] | None = None,
        patience_s: float = PATIENCE_S,
        on_event: Callable[[str], None] | None = None,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self.models = models
        self._prices = prices or {}
        self._patience_s = patience_s
        self._first_wait_s = first_wait_s
        self._on_event = on_event
        self._lock = threading.Lock()
        self._rests_until: dict[str, float] = {}
        self._lost: dict[str, str] = {}
        """Models that will not come back in this run, and why."""
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends all waiting: calls that wait give up."""
        self._stopped.set()

    def price(self, model: str) -> Price:
        """Returns what a model's tokens cost."""
        return self._prices.get(model, FREE)

    def complete(self, request: Request, *, on_text: OnText | None = None) -> Reply:
        """Returns a reply of the model that was asked for, or of another.

        Raises:
            OutOfReach: when no model could be had.
            Fault: when the request itself is at fault with every model.
        """
        call = _Call(request)
        try:
            return self._complete(call, on_text)
        except (Fault, OutOfReach) as error:
            error.spent_usd = call.spent_usd
            raise

    def _complete(self, call: _Call, on_text: OnText | None) -> Reply:
        request = call.request
        began = time.monotonic()
        while True:
            model = self._next(request.model, call)
            if model is None:
                if call.refusal is not None:
                    return self._finished(call, call.refusal)
                self._pause(call, began)
                continue
            try:
                reply = model.complete(replace(request, model=model.name), on_text=on_text)
            except Fault as fault:
                self._met(fault, model, call)
                continue
            call.attempts += 1
            if reply.finish == "refusal":
                call.refused.add(model.name)
                call.faults.append(f"{model.name}: refusal")
                call.spent_usd += self.price(model.name).of(reply.input_tokens, reply.output_tokens)
                call.refusal = reply
                continue
            call.spent_usd += self.price(model.name).of(reply.input_tokens, reply.output_tokens)
            return self._finished(call, reply)

    def _finished(self, call: _Call, reply: Reply) -> Reply:
        return replace(reply, cost_usd=call.spent_usd, attempts=max(1, call.attempts), faults=tuple(call.faults))

    def _next(self, asked: str, call: _Call) -> Model | None:
        """Returns the asked model, or the first other one that can be had now."""
        now = time.monotonic()
        with self._lock:
            there = [m for m in self.models if m.name not in self._lost and m.name not in call.refused]
            ready = [m for m in there if self._rests_until.get(m.name, 0.0) <= now]
        ready.sort(key=lambda m: (m.name != asked, call.tries.get(m.name, 0)))
        return ready[0] if ready else None

    def _met(self, fault: Fault, model: Model, call: _Call) -> None:
        """Decides what a fault means for the model: wait and try it again, let it rest, or do without it."""
        call.attempts += 1
        call.faults.append(f"{model.name}: {fault.message}")
        if fault.answered:
            prompt = sum(map(estimated_tokens, texts(call.request)))
            call.spent_usd += self.price(model.name).of(prompt, estimated_tokens("x" * fault.received))
        self._say(f"{model.name}: {fault.message}")
        if not fault.passing:
            if fault.kind == "request":
                call.refused.add(model.name)  # this request; another one may be well
                if all(m.name in call.refused or m.name in self._lost for m in self.models):
                    raise fault
                return
            with self._lock:
                self._lost[model.name] = fault.message
            return
        tries = call.tries[model.name] = call.tries.get(model.name, 0) + 1
        wait_s = fault.retry_after_s
        if wait_s is None:
            # Jitter, so that calls which failed together do not come back together.
            wait_s = min(LONGEST_WAIT_S, self._first_wait_s * 2 ** (tries - 1)) * random.uniform(0.75, 1.25)
        with self._lock:
            alone = len([m for m in self.models if m.name not in self._lost]) == 1
        if tries < TRIES and (wait_s <= WAIT_HERE_S or alone):
            self._sleep(min(wait_s, self._patience_s), call)
            return
        with self._lock:
            self._rests_until[model.name] = time.monotonic() + max(wait_s, self._first_wait_s * 2**TRIES)
        call.tries[model.name] = 0

    def _pause(self, call: _Call, began: float) -> None:
        """Waits for the first model that comes back."""
        with self._lock:
            lost = dict(self._lost)
            waits = [t for name, t in self._rests_until.items() if name not in lost]
        left = began + self._patience_s - time.monotonic()
        if not waits or left <= 0:
            last = call.faults[-1] if call.faults else "; ".join(f"{n}: {why}" for n, why in lost.items())
            raise OutOfReach(f"no model can be had ({last})", "the same command goes on from here")
        wait_s = max(0.0, min(min(waits) - time.monotonic(), left))
        self._say(f"all models are out of reach; paused for {wait_s:.0f} s")
        self._sleep(wait_s, call)

    def _sleep(self, seconds: float, call: _Call) -> None:
        if self._stopped.wait(seconds):
            raise OutOfReach(f"stopped while waiting ({call.faults[-1] if call.faults else 'no fault'})")

    def _say(self, text: str) -> None:
        if self._on_event:
            self._on_event(text)


class _Call:
    """What has happened to one request so far."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.attempts = 0
        self.spent_usd = 0.0
        self.faults: list[str] = []
        self.tries: dict[str, int] = {}
        self.refused: set[str] = set()
        self.refusal: Reply | None = None
