"""Candidates of many problems before one judge, with memory: records and what they are worth.

What the store knows is not judged again; what is too fast to be believed, or looks like a cheat, is judged again in
full, and only then counts.
Not here: what a record is worth (reward.py), and who wrote the candidate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sized
from types import TracebackType
from typing import Protocol

from kernelwright import judge as judging
from kernelwright.run.session import Judging, Session
from kernelwright.store import Store
from kernelwright.training.reward import Reward, RewardSettings, reward
from kernelwright.types import Candidate, Policy, Problem, Record, Target, digest, replace


class Turning(Judging, Protocol):
    """A judge that can be given another problem."""

    def turn_to(self, problem: Problem) -> None:
        """Makes this the judge of another problem."""


class TurningFactory(Protocol):
    """Makes such a judge; `judge.Judge` is one."""

    def __call__(self, problem: Problem, target: Target) -> contextlib.AbstractContextManager[Turning]:
        """Returns the judge, to be used in a `with` statement."""


class Court:
    """A judge that turns from problem to problem; its processes stay.

    Args:
        target: where kernels run.
        store: keeps the records.
        screen: the policy of every candidate.
        thorough: the policy of those whose gain or text is suspicious.
        settings: of rewards; `thorough` is filled in.
        judge: makes the judge.
        doubts: what makes a kernel suspicious before it is judged, whatever its gain; empty where nothing does.
    """

    def __init__(
        self, target: Target, store: Store, *, screen: Policy, thorough: Policy,
        settings: RewardSettings | None = None, judge: TurningFactory = judging.Judge,
        doubts: Callable[[Candidate], Sized] = lambda _: (),
    ) -> None:  # fmt: skip
        self.target, self.screen, self.thorough = target, screen, thorough
        self.settings = replace(settings or RewardSettings(), thorough=(digest(thorough),))
        self.judged = self.found = 0
        self._store, self._make, self._doubts = store, judge, doubts
        self._sessions: dict[str, Session] = {}
        self._judge: Turning | None = None
        self._stack = contextlib.ExitStack()

    def records(self, problem: Problem, candidates: Iterable[Candidate]) -> dict[Candidate, Record]:
        """Returns each candidate's record: of the thorough policy where speed or text was suspicious."""
        unique = tuple(dict.fromkeys(candidates))
        found = self._pass(problem, unique, self.screen)
        doubted = tuple(c for c in unique if self._suspicious(c, found[c]))
        return found | (self._pass(problem, doubted, self.thorough) if doubted else {})

    def _suspicious(self, candidate: Candidate, record: Record) -> bool:
        fast = reward(record, settings=self.settings).kind == "suspicious"
        return fast or (record.passed and len(self._doubts(candidate)) > 0)

    def rewards(
        self, problem: Problem, candidates: Iterable[Candidate], *, exemplars: tuple[str, ...] = ()
    ) -> dict[Candidate, tuple[Reward, Record]]:
        """Returns what each candidate is worth, beside its record."""
        found = self.records(problem, candidates)
        return {
            c: (reward(r, settings=self.settings, exemplar_texts=exemplars, text=c.sources[0].text), r)
            for c, r in found.items()
        }

    def _pass(self, problem: Problem, candidates: tuple[Candidate, ...], policy: Policy) -> dict[Candidate, Record]:
        key = digest(problem)
        if key not in self._sessions:
            policies = (self.screen, self.thorough)
            self._sessions[key] = Session(problem, self.target, store=self._store, policies=policies)
        session = self._sessions[key]
        found = {c: record for c in candidates if (record := session.stored(c, policy)) is not None}
        self.found += len(found)
        fresh = tuple(c for c in candidates if c not in found)
        if fresh:
            before = session.judged
            found |= dict(session.judge(self.turned_to(problem), fresh, policy, prepare=False))
            self.judged += session.judged - before
        return found

    def turned_to(self, problem: Problem) -> Judging:
        """Returns the judge, turned to a problem."""
        if self._judge is None:
            self._judge = self._stack.enter_context(self._make(problem, self.target))
        else:
            self._judge.turn_to(problem)
        return self._judge

    def close(self) -> None:
        """Ends the judge's processes; harmless when there are none."""
        self._judge = None
        self._stack.close()

    def __enter__(self) -> Court:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
