"""Requests answered, from the store where it has the reply, else by a model; several at once, each stored as it comes.

A request that the store knows is never sent again. A call is noted before it is made and kept when it has come, so that
a process that is killed loses at most the calls in flight.
Not here: what is asked (writing.py).
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence

from kernelwright.exchanges import Reply, Request
from kernelwright.llm import Fault, OutOfReach, Pool
from kernelwright.llm.dialects import estimated_tokens, texts
from kernelwright.llm.secrets import scrubbed
from kernelwright.run.models.spending import Ledger
from kernelwright.store import Run
from kernelwright.store.trajectories import Trajectories
from kernelwright.types import replace, value

Say = Callable[[str], None]


@value
class Called:
    """What came of one request: a reply, or why there is none."""

    reply: Reply | None = None
    stored: bool = False
    fault: str = ""
    stop: str = ""
    """Why nothing more can be asked in this run."""


class Calls:
    """Asks a pool of models within a budget.

    Args:
        pool: the models; None answers from the store alone.
        ledger: the budget.
        trajectories: where replies are.
        run: that new ones belong to.
        overdue: says why no further call may begin, empty where one may.
        parallel: calls at once.
        on_event: called with lines of progress.
    """

    def __init__(
        self, pool: Pool | None, ledger: Ledger, trajectories: Trajectories, run: Run, *,
        overdue: Callable[[], str] = lambda: "", parallel: int = 4, on_event: Say | None = None,
    ) -> None:  # fmt: skip
        self._pool = pool
        self._ledger = ledger
        self._trajectories = trajectories
        self._run = run
        self._overdue = overdue
        self._parallel = parallel
        self._on_event = on_event
        self._stop = ""

    @property
    def stopped(self) -> str:
        """Why nothing more was asked, empty while more may be."""
        return self._stop

    def answers(self, requests: Sequence[Request]) -> tuple[Called, ...]:
        """Returns what came of each request, in their order."""
        found: dict[int, Called] = {}
        open_: list[tuple[int, Request]] = []
        for place, request in enumerate(requests):
            known = self._trajectories.reply(request)
            if known is None:
                open_.append((place, request))
            else:
                self._ledger.reused += 1
                found[place] = Called(reply=known, stored=True)
        while open_:
            for place, called in self._ask(open_[: self._parallel]):
                found[place] = called
            # What could not be paid beside other calls comes again when it is known what those cost.
            open_ = [(place, request) for place, request in open_ if place not in found]
        return tuple(found[place] for place in range(len(requests)))

    def _ask(self, requests: list[tuple[int, Request]]) -> Iterator[tuple[int, Called]]:
        done: queue.Queue[tuple[int, Reply | Exception]] = queue.Queue()
        flying: dict[int, tuple[Request, int, int, float, int]] = {}
        threads = []
        for place, request in requests:
            begun = self._begin(request, alone=not flying)
            if begun is None:
                break
            if isinstance(begun, Called):
                yield place, begun
                continue
            limited, prompt_tokens, usd, sent = begun
            flying[place] = (request, prompt_tokens, limited.max_tokens, usd, sent)
            threads.append(threading.Thread(target=self._call, args=(place, limited, done), daemon=True))
        try:
            for thread in threads:
                thread.start()
            while flying:
                place, outcome = done.get()
                request, prompt_tokens, output_tokens, usd, sent = flying.pop(place)
                counted = outcome if isinstance(outcome, Reply) else _failed(request, outcome)
                self._ledger.settle(counted, prompt_tokens=prompt_tokens, output_tokens=output_tokens, usd=usd)
                yield place, self._ended(request, sent, outcome)
        except BaseException:
            if self._pool:
                self._pool.stop()
            # What has come meanwhile is paid for: keep it.
            with contextlib.suppress(queue.Empty):
                while flying:
                    place, outcome = done.get_nowait()
                    request, *_, sent = flying.pop(place)
                    self._ended(request, sent, outcome)
            raise

    def _begin(self, request: Request, *, alone: bool) -> Called | tuple[Request, int, float, int] | None:
        """Sets the cost of a call aside and notes it; or says why it is not made; None: not beside others."""
        if self._pool is None:
            return Called(stop="the store has no reply to this, and nothing may be asked")
        self._stop = self._stop or self._overdue()
        if self._stop:
            return Called(stop=self._stop)
        price = self._pool.price(request.model)
        prompt_tokens = sum(map(estimated_tokens, texts(request)))
        output_tokens = self._ledger.affordable(
            prompt_tokens=prompt_tokens, wanted=request.max_tokens, usd_per_output_token=price.of(0, 1),
            prompt_usd=price.of(prompt_tokens, 0),
        )  # fmt: skip
        usd = price.of(prompt_tokens, output_tokens or request.max_tokens)
        refused = self._ledger.reserve(
            prompt_tokens=prompt_tokens, output_tokens=output_tokens or request.max_tokens, usd=usd
        )
        if refused and not alone:
            return None
        if refused:
            self._stop = refused
            return Called(stop=refused)
        sent = self._trajectories.begin(self._run, request, usd)
        self._say(f"asking {request.model} ({request.kind}, about {prompt_tokens:,} tokens)")
        return replace(request, max_tokens=output_tokens), prompt_tokens, usd, sent

    def _call(self, place: int, request: Request, done: queue.Queue[tuple[int, Reply | Exception]]) -> None:
        assert self._pool is not None
        try:
            done.put((place, self._pool.complete(request)))
        except Exception as error:  # noqa: BLE001  (it is raised, or told, in the thread that waits)
            done.put((place, error))

    def _ended(self, request: Request, sent: int, outcome: Reply | Exception) -> Called:
        if isinstance(outcome, Reply):
            reply = self._trajectories.keep(self._run, sent, request, outcome)
            spent = self._ledger.spending
            self._say(
                f"{reply.model}: {reply.output_tokens:,} tokens in {reply.seconds:.0f} s; "
                f"so far ${spent.usd:.2f}, {spent.tokens:,} tokens, {spent.calls} calls"
            )
            return Called(reply=reply)
        self._trajectories.keep_failed(self._run, sent, _failed(request, outcome))
        if isinstance(outcome, OutOfReach):
            self._stop = f"paused: {outcome}"
            return Called(stop=self._stop)
        if isinstance(outcome, Fault):
            return Called(fault=str(outcome))
        raise outcome

    def _say(self, text: str) -> None:
        if self._on_event:
            self._on_event(text)


def _failed(request: Request, error: Exception) -> Reply:
    """Returns what is counted for a call without a reply."""
    spent_usd = error.spent_usd if isinstance(error, Fault | OutOfReach) else 0.0
    return Reply(
        text="", model=request.model, input_tokens=0, output_tokens=0, counted=False, cost_usd=spent_usd,
        faults=(scrubbed(str(error)),),
    )  # fmt: skip
