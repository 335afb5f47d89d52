"""Judging one candidate on the device: is it right, is its time honest, how fast is it.

The order: load it, check its launches; for each draw of each family two calls, on different slots, with
different patterns in everything that is undefined, and only then the bounds are unsealed; then timed rounds
whose outputs are checked as well. The first fault ends the judgement: a wrong kernel has no time.
"""

from __future__ import annotations

import statistics as plain_statistics
import time
from collections.abc import Callable, Sequence

import torch

from kernelwright.axes import sizes_of
from kernelwright.judge import integrity
from kernelwright.judge.artifacts import read_artifact
from kernelwright.judge.baselines import EAGER
from kernelwright.judge.correctness import Bound
from kernelwright.judge.device import comparing, floors, memory_check, rounds
from kernelwright.judge.device.arena import DeviceWorkspaces
from kernelwright.judge.device.baselines import DeviceBaseline
from kernelwright.judge.device.conditions import Conditions
from kernelwright.judge.device.contents import ALIKE
from kernelwright.judge.device.draws import DeviceDraw
from kernelwright.judge.device.executor import BoundPlan, Executor, Loaded, Replay
from kernelwright.judge.device.faults import DeviceFault
from kernelwright.judge.device.session import DeviceSession
from kernelwright.judge.device.shapes import DeviceShape
from kernelwright.judge.exact_bound import Finding
from kernelwright.judge.findings import Findings, Timely, Unfit
from kernelwright.judge.shapes import FAMILIES as HIDDEN_FAMILIES
from kernelwright.judge.slots import POISONS, half
from kernelwright.judge.timing import CANDIDATE
from kernelwright.sizes import evaluate
from kernelwright.types import Artifact, Candidate, Check, Failure, Judgement, Measurement, Policy, Verdict, replace

COMPARED_KINDS = ("plain", "wild", "nan", ALIKE)
COMPARED = 5
"""Slots of each round that are compared with the reference's answer."""
COMPARED_ELEMENTS = 1 << 24
"""Outputs with up to this many elements are compared whole, larger ones in random runs of elements where there is no
kernel of our own that compares them whole."""
SAMPLED_PLACES = 16
WORKSPACE_SHARE = 0.25
SETTLING_CALLS = 3
CHECKS = (
    "inputs unchanged", "guards", "written", "non-finite", "accuracy", "deterministic", "hidden shapes",
    "timed outputs", "calls", "clock", "floor", *memory_check.TOOLS,
)  # fmt: skip


class CandidateContender:
    """The candidate in the timed rounds: its plan on some slots, captured as one graph."""

    def __init__(self, executor: Executor, plan: Callable[[int], BoundPlan], count: int, deadline_s: float) -> None:
        self.name, self.captured, self.estimate_us = CANDIDATE, True, 0.0
        self._executor, self._plan, self._count, self._deadline_s = executor, plan, count, deadline_s
        self._slots: tuple[int, ...] = ()
        self._replay: Replay | None = None

    def aim(self, slots: tuple[int, ...]) -> None:
        """Captures one execution on each of the slots, in this order."""
        if slots != self._slots:
            self._slots = slots
            for slot in slots:
                self._plan(slot)  # bound before capturing begins
            self._replay = self._executor.capture(self._all)

    def _all(self) -> None:
        for slot in self._slots:
            self._executor.issue(self._plan(slot))

    def launch(self) -> None:
        """Enqueues the graph."""
        assert self._replay is not None
        self._replay.launch()

    def call(self, slot: int) -> object:
        """Enqueues one execution by itself."""
        self._executor.issue(self._plan(slot))
        return None

    def settle(self) -> None:
        """Runs it until it is warm, and sets `estimate_us`."""
        slots = tuple(range(min(8, self._count)))
        self.aim(slots)
        spans = [
            self._executor.timed(self.launch, deadline_s=self._deadline_s, during="warming the candidate")
            for _ in range(SETTLING_CALLS)
        ]
        self.estimate_us = min(span.device_us for span in spans) / len(slots)


def examine(session: DeviceSession, candidate: Candidate, artifact: Artifact, policy: Policy) -> Failure | Judgement:
    """Returns what the judge finds about one built candidate.

    Raises:
        DeviceFault: for a fault of the candidate at loading, or one after which the device cannot be used.
    """
    candidate = replace(candidate, plan=artifact.plan)  # what a tile language's compiler made of the author's
    size = sum(evaluate(w.size_bytes, sizes_of(session.problem)) for w in candidate.plan.workspaces)
    if size > WORKSPACE_SHARE * session._free_bytes:
        message = f"the plan's workspaces need {size / 2**20:.0f} MiB, too much for this device"
        return Failure(stage="run", kind="memory", message=message)
    loaded = session.executor.load(read_artifact(artifact), candidate)
    outcome = None
    try:
        outcome = _Examination(session, candidate, artifact, loaded, policy).run()
    except DeviceFault as fault:
        if fault.fatal:
            # Unloading would wait for a kernel that never ends; this process ends instead.
            raise
        outcome = fault.failure
    finally:
        if outcome is not None:
            session.executor.unload(loaded)
    return outcome


class _Examination(Timely):
    def __init__(
        self, session: DeviceSession, candidate: Candidate, artifact: Artifact, loaded: Loaded, policy: Policy
    ) -> None:
        self.session, self.candidate, self.artifact, self.policy = session, candidate, artifact, policy
        self.executor, self.slots, self.draws, self.found = session.executor, session.slots, session.draws, Findings()
        self.deadline = time.monotonic() + policy.deadline_s
        self.axes, self.place = sizes_of(session.problem), ""
        self.workspaces = DeviceWorkspaces(candidate.plan.workspaces, session.device, self.axes)
        self._loaded, self._plans = loaded, dict[int, BoundPlan]()
        self._notes: tuple[str, ...] = ()
        self._equal: bool | None = None  # whether the last two calls wrote the same, where one pass could tell
        self.conditions = Conditions(session.executor.limits.address)

    def plan(self, slot: int) -> BoundPlan:
        """Returns the plan with a slot's addresses; made at first use."""
        if slot not in self._plans:
            addresses = {**self.slots.addresses(slot), **self.workspaces.addresses()}
            views = {**self.slots.views(slot), **self.workspaces.views()}
            self._plans[slot] = self.executor.bind(self._loaded, self.candidate.plan, addresses, views, self.axes)
        return self._plans[slot]

    def run(self) -> Failure | Judgement:
        try:
            return self._judge()
        except Unfit as unfit:
            return Judgement(verdict=Verdict(checks=(*self._passed(unfit.check.name), unfit.check)))

    def _judge(self) -> Failure | Judgement:
        # Stale answers of the candidate before must not be found in the outputs' memory.
        self.slots.restore_guards()
        self.session.release()
        for number in range(self.policy.draws):
            for family in self.policy.families:
                if time.monotonic() > self.deadline:
                    return self._late("the correctness checks were not through")
                if draw := self._unhurried(lambda f=family, n=number: self.session.draw(f, n)):  # type: ignore[misc]
                    self._check_draw(draw)
        for shape in self._unhurried(lambda: self.session.shapes(self.policy.hidden_shapes)):
            if time.monotonic() > self.deadline:
                return self._late("the hidden shapes were not through")
            self._check_shape(shape)
        self._note_correctness()
        self._check_memory()
        waited_s = self.session.turns.waited_s
        with self.session.turns.taken("alone"):
            self.deadline += self.session.turns.waited_s - waited_s
            return self._time()

    def _time(self) -> Failure | Judgement:
        contender = CandidateContender(self.executor, self.plan, self.slots.count, self.policy.call_deadline_s)
        self._hide()
        contender.settle()
        stage, policy = self._stage(), rounds.fitted(self.policy, contender.estimate_us)
        baselines = self.session.ready_baselines(self.policy)
        samples = rounds.run_rounds(policy, stage, baselines, contender)
        if samples.fault:
            raise Unfit("timed outputs", samples.fault)
        if samples.bait_taken:
            raise Unfit("calls", samples.bait_taken)
        if samples.rounds == policy.rounds and (fault := self._surprise(contender, samples.calls[CANDIDATE])):
            raise Unfit("timed outputs", fault)
        if samples.rounds < policy.rounds:
            return self._late(f"{samples.rounds} of {policy.rounds} rounds were done")
        self._check_time(samples)
        workload = self.session.problem.workloads[0].name
        found = rounds.measurements(
            samples, policy, workload=workload, mode="cold", conditions=self.conditions.summary()
        )
        return Judgement(
            verdict=Verdict(checks=self._passed(None)),
            measurements=(*found, *self._other_modes(stage, baselines, contender, workload)),
            comparisons=rounds.comparisons(samples, policy),
            noise=rounds.noise(samples, policy),
            floor_us=self._floor_us(),
            notes=(*self.session.notes(self.policy), *self._notes),
        )

    def _check_shape(self, shape: DeviceShape) -> None:
        """The same checks at other sizes, with buffers of their own."""
        inner = _Examination(self.session, self.candidate, self.artifact, self._loaded, self.policy)
        inner.slots, inner.draws, inner.axes, inner.place = shape.slots, shape.draws, shape.sizes, f"{shape.text}, "
        inner.workspaces = DeviceWorkspaces(self.candidate.plan.workspaces, self.session.device, shape.sizes)
        inner.found = self.found
        shape.slots.restore_guards()
        for family in HIDDEN_FAMILIES:
            if draw := self._unhurried(lambda f=family: shape.draws.draw(f, 0)):  # type: ignore[misc]
                inner._check_draw(draw)
        self.found.shapes.append(shape.text)

    # ------------------------------------------------------------------------------------------- correctness

    def _check_draw(self, draw: DeviceDraw) -> None:
        """Two calls on different slots, everything undefined filled with different patterns; then the bounds."""
        pair = self.session.rng.permutation(self.slots.count)[:2].tolist()
        for memory, values in zip(self.slots.parameters, draw.parameters, strict=True):
            memory.copy_(values)
        where = f"{self.place}family {draw.family}, draw {draw.number}"
        self.slots.poison(pair[1:], POISONS[1])
        # Nobody's answers lie in memory from here until both calls are over.
        self._hide()
        for slot, poison in zip(pair, POISONS, strict=True):
            for memory, values in zip(self.slots.inputs(slot), draw.inputs, strict=True):
                memory.copy_(values)
            self.slots.poison((slot,), poison)
            self.workspaces.poison(poison)
            self.executor.perturb(poison)
            self.executor.issue(self.plan(slot))
            self.executor.wait(deadline_s=self.policy.call_deadline_s, during=where)
        self._check_guards(where)
        self._check_unchanged(pair, draw, where)
        self._check_written(pair, where)
        equal = self._same(pair)
        looked = pair[: 1 if equal else 2]
        ratios = [draw.bounds.passed(self.slots.outputs(slot)) for slot in looked]
        for ratio in ratios:
            self._note_ratio(ratio or 0.0, where)
        if doubted := [slot for slot, ratio in zip(looked, ratios, strict=True) if ratio is None]:
            with draw.bounds as bounds, self.session.device:
                for slot in doubted:
                    self._judge_findings(self._settled(bounds, slot), where)
        self.found.draws += 1
        self.found.pairs_equal += equal

    def _settled(self, bounds: Sequence[Bound], slot: int) -> list[Finding]:
        """What a slot's bounds find; where that is doubtful, what closer ones find. Few candidates need them."""
        slots = self.slots
        found, closer = self.draws.settled(bounds, slots.outputs(slot), slots.inputs(slot), slots.parameters)
        self.found.closer += closer
        return found

    def _judge_findings(self, findings: Sequence[Finding], where: str) -> None:
        for finding in findings:
            if not finding.passed:
                raise Unfit(finding.check, f"{where}: {finding.evidence}")
            self._note_ratio(finding.ratio, where)

    def _note_ratio(self, ratio: float, where: str) -> None:
        if ratio >= self.found.worst:
            self.found.worst, self.found.worst_where = ratio, where

    def _hide(self) -> None:
        self.session.hide_answers()

    def _same(self, pair: Sequence[int]) -> bool:
        return self._equal or all(torch.equal(words[pair[0]], words[pair[1]]) for words in self.slots.output_words)

    def _check_guards(self, where: str) -> None:
        if place := self.slots.broken_guard() or self.workspaces.broken_guard():
            raise Unfit("guards", f"{where}: something was written {place}")

    def _check_unchanged(self, pair: Sequence[int], draw: DeviceDraw, where: str) -> None:
        problem = self.session.problem
        compared = [
            (spec.name, a, b)
            for slot in pair
            for spec, a, b in zip(problem.inputs, self.slots.inputs(slot), draw.inputs, strict=True)
        ]
        compared += [
            (spec.name, a, b)
            for spec, a, b in zip(problem.parameters, self.slots.parameters, draw.parameters, strict=True)
        ]
        flags = [comparing.same_bits(a, b) for _, a, b in compared]
        if flags and not bool(torch.stack(flags).all()):
            name = next(n for (n, _, _), kept in zip(compared, flags, strict=True) if not bool(kept))
            raise Unfit("inputs unchanged", f"{where}: the kernel wrote to {name}")

    def _check_written(self, pair: Sequence[int], where: str) -> None:
        self._equal = comparing.wrote_the_same(self.slots.output_words, pair, self.session.problem.outputs)
        if self._equal is not None:
            return
        for index, words in enumerate(self.slots.output_words):
            spec = self.session.problem.outputs[index]
            left = words[pair[0]] == self.slots.poison_word(index, POISONS[0])
            left &= words[pair[1]] == self.slots.poison_word(index, POISONS[1])
            if bool(left.any()):
                evidence = f"{int(left.sum())} of {left.numel()} elements of {spec.name} were never written"
                raise Unfit("written", f"{where}: {evidence}")
            if spec.dtype == "bool" and bool((words[pair[0]] > 1).any()):
                raise Unfit("written", f"{where}: {spec.name} holds bytes that are no booleans")

    def _note_correctness(self) -> None:
        found, evidence = self.found, self.found.evidence
        evidence["inputs unchanged"] = f"compared bit for bit after {2 * found.draws} calls"
        evidence["guards"] = f"untouched in {2 * found.draws} calls"
        evidence["written"] = f"every element, in {found.draws} draws with two patterns of poison"
        evidence["non-finite"] = f"NaN and infinities where the reference has them, {found.draws} draws"
        closer = f", {found.closer} outputs after a closer look" if found.closer else ""
        evidence["accuracy"] = f"largest error {found.worst:.2g} of the bound ({found.worst_where}){closer}"
        if found.shapes:
            evidence["hidden shapes"] = f"right at {'; '.join(found.shapes)}"
        same = "all" if found.pairs_equal == found.draws else f"{found.pairs_equal} of {found.draws}"
        evidence["deterministic"] = f"{same} pairs of calls agree bit for bit; every call is within bounds"

    def _check_memory(self) -> None:
        wanted = [tool for tool in memory_check.TOOLS if tool in self.policy.memory_checkers]
        if not wanted:
            return
        checks, self._notes = memory_check.run(self.session.problem, self.candidate, self.artifact, wanted)
        for check in checks:
            if not check.passed:
                raise Unfit(check.name, check.evidence)
            self.found.evidence[check.name] = check.evidence

    # ------------------------------------------------------------------------------------------------ timing

    def _stage(self) -> rounds.Stage:
        self._sums, self._summed = tuple[torch.Tensor, ...](), tuple[int, ...]()
        return rounds.Stage(
            executor=self.executor,
            order=self.session.order,
            refresh=self.session.refresh,
            watch=self._watch,
            poison=lambda slots: self.slots.poison(slots, POISONS[0]),
            holds=lambda slots: self.slots.holds(slots, POISONS[0]),
            hide=self._hide,
            inspect=self._inspect,
            conditions=self.conditions,
            rng=self.session.rng,
            deadline=self.deadline,
        )

    def _watch(self, chosen: Sequence[int]) -> None:
        self._summed = tuple(chosen)
        self._sums = self.slots.sums(self._summed)

    def _inspect(self, called: Sequence[int]) -> str | None:
        """Looks at the outputs of a block's calls; returns what is wrong with them."""
        if place := self.slots.broken_guard() or self.workspaces.broken_guard():
            return f"something was written {place}"
        if name := self.slots.changed(self._sums, self._summed):
            return f"a timed call changed {name}"
        for slot in self._suspects(called):
            self.found.compared += 1
            if fault := self._fault_at(slot, self.session.profiles):
                return fault
        return None

    def _fault_at(self, slot: int, profiles: Sequence[integrity.Profile | None]) -> str | None:
        """Compares a timed call's outputs with the reference's own, and where that leaves a doubt with the truth."""
        eager = self.session.baseline(EAGER)
        if isinstance(eager, DeviceBaseline):
            ours, theirs = self.slots.outputs(slot), eager.outputs(slot)
            if comparing.agree(ours, theirs, profiles) or not integrity.doubtful(
                ours, theirs, profiles, self.session.rng, most=COMPARED_ELEMENTS
            ):
                return None
        self.found.doubts += 1
        return self._wrong_at(slot)

    def _surprise(self, contender: CandidateContender, calls: int) -> str | None:
        """Replays the rounds' graph on slots some of which hold contents of families; nobody takes the time."""
        session, slots = self.session, self.slots
        called = list(session.order[:calls])
        elements = sum(tensor.numel() for tensor in (*slots.inputs(called[0]), *slots.outputs(called[0])))
        coming = session.surprises.families(self.policy.families, elements)
        for start in range(0, len(coming), len(called)):
            by_slot = dict(zip(session.rng.permutation(called).tolist(), coming[start : start + calls], strict=False))
            session.refresh(called)
            for slot, family in by_slot.items():
                session.surprises.write(family, slots.inputs(slot))
            self._hide()
            slots.poison(half(called, session.rng), POISONS[0])
            self.executor.flush()
            self.executor.timed(contender.launch, deadline_s=self.policy.call_deadline_s, during="a surprise")
            for slot, family in by_slot.items():
                self.found.compared += 1
                if fault := self._fault_at(slot, session.surprises.profiles(family)):
                    return f"{fault} (contents of family {family})"
        return None

    def _wrong_at(self, slot: int) -> str | None:
        """Compares a timed call's outputs with float64 truth."""
        with self.session.device:
            findings = self._settled(self.session.bounds_of_slot(slot), slot)
        wrong = next((f for f in findings if not f.passed), None)
        return f"a timed call gave another answer than the checked ones: {wrong.evidence}" if wrong else None

    def _suspects(self, called: Sequence[int]) -> list[int]:
        """Returns slots to compare: one of each kind of contents, some at random, and such as look unwritten."""
        rng = self.session.rng
        shuffled = rng.permutation(called).tolist()
        by_kind = {self.session.kinds[slot]: slot for slot in shuffled}
        suspects = {by_kind[kind] for kind in COMPARED_KINDS if kind in by_kind}
        suspects.update(shuffled[: max(0, COMPARED - len(suspects))])
        rows = torch.tensor(called, device=self.session.device)
        for index, words in enumerate(self.slots.output_words):
            count = words.shape[1]
            if not count or self.session.problem.outputs[index].dtype in ("bool", "uint8", "int8"):
                continue
            places = torch.from_numpy(rng.integers(0, count, min(count, SAMPLED_PLACES))).to(words.device)
            left = (words[rows[:, None], places] == self.slots.poison_word(index, POISONS[0])).any(dim=1)
            suspects.update(called[i] for i in left.nonzero().flatten().tolist()[:2])
        return sorted(suspects)

    def _check_time(self, samples: rounds.Samples) -> None:
        found, session = self.found, self.session
        found.evidence["timed outputs"] = f"{found.compared} outputs of timed calls compared, {found.doubts} in float64"
        found.evidence["calls"] = "nothing was written for calls that were not made"
        fastest_us = float(plain_statistics.median(samples.times_us[CANDIDATE]))
        limit_us = floors.refusal_us(
            session.floors,
            bytes_read=session.facts.bytes_read,
            bytes_written=session.facts.bytes_written,
            operations=session.problem.flops,
            calls=samples.calls[CANDIDATE],
            cache_bytes=self.executor.limits.cache_bytes,
        )
        moved = session.facts.bytes_read + session.facts.bytes_written
        text = f"{fastest_us:.2f} µs; at least {moved} bytes at {session.floors.bandwidth / 1e9:.0f} GB/s"
        text += f" take {self._floor_us():.2f} µs"
        if fastest_us < limit_us:
            raise Unfit("floor", f"faster than the device can be ({limit_us:.2f} µs): {text}")
        found.evidence["floor"] = text
        if reason := rounds.unexplained(samples):
            raise Unfit("clock", reason)
        found.evidence["clock"] = f"events and the host's clock agree on {samples.rounds} rounds"

    def _floor_us(self) -> float:
        session = self.session
        moved = session.facts.bytes_read + session.facts.bytes_written
        return floors.floor_us(session.floors, bytes_moved=moved, operations=session.problem.flops)

    def _other_modes(
        self,
        stage: rounds.Stage,
        baselines: Sequence[DeviceBaseline],
        contender: CandidateContender,
        workload: str,
    ) -> tuple[Measurement, ...]:
        made: tuple[Measurement, ...] = ()
        everyone: list[rounds.Contender] = [*baselines, contender]
        if "warm" in self.policy.modes:
            warm = rounds.run_warm(self.policy, stage, everyone, slot_bytes=self.slots.slot_bytes)
            made += rounds.measurements(warm, self.policy, workload=workload, mode="warm")
        if "server" in self.policy.modes:
            server = rounds.run_server(stage, everyone)
            made += rounds.measurements(server, self.policy, workload=workload, mode="server")
        return made

    def _passed(self, failed: str | None) -> tuple[Check, ...]:
        return self.found.passed(CHECKS, but=failed)


def measure_baselines(session: DeviceSession, policy: Policy) -> tuple[Measurement, ...]:
    """Returns the baselines' times, without a candidate."""
    conditions = Conditions(session.executor.limits.address)
    stage = rounds.Stage(
        executor=session.executor,
        order=session.order,
        refresh=session.refresh,
        poison=lambda _: None,
        holds=lambda _: True,
        watch=lambda _: None,
        hide=lambda: None,
        inspect=lambda _: None,
        conditions=conditions,
        rng=session.rng,
    )
    samples = rounds.run_rounds(policy, stage, session.ready_baselines(policy), None)
    workload = session.problem.workloads[0].name
    return rounds.measurements(samples, policy, workload=workload, mode="cold", conditions=conditions.summary())
