"""The judge worker's end of a witness worker: starting it, sending calls to it, stopping and ending it.

To the examination it is what a runner is for a sealed candidate: it calls the candidate once on each of some
slots and says what both clocks saw. Every stretch between two signals of the process is on the judge's clock; what
the judge's own part of it usually takes was measured before the candidate was loaded (`Allowance`).

Not here: the other end (worker.py), the verdict (examine.py).
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelwright.errors import KernelwrightError
from kernelwright.judge.findings import Unfit
from kernelwright.judge.integrity import CLOCK_SHARE, clock_fault
from kernelwright.judge.runner import MAX_CALLS, Block, RunnerKilled, RunnerStopped
from kernelwright.judge.slots import POISONS, Region, Slots
from kernelwright.judge.witness import channel, observing
from kernelwright.judge.witness.confined import Confined
from kernelwright.judge.witness.looking import Looking, Seen
from kernelwright.judge.witness.memory import STAMP_BYTES
from kernelwright.process import is_stopped
from kernelwright.reference_program import DTYPES, NAMES
from kernelwright.types import KILLED, Failure, SourceFile, Stage

STAGES: tuple[Stage, ...] = ("load", "run")
EMPTY_BLOCKS, TRIAL_BLOCKS, TRIAL_CALLS = 15, 9, 16
NO_GRAD = " under no_grad"
OPEN_DEADLINE_S = 60.0
SPIN_NS = 1_000_000
"""Processor time of threads that still spin after parallel regions."""
ROOM, ROOM_NS = 1.5, 1_000_000.0
"""How much longer than usual the judge's own part may take before the rest counts as the candidate's time: a busy
machine must not blame an honest one, nor threads that still spin after a parallel region. None of a candidate's code
runs there unless it has got round every check."""
EXTRA, EXTRA_NS = 1.25, 100_000
"""The same for the usual block of a judgement, where a single interruption does not count."""
ALONE_S = 0.2
MESSAGE_LIMIT, DETAIL_LIMIT = 400, 4000


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the judge's own part of a block takes, in nanoseconds: a fixed part and one for each call."""

    ready: tuple[float, float] = (0.0, 0.0)
    """Arguments and parameters."""
    hand_in: tuple[float, float] = (0.0, 0.0)
    """Looking at results and copying them."""
    telling: float = 0.0
    """Telling where one call's results lie."""

    def excess(self, ready_ns: float, hand_in_ns: float, calls: int) -> float:
        """Returns by how much a block's two untimed parts took longer than that."""
        usual = (self.ready[0] + calls * self.ready[1], self.hand_in[0] + calls * self.hand_in[1])
        spent = (ready_ns, hand_in_ns)
        return sum(max(0.0, s - ROOM * u - ROOM_NS) for s, u in zip(spent, usual, strict=True))

    def usual(self, calls: int) -> float:
        """Returns how long both parts take together."""
        return self.ready[0] + self.hand_in[0] + calls * (self.ready[1] + self.hand_in[1])


@dataclass(frozen=True, slots=True)
class Spent:
    """How long the parts of one block took, in nanoseconds.

    By the judge's clock; the judge's own part no longer than the process had a processor: being interrupted on a
    busy machine is not work.
    """

    ready: int
    calls: int
    hand_in: int
    processor: int
    """Processor time of the calls, all threads together."""


class Witness:
    """One witnessed candidate's process. Stopped (SIGSTOP) except while it is asked something.

    Args:
        confined: a started process that nobody has used.
        slots: the session's inputs and outputs.
        stamps: where it writes its own clock's readings.
        setup: what it is told of the problem; without the reference.
        load_deadline_s: how long loading, making and the first call may take together.
        call_deadline_s: how long one block may take.

    Raises:
        RunnerStopped: when the process does not start.
    """

    def __init__(
        self,
        confined: Confined,
        slots: Slots,
        stamps: Region,
        setup: Mapping[str, Any],
        *,
        load_deadline_s: float,
        call_deadline_s: float,
    ) -> None:
        self._confined, self._slots, self._stamps = confined, slots, stamps
        self._load_deadline_s, self._call_deadline_s = load_deadline_s, call_deadline_s
        self._deadline_s = OPEN_DEADLINE_S
        self._allowance, self.latency_ns, self.moved = Allowance(), 0.0, False
        self._loaded, self._threads, self._tired = False, int(setup["threads"]), False
        self.extras_ns: list[float] = []
        """By how much the judge's own part of each block took longer than usual."""
        self._announced: tuple[int, ...] | None = None
        self._ready_ns = 0
        rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
        self._looking = Looking(slots, setup, rng)
        self.accepted: tuple[str, ...] = ()
        """What loading the candidate changed in its own process, and could keep."""
        try:
            self._open(setup)
        except BaseException:
            self.close()
            raise

    def _open(self, setup: Mapping[str, Any]) -> None:
        self.process = self._confined.process
        opened = self._result("open", **setup)
        self.method = str(opened["method"])
        self._inputs_at = int(opened["inputs_at"])
        self._known_processes = self._confined.processes()
        self._calibrate()
        self._known_threads = observing.threads_of(self.process)
        self._stop()

    # ------------------------------------------------------------------------------------------------- loading

    def load(self, sources: Sequence[SourceFile]) -> None:
        """Has the candidate loaded, made and called once.

        Raises:
            RunnerStopped: when it cannot be.
            Unfit: for what it changed, left running or returned.
        """
        self._deadline_s = self._load_deadline_s
        self._loaded = True
        self._check(self._result("load", sources=[{"path": s.path, "text": s.text} for s in sources]))
        self._first_call()
        self.accepted = tuple(str(text)[:MESSAGE_LIMIT] for text in self._result("accept") or ())
        self._deadline_s = self._call_deadline_s

    def _first_call(self) -> None:
        try:
            self.run((0,))
        except RunnerStopped as stopped:
            # Some libraries work inside autograd whatever they are used for.
            if stopped.failure.kind != "exception" or self._confined.ended:
                raise
            self._result("allow gradients")
            self.method += NO_GRAD
            self.run((0,))

    def renew(self) -> None:
        """Makes the candidate anew from its texts: nothing that earlier calls left is there."""
        self._check(self._result("renew"))

    # ------------------------------------------------------------------------------------------------- calling

    def run(self, slots: Sequence[int]) -> Block:
        """Calls the candidate once on each of the slots, in order, and leaves its process stopped.

        Raises:
            RunnerStopped: when it faults, ends or takes too long.
            Unfit: when something of a call is not what it should be.
        """
        if self._loaded and not slots:
            return Block(np.empty(0, np.int64), np.empty(0, np.int64), 0, int(self.latency_ns))
        block, spent, findings, seen = self._block(slots)
        self._observe(slots)
        self._check(findings)
        self._looking.compare(seen)
        if slots:
            self.extras_ns.append(spent.ready + spent.hand_in - EXTRA * self._allowance.usual(len(slots)))
        excess = self._allowance.excess(spent.ready, spent.hand_in, len(slots))
        received = block.received + int(excess - self._allowance.telling * len(slots))
        whole = Block(block.starts, block.ends, block.sent, max(received, *block.ends[-1:].tolist(), block.sent))
        return as_it_counts(whole, self.latency_ns, spent.processor, self._threads)

    def _block(self, slots: Sequence[int]) -> tuple[Block, Spent, Any, list[Seen]]:
        assert len(slots) <= MAX_CALLS
        deadline = time.monotonic() + self._deadline_s
        if tuple(slots) != self._announced:
            self.announce(slots)
        self._announced = None
        before, sent = self._processor_ns(), time.monotonic_ns()
        answer = self._ask("go", deadline=deadline)
        received, after = self._alone(), self._processor_ns()
        seen = self._look(slots, answer.get("at"))
        looked, before_ns = time.monotonic_ns(), self._processor_ns()
        findings = self._result("hand in", deadline=deadline)
        ended, hand_in_ns = time.monotonic_ns(), self._processor_ns() - before_ns
        self._stop()
        self._tired = True
        if answer.get("called") != len(slots):
            raise self._broken("it answered another block than it was sent")
        stamps = np.frombuffer(self._stamps.map, dtype=np.int64, count=2 * len(slots)).reshape(-1, 2).copy()
        block = Block(stamps[:, 0], stamps[:, 1], sent, received)
        spent = Spent(
            ready=self._ready_ns,
            calls=received - sent,
            hand_in=min(ended - looked, hand_in_ns),
            processor=after - before,
        )
        return block, spent, findings, seen

    def recorded(self, slots: Sequence[int], marks: tuple[int, int]) -> Any:
        """Returns what the device ran for one call on each of the slots, between copies of so many bytes; see `run`."""
        until = time.monotonic() + OPEN_DEADLINE_S  # attaching to a device may take longer than a call
        self.announce(slots)
        self._announced = None
        told = self._result("record", marks=marks, deadline=until)
        findings = self._result("hand in", deadline=until)
        self._stop()
        self._tired = True
        self._check(findings)
        if isinstance(told, dict) and (said := told.get("method")):
            self.method = f"{said!s:.300}{NO_GRAD * self.method.endswith(NO_GRAD)}"
        return told

    def extra_us(self) -> float:
        """Returns how much longer than usual the judge's part of a timed block takes, by the median; 0 for little."""
        return max(0.0, float(np.median(self.extras_ns or [0.0])) - EXTRA_NS) / 1e3

    def _look(self, slots: Sequence[int], places: Any) -> list[Seen]:
        if not self._loaded:
            return []
        self._stop()
        return self._looking.look(self.process, slots, places)

    def announce(self, slots: Sequence[int]) -> None:
        """Has arguments made for the next block, and parameters taken over.

        On a CPU this is done before the inputs' contents are written: whatever runs here has nothing to work on.
        """
        self.rest()
        before, begun = self._processor_ns(), time.monotonic_ns()
        self._result("ready", slots=list(slots), moved=self.moved)
        self._ready_ns = min(time.monotonic_ns() - begun, self._processor_ns() - before)
        self._stop()
        self._announced = tuple(slots)

    def rest(self) -> None:
        """Lets it free what it has kept, which may run a candidate's code.

        Not while results wait to be looked at, and in timed rounds before the next contents are written: so nothing
        that is done here can be an answer.
        """
        if self._tired:
            self._tired = False
            self._result("rest")
            self._stop()

    def _alone(self) -> int:
        """Returns the judge's clock, as soon as nothing that a call started is there any more.

        A thread that ends is seen a little longer than it works. What goes on working counts as the call's, and after
        ALONE_S is found (`_observe`).
        """
        now = time.monotonic_ns()
        until = time.monotonic() + ALONE_S
        while self._loaded and self._company() and time.monotonic() < until:
            now = time.monotonic_ns()
        return now

    def _company(self) -> bool:
        threads = observing.threads_of(self.process) - self._known_threads
        return bool(threads or self._confined.processes() - self._known_processes)

    def _processor_ns(self) -> int:
        return observing.processor_ns(self.process)

    def perturb(self, byte: int) -> None:
        """Fills what malloc gives from now on with a pattern; 0 switches that off."""
        self._result("perturb", byte=byte)

    def operators(self) -> list[str]:
        """Returns the names of torch's operators that a call uses, as far as it lets itself be watched."""
        with contextlib.suppress(RunnerStopped):
            found = self._result("operators")
            if isinstance(found, list):
                return [str(name)[:60] for name in found][:20]
        return []

    def _calibrate(self) -> None:
        """Measures the judge's own part with empty calls; no candidate is loaded."""
        count = min(TRIAL_CALLS, self._slots.count)
        empty = [self._block(())[1] for _ in range(EMPTY_BLOCKS)]
        full, telling = [], []
        for _ in range(TRIAL_BLOCKS):
            # As in a timed round, the memory was written here just before.
            self._slots.poison(range(count), POISONS[0])
            for slot in range(count):
                for memory in self._slots.inputs[slot]:
                    memory.copy_(memory.clone())
            block, spent, *_ = self._block(tuple(range(count)))
            full.append(spent)
            telling.append(spent.calls - int((block.ends - block.starts).sum()))
        self.latency_ns = float(np.median([spent.calls for spent in empty]))
        self._allowance = Allowance(
            ready=_line([s.ready for s in empty], [s.ready for s in full], count),
            hand_in=_line([s.hand_in for s in empty], [s.hand_in for s in full], count),
            telling=_line([s.calls for s in empty], telling, count)[1],
        )

    # ----------------------------------------------------------------------------------------------- observing

    def _observe(self, slots: Sequence[int]) -> None:
        """Looks at the stopped process from outside."""
        if more := self._confined.processes() - self._known_processes:
            names = ", ".join(sorted({observing.name_of(process) for process in more}))
            raise Unfit("processes", f"{_count(len(more), 'process')} it started were left running: {names}")
        if more := observing.threads_of(self.process) - self._known_threads:
            names = ", ".join(observing.thread_names(self.process, more)[:4])
            raise Unfit("threads", f"{_count(len(more), 'thread')} it started were left running: {names}")
        with contextlib.suppress(OSError):
            self._look_at_pages(slots)

    def _look_at_pages(self, slots: Sequence[int]) -> None:
        for buffer in self._slots.buffers:
            if buffer.region != 0:
                continue
            for slot in slots if buffer.stride else (0,):
                at = self._inputs_at + buffer.offset + slot * buffer.stride
                if buffer.size and observing.written_page(self.process, at, buffer.size) is not None:
                    raise Unfit("inputs unchanged", f"a call wrote to the memory of {buffer.name}")

    def _check(self, findings: Any) -> None:
        for finding in findings if isinstance(findings, list) else ():
            if isinstance(finding, list) and len(finding) == 2:
                raise Unfit(str(finding[0])[:40], str(finding[1])[:MESSAGE_LIMIT])
            raise self._broken("its findings have another form")

    # ------------------------------------------------------------------------------------------------- channel

    def _ask(self, verb: str, /, *, deadline: float | None = None, **arguments: object) -> dict[str, Any]:
        until = time.monotonic() + self._deadline_s if deadline is None else deadline
        self._confined.go_on()
        self._send({"verb": verb, **arguments})
        return self._receive(until)

    def _result(self, verb: str, /, *, deadline: float | None = None, **arguments: object) -> Any:
        answer = self._ask(verb, deadline=deadline, **arguments)
        if "result" not in answer:
            raise self._broken(f"it answered {verb!r} with {', '.join(map(str, answer))[:60] or 'nothing'}")
        return answer["result"]

    def _send(self, message: dict[str, Any]) -> None:
        try:
            channel.send(self._confined.control, message)
        except (BrokenPipeError, OSError):
            raise self._ended() from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        try:
            answer = channel.receive(self._confined.reply, deadline=deadline, most=channel.MOST_REPLY_BYTES)
        except TimeoutError:
            kind = RunnerKilled if is_stopped(self.process) else RunnerStopped
            self.close()
            text = f"the candidate took longer than {self._deadline_s:g} s; it was killed"
            raise kind(Failure(stage="run", kind="timeout", message=text)) from None
        except EOFError:
            raise self._ended() from None
        except channel.BadMessage as bad:
            raise self._broken(str(bad)) from None
        if not isinstance(answer, dict):
            raise self._broken("an answer is no object")
        if "failure" in answer:
            self._stop()
            raise RunnerStopped(_failure_of(answer["failure"]))
        return answer

    def _stop(self) -> None:
        self._confined.stop()

    def _broken(self, what: str) -> RunnerStopped:
        self.close()
        message = f"the candidate's process does not answer as it should: {what}"
        return RunnerStopped(Failure(stage="run", kind="protocol", message=message))

    def _ended(self) -> RunnerStopped:
        kind, message = self._confined.how_it_ended()
        self.close()
        stopped = RunnerKilled if kind == KILLED else RunnerStopped
        return stopped(Failure(stage="run", kind="signal" if kind == KILLED else kind, message=message))

    def close(self) -> None:
        """Ends the process with everything that it started; harmless when done before."""
        self._confined.close()


def was_interrupted(block: Block, processor_ns: int, threads: int) -> bool:
    """Tells whether what the stamps leave unexplained is time in which the process had no processor.

    On a busy machine that is so for most blocks. Stamps that no clock can have given, or that come to less than the
    processor time, are left as they are: the clock's check names them.
    """
    elapsed, explained = block.received - block.sent, int((block.ends - block.starts).sum())
    plausible = (
        len(block.starts) > 0
        and block.sent <= block.starts[0]
        and block.ends[-1] <= block.received
        and bool((block.ends >= block.starts).all())
        and bool((block.starts[1:] >= block.ends[:-1]).all())
    )
    return plausible and processor_ns <= threads * explained + SPIN_NS + CLOCK_SHARE * elapsed


def as_it_counts(block: Block, latency_ns: float, processor_ns: int, threads: int) -> Block:
    """Returns the block, or, where its process had no processor in between, all of its time shared out evenly.

    What an empty command usually takes is no interruption: the guard alone takes half a millisecond of it.
    """
    interrupted = clock_fault(block, latency_ns) and was_interrupted(block, processor_ns, threads)
    return by_the_judges_clock(block) if interrupted else block


def by_the_judges_clock(block: Block) -> Block:
    """Returns the block with all of its time shared out evenly between its calls: none is left unexplained."""
    edges = np.linspace(block.sent, block.received, len(block.starts) + 1).astype(np.int64)
    return Block(edges[:-1], edges[1:], block.sent, block.received)


def setup_of(slots: Slots, stamps: Region, described: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a witness worker is told: where tensors lie, and what `described` says of the problem."""
    places = [
        {
            "name": buffer.name, "role": buffer.spec.role, "offset": buffer.offset, "stride": buffer.stride,
            "size": buffer.size, "shape": list(buffer.spec.shape), "dtype": NAMES[DTYPES[buffer.spec.dtype]],
        }
        for buffer in slots.buffers
        if buffer.spec is not None
    ]  # fmt: skip
    sizes = [slots.input.size, slots.output.size, stamps.size]
    return {"places": places, "sizes": sizes, "keep": slots.count, **described}


def stamps_region() -> Region:
    """Returns memory for the stamps of the longest block."""
    return Region("stamps", MAX_CALLS * STAMP_BYTES)


def _line(empty: Sequence[int], full: Sequence[int], count: int) -> tuple[float, float]:
    fixed = float(np.median(empty))
    return fixed, max(0.0, float(np.median(full)) - fixed) / max(1, count)


def _failure_of(data: Any) -> Failure:
    """A failure as the candidate's process tells it: words only, cut to length."""
    if not isinstance(data, dict):
        raise KernelwrightError("a witness worker told of a failure without saying which")
    words = {key: str(data.get(key, "")) for key in ("stage", "kind", "message", "location", "detail")}
    stage: Stage = "load" if words["stage"] == "load" else "run"
    return Failure(
        stage=stage,
        kind=words["kind"][:20],
        message=words["message"][:MESSAGE_LIMIT].replace("\n", " "),
        location=words["location"][:120],
        detail=words["detail"][:DETAIL_LIMIT],
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"
