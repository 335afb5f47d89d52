"""What calling a deployed kernel costs, and what happens when one goes wrong: docs/results/deploy.md.

    python benchmarks/deploy.py [--device cuda] [--out docs/results/deploy.md]

Costs are ratios to `torch.mm` of two 8 x 8 matrices, one of torch's own smallest calls, timed in turns with it, so that
they mean something on a machine that does other work as well; microseconds stand beside them. The kernel is small
enough that its call is nearly all overhead. Faults are planted in kernels that pass for verified.
`--device cuda` does the same on the first GPU, with faults that only a device has.
**Does not cover**: whole models (models.py).
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
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
sys.path.insert(0, str(ROOT))

from tests.deploy.making import KERNEL, LATER, NAN, WRONG, bundle  # noqa: E402

import kernelwright  # noqa: E402
from kernelwright.deploy import Shadow  # noqa: E402
from kernelwright.deploy.bundle import file_digest  # noqa: E402
from kernelwright.deploy.guard import quiet  # noqa: E402
from kernelwright.deploy.operator import Operator  # noqa: E402
from kernelwright.languages import cuda_target, detect_device_target, detect_target  # noqa: E402

ROUNDS = 201
CALLS = 100
"""Few enough that a round mostly lies within one turn on a shared processor."""
NEVER = Shadow(first=0, every=0)
EVERY = Shadow(first=1, every=1)
X, WEIGHT = torch.linspace(-1, 1, 8 * 64).view(8, 64), torch.linspace(1, 2, 64)
Kernels = dict[str, Path]
"""Bundles by what is wrong with their kernels."""


def main() -> None:
    """Measures, plants faults, and writes the page."""
    command()


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "docs/results/deploy.md", show_default=True)
@click.option("--device", type=click.Choice(("cpu", "cuda")), default="cpu", show_default=True)
def command(out: Path, device: str) -> None:
    """Measures what a deployed call costs here, and what planted faults do."""
    torch.set_num_threads(1)
    logging.getLogger("kernelwright").setLevel(logging.ERROR)
    globals().update(X=X.to(device), WEIGHT=WEIGHT.to(device))
    with tempfile.TemporaryDirectory() as folder:
        kernels = device_kernels(Path(folder)) if device == "cuda" else cpu_kernels(Path(folder))
        costs = cost_rows(kernels["sound"])
        faults = fault_rows(kernels)
    text = page(costs, faults)
    out.write_text(text, encoding="utf-8")
    print(text)


def cpu_kernels(folder: Path) -> Kernels:
    """Returns a sound kernel and broken ones, for this processor; the other one wants instructions that no one has."""
    made = {"sound": KERNEL, "wrong": WRONG, "nan": NAN, "later": LATER}
    found = {name: bundle(folder / name, text) for name, text in made.items()}
    other = shutil.copytree(found["sound"], folder / "other")
    (evidence,) = other.rglob("evidence.json")
    data = json.loads(evidence.read_text())
    data["target"]["features"] = [*data["target"]["features"], "instructions of another processor"]
    evidence.write_text(json.dumps(data))
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["files"][str(evidence.relative_to(other))] = file_digest(evidence)
    (other / "manifest.json").write_text(json.dumps(manifest))
    return found | {"other": other}


def device_kernels(folder: Path) -> Kernels:
    """Returns the same for the first GPU; the other one is for another architecture."""
    from tests.deploy.test_device import SOURCE
    from tests.gpu.test_deploy import exported

    here = detect_device_target()
    sound = "fmaxf(x[at] * weight[threadIdx.x], 0.0f)"
    made = {"sound": sound, "wrong": sound.replace("0.0f)", "0.5f)"), "nan": "sqrtf(-1.0f)"}
    other = cuda_target("sm_80" if not here.architecture.startswith("sm_8") else "sm_90a")
    found = {}
    for name, text in (*made.items(), ("other", sound)):
        (folder / name).mkdir()
        found[name] = exported(folder / name, other if name == "other" else here, SOURCE.replace(sound, text))
    return found


# ------------------------------------------------------------------------------ costs


def cost_rows(folder: Path) -> list[tuple[str, float, float, float]]:
    """Returns (what, microseconds, ratio to torch.mm, half-width of the ratio's interval)."""
    python = kernelwright.load(folder, launcher="python", shadow=NEVER)
    compiled = kernelwright.load(folder, launcher="compiled", shadow=NEVER)
    guard = python._guards[X.device.type]
    matrix, wide = torch.randn(8, 8, device=X.device), (X.double(), WEIGHT.double())
    rows: dict[str, Callable[[], Any]] = {
        "the guard in Python, alone": lambda: quiet() and guard(X, WEIGHT),
        "a whole call, Python": lambda: python(X, WEIGHT),
        "a whole call, compiled launcher": lambda: compiled(X, WEIGHT),
        "the same as torch.ops (compiled graphs), Python": lambda: python.overload(X, WEIGHT),
        "the same as torch.ops, compiled launcher": lambda: compiled.overload(X, WEIGHT),
        "a miss (another dtype), compiled launcher": lambda: compiled(*wide),
        "the original, eager: relu(x * w)": lambda: torch.relu(X * WEIGHT),
        "torch.empty of the output, alone": lambda: torch.empty(8, 64, device=X.device),
    }
    if not X.is_cuda:
        rows["the kernel, alone (ctypes)"] = kernel_alone(python)
    return [(what, *in_turns(call, lambda: torch.mm(matrix, matrix))) for what, call in rows.items()]


def kernel_alone(op: Operator) -> Callable[[], Any]:
    """Returns a call of the library with everything prepared."""
    from kernelwright.deploy.native import Library

    library, out = Library(op.kernels[0]), torch.empty(8, 64)
    return lambda: library.call([X.data_ptr(), WEIGHT.data_ptr(), out.data_ptr()], (8,))


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
    if X.is_cuda:
        torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - begun) / CALLS


# ------------------------------------------------------------------------------ faults


def fault_rows(kernels: Kernels) -> list[tuple[str, str, str]]:
    """Returns (what was planted, whether the program ended with right outputs, what was said)."""

    def checked(name: str) -> Operator:
        return kernelwright.load(kernels[name], shadow=EVERY)

    rows = [
        row("a wrong kernel", checked("wrong")),
        row("NaN where the original has none", checked("nan")),
        row("a kernel for another architecture", checked("other")),
        row("a wrong kernel, 8 threads", checked("wrong"), threads=8),
        row("a sound kernel, 8 threads", checked("sound"), threads=8),
        row("a wrong kernel in a compiled graph", checked("wrong"), how="compiled"),
        row("a launch that fails", failing(kernelwright.load(kernels["sound"], launcher="python"))),
    ]
    if "later" in kernels:
        rows.append(row("wrong from the sixth call on", checked("later")))
    if X.is_cuda:
        rows += [
            row(f"a {what} kernel, {how}", checked(what), how=how)
            for what in ("sound", "wrong") for how in ("other stream", "captured after its first call")
        ]  # fmt: skip
    os.environ["KERNELWRIGHT_DISABLE"] = "1"
    rows.append(row("a wrong kernel, KERNELWRIGHT_DISABLE=1", kernelwright.load(kernels["wrong"])))
    del os.environ["KERNELWRIGHT_DISABLE"]
    return rows


def failing(op: Operator) -> Operator:
    """Makes an operator's launches fail."""

    def refused(*_: object) -> Any:
        raise RuntimeError("the driver refused a launch")

    op._running._runners[(X.device.type, X.device.index)] = refused
    return op


def row(what: str, op: Operator, *, threads: int = 1, how: str = "eager") -> tuple[str, str, str]:
    """Calls an operator often enough for its fault to show, and holds every output against the original's."""
    wanted = torch.relu(X * WEIGHT)
    wrong: list[int] = []

    def plain(x: torch.Tensor, weight: torch.Tensor) -> Any:
        return op(x, weight)

    called: Callable[..., Any] = torch.compile(plain, backend="aot_eager") if how == "compiled" else plain
    if how == "other stream":
        called = on_another_stream(plain)
    elif how.startswith("captured"):
        plain(X, WEIGHT)
        called = replayed(plain)

    def work() -> None:
        wrong.extend(1 for _ in range(12) if not torch.equal(called(X, WEIGHT), wanted))

    workers = [threading.Thread(target=work) for _ in range(threads - 1)]
    for worker in workers:
        worker.start()
    work()
    for worker in workers:
        worker.join()
    return what, f"no: {len(wrong)} wrong" if wrong else "yes", op.watch.reason or "the kernel stays on"


def on_another_stream(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a call on a stream of its own, whose input is only made there, late."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]

    def there(x: torch.Tensor, weight: torch.Tensor) -> Any:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)  # type: ignore[no-untyped-call]
            made = call(x * 1, weight)
        torch.cuda.current_stream().wait_stream(side)
        return made

    return there


def replayed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a call that replays a captured graph over new values of its input."""
    graph, held = torch.cuda.CUDAGraph(), torch.zeros_like(X)
    with torch.cuda.graph(graph):
        made = call(held, WEIGHT)

    def again(x: torch.Tensor, _: torch.Tensor) -> Any:
        held.copy_(x)
        graph.replay()
        return made

    return again


# ------------------------------------------------------------------------------ the page


def page(costs: list[tuple[str, float, float, float]], faults: list[tuple[str, str, str]]) -> str:
    """Returns the page's text."""
    target = detect_target()
    load = os.getloadavg()[0]
    where = torch.cuda.get_device_name() if X.is_cuda else f"{target.architecture}, {target.threads} threads"
    lines = [
        "# Deployed kernels: what a call costs, and what faults do\n",
        f"{where}, torch {torch.__version__}, Python "
        f"{platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}, load {load:.1f}. Command: "
        f"`python benchmarks/deploy.py{' --device cuda' if X.is_cuda else ''}`\n",
        "## Cost of a small call\n",
        f"relu(x * w) of 8 x 64 numbers. Ratios to `torch.mm` of 8 x 8, {ROUNDS} rounds of {CALLS} calls in turns, "
        "with the 95 % half-width of the median; microseconds are the least round's.\n",
        "| what | us | times torch.mm |",
        "|---|---|---|",
        *(f"| {what} | {us:.2f} | {ratio:.2f} ± {half:.2f} |" for what, us, ratio, half in costs),
        "\n## Planted faults\n",
        "Every call is checked (`Shadow(first=1, every=1)`) except where the row says otherwise.\n",
        "| planted | all outputs right | why the kernel went off |",
        "|---|---|---|",
        *(f"| {what} | {right} | {why} |" for what, right, why in faults),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
