"""The judge: candidates in, records out. The parent's side; no framework is imported here.

`judge(problem, candidate, target, policy) -> Record` is the function in the middle; `Judge` is the
same for many candidates of one problem, with what they share made once. Not here: what the checks
are (examine.py, correctness.py, integrity.py) and how time is taken (timing.py).
"""

from __future__ import annotations

import contextlib
import datetime
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kernelwright import environment
from kernelwright.errors import SourceError, WorkerDied
from kernelwright.judge import conditions
from kernelwright.judge.policies import MEASURE, POLICIES, REPORT, SCREEN
from kernelwright.languages import Builder, build_program
from kernelwright.process import DeadlineExceeded, Worker
from kernelwright.types import (
    Artifact,
    Candidate,
    Failure,
    Judgement,
    Measurement,
    Policy,
    Problem,
    Record,
    Target,
    digest,
)

__all__ = ["MEASURE", "POLICIES", "REPORT", "SCREEN", "Judge", "judge"]

WORKER = "kernelwright.judge.worker"
RUNNER_FLAGS = ("-fopenmp", "-fPIE", "-pie", "-Wl,-z,relro,-z,now", "-ldl", "-lm")
OPEN_DEADLINE_S = 600.0
PREPARE_DEADLINE_S = 1800.0
"""Four torch.compile modes may have to be compiled the first time."""
MARGIN_S = 60.0
"""What the worker may add to a candidate's own deadline, which it keeps itself, before it is killed."""
ATTEMPTS = 2


class Judge:
    """A session: one problem on one target, any number of candidates.

    Args:
        problem: what must be computed.
        target: where; its threads are what candidate and baselines use.
        on_event: called with progress events (dictionaries of plain data).

    Raises:
        MissingTool: when there is no C++ compiler.
        UserError: at first use, when the reference cannot be judged against or memory does not suffice.
    """

    def __init__(self, problem: Problem, target: Target, *, on_event: Callable[[Any], None] | None = None) -> None:
        self.problem, self.target = problem, target
        self._on_event = on_event
        self._program: Path = build_program(Path(__file__).with_name("runner.cpp"), flags=RUNNER_FLAGS)
        self._builder = Builder(target)
        self._worker: Worker | None = None
        self._is_open = False
        self._prepared: set[str] = set()

    def turn_to(self, problem: Problem) -> None:
        """Makes this the session of another problem. Its processes stay: starting them anew takes seconds."""
        if problem != self.problem:
            self.problem, self._is_open = problem, False
            self._prepared.clear()

    def judge(self, candidates: Sequence[Candidate], policy: Policy) -> Iterator[Record]:
        """Yields one record for each candidate, in order. All are built before the first is run.

        What candidates share and `prepare` did not make is made when the first candidate comes so far, so that
        one that does not compile, or is wrong on the first draw, is told at once.
        """
        started = time.monotonic()
        built = self._builder.build(self.problem, candidates)
        build_s = (time.monotonic() - started) / max(1, len(candidates))
        for candidate, artifact in zip(candidates, built, strict=True):
            begun = time.monotonic()
            outcome = artifact if isinstance(artifact, Failure) else self._examine(candidate, artifact, policy)
            yield Record(
                problem=digest(self.problem),
                candidate=digest(candidate),
                target=digest(self.target),
                policy=digest(policy),
                outcome=outcome,
                when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
                host=platform.node(),
                duration_s=build_s + time.monotonic() - begun,
            )

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        """Returns the baselines' times, without a candidate."""
        worker = self._ready(policy)
        found: tuple[Measurement, ...] = worker.request(
            "baselines", policy=policy, deadline_s=policy.deadline_s + MARGIN_S, on_event=self._on_event
        )
        return found

    def prepare(self, policy: Policy) -> None:
        """Makes everything ready that no candidate changes: worker, draws, truth, baselines."""
        self._ready(policy)

    def _examine(self, candidate: Candidate, artifact: Artifact, policy: Policy) -> Failure | Judgement:
        for _ in range(ATTEMPTS):
            worker = self._opened()
            preparing_s = 0.0 if digest(policy) in self._prepared else PREPARE_DEADLINE_S
            try:
                outcome: Failure | Judgement = worker.request(
                    "judge",
                    candidate=candidate,
                    artifact=artifact,
                    policy=policy,
                    deadline_s=policy.deadline_s + MARGIN_S + preparing_s,
                    on_event=self._on_event,
                )
                if isinstance(outcome, Judgement) and outcome.verdict.passed:
                    self._prepared.add(digest(policy))
                return outcome
            except DeadlineExceeded as error:
                self._drop_worker()
                return Failure(stage="judge", kind="timeout", message=error.message)
            except WorkerDied as error:
                # Perhaps of something else: one more attempt, in a new worker.
                self._drop_worker()
                failure = Failure(stage="judge", kind="crash", message=error.message)
        return failure

    def _opened(self) -> Worker:
        if self._worker is None or not self._worker.alive:
            self._drop_worker()
            self._worker = Worker(WORKER, environment=self._environment())
        if not self._is_open:
            arguments = {"problem": self.problem, "target": self.target, "program": str(self._program)}
            self._make_ready(self._worker, "open", OPEN_DEADLINE_S, arguments)
            self._is_open = True
        return self._worker

    def _ready(self, policy: Policy) -> Worker:
        worker = self._opened()
        if digest(policy) not in self._prepared:
            self._make_ready(worker, "prepare", PREPARE_DEADLINE_S, {"policy": policy})
            self._prepared.add(digest(policy))
        return worker

    def _make_ready(self, worker: Worker, verb: str, deadline_s: float, arguments: dict[str, Any]) -> None:
        try:
            worker.request(verb, deadline_s=deadline_s, on_event=self._on_event, **arguments)
        except WorkerDied as error:
            # Only the reference runs here: no candidate is to blame.
            message = f"judging {self.problem.name} could not be prepared: {error.message}"
            raise SourceError(message, "run this again; smaller shapes need less memory and time") from None

    def _environment(self) -> dict[str, str]:
        return {
            **conditions.environment(self.target.threads),
            "TORCHINDUCTOR_CACHE_DIR": str(environment.home() / "inductor"),
            # Idle compile processes would disturb; there are few kernels to compile here.
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker, self._is_open = None, False
        self._prepared.clear()

    def close(self) -> None:
        """Ends the worker and the builder."""
        self._drop_worker()
        self._builder.close()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.close()


def judge(problem: Problem, candidate: Candidate, target: Target, policy: Policy) -> Record:
    """Returns the record of one candidate under one policy."""
    with Judge(problem, target) as session:
        return next(session.judge((candidate,), policy))
