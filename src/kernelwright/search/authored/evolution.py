"""`Authored`: islands of kernels that authors improve, one brief for each island and round.

What is due on an island follows from what happened there: a kernel that failed is mended, at most twice; where no idea
is left, ideas are asked for; else a bandit chooses model and prompt kind. Free parameters that an author left are given
to `Tune`. Not here: how drafts come about (run/writing.py), and the judge.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from kernelwright.exchanges import Kind
from kernelwright.search import Batches, Results, Turns
from kernelwright.search.authored.archive import Islands, contrasted
from kernelwright.search.authored.bandit import Arm, Bandit
from kernelwright.search.authored.briefs import Brief, Draft, Exemplar, Write
from kernelwright.search.authored.intents import Plan
from kernelwright.search.authored.novelty import fingerprint
from kernelwright.search.speed import speed
from kernelwright.search.tune import Tune
from kernelwright.types import Candidate, Effort, Proposal, Record, digest, replace, value

Asking = Generator[tuple[Proposal, ...], Results, dict[str, Record]]
ISLANDS = 2
SEEDS = 6
"""Kernels of the experts and the tuner that the islands begin with."""
EXEMPLARS = 3
TRIED = 8
REPAIRS = 2
"""Times that one kernel is given back to be mended."""
TUNING_LIMIT = 10
MEASURED_FROM = 0.97
"""A kernel is measured when it was screened to be at least this part as fast as the best that was screened."""
PATIENCE = 12
"""Rounds in a row without progress before it finishes."""
PLANS_APART = 4
"""Rounds between two requests for ideas, however few came of the first."""
PROGRESS = 1.005
"""A best that is not faster by this factor is no progress."""
PASSED = 0.05
"""The reward of a kernel that passes and is no faster."""


@value
class Rules:
    """What an ablation takes away."""

    contrast: bool = True
    """Kernels of several speeds are shown side by side; without, only `write` and `improve` are asked for."""
    plans: bool = True
    """Ideas are asked for and kept apart from attempts."""
    islands: int = ISLANDS
    tuning: bool = True
    patience: int = PATIENCE


@dataclass
class _Island:
    """What the next brief of an island depends on."""

    broken: Candidate | None = None
    record: Record | None = None
    intent: str = ""
    repairs: int = 0
    note: str = ""
    waiting: list[str] = field(default_factory=list)


class Authored:
    """Proposes what authors write.

    Args:
        write: answers briefs.
        models: names of the models to choose among.
        seed: decides every draw.
        told: records to start from, as another strategy was told them: the seeds.
        limit: proposals at most; None means no limit.
        rules: what to do without.
    """

    name = "authored"

    def __init__(
        self, write: Write, *, models: tuple[str, ...], seed: int, told: Results = (), limit: int | None = None,
        rules: Rules | None = None,
    ) -> None:  # fmt: skip
        self._rules = rules or Rules()
        self._write = write
        self._rng = random.Random(f"authored {seed}")
        self._seed = seed
        kinds: tuple[Kind, ...] = ("contrast", "improve", "write") if self._rules.contrast else ("improve", "write")
        self._models = models
        self._bandit = Bandit((model, kind) for kind in kinds for model in models)
        self._plan = Plan()
        self._world = Islands(self._rules.islands)
        self._states = tuple(_Island() for _ in range(self._rules.islands))
        self._known: dict[tuple[str, Effort], Record] = {}
        self._passed: dict[str, Candidate] = {}
        self._intents: dict[str, str] = {}
        self._fingerprints: dict[str, str] = {}
        self._left = limit
        self._briefs_made = self._next_plan = 0
        self._take(told)
        self._world.seed(self._seeds(told))
        self._turns = Turns(self._batches())

    def ask(self) -> tuple[Proposal, ...]:
        """Returns the next round's kernels; what there is to be written is written before."""
        return self._turns.ask()

    def tell(self, results: Results) -> None:
        """Takes in the records of the present batch."""
        self._turns.tell(results)

    # ------------------------------------------------------------------------- rounds

    def _batches(self) -> Batches:
        idle, best = 0, self._best()
        while idle < self._rules.patience and self._left != 0:
            briefs = tuple(self._brief(place) for place in range(len(self._states)))
            drafts = self._write(briefs)
            if all(draft.stop for draft in drafts):
                return
            yield from self._round(briefs, drafts)
            self._world.turn()
            if self._best() > best * PROGRESS:
                idle, best = 0, self._best()
            elif any(brief.kind != "plan" for brief in briefs):
                idle += 1

    def _round(self, briefs: tuple[Brief, ...], drafts: tuple[Draft, ...]) -> Generator[tuple[Proposal, ...], Results]:
        befores = [self._base(brief, place) for place, brief in enumerate(briefs)]
        fresh = []
        for place, (brief, draft) in enumerate(zip(briefs, drafts, strict=True)):
            for idea in draft.ideas if self._rules.plans else ():
                self._plan.add(idea, parent=brief.intent)
            if self._usable(place, draft) and draft.candidate is not None:
                fresh.append(draft.candidate)
        records = yield from self._judge(fresh, "screen")
        for place, (brief, draft) in enumerate(zip(briefs, drafts, strict=True)):
            self._learn(place, brief, draft, records, befores[place])
        top = max((self._screened(e.candidate) for e in self._world.everything()), default=0.0)
        hopeful = [c for c in fresh if self._screened(c) >= MEASURED_FROM * top and self._screened(c) > 0.0]
        yield from self._judge(hopeful[:2], "measure")
        for place, draft in enumerate(drafts):
            if self._rules.tuning and draft.template is not None and draft.candidate in hopeful:
                yield from self._tune(place, draft)

    def _judge(self, candidates: Iterable[Candidate], effort: Effort) -> Asking:
        """Asks for what is not known; returns the records of all."""
        wanted = {digest(candidate): candidate for candidate in candidates}
        batch = tuple(
            Proposal(candidate=c, effort=effort) for key, c in wanted.items() if (key, effort) not in self._known
        )
        if self._left is not None:
            batch = batch[: self._left]
            self._left -= len(batch)
        if batch:
            self._take((yield batch))
        return {key: self._known[key, effort] for key in wanted if (key, effort) in self._known}

    def _tune(self, place: int, draft: Draft) -> Generator[tuple[Proposal, ...], Results]:
        """Gives a kernel's free parameters to the tuner; the best point joins the island."""
        template = draft.template
        assert template is not None
        limit = TUNING_LIMIT if self._left is None else min(TUNING_LIMIT, self._left)
        tuner = Tune((template,), seed=self._seed, limit=max(1, limit))
        while batch := tuner.ask():
            for effort in ("screen", "measure"):
                asked = [p for p in batch if p.effort == effort]
                records = yield from self._judge([p.candidate for p in asked], asked[0].effort if asked else "screen")
                results = tuple((p, records[digest(p.candidate)]) for p in asked if digest(p.candidate) in records)
                if len(results) < len(asked):
                    return  # the limit is used up
                tuner.tell(results)
                for proposal, _ in results:
                    self._intents.setdefault(digest(proposal.candidate), draft.intent)
                    self._enter(place, proposal.candidate)

    # ---------------------------------------------------------------------- what is due

    def _brief(self, place: int) -> Brief:
        island, archive = self._states[place], self._world.home(place)
        self._briefs_made += 1
        if island.broken is not None and island.repairs < REPAIRS:
            island.repairs += 1
            model = self._arm(("improve",) if archive.best else ("write",))[0]
            return self._filled(
                Brief(
                    kind="repair", model=model, number=self._briefs_made, parent=island.broken, record=island.record,
                    intent=island.intent,
                ), island,
            )  # fmt: skip
        island.broken, island.record, island.repairs = None, None, 0
        if self._rules.plans and self._plan.hungry and place == 0 and self._briefs_made >= self._next_plan:
            self._next_plan = self._briefs_made + PLANS_APART * len(self._states)
            exemplars = contrasted(self._world.everything(), EXEMPLARS, self._rng) if self._rules.contrast else ()
            model = self._models[self._briefs_made % len(self._models)]
            return self._filled(
                Brief(kind="plan", model=model, number=self._briefs_made, exemplars=exemplars), island
            )  # fmt: skip
        exemplars = contrasted(archive.elites, EXEMPLARS, self._rng)
        if len(exemplars) < 2:
            exemplars = contrasted(self._known_kernels(), EXEMPLARS, self._rng)
        allowed: list[Kind] = ["write"]
        allowed += ["improve"] if archive.best else []
        allowed += ["contrast"] if self._rules.contrast and len(exemplars) > 1 else []
        model, kind = self._arm(allowed)
        parent = archive.parent(self._rng) if kind == "improve" else None
        record = self._known.get((digest(parent.candidate), "screen")) if parent else None
        brief = Brief(
            kind=kind, model=model, number=self._briefs_made, intent=self._plan.choose(),
            parent=parent.candidate if parent else None, parent_speed=parent.speed if parent else None,
            record=record, exemplars=exemplars if kind == "contrast" else (),
        )  # fmt: skip
        return self._filled(brief, island)

    def _arm(self, allowed: Iterable[Kind]) -> Arm:
        return self._bandit.choose(allowed)

    def _filled(self, brief: Brief, island: _Island) -> Brief:
        note, island.note = island.note, ""
        return replace(brief, tried=self._plan.tried(TRIED), note=note)

    # --------------------------------------------------------------------- what happened

    def _usable(self, place: int, draft: Draft) -> bool:
        """Tells whether a draft is to be judged; notes for the next brief why not."""
        island = self._states[place]
        if draft.candidate is None or draft.fault:
            island.note = draft.fault
            return False
        mark = fingerprint(draft.candidate)
        known = self._fingerprints.get(mark)
        if known is not None:
            island.note = "that kernel is there already, under other names: " + (
                self._intents.get(known) or "one of those that were judged"
            )
            return False
        self._fingerprints[mark] = digest(draft.candidate)
        return True

    def _learn(self, place: int, brief: Brief, draft: Draft, records: dict[str, Record], before: float) -> None:
        """Takes in what a draft showed: for the bandit, the plan and the island."""
        island = self._states[place]
        key = digest(draft.candidate) if draft.candidate else ""
        record = records.get(key)
        quick = speed(record) if record is not None else None
        gain = (quick / before if before > 0.0 else 1.0) if quick else 0.0
        reward = PASSED + max(0.0, math.log2(gain)) if gain > 0.0 else 0.0
        kind: Kind = "improve" if brief.kind == "repair" else brief.kind
        # Where nothing costs money, tokens are what is scarce.
        self._bandit.reward((draft.model or brief.model, kind), reward, draft.cost_usd or draft.tokens * 1e-9)
        if brief.kind == "plan" or draft.stop:
            return
        intent = brief.intent or draft.intent
        if intent and self._rules.plans:
            self._plan.add(intent)
            if quick is None or before > 0.0:  # the first kernel of all shows nothing about its idea
                self._plan.tell(intent, ran=quick is not None, gain=gain)
        if draft.candidate is None or record is None:
            # Rejected before it was judged: what is said about it goes into the next brief.
            island.broken, island.record = (None, None) if brief.kind != "repair" else (island.broken, island.record)
            return
        self._intents.setdefault(key, draft.intent or intent)
        if quick is None:
            repairs = island.repairs if brief.kind == "repair" else 0
            island.broken, island.record, island.intent = draft.candidate, record, intent
            island.repairs = repairs
            return
        island.broken, island.record, island.repairs = None, None, 0
        self._enter(place, draft.candidate)

    def _enter(self, place: int, candidate: Candidate) -> None:
        quick = self._screened(candidate)
        if quick > 0.0:
            exemplar = Exemplar(candidate=candidate, speed=quick, intent=self._intents.get(digest(candidate), ""))
            self._world.archives[place].add(exemplar)

    def _take(self, results: Results) -> None:
        for proposal, record in results:
            key = digest(proposal.candidate)
            self._known[key, proposal.effort] = record
            self._fingerprints.setdefault(fingerprint(proposal.candidate), key)
            if proposal.effort == "screen" and speed(record) is not None:
                self._passed[key] = proposal.candidate

    def _seeds(self, told: Results) -> list[Exemplar]:
        passed = {digest(p.candidate): p.candidate for p, r in told if speed(r) is not None}
        ranked = sorted(passed.values(), key=lambda c: (-self._screened(c), digest(c)))
        exemplars = [
            Exemplar(candidate=c, speed=self._screened(c), intent=c.template) for c in ranked if self._screened(c) > 0.0
        ]
        # The best, and slower ones from all over: there is something to contrast from the first brief on.
        step = max(1, len(exemplars) // SEEDS)
        return exemplars[:1] + exemplars[1::step][: SEEDS - 1]

    def _known_kernels(self) -> tuple[Exemplar, ...]:
        """Returns every kernel that passed, slow ones included: what an archive forgets is good for contrast."""
        return tuple(
            Exemplar(candidate=candidate, speed=self._screened(candidate), intent=self._intents.get(key, ""))
            for key, candidate in self._passed.items()
        )

    def _screened(self, candidate: Candidate) -> float:
        record = self._known.get((digest(candidate), "screen"))
        return (speed(record) or 0.0) if record is not None else 0.0

    def _base(self, brief: Brief, place: int) -> float:
        """Returns the speed that a draft has to beat: its parent's, or the island's best."""
        best = self._world.home(place).best
        return brief.parent_speed or (best.speed if best else 0.0)

    def _best(self) -> float:
        """Returns the greatest measured speed, or screened where nothing was measured."""
        measured = [s for (_, effort), r in self._known.items() if effort == "measure" and (s := speed(r))]
        return max(measured, default=max((e.speed for e in self._world.everything()), default=0.0))
