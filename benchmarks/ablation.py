"""Strategies at equal budget over eight problems, by `kernelwright ablate`; writes docs/results/search.md.

    python benchmarks/ablation.py                              # 48 proposals, 3 seeds, all strategies and problems
    python benchmarks/ablation.py --problems softmax --each 6 --seeds 1 --results /tmp/search.md     # whether it works

The models are the bundled recordings (examples/recordings). Results go to --data (JSON) after each problem, and the
page is written anew each time; run again, it goes on with the next problem. Authors come after sixteen of the experts'
templates, so fewer proposals than that show nothing of them.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from kernelwright.languages import detect_target  # noqa: E402
from kernelwright.run.ablating import WITH_AUTHORS, WITHOUT_AUTHORS  # noqa: E402

PROBLEMS = (
    "softmax", "rms_norm", "swiglu", "layer_norm", "l2_normalize", "add_rms_norm", "gelu_bias", "huber_loss",
)  # fmt: skip
STRATEGIES = (*WITHOUT_AUTHORS, *WITH_AUTHORS)
PAGE = ROOT / "docs" / "results" / "search.md"
FOLDER = ROOT / "kernelwright-out" / "ablation"
NOTE = """Each strategy makes the same number of proposals, which the same judge judges; a number is the best measured
speedup against eager, the median over seeds with the least and the greatest. `evolve` begins with `tune`. `authors` are
recorded replies after sixteen of the experts' templates; `authors-contrast` may put contrasted kernels into prompts,
too.

**What this can show**: whether the loop loses anything against its parts at equal budget, and what written kernels add
to templates. **What it cannot**: recorded replies do not read their prompts, so the difference between the last two
columns is that of the prompt kinds that were due (some replies are recorded for contrasting prompts only), and no
evidence about a model. `kernelwright ablate SOURCE --model NAME` asks a real one.
"""


def trials(name: str, each: int, seeds: int) -> list[dict[str, Any]]:
    """Returns every trial on one problem."""
    command = [
        sys.executable, "-m", "kernelwright", "ablate", name, "--each", str(each), "--seeds", str(seeds), "--json",
        "--model", f"replay/{ROOT / 'examples' / 'recordings' / name}.jsonl", "--out", str(FOLDER / name),
    ]  # fmt: skip
    for strategy in STRATEGIES:
        command += ["--strategy", strategy]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(ended.stdout)
    return found


def line(name: str, found: list[dict[str, Any]]) -> str:
    """Returns one problem's line of the table."""
    cells = []
    for strategy in STRATEGIES:
        best = [(trial["curve"] or [0.0])[-1] for trial in found if trial["strategy"] == strategy]
        cells.append(f"{statistics.median(best):.2f} [{min(best):.2f}, {max(best):.2f}]")
    return f"| {name} | {' | '.join(cells)} |\n"


def means(known: dict[str, list[dict[str, Any]]]) -> str:
    """Returns the line of geometric means over the problems; where nothing passed, eager stays: 1."""
    cells = []
    for strategy in STRATEGIES:
        medians = [
            statistics.median((t["curve"] or [0.0])[-1] for t in found if t["strategy"] == strategy)
            for found in known.values()
        ]
        cells.append(f"{math.exp(statistics.fmean(math.log(max(1.0, m)) for m in medians)):.2f}")
    return f"| **geometric mean** | {' | '.join(cells)} |\n"


def page(known: dict[str, list[dict[str, Any]]], given: argparse.Namespace) -> str:
    """Returns the page."""
    target = detect_target()
    tools = ", ".join(f"{tool} {version}" for tool, version in target.toolchain)
    command = f"python benchmarks/ablation.py --each {given.each} --seeds {given.seeds}"
    head = f"# Searching at equal budget\n\nMade by `{command}` on {datetime.now(UTC):%Y-%m-%d}.\n\n"
    head += f"{target.device}, {target.threads} threads; {tools}.\n\n{NOTE}\n"
    table = f"| problem | {' | '.join(STRATEGIES)} |\n{'|---' * (1 + len(STRATEGIES))}|\n"
    return head + table + "".join(line(name, found) for name, found in known.items()) + means(known)


def main() -> None:
    """Runs what is missing, and writes the page after each problem."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--each", type=int, default=48)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=PAGE)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    data = given.data or FOLDER / f"trials-{given.each}-{given.seeds}.json"
    data.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, list[dict[str, Any]]] = json.loads(data.read_text()) if data.exists() else {}
    for name in given.problems:
        if name not in known:
            known[name] = trials(name, given.each, given.seeds)
            data.write_text(json.dumps(known))
        given.results.write_text(page(known, given))


if __name__ == "__main__":
    main()
