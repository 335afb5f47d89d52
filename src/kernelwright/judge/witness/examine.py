"""Judging one witnessed candidate: what a sealed one is held to, and what only Python can do.

The procedure is the sealed candidate's (examine.py above): families, draws, bounds, poison, rounds. More than that:
structure, environment, threads, processes; every output of a timed call is compared, not a sample; of each draw
one call is at addresses that earlier calls have seen with other contents, the other at new ones.

Not here: the process (witness.py) and what is right (correctness.py).
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Sequence

import torch

from kernelwright.errors import UserError
from kernelwright.judge import conditions, integrity, timing
from kernelwright.judge.baselines import EAGER, Baseline
from kernelwright.judge.draws import Draw
from kernelwright.judge.examine import CHECKS, _Examination
from kernelwright.judge.findings import Unfit
from kernelwright.judge.runner import Runner, RunnerKilled, RunnerStopped
from kernelwright.judge.session import Session
from kernelwright.judge.slots import POISONS, Region, Workspaces
from kernelwright.judge.witness.describing import describe
from kernelwright.judge.witness.spans import CALLS, MARK_BYTES, span_check
from kernelwright.judge.witness.spares import Spares
from kernelwright.judge.witness.witness import Witness, setup_of, stamps_region
from kernelwright.types import Artifact, Candidate, Check, Failure, Judgement, Policy, Verdict, replace

COMPILING = {**conditions.COMPILING, "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0"}
"""For candidates that use torch.compile. Nothing that it compiles outlives their process: a header compiled ahead and
trial compilations for each instruction set that the processor names would serve one kernel, and cost most of its first
call (15 of 23 processor seconds; torch 2.13, g++ 12, two cores of an EPYC)."""
MORE_CHECKS = ("structure", "environment", "threads", "processes")
NOTE = (
    "witnessed: the author's own Python ran in the measured process. It was judged from outside, but only sealed "
    "kernels can be deployed without a warning"
)
COMPARED_ELEMENTS = 1 << 22
"""Elements of timed outputs that are compared in one round; beyond them a random sample of the calls."""
WITNESSES = 3
"""How often a candidate is tried whose process is killed or stopped: it may have been somebody else."""
KEPT = (
    "in a new process state the same call is right, so something is kept from earlier calls: answers, or values made "
    "from inputs or parameters. Both change between calls; whatever depends on them must be made in each call"
)

SPAN, NO_SPAN = "; an all-stream span by CUPTI agrees", "; no all-stream span by CUPTI ({why})"
_unrecorded: weakref.WeakKeyDictionary[Session, str] = weakref.WeakKeyDictionary()
"""Sessions in which calls of the harness's own cannot be recorded either, and why."""
_spares: weakref.WeakKeyDictionary[Session, tuple[Spares, Region]] = weakref.WeakKeyDictionary()


def examine_witnessed(
    session: Session, candidate: Candidate, artifact: Artifact, policy: Policy
) -> Failure | Judgement:
    """Returns what the judge finds about one witnessed candidate."""
    del artifact  # its sources are the candidate's, and its key said so
    workspaces = Workspaces(())
    try:
        for _ in range(WITNESSES - 1):
            with contextlib.suppress(RunnerKilled):  # by itself, or by somebody else: once more
                return _Witnessed(session, candidate, policy, workspaces).run_witnessed()
        return _Witnessed(session, candidate, policy, workspaces).run_witnessed()
    except RunnerStopped as stopped:
        return stopped.failure
    finally:
        workspaces.region.close()


def _spares_of(session: Session) -> tuple[Spares, Region]:
    if session not in _spares:
        if not session.slots.input.only_ours:
            raise UserError(
                "this kernel cannot keep Python from writing to the judge's inputs", "use Linux 5.1 or newer"
            )
        stamps = stamps_region()
        # Both live as long as the session does: a process that waits must be able to map them.
        fds = (session.slots.input.read_only_fd(), session.slots.output.fd, stamps.fd)
        variables = conditions.environment(session.target.threads, bound=session.device == "cpu") | COMPILING
        memory_bytes = int(describe(session)["memory_bytes"])
        devices = () if session.device == "cpu" else ("nvidia",)
        made = Spares(fds, variables, memory_bytes=memory_bytes, devices=devices)
        _spares[session] = (made, stamps)
        session.at_close.append(made.close)
    return _spares[session]


class _Witnessed(_Examination):
    witness: Witness
    span = ""

    def run_witnessed(self) -> Failure | Judgement:
        """Returns the judgement, or why there is none."""
        self.slots.restore_guards()
        self._spares, self._stamps = _spares_of(self.session)
        self.witness = self._witness()
        try:
            self._pair = self.session.rng.permutation(self.slots.count)[:2].tolist()
            self._first_contents()
            self.witness.load(self.candidate.sources)
            outcome = self._judge(self.witness)  # type: ignore[arg-type]
            return self._labelled(outcome) if isinstance(outcome, Judgement) else outcome
        except Unfit as unfit:
            failed = Verdict(checks=(*self._passed(unfit.check.name), unfit.check))
            return Judgement(verdict=failed, notes=(NOTE,))
        finally:
            self.witness.close()
            self._spares.begin()

    def _witness(self) -> Witness:
        """A process for these slots, without the candidate."""
        slots, session = self.slots, self.session
        return Witness(
            self._spares.take(),
            slots,
            self._stamps,
            setup_of(slots, self._stamps, describe(session)),
            load_deadline_s=max(1.0, self.deadline - time.monotonic()),
            call_deadline_s=self.policy.call_deadline_s,
        )

    def _first_contents(self) -> None:
        """The first call sees an ordinary draw; its result is looked at but not compared."""
        draw = self.session.draw("given", 0)
        assert draw is not None
        self._write(draw, 0)

    def _write(self, draw: Draw, slot: int) -> None:
        for memory, values in zip(self.slots.parameters, draw.parameters, strict=True):
            memory.copy_(values)
        for memory, values in zip(self.slots.inputs[slot], draw.inputs, strict=True):
            memory.copy_(values)

    # ------------------------------------------------------------------------------------------- correctness

    def _check_draw(self, runner: Runner, draw: Draw) -> None:
        """Two calls: at addresses seen before with other contents, and at new ones."""
        where = f"family {draw.family}, draw {draw.number}"
        self._call_twice(runner, draw)
        slots = self._pair
        self._check_guards(slots, where)
        self._check_written(slots, where)
        equal = all(torch.equal(self.slots.raw(slots[0], i), self.slots.raw(slots[1], i)) for i in self._outputs())
        for slot in slots[: 1 if equal else 2]:
            for finding in self._settled(draw.bounds, slot):
                if not finding.passed:
                    hint = f"; {KEPT}" if self._is_right_anew(runner, draw) else ""
                    raise Unfit(finding.check, f"{where}: {finding.evidence}{hint}")
                if finding.ratio >= self.found.worst:
                    self.found.worst, self.found.worst_where = finding.ratio, where
        self.found.draws += 1
        self.found.pairs_equal += equal

    def _call_twice(self, runner: Runner, draw: Draw) -> None:
        for slot, poison, moved in zip(self._pair, POISONS, (False, True), strict=True):
            self._write(draw, slot)
            self.slots.poison((slot,), poison)
            runner.perturb(poison)
            self.witness.moved = moved
            runner.run((slot,))
        self.witness.moved = False

    def _is_right_anew(self, runner: Runner, draw: Draw) -> bool:
        """Tells whether the candidate, made anew, is right where it was just wrong."""
        if not self.found.draws:
            return False
        try:
            self.witness.renew()
            self._call_twice(runner, draw)
        except (Unfit, RunnerStopped):
            return False
        return all(finding.passed for slot in self._pair for finding in self._findings(draw.bounds, slot))

    def _note_correctness(self) -> None:
        super()._note_correctness()
        self._spares.settle()
        evidence, calls = self.found.evidence, 2 * self.found.draws
        evidence["inputs unchanged"] = f"neither inputs nor parameters were written to in {calls} calls"
        evidence["guards"] = f"untouched in {calls} calls"
        evidence["structure"] = (
            "type, tree, shape, dtype, strides, device and memory of every result are the reference's"
        )
        evidence["environment"] = "flags, modes, hooks and torch's functions are as they were before it was loaded"
        evidence["threads"] = "none that it started was left after a call, seen from outside"
        evidence["processes"] = "none that it started was left after a call, seen from outside"

    # ------------------------------------------------------------------------------------------------ timing

    def _estimate_us(self, runner: Runner) -> float:
        if self.session.device != "cpu":
            # Every slot's graph is captured before anything counts.
            runner.run(range(self.slots.count))
        estimate_us = super()._estimate_us(runner)
        self.witness.extras_ns.clear()
        return estimate_us

    def _check_time(self, samples: timing.Samples) -> None:
        """Has the candidate pay for what it made the judge's own part take: the usual block says how much that is."""
        extra_us = self.witness.extra_us()
        calls = samples.calls[timing.CANDIDATE]
        samples.times_us[timing.CANDIDATE] = [t + extra_us / calls for t in samples.times_us[timing.CANDIDATE]]
        super()._check_time(samples)
        if extra_us:
            self.found.evidence["clock"] += f"; {extra_us:.0f} µs a block were added for what ran between calls"
        if self.session.device != "cpu":
            self._check_span()

    def _check_span(self) -> None:
        """Has one more block recorded. What fails is the candidate's if calls of the harness's own do not fail so."""
        if self.session not in _unrecorded:
            check = self._recorded(self.witness)
            if check.passed:
                self.span, self.found.evidence["span"] = SPAN, check.evidence
                return
            with contextlib.closing(self._witness()) as other:
                own = self._recorded(other)
            if own.passed:
                raise Unfit("span", check.evidence)
            _unrecorded[self.session] = own.evidence
        self.span = NO_SPAN.format(why=_unrecorded[self.session])

    def _recorded(self, witness: Witness) -> Check:
        """A block on fresh contents, recorded; the candidate's outputs are compared as those of timed ones are."""
        rng = self.session.rng
        called, marks = rng.permutation(self.slots.count)[:CALLS].tolist(), rng.permutation(MARK_BYTES)[:2].tolist()
        witness.rest()
        self._refresh(called)
        self.slots.poison(called, POISONS[0])
        try:
            told = witness.recorded(called, marks)
        except RunnerStopped as stopped:
            return Check(name="span", passed=False, evidence=f"while it was recorded, {stopped.failure.message}")
        if witness is self.witness and (fault := self._inspect(called)):
            raise Unfit("timed outputs", fault)
        views = all(describe(self.session)["aliases"])
        return span_check(told, marks=marks, calls=len(called), least=0 if views else len(called))

    def _announce(self, called: Sequence[int]) -> None:
        """What the judge's own part needs is made before there is anything to compute from."""
        if self.session.device == "cpu":
            self.session.refresh_parameters()
            self.witness.announce(called)
        else:
            self.witness.rest()

    def _refresh(self, called: Sequence[int]) -> None:
        # On a CPU the parameters were refreshed when the block was announced.
        self.session.refresh(called, parameters=self.session.device != "cpu")

    def _inspect(self, called: Sequence[int]) -> str | None:
        """Compares the outputs of all calls of a round, as far as they are not too large."""
        if fault := super()._inspect(called):
            return fault
        session, rng = self.session, self.session.rng
        eager = session.baseline(EAGER)
        assert isinstance(eager, Baseline)
        elements = max(1, sum(t.numel() for t in self.slots.outputs[0]))
        most = max(1, COMPARED_ELEMENTS // elements)
        for slot in rng.permutation(called)[:most].tolist():
            self.found.compared += 1
            if integrity.doubtful(self.slots.outputs[slot], eager.outputs(slot), session.profiles, rng):
                self.found.doubts += 1
                for finding in self._findings(session.bounds_of_slot(slot), slot):
                    if not finding.passed:
                        return f"a timed call gave another answer than the checked ones: {finding.evidence}"
        return None

    def _passed(self, failed: str | None) -> tuple[Check, ...]:
        names = (*CHECKS[:3], *MORE_CHECKS, *CHECKS[3:], "span")
        return self.found.passed(names, but=failed)

    def _labelled(self, judgement: Judgement) -> Judgement:
        used = self.witness.operators()
        label = (
            f"it calls torch's operators: {', '.join(used)}"
            if used
            else "it was seen to call none of torch's operators"
        )
        kept = tuple(f"while loading, in its own process, {text}" for text in self.witness.accepted)
        native = "called from a native process of its own, outputs given"
        own = f"{self.witness.method}{self.span}, outputs its own and copied away afterwards"
        measurements = tuple(
            replace(m, method=m.method.replace(native, own)) if m.contender == "candidate" else m
            for m in judgement.measurements
        )
        return replace(judgement, measurements=measurements, notes=(NOTE, label, *kept, *judgement.notes))
