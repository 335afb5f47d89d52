"""The experts' kernels on this machine's GPU, at sizes that fill it; writes docs/results/gpu.md.

    python benchmarks/gpu.py                                  # all problems and templates, 10 s of searching for each
    python benchmarks/gpu.py --problems softmax rms_norm --budget 5
    python benchmarks/gpu.py --seconds 500                    # stops in time; run again, it goes on with the next
    python benchmarks/gpu.py --capture                        # only the captures, which need no GPU
    python benchmarks/gpu.py --workers 4                      # so many processes, which take the machine's GPUs in turn

Results go to --results (JSON) after each template, and the table is written anew each time, so that a run that is cut
off has shown all that it did. A later run adds to the same file; --again does what is there already once more. With
--workers every process has every so-many-th problem and a file of its own, and the table is of all of them; those that
share a GPU take turns at it: whoever takes times is alone with it, while others compile. Captures made elsewhere by
--capture can be copied to --captures. The judge itself is measured by benchmarks/gpu_judge.py and gpu_screening.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(place))

from benchmarks.gpu_table import LARGE_BYTES, Row, document, line, merged, of_copy, own_file  # noqa: E402

from benchmarks import gpu_problems  # noqa: E402
from kernelwright import capture, codec, environment, experts, languages, run  # noqa: E402
from kernelwright import judge as judging  # noqa: E402
from kernelwright.capture import MODULE as CAPTURE_WORKER  # noqa: E402
from kernelwright.errors import KernelwrightError  # noqa: E402
from kernelwright.graph import Capture, Graph  # noqa: E402
from kernelwright.judge import Judge  # noqa: E402
from kernelwright.languages import device_probe  # noqa: E402
from kernelwright.process import Worker  # noqa: E402
from kernelwright.run.result import Event, Result  # noqa: E402
from kernelwright.store import Store  # noqa: E402
from kernelwright.types import Comparison, Judgement, Problem, Target, Template, replace  # noqa: E402

FOLDER = ROOT / "kernelwright-out" / "gpu"
TABLE = ROOT / "docs" / "results" / "gpu.md"
EAGER = ("graph:eager", "eager")
COMPILED = {
    "quick": ("compile:reduce-overhead",),
    "all": ("compile:default", "compile:reduce-overhead", "compile:max-autotune"),
}
MOVED = re.compile(r"at least (\d+) bytes")


PREPARE_DEADLINE_S = judging.PREPARE_DEADLINE_S
MEMORY_SHARE = 0.9
"""Of a GPU's memory, for all processes on it."""


# ------------------------------------------------------------------------------ captures


class Captures:
    """Captures problems one after the other in the background, and keeps them as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool = ThreadPoolExecutor(1)
        self._worker: list[Worker] = []
        self._asked: dict[str, Future[Capture]] = {}

    def ask(self, name: str) -> Future[Capture]:
        """Begins with a problem, unless that was done already."""
        if name not in self._asked:
            self._asked[name] = self._pool.submit(self._make, name)
        return self._asked[name]

    def _make(self, name: str) -> Capture:
        source, kept = gpu_problems.write(name, self._folder), self._folder / f"{name}.json"
        if kept.exists():
            known = codec.loads(kept.read_text())
            if isinstance(known, Capture) and known.problem.reference[0].text == source.read_text():
                return known
        if not self._worker or not self._worker[0].alive:
            self._worker[:] = [Worker(CAPTURE_WORKER)]
        made = capture.load(str(source), worker=self._worker[0])
        kept.write_text(codec.dumps(made))
        return made

    def close(self) -> None:
        """Drops what has not begun, and ends the worker."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for worker in self._worker:
            worker.close()


# ------------------------------------------------------------------------------ one template


class Shared:
    """Gives every optimisation the same judge: starting its processes anew takes seconds."""

    def __init__(self) -> None:
        self._judge: Judge | None = None
        self._listener: Callable[[Any], None] | None = None

    def __call__(self, problem: Problem, target: Target, *, on_event: Callable[[Any], None] | None = None) -> Shared:
        """Returns the judge, turned to another problem."""
        self._listener = on_event
        if self._judge is None:
            self._judge = Judge(problem, target, on_event=self._hear)
        self._judge.turn_to(problem)
        return self

    def _hear(self, event: Any) -> None:
        if self._listener:
            self._listener(event)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def __enter__(self) -> Shared:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def end(self) -> None:
        """Ends the judge's processes; the next optimisation starts others."""
        if self._judge is not None:
            self._judge.close()
        self._judge = None


class Only:
    """Experts of which one template is taken."""

    def __init__(self, template: Template) -> None:
        self.templates, self.refusals = (template,), ()

    def __call__(self, problem: Problem, graph: Graph, *, target: Target) -> Only:
        """Returns the one template."""
        return self


def free_baselines(
    captured: Capture, target: Target, shared: Shared, given: argparse.Namespace, left_s: float
) -> tuple[tuple[str, ...], list[str]]:
    """Returns the baselines that one problem's kernels are held against, and what was left out.

    Each mode of torch.compile is timed alone, and has --compile-seconds to compile, or a third of the time that is
    left; the fastest stays.
    """
    limit_s = max(1.0, min(given.compile_seconds, left_s / 3.0))
    times: dict[str, float] = {}
    left_out: list[str] = []
    policy = replace(
        run.parts_for(target).measure, name="free", families=("given",), draws=1, hidden_shapes=0, rounds=6
    )
    for mode in COMPILED[given.baselines]:
        judge, judging.PREPARE_DEADLINE_S = shared(captured.problem, target), limit_s
        try:
            found = judge.baselines(replace(policy, baselines=(mode,)))
            times |= {m.contender: m.median_us for m in found if m.contender == mode}
            if mode not in times:
                left_out.append(f"{mode} does not work here")
        except KernelwrightError as error:
            shared.end()
            left_out.append(f"{mode} left out: {error.message}")
        finally:
            judging.PREPARE_DEADLINE_S = PREPARE_DEADLINE_S
    fastest = (min(times, key=lambda mode: times[mode]),) if times else ()
    return (*EAGER, *fastest), left_out


def optimise(
    captured: Capture,
    template: Template,
    target: Target,
    shared: Shared,
    baselines: tuple[str, ...],
    given: argparse.Namespace,
) -> Result:
    """Returns the result of a short search over one template, judged anew at the end on fresh runs."""
    parts = run.parts_for(target)
    report = replace(parts.measure, name="report", baselines=baselines, rounds=32, deadline_s=120.0, draws=1)
    parts = replace(parts, experts=Only(template), judge=shared, report=report)
    path = given.out / f"{captured.problem.name}-{template.name}.sqlite"
    if given.again:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with Store(path) as store:
        show = _show if given.verbose else None
        return run.optimize(
            captured, target, store=store, budget_s=given.budget, parts=parts, seed=given.seed, on_event=show
        )


def _show(event: Event) -> None:
    print(f"    [{event.elapsed_s:5.1f} s] {event.text}", flush=True)


def row_of(result: Result, template: str, copy: dict[str, float]) -> Row:
    """Returns one line of the table as plain data.

    Args:
        result: of one template.
        template: its name.
        copy: the copy bandwidth of this run by size.
    """
    outcome = result.report.outcome if result.report else None
    row: Row = {
        "problem": result.problem.name,
        "shape": gpu_problems.shape_text(tuple(s.shape for s in result.problem.inputs)),
        "template": template,
        "language": result.best.language if result.best else "-",
        "measured": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}",
        "answer": result.answer,
        "judged": result.judged + result.found,
        "seconds": round(result.seconds, 1),
        "counts": dict(result.counts),
        "error": "" if isinstance(outcome, Judgement) else result.why,
    }
    if isinstance(outcome, Judgement):
        ours = next(m for m in outcome.measurements if m.contender == "candidate" and m.mode == "cold")
        hardest = min(outcome.comparisons, key=lambda c: c.speedup, default=None)
        row |= {
            "kernel_us": ours.median_us,
            "floor_us": outcome.floor_us,
            "noise": outcome.noise,
            "eager": _plain(outcome.against("eager")),
            "hardest": _plain(hardest),
            "times_us": {m.contender: m.median_us for m in outcome.measurements if m.mode == "cold"},
            "method": ours.method,
            "point": dict(result.best.point) if result.best else {},
            "notes": list(outcome.notes),
            "of_copy": _share_of_copy(outcome, result.problem, ours.median_us, copy),
        }
    return row


def _share_of_copy(outcome: Judgement, problem: Problem, kernel_us: float, copy: dict[str, float]) -> float | None:
    """Returns the fraction of a copy's bandwidth, None where the problem is small or operations limit it."""
    said = next((found for c in outcome.verdict.checks if (found := MOVED.search(c.evidence))), None)
    moved = int(said[1]) if said else problem.min_bytes
    if not copy or moved < LARGE_BYTES or not outcome.floor_us:
        return None
    by_bytes_us = moved / max(rate for size, rate in copy.items() if int(size) >= 1 << 26) * 1e6
    return of_copy(copy, moved, kernel_us) if by_bytes_us > 0.8 * outcome.floor_us else None


def _plain(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {"name": comparison.baseline, "ratio": comparison.speedup, "low": comparison.low, "high": comparison.high}


# ------------------------------------------------------------------------------ results


def measured_copy() -> dict[str, float]:
    """Returns bytes read and written in a second by size of a copied buffer, measured now in a process of its own.

    The judge of this run uses the same measurement for its floors.
    """
    command = [sys.executable, str(Path(__file__).resolve()), "--copy"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode:
        print(f"the copy bandwidth could not be measured: {ended.stderr.strip()[-300:]}", flush=True)
        return {}
    found: dict[str, float] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


def _measure_copy() -> None:
    from kernelwright.judge.device import driver, floors
    from kernelwright.judge.device.cuda_executor import CudaExecutor
    from kernelwright.judge.device.turns import Turns

    executor = CudaExecutor()
    empty: Callable[[bool], None] = lambda flag: executor.issue_empty(programmatic=flag)  # noqa: E731
    with Turns(environment.turns()).taken("alone"):
        found = floors.measure(executor, driver.driver_version(), empty=empty)
    floors.store(found)
    print(json.dumps(found.copy))


def keep(data: Row, given: argparse.Namespace) -> None:
    """Writes this process's results, and the table of all."""
    _write(own_file(given.results, given.share), json.dumps(data, indent=1))
    keep_table(given)


def keep_table(given: argparse.Namespace) -> None:
    """Writes the table of all processes' results."""
    _write(given.table, document(merged(given.results)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(text)
    part.replace(path)


def begin(target: Target, given: argparse.Namespace) -> Row:
    """Returns the results of earlier runs with this run's heading."""
    data: Row = {"rows": {}}
    path = own_file(given.results, given.share)
    if path.exists():
        data = json.loads(path.read_text())
    tools = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    data.update(
        device=f"{target.device} ({target.architecture})",
        tools=tools,
        when=f"{datetime.now(UTC):%Y-%m-%d}",
        baselines=[*EAGER, *COMPILED[given.baselines]],
        copy=measured_copy(),
    )
    return data


def work(names: list[str], captures: Captures, target: Target, given: argparse.Namespace) -> Row:
    """Runs every template of every problem until the time is up; no failure stops the others."""
    begun, data, shared = time.monotonic(), begin(target, given), Shared()
    for name in names:
        captures.ask(name)
    try:
        for name in names:
            if time.monotonic() - begun > given.seconds:
                print(f"out of time before {name}; run this again to go on", flush=True)
                break
            _problem(name, captures, target, given, data, shared, begun)
    finally:
        shared.end()
    return data


def _problem(
    name: str,
    captures: Captures,
    target: Target,
    given: argparse.Namespace,
    data: Row,
    shared: Shared,
    begun: float,
) -> None:
    try:
        captured = captures.ask(name).result()
        templates = experts.templates(captured.problem, captured.graph, target=target) if captured.graph else None
    except Exception as error:  # noqa: BLE001  (the next problem must run)
        _fail(name, "-", error, data, given)
        return
    if templates is None or not templates.templates:
        reason = "; ".join(r.reason for r in templates.refusals) if templates else captured.reason
        data["rows"][f"{name} -"] = {"problem": name, "shape": "-", "template": "-", "error": f"no template: {reason}"}
        keep(data, given)
        return
    baselines: tuple[str, ...] = ()
    left_out: list[str] = []
    for template in templates.templates:
        key = f"{name} {template.name}"
        wanted = not given.templates or template.name in given.templates
        known = data["rows"].get(key)
        if not wanted or (known and not known.get("error") and not given.again):
            continue
        if time.monotonic() - begun > given.seconds:
            return
        try:
            if not baselines:
                left_s = given.seconds - (time.monotonic() - begun)
                baselines, left_out = free_baselines(captured, target, shared, given, left_s)
            result = optimise(captured, template, target, shared, baselines, given)
            data["rows"][key] = {**row_of(result, template.name, data["copy"]), "left_out": left_out}
        except Exception as error:  # noqa: BLE001  (the next template must run)
            shared.end()
            _fail(name, template.name, error, data, given)
            continue
        data["rows"].pop(f"{name} -", None)
        print(line(data["rows"][key]), flush=True)
        keep(data, given)


def _fail(name: str, template: str, error: Exception, data: Row, given: argparse.Namespace) -> None:
    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    row = {"problem": name, "shape": "-", "template": template, "error": text, "trace": traceback.format_exc()}
    data["rows"][f"{name} {template}"] = row
    print(line(row), flush=True)
    keep(data, given)


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Returns what the command line, or a list of words, asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=[], help="default: all of benchmarks/gpu_problems.py")
    parser.add_argument("--templates", nargs="*", default=[], help="default: all that the experts offer")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of searching for each template")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no template begins after so many")
    parser.add_argument("--baselines", choices=sorted(COMPILED), default="all", help="modes of torch.compile")
    parser.add_argument("--compile-seconds", type=float, default=90.0, help="for each mode of torch.compile to compile")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with a share of the problems")
    parser.add_argument("--share", type=_share, default=(0, 1), metavar="N/COUNT", help="every COUNTth problem from N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="also what the results have already")
    parser.add_argument("--capture", action="store_true", help="only capture the problems")
    parser.add_argument("--copy", action="store_true", help="only measure what copying reaches")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER, help="stores")
    parser.add_argument("--captures", type=Path, default=FOLDER / "captures")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.json")
    parser.add_argument("--table", type=Path, default=TABLE)
    return parser.parse_args(words)


def _share(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no share such as 0/2")
    return int(number), int(count)


def in_processes(words: list[str], given: argparse.Namespace) -> int:
    """Runs one process for each share, each on the GPU whose turn it is; returns how many failed."""
    devices = environment.visible_devices() or ["0"]
    on_each = -(-given.workers // len(devices))
    memory = int(MEMORY_SHARE * device_probe.device().memory_bytes) // on_each
    threads = max(2, environment.threads() // given.workers)
    running = []
    for number in range(given.workers):
        device = devices[number % len(devices)]
        variables = environment.sharing(device, given.out.resolve() / "turns") | {
            environment.DEVICE_BYTES: str(memory),
            "KERNELWRIGHT_THREADS": str(threads),
        }
        command = [sys.executable, str(Path(__file__).resolve()), *words, "--workers", "1"]
        command += ["--share", f"{number}/{given.workers}"]
        running.append(subprocess.Popen(command, env=os.environ | variables))
    return sum(process.wait() != 0 for process in running)


def main(words: list[str] | None = None) -> None:
    """Runs the benchmark."""
    words = sys.argv[1:] if words is None else words
    given = arguments(words)
    if given.workers > 1:
        failed = in_processes(words, given)
        if failed:
            sys.exit(f"{failed} of {given.workers} processes failed; what they found is kept, run this again to go on")
        keep_table(given)
        return
    if given.copy:
        _measure_copy()
        return
    number, count = given.share
    names = (given.problems or list(gpu_problems.SIZES))[number::count]
    captures = Captures(given.captures)
    try:
        if given.capture:
            for name in names:
                begun = time.monotonic()
                made = captures.ask(name).result()
                print(f"{name:24} {time.monotonic() - begun:6.1f} s  {made.reason or 'with a graph'}", flush=True)
            return
        data = work(names, captures, languages.detect_device_target(), given)
    finally:
        captures.close()
    keep(data, given)
    print(document(merged(given.results)))


if __name__ == "__main__":
    main()
