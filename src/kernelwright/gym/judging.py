"""The gym itself: a bounded queue, and one thread that judges what is in it, with one judge for everything.

Kernels for one problem that wait together are judged together, the longest-waiting problem first, since turning the
judge to another problem takes a second. Captures happen in the same thread: nothing else may run while times are taken.
Records are kept in a store; a kernel that was judged before costs nothing.
**Covers**: full queues, submissions that wait too long, equal ones, disturbed times (judged again), gains that are too
good and kernels that look like cheats (both judged again in full before they count), faults of a problem or of the
judge, stopping in the middle.
**Does not cover**: fairness between clients; whoever sends more gets more.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kernelwright import api, capture, hacks, languages, problems
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.graph import Capture
from kernelwright.gym.requests import Refused, Submission
from kernelwright.gym.telling import result_of, stopped, task_of
from kernelwright.judge import Judge, policies_for
from kernelwright.run.models.kernels import candidate_of
from kernelwright.run.models.screening import doubts
from kernelwright.run.session import BATCH, Judging, Session, disturbed
from kernelwright.store import Store
from kernelwright.training.reward import RewardSettings, reward
from kernelwright.types import Candidate, Policy, Problem, Record, Target, digest, replace, value

LANGUAGES = {"cpu": ("cpp",), "cuda": ("cuda", "triton"), "emulated": ("cuda",)}
"""That kernels can be written in, by device; the first is the default."""
AUTHOR = "gym"
AGAIN = 2
"""How often a judgement is repeated that the machine disturbed."""
THOROUGH = ("measure", "report")
"""The policies from which large gains count; the first is for those that a quicker one found."""
log = logging.getLogger(__name__)


@value
class GymSettings:
    """What a gym offers and how much it holds."""

    sources: tuple[str, ...]
    """Built-in problems' names and files; clients name a file's problem by its stem."""
    device: str = "cpu"
    policy: str = "screen"
    most_waiting: int = 256
    patience_s: float = 600.0
    """A submission that has waited longer is given back unjudged."""
    most_kept: int = 4096
    """Results in memory; the records behind them stay in the store."""
    rewards: RewardSettings = RewardSettings()


class TurningJudge(Judging, Protocol):
    """A judge that goes on with another problem."""

    def turn_to(self, problem: Problem) -> None:
        """Makes this the judge of another problem."""


class MakesJudge(Protocol):
    """Makes a judge, as the class `judge.Judge` does."""

    def __call__(self, problem: Problem, target: Target) -> AbstractContextManager[TurningJudge]:
        """Returns the judge, to be used in a `with` statement."""


@dataclass
class Job:
    """A submission on its way."""

    submission: Submission
    since: float
    state: str = "waiting"
    result: dict[str, Any] = field(default_factory=dict)


class Gym:
    """Serves submissions from any number of threads until it is stopped.

    Args:
        settings: what it offers.
        folder: of the store.
        judge: makes the judge.
        load: makes a problem of a source.

    Raises:
        UserError: a source is not known, or two have one name.
    """

    def __init__(
        self, settings: GymSettings, folder: Path, *, judge: MakesJudge = Judge,
        load: Callable[[str], Capture] = capture.load,
    ) -> None:  # fmt: skip
        self.settings, self._folder = settings, folder
        self.sources = {
            (Path(s).stem if Path(s).suffix == ".py" else problems.get(s).name): s for s in settings.sources
        }
        if len(self.sources) < len(settings.sources):
            raise UserError("two problems have one name", "give each problem once, and files names of their own")
        self.target = (
            languages.emulated_target() if settings.device == api.EMULATED else api.target_named(settings.device)
        )
        self.languages = LANGUAGES[settings.device]
        self.judged = 0
        self._policies = policies_for(self.target)
        self._rewards = replace(settings.rewards, thorough=tuple(digest(self._policies[n]) for n in THOROUGH))
        self._make_judge, self._load = judge, load
        Store(folder / api.STORE).close()  # its faults are told now
        self._captures: dict[str, Capture | KernelwrightError] = {}
        self._wanted: list[str] = []
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._change = threading.Condition()
        self._stopping = False
        self._open: tuple[AbstractContextManager[TurningJudge], TurningJudge] | None = None
        self._thread = threading.Thread(target=self._work, name="gym", daemon=True)

    # ------------------------------------------------------------------ for clients' threads

    def start(self) -> None:
        """Begins to judge."""
        self._thread.start()

    def stop(self, *, grace_s: float = 60.0) -> bool:
        """Takes nothing more, gives back what waits, and lets what is being judged end; False where it did not."""
        with self._change:
            self._stopping = True
            for job in tuple(self._jobs.values()):
                if job.state == "waiting":
                    self._end(job, stopped("the gym stopped before this was judged"), state="stopped")
            self._change.notify_all()
        self._thread.join(grace_s)
        return not self._thread.is_alive()

    def status(self) -> dict[str, Any]:
        """Returns how the gym is, as plain data."""
        with self._change:
            states = [job.state for job in self._jobs.values()]
            return {
                "state": "stopping" if self._stopping else "open", "waiting": states.count("waiting"),
                "judging": states.count("judging"), "judged": self.judged, "room": self.settings.most_waiting,
                "device": self.settings.device, "languages": list(self.languages), "policy": self.settings.policy,
            }  # fmt: skip

    def task(self, name: str, language: str, *, wait_s: float) -> dict[str, Any]:
        """Returns what must be computed, as a prompt and as data.

        Raises:
            Refused: there is no such problem, it cannot be used, or it is not ready in time.
        """
        if name not in self.sources:
            raise Refused(404, f"there is no problem {name!r} here", "GET /v1/problems lists them")
        if language not in self.languages:
            raise Refused(400, f"kernels cannot be written in {language!r} here", f"use {' or '.join(self.languages)}")
        with self._change:
            if name not in self._captures and name not in self._wanted:
                self._wanted.append(name)
                self._change.notify_all()
            self._change.wait_for(lambda: name in self._captures or self._stopping, timeout=wait_s)
            found = self._captures.get(name)
        if found is None:
            raise Refused(503, f"{name} is not ready yet", "ask again", retry_s=5)
        if isinstance(found, KernelwrightError):
            raise Refused(422, f"{name} cannot be used: {found}", "choose another problem")
        return task_of(name, found.problem, language, self.target)

    def submit(self, submission: Submission) -> str:
        """Queues a submission and returns its key; equal ones are judged once.

        Raises:
            Refused: the queue is full, or the gym is stopping.
        """
        with self._change:
            known = self._jobs.get(submission.key)
            if known is not None and known.state not in ("late", "stopped", "undecided"):
                return submission.key
            if self._stopping:
                raise Refused(503, "the gym is stopping", "send it again when it is back", retry_s=30)
            waiting = sum(job.state == "waiting" for job in self._jobs.values())
            if waiting >= self.settings.most_waiting:
                raise Refused(429, f"{waiting} kernels are waiting already", "send it again later", retry_s=5)
            self._jobs[submission.key] = job = Job(submission=submission, since=time.monotonic())
            self._jobs.move_to_end(submission.key)
            if not submission.code:
                failed = {"reward": 0.0, "kind": "failed", "why": "there is no kernel in the reply", "passed": False}
                self._end(job, failed)
            self._change.notify_all()
        return submission.key

    def result(self, key: str, *, wait_s: float) -> dict[str, Any]:
        """Returns how a submission stands, with its result once there is one.

        Raises:
            Refused: when nobody submitted it, or it is long ago.
        """
        with self._change:
            job = self._jobs.get(key)
            if job is None:
                raise Refused(404, f"there is no submission {key!r}", "submit it again: what was judged is found again")
            self._change.wait_for(lambda: job.state not in ("waiting", "judging"), timeout=wait_s)
            state: dict[str, Any] = {"id": key, "state": job.state, "problem": job.submission.problem}
            if job.state == "waiting":
                state["before"] = sum(j.state == "waiting" and j.since < job.since for j in self._jobs.values())
            return state | job.result

    # ------------------------------------------------------------------------ the one thread

    def _work(self) -> None:
        with Store(self._folder / api.STORE) as store:
            while not self._stopping:
                with self._change:
                    self._change.wait_for(self._due)
                    wanted = self._wanted.pop(0) if self._wanted else ""
                    batch = [] if wanted or self._stopping else self._next_batch()
                if wanted:
                    self._captured(wanted)
                if batch:
                    self._judge_batch(batch, store)
            self._close_judge()

    def _due(self) -> bool:
        return self._stopping or bool(self._wanted) or any(j.state == "waiting" for j in self._jobs.values())

    def _next_batch(self) -> list[Job]:
        """Takes the job that has waited longest and others of its problem and language, or nothing."""
        batch: list[Job] = []
        for job in tuple(self._jobs.values()):
            if job.state != "waiting":
                continue
            if time.monotonic() - job.since > self.settings.patience_s:
                self._end(job, stopped(f"it waited longer than {self.settings.patience_s:g} s"), state="late")
                continue
            first = batch[0].submission if batch else job.submission
            alike = (first.problem, first.language) == (job.submission.problem, job.submission.language)
            if alike and len(batch) < BATCH:
                job.state = "judging"
                batch.append(job)
        return batch

    def _captured(self, name: str) -> Capture | KernelwrightError:
        if name not in self._captures:
            found: Capture | KernelwrightError
            try:
                found = self._load(self.sources[name])
            except KernelwrightError as error:
                found = error
            except Exception as error:
                log.exception("%s could not be captured", name)
                found = KernelwrightError(f"a fault of kernelwright: {type(error).__name__}: {error}")
            with self._change:
                self._captures[name] = found
                self._change.notify_all()
        return self._captures[name]

    def _judge_batch(self, batch: list[Job], store: Store) -> None:
        """Judges jobs of one problem; whatever goes wrong, each of them ends and the thread goes on."""
        try:
            found = self._captured(batch[0].submission.problem)
            if isinstance(found, KernelwrightError):
                raise found
            self._results(batch, found, store)
        except KernelwrightError as error:
            self._close_judge()
            self._end_all(batch, stopped(f"{batch[0].submission.problem} could not be judged: {error}"))
        except Exception as error:
            log.exception("a batch of the gym failed")
            self._close_judge()
            self._end_all(batch, stopped(f"a fault of kernelwright: {type(error).__name__}: {error}"))

    def _results(self, batch: list[Job], captured: Capture, store: Store) -> None:
        store.put(captured)
        waiting: dict[Candidate, list[Job]] = {}
        for job in batch:
            given = job.submission
            try:
                made = candidate_of(captured.problem, given.code, language=given.language, author=AUTHOR)
            except UserError as error:
                self._end(job, {"reward": 0.0, "kind": "failed", "why": str(error), "passed": False})
                continue
            waiting.setdefault(made, []).append(job)
        for name in (self.settings.policy, THOROUGH[0]):
            waiting = self._judged_under(self._policies[name], waiting, captured.problem, store)
        self._end_all(batch, stopped("the gym stopped before this was judged"), state="stopped")

    def _judged_under(
        self, policy: Policy, waiting: dict[Candidate, list[Job]], problem: Problem, store: Store
    ) -> dict[Candidate, list[Job]]:
        """Ends the jobs of what is judged, and returns those of candidates that are suspicious."""
        suspicious: dict[Candidate, list[Job]] = {}
        for left in range(AGAIN, -1, -1):
            again: dict[Candidate, list[Job]] = {}
            with contextlib.closing(self._records(problem, tuple(waiting), policy, store)) as records:
                for candidate, record in records:
                    jobs = waiting[candidate]
                    if disturbed(record) and left:
                        again[candidate] = jobs
                    elif self._suspicious(candidate, record, policy):
                        suspicious[candidate] = jobs
                    else:
                        self._tell(candidate, record, policy, jobs, problem)
                    if self._stopping:
                        return {}
            waiting = again
        return suspicious

    def _suspicious(self, candidate: Candidate, record: Record, policy: Policy) -> bool:
        if reward(record, settings=self._rewards).kind == "suspicious":
            return True
        return record.passed and policy.name not in THOROUGH and bool(doubts(candidate))

    def _tell(self, candidate: Candidate, record: Record, policy: Policy, jobs: list[Job], problem: Problem) -> None:
        text = candidate.sources[0].text
        like = hacks.bundled().resembling(text, language=candidate.language)
        for job in jobs:
            worth = reward(record, settings=self._rewards, exemplar_texts=job.submission.exemplars, text=text)
            result = result_of(candidate, record, worth, policy=policy, problem=problem, target=self.target, like=like)
            self._end(job, result, state="done" if result["reward"] is not None else "undecided")

    def _records(
        self, problem: Problem, candidates: tuple[Candidate, ...], policy: Policy, store: Store
    ) -> Generator[tuple[Candidate, Record], None, None]:
        session = Session(problem, self.target, store=store, policies=(policy,))
        if candidates:
            yield from session.judge(self._judge_of(problem), candidates, policy, prepare=False)

    def _judge_of(self, problem: Problem) -> TurningJudge:
        if self._open is None:
            made = self._make_judge(problem, self.target)
            self._open = (made, made.__enter__())
        self._open[1].turn_to(problem)
        return self._open[1]

    def _close_judge(self) -> None:
        if self._open is not None:
            made, self._open = self._open[0], None
            made.__exit__(None, None, None)

    def _end_all(self, jobs: list[Job], result: dict[str, Any], *, state: str = "undecided") -> None:
        for job in jobs:
            if job.state == "judging":
                self._end(job, result, state=state)

    def _end(self, job: Job, result: dict[str, Any], *, state: str = "done") -> None:
        with self._change:
            job.result, job.state = result, state
            self.judged += state == "done"
            done = [key for key, j in self._jobs.items() if j.state not in ("waiting", "judging")]
            for key in done[: max(0, len(done) - self.settings.most_kept)]:
                del self._jobs[key]
            self._change.notify_all()
