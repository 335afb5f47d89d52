"""Judging one candidate: is it right, is its time honest, how fast is it.

The order: start its runner; for each draw of each family two calls, on different slots, with
different patterns in everything that is undefined; then timed rounds whose outputs are checked as
well. The first fault ends the judgement: a wrong kernel has no time.
"""

from __future__ import annotations

import contextlib
import os
import statistics as plain_statistics
import time
from collections.abc import Callable, Iterable, Sequence

import torch

from kernelwright.axes import sizes_of
from kernelwright.judge import integrity, timing
from kernelwright.judge.artifacts import read_artifact
from kernelwright.judge.baselines import EAGER, Baseline
from kernelwright.judge.correctness import Bound
from kernelwright.judge.draws import Draw
from kernelwright.judge.exact_bound import Finding
from kernelwright.judge.findings import Findings, Timely, Unfit
from kernelwright.judge.runner import Runner, RunnerKilled, RunnerStopped, sealed_copy
from kernelwright.judge.session import Session
from kernelwright.judge.shapes import FAMILIES as HIDDEN_FAMILIES
from kernelwright.judge.shapes import Shape
from kernelwright.judge.slots import POISONS, Workspaces, half
from kernelwright.languages import emulation
from kernelwright.sizes import evaluate
from kernelwright.types import Artifact, Candidate, Check, Failure, Judgement, Policy, Verdict, replace

COMPARED_KINDS = ("plain", "wild", "nan")
"""Kinds of contents of which one timed call each is compared in every round; which one, the candidate cannot know."""
RUNNERS = 4
"""How often a candidate is tried whose runner is killed from outside."""
SAMPLED_PLACES = 16
GLANCED_SLOTS, GLANCED_BLOCKS, MOST_SUSPECTS = 64, 2.0, 4
"""Timed calls of a round that are compared at a few places, the blocks' time that may take, and how many of those
that differ are compared whole."""
GUARDED_SLOTS = 16
MANY_ROUNDS = 9
"""From which on surprises come in the middle as well."""
LATER_ROUNDS, LATER_CALLS = 4, 6
"""Where nothing is timed: rounds of calls on fresh inputs, and the calls of one."""
WORKSPACE_SHARE = 0.25
"""Of the free memory, for a candidate's workspaces."""
CHECKS = (
    "inputs unchanged",
    "guards",
    "written",
    "non-finite",
    "accuracy",
    "hidden shapes",
    "deterministic",
    "timed outputs",
    "later outputs",
    "calls",
    "clock",
    "floor",
)


NO_TIMES = "emulated: this says whether the kernel is right, and nothing about its time"
"""Of a policy without rounds."""


def examine(session: Session, candidate: Candidate, artifact: Artifact, policy: Policy) -> Failure | Judgement:
    """Returns what the judge finds about one built candidate."""
    axes = sizes_of(session.problem)
    size = sum(evaluate(w.size_bytes, axes) for w in candidate.plan.workspaces)
    if size > WORKSPACE_SHARE * session._free_bytes:
        message = f"the plan's workspaces need {size / 2**20:.0f} MiB, too much for this machine"
        return Failure(stage="run", kind="memory", message=message)
    workspaces = Workspaces(candidate.plan.workspaces, axes)
    try:
        for _ in range(RUNNERS - 1):
            with contextlib.suppress(RunnerKilled):  # by somebody else: once more
                return _Examination(session, candidate, policy, workspaces).run(artifact)
        return _Examination(session, candidate, policy, workspaces).run(artifact)
    except RunnerStopped as stopped:
        return stopped.failure
    finally:
        workspaces.region.close()
        session.release()


class _Examination(Timely):
    def __init__(self, session: Session, candidate: Candidate, policy: Policy, workspaces: Workspaces) -> None:
        self.session, self.candidate, self.policy, self.workspaces = session, candidate, policy, workspaces
        self.slots, self.draws, self.found = session.slots, session.draws, Findings()
        self.sizes, self.place = sizes_of(session.problem), ""
        self.deadline = time.monotonic() + policy.deadline_s

    def run(self, artifact: Artifact) -> Failure | Judgement:
        # Stale answers of the candidate before must not be found in the outputs' memory.
        self.slots.restore_guards()
        runner = self._start(artifact)
        try:
            return self._judge(runner, artifact)
        except Unfit as unfit:
            return Judgement(verdict=Verdict(checks=(*self._passed(unfit.check.name), unfit.check)))
        finally:
            runner.close()

    def _start(self, artifact: Artifact) -> Runner:
        library = sealed_copy(read_artifact(artifact))
        try:
            return Runner(
                self.session.program,
                library,
                self.slots,
                self.workspaces,
                threads=self.session.target.threads,
                cpu_seconds=self.policy.deadline_s * self.session.target.threads,
                call_deadline_s=self.policy.call_deadline_s,
                explain=emulation.explain if emulation.is_emulated(self.session.target) else None,
                axes=tuple(self.sizes.values()),
            )
        finally:
            os.close(library)

    def _judge(self, runner: Runner, artifact: Artifact | None = None) -> Failure | Judgement:
        pause_ns = timing.latency_ns(runner)
        for number in range(self.policy.draws):
            for family in self.policy.families:
                if time.monotonic() > self.deadline:
                    return self._late("the correctness checks were not through")
                if draw := self._unhurried(lambda f=family, n=number: self.session.draw(f, n)):  # type: ignore[misc]
                    self._check_draw(runner, draw)
        # Without an artifact it is Python that is judged, which has no problem whose sizes vary.
        shapes = self._unhurried(lambda: self.session.shapes(self.policy.hidden_shapes)) if artifact else ()
        for shape in shapes:
            assert artifact is not None
            if time.monotonic() > self.deadline:
                return self._late("the hidden shapes were not through")
            self._check_shape(shape, artifact)
        self._note_correctness()
        session = self.session
        if not self.policy.rounds:
            self._check_later(runner)
            notes = (*session.notes(self.policy), NO_TIMES)
            return Judgement(verdict=Verdict(checks=self._passed(None)), notes=notes)
        runner.perturb(0)
        estimate_us = self._estimate_us(runner)
        baselines = self._unhurried(lambda: session.ready_baselines(self.policy))
        session.say({"state": f"timing {self.policy.rounds} rounds"})
        samples, fault = timing.run_rounds(
            self.policy,
            slots=self.slots,
            baselines=baselines,
            refresh=self._refresh,
            inspect=self._inspect,
            rng=session.rng,
            runner=runner,
            announce=self._announce,
            surprise=self._surprises(runner),
            estimate_us=estimate_us,
            pause_ns=pause_ns,
            deadline=self.deadline,
        )
        for check, what in (("timed outputs", fault), ("calls", samples.bait_taken), ("clock", samples.forged)):
            if what:
                raise Unfit(check, what)
        if samples.rounds < self.policy.rounds:
            return self._late(f"{samples.rounds} of {self.policy.rounds} rounds were done")
        self._check_time(samples)
        return Judgement(
            verdict=Verdict(checks=self._passed(None)),
            measurements=timing.measurements(
                samples,
                self.policy,
                workload=session.problem.workloads[0].name,
                cold=self.slots.cold,
                threads=session.target.threads,
            ),
            comparisons=timing.comparisons(samples, self.policy),
            noise=timing.noise(samples, self.policy),
            notes=session.notes(self.policy),
        )

    # ------------------------------------------------------------------------------------------- correctness

    def _check_shape(self, shape: Shape, artifact: Artifact) -> None:
        """The same checks at other sizes, in a process of their own with buffers of their own."""
        inner = self._at(shape)
        shape.slots.restore_guards()
        try:
            runner = inner._start(artifact)
            try:
                for family in HIDDEN_FAMILIES:
                    draw = self._unhurried(lambda f=family: shape.draws.draw(f, 0))  # type: ignore[misc]
                    if draw:
                        inner._check_draw(runner, draw)
            finally:
                runner.close()
        except RunnerStopped as stopped:
            failure = replace(stopped.failure, message=f"{shape.text}: {stopped.failure.message}")
            raise RunnerStopped(failure) from None
        finally:
            inner.workspaces.region.close()
        self.found.shapes.append(shape.text)

    def _at(self, shape: Shape) -> _Examination:
        inner = _Examination(self.session, self.candidate, self.policy, self.workspaces)
        inner.slots, inner.draws, inner.sizes, inner.place = shape.slots, shape.draws, shape.sizes, f"{shape.text}, "
        inner.workspaces, inner.found = Workspaces(self.candidate.plan.workspaces, shape.sizes), self.found
        return inner

    def _check_draw(self, runner: Runner, draw: Draw) -> None:
        """Two calls on different slots, everything undefined filled with different patterns."""
        slots = self.session.rng.permutation(self.slots.count)[:2].tolist()
        for memory, values in zip(self.slots.parameters, draw.parameters, strict=True):
            memory.copy_(values)
        for slot, poison in zip(slots, POISONS, strict=True):
            for memory, values in zip(self.slots.inputs[slot], draw.inputs, strict=True):
                memory.copy_(values)
            self.slots.poison((slot,), poison)
            self.workspaces.poison(poison)
            runner.perturb(poison)
            runner.run((slot,))
        where = f"{self.place}family {draw.family}, draw {draw.number}"
        self._check_guards(slots, where)
        self._check_written(slots, where)
        equal = all(torch.equal(self.slots.raw(slots[0], i), self.slots.raw(slots[1], i)) for i in self._outputs())
        for slot in slots[: 1 if equal else 2]:
            for finding in self._settled(draw.bounds, slot):
                if not finding.passed:
                    raise Unfit(finding.check, f"{where}: {finding.evidence}")
                if finding.ratio >= self.found.worst:
                    self.found.worst, self.found.worst_where = finding.ratio, where
        self.found.draws += 1
        self.found.pairs_equal += equal

    def _outputs(self) -> range:
        return range(len(self.session.problem.outputs))

    def _elements(self) -> int:
        return sum(tensor.numel() for tensor in (*self.slots.inputs[0], *self.slots.outputs[0]))

    def _check_guards(self, slots: Sequence[int], where: str) -> None:
        place = self.slots.broken_guard(slots) or self.workspaces.broken_guard()
        if place:
            raise Unfit("guards", f"{where}: something was written {place}")

    def _check_written(self, slots: Sequence[int], where: str) -> None:
        for index in self._outputs():
            name = self.session.problem.outputs[index].name
            left = self.slots.words(slots[0], index) == self.slots.poison_word(index, POISONS[0])
            if bool(left.any()):
                left &= self.slots.words(slots[1], index) == self.slots.poison_word(index, POISONS[1])
            if bool(left.any()):
                evidence = f"{int(left.sum())} of {left.numel()} elements of {name} were never written"
                raise Unfit("written", f"{where}: {evidence}")
            if self.session.problem.outputs[index].dtype == "bool" and bool(
                (self.slots.raw(slots[0], index) > 1).any()
            ):
                raise Unfit("written", f"{where}: {name} holds bytes that are no booleans")

    def _findings(self, bounds: Sequence[Bound], slot: int) -> list[Finding]:
        return [bound.check(output) for bound, output in zip(bounds, self.slots.outputs[slot], strict=True)]

    def _settled(self, bounds: Sequence[Bound], slot: int) -> list[Finding]:
        """What a slot's bounds find; where that is doubtful, what closer ones find. Few candidates need them."""
        slots = self.slots
        found, closer = self.draws.settled(bounds, slots.outputs[slot], slots.inputs[slot], slots.parameters)
        self.found.closer += closer
        return found

    def _note_correctness(self) -> None:
        found, evidence = self.found, self.found.evidence
        evidence["inputs unchanged"] = "mapped read-only; a write would have ended the run"
        evidence["guards"] = f"untouched in {2 * found.draws} calls"
        evidence["written"] = f"every element, in {found.draws} draws with two patterns of poison"
        evidence["non-finite"] = f"NaN and infinities where the reference has them, {found.draws} draws"
        closer = f", {found.closer} outputs after a closer look" if found.closer else ""
        evidence["accuracy"] = f"largest error {found.worst:.2g} of the bound ({found.worst_where}){closer}"
        if found.shapes:
            evidence["hidden shapes"] = f"right at {'; '.join(found.shapes)}"
        same = "all" if found.pairs_equal == found.draws else f"{found.pairs_equal} of {found.draws}"
        evidence["deterministic"] = f"{same} pairs of calls agree bit for bit; every call is within bounds"

    def _check_later(self, runner: Runner) -> None:
        """Where nothing is timed: calls on fresh inputs that do not begin with everything undefined filled anew.

        Half of the outputs hold what an earlier call has left, and the workspaces always do.
        """
        session, slots = self.session, self.slots
        runner.perturb(0)
        order = session.rng.permutation(slots.count).tolist()
        called, bait = order[:LATER_CALLS], order[LATER_CALLS : LATER_CALLS + timing.BAIT]
        slots.poison(bait, POISONS[0])
        families = session.surprises.families(self.policy.families, self._elements())
        for number in range(max(LATER_ROUNDS, -(-len(families) // len(called)))):
            session.refresh(called)
            slots.poison(half(called, session.rng), POISONS[0])
            runner.run(session.rng.permutation(called).tolist())
            if any(not slots.holds(slot, POISONS[0]) for slot in bait):
                raise Unfit("calls", "outputs of a call that was never made were written")
            if fault := self._compare(called, called):
                raise Unfit("later outputs", fault.replace("a timed call", "a later call"))
            some = families[number * len(called) : (number + 1) * len(called)]
            if some and (fault := self._surprise(runner, called, some)):
                raise Unfit("later outputs", fault.replace("a timed call", "a later call"))
        compared = f"{self.found.compared} outputs of {LATER_ROUNDS} rounds of later calls compared"
        self.found.evidence["later outputs"] = compared
        self.found.evidence["calls"] = "nothing was written for calls that were not made"

    # ------------------------------------------------------------------------------------------------ timing

    def _estimate_us(self, runner: Runner) -> float:
        block = runner.run(self.session.rng.permutation(self.slots.count)[:5].tolist())
        return float((block.ends - block.starts).min()) / 1e3

    def _announce(self, called: Sequence[int]) -> None:
        """Nothing: a native process has nothing to clear up or to make ready."""

    def _refresh(self, called: Sequence[int]) -> None:
        self.session.refresh(called)

    def _inspect(self, called: Sequence[int]) -> str | None:
        """Looks at the outputs of a round's timed calls; returns what is wrong with them."""
        return self._compare(called, self._suspects(called))

    def _surprises(self, runner: Runner) -> Callable[[Sequence[int], bool], str | None]:
        """Returns what makes calls on contents of families: once at a random moment, where there are many rounds, and
        after the last one. Blocks of fewer calls than there are families need more moments.
        """
        families = self.session.surprises.families(self.policy.families, self._elements())
        rounds, seen = self.policy.rounds, 0
        waiting: list[list[str]] = []

        def surprise(called: Sequence[int], last: bool) -> str | None:
            nonlocal seen
            if not seen:
                parts = [families[i : i + len(called)] for i in range(0, len(families), len(called))]
                once_more = parts if len(parts) == 1 and rounds >= MANY_ROUNDS else []
                waiting[:] = [*once_more, *parts]
            seen += 1
            # Every remaining moment is as likely as any other; one is always left for the last.
            chance = (len(waiting) - 1) / max(1, rounds - seen + 1)
            while waiting and (last or self.session.rng.random() < chance):
                if fault := self._surprise(runner, called, waiting.pop()):
                    return fault
                if not last:
                    break
            return None

        return surprise

    def _surprise(self, runner: Runner, called: Sequence[int], families: Sequence[str]) -> str | None:
        """Calls on some slots, some of which hold contents of families; returns what is wrong with an output there."""
        session, slots = self.session, self.slots
        self._announce(called)
        self._refresh(called)
        by_slot = dict(zip(session.rng.permutation(called).tolist(), families, strict=False))
        for slot, family in by_slot.items():
            session.surprises.write(family, slots.inputs[slot])
        slots.poison(half(called, session.rng), POISONS[0])
        runner.run(called)
        for slot, family in by_slot.items():
            profiles = session.surprises.profiles(family)
            if fault := self._compare(called, [slot], profiles):
                return f"{fault} (contents of family {family})"
        return None

    def _compare(
        self, called: Sequence[int], suspects: Iterable[int], profiles: Sequence[integrity.Profile | None] | None = None
    ) -> str | None:
        """Looks at the guards of a round's calls and at all of some calls' outputs; returns what is wrong."""
        if place := self.slots.broken_guard(called[:GUARDED_SLOTS]):
            return f"something was written {place}"
        eager = self._eager()
        for slot in suspects:
            self.found.compared += 1
            outputs = self.slots.outputs[slot]
            if integrity.doubtful(outputs, eager.outputs(slot), profiles or self.session.profiles, self.session.rng):
                self.found.doubts += 1
                for finding in self._settled(self.session.bounds_of_slot(slot), slot):
                    if not finding.passed:
                        return f"a timed call gave another answer than the checked ones: {finding.evidence}"
        return None

    def _suspects(self, called: Sequence[int]) -> set[int]:
        """Slots whose outputs are to be compared whole: one of each kind of contents, and what looks wrong."""
        rng = self.session.rng
        by_kind = {self.session.kinds[slot]: slot for slot in rng.permutation(called).tolist()}
        suspects = {by_kind[kind] for kind in COMPARED_KINDS if kind in by_kind}
        suspects.update(rng.permutation(called)[: len(COMPARED_KINDS) - len(suspects)].tolist())
        suspects.update(self._unwritten(called))
        suspects.update(self._different(rng.permutation(called).tolist()))
        return suspects

    def _eager(self) -> Baseline:
        eager = self.session.baseline(EAGER)
        assert isinstance(eager, Baseline)
        return eager

    def _places(self, index: int) -> torch.Tensor:
        """Places of an output, drawn anew in every round."""
        count = self.slots.outputs[0][index].numel()
        return torch.from_numpy(self.session.rng.integers(0, max(1, count), min(count, SAMPLED_PLACES)))

    def _unwritten(self, called: Sequence[int]) -> list[int]:
        """Slots that still hold poison at some of a few places."""
        found: list[int] = []
        for index, spec in enumerate(self.session.problem.outputs):
            words = self.slots.sampled_words(called, index, self._places(index))
            if spec.dtype not in ("bool", "uint8", "int8"):
                left = (words == self.slots.poison_word(index, POISONS[0])).any(dim=1)
                found += [called[i] for i in left.nonzero().flatten().tolist()[:2]]
        return found

    def _different(self, called: Sequence[int]) -> list[int]:
        """Slots whose outputs differ from the reference's own at some of a few places.

        Of as many slots as the reference can be called on in the time of two blocks: what is done in every
        tenth call only does not stay unseen.
        """
        eager = self._eager()
        budget = GLANCED_BLOCKS * self.policy.block_us / max(eager.estimate_us, 1.0)
        glanced = called[: max(1, min(GLANCED_SLOTS, int(budget)))]
        own = [eager.outputs(slot) for slot in glanced]
        places = [self._places(index) for index in self._outputs()]
        found: list[int] = []
        for position, slot in enumerate(glanced):
            outputs = [output.reshape(-1)[at] for output, at in zip(self.slots.outputs[slot], places, strict=True)]
            theirs = [output.reshape(-1)[at] for output, at in zip(own[position], places, strict=True)]
            if integrity.doubtful(outputs, theirs, self.session.profiles, self.session.rng):
                found.append(slot)
        self.found.glanced += len(glanced)
        return found[:MOST_SUSPECTS]

    def _check_time(self, samples: timing.Samples) -> None:
        found, session = self.found, self.session
        found.evidence["timed outputs"] = (
            f"{found.glanced} outputs of timed calls compared at some places, {found.compared} whole, "
            f"{found.doubts} in float64"
        )
        found.evidence["calls"] = "nothing was written for calls that were not made"
        kept = len(samples.times_us[timing.CANDIDATE])
        if kept < self.policy.rounds:
            raise Unfit("clock", f"{len(samples.clock_faults)} of {samples.rounds} blocks: {samples.clock_faults[0]}")
        found.evidence["clock"] = f"both clocks agree on {kept} of {samples.rounds} blocks"
        fastest_us = float(plain_statistics.median(samples.times_us[timing.CANDIDATE]))
        floor_us = session.must_move_bytes / (integrity.FLOOR_MARGIN * session.bandwidth) * 1e6
        text = (
            f"{fastest_us:.2f} µs for at least {session.must_move_bytes} bytes; "
            f"a plain sum reads {session.bandwidth / 1e9:.1f} GB/s"
        )
        if fastest_us < floor_us and fastest_us < session.floor_us():
            raise Unfit("floor", f"faster than memory can be: {text}")
        found.evidence["floor"] = text

    def _passed(self, failed: str | None) -> tuple[Check, ...]:
        return self.found.passed(CHECKS, but=failed)
