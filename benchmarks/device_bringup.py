"""First contact with a GPU: every path of the device judge, one after the other, each timed.

    python benchmarks/device_bringup.py --out FOLDER [--only PART ...] [--quick]

Parts: executor, faults, large, small, repeat, hidden, delay, sanitizer, witness: what matters most comes first, and
all of them take less than four minutes. Packages that are missing there are taken from .carry/
(`pip install --no-deps --target .carry pyelftools`).

Prints one line for each step as it ends and the table again at the end; tracebacks and records go to FOLDER. A step
that fails does not stop the others; a step that hangs is killed. Exit status: how many steps failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(folder))

from tests.gpu import device_kernels as kernels  # noqa: E402

from kernelwright import codec, languages  # noqa: E402
from kernelwright.judge import Judge, policies_for  # noqa: E402
from kernelwright.judge.device import memory_check  # noqa: E402
from kernelwright.types import (  # noqa: E402
    Artifact,
    Candidate,
    Failure,
    Judgement,
    Policy,
    Problem,
    Record,
    Target,
    replace,
)

COUNT = 1 << 20
STEP_S = 100
CHILD_S = 60
FAULTS_LIMIT_S = 120.0


class Log:
    """Collects one line for each step and writes everything to the folder."""

    def __init__(self, folder: Path, only: list[str]) -> None:
        self.folder, self.only, self.lines = folder, only, list[tuple[str, str, float, str]]()
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / "log.txt").open("a")

    @contextlib.contextmanager
    def step(self, name: str, limit_s: int = STEP_S) -> Iterator[list[str]]:
        """Runs a step under a limit; what it appends to the list is printed."""
        said: list[str] = []
        begun, state = time.monotonic(), "ok"
        signal.signal(signal.SIGALRM, _late)
        signal.alarm(limit_s)
        try:
            yield said
        except BaseException as error:  # noqa: BLE001  (the next step must run)
            state = "FAILED"
            said.append(f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}")
            self.write(traceback.format_exc())
        finally:
            signal.alarm(0)
        self.line(name, state, time.monotonic() - begun, "; ".join(said))

    def line(self, name: str, state: str, seconds: float, text: str) -> None:
        """Prints and keeps one step's line."""
        self.lines.append((name, state, seconds, text))
        shown = f"{state:7}{seconds:8.2f} s  {name:34} {text}"
        print(shown[:400], flush=True)
        self.write(shown)

    def write(self, text: str) -> None:
        """Writes to the folder's log only."""
        self.file.write(text + "\n")
        self.file.flush()

    def wants(self, name: str) -> bool:
        """Tells whether a part was asked for."""
        return not self.only or any(word in name for word in self.only)


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("the step took too long")


# ------------------------------------------------------------------------------ in a process of its own: the executor


def executor_part(folder: Path) -> None:
    """Every path of CudaExecutor, one step each; runs in a child process."""
    log = Log(folder, [])
    state: dict[str, Any] = {}

    def do(name: str, work: Callable[[dict[str, Any], list[str]], None]) -> None:
        with log.step(name, 60) as said:
            work(state, said)

    for name, work in EXECUTOR_STEPS:
        do(name, work)
    if "builder" in state:
        state["builder"].close()


def _import(state: dict[str, Any], said: list[str]) -> None:
    import torch

    from kernelwright.judge.device import cuda_executor, driver

    state.update(torch=torch, cuda=cuda_executor, driver=driver)
    said.append(f"torch {torch.__version__}, CUDA {torch.version.cuda}")


def _context(state: dict[str, Any], said: list[str]) -> None:
    executor = state["executor"] = state["cuda"].CudaExecutor()
    said.append(f"{executor.limits}; driver {state['driver'].driver_version()}")


def _probe(state: dict[str, Any], said: list[str]) -> None:
    begun = time.monotonic()
    state["executor"].probe()
    said.append(f"{1e3 * (time.monotonic() - begun):.2f} ms")


def _build(state: dict[str, Any], problem: Problem, candidate: Candidate) -> tuple[bytes, Artifact]:
    if "builder" not in state:
        limits = state["executor"].limits
        suffix = "a" if limits.architecture >= 90 else ""
        state["builder"] = languages.Builder(languages.cuda_target(f"sm_{limits.architecture}{suffix}"), workers=1)
    (built,) = state["builder"].build(problem, [candidate])
    if isinstance(built, Failure):
        raise RuntimeError(f"{built.stage}: {built.kind}: {built.message} {built.detail[:500]}")
    return Path(built.path).read_bytes(), built


def _run_plan(state: dict[str, Any], problem: Problem, candidate: Candidate, truth: Callable[..., Any]) -> Any:
    """Builds, loads, binds, issues and compares one candidate; returns (executor, bound plan, loaded)."""
    torch, executor = state["torch"], state["executor"]
    blob = b"" if candidate.language == "library" else _build(state, problem, candidate)[0]
    loaded = executor.load(blob, candidate)
    views = {s.name: torch.randn(s.shape, device="cuda") for s in problem.inputs}
    for spec in problem.outputs:
        views[spec.name] = torch.full(spec.shape, float("nan"), device="cuda")
    for workspace in candidate.plan.workspaces:
        views[workspace.name] = torch.empty(workspace.size_bytes, dtype=torch.uint8, device="cuda")
    bound = executor.bind(loaded, candidate.plan, {n: v.data_ptr() for n, v in views.items()}, views, {})
    executor.issue(bound)
    executor.wait(deadline_s=5, during="the step")
    wanted = truth(*(views[s.name].double() for s in problem.inputs))
    error = float((views["out"].double() - wanted).abs().max())
    if not error < 1e-3:
        raise RuntimeError(f"wrong answer: largest error {error}")
    state["views"] = views
    return executor, bound, loaded


def _add(state: dict[str, Any], said: list[str]) -> None:
    problem = kernels.vector_add(COUNT)
    executor, bound, loaded = _run_plan(
        state, problem, kernels.candidate(problem, kernels.add_vectors(COUNT)), lambda x, y: x + y
    )
    state["add"] = bound
    said.append(str({name: facts for name, (_, facts) in loaded.kernels.items()}))
    spans = [executor.timed(lambda: executor.issue(bound), deadline_s=5, during="timing") for _ in range(20)]
    device_us, wall_us = min(s.device_us for s in spans), min(s.wall_us for s in spans)
    said.append(f"one launch: {device_us:.2f} µs by events, {wall_us:.2f} by the host")
    begun = time.perf_counter()
    for _ in range(1000):
        executor.issue(bound)
    said.append(f"issuing costs {1e3 * (time.perf_counter() - begun):.2f} µs of host time")
    executor.wait(deadline_s=5, during="timing")


def _graph(state: dict[str, Any], said: list[str]) -> None:
    executor, bound = state["executor"], state["add"]
    begun = time.perf_counter()
    replay = executor.capture(lambda: [executor.issue(bound) for _ in range(200)])
    said.append(f"capturing 200 launches: {1e3 * (time.perf_counter() - begun):.1f} ms")
    out = state["views"]["out"]
    out.fill_(float("nan"))
    replay.launch()
    executor.wait(deadline_s=5, during="a replay")
    if not bool(out.isfinite().all()):
        raise RuntimeError("the replay wrote nothing")
    spans = [executor.timed(replay.launch, deadline_s=5, during="timing") for _ in range(20)]
    said.append(
        f"{min(s.device_us for s in spans) / 200:.3f} µs a call, host {min(s.wall_us for s in spans) / 200:.3f}"
    )


def _programmatic(state: dict[str, Any], said: list[str]) -> None:
    problem = kernels.vector_add(COUNT)
    made = kernels.candidate(problem, kernels.programmatic_pair(COUNT))
    executor, bound, _ = _run_plan(state, problem, made, lambda x, y: x + y)
    replay = executor.capture(lambda: [executor.issue(bound) for _ in range(50)])
    spans = [executor.timed(replay.launch, deadline_s=5, during="timing") for _ in range(9)]
    said.append(f"two kernels {min(s.device_us for s in spans) / 50:.2f} µs in a graph")


def _launch_forms(state: dict[str, Any], said: list[str]) -> None:
    problem = kernels.vector_add(COUNT)
    for line in ("cluster=2", "cluster=8", "shared=200000"):
        _run_plan(state, problem, kernels.candidate(problem, kernels.add_kernel(COUNT, line=line)), lambda x, y: x + y)
        said.append(line)
    small = kernels.vector_add(256 * 64)
    _run_plan(
        state, small, kernels.candidate(small, kernels.add_kernel(256 * 64, line="cooperative")), lambda x, y: x + y
    )
    said.append("cooperative")


def _tensor_map(state: dict[str, Any], said: list[str]) -> None:
    problem = kernels.double(1024, 1024)
    _run_plan(state, problem, kernels.candidate(problem, kernels.tensor_map_copy(1024, 1024)), lambda x: 2 * x)


def _library(state: dict[str, Any], said: list[str]) -> None:
    problem = kernels.matmul(512)
    executor, bound, _ = _run_plan(state, problem, kernels.library_matmul(problem), lambda x, y: x @ y)
    replay = executor.capture(lambda: executor.issue(bound))
    replay.launch()
    executor.wait(deadline_s=5, during="a replay of a library call")


def _refusals(state: dict[str, Any], said: list[str]) -> None:
    from kernelwright.judge.device.faults import DeviceFault

    problem = kernels.vector_add(COUNT)
    blob, _ = _build(state, problem, kernels.candidate(problem, kernels.add_vectors(COUNT)))
    executor, made = state["executor"], kernels.candidate(problem, kernels.add_vectors(COUNT))
    for name, wrong in (("garbage", b"\x7fELF" + bytes(300)), ("half", blob[: len(blob) // 2])):
        try:
            executor.load(wrong, made)
        except DeviceFault as fault:
            said.append(f"{name}: {fault.failure.stage}/{fault.failure.kind} fatal={fault.fatal}")
        else:
            raise RuntimeError(f"{name} was loaded")
    executor.probe()


def _undefined(state: dict[str, Any], said: list[str]) -> None:
    torch, executor = state["torch"], state["executor"]
    torch.full((1 << 26,), 7.0, device="cuda")
    for name, work in (
        ("perturb", lambda: executor.perturb(0x5A)),
        ("flush", executor.flush),
        ("scrub", executor.scrub),
    ):
        begun = time.perf_counter()
        work()
        host = time.perf_counter() - begun
        span = executor.timed(work, deadline_s=5, during=name)
        said.append(f"{name} {span.device_us:.0f} µs (host {1e6 * host:.0f})")
    executor.wait(deadline_s=5, during="scrubbing")
    left = torch.empty(1 << 26, device="cuda")
    said.append(f"left of 7.0 after scrubbing: {int((left == 7.0).sum())}")


def _sealing(state: dict[str, Any], said: list[str]) -> None:
    torch = state["torch"]
    from kernelwright.judge.correctness import FloatBound
    from kernelwright.judge.device.sealing import SealedBounds
    from kernelwright.types import ToleranceRule

    with torch.device("cuda"):
        x = torch.randn(4096, 4096, dtype=torch.float64)
        truth = torch.softmax(x, -1)
        own = torch.softmax(x.float(), -1)
        times = []
        for _ in range(2):
            torch.cuda.synchronize()
            begun = time.perf_counter()
            bound = FloatBound(
                "out", truth=truth.clone(), own=own, nearby=[truth * (1 + 1e-7)], rule=ToleranceRule(), terms=4096
            )
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begun)
        said.append(f"bound of 16 Mi elements: {1e3 * times[1]:.1f} ms")
        sealed = SealedBounds((bound,), torch.device("cuda"))
        hidden = float((bound.truth.reshape(-1).nan_to_num(0.0) - truth.reshape(-1)).abs().median())
        torch.cuda.synchronize()
        begun = time.perf_counter()
        with sealed as (again,):
            torch.cuda.synchronize()
            said.append(f"unsealing {1e3 * (time.perf_counter() - begun):.1f} ms")
            if not isinstance(again, FloatBound) or not torch.equal(again.truth, truth.reshape(-1)):
                raise RuntimeError("the bound is not what it was")
            for wanted, output in ((True, own), (False, own.half().float())):
                torch.cuda.synchronize()
                begun = time.perf_counter()
                finding = again.check(output)
                said.append(f"check {finding.passed} in {1e3 * (time.perf_counter() - begun):.1f} ms")
                if finding.passed != wanted:
                    raise RuntimeError(finding.evidence)
        if hidden < 1e-6:
            raise RuntimeError("the sealed truth can be read")


def _floors(state: dict[str, Any], said: list[str]) -> None:
    from kernelwright.judge.device import floors

    executor = state["executor"]
    found = floors.measure(
        executor, state["driver"].driver_version(), empty=lambda flag: executor.issue_empty(programmatic=flag)
    )
    floors.store(found)
    said.append(json.dumps({**found.__dict__, "best": found.bandwidth}))


def _conditions(state: dict[str, Any], said: list[str]) -> None:
    from kernelwright.judge.device.conditions import Conditions

    made = Conditions(state["executor"].limits.address)
    begun = time.perf_counter()
    for _ in range(5):
        made.read()
    said.append(f"a reading costs {1e3 * (time.perf_counter() - begun) / 5:.2f} ms; {made.summary()}")
    if not made.summary():
        raise RuntimeError("NVML gives nothing")


def _profiler(state: dict[str, Any], said: list[str]) -> None:
    torch, executor, bound = state["torch"], state["executor"], state["add"]
    replay = executor.capture(lambda: [executor.issue(bound) for _ in range(20)])
    span = executor.timed(replay.launch, deadline_s=5, during="timing")
    begun = time.perf_counter()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        replay.launch()
        torch.cuda.synchronize()
    found = [e for e in profile.events() if e.name.startswith("add")]
    if found:
        whole = max(e.time_range.end for e in found) - min(e.time_range.start for e in found)
        said.append(
            f"{len(found)} kernels, from first start to last end {whole:.1f} µs; events {span.device_us:.1f} µs"
        )
    said.append(f"profiler took {time.perf_counter() - begun:.2f} s")


EXECUTOR_STEPS: tuple[tuple[str, Callable[[dict[str, Any], list[str]], None]], ...] = (
    ("import torch and the executor", _import),
    ("context, own kernels, probe", _context),
    ("probe again", _probe),
    ("build, load, launch a kernel", _add),
    ("graph of 200 launches", _graph),
    ("programmatic launch", _programmatic),
    ("clusters, shared memory, cooperative", _launch_forms),
    ("tensor map", _tensor_map),
    ("library call", _library),
    ("files that are no cubins", _refusals),
    ("perturb, flush, scrub", _undefined),
    ("bounds on the device, sealed", _sealing),
    ("floors", _floors),
    ("conditions (NVML)", _conditions),
    ("kineto's span of a block", _profiler),
)

# ------------------------------------------------------------------------------ the judge


def outcome_of(record: Record) -> str:
    """Returns a record's outcome in a few words."""
    if isinstance(record.outcome, Failure):
        return f"{record.outcome.stage}: {record.outcome.kind}"
    failed = [c.name for c in record.outcome.verdict.checks if not c.passed]
    return f"check: {failed[0]}" if failed else "passed"


def told(record: Record) -> str:
    """Returns a record in one line."""
    if isinstance(record.outcome, Failure):
        return f"{outcome_of(record)}: {record.outcome.message}"
    lines = [f"{c.name}: {c.evidence}" for c in record.outcome.verdict.checks if not c.passed]
    times = [f"{m.contender} {m.mode} {m.median_us:.2f} µs x{m.calls}" for m in record.outcome.measurements]
    ratios = [f"{c.speedup:.3f}x {c.baseline} [{c.low:.3f}, {c.high:.3f}]" for c in record.outcome.comparisons]
    extra = [f"noise {record.outcome.noise:.4f}"] if record.outcome.noise is not None else []
    if record.outcome.floor_us:
        extra.append(f"floor {record.outcome.floor_us:.2f} µs")
    return "; ".join([outcome_of(record), *lines, *times, *ratios, *extra, *record.outcome.notes])


class JudgePart:
    """Steps that go through `Judge`, as a user does."""

    def __init__(self, log: Log, *, quick: bool) -> None:
        self.log, self.quick = log, quick
        self.events: list[tuple[float, Any]] = []
        self.target: Target = languages.cuda_target("sm_90a")
        with log.step("target") as said:
            self.target = languages.detect_device_target()
            said.append(str(self.target))
        self.policies = policies_for(self.target)

    def hear(self, event: Any) -> None:
        """Keeps one event of the judge."""
        self.events.append((time.monotonic(), event))

    def opening(self) -> str:
        """Returns where the time of opening and preparing went, and forgets it."""
        parts = [e for _, e in self.events if isinstance(e, dict) and "seconds" in e]
        self.log.write("\n".join(f"{when:.2f} {event}" for when, event in self.events))
        self.events.clear()
        named = [(str(e.get("opening") or e.get("baseline") or e.get("state")), e["seconds"]) for e in parts]
        return "(" + ", ".join(f"{name} {seconds:.2f}" for name, seconds in named if seconds >= 0.02) + ")"

    def one(self, judge: Judge, candidate: Candidate, policy: str) -> Record:
        """Judges one candidate and logs its record."""
        record = next(judge.judge([candidate], self.policies[policy]))
        self.log.write(codec.dumps(record))
        return record

    def problem_steps(self, name: str, problem: Problem, text: str, *, report: bool) -> None:
        """Screening, measuring, and the whole report, cold and warm, of one right kernel."""
        log = self.log
        with Judge(problem, self.target, on_event=self.hear) as judge:
            made = kernels.candidate(problem, text)
            for policy in ("screen", "measure", *(("report",) if report else ())):
                with log.step(f"{name}: prepare {policy}", 240) as said:
                    judge.prepare(self.policies[policy])
                    said.append(self.opening())
                for attempt in ("first", "again"):
                    with log.step(f"{name}: {policy}, {attempt}", 120) as said:
                        # Another text, so that the build counts as well.
                        fresh = kernels.candidate(problem, f"// {policy} {attempt}\n{text}")
                        record = self.one(judge, fresh if attempt == "again" else made, policy)
                        said.append(f"{record.duration_s:.2f} s; {told(record)}")
                        if not record.passed:
                            raise RuntimeError("an honest kernel failed")

    def fault_steps(self) -> None:
        """Every fault, and after each a right kernel; all are built before the first runs."""
        problem, begun = kernels.vector_add(COUNT), time.monotonic()
        quick = replace(self.policies["screen"], name="faults", families=("given",), rounds=2, call_deadline_s=1.0)
        right = kernels.candidate(problem, kernels.add_vectors(COUNT))
        with Judge(problem, self.target, on_event=self.hear) as judge:
            made = [kernels.candidate(problem, kernels.faulty(name, COUNT)) for name in kernels.FAULTS]
            with self.log.step("faults: build, open, first right kernel", 60) as said:
                first = next(judge.judge([right, *made], quick))
                said.append(f"{told(first)}; {self.opening()}")
            records = judge.judge([each for one in made for each in (one, right)], quick)
            for name in (*kernels.FAULTS, *kernels.ARTIFACT_FAULTS):
                if time.monotonic() - begun > FAULTS_LIMIT_S:
                    self.log.line(f"fault: {name}", "SKIPPED", 0.0, "no time left")
                    continue
                with self.log.step(f"fault: {name}", 40) as said:
                    if name in kernels.ARTIFACT_FAULTS:
                        record = self._spoiled(judge, problem, name, quick, right)
                        records = judge.judge([right], quick)
                    else:
                        record = next(records)
                    self._next(judge, name, record, records, said)

    def _next(self, judge: Judge, name: str, record: Record, records: Iterator[Record], said: list[str]) -> None:
        """Judges the right kernel after a fault, and looks at both records."""
        self.log.write(codec.dumps(record))
        self.events.clear()
        after_s = time.monotonic()
        good = next(records)
        said.append(f"{outcome_of(record)} in {record.duration_s:.2f} s")
        said.append(f"next {outcome_of(good)} after {time.monotonic() - after_s:.2f} s {self.opening()}")
        if judge._device and judge._device.replaced_s:
            said.append(f"last replacement {judge._device.replaced_s[-1]:.2f} s")
        wanted = kernels.FAULTS[name][2] if name in kernels.FAULTS else kernels.ARTIFACT_FAULTS[name]
        if not any(outcome_of(record).startswith(word) for word in wanted):
            raise RuntimeError(f"wanted one of {wanted}: {told(record)}")
        if not good.passed:
            raise RuntimeError(f"the next candidate: {told(good)}")

    def _spoiled(self, judge: Judge, problem: Problem, name: str, policy: Policy, right: Candidate) -> Record:
        if name in ("kernel that is not there", "other parameters"):
            # The artifact of the right one, called in another way.
            (built,) = judge._builder.build(problem, [right])
            assert not isinstance(built, Failure)
            outcome = judge._examine(right, kernels.misplanned(built, name), policy)
            return Record(problem="", candidate="", target="", policy="", outcome=outcome)
        before = judge._builder
        judge._builder = kernels.Altering(before, name, self.log.folder)  # type: ignore[assignment]
        try:
            return next(judge.judge([right], policy))
        finally:
            judge._builder = before

    def repeat_step(self, times: int) -> None:
        """The same honest kernel again and again: how far ratios lie apart."""
        problem = kernels.softmax(8192, 4096)
        with self.log.step(f"ratio of {times} judgements", 120) as said, Judge(problem, self.target) as judge:
            made = kernels.candidate(problem, kernels.softmax_kernel(8192, 4096))
            ratios, seconds = [], []
            for _ in range(times):
                record = self.one(judge, made, "measure")
                seconds.append(record.duration_s)
                if isinstance(record.outcome, Judgement) and record.outcome.comparisons:
                    ratios.append(record.outcome.comparisons[0].speedup)
            middle = statistics.median(ratios)
            spread = max(abs(r / middle - 1.0) for r in ratios)
            said.append(
                f"within ±{100 * spread:.2f} % of {middle:.4f}; {statistics.median(seconds):.2f} s each; {ratios}"
            )

    def hidden_step(self) -> None:
        """Dynamic sizes: a kernel for every size passes, one for the declared size does not."""
        problem = kernels.dynamic_add(COUNT)
        with self.log.step("hidden shapes", 60) as said, Judge(problem, self.target, on_event=self.hear) as judge:
            for bound, wanted in (("n", "passed"), (str(COUNT), "check: ")):
                record = self.one(judge, kernels.candidate(problem, kernels.dynamic_kernel(bound)), "measure")
                said.append(f"{record.duration_s:.2f} s {told(record)[:150]} {self.opening()}")
                if not outcome_of(record).startswith((wanted, "run: memory") if bound != "n" else wanted):
                    raise RuntimeError(f"wanted {wanted}")

    def witness_step(self) -> None:
        """The engine that times Python on a device, by its own tests."""
        with self.log.step("witness engine (tests/gpu/test_witness_cuda.py)", 100) as said:
            command = [sys.executable, "-m", "pytest", "-q", "--require-gpu", "-p", "no:cacheprovider"]
            done = subprocess.run(
                [*command, str(ROOT / "tests/gpu/test_witness_cuda.py")],
                capture_output=True, text=True, timeout=95, cwd=ROOT, check=False,
            )  # fmt: skip
            self.log.write(done.stdout + done.stderr)
            said.append((done.stdout.strip().splitlines() or ["it printed nothing"])[-1])
            if done.returncode:
                raise RuntimeError(f"pytest ended with {done.returncode}")

    def delay_step(self) -> None:
        """Kernels slowed by a known amount of work: equal steps give equal differences."""
        problem = kernels.vector_add(COUNT)
        with self.log.step("a known delay", 100) as said, Judge(problem, self.target) as judge:
            times = []
            for amount in (4000, 8000, 12000):
                made = kernels.candidate(problem, kernels.add_kernel(COUNT, before=kernels.delayed(amount)))
                record = self.one(judge, made, "measure")
                if not isinstance(record.outcome, Judgement) or not record.outcome.measurements:
                    raise RuntimeError(told(record))
                times.append(next(m.median_us for m in record.outcome.measurements if m.contender == "candidate"))
            first, second = times[1] - times[0], times[2] - times[1]
            said.append(f"{times} µs; differences {first:.2f} and {second:.2f}, ratio {second / first:.4f}")

    def sanitizer_step(self) -> None:
        """The vendor's checkers on a right kernel and on one that writes beyond its output."""
        problem = kernels.vector_add(1 << 16)
        with self.log.step("compute-sanitizer", 150) as said, languages.Builder(self.target, workers=1) as builder:
            said.append(str(memory_check.find()))
            for text, tools in (
                (kernels.add_kernel(1 << 16), memory_check.TOOLS),
                (kernels.add_kernel(1 << 16, before="if (i == 0) out[1 << 16] = 1.0f;"), ("memcheck",)),
            ):
                made = kernels.candidate(problem, text)
                (built,) = builder.build(problem, [made])
                if isinstance(built, Failure):
                    raise RuntimeError(built.message)
                for tool in tools:
                    begun = time.monotonic()
                    checks, notes = memory_check.run(problem, made, built, [tool])
                    said.append(
                        f"{tool} {time.monotonic() - begun:.1f} s {[(c.passed, c.evidence) for c in checks]} {notes}"
                    )


def main() -> int:
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (ROOT / "src", ROOT / ".carry", ROOT)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "kernelwright-out")) / "bringup")
    parser.add_argument("--only", nargs="*", default=[], help="parts, by name")
    parser.add_argument("--quick", action="store_true", help="without torch.compile")
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ.setdefault("KERNELWRIGHT_HOME", str(given.out / "home"))
    if given.part == "executor":
        executor_part(given.out)
        return 0
    log = Log(given.out, given.only)
    if log.wants("executor"):
        with log.step("executor part", CHILD_S + 10):
            command = [sys.executable, __file__, "--part", "executor", "--out", str(given.out)]
            subprocess.run(command, timeout=CHILD_S, check=True)
    part = JudgePart(log, quick=given.quick)
    parts: tuple[tuple[str, Callable[[], None]], ...] = (
        ("faults", part.fault_steps),
        (
            "large",
            lambda: part.problem_steps(
                "large",
                kernels.softmax(32768, 8192),
                kernels.softmax_kernel(32768, 8192, block=512),
                report=not given.quick,
            ),
        ),
        (
            "small",
            lambda: part.problem_steps("small", kernels.vector_add(COUNT), kernels.add_vectors(COUNT), report=False),
        ),
        ("repeat", lambda: part.repeat_step(8)),
        ("hidden", part.hidden_step),
        ("delay", part.delay_step),
        ("sanitizer", part.sanitizer_step),
        ("witness", part.witness_step),
    )
    for name, work in parts:
        if any("the device does not answer" in text for _, _, _, text in log.lines):
            log.line(f"part {name}", "SKIPPED", 0.0, "no judge worker gets hold of the device")
        elif log.wants(name):
            with log.step(f"part {name}", 300):
                work()
    # The end of the output is what a caller of this script on another machine sees first.
    print()
    for name, state, seconds, text in log.lines:
        print(f"{state:7}{seconds:8.2f} s  {name:34} {text}"[: 100 if state == "ok" else 330])
    failed = sum(state == "FAILED" for _, state, _, _ in log.lines)
    print(f"{failed} of {len(log.lines)} steps failed; full log in {given.out}/log.txt")
    return failed


if __name__ == "__main__":
    sys.exit(main())
