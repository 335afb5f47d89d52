"""What calling a deployed kernel costs, and what happens when one goes wrong: docs/results/deploy.md.

    python benchmarks/deploy.py [--device cuda] [--out DIR]

Costs are ratios to `torch.mm`, timed in turns with it, so that they mean something on a machine that does other work
as well; microseconds of the host stand beside them. Both kernels are small enough that a call is nearly all overhead:
relu(x * w) beside `torch.mm` of 8 x 8, one of torch's own smallest calls, and a product beside `torch.mm` of the same
operands. Faults are planted in kernels that pass for verified (deploy_faults.py).
`--device cuda` does the same on the first GPU, with faults that only a device has; where there is a second one, on
that too. The compiled launcher is built where it is not there (half a minute).
**Does not cover**: whole models (models.py).
"""

from __future__ import annotations

import functools
import logging
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import torch

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT, ROOT / "src", ROOT / ".carry"):
    sys.path.insert(0, str(place))

from benchmarks.deploy_faults import EVERY, Operands, cpu_kernels, device_kernels, fault_rows  # noqa: E402

import kernelwright  # noqa: E402
from kernelwright.deploy import Shadow, launcher  # noqa: E402
from kernelwright.deploy.guard import quiet  # noqa: E402
from kernelwright.deploy.operator import Operator  # noqa: E402
from kernelwright.languages import detect_target  # noqa: E402

ROUNDS = 201
CALLS = 100
"""Few enough that a round mostly lies within one turn on a shared processor."""
NEVER = Shadow(first=0, every=0)
GUARD_US, CALL_US = 2.0, 6.0
"""What a guard with its dispatch, and a whole call of a small product by the compiled launcher, may take."""
Cost = tuple[str, float, float, float]
"""What, microseconds, ratio to torch.mm, half-width of that ratio's interval."""


def main() -> None:
    """Measures, plants faults, and writes the page."""
    command()


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs/results", show_default=True)
@click.option("--device", type=click.Choice(("cpu", "cuda")), default="cpu", show_default=True)
def command(out: Path, device: str) -> None:
    """Measures what a deployed call costs here, and what planted faults do; writes OUT/deploy.md."""
    begun = time.monotonic()

    def step(words: str) -> None:
        print(f"[{time.monotonic() - begun:5.1f} s] {words}", flush=True)

    torch.set_num_threads(1)
    logging.getLogger("kernelwright").setLevel(logging.ERROR)
    out.mkdir(parents=True, exist_ok=True)
    building = threading.Thread(target=functools.partial(launcher.module, build=True))
    building.start()
    with tempfile.TemporaryDirectory() as folder:
        step("building the launcher and kernels")
        kernels = device_kernels(Path(folder)) if device == "cuda" else cpu_kernels(Path(folder))
        building.join()
        step("timing relu(x * w)")
        rows = {"relu(x * w) of 8 x 64 numbers": small_costs(kernels["sound"], Operands.on(device))}
        for name in (n for n in kernels if n.startswith("product")):
            step(f"timing the {name}")
            rows[name] = product_costs(kernels[name], device)
            (out / "deploy.md").write_text(page(device, rows, []), encoding="utf-8")
        faults = fault_rows(kernels, device, step)
    text = page(device, rows, faults)
    (out / "deploy.md").write_text(text, encoding="utf-8")
    print(text)
    step("done")


# ------------------------------------------------------------------------------ costs


def small_costs(folder: Path, given: Operands) -> list[Cost]:
    """Returns what calls of relu(x * w) cost beside torch.mm of 8 x 8."""
    python = kernelwright.load(folder, launcher="python", shadow=NEVER)
    compiled = kernelwright.load(folder, launcher="compiled", shadow=NEVER)
    due = kernelwright.load(folder, launcher="compiled", shadow=EVERY)
    x, weight = given.x, given.weight
    guard = python._guards[x.device.type]
    matrix, wide = torch.randn(8, 8, device=x.device), (x.double(), weight.double())
    rows: dict[str, Callable[[], Any]] = {
        GUARD_COMPILED: lambda: due._fast(x, weight),  # found inside and due for a check: nothing is launched
        "guard and dispatch, Python": lambda: quiet() and guard(x, weight),
        WHOLE_COMPILED: lambda: compiled(x, weight),
        "a whole call, Python": lambda: python(x, weight),
        "the same as torch.ops (compiled graphs), compiled launcher": lambda: compiled.overload(x, weight),
        "the same as torch.ops, Python": lambda: python.overload(x, weight),
        "a miss (another dtype), compiled launcher": lambda: compiled(*wide),
        "the original of that miss, alone": lambda: torch.relu(wide[0] * wide[1]),
        "the original, eager: relu(x * w)": lambda: torch.relu(x * weight),
        "torch.empty of the output, alone": lambda: torch.empty(8, 64, device=x.device),
    }
    if not x.is_cuda:
        rows["the kernel, alone (ctypes)"] = kernel_alone(python, x, weight)
    assert due._fast(x, weight) is None
    return [(what, *in_turns(call, lambda: torch.mm(matrix, matrix))) for what, call in rows.items()]


GUARD_COMPILED, WHOLE_COMPILED = "guard and dispatch, compiled launcher", "a whole call, compiled launcher"


def product_costs(folder: Path, device: str) -> list[Cost]:
    """Returns what calls of a product cost beside torch.mm of the same operands."""
    python = kernelwright.load(folder, launcher="python", shadow=NEVER)
    compiled = kernelwright.load(folder, launcher="compiled", shadow=NEVER)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    (m, k), (n, _) = (spec.shape for spec in compiled.problem.inputs)
    a, b = torch.randn(m, k, device=device, dtype=dtype), torch.randn(n, k, device=device, dtype=dtype)
    turned = b.t()
    for op in (python, compiled):
        truth = a.double() @ turned.double()
        error = float((op(a, b).double() - truth).abs().max() / truth.abs().max())
        if not error < 0.01 or not op.launched():
            raise SystemExit(f"{op.name} is wrong by {error}, or was not launched: {op.watch.reason}")
    rows = {
        WHOLE_COMPILED: lambda: compiled(a, b),
        "a whole call, Python": lambda: python(a, b),
        "the same as torch.ops (compiled graphs), compiled launcher": lambda: compiled.overload(a, b),
        "torch.mm itself": lambda: torch.mm(a, turned),
    }
    if device == "cuda":
        tuned = tuned_matmul(a, turned)
        rows["kernelwright.matmul, with a table that lists it"] = lambda: tuned(a, turned)
    return [(what, *in_turns(call, lambda: torch.mm(a, turned))) for what, call in rows.items()]


def tuned_matmul(a: torch.Tensor, b: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Returns `kernelwright.matmul` as it is where a table lists a product like this one."""
    from kernelwright.deploy import matmul as matmuls
    from kernelwright.deploy.products import Products, product_of
    from kernelwright.experts.gemm.table import Row, Table

    made = product_of(a, b, None, None)
    assert made is not None
    row = Row(
        device="", dtype=made.dtype, layout=made.layout, m=made.m, n=made.n, k=made.k, plan="direct", ours_us="",
        vendor_us="",
    )  # fmt: skip
    matmuls.use(Products(lambda _: Table([row])))
    found = matmuls.bound(a, b)
    if not any(matmuls._known.values()):
        raise SystemExit("kernelwright.matmul found no plan")
    return found


def kernel_alone(op: Operator, x: torch.Tensor, weight: torch.Tensor) -> Callable[[], Any]:
    """Returns a call of the library with everything prepared."""
    from kernelwright.deploy.native import Library

    library, out = Library(op.kernels[0]), torch.empty(8, 64)
    return lambda: library.call([x.data_ptr(), weight.data_ptr(), out.data_ptr()], (8,))


def in_turns(call: Callable[[], Any], beside: Callable[[], Any]) -> tuple[float, float, float]:
    """Returns the least microseconds of a call, its median ratio to another, and that ratio's half-width (95 %)."""
    times, ratios = [], []
    for _ in range(ROUNDS):
        mine, other = timed(call), timed(beside)
        times.append(mine)
        ratios.append(mine / other)
    ratios.sort()
    middle, reach = len(ratios) // 2, round(0.98 * len(ratios) ** 0.5)
    return min(times), statistics.median(ratios), (ratios[middle + reach] - ratios[middle - reach]) / 2


def timed(call: Callable[[], Any]) -> float:
    """Returns the microseconds of the host for one of many calls."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - begun) / CALLS


# ------------------------------------------------------------------------------ the page


def page(device: str, costs: dict[str, list[Cost]], faults: list[tuple[str, str, str]]) -> str:
    """Returns the page's text."""
    target, load = detect_target(), os.getloadavg()[0]
    where = f"{target.architecture}, {target.threads} threads"
    if device == "cuda":
        where = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()} beside {where}"
    lines = [
        "# Deployed kernels: what a call costs, and what faults do\n",
        f"{where}, torch {torch.__version__}, Python "
        f"{platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}, load {load:.1f}. Command: "
        f"`python benchmarks/deploy.py{' --device cuda' if device == 'cuda' else ''}`\n",
        *asked(costs),
        "\n## Cost of a small call\n",
        f"{ROUNDS} rounds of {CALLS} calls in turns with `torch.mm` (of 8 x 8; for a product, of its own operands), on "
        "the host; ratios with the 95 % half-width of the median, microseconds of the least round.",
    ]
    for name, rows in costs.items():
        lines += [f"\n### {name}\n", "| what | us | times torch.mm |", "|---|---|---|"]
        lines += [f"| {what} | {us:.2f} | {ratio:.2f} ± {half:.2f} |" for what, us, ratio, half in rows]
    lines += [
        "\n## Planted faults\n",
        "Every call is checked (`Shadow(first=1, every=1)`) except where the row says otherwise.\n",
        "| planted | all outputs right | why the kernel went off |",
        "|---|---|---|",
        *(f"| {what} | {right} | {why} |" for what, right, why in faults),
    ]
    return "\n".join(lines) + "\n"


def asked(costs: dict[str, list[Cost]]) -> list[str]:
    """Returns the table of what was asked for."""
    found = {name: {what: (us, ratio + half) for what, us, ratio, half in rows} for name, rows in costs.items()}
    guard = min(rows[GUARD_COMPILED][0] for rows in found.values() if GUARD_COMPILED in rows)
    products = [rows[WHOLE_COMPILED] for name, rows in found.items() if name.startswith("product")]
    lines = ["| asked for | measured | |", "|---|---|---|"]
    lines.append(f"| guard and dispatch, at most {GUARD_US:g} us | {guard:.2f} us | {_held(guard <= GUARD_US)} |")
    for us, most in products[:1]:
        lines.append(f"| a whole call to a small product, not slower than torch.mm | {most:.2f} | {_held(most <= 1)} |")
        lines.append(
            f"| the same by the compiled launcher, at most {CALL_US:g} us | {us:.2f} us | {_held(us <= CALL_US)} |"
        )
    return lines


def _held(holds: bool) -> str:
    return "holds" if holds else "does not hold"


if __name__ == "__main__":
    main()
