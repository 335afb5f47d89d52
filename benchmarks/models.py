"""Kernels in whole models: regions found, kernels searched, placed where they win, end to end: docs/results/models.md.

    python benchmarks/models.py --device cuda --minutes 9        # again and again, until it says that all is done
    python benchmarks/models.py --small --budget 60              # reduced sizes, on the CPU

For each network: its regions (kernelwright.optimize_model), each kernel measured in its places against Inductor alone
(a loser is left out), then the whole model beside eager and torch.compile in alternating rounds, and its outputs held
against the bound that float64 gives. What is done is kept in --work, so that a call that was cut off goes on.
**Does not cover**: training; other batch sizes.
"""

from __future__ import annotations

import copy
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.networks import NETWORKS  # noqa: E402

import kernelwright  # noqa: E402
from kernelwright.deploy import decisions  # noqa: E402
from kernelwright.deploy.backend import ratio  # noqa: E402
from kernelwright.deploy.operator import KNOWN  # noqa: E402
from kernelwright.deploy.trust import difference  # noqa: E402
from kernelwright.types import ToleranceRule  # noqa: E402

UNFINISHED = 3
"""Exit status: time was up, the same command goes on."""
DTYPES = {"cpu": torch.float32, "cuda": torch.bfloat16}
MEASURING_S = 120.0
"""What must be left of a call's time to begin measuring a model."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(NETWORKS)))
@click.option("--device", type=click.Choice(("cpu", "cuda")), default="cpu", show_default=True)
@click.option("--small", is_flag=True, help="Reduced sizes.")
@click.option("--budget", type=float, default=300.0, show_default=True, help="Seconds of searching for each model.")
@click.option("--share", type=float, default=0.02, show_default=True, help="Least share of a region that is searched.")
@click.option("--minutes", type=float, default=1e9, help="Begin nothing after so long; exit with 3.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("kernelwright-out/models"), show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs/results/models.md", show_default=True)
def main(
    names: tuple[str, ...], device: str, small: bool, budget: float, share: float, minutes: float, work: Path, out: Path
) -> None:
    """Searches, places and measures kernels in NAMES, or in all five networks."""
    end = time.monotonic() + 60 * minutes
    work = (work / f"{device}{'-small' if small else ''}").absolute()
    os.environ.setdefault("KERNELWRIGHT_HOME", str(work / "home"))
    unfinished = []
    for name in names or tuple(NETWORKS):
        path = work / f"{name}.json"
        if not path.is_file():
            row = row_of(name, device, small, budget, share, end, work)
            if row is None:
                unfinished.append(name)
                continue
            path.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        rows = [json.loads((work / f"{n}.json").read_text()) for n in NETWORKS if (work / f"{n}.json").is_file()]
        out.write_text(page(rows, device, small), encoding="utf-8")
    print(f"not yet: {', '.join(unfinished)}; run it again" if unfinished else f"all done: {out}")
    sys.exit(UNFINISHED if unfinished else 0)


def row_of(
    name: str, device: str, small: bool, budget: float, share: float, end: float, work: Path
) -> dict[str, Any] | None:
    """Returns what became of one network, None where time was up."""
    torch.manual_seed(0)
    model, inputs = NETWORKS[name](small)
    model = model.to(device, DTYPES[device]).eval()
    inputs = tuple(t.to(device, DTYPES[device]) for t in inputs)
    found = kernelwright.optimize_model(
        model, *inputs, budget_s=budget, out=work / name, device=device, least_share=share,
        deadline_s=end - time.monotonic(), on_step=lambda line: print(f"{name}: {line}", flush=True),
    )  # fmt: skip
    if any(one.answer == "later" for one in found) or end - time.monotonic() < MEASURING_S:
        return None
    row = measured(model, inputs, [one.bundle for one in found if one.bundle])
    regions = [
        {"name": o.name, "calls": o.calls, "share": o.share, "answer": o.answer, "why": o.why, "bundle": bool(o.bundle)}
        for o in found
    ]
    return {"name": name, "command": command_of(sys.argv[1:]), "regions": regions, **row}


def command_of(words: list[str]) -> str:
    """Returns the arguments of a command without its folders."""
    folders = {place + step for place, word in enumerate(words) if word in ("--work", "--out") for step in (0, 1)}
    return " ".join(word for place, word in enumerate(words) if place not in folders)


def measured(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], bundles: list[str]) -> dict[str, Any]:
    """Returns times and errors of a model in eager mode, compiled, and compiled with kernels in it."""
    KNOWN.clear()
    decisions.DECIDED.clear()
    torch._dynamo.reset()
    with torch.no_grad():
        fast = kernelwright.accelerate(model, bundles=tuple(bundles))
        outputs, wanted = fast(*inputs), model(*inputs)
        exact = copy.deepcopy(model).double()(*(t.double() for t in inputs))
        fault = difference([outputs], [wanted], [exact], ToleranceRule())
        compiled = torch.compile(model)
        compiled_fault = difference([compiled(*inputs)], [wanted], [exact], ToleranceRule())
        per_call = eager_us(model, inputs)
        ratios = {"eager": ratio(model, fast, inputs), "compile": ratio(compiled, fast, inputs)}
    placed = [
        {"names": p.names, "calls": p.calls, "low": p.low, "middle": p.middle, "high": p.high, "reason": p.reason,
         "kept": p.kept}
        for p in decisions.DECIDED
    ]  # fmt: skip
    return {"fault": fault, "compiled_fault": compiled_fault, "eager_us": per_call, "ratios": ratios, "placed": placed}


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


def page(rows: list[dict[str, Any]], device: str, small: bool) -> str:
    """Returns the page's text."""
    where = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    lines = [
        "# Kernels in whole models\n",
        f"{where}, torch {torch.__version__}, {DTYPES[device]}, {'reduced' if small else 'real'} sizes "
        f"(benchmarks/networks.py), {datetime.now(UTC):%Y-%m-%d}. Command: `python benchmarks/models.py "
        f"{rows[0]['command']}`\n",
        "Times as fast end to end, with the interval that encloses the median of alternating rounds with 95 %; 1 "
        "against torch.compile means that no kernel stayed. Right: outputs are as near to "
        "float64 as the tolerance rule asks, with kernels (and by torch.compile alone).\n",
        "| model | eager, us | regions | kernels found | kept in place | to eager | to torch.compile | right |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        singles = [p for p in row["placed"] if len(p["names"]) == 1]
        kept = sum(p["kept"] for p in singles)
        right = " ".join("yes" if not fault else f"no: {fault}" for fault in (row["fault"], row["compiled_fault"]))
        lines.append(
            f"| {row['name']} | {row['eager_us']:.0f} | {len(row['regions'])} | "
            f"{sum(r['bundle'] for r in row['regions'])} | {kept} | {interval(row['ratios']['eager'])} | "
            f"{interval(row['ratios']['compile'])} | {right.replace(' ', ' (', 1)}) |"
        )
    for row in rows:
        lines += [f"\n## {row['name']}\n", "| region | places | share | search | in place |", "|---|---|---|---|---|"]
        for region in row["regions"]:
            mine = next((p for p in row["placed"] if len(p["names"]) == 1 and _of(p["names"][0], region["name"])), None)
            lines.append(
                f"| {region['name']} | {region['calls']} | {100 * region['share']:.1f} % | {region['why'][:150]} | "
                f"{said(mine)} |"
            )
        lines += [f"\nAll that won, together: {said(p)}." for p in row["placed"] if len(p["names"]) > 1]
    return "\n".join(lines) + "\n"


def _of(operator: str, region: str) -> bool:
    return operator.rpartition("_")[0] == region


def said(placed: dict[str, Any] | None) -> str:
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
