"""Judging with memory: what the store knows is not judged again, what is judged is stored at once.

Not here: what to judge (search), and when to stop (run/__init__.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from kernelwright.errors import KernelwrightError
from kernelwright.run.result import Event, EventKind, Row, amount, outcome_name
from kernelwright.search.speed import against_reference, speed
from kernelwright.store import Store
from kernelwright.types import (
    KILLED,
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

BATCH = 8
"""Candidates that go to the judge together: enough to keep every compiler process busy, few enough
that the first record of a batch, and the end of the budget, are not far away."""


class Judging(Protocol):
    """What a judge must offer.

    Covers: one record for each candidate, yielded as soon as it is judged, whatever its outcome.
    Does not cover: storing.
    """

    def judge(self, candidates: tuple[Candidate, ...], policy: Policy) -> Iterator[Record]:
        """Yields one record for each candidate."""

    def baselines(self, policy: Policy) -> tuple[Measurement, ...]:
        """Returns the times of the baselines alone."""

    def prepare(self, policy: Policy) -> None:
        """Makes what all candidates share: the reference's truth, compiled baselines."""


class JudgeFactory(Protocol):
    """Makes a judge for one problem on one target; a class such as `judge.Judge` is one."""

    def __call__(
        self, problem: Problem, target: Target, *, on_event: Callable[..., None] | None = None
    ) -> AbstractContextManager[Judging]:
        """Returns the judge, to be used in a `with` statement; it reports events as text or dictionaries."""


OnEvent = Callable[[Event], None]


class Session:
    """One problem on one target with a judge and a store.

    Args:
        problem: what is optimised.
        target: where.
        store: keeps the records.
        policies: in the order in which they are more and more thorough.
        on_event: called with each line of progress.
    """

    def __init__(
        self,
        problem: Problem,
        target: Target,
        *,
        store: Store,
        policies: tuple[Policy, ...],
        on_event: OnEvent | None = None,
    ) -> None:
        self.problem = problem
        self.target = target
        self.judged = self.found = 0
        self.preparing_s = 0.0
        """Seconds that the judge spent on what no candidate is to blame for."""
        self._store = store
        self._on_event = on_event
        self._start_s = time.monotonic()
        self._keys = (store.put(problem), store.put(target))
        self._policies = {policy.name: store.put(policy) for policy in policies}
        self._candidates: dict[str, Candidate] = {}
        self._prepared: set[str] = set()
        self._records: dict[str, dict[str, Record]] = {name: {} for name in self._policies}

    @property
    def elapsed_s(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._start_s

    def say(self, kind: EventKind, text: str, **more: object) -> None:
        """Reports progress."""
        if self._on_event:
            event = Event(kind=kind, text=text, elapsed_s=self.elapsed_s, judged=self.judged, found=self.found, **more)  # type: ignore[arg-type]
            self._on_event(event)

    def stored(self, candidate: Candidate, policy: Policy) -> Record | None:
        """Returns what the store knows about a candidate under a policy, and takes it into the rows."""
        problem, target = self._keys
        key = digest(candidate)
        record = self._store.find(problem, key, target, self._policies[policy.name])
        if record is not None:
            self._take(candidate, policy, record)
        return record

    def load(self) -> None:
        """Takes every record of this problem, target and policies from the store into the rows."""
        problem, target = self._keys
        for name, policy in self._policies.items():
            for record in self._store.records(problem=problem, target=target, policy=policy):
                self._records[name][record.candidate] = record
                if record.candidate not in self._candidates:
                    self._candidates[record.candidate] = self._store.get(record.candidate)

    def judge(
        self, judge: Judging, candidates: tuple[Candidate, ...], policy: Policy, *, prepare: bool = True
    ) -> Generator[tuple[Candidate, Record], None, None]:
        """Yields every candidate with its record: those in the store first, the others once they are judged.

        A record is on the disk before it is yielded, except of a judgement that the machine disturbed.
        Where another process stored a record of the same identity meanwhile, that one is yielded. Without
        `prepare` the judge makes what it needs when it comes to it: better for one candidate, which may be wrong.
        """
        fresh: list[Candidate] = []
        for candidate in candidates:
            known = self.stored(candidate, policy)
            if known is None:
                fresh.append(candidate)
            else:
                self.found += 1
                self._tell(candidate, policy, known, "found")
                yield candidate, known
        for batch in (fresh[i : i + BATCH] for i in range(0, len(fresh), BATCH)):
            if prepare:
                self.prepare(judge, policy)
            yield from self._judge_batch(judge, batch, policy)

    def _judge_batch(
        self, judge: Judging, batch: list[Candidate], policy: Policy
    ) -> Iterator[tuple[Candidate, Record]]:
        self.say("batch", f"building and judging {amount(len(batch), 'candidate')} ({policy.name})")
        waiting = {digest(candidate): candidate for candidate in batch}
        for record in judge.judge(tuple(waiting.values()), policy):
            candidate = waiting.pop(record.candidate)
            kept = self._keep(record, candidate)
            self.judged += 1
            self._take(candidate, policy, kept)
            self._tell(candidate, policy, kept, "judged")
            yield candidate, kept
        if waiting:
            raise KernelwrightError(f"the judge returned no record for {len(waiting)} candidates")

    def prepare(self, judge: Judging, policy: Policy) -> None:
        """Makes the judge ready for a policy, once, and keeps the time that it took apart."""
        if policy.name in self._prepared:
            return
        self.say("prepare", f"preparing the judge ({policy.name})")
        start_s = time.monotonic()
        judge.prepare(policy)
        self.preparing_s += time.monotonic() - start_s
        self._prepared.add(policy.name)

    def hear(self, news: object) -> None:
        """Passes on what the judge says about its own work."""
        if isinstance(news, dict):
            known = {str(name): item for name, item in news.items()}
            subject = f"baseline {known.pop('baseline')}: " if "baseline" in known else ""
            state = [str(known.pop("state"))] if "state" in known else []
            news = subject + ", ".join([*state, *(f"{name} {item}" for name, item in known.items())])
        self.say("judge", str(news))

    def _keep(self, record: Record, candidate: Candidate) -> Record:
        if disturbed(record):
            return record
        try:
            return self._store.append(record, candidate)
        except KeyboardInterrupt:
            # Ctrl-C between judging and storing: the transaction was undone, the record must not be.
            self._store.append(record, candidate)
            raise

    def _take(self, candidate: Candidate, policy: Policy, record: Record) -> None:
        self._candidates.setdefault(record.candidate, candidate)
        self._records[policy.name][record.candidate] = record

    def _tell(self, candidate: Candidate, policy: Policy, record: Record, kind: EventKind) -> None:
        quick = speed(record)
        best = self.best_speed(policy)
        made = candidate.template or candidate.sources[0].path
        name = " ".join([made, *(f"{k}={v}" for k, v in candidate.point)])
        more = {"record": record, "candidate": candidate, "speed": quick, "best": best}
        self.say(kind, f"{described(record)}, {name}", **more)
        if quick is not None and quick == best:
            self.say("best", f"best so far ({policy.name}): {described(record)}, {name}", **more)

    def best_speed(self, policy: Policy) -> float | None:
        """Returns the greatest speed under a policy, None where nothing passed."""
        return max((s for r in self._records[policy.name].values() if (s := speed(r)) is not None), default=None)

    def fastest(self, policy: Policy) -> list[Candidate]:
        """Returns the candidates that passed under a policy, the fastest first."""
        passed = [(s, key) for key, r in self._records[policy.name].items() if (s := speed(r)) is not None]
        # Of equals the one with the smaller digest: the order of judging differs after a resume.
        return [self._candidates[key] for _, key in sorted(passed, key=lambda pair: (-pair[0], pair[1]))]

    def record(self, candidate: Candidate, policy: Policy) -> Record | None:
        """Returns a candidate's record under a policy, None where it was not judged so."""
        return self._records[policy.name].get(digest(candidate))

    def rows(self) -> tuple[Row, ...]:
        """Returns everything that is known about each candidate, in the order of first sight."""
        return tuple(
            Row(
                candidate=candidate,
                records=tuple((name, records[key]) for name, records in self._records.items() if key in records),
            )
            for key, candidate in self._candidates.items()
        )


def disturbed(record: Record) -> bool:
    """Tells whether a candidate failed only because of the machine.

    The judge's two clocks did not agree often enough, which on a busy machine happens to honest kernels too, or
    something outside killed or stopped its processes again and again. It counts as a failure now, and is not kept:
    the next run judges the candidate again.
    """
    if isinstance(record.outcome, Failure):
        return record.outcome.kind == KILLED
    return {check.name for check in record.outcome.verdict.checks if not check.passed} == {"clock"}


def described(record: Record) -> str:
    """Returns how fast a record found its candidate, in words."""
    if not isinstance(record.outcome, Judgement) or speed(record) is None:
        return outcome_name(record)
    times = [f"{m.median_us:.1f} µs" for m in record.outcome.measurements if m.contender == "candidate"]
    against = against_reference(record.outcome)
    ratio = [f"{against.speedup:.2f}x against {against.baseline}"] if against else []
    return ", ".join(ratio + times[:1])
