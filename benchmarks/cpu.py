"""Optimises the built-in problems one after another and writes docs/results/cpu.md.

    make bench                                       # all of them; alone on the machine
    python benchmarks/cpu.py softmax rms_norm        # some of them, printed only

Each problem has its own store below --out; running it again goes on where it was stopped, and problems whose
report is there already are not judged again (give another --out for a fresh run).
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from kernelwright import capture, languages, problems, report, run
from kernelwright.run.result import Event, Result
from kernelwright.store import Store
from kernelwright.types import Comparison, Judgement, Measurement, Target

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "results" / "cpu.md"

EXPLANATION = (
    "Ratios are the baseline's time over the kernel's, with their 95 % bootstrap intervals; they come from runs that",
    "had no part in choosing the kernel. The hardest baseline is the fastest of eager and the torch.compile modes.",
    "Where the answer is `baseline`, no kernel was faster than it beyond the noise, and the tool says so.",
)


def optimise(name: str, target: Target, *, budget_s: float, seed: int, folder: Path) -> Result:
    """Returns the result for one problem, from its store where it was finished before."""
    with Store(folder / name / "store.sqlite") as store:
        known = run.recall(store)
        if known and known[-1].report is not None:
            return known[-1]
        captured = capture.load(name)
        result = run.optimize(captured, target, store=store, budget_s=budget_s, seed=seed, on_event=_show)
    run.write_best(result, folder / name)
    (folder / name / "report.html").write_text(report.html(result, version=metadata.version("kernelwright")))
    return result


def _show(event: Event) -> None:
    if event.kind in ("best", "prepare", "stage", "end"):
        print(f"    [{event.elapsed_s:5.1f} s] {event.text}", flush=True)


def comparisons(result: Result) -> tuple[Comparison | None, Comparison | None, float]:
    """Returns the reported kernel against eager, against the hardest baseline, and the noise."""
    outcome = result.report.outcome if result.report else None
    if not isinstance(outcome, Judgement):
        return None, None, 0.0
    hardest = min(outcome.comparisons, key=lambda c: c.speedup, default=None)
    return outcome.against("eager"), hardest, outcome.noise or 0.0


def row(result: Result) -> str:
    """Returns one problem's line of the table."""
    eager, hardest, noise = comparisons(result)
    times = {c.name: c.median for c in report.contenders(result.report, result.baselines)}
    shape = ", ".join(report.tensor_text(spec).split(": ")[1] for spec in result.problem.inputs[:2])
    cells = [
        result.problem.name,
        shape,
        times.get("eager", "-"),
        times.get("this kernel", "-"),
        _ratio(eager),
        hardest.baseline if hardest else "-",
        _ratio(hardest),
        f"{100 * noise:.1f} %",
        result.answer,
    ]
    return f"| {' | '.join(cells)} |"


def _ratio(comparison: Comparison | None) -> str:
    return f"{comparison.speedup:.2f} [{comparison.low:.2f}, {comparison.high:.2f}]" if comparison else "-"


def summary(results: Iterable[Result]) -> list[str]:
    """Returns the counts and the geometric means, a win being an interval that clears 1 and the noise."""
    results = list(results)
    gains, over_eager, over_all = [], 0, 0
    for result in results:
        eager, _, _ = comparisons(result)
        won = eager is not None and eager.low > 1
        over_eager += won
        over_all += result.answer == "kernel"
        gains.append(eager.speedup if won and eager else 1.0)
    mean = math.exp(sum(map(math.log, gains)) / len(gains))
    return [
        f"- problems: {len(results)}",
        f"- verified speedup whose 95 % interval lies above 1 against eager: {over_eager}",
        f"- the same against the best of eager and every torch.compile mode, beyond the A/A noise: {over_all}",
        f"- geometric mean of the speedup against eager, a problem without a win counting as 1: {mean:.2f}",
    ]


def document(results: list[Result], target: Target, *, command: str, seconds: float) -> str:
    """Returns the results page."""
    method = next((m.method for r in results for m in _measurements(r)), "")
    tools = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    head = (
        "| problem | inputs | eager µs | kernel µs | against eager | hardest baseline | against it | noise | answer |"
    )
    return "\n".join(
        [
            "# CPU results",
            "",
            f"Made by `{command}` on {datetime.now(UTC):%Y-%m-%d} in {seconds / 60:.0f} minutes, alone on the machine.",
            "",
            f"{target.architecture} ({', '.join(target.features)}), {target.threads} threads, last-level cache "
            f"{target.cache_bytes >> 20} MiB, {platform.system()} {platform.release()}; {tools}; "
            f"kernelwright {metadata.version('kernelwright')}.",
            "",
            *summary(results),
            "",
            *EXPLANATION,
            "",
            head,
            "|" + "---|" * head.count(" | ") + "---|",
            *map(row, results),
            "",
            f"Method: {method}",
            "",
        ]
    )


def _measurements(result: Result) -> Iterable[Measurement]:
    outcome = result.report.outcome if result.report else None
    return outcome.measurements if isinstance(outcome, Judgement) else result.baselines


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="built-in problems; default: all")
    parser.add_argument("--budget", type=float, default=45.0, help="seconds of searching for each problem")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "kernelwright-out" / "bench")
    given = parser.parse_args()
    target = languages.detect_target()
    start = time.monotonic()
    results = []
    for name in given.names or problems.names():
        print(f"{name}", flush=True)
        results.append(optimise(name, target, budget_s=given.budget, seed=given.seed, folder=given.out))
        print(row(results[-1]), flush=True)
    command = f"python benchmarks/cpu.py {' '.join(sys.argv[1:])}".strip()
    text = document(results, target, command=command, seconds=time.monotonic() - start)
    print(text)
    if not given.names:
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        TABLE.write_text(text)


if __name__ == "__main__":
    main()
