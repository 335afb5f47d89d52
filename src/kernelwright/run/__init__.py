"""The loop that joins search, judge and store: ask, judge, append, tell; then choose and report.

Stopping and starting again loses nothing: strategies are functions of seed and records, the seed is
kept with the run, and what the store knows is told without judging it again.
Not here: what is proposed (search, experts), what is right and fast (judge), what is shown (report).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

from kernelwright import experts
from kernelwright.graph import Capture, Graph
from kernelwright.judge import MEASURE, REPORT, SCREEN, Judge, policies_for
from kernelwright.run.models.authors import Authors, Staff, estimate_text
from kernelwright.run.outputs import write_best
from kernelwright.run.result import (
    Answer,
    Event,
    Result,
    Row,
    Stopped,
    amount,
    best_baseline,
    busy_note,
    counted,
    ordered,
    verdict_of,
)
from kernelwright.run.session import JudgeFactory, Judging, OnEvent, Session, described
from kernelwright.search import Chain, Strategy
from kernelwright.search.evolve import Evolve
from kernelwright.search.tune import Tune
from kernelwright.store import Run, Store
from kernelwright.types import (
    Candidate,
    Judgement,
    Measurement,
    Policy,
    Problem,
    Proposal,
    Record,
    Refusal,
    Target,
    Template,
    digest,
    replace,
    value,
)

__all__ = ["BUILT_IN", "Event", "Parts", "Result", "Row", "judge_candidate", "optimize", "recall", "write_best"]

AUTHORED = "optimize with authors"
"""What a run is called in which authors write."""
FINALISTS = 3
TUNE_LIMITS = (24, 64)
"""Least and most proposals that `tune` may make."""
PROPOSALS_PER_S = 0.7
"""Proposals that `tune` plans for in a second of budget: what building and judging took on two cores."""


class Offer(Protocol):
    """What the experts return: templates and refusals."""

    @property
    def templates(self) -> tuple[Template, ...]:
        """What can be emitted."""

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What cannot, and why."""


class Experts(Protocol):
    """Turns a graph into templates, as `experts.templates` does."""

    def __call__(self, problem: Problem, graph: Graph, *, target: Target) -> Offer:
        """Returns templates and refusals."""


@value
class Parts:
    """What `optimize` joins."""

    experts: Experts
    judge: JudgeFactory
    screen: Policy
    measure: Policy
    report: Policy

    @property
    def final(self) -> Policy:
        """The finalists' policy: `measure` again, on runs that had no part in making them finalists."""
        return replace(self.measure, name="final")

    @property
    def policies(self) -> tuple[Policy, ...]:
        """All policies, the most thorough last."""
        return self.screen, self.measure, self.final, self.report


BUILT_IN = Parts(experts=experts.templates, judge=Judge, screen=SCREEN, measure=MEASURE, report=REPORT)
"""What kernelwright brings along for the CPU; `parts_for` has it for any target."""


def parts_for(target: Target) -> Parts:
    """Returns what kernelwright brings along for a target."""
    policies = policies_for(target)
    return replace(BUILT_IN, screen=policies["screen"], measure=policies["measure"], report=policies["report"])


def optimize(
    capture: Capture,
    target: Target,
    *,
    store: Store,
    budget_s: float,
    parts: Parts | None = None,
    seed: int | None = None,
    authors: Authors | None = None,
    on_event: OnEvent | None = None,
) -> Result:
    """Returns the fastest kernel that survived the judge, or the baseline where none is faster.

    Args:
        capture: the problem and its graph.
        target: where the kernel is to run.
        store: what is in it already is not judged again.
        budget_s: seconds of searching; the judge's preparation does not count, and the final judgements
            of at most three candidates come after it.
        parts: the experts, the judge and its policies; None takes the target's own.
        seed: None goes on with the seed of the last run of this problem here, or draws one.
        authors: language models, or a command, that write kernels; None leaves it to the experts.
        on_event: called with each line of progress, from this thread.
    """
    parts = parts or parts_for(target)
    store.put(capture)
    run = store.begin_run("optimize" if authors is None else AUTHORED, capture.problem, target, seed=seed)
    session = Session(capture.problem, target, store=store, policies=parts.policies, on_event=on_event)
    templates, refusals = _templates(capture, target, parts)
    session.say("start", f"{capture.problem.name}: {amount(len(templates), 'template')}, seed {run.seed}")
    if not templates and authors is None:
        why = refusals[0].text if refusals else "no expert knows it"
        session.say("stage", f"no kernel can be proposed: {why}; timing the baselines while the budget lasts")
    work = _Optimisation(session, parts, templates, budget_s=budget_s, seed=run.seed)
    if authors is not None:
        work.employ(authors, store, run, capture)
    work.run()
    result = work.result(refusals, notes=capture.notes)
    session.say("end", result.why)
    return result


def recall(store: Store, *, parts: Parts | None = None) -> tuple[Result, ...]:
    """Returns what the store knows of each problem on each target, the latest run last; judges nothing.

    Records under other policies than those of `parts` (None: each target's own) are left out: their numbers are of
    another kind.
    """
    captures = {digest(capture.problem): capture for capture in store.values("Capture")}
    latest = {(run.problem, run.target): run for run in store.runs() if run.problem in captures}
    results = []
    for run in sorted(latest.values(), key=lambda run: run.id):
        capture, target = captures[run.problem], store.get(run.target)
        theirs = parts or parts_for(target)
        session = Session(capture.problem, target, store=store, policies=theirs.policies)
        templates, refusals = _templates(capture, target, theirs)
        work = _Optimisation(session, theirs, (), budget_s=0.0, seed=run.seed)
        work.remember(hopeless=not templates)
        results.append(work.result(refusals, notes=capture.notes))
    return tuple(results)


def _templates(capture: Capture, target: Target, parts: Parts) -> tuple[tuple[Template, ...], tuple[Refusal, ...]]:
    if capture.graph is None:
        return (), (Refusal(subject=capture.problem.name, reason=capture.reason or "there is no graph"),)
    offer = parts.experts(capture.problem, capture.graph, target=target)
    return offer.templates, offer.refusals


def strategy(templates: tuple[Template, ...], *, seed: int, budget_s: float) -> Strategy:
    """Returns the default strategy: `tune`, sized to the budget, then `evolve` from what it found."""
    tune = Tune(templates, seed=seed, limit=tuned(budget_s))
    return Chain(tune, lambda told: Evolve(templates, seed=seed, told=told), name="tune then evolve")


def tuned(budget_s: float) -> int:
    """Returns how many proposals the tuner, or who takes its place, may make in a budget."""
    least, most = TUNE_LIMITS
    return int(min(most, max(least, PROPOSALS_PER_S * budget_s)))


class _Optimisation:
    """One call of `optimize` between its start and its result."""

    def __init__(
        self, session: Session, parts: Parts, templates: tuple[Template, ...], *, budget_s: float, seed: int
    ) -> None:
        self._session = session
        self._parts = parts
        self._budget_s = budget_s
        self._seed = seed
        self._templates = templates
        self._strategy = strategy(templates, seed=seed, budget_s=budget_s)
        self._staff: Staff | None = None
        self._stopped: Stopped = "finished"
        self._remembers = False
        self._best: Candidate | None = None
        self._report: Record | None = None
        self._baselines: tuple[Measurement, ...] = ()
        self._untimed: tuple[str, ...] = ()
        """Baselines that the budget left no time for."""

    def employ(self, authors: Authors, store: Store, run: Run, capture: Capture) -> None:
        """Has kernels written by authors as well."""
        session, templates, seed = self._session, self._templates, self._seed
        first = None
        if authors.chooser is not None:
            limit = tuned(self._budget_s)
            first = authors.chooser(capture, session.target, templates, seed=seed, limit=limit)
            self._strategy = Chain(first, lambda told: Evolve(templates, seed=seed, told=told), name="chosen, evolved")
            if not authors.model_names:
                return
        session.say("author", estimate_text(authors, session.problem, session.target))
        self._staff = Staff(
            authors, session.problem, session.target, store=store, run=run, budget_s=self._budget_s,
            progress=lambda: (session.judged, session.preparing_s), say=lambda text: session.say("author", text),
        )  # fmt: skip
        self._strategy = written = self._staff.strategy(templates, seed=seed)
        if first is not None:
            self._strategy = Chain(first, lambda _: written, name="chosen, then authors")

    def remember(self, *, hopeless: bool) -> None:
        """Takes everything from the store and judges nothing; `hopeless` where nothing can be proposed."""
        self._session.load()
        self._recall()
        self._remembers = True
        self._stopped = "finished" if self._report or hopeless else "interrupted"

    def run(self) -> None:
        """Searches, chooses and reports; Ctrl-C ends whichever of them it meets."""
        session = self._session
        try:
            with self._parts.judge(session.problem, session.target, on_event=session.hear) as judge:
                self._search(judge)
                self._choose(judge)
        except KeyboardInterrupt:
            self._stopped = "interrupted"
            self._recall()

    def _search(self, judge: Judging) -> None:
        start_s = time.monotonic()
        while batch := self._strategy.ask():
            for policy, proposals in self._by_policy(batch):
                before = self._session.judged
                doubted: dict[Candidate, Record] = {}
                with contextlib.closing(self._session.judge(judge, tuple(proposals), policy)) as records:
                    for candidate, record in records:
                        if self._doubts(candidate, record, policy):
                            doubted[candidate] = record
                        else:
                            self._strategy.tell(((proposals[candidate], record),))
                        # What comes from the store is free, and so is what the judge prepares.
                        spent_s = time.monotonic() - start_s - self._session.preparing_s
                        if self._session.judged > before and (spent_s >= self._budget_s or self._judged_enough()):
                            self._stopped = "budget"
                            return
                for candidate, full in self._session.judge(judge, tuple(doubted), self._parts.measure):
                    # Only a kernel that fails in full is told of in full: speeds of one batch have one policy.
                    told = doubted[candidate] if full.passed else full
                    self._strategy.tell(((proposals[candidate], told),))
        if self._staff is not None and (why := self._staff.calls.stopped):
            self._stopped = "paused" if why.startswith("paused") else "budget"
            self._session.say("author", why)

    def _doubts(self, candidate: Candidate, record: Record, policy: Policy) -> bool:
        """Tells whether a suspicious candidate passed a quick look, which is not enough for it to count."""
        quick = policy is self._parts.screen and record.passed
        return quick and self._staff is not None and self._staff.suspects(candidate)

    def _judged_enough(self) -> bool:
        most = self._staff.authors.budget.judgements if self._staff else None
        return most is not None and self._session.judged >= most

    def _by_policy(self, batch: tuple[Proposal, ...]) -> Iterator[tuple[Policy, dict[Candidate, Proposal]]]:
        for policy, effort in ((self._parts.screen, "screen"), (self._parts.measure, "measure")):
            if proposals := {p.candidate: p for p in batch if p.effort == effort}:
                yield policy, proposals

    # ------------------------------------------------------------------ choose, report

    def _choose(self, judge: Judging) -> None:
        """Judges the finalists anew, takes the fastest of them, and judges it once more for the report."""
        parts, session = self._parts, self._session
        finalists = self._finalists()
        if len(finalists) > 1:
            session.say("stage", f"choosing between {len(finalists)} finalists on new runs")
            for _ in session.judge(judge, finalists, parts.final):
                pass
            finalists = tuple(c for c in session.fastest(parts.final) if c in finalists)
        for candidate in finalists:
            session.say("stage", "judging the chosen kernel once more, for the report")
            for _, record in session.judge(judge, (candidate,), parts.report):
                if record.passed:
                    self._best, self._report = candidate, record
                    return
        session.say("stage", "no kernel to report; timing the baselines")
        self._time_baselines(judge)

    def _time_baselines(self, judge: Judging) -> None:
        """Times the baselines alone: all where kernels were tried, else those that can be compiled in the budget."""
        names, ready = self._parts.report.baselines, list[str]()
        # Nothing is checked, so one family of inputs will do.
        alone = replace(self._parts.report, families=self._parts.report.families[:1], draws=1)
        start_s = time.monotonic()
        for name in names:
            late = time.monotonic() - start_s >= self._budget_s
            if ready and late and not self._templates and self._staff is None:
                break
            self._session.prepare(judge, replace(alone, name=f"baseline {name}", baselines=(name,)))
            ready.append(name)
        self._untimed = names[len(ready) :]
        self._baselines = judge.baselines(replace(alone, name="baselines", baselines=tuple(ready)))

    def _finalists(self) -> tuple[Candidate, ...]:
        """Returns the fastest measured candidates, and screened ones where too few were measured."""
        parts, session = self._parts, self._session
        ranked = dict.fromkeys((*session.fastest(parts.measure), *self._only_screened()))
        return tuple(ranked)[:FINALISTS]

    def _only_screened(self) -> list[Candidate]:
        # A candidate that was measured and failed must not come back through the other door.
        parts, session = self._parts, self._session
        return [c for c in session.fastest(parts.screen) if session.record(c, parts.measure) is None]

    def _recall(self) -> None:
        """After Ctrl-C: takes the best that is known, and its report where an earlier run made one."""
        parts, session = self._parts, self._session
        finalists = self._finalists()
        for candidate in finalists:
            session.stored(candidate, parts.final)
        ranked = [c for c in session.fastest(parts.final) if c in finalists] or list(finalists)
        self._best = ranked[0] if ranked else None
        reports = ((c, session.stored(c, parts.report)) for c in ranked)
        for candidate, record in reports:
            if record is not None and record.passed:
                self._best, self._report = candidate, record
                return

    # -------------------------------------------------------------------------- result

    def result(self, refusals: tuple[Refusal, ...], *, notes: tuple[str, ...]) -> Result:
        """Returns everything that was found."""
        session, parts = self._session, self._parts
        rows = ordered(session.rows(), tuple(policy.name for policy in parts.policies))
        baselines = _baselines_of(self._report) or self._baselines
        hardest = best_baseline(self._report) if self._report else None
        quickest = min(baselines, key=lambda m: m.median_us, default=None)
        answer, why = self._answer(rows, refusals, quickest)
        return Result(
            problem=session.problem,
            target=session.target,
            policy=parts.report,
            seed=self._seed,
            answer=answer,
            why=why,
            best=self._best,
            report=self._report,
            baseline=hardest.baseline if hardest else quickest.contender if quickest else "",
            rows=rows,
            baselines=baselines,
            refusals=refusals,
            counts=counted(rows),
            judged=session.judged,
            found=session.found,
            stopped=self._stopped,
            seconds=session.elapsed_s,
            notes=(
                *notes,
                *_origin_of(self._best),
                *_notes_of(self._report),
                *self._notes_of_authors(rows),
                *(f"the budget left no time for the baseline {name}" for name in self._untimed),
            ),
            spending=self._staff.ledger.spending if self._staff else None,
        )

    def _notes_of_authors(self, rows: tuple[Row, ...]) -> tuple[str, ...]:
        if self._staff is None:
            return ()
        verified = sum(row.speed is not None and row.candidate.author in self._staff.writers for row in rows)
        return self._staff.notes(verified=verified)

    def _answer(
        self, rows: tuple[Row, ...], refusals: tuple[Refusal, ...], quickest: Measurement | None
    ) -> tuple[Answer, str]:
        if self._report is not None:
            return verdict_of(self._report)
        if self._stopped == "interrupted":
            so_far = "nothing passed so far"
            if self._best is not None:
                row = next(row for row in rows if row.candidate == self._best)
                so_far = f"the fastest so far: {described(row.latest)} ({row.records[-1][0]})"
            # The store does not know how a run ended, and after a baseline's victory there is no report in it either.
            began = (
                "no kernel has a final judgement here" if self._remembers else "interrupted before the final judgement"
            )
            goes_on = "`kernelwright optimize`" if self._remembers else "the same command"
            return "undecided", f"{began}; {so_far}; {goes_on} goes on from here"
        reason = f"none of {amount(len(rows), 'candidate')} passed the judge" if rows else "nothing could be proposed"
        if not rows and refusals:
            reason += f" ({refusals[0].text})"
        if quickest is None:
            return "baseline", f"{reason}; no time of a baseline is known"
        return "baseline", f"{reason}; {quickest.contender} is the fastest there is, at {quickest.median_us:.1f} µs"


def _origin_of(best: Candidate | None) -> tuple[str, ...]:
    """Returns what a candidate gains by algebra and by leaving work out, which is told apart from kernels' gains."""
    if best is None or not best.rewrites:
        return ()
    said = [f"the program was rewritten before it became kernels: {', '.join(best.rewrites)}"]
    if best.independent:
        names = ", ".join(best.independent)
        said.append(f"no output depends on {names} while all numbers are finite: the gain is work left out")
    return tuple(said)


def _notes_of(record: Record | None) -> tuple[str, ...]:
    if record is None or not isinstance(record.outcome, Judgement):
        return ()
    busy = busy_note(record)
    advice = "an idle machine would tell more: search again there, with another --out"
    return (*record.outcome.notes, f"{busy}; {advice}") if busy else record.outcome.notes


def _baselines_of(record: Record | None) -> tuple[Measurement, ...]:
    if record is None or not isinstance(record.outcome, Judgement):
        return ()
    return tuple(m for m in record.outcome.measurements if m.contender != "candidate")


def judge_candidate(
    problem: Problem,
    candidate: Candidate,
    target: Target,
    *,
    store: Store,
    judge: JudgeFactory = Judge,
    policy: Policy = REPORT,
    on_event: OnEvent | None = None,
) -> Record:
    """Returns the record of one candidate, from the store where it was judged under this policy before."""
    session = Session(problem, target, store=store, policies=(policy,), on_event=on_event)
    known = session.stored(candidate, policy)
    if known is not None:
        session.say("found", "judged before; this is the stored record", record=known, candidate=candidate)
        return known
    with judge(problem, target, on_event=session.hear) as it:
        return next(record for _, record in session.judge(it, (candidate,), policy, prepare=False))
