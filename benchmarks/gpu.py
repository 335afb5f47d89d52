"""The experts' kernels on this machine's GPU, at sizes that fill it; writes docs/results/gpu.md.

    python benchmarks/gpu.py                                  # all problems and templates, 10 s of searching for each
    python benchmarks/gpu.py --problems softmax rms_norm --budget 5
    python benchmarks/gpu.py --seconds 500                    # stops in time; run again, it goes on with the next
    python benchmarks/gpu.py --capture                        # only the captures, which need no GPU

Results go to --results (JSON) after each template, and the table is written anew each time, so that a run that is cut
off has shown all that it did. A later run adds to the same file; --again does what is there already once more. The
judge itself is measured by benchmarks/gpu_judge.py.
"""

from __future__ import annotations

import argparse
import json
import math
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

from benchmarks import gpu_problems  # noqa: E402
from kernelwright import capture, codec, experts, languages, run  # noqa: E402
from kernelwright.capture import MODULE as CAPTURE_WORKER  # noqa: E402
from kernelwright.graph import Capture, Graph  # noqa: E402
from kernelwright.judge import Judge  # noqa: E402
from kernelwright.process import Worker  # noqa: E402
from kernelwright.run.result import Event, Result  # noqa: E402
from kernelwright.store import Store  # noqa: E402
from kernelwright.types import Comparison, Judgement, Problem, Target, Template, replace  # noqa: E402

FOLDER = ROOT / "kernelwright-out" / "gpu"
TABLE = ROOT / "docs" / "results" / "gpu.md"
BASELINES = {
    "quick": ("graph:eager", "eager", "compile:reduce-overhead"),
    "all": ("graph:eager", "eager", "compile:default", "compile:reduce-overhead", "compile:max-autotune"),
}
HEAD = (
    "| problem | largest input | template | µs | of the floor | against eager | hardest baseline | against it | noise |"
    " judged | s |"
)
Row = dict[str, Any]


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


def optimise(
    captured: Capture, template: Template, target: Target, shared: Shared, given: argparse.Namespace
) -> Result:
    """Returns the result of a short search over one template, judged anew at the end on fresh runs."""
    parts = run.parts_for(target)
    report = replace(
        parts.measure, name="report", baselines=BASELINES[given.baselines], rounds=32, deadline_s=120.0, draws=1
    )
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


def row_of(result: Result, template: str) -> Row:
    """Returns one line of the table as plain data."""
    outcome = result.report.outcome if result.report else None
    row: Row = {
        "problem": result.problem.name,
        "shape": gpu_problems.shape_text(tuple(s.shape for s in result.problem.inputs)),
        "template": template,
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
            "point": str(result.best.options) if result.best else "",
            "notes": list(outcome.notes),
        }
    return row


def _plain(comparison: Comparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    return {"name": comparison.baseline, "ratio": comparison.speedup, "low": comparison.low, "high": comparison.high}


# ------------------------------------------------------------------------------ table


def line(row: Row) -> str:
    """Returns one line of the table."""
    head = [row["problem"], row["shape"], row["template"]]
    tail = [str(row.get("judged", "-")), str(row.get("seconds", "-"))]
    if row.get("error"):
        return f"| {' | '.join([*head, '-', '-', '-', row['error'].replace('|', '/')[:80], '-', '-', *tail])} |"
    share = row["floor_us"] / row["kernel_us"] if row["floor_us"] else None
    cells = [
        f"{row['kernel_us']:.2f}",
        f"{100 * share:.0f} %" if share else "-",
        _ratio(row["eager"]),
        row["hardest"]["name"] if row["hardest"] else "-",
        _ratio(row["hardest"]),
        f"{100 * row['noise']:.2f} %" if row["noise"] is not None else "-",
    ]
    return f"| {' | '.join([*head, *cells, *tail])} |"


def _ratio(found: dict[str, Any] | None) -> str:
    return f"{found['ratio']:.2f} [{found['low']:.2f}, {found['high']:.2f}]" if found else "-"


def best_rows(rows: list[Row]) -> list[Row]:
    """Returns each problem's fastest template."""
    best: dict[str, Row] = {}
    for row in rows:
        if not row.get("error") and row["kernel_us"] < best.get(row["problem"], {"kernel_us": math.inf})["kernel_us"]:
            best[row["problem"]] = row
    return list(best.values())


def summary(rows: list[Row]) -> list[str]:
    """Returns counts and geometric means over problems, the fastest template of each."""
    best = best_rows(rows)
    beyond = [r for r in best if r["hardest"] and r["hardest"]["low"] > 1 + (r["noise"] or 0.0)]
    eager = [r["eager"]["ratio"] for r in best if r["eager"]]
    hardest = [r["hardest"]["ratio"] for r in best if r["hardest"]]
    floors = [r["floor_us"] / r["kernel_us"] for r in best if r["floor_us"]]
    return [
        f"- problems with a right kernel: {len(best)} of {len({r['problem'] for r in rows})}",
        f"- faster than every baseline beyond the A/A noise (95 % intervals): {len(beyond)}",
        f"- geometric mean against eager: {_mean(eager)}; against the hardest baseline: {_mean(hardest)}",
        f"- geometric mean of the fraction of the device's floor: {_mean(floors)}",
    ]


def _mean(numbers: list[float]) -> str:
    return f"{math.exp(sum(map(math.log, numbers)) / len(numbers)):.2f}" if numbers else "-"


def document(data: dict[str, Any]) -> str:
    """Returns the results page."""
    rows: list[Row] = sorted(data["rows"].values(), key=lambda r: (_place(r["problem"]), r["template"]))
    method = next((r["method"] for r in rows if r.get("method")), "")
    return "\n".join(
        [
            "# GPU results",
            "",
            f"Made by `python benchmarks/gpu.py` on {data['device']}, {data['when']}; {data['tools']}.",
            "",
            *summary(rows),
            "",
            "The built-in problems at larger sizes (benchmarks/gpu_problems.py), float32. Ratios are the baseline's",
            "time over the kernel's with 95 % bootstrap intervals, from runs that had no part in choosing the kernel.",
            f"The hardest baseline is the fastest of {', '.join(data['baselines'])}.",
            "The floor is the time that the bytes that must move take at the best bandwidth measured on this device,",
            "or the operations at its best rate.",
            "",
            HEAD,
            "|" + "---|" * (HEAD.count(" | ") + 1),
            *map(line, rows),
            "",
            f"Method: {method}",
            "",
        ]
    )


def _place(name: str) -> int:
    known = list(gpu_problems.SIZES)
    return known.index(name) if name in known else len(known)


def keep(data: dict[str, Any], given: argparse.Namespace) -> None:
    """Writes results and table."""
    given.results.parent.mkdir(parents=True, exist_ok=True)
    given.results.write_text(json.dumps(data, indent=1))
    given.table.parent.mkdir(parents=True, exist_ok=True)
    given.table.write_text(document(data))


def begin(target: Target, given: argparse.Namespace) -> dict[str, Any]:
    """Returns the results of earlier runs with this run's heading."""
    data: dict[str, Any] = {"rows": {}}
    if given.results.exists():
        data = json.loads(given.results.read_text())
    tools = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    data.update(
        device=f"{target.device} ({target.architecture})",
        tools=tools,
        when=f"{datetime.now(UTC):%Y-%m-%d}",
        baselines=BASELINES[given.baselines],
    )
    return data


def work(names: list[str], captures: Captures, target: Target, given: argparse.Namespace) -> dict[str, Any]:
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
    data: dict[str, Any],
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
    for template in templates.templates:
        key = f"{name} {template.name}"
        wanted = not given.templates or template.name in given.templates
        known = data["rows"].get(key)
        if not wanted or (known and not known.get("error") and not given.again):
            continue
        if time.monotonic() - begun > given.seconds:
            return
        try:
            data["rows"][key] = row_of(optimise(captured, template, target, shared, given), template.name)
        except Exception as error:  # noqa: BLE001  (the next template must run)
            shared.end()
            _fail(name, template.name, error, data, given)
            continue
        data["rows"].pop(f"{name} -", None)
        print(line(data["rows"][key]), flush=True)
        keep(data, given)


def _fail(name: str, template: str, error: Exception, data: dict[str, Any], given: argparse.Namespace) -> None:
    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    row = {"problem": name, "shape": "-", "template": template, "error": text, "trace": traceback.format_exc()}
    data["rows"][f"{name} {template}"] = row
    print(line(row), flush=True)
    keep(data, given)


def arguments() -> argparse.Namespace:
    """Returns what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*", default=[], help="default: all of benchmarks/gpu_problems.py")
    parser.add_argument("--templates", nargs="*", default=[], help="default: all that the experts offer")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of searching for each template")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no template begins after so many")
    parser.add_argument("--baselines", choices=sorted(BASELINES), default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="also what the results have already")
    parser.add_argument("--capture", action="store_true", help="only capture the problems")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER, help="stores")
    parser.add_argument("--captures", type=Path, default=FOLDER / "captures")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.json")
    parser.add_argument("--table", type=Path, default=TABLE)
    return parser.parse_args()


def main() -> None:
    """Runs the benchmark."""
    given = arguments()
    names = given.problems or list(gpu_problems.SIZES)
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
    print(document(data))


if __name__ == "__main__":
    main()
