"""Strategies at equal budget over eight problems (five on a GPU); writes docs/results/search.md.

    python benchmarks/ablation.py --each 32 --seeds 2 --seconds 480      # a worker for each pair of cores
    python benchmarks/ablation.py --device cuda --each 16 --seeds 1 --seconds 480     # a worker for each GPU
    python benchmarks/ablation.py --problems softmax --each 6 --seeds 1 --work /tmp/a --results /tmp/a.md    # tiny

A cell is one strategy with one seed on one problem, judged by a process on two cores of its own and kept in a store
of its own: no cell sees another's records or replies. The strategies of one problem and seed run side by side, in an
order that turns from group to group (benchmarks/cells.py). When a problem's cells are done, every trial's best kernel
is measured three times anew, in turn with the other trials' best: those are the numbers of the page. Called again, it
goes on with what is missing; the exit status is 3 while something is. The models are the bundled recordings
(examples/recordings).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(place))

from benchmarks import authored_gpu, cells  # noqa: E402
from kernelwright import api, capture, environment, experts, llm, run  # noqa: E402
from kernelwright.graph import Capture  # noqa: E402
from kernelwright.run.ablating import TUNED_SHARE, WITH_AUTHORS, WITHOUT_AUTHORS, ablate  # noqa: E402
from kernelwright.run.models import Authors  # noqa: E402
from kernelwright.run.models.writing import Writing  # noqa: E402
from kernelwright.search.speed import speed  # noqa: E402
from kernelwright.store import Store  # noqa: E402
from kernelwright.types import Candidate, Target, digest  # noqa: E402

PROBLEMS = {
    "cpu": (
        "softmax", "rms_norm", "swiglu", "layer_norm", "l2_normalize", "add_rms_norm", "gelu_bias", "huber_loss",
    ),
    "cuda": tuple(authored_gpu.SCALINGS),
}  # fmt: skip
LANGUAGES = {"cpu": "cpp", "cuda": "cuda"}
STRATEGIES = (*WITHOUT_AUTHORS, *WITH_AUTHORS)
PAGES = {"cpu": ROOT / "docs" / "results" / "search.md", "cuda": ROOT / "docs" / "results" / "search-gpu.md"}
FOLDER = ROOT / "kernelwright-out" / "ablation"
CORES = 2
"""Of one worker."""
AGAIN = 3
"""Times that a trial's best kernel is measured anew."""
APART = 1.03
"""Two speeds within this factor count as equal."""
UNFINISHED = 3
"""Exit status: time was up, the same command goes on."""
NOTE = """Each trial makes the same number of proposals, which the same judge judges; a quick look counts one, and so
does a measurement. A number is how many times as fast as {reference} a trial's best kernel was when it was **measured
anew**: the median of three further measurements in turn with the other trials' best, in the table the median over seeds
with the least and the greatest. The number by which a search chose its kernel is too high, the more it measured, and is
shown apart. `evolve` begins with `tune` for half of its proposals, and so do `authors`: then come recorded replies, and
`evolve` with what is left; `authors-contrast` may put contrasted kernels into prompts, too.

**What this can show**: whether the loop loses anything against its parts at equal budget, and what written kernels add
to templates. **What it cannot**: recorded replies do not read their prompts, so the difference between the last two
columns is that of the prompt kinds that were due (some replies are recorded for contrasting prompts only), and no
evidence about a model. `kernelwright ablate SOURCE --model NAME` asks a real one.
"""


# ------------------------------------------------------------------------------------------------- in a cell's process


def captured_of(name: str, device: str, work: Path) -> tuple[Capture, Target]:
    """Returns a problem, on a GPU with as many rows as fill it, and this machine's target."""
    if device == "cpu":
        return capture.load(name), api.target_named(device)
    source = work / f"{name}-{os.getpid()}" / f"{name}.py"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(authored_gpu.scaled(name, authored_gpu.ROWS[name]))
    return capture.load(str(source)), api.target_named(device)


def recorded_authors(name: str, device: str, each: int, work: Path) -> Authors:
    """Returns a problem's recording, from its beginning, as authors who come when half of the proposals are made."""
    path = ROOT / "examples" / "recordings" / f"{name}.jsonl"
    if device == "cuda":
        path = authored_gpu.fitted_recording(name, "cuda", authored_gpu.ROWS[name], work / f"{name}-{os.getpid()}")
    writing = Writing(language=LANGUAGES[device])
    model = llm.model_of(f"replay/{path}")
    return Authors(models=(model,), writing=writing, parallel=1, seed_limit=max(1, round(TUNED_SHARE * each)))


def try_(name: str, strategy: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Makes one trial; what was judged before it was cut off is in its store."""
    captured, target = captured_of(name, given.device, given.work / "sources")
    assert captured.graph is not None
    templates = experts.templates(captured.problem, captured.graph, target=target).templates
    parts = run.parts_for(target)
    with Store(store_of(given.work, name, strategy, seed)) as store:
        store.put(captured)
        (trial,) = ablate(
            captured.problem, target, templates, strategies=(strategy,), judgements=given.each, seeds=(seed,),
            store=store, judge=parts.judge, screen=parts.screen, measure=parts.measure,
            authors=lambda: recorded_authors(name, given.device, given.each, given.work / "sources"),
        )  # fmt: skip
        measured = store.records(problem=digest(captured.problem), policy=digest(parts.measure), passed=True)
        best = max(measured, key=lambda record: speed(record) or 0.0, default=None)
        author = store.get(best.candidate).author if best else ""
    tools = ", ".join(f"{tool} {version}" for tool, version in target.toolchain)
    return {
        "problem": name, "strategy": strategy, "seed": seed, "curve": trial.curve, "calls": trial.calls,
        "winner": best.candidate if best else "", "author": author,
        "machine": f"{target.device or target.architecture}, {target.threads} threads for each kernel; {tools}",
    }  # fmt: skip


def measure_anew(name: str, given: argparse.Namespace) -> dict[str, list[float]]:
    """Measures the best kernel of every trial on a problem in turn, and returns the speeds by candidate."""
    winners: dict[str, Candidate] = {}
    for trial in (t for t in trials(given.work) if t["problem"] == name and t["winner"]):
        with Store(store_of(given.work, name, trial["strategy"], trial["seed"]), create=False) as store:
            winners[trial["winner"]] = store.get(trial["winner"])
    captured, target = captured_of(name, given.device, given.work / "sources")
    parts = run.parts_for(target)
    found: dict[str, list[float]] = {key: [] for key in winners}
    order = sorted(winners)
    with parts.judge(captured.problem, target) as judge:
        for turn in range(AGAIN):
            first = turn * len(order) // AGAIN
            turned = [winners[key] for key in order[first:] + order[:first]]
            for candidate, record in zip(turned, judge.judge(tuple(turned), parts.final), strict=True):
                if (fast := speed(record)) is not None:
                    found[digest(candidate)].append(fast)
    return found


def store_of(work: Path, name: str, strategy: str, seed: int) -> Path:
    return work / "stores" / f"{name}-{strategy}-{seed}.sqlite"


# ----------------------------------------------------------------------------------------------------------- the list


def listed(problems: Sequence[str], seeds: int, work: Path, options: Sequence[str]) -> list[cells.Cell]:
    """Returns all cells: seed by seed, so that an early end leaves no problem out, strategies side by side in turn."""
    found = []
    for seed in range(seeds):
        for place, name in enumerate(problems):
            first = (place + seed) % len(STRATEGIES)
            for strategy in STRATEGIES[first:] + STRATEGIES[:first]:
                found.append(_cell(f"{name}.{strategy}.{seed}", work, options))
    for name in problems:
        own = tuple(cell.name for cell in found if cell.name.startswith(f"{name}."))
        found.append(_cell(f"{name}.again", work, options, after=own))
    return found


def _cell(name: str, work: Path, options: Sequence[str], after: tuple[str, ...] = ()) -> cells.Cell:
    command = (sys.executable, __file__, *options, "--cell", name)
    return cells.Cell(name=name, command=command, left=work / "cells" / f"{name}.json", after=after)


def trials(work: Path) -> list[dict[str, Any]]:
    """Returns every trial that came to its end."""
    files = sorted((work / "cells").glob("*.json"))
    return [json.loads(file.read_text()) for file in files if not file.stem.endswith(".again")]


# ------------------------------------------------------------------------------------------------------------ the page


def anew(trial: dict[str, Any], again: dict[str, list[float]]) -> float:
    """Returns the speed of a trial's best kernel; where nothing passed, or does no more, eager stays: 1."""
    return statistics.median(again.get(trial["winner"]) or [1.0])


def geometric_mean(speeds: Sequence[float]) -> float:
    """Returns the mean of speeds, none of them less than eager's own: nobody uses a slower kernel."""
    return math.exp(statistics.fmean(math.log(max(1.0, one)) for one in speeds)) if speeds else 1.0


def after(trial: dict[str, Any], proposals: int) -> float:
    """Returns the best speed that a search itself had measured after so many proposals."""
    curve = trial["curve"][:proposals]
    return float(curve[-1]) if curve else 0.0


def table(found: list[dict[str, Any]], again: dict[str, dict[str, list[float]]], each: int) -> str:
    """Returns the page's tables."""
    names = [name for name in again if any(t["problem"] == name for t in found)]
    of = {(n, s): [t for t in found if (t["problem"], t["strategy"]) == (n, s)] for n in names for s in STRATEGIES}
    medians: dict[str, dict[str, float]] = {strategy: {} for strategy in STRATEGIES}
    text = f"| problem | {' | '.join(STRATEGIES)} |\n{'|---' * (1 + len(STRATEGIES))}|\n"
    for name in names:
        row = []
        for strategy in STRATEGIES:
            speeds = [anew(trial, again[name]) for trial in of[name, strategy]]
            medians[strategy][name] = statistics.median(speeds or [1.0])
            row.append(f"{medians[strategy][name]:.2f} [{min(speeds):.2f}, {max(speeds):.2f}]" if speeds else "-")
        text += f"| {name} | {' | '.join(row)} |\n"
    rows = {"**geometric mean**": [f"{geometric_mean(list(medians[s].values())):.2f}" for s in STRATEGIES]}
    for label, worse in (("ahead of random", False), ("behind random", True)):
        counts = []
        for strategy in STRATEGIES:
            pairs = [(medians[strategy][n], medians["random"][n]) for n in names]
            counts.append(str(sum((b > a * APART) if worse else (a > b * APART) for a, b in pairs)))
        rows[f"problems {label} by more than 3 %"] = counts
    for part in sorted({each // 4, each // 2, each} - {0}):
        own = [[statistics.median([after(t, part) for t in of[n, s]] or [1.0]) for n in names] for s in STRATEGIES]
        rows[f"as the search saw it, after {part} proposals"] = [f"{geometric_mean(one):.2f}" for one in own]
    made = [[len(t["curve"]) for n in names for t in of[n, s]] for s in STRATEGIES]
    rows["proposals of a trial"] = [f"{statistics.fmean(one or [0]):.0f}" for one in made]
    best = [[t["author"].startswith("replay/") for n in names for t in of[n, s]] for s in STRATEGIES]
    rows["trials won by a written kernel"] = [f"{sum(one)} of {len(one)}" for one in best]
    return text + "".join(f"| {label} | {' | '.join(row)} |\n" for label, row in rows.items())


def page(given: argparse.Namespace) -> str:
    """Returns the page of what there is."""
    found = [t for t in trials(given.work) if t["problem"] in given.problems and t["seed"] < given.seeds]
    again = {}
    for name in given.problems:
        file = given.work / "cells" / f"{name}.again.json"
        if file.exists():
            again[name] = json.loads(file.read_text())
    command = f"python benchmarks/ablation.py --device {given.device} --each {given.each} --seeds {given.seeds}"
    head = "# Searching at equal budget\n\n"
    head += f"Made by `{command} --workers {given.workers}` on {datetime.now(UTC):%Y-%m-%d}.\n\n"
    machine = "; ".join(dict.fromkeys(trial["machine"] for trial in found))
    wanted = len(given.problems) * given.seeds * len(STRATEGIES)
    head += f"{machine}. {given.workers} cells at once, each on processor cores of its own.\n\n"
    if len(found) < wanted or len(again) < len(given.problems):
        there = f"{len(found)} of {wanted} trials, {len(again)} of {len(given.problems)} problems"
        head += f"**Not all is measured yet**: {there}.\n\n"
    reference = "eager's CUDA graph" if given.device == "cuda" else "eager"
    return f"{head}{NOTE.format(reference=reference)}\n{table(found, again, given.each)}"


# ------------------------------------------------------------------------------------------------------------ commands


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="*")
    parser.add_argument("--device", choices=tuple(PROBLEMS), default="cpu")
    parser.add_argument("--each", type=int, default=48, help="proposals of one trial")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="cells at once  [default: pairs of cores, or GPUs]")
    parser.add_argument("--seconds", type=float, default=1e9, help="then what runs is cut off, to be gone on with")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--cell", help="of one cell, by the list itself")
    parser.add_argument("--cores", default="", help="of one cell, by the list itself")
    given = parser.parse_args(arguments)
    given.problems = given.problems or list(PROBLEMS[given.device])
    if unknown := set(given.problems) - set(PROBLEMS[given.device]):
        parser.error(f"no recordings of {', '.join(sorted(unknown))} on {given.device}")
    given.work = given.work or FOLDER / f"{given.device}-{given.each}"
    given.results = given.results or PAGES[given.device]
    return given


def main() -> int:
    """Runs what is missing, and writes the page whenever a problem is done."""
    given = parsed()
    if given.cell:
        cells.bind(given.cores)
        name, what, *seed = given.cell.split(".")
        done = measure_anew(name, given) if what == "again" else try_(name, what, int(seed[0]), given)
        left = given.work / "cells" / f"{given.cell}.json"
        left.with_suffix(".part").write_text(json.dumps(done))
        left.with_suffix(".part").replace(left)
        return 0
    for folder in ("cells", "stores", "sources"):
        (given.work / folder).mkdir(parents=True, exist_ok=True)
    processors, devices = len(os.sched_getaffinity(0)), environment.visible_devices() if given.device == "cuda" else []
    given.workers = given.workers or len(devices) or max(1, processors // CORES)
    each = processors // given.workers if devices else min(CORES, processors)
    options = ("--device", given.device, "--each", str(given.each), "--work", str(given.work.absolute()))
    todo = listed(given.problems, given.seeds, given.work, options)

    def told(cell: cells.Cell) -> None:
        print(f"{datetime.now(UTC):%H:%M:%S} {cell.name}", flush=True)
        if cell.name.endswith(".again"):
            given.results.write_text(page(given))

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(UNFINISHED))  # what runs is ended with it
    places = cells.slots(given.workers, each=each, gpus=devices)
    ended = cells.finish(todo, places, seconds=given.seconds, logs=given.work / "logs", on_end=told)
    given.results.write_text(page(given))
    for name, why in ended.failed:
        print(f"{name} failed: {why}", file=sys.stderr)
    print(f"{len(ended.done)} of {len(todo)} cells are done; the same command goes on with the others", flush=True)
    return 1 if ended.failed else UNFINISHED if ended.waiting else 0


if __name__ == "__main__":
    sys.exit(main())
