"""The worker of server mode: `python -m kernelwright.deploy.serving`: isolated calls of products, launch included.

Contenders are called as programs call them: `kernelwright.matmul` with the table's plan, torch.matmul, and cuBLASLt's
algorithms through the compiled launcher, so that nobody pays for Python's foreign calls. Each call comes alone, after
a gap of random length, on other operands than the one before, in random order; its time is that between two events
around it on an idle stream: from the call's beginning on the host to the kernel's end.
**Does not cover**: cublasGemmEx (the library's own choice is `cublaslt_first`), several calls under way.
"""

from __future__ import annotations

import functools
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernelwright.deploy import matmul as matmuls
from kernelwright.deploy.products import Products
from kernelwright.experts.gemm import Product
from kernelwright.experts.gemm.table import Row, Table
from kernelwright.process import Emit, serve
from kernelwright.types import replace

GAP_S = (0.0001, 0.002)
ROTATED_BYTES = 120 << 20
"""Operands of twice the level-2 cache."""
MOST_SLOTS = 16
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Timed = Callable[[Callable[[], object]], float]


def measure(
    emit: Emit, *, product: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], first: Mapping[str, str], rounds: int,
    device: str = "cuda",
) -> dict[str, float]:  # fmt: skip
    """Returns the median of every contender's isolated calls by name, in microseconds.

    Args:
        emit: takes ("doing", name).
        product: fields of a `Product`; its layout is ignored.
        rows: fields of the tuned table's rows of this product, one for each layout, with the vendor's algorithm.
        first: the algorithm that cuBLASLt's heuristic names first, by layout.
        rounds: isolated calls of each contender.
        device: where.
    """
    emit(("doing", "allocating"))
    given = Product(**dict(product))
    slots = _slots(given, device)
    contenders: dict[str, Callable[[int], object]] = {}
    for fields in rows:
        row = Row(**dict(fields))
        layout = str(row.layout)
        views = [(a, b if layout == "kn" else b.t().contiguous().t()) for a, b in slots]
        for name, call in calls_of(replace(given, layout=row.layout), row, first.get(layout, ""), views[0]).items():
            contenders[f"{name}_{layout}"] = lambda number, call=call, views=views: call(*views[number])  # type: ignore[misc]
    emit(("doing", "timing"))
    timed = _timed if device == "cuda" else _timed_on_the_host
    return isolated(contenders, len(slots), rounds, timed, random.Random(0))


def calls_of(product: Product, row: Row, first: str, example: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Call]:
    """Returns the contenders of one layout: ours as dispatch runs it, torch, and the library's algorithms."""
    matmuls.use(Products(lambda device: Table([row])))
    made: dict[str, Call] = {"ours": matmuls.bound(*example), "torch": torch.matmul}
    for name, algorithm in (("cublaslt_first", first), ("cublaslt_tuned", row.algorithm)):
        found = matmuls.vendor_call(product, replace(row, algorithm=algorithm), *example) if algorithm else None
        if found is not None:
            made[name] = found
    return made


def isolated(
    contenders: Mapping[str, Callable[[int], object]], slots: int, rounds: int, timed: Timed, drawing: random.Random
) -> dict[str, float]:
    """Returns medians of calls that come alone, in random order, after gaps of random length."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        for number in range(slots):
            call(number)  # what is done once is not timed
    for number in range(rounds):
        for name in drawing.sample(sorted(contenders), len(contenders)):
            _idle(drawing.uniform(*GAP_S))
            slot = (7 * number + len(times[name])) % slots
            times[name].append(timed(functools.partial(contenders[name], slot)))
    return {name: statistics.median(samples) for name, samples in times.items()}


def _idle(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:  # asleep, the processor would come back at a lower clock
        pass


def _timed(work: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    end.synchronize()
    return 1000.0 * float(start.elapsed_time(end))


def _timed_on_the_host(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return 1e6 * (time.perf_counter() - begun)


def _slots(product: Product, device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    count = max(2, min(MOST_SLOTS, -(-ROTATED_BYTES // product.min_bytes))) if device == "cuda" else 2
    kinds = {"device": device, "dtype": DTYPES[product.dtype]}
    return [
        (torch.randn(product.m, product.k, **kinds), torch.randn(product.k, product.n, **kinds))  # type: ignore[call-overload]
        for _ in range(count)
    ]


if __name__ == "__main__":
    serve({"measure": measure})
