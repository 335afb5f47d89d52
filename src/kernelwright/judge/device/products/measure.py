"""One product on the device: its inputs, whether a schedule's kernel is right, and how long contenders take.

Right means: exactly the float64 product on small whole numbers whose sums the output can hold, and on normal numbers
an error against float64 of no more than `ERROR_FACTOR` times that of torch. Times: CUDA graphs of calls that rotate
over slots of twice the second-level cache, contenders in turn, medians.
**Does not cover**: what the judge's families cover (non-finite values, guard bands on all sides, repeated digests).
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.experts.gemm import Product, candidate, parse
from kernelwright.judge.device.cuda_executor import CudaExecutor
from kernelwright.judge.device.executor import BoundPlan, Loaded, Replay
from kernelwright.judge.device.products.cublaslt import Algorithm, CublasLt, LtProduct
from kernelwright.types import Candidate, Failure, replace

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
LAYOUTS = ("kn", "nk")
ERROR_FACTOR = 1.5
ERROR_FLOOR = 1e-5
EXACT = -1
GUARD = 4096
"""Elements on both sides of an output that must stay as they are."""
WAIT_S = 5.0
SLOT_BYTES = 8 << 30
MOST_SLOTS = 20
GRAPH_US = 2000.0
"""About how long one graph should take: its launch is then a small part."""
MOST_CALLS, LEAST_CALLS = 60, 2
PICKING_REPLAYS = 3
SCREENED = 8


@dataclass
class Slot:
    """One set of operands, with B in both layouts, and an output between guards."""

    a: torch.Tensor
    kn: torch.Tensor
    nk: torch.Tensor
    bias: torch.Tensor
    c: torch.Tensor
    whole: torch.Tensor
    out: torch.Tensor

    def b(self, layout: str) -> torch.Tensor:
        """Returns B in a layout."""
        return self.kn if layout == "kn" else self.nk


class Bench:
    """A product's operands on the device."""

    def __init__(self, executor: CudaExecutor, product: Product) -> None:
        self.executor, self.product = executor, product
        self.dtype = DTYPES[product.dtype]
        cache = 2 * executor.limits.cache_bytes
        wanted = -(-cache // max(1, product.min_bytes))
        room = SLOT_BYTES // (2 * product.min_bytes)
        self.exact = self._slot(whole=True)
        self.slots = [self._slot(whole=False) for _ in range(max(2, min(MOST_SLOTS, wanted, room)))]
        self._truth: dict[int, torch.Tensor] = {}

    def at(self, number: int) -> Slot:
        """Returns a slot by its number; `EXACT` is the one with whole numbers."""
        return self.exact if number == EXACT else self.slots[number]

    def right(self, contender: Contender) -> bool:
        """Returns whether a contender's product of whole numbers is exact: libraries have dropped ends of k."""
        self.poison(self.exact)
        contender.issue(EXACT)
        self.executor.wait(deadline_s=WAIT_S, during=contender.name)
        return bool((self.exact.out == self.truth(self.exact).to(self.dtype)).all())

    def _draw(self, *shape: int, whole: bool) -> torch.Tensor:
        if whole:  # sums of k products stay far below what the output holds exactly
            most = 3 if self.product.k <= 1024 and self.dtype == torch.float16 else 1
            keep = torch.rand(shape, device=self.executor.device) < min(1.0, 4096 / self.product.k)
            keep &= torch.rand(shape, device=self.executor.device) < (1.0 if self.dtype == torch.float16 else 0.2)
            return (torch.randint(-most, most + 1, shape, device=self.executor.device) * keep).to(self.dtype)
        return torch.randn(shape, device=self.executor.device, dtype=torch.float32).to(self.dtype)

    def _slot(self, *, whole: bool) -> Slot:
        p = self.product
        a, kn = self._draw(p.batch, p.m, p.k, whole=whole), self._draw(p.batch, p.k, p.n, whole=whole)
        bias, c = (
            self._draw(p.n, whole=whole),
            self._draw(p.batch, p.m, p.n, whole=whole) if p.beta else self._draw(1, whole=whole),
        )
        count = p.batch * p.m * p.n
        room = torch.full((count + 2 * GUARD,), 12.0, dtype=self.dtype, device=self.executor.device)
        out = room[GUARD : GUARD + count].view(p.batch, p.m, p.n)
        return Slot(a, kn, kn.transpose(1, 2).contiguous(), bias, c, room, out)

    def addresses(self, slot: Slot, layout: str, parts: torch.Tensor) -> dict[str, int]:
        """Returns where a plan's tensors and its workspace lie."""
        named = {"a": slot.a, "b": slot.b(layout), "out": slot.out, "bias": slot.bias, "c": slot.c, "parts": parts}
        return {name: tensor.data_ptr() for name, tensor in named.items()}

    def truth(self, slot: Slot) -> torch.Tensor:
        """Returns the product in float64, kept."""
        if id(slot) not in self._truth:
            p = self.product
            x = p.alpha * (slot.a.double() @ slot.kn.double())
            x = x + p.beta * slot.c.double() if p.beta else x
            x = x + slot.bias.double() if p.bias else x
            self._truth[id(slot)] = ACTIVATIONS[p.activation](x)
        return self._truth[id(slot)]

    def error(self, slot: Slot) -> float:
        """Returns the relative error of a slot's output: the norm of the difference over the truth's."""
        wanted = self.truth(slot)
        found = float((slot.out.double() - wanted).norm() / wanted.norm().clamp_min(1e-300))
        return found if found == found else float("inf")

    def poison(self, slot: Slot) -> None:
        """Fills an output with NaN and its guards with a number."""
        slot.whole.fill_(12.0)
        slot.out.fill_(float("nan"))

    def guards_hold(self, slot: Slot) -> bool:
        """Returns whether nothing was written beside an output."""
        return bool((slot.whole[:GUARD] == 12.0).all()) and bool((slot.whole[-GUARD:] == 12.0).all())


ACTIVATIONS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


@dataclass
class Contender:
    """Something that fills a slot's output."""

    name: str
    issue: Callable[[int], None]
    """Enqueues one call on a slot, by number."""
    keep: object = None
    replay: Replay | None = None
    calls: int = 0
    text: str = ""
    """A library's algorithm, as a tuned table keeps it."""


class Ours:
    """One schedule's kernel, loaded."""

    def __init__(self, bench: Bench, layout: str, spelled: str, cubin: Path) -> None:
        self.bench, self.layout = bench, layout
        product = replace(bench.product, layout=layout)
        made = candidate(product, parse(spelled), multiprocessors=bench.executor.limits.multiprocessors)
        if isinstance(made, Failure):
            raise KernelwrightError(made.message)
        self.candidate: Candidate = made
        need = sum(int(w.size_bytes) for w in made.plan.workspaces)
        self.space = torch.full((need,), 0xFF, dtype=torch.uint8, device=bench.executor.device)
        self.loaded: Loaded = bench.executor.load(cubin.read_bytes(), made)
        self._bound: dict[int, BoundPlan] = {}

    def bound(self, slot: Slot) -> BoundPlan:
        """Returns the plan for a slot."""
        if id(slot) not in self._bound:
            addresses = self.bench.addresses(slot, self.layout, self.space)
            self._bound[id(slot)] = self.bench.executor.bind(self.loaded, self.candidate.plan, addresses, {}, {})
        return self._bound[id(slot)]

    def check(self) -> dict[str, float | bool]:
        """Returns what a check found: exact, error, torch_error, guards."""
        bench, found = self.bench, dict[str, float | bool]()
        for name, slot in (("exact", bench.exact), ("random", bench.slots[0])):
            bench.poison(slot)
            bench.executor.issue(self.bound(slot))
            bench.executor.wait(deadline_s=WAIT_S, during=f"{self.candidate.point[0][1]} on {name} inputs")
            found[f"guards_{name}"] = bench.guards_hold(slot)
            if name == "exact" and bench.product.activation not in ("none", "relu"):
                found["exact"] = bench.error(slot) < 2e-3
            elif name == "exact":
                found["exact"] = bool((slot.out == bench.truth(slot).to(bench.dtype)).all())
            else:
                found["error"] = bench.error(slot)
        return found


def torch_contender(bench: Bench, layout: str) -> Contender:
    """Returns torch.matmul into the slot's output, and activation and bias where the product has them."""
    p = bench.product

    def issue(number: int) -> None:
        slot = bench.at(number)
        b = slot.kn if layout == "kn" else slot.nk.transpose(1, 2)
        if p.batch == 1:
            torch.mm(slot.a[0], b[0], out=slot.out[0])
        else:
            torch.bmm(slot.a, b, out=slot.out)
        x = slot.out * p.alpha if p.alpha != 1.0 else slot.out
        x = x + p.beta * slot.c if p.beta else x
        x = x + slot.bias if p.bias else x
        if x is not slot.out or p.activation != "none":
            slot.out.copy_(ACTIVATIONS[p.activation](x))

    return Contender(f"torch_{layout}", issue)


def lt_contenders(bench: Bench, lt: CublasLt, layout: str, *, sweep: int = 0) -> list[Contender]:
    """Returns every algorithm of cuBLASLt's heuristic, its favourite first; or up to `sweep` of all configurations."""
    p = bench.product
    made: LtProduct = lt.product(p.m, p.n, p.k, b_is_kn=layout == "kn", dtype=bench.dtype)
    stream = int(bench.executor.stream.cuda_stream)

    def issue_of(algorithm: Algorithm) -> Callable[[int], None]:
        def issue(number: int) -> None:
            slot = bench.at(number)
            made.issue(algorithm, slot.a, slot.b(layout), slot.out, stream)

        return issue

    every = made.every_algorithm(sweep) if sweep else made.algorithms()
    return [Contender(f"cublaslt_{layout}", issue_of(found), keep=made, text=found.text()) for found in every]


def capture(bench: Bench, contender: Contender) -> None:
    """Captures a graph of as many calls as take about `GRAPH_US`, over all slots in turn."""
    executor = bench.executor
    contender.issue(0)  # what a library does once must not be captured
    one = executor.timed(lambda: contender.issue(1), deadline_s=WAIT_S, during=contender.name).device_us
    count = len(bench.slots)
    contender.calls = max(LEAST_CALLS, min(MOST_CALLS, round(GRAPH_US / max(one, 1.0))))
    contender.calls = max(contender.calls, min(count, MOST_CALLS) if one < 200.0 else LEAST_CALLS)

    def work() -> None:
        for number in range(contender.calls):
            contender.issue(number % count)

    contender.replay = executor.capture(work)
    contender.replay.launch()
    executor.wait(deadline_s=WAIT_S, during=contender.name)


def time_us(bench: Bench, contender: Contender) -> float:
    """Returns the time of one call in one replay of a captured contender, in microseconds."""
    assert contender.replay is not None
    span = bench.executor.timed(contender.replay.launch, deadline_s=WAIT_S, during=contender.name)
    return span.device_us / contender.calls


def fastest(bench: Bench, contenders: list[Contender]) -> Contender:
    """Returns the quickest right one of a library's algorithms by a few replays each; refused ones are left out."""
    timed: list[tuple[float, int]] = []
    for number, contender in enumerate(contenders):
        try:
            capture(bench, contender)
        except KernelwrightError:
            continue
        timed.append((statistics.median(time_us(bench, contender) for _ in range(PICKING_REPLAYS)), number))
    for _, number in sorted(timed):
        if bench.right(contenders[number]):
            return contenders[number]
    raise KernelwrightError("cuBLASLt offers no algorithm that is right for this product")


def screened(bench: Bench, contenders: list[Contender], *, until_s: float, keep: int = SCREENED) -> list[Contender]:
    """Returns the quickest by two single calls each, for sweeps of many hundred; none begins after `until_s`."""
    begun, timed = time.monotonic(), list[tuple[float, int]]()
    for number, contender in enumerate(contenders):
        if time.monotonic() - begun > until_s:
            break
        try:
            contender.issue(0)
            work = functools.partial(contender.issue, number % len(bench.slots))
            spans = [bench.executor.timed(work, deadline_s=WAIT_S, during=contender.name).device_us for _ in range(2)]
        except KernelwrightError:
            continue
        timed.append((min(spans), number))
    return [contenders[number] for _, number in sorted(timed)[:keep]]


def interleaved(bench: Bench, contenders: list[Contender], rounds: int) -> dict[str, list[float]]:
    """Returns the times of captured contenders, one replay each in every round, every other round backwards."""
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            times[contender.name].append(time_us(bench, contender))
    return times


def unload(ours: Ours) -> None:
    """Gives a schedule's code back."""
    ours.bench.executor.unload(ours.loaded)
