"""Kernels in whole models: regions found, kernels searched, placed where they win, end to end: docs/results/models.md.

    python benchmarks/models.py --capture                        # the regions as problems; needs no GPU
    python benchmarks/models.py --device cuda --minutes 5        # run again, it goes on with what time was up for
    python benchmarks/models.py --small --budget 60              # reduced sizes, on the CPU

For each network: its regions (kernelwright.optimize_model), each kernel measured in its places against Inductor alone
(a loser is left out), then the whole model beside eager and torch.compile in alternating rounds, and its outputs held
against the bound that float64 gives. All is kept in --work, captures too, so that a call that was cut off goes on.
Two GPUs divide the work: `CUDA_VISIBLE_DEVICES=0 ... --share 0/2 & CUDA_VISIBLE_DEVICES=1 ... --share 1/2`.
Kernels are judged by every family of inputs; compilers' baselines are left to the measurement in place, and memory
checkers of a GPU to `kernelwright verify`.
**Does not cover**: training; other batch sizes.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import os
import platform
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import torch

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(place))

from benchmarks.gpu import Shared  # noqa: E402
from benchmarks.networks import NETWORKS  # noqa: E402

import kernelwright  # noqa: E402
from kernelwright import api, run  # noqa: E402
from kernelwright.authoring.whole import capture_regions  # noqa: E402
from kernelwright.deploy import decisions, launcher  # noqa: E402
from kernelwright.deploy.backend import ratio  # noqa: E402
from kernelwright.deploy.operator import KNOWN  # noqa: E402
from kernelwright.deploy.trust import difference  # noqa: E402
from kernelwright.errors import MissingTool  # noqa: E402
from kernelwright.types import ToleranceRule, replace  # noqa: E402

UNFINISHED = 3
"""Exit status: time was up, the same command goes on."""
DTYPES = {"cpu": torch.float32, "cuda": torch.bfloat16}
SEARCHING, BUDGET = 0.5, 0.3
"""Of a network's part of the time: no region is begun later; seconds of searching for all of its regions."""
GRAPHS = "reduce-overhead"
Built = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
Row = dict[str, Any]


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(NETWORKS)))
@click.option("--device", type=click.Choice(("cpu", "cuda")), default="cpu", show_default=True)
@click.option("--small", is_flag=True, help="Reduced sizes.")
@click.option(
    "--budget", type=float, default=300.0, show_default=True, help="Most seconds of searching for each model."
)
@click.option("--least", type=float, default=0.02, show_default=True, help="Least share of a region that is searched.")
@click.option("--minutes", type=float, default=math.inf, help="For all; exit with 3 where regions are left.")
@click.option("--share", default="0/1", show_default=True, help="Every N-th network from the K-th on: K/N.")
@click.option("--capture", is_flag=True, help="Only captures the regions, on the CPU, for --device.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("kernelwright-out/models"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs/results/models.md", show_default=True)
def main(
    names: tuple[str, ...], device: str, small: bool, budget: float, least: float, minutes: float, share: str,
    capture: bool, work: Path, out: Path,
) -> None:  # fmt: skip
    """Searches, places and measures kernels in NAMES, or in all five networks."""
    end = time.monotonic() + 60 * minutes
    work = (work / f"{device}{'-small' if small else ''}").absolute()
    work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("KERNELWRIGHT_HOME", str(work / "home"))
    first, step = (int(n) for n in share.split("/"))
    chosen = list(names or NETWORKS)[first::step]
    if capture:
        captured(chosen, device, small, work)
        return
    building = threading.Thread(target=built_launcher)
    building.start()
    shared = Shared()
    try:
        for name, mine_s in turns(chosen, work, end):
            print(f"{name}: {mine_s:.0f} s", flush=True)
            row = row_of(name, device, small, min(budget, BUDGET * mine_s), least, mine_s, work, shared, building)
            (work / f"{name}.json").write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
            rows = [json.loads((work / f"{n}.json").read_text()) for n in NETWORKS if (work / f"{n}.json").is_file()]
            out.write_text(page(rows, device, small), encoding="utf-8")
    finally:
        shared.end()
    left = [name for name in chosen if not is_done(work, name)]
    print(f"not all: {', '.join(left)}; run it again" if left else f"all done: {out}")
    sys.exit(UNFINISHED if left else 0)


def captured(names: list[str], device: str, small: bool, work: Path) -> None:
    """Captures the regions of networks."""
    for name in names:
        model, inputs = built(name, DTYPES[device], "cpu", small)
        begun = time.monotonic()
        with torch.no_grad():
            capture_regions(model, *inputs, out=work / name, on_step=functools.partial(_show, name))
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)


def _show(name: str, line: str) -> None:
    print(f"{name}: {line}", flush=True)


def built(name: str, dtype: torch.dtype, device: str, small: bool) -> Built:
    """Returns a network for inference with its inputs."""
    torch.manual_seed(0)
    model, inputs = NETWORKS[name](small)
    return model.to(device, dtype).eval(), tuple(t.to(device, dtype) for t in inputs)


def built_launcher() -> None:
    """Builds the compiled launcher where it is not there; without a compiler calls run in Python."""
    with suppress(MissingTool):
        launcher.module(build=True)


def is_done(work: Path, name: str) -> bool:
    """Tells whether nothing of a network is left to do."""
    path = work / f"{name}.json"
    if not path.is_file():
        return False
    row = json.loads(path.read_text())
    return "error" not in row and all(region["answer"] != "later" for region in row["regions"])


def turns(names: list[str], work: Path, end: float) -> Any:
    """Yields each network that has something left to do, with its part of the time, those without a row first."""
    left = sorted((n for n in names if not is_done(work, n)), key=lambda n: (work / f"{n}.json").is_file())
    for number, name in enumerate(left):
        mine_s = (end - time.monotonic()) / (len(left) - number)
        if mine_s < 10:
            return
        yield name, mine_s


def row_of(
    name: str, device: str, small: bool, budget_s: float, least: float, mine_s: float, work: Path, shared: Shared,
    building: threading.Thread,
) -> Row:  # fmt: skip
    """Returns what became of one network."""
    begun = time.monotonic()
    model, inputs = built(name, DTYPES[device], device, small)
    parts = run.parts_for(api.target_named(device))
    # What is faster than eager is tried in the model, and only that decides.
    checkers = ("address",) if device == "cpu" else ()
    report = replace(parts.measure, name="report", rounds=32, memory_checkers=checkers)
    try:
        found = kernelwright.optimize_model(
            model, *inputs, budget_s=budget_s, out=work / name, device=device, least_share=least,
            deadline_s=SEARCHING * mine_s, parts=replace(parts, judge=shared, report=report),
            on_step=lambda line: print(f"{name}: [{time.monotonic() - begun:.0f} s] {line}", flush=True),
        )  # fmt: skip
        regions = [
            {"name": o.name, "calls": o.calls, "share": o.share, "answer": o.answer, "why": o.why, "bundle": o.bundle}
            for o in found
        ]
        building.join()
        searched_s = time.monotonic() - begun
        row = measured(model, inputs, [one.bundle for one in found if one.bundle])
    except Exception as error:  # noqa: BLE001  (the next network must run)
        traceback.print_exc()
        shared.end()
        return {"name": name, "error": f"{type(error).__name__}: {error}", "regions": []}
    command = command_of(sys.argv[1:])
    spent_s = time.monotonic() - begun
    print(f"{name}: [{spent_s:.0f} s] {row['ratios']}", flush=True)
    return {
        "name": name, "command": command, "regions": regions, "searched_s": searched_s, "seconds": spent_s,
        "threads": torch.get_num_threads(), **row,
    }  # fmt: skip


def command_of(words: list[str]) -> str:
    """Returns the arguments of a command without its folders."""
    folders = {place + step for place, word in enumerate(words) if word in ("--work", "--out") for step in (0, 1)}
    return " ".join(word for place, word in enumerate(words) if place not in folders)


def measured(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], bundles: list[str]) -> Row:
    """Returns times and errors of a model in eager mode, compiled, and compiled with kernels in it."""
    KNOWN.clear()
    decisions.DECIDED.clear()
    torch._dynamo.reset()
    with torch.no_grad():
        wanted = model(*inputs)
        exact = copy.deepcopy(model).double()(*(t.double() for t in inputs))

        def fault(called: Callable[..., Any]) -> str:
            return difference([called(*inputs).clone()], [wanted], [exact], ToleranceRule())

        fast, plain = kernelwright.accelerate(model, bundles=tuple(bundles)), torch.compile(model)
        faults = {"kernels": fault(fast), "compile": fault(plain)}
        placed = list(decisions.DECIDED)
        ratios: dict[str, Any] = {
            "compile": ratio(model, plain, inputs), "kernels": ratio(model, fast, inputs),
            "gain": ratio(plain, fast, inputs),
        }  # fmt: skip
        names = kept_names(placed)
        if inputs[0].is_cuda:
            graphs = torch.compile(model, mode=GRAPHS)
            faults["graphs"] = fault(graphs)
            ratios["graphs"] = ratio(model, graphs, inputs)
            if names:
                KNOWN[:] = [operator for operator in KNOWN if operator.name in names]
                captured = kernelwright.accelerate(model, mode=GRAPHS, measure=False)
                faults["kernels_graphs"] = fault(captured)
                ratios["gain_graphs"] = ratio(graphs, captured, inputs)
        per_call = eager_us(model, inputs)
    rows = [
        {"names": p.names, "calls": p.calls, "low": p.low, "middle": p.middle, "high": p.high, "reason": p.reason,
         "kept": p.kept}
        for p in placed
    ]  # fmt: skip
    return {"faults": faults, "eager_us": per_call, "ratios": ratios, "placed": rows, "kept": names}


def kept_names(placed: list[decisions.Placed]) -> list[str]:
    """Returns the operators that stay: those that won by themselves, unless they lost together."""
    together = [p for p in placed if len(p.names) > 1]
    if together:
        return [name for p in together if p.kept for name in p.names]
    return [p.names[0] for p in placed if p.kept]


def eager_us(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """Returns the least microseconds of a call in eager mode."""
    spent = []
    for _ in range(7):
        if inputs[0].is_cuda:
            torch.cuda.synchronize()
        begun = time.perf_counter()
        model(*inputs)
        if inputs[0].is_cuda:
            torch.cuda.synchronize()
        spent.append(1e6 * (time.perf_counter() - begun))
    return min(spent)


# ------------------------------------------------------------------------------ the page


def page(rows: list[Row], device: str, small: bool) -> str:
    """Returns the page's text."""
    threads = next((row["threads"] for row in rows if "threads" in row), 1)
    where = torch.cuda.get_device_name() if device == "cuda" else f"{platform.machine()}, {threads} thread(s)"
    commands = dict.fromkeys(f"`python benchmarks/models.py {row['command']}`" for row in rows if "command" in row)
    on_device = device == "cuda"
    heads = ["model", "eager, us", "torch.compile", "with kernels", "gain", "regions", "kernels found", "kept"]
    heads += [f"torch.compile {GRAPHS}", f"gain under {GRAPHS}"] if on_device else []
    heads += ["right", "s"]
    lines = [
        "# Kernels in whole models\n",
        f"{where}, torch {torch.__version__}, {DTYPES[device]}, {'reduced' if small else 'real'} sizes "
        f"(benchmarks/networks.py), {datetime.now(UTC):%Y-%m-%d}. Command: {', '.join(commands)}\n",
        "torch.compile and with kernels: times as fast as eager. Gain: with kernels against torch.compile in the same "
        "mode; 1 where no kernel stayed, but for noise. Intervals enclose the median of alternating rounds with 95 %. "
        "A region's kernel stays only if the whole graph is faster with it by an interval above 1; under "
        f"{GRAPHS} the same kernels are captured. Right: outputs are as near to float64 as the tolerance rule asks, "
        "with kernels (and by torch.compile alone).\n",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(summary(row, on_device) for row in rows),
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"\n## {row['name']}\n\n{row['error']}")
            continue
        lines += [f"\n## {row['name']}\n", "| region | places | share | search | in place |", "|---|---|---|---|---|"]
        for region in row["regions"]:
            mine = next((p for p in row["placed"] if len(p["names"]) == 1 and _of(p["names"][0], region["name"])), None)
            lines.append(
                f"| {region['name']} | {region['calls']} | {100 * region['share']:.1f} % | {region['why'][:150]} | "
                f"{said(mine)} |"
            )
        if not row["regions"]:
            lines[-2:] = ["Nothing in it is left to kernels of its own: no region has the least share."]
        lines += [f"\nAll that won, together: {said(p)}." for p in row["placed"] if len(p["names"]) > 1]
    return "\n".join(lines) + "\n"


def summary(row: Row, on_device: bool) -> str:
    """Returns a network's line."""
    if "error" in row:
        return f"| {row['name']} | no result |"
    ratios, faults = row["ratios"], row["faults"]
    cells = [row["name"], f"{row['eager_us']:.0f}", *(interval(ratios[k]) for k in ("compile", "kernels", "gain"))]
    cells += [str(len(row["regions"])), str(sum(bool(r["bundle"]) for r in row["regions"])), str(len(row["kept"]))]
    if on_device:
        cells += [interval(ratios[key]) if key in ratios else "-" for key in ("graphs", "gain_graphs")]
    ours = next((faults[k] for k in ("kernels", "kernels_graphs") if faults.get(k)), "")
    theirs = next((faults[k] for k in ("compile", "graphs") if faults.get(k)), "")
    cells += [f"{_yes(ours)} ({_yes(theirs)})", f"{row['seconds']:.0f}"]
    return f"| {' | '.join(cells)} |"


def _yes(fault: str) -> str:
    return f"no: {fault}" if fault else "yes"


def _of(operator: str, region: str) -> bool:
    return operator.rpartition("_")[0] == region


def said(placed: Row | None) -> str:
    """Returns what was measured of a kernel in its places."""
    if placed is None:
        return "-"
    if placed["middle"] is None:
        return str(placed["reason"])
    return f"{interval((placed['low'], placed['middle'], placed['high']))}: {'kept' if placed['kept'] else 'left out'}"


def interval(ratio: Any) -> str:
    """Returns a ratio with its interval."""
    low, middle, high = ratio
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
