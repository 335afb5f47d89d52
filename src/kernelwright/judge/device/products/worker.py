"""The worker that measures products: `python -m kernelwright.judge.device.products.worker`, started by run/gemm.

It says what it is about to run before it does, so that its parent knows which schedule a hang or a fault belongs to.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Mapping, Sequence
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
    torch_contender,
    unload,
)
from kernelwright.process import Emit, serve

_device: list[CudaExecutor] = []
_lt: list[CublasLt] = []


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
    library: bool = True,
) -> dict[str, Any]:
    """Checks and times schedules of one product beside torch and cuBLASLt.

    Args:
        emit: takes ("doing", name) before each thing that could hang.
        product: fields of a `Product`; its layout is ignored.
        points: (layout, spelled schedule, path of its cubin) of each.
        rounds: of replays of every contender.
        library: whether cuBLASLt takes part.
    """
    executor = _executor()
    gc.collect()
    torch.cuda.empty_cache()
    bench = Bench(executor, Product(**dict(product)))
    baselines = _baselines(emit, bench, library=library)
    allowed = _torch_error(bench)
    found, contenders, kept = [], list(baselines), list[Ours]()
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
        except DeviceFault as fault:
            if fault.fatal:
                raise KernelwrightError(f"fatal: {fault.failure.kind}: {fault.failure.message}") from None
            row["failed"] = f"{fault.failure.kind}: {fault.failure.message}"
        except KernelwrightError as error:
            row["failed"] = str(error)
    emit(("doing", "timing"))
    times = interleaved(bench, contenders, rounds)
    medians = {name: statistics.median(samples) for name, samples in times.items()}
    for row in found:
        name = f"{row['layout']} {row['schedule']}"
        if name in medians:
            row |= {"us": medians[name], "least_us": min(times[name])}
    for ours in kept:
        unload(ours)
    named = {c.name: medians[c.name] for c in baselines}
    return {"points": tuple(found), "baselines": named, "torch_error": allowed, "slots": len(bench.slots)}


def _baselines(emit: Emit, bench: Bench, *, library: bool) -> list[Contender]:
    made = [torch_contender(bench, layout) for layout in LAYOUTS]
    for contender in made:
        emit(("doing", contender.name))
        capture(bench, contender)
    p = bench.product
    plain = p.batch == 1 and p.alpha == 1.0 and not p.beta and not p.bias and p.activation == "none"
    if library and plain:
        if not _lt:
            _lt.append(CublasLt(bench.executor.device))
        for layout in LAYOUTS:
            emit(("doing", f"cublaslt_{layout}"))
            every = lt_contenders(bench, _lt[0], layout)
            first, best = every[0], fastest(bench, every)
            made.append(Contender(f"cublaslt_tuned_{layout}", best.issue, best.keep, best.replay, best.calls))
            if first.replay is None:
                capture(bench, first)
            made.append(Contender(f"cublaslt_first_{layout}", first.issue, first.keep, first.replay, first.calls))
    return made


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
