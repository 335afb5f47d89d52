"""The worker that measures products: `python -m kernelwright.judge.device.products.worker`, started by run/gemm.

It says what it is about to run before it does, so that its parent knows which schedule a hang or a fault belongs to.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.experts.gemm import Product
from kernelwright.judge.device.cuda_executor import CudaExecutor, bare_executor
from kernelwright.judge.device.faults import DeviceFault
from kernelwright.judge.device.products.cublaslt import CublasLt
from kernelwright.judge.device.products.measure import (
    ERROR_FACTOR,
    ERROR_FLOOR,
    LAYOUTS,
    WAIT_S,
    Bench,
    Contender,
    Ours,
    capture,
    fastest,
    interleaved,
    lt_contenders,
    screened,
    time_us,
    torch_contender,
    unload,
)
from kernelwright.judge.device.products.others import Cublas, compiled_contender, foreign_contenders
from kernelwright.process import Emit, serve

TUNING = ("torch", "cublaslt")
"""Beside what schedules are measured while they are chosen."""
BASELINES = ("torch", "cublas", "cublaslt", "exhaustive", "compiled")
SLOW = 1.2
"""Schedules so much slower than the quickest in two replays take no part in the rounds; that is their time."""
SWEPT, SWEEP_S = 1500, 0.4
"""Configurations of cuBLASLt for each layout, and seconds after which no further one is tried."""

_device: list[CudaExecutor] = []
_lt: list[CublasLt] = []
_gemm_ex: list[Cublas] = []


def describe(emit: Emit) -> dict[str, Any]:
    """Takes the device and says what it is."""
    del emit
    limits = _executor().limits
    return {
        "name": limits.name, "multiprocessors": limits.multiprocessors, "cache_bytes": limits.cache_bytes,
        "torch": torch.__version__, "cuda": str(torch.version.cuda),
    }  # fmt: skip


def measure(
    emit: Emit,
    *,
    product: Mapping[str, Any],
    points: Sequence[Sequence[str]],
    rounds: int,
    baselines: Sequence[str] = TUNING,
    foreign: str = "",
) -> dict[str, Any]:
    """Checks and times schedules of one product beside torch and cuBLASLt.

    Args:
        emit: takes ("doing", name) before each thing that could hang.
        product: fields of a `Product`; its layout is ignored.
        points: (layout, spelled schedule, path of its cubin) of each.
        rounds: of replays of every contender.
        baselines: of `BASELINES`; those of a product with an epilogue are torch alone.
        foreign: a folder of other people's kernels (others.py), empty for none.
    """
    executor = _executor()
    gc.collect()
    torch.cuda.empty_cache()
    bench = Bench(executor, Product(**dict(product)))
    beside = _baselines(emit, bench, baselines, foreign)
    allowed = _torch_error(bench)
    found, contenders, kept = [], list(beside), list[Ours]()
    for layout, spelled, path in points:
        emit(("doing", f"{layout} {spelled}"))
        row: dict[str, Any] = {"layout": layout, "schedule": spelled}
        found.append(row)
        try:
            ours = Ours(bench, layout, spelled, Path(path))
            kept.append(ours)
            row |= ours.check()
            bad = _why_wrong(row, allowed)
            if bad:
                row["failed"] = bad
                continue
            contender = Contender(f"{layout} {spelled}", _issue_of(bench, ours))
            capture(bench, contender)
            contenders.append(contender)
            row["least_us"] = min(time_us(bench, contender) for _ in range(2))
        except DeviceFault as fault:
            if fault.fatal:
                raise KernelwrightError(f"fatal: {fault.failure.kind}: {fault.failure.message}") from None
            row["failed"] = f"{fault.failure.kind}: {fault.failure.message}"
        except KernelwrightError as error:
            row["failed"] = str(error)
    emit(("doing", "timing"))
    medians = _timed(bench, contenders, found, rounds)
    for ours in kept:
        unload(ours)
    return {
        "points": tuple(found), "baselines": {c.name: medians[c.name] for c in beside}, "torch_error": allowed,
        "algorithms": {c.name: c.text for c in beside if c.text}, "slots": len(bench.slots),
    }  # fmt: skip


def _timed(bench: Bench, contenders: list[Contender], found: list[dict[str, Any]], rounds: int) -> dict[str, float]:
    """Times those that are not far behind in turns, puts times into the schedules' rows, and returns all medians."""
    least = min((row["least_us"] for row in found if "least_us" in row), default=0.0)
    slow = {f"{row['layout']} {row['schedule']}" for row in found if row.get("least_us", 0.0) > SLOW * least}
    times = interleaved(bench, [one for one in contenders if one.name not in slow], rounds)
    medians = {name: statistics.median(samples) for name, samples in times.items()}
    for row in found:
        name = f"{row['layout']} {row['schedule']}"
        if name in slow:
            row["us"] = row["least_us"]
        elif name in medians:
            row |= {"us": medians[name], "least_us": min(times[name])}
    return medians


def _baselines(emit: Emit, bench: Bench, wanted: Sequence[str], foreign: str) -> list[Contender]:
    p = bench.product
    plain = p.batch == 1 and p.alpha == 1.0 and not p.beta and not p.bias and p.activation == "none" and not p.pair
    made = []
    for layout in LAYOUTS:
        for name in wanted if plain else ("torch",):
            emit(("doing", f"{name}_{layout}"))
            try:
                made += _KINDS[name](bench, layout)
            except DeviceFault:
                raise
            except KernelwrightError as error:  # what is missing has no column; torch itself must be there
                if name == "torch":
                    raise
                emit(("missing", f"{name}_{layout}: {error}"))
    if foreign and plain:
        made += _foreign(emit, bench, Path(foreign))
    return made


def _captured(bench: Bench, contender: Contender) -> list[Contender]:
    capture(bench, contender)
    return [contender]


def _named(name: str, found: Contender) -> Contender:
    return Contender(name, found.issue, found.keep, found.replay, found.calls, found.text)


def _torch(bench: Bench, layout: str) -> list[Contender]:
    return _captured(bench, torch_contender(bench, layout))


def _cublas(bench: Bench, layout: str) -> list[Contender]:
    if not _gemm_ex:
        _gemm_ex.append(Cublas(bench.executor.device, int(bench.executor.stream.cuda_stream)))
    return _captured(bench, _gemm_ex[0].contender(bench, layout))


def _heuristic(bench: Bench, layout: str) -> list[Contender]:
    every = lt_contenders(bench, _library(bench), layout)
    best = fastest(bench, every)
    if every[0].replay is None:
        capture(bench, every[0])
    return [_named(f"cublaslt_tuned_{layout}", best), _named(f"cublaslt_first_{layout}", every[0])]


def _exhaustive(bench: Bench, layout: str) -> list[Contender]:
    every = lt_contenders(bench, _library(bench), layout, sweep=SWEPT)
    best = fastest(bench, screened(bench, every, until_s=SWEEP_S))
    return [_named(f"cublaslt_exhaustive_{layout}", best)]


def _compiled(bench: Bench, layout: str) -> list[Contender]:
    return _captured(bench, compiled_contender(bench, layout))


def _foreign(emit: Emit, bench: Bench, folder: Path) -> list[Contender]:
    made = []
    for contender in foreign_contenders(bench, folder):
        emit(("doing", contender.name))
        if bench.right(contender):
            made += _captured(bench, contender)
        else:
            emit(("missing", f"{contender.name} is wrong on whole numbers"))
    return made


def _library(bench: Bench) -> CublasLt:
    if not _lt:
        _lt.append(CublasLt(bench.executor.device))
    return _lt[0]


_KINDS: Mapping[str, Callable[[Bench, str], list[Contender]]] = {
    "torch": _torch, "cublas": _cublas, "cublaslt": _heuristic, "exhaustive": _exhaustive, "compiled": _compiled,
}  # fmt: skip


def _torch_error(bench: Bench) -> float:
    torch_contender(bench, "nk").issue(0)
    bench.executor.wait(deadline_s=WAIT_S, during="torch's product")
    return bench.error(bench.slots[0])


def _why_wrong(row: Mapping[str, Any], allowed: float) -> str:
    if not row["exact"]:
        return "wrong on whole numbers"
    if row["error"] > ERROR_FACTOR * allowed + ERROR_FLOOR:
        return f"error {row['error']:.2e} against float64, torch has {allowed:.2e}"
    return "" if row["guards_exact"] and row["guards_random"] else "wrote beside its output"


def _issue_of(bench: Bench, ours: Ours) -> Any:
    bounds = [ours.bound(slot) for slot in bench.slots]
    return lambda number: bench.executor.issue(bounds[number])


def _executor() -> CudaExecutor:
    if not _device:
        _device.append(bare_executor())
    return _device[0]


if __name__ == "__main__":
    serve({"describe": describe, "measure": measure})
