"""The judge: candidates in, records out. The parent's side; no framework is imported here.

`judge(problem, candidate, target, policy) -> Record` is the function in the middle; `Judge` is the
same for many candidates of one problem, with what they share made once. Not here: what the checks
are (examine.py, correctness.py, integrity.py) and how time is taken (timing.py).
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from kernelwright import environment
from kernelwright.errors import KernelwrightError, SourceError, WorkerDied
from kernelwright.judge import conditions, second_device
from kernelwright.judge.device.pool import DeviceWorkers
from kernelwright.judge.policies import MEASURE, POLICIES, REPORT, SCREEN, policies_for
from kernelwright.languages import Builder, build_program, emulated_target, is_emulated
from kernelwright.languages.checked import CHECKERS
from kernelwright.languages.hardware import find_compiler
from kernelwright.process import DeadlineExceeded, Worker, WorkerKilled
from kernelwright.types import (
    KILLED,
    Artifact,
    Candidate,
    Check,
    Failure,
    Judgement,
    Measurement,
    Policy,
    Problem,
    Record,
    Target,
    Verdict,
    digest,
    replace,
)

__all__ = ["MEASURE", "POLICIES", "REPORT", "SCREEN", "Judge", "judge", "policies_for"]

T = TypeVar("T")

WORKER = "kernelwright.judge.worker"
RUNNER_FLAGS = ("-fopenmp", "-fPIE", "-pie", "-Wl,-z,relro,-z,now", "-ldl", "-lm")
CHECKED_FLAGS = {
    checker: (f"-fsanitize={checker}", *teams, "-rdynamic", "-pthread", "-ldl", "-g")
    for checker, teams in (("address", ("-fopenmp",)), ("undefined", ("-fopenmp",)), ("thread", ("-DKW_TEAMS",)))
}
CHECKER_DEADLINE_S = 60.0
"""All calls of one checked build; checkers slow a kernel down by a factor of two to twenty."""
OPEN_DEADLINE_S = 600.0
PREPARE_DEADLINE_S = 1800.0
"""Four torch.compile modes may have to be compiled the first time."""
MARGIN_S, TURNS_MARGIN_S = 60.0, 900.0
"""What the worker may add to a candidate's own deadline, which it keeps itself, before it is killed; and where it waits
for its turn at a device."""
ATTEMPTS = 2


class Judge:
    """A session: one problem on one target, any number of candidates.

    Args:
        problem: what must be computed.
        target: where; its threads are what candidate and baselines use.
        on_event: called with progress events (dictionaries of plain data).
        variables: further environment variables of a device's workers.

    Raises:
        MissingTool: when there is no C++ compiler.
        UserError: at first use, when the reference cannot be judged against or memory does not suffice.
    """

    def __init__(
        self,
        problem: Problem,
        target: Target,
        *,
        on_event: Callable[[Any], None] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.problem, self.target = problem, target
        self._on_event = on_event
        self._device = DeviceWorkers(on_event=on_event, variables=variables) if target.kind == "cuda" else None
        self._in_turns = environment.TURNS in (variables or {}) or environment.turns() is not None
        self._program: Path | None = None
        if self._device is None:
            self._program = build_program(Path(__file__).with_name("runner.cpp"), flags=RUNNER_FLAGS)
        # Beside a device that judges, two processors are left to those that watch it.
        self._builder = Builder(target, workers=max(1, target.threads - 2) if self._device else None)
        self._second = second_device.SecondDevice(lambda one: Judge(one, emulated_target(), on_event=on_event))
        self._worker: Worker | None = None
        self._opened = False
        self._prepared: set[str] = set()
        self._known: Any = None
        """What one device worker found out about the problem, for the next."""

    @property
    def _margin_s(self) -> float:
        return TURNS_MARGIN_S if self._in_turns else MARGIN_S

    def turn_to(self, problem: Problem) -> None:
        """Makes this the session of another problem. Its processes stay: starting them anew takes seconds."""
        if problem != self.problem:
            self.problem, self._opened, self._known = problem, False, None
            self._prepared.clear()

    def judge(self, candidates: Sequence[Candidate], policy: Policy) -> Iterator[Record]:
        """Yields one record for each candidate, in order. On a CPU all are built before the first is run.

        A device judges while the next are built: no compiler runs where time is taken.

        What candidates share and `prepare` did not make is made when the first candidate comes so far, so that
        one that does not compile, or is wrong on the first draw, is told at once.
        """
        for candidate, artifact, build_s in self._built(candidates):
            begun = time.monotonic()
            outcome = artifact if isinstance(artifact, Failure) else self._examine(candidate, artifact, policy)
            if policy.memory_checkers and isinstance(outcome, Judgement) and outcome.verdict.passed:
                outcome = self._check_memory(candidate, outcome, policy)
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

    def _built(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Artifact | Failure, float]]:
        """Yields candidates with what they became, and the seconds that each was waited for."""
        started = time.monotonic()
        if self._device is None or len(candidates) < 2:
            built = self._builder.build(self.problem, candidates)
            build_s = (time.monotonic() - started) / max(1, len(candidates))
            yield from ((*both, build_s) for both in zip(candidates, built, strict=True))
            return
        waited_for = self._builder.begin(self.problem, candidates)
        for candidate in candidates:
            begun = time.monotonic()
            artifact = next(waited_for)
            yield candidate, artifact, time.monotonic() - begun

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        """Returns the baselines' times, without a candidate."""
        deadline_s = policy.deadline_s + self._margin_s
        ask: Callable[[], tuple[Measurement, ...]] = lambda: self._ready(policy).request(  # noqa: E731
            "baselines", policy=policy, deadline_s=deadline_s, on_event=self._on_event
        )
        return self._undisturbed(ask)

    def prepare(self, policy: Policy) -> None:
        """Makes everything ready that no candidate changes: worker, draws, truth, baselines."""
        self._ready(policy)

    def _examine(self, candidate: Candidate, artifact: Artifact, policy: Policy) -> Failure | Judgement:
        if candidate.language == "python" and (self.problem.axes or self.problem.gradients):
            message = "Python candidates are judged at fixed sizes and without gradients only; give a kernel file"
            return Failure(stage="judge", kind="unsupported", message=message)
        for _ in range(ATTEMPTS):
            # A device's worker and one that watches Python keep deadlines of their own: all is made ready for them.
            at_once = self._device is None and candidate.language != "python"
            worker = self._undisturbed(self._open) if at_once else self._ready(policy)
            # For Python a device's worker makes a session of its own, at the first one.
            ready = digest(policy) in self._prepared and (at_once or self._device is None or not candidate.witnessed)
            preparing_s = 0.0 if ready else PREPARE_DEADLINE_S
            try:
                outcome = worker.request(
                    "judge",
                    candidate=candidate,
                    artifact=artifact,
                    policy=policy,
                    deadline_s=policy.deadline_s + self._margin_s + preparing_s,
                    on_event=self._on_event,
                )
                judged = self._outcome(outcome)
                if isinstance(judged, Judgement) and judged.verdict.passed:
                    self._prepared.add(digest(policy))
                return judged
            except WorkerDied as error:
                # Perhaps of something else: one more attempt, in a new worker.
                self._drop_worker()
                failure = self._blame(error)
                if failure.kind == "timeout":
                    break
        return failure

    def _blame(self, error: WorkerDied) -> Failure:
        """Returns what a worker's end means: on a CPU no candidate runs in it, and nobody's kernel sends SIGKILL."""
        if self._device is None or isinstance(error, WorkerKilled):
            message = f"{error.message}; that is no fault of the candidate"
            return Failure(stage="judge", kind=KILLED, message=message)
        kind = "timeout" if isinstance(error, DeadlineExceeded) else "crash"
        return Failure(stage="judge", kind=kind, message=error.message)

    def _check_memory(self, candidate: Candidate, judged: Judgement, policy: Policy) -> Judgement:
        """Adds what the memory and race checkers say; a finding takes the times away.

        A device's worker has run its own checkers, all but the emulated device.
        """
        if self._device is not None:
            wanted = second_device.NAME in policy.memory_checkers
            said = self._second.check(self.problem, candidate) if wanted else ""
            return _with(judged, [said], []) if isinstance(said, Check) else _with(judged, [], [said] if said else [])
        names = policy.memory_checkers
        programs = {name: checked_program(name) for name in names}
        usable = [name for name in names if isinstance(programs[name], Path)]
        notes = [text for text in programs.values() if isinstance(text, str)]
        checks: list[Check] = []
        built = self._builder.build_checked(self.problem, candidate, usable)
        for name, artifact in zip(usable, built, strict=True):
            found = self._run_checker(candidate, name, artifact, str(programs[name]), policy)
            if isinstance(found, str):
                notes.append(found)
            else:
                checks.append(found)
        return _with(judged, checks, notes)

    def _run_checker(
        self, candidate: Candidate, checker: str, artifact: Artifact | Failure, program: str, policy: Policy
    ) -> Check | str:
        if self._on_event:
            self._on_event({"memory checker": checker})
        if isinstance(artifact, Failure):
            text = f"it does not build with the checker: {artifact.message}"
            return Check(name=checker, passed=False, evidence=text)
        try:
            found: Check | str = self._ready(policy).request(
                "check_memory", candidate=candidate, checker=checker, artifact=artifact, program=program,
                seconds=CHECKER_DEADLINE_S, deadline_s=CHECKER_DEADLINE_S + MARGIN_S,
            )  # fmt: skip
        except WorkerDied as error:
            self._drop_worker()
            return f"checker {checker}: {error.message}"
        return found

    def _outcome(self, answer: Any) -> Failure | Judgement:
        """Takes a device worker's word for whether it can go on: only the offender may suffer from what it broke."""
        if self._device is None:
            outcome: Failure | Judgement = answer
            return outcome
        outcome, usable = answer
        if not usable:
            broken, self._worker = self._worker, None
            self._drop_worker()
            self._worker = self._device.take(broken)
        return outcome

    def _start(self) -> Worker:
        if self._device is not None:
            return self._device.take()
        return Worker(WORKER, environment=self._environment())

    def _undisturbed(self, make: Callable[[], T]) -> T:
        """Does it once more, in a new worker, where somebody outside ended the first."""
        try:
            return make()
        except WorkerKilled:
            self._drop_worker()
        try:
            return make()
        except WorkerKilled as error:
            raise self._unprepared(error) from None

    def _open(self) -> Worker:
        if self._worker is None or not self._worker.alive:
            self._drop_worker()
            self._worker = self._start()
        if not self._opened:
            arguments: dict[str, Any] = {"problem": self.problem, "target": self.target}
            if self._program is not None:
                arguments["program"] = str(self._program)
            elif self._known is not None:
                arguments["known"] = self._known
            try:
                answer = self._make_ready(self._worker, "open", OPEN_DEADLINE_S + self._margin_s, arguments)
            except KernelwrightError:
                # Nothing is ready in it, and its device may not be usable any more.
                self._drop_worker()
                raise
            self._opened, self._known = True, answer if self._device is not None else None
        return self._worker

    def _ready(self, policy: Policy) -> Worker:
        return self._undisturbed(lambda: self._made_ready(policy))

    def _made_ready(self, policy: Policy) -> Worker:
        worker = self._open()
        if digest(policy) not in self._prepared:
            self._make_ready(worker, "prepare", PREPARE_DEADLINE_S, {"policy": policy})
            self._prepared.add(digest(policy))
        return worker

    def _make_ready(self, worker: Worker, verb: str, deadline_s: float, arguments: dict[str, Any]) -> Any:
        try:
            return worker.request(verb, deadline_s=deadline_s, on_event=self._on_event, **arguments)
        except WorkerKilled:
            raise
        except WorkerDied as error:
            raise self._unprepared(error) from None

    def _unprepared(self, error: WorkerDied) -> SourceError:
        # Only the reference runs there: no candidate is to blame.
        message = f"judging {self.problem.name} could not be prepared: {error.message}"
        return SourceError(message, "run this again; smaller shapes need less memory and time")

    def _environment(self) -> dict[str, str]:
        return {
            **conditions.environment(self.target.threads, bound=not is_emulated(self.target)),
            "TORCHINDUCTOR_CACHE_DIR": str(environment.home() / "inductor"),
            **conditions.COMPILING,
        }

    def _drop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._worker, self._opened = None, False
        self._prepared.clear()

    def close(self) -> None:
        """Ends the workers and the builder."""
        self._drop_worker()
        if self._device is not None:
            self._device.close()
        self._second.close()
        self._builder.close()

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.close()


def _with(judged: Judgement, checks: Sequence[Check], notes: Sequence[str]) -> Judgement:
    verdict = Verdict(checks=(*judged.verdict.checks, *checks))
    judged = replace(judged, verdict=verdict, notes=(*judged.notes, *notes))
    return judged if verdict.passed else replace(judged, measurements=(), comparisons=(), noise=None)


@functools.cache
def checked_program(checker: str) -> Path | str:
    """Returns the program that runs builds with a checker in them, or a note on why there is none."""
    if checker not in CHECKERS:
        return f"checker {checker}: there is none of this name for the CPU"
    if checker == "thread" and find_compiler().name.startswith("clang"):
        return "checker thread: it needs g++, whose teams of threads it knows"
    try:
        return build_program(Path(__file__).with_name("checked_runner.cpp"), flags=CHECKED_FLAGS[checker])
    except KernelwrightError as error:
        return f"checker {checker}: the compiler brings none: {error.message[:300]}"


def judge(problem: Problem, candidate: Candidate, target: Target, policy: Policy) -> Record:
    """Returns the record of one candidate under one policy."""
    with Judge(problem, target) as session:
        return next(session.judge((candidate,), policy))
