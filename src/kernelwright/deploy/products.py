"""The calls behind `kernelwright.matmul`: kernels of tuned plans and the vendor's tuned algorithms, tried before use.

A plan from the table is checked for right products on its first use here; one that was borrowed from a near size, or
has an epilogue that the table did not time, also has to win against torch.
**Covers**: exact products of whole numbers against float64 (sampled rows) and against torch (all), the caller's own
operands against float64, times in turns on the caller's tensors.
**Does not cover**: what the judge's families cover; winners were judged when the table was made.
"""

from __future__ import annotations

import functools
import logging
import statistics
import threading
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.deploy import launcher
from kernelwright.environment import home
from kernelwright.errors import KernelwrightError
from kernelwright.experts.gemm import Product, Schedule, candidate, parse, problem_of, spell
from kernelwright.experts.gemm.table import VENDOR, Row, Table, table_of
from kernelwright.types import Artifact, Candidate, Problem, Target, digest, value

if TYPE_CHECKING:
    from kernelwright.judge.device.products.cublaslt import CublasLt

Call = Callable[..., Any]
Baseline = Callable[[torch.Tensor, torch.Tensor, "torch.Tensor | None"], torch.Tensor]
HALVES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
ALIGNMENT_BYTES = 16
"""Of tensor maps and 16-byte copies."""
CHECKED_ROWS = 64
ERROR_FACTOR, ERROR_FLOOR = 2.0, 1e-5
ROUNDS, CALLS = 9, 8
_log = logging.getLogger(__name__)


@value
class Kernel:
    """One product's kernel as a module loads it."""

    name: str
    problem: Problem
    artifact: Artifact
    binary: Path


def product_of(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, activation: str | None) -> Product | None:
    """Returns the product that two tensors are as they lie in memory, None where no plan can be for them."""
    if a.dtype not in HALVES or b.dtype != a.dtype or min(a.dim(), b.dim()) < 2 or not a.numel() or not b.numel():
        return None
    if b.dim() > 2 and a.shape[:-2] != b.shape[:-2]:
        return None
    batch = prod(b.shape[:-2])
    m, (k, n) = prod(a.shape[:-1]) // batch, b.shape[-2:]
    layout = "kn" if b.is_contiguous() else "nk" if b.mT.is_contiguous() else ""
    if not layout or a.shape[-1] != k or not a.is_contiguous():
        return None
    if bias is not None and (bias.shape != (n,) or bias.dtype != a.dtype or not bias.is_contiguous()):
        return None
    return Product(
        m=m, n=n, k=k, layout=layout, dtype=HALVES[a.dtype], batch=batch, bias=bias is not None,  # type: ignore[arg-type]
        activation=activation or "none",  # type: ignore[arg-type]
    )  # fmt: skip


def forms(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> dict[str, Any]:
    """Returns the launcher's guard and outputs for tensors like these."""
    number = launcher.SCALARS[HALVES[a.dtype]]
    given = (a, b) if bias is None else (a, b, bias)
    return {
        "inputs": tuple((number, tuple(t.shape), None if t.is_contiguous() else tuple(t.stride())) for t in given),
        "outputs": ((number, (*a.shape[:-1], b.shape[-1]), None),),
        "spaces": (), "axes": (), "alignment": ALIGNMENT_BYTES, "first": 0, "every": 0,
    }  # fmt: skip


class Products:
    """Finds, builds and tries the call of a kind of product. Safe to use from several threads.

    Args:
        table: of a device's name; None: the package's and this machine's.
    """

    def __init__(self, table: Callable[[str], Table] = table_of) -> None:
        self._table, self._lock = table, threading.Lock()
        self._kept: list[object] = []
        """Modules and descriptors, which must outlive the calls that use them."""

    def forget(self) -> None:
        """Has tables read again."""
        table_of.cache_clear()

    def call_for(
        self, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, activation: str | None, baseline: Baseline
    ) -> Call | None:
        """Returns the call for products like this one, None where torch's is the best that is known."""
        product = product_of(a, b, bias, activation)
        with self._lock:
            if product is None:
                return None
            try:
                return self._found(product, a, b, bias, baseline)
            except (KernelwrightError, RuntimeError, OSError) as error:
                _log.warning("%s: torch multiplies it: %s", problem_of(product).name, error)
                return None

    def _found(
        self, product: Product, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, baseline: Baseline
    ) -> Call | None:
        table = self._table(self.device_name(a))
        row = table.find(product)
        plain = product.batch == 1 and bias is None and product.activation == "none"
        if row is not None and row.plan == VENDOR:
            return self.vendor(product, row, a, b) if plain and row.algorithm else None
        schedule = parse(row.plan) if row else table.schedule(product, self.architecture(a))
        if schedule is None:
            return None
        made = self.kernel(product, schedule, a, b, bias)
        given: tuple[torch.Tensor, ...] = (a, b) if bias is None else (a, b, bias)
        if why := wrong(made, given, baseline):
            raise KernelwrightError(f"{spell(schedule)}: {why}")
        return made if (row and plain) or wins(made, given, baseline) else None

    # ------------------------------------------------------------------------------ the device

    def device_name(self, a: torch.Tensor) -> str:
        """Returns the name of a tensor's device."""
        return str(torch.cuda.get_device_name(a.device))

    def architecture(self, a: torch.Tensor) -> str:
        """Returns what to compile for."""
        major, _ = torch.cuda.get_device_capability(a.device)
        return {8: "sm_80", 9: "sm_90a", 10: "sm_100"}.get(major, "none")

    def kernel(
        self, product: Product, schedule: Schedule, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None
    ) -> Call:
        """Returns the compiled launcher's call of a schedule's kernel, built and loaded.

        Raises:
            KernelwrightError: when it cannot be built, loaded or launched so.
        """
        from kernelwright.deploy.device import Module

        properties = torch.cuda.get_device_properties(a.device)
        architecture = self.architecture(a)
        made = candidate(product, schedule, architecture=architecture, multiprocessors=properties.multi_processor_count)
        if not isinstance(made, Candidate):
            raise KernelwrightError(made.message)
        binary = build_one(product, schedule, architecture)
        problem = problem_of(product)
        artifact = Artifact(candidate=digest(made), key="", blob="", entry="", plan=made.plan)
        module = Module(Kernel(name=problem.name, problem=problem, artifact=artifact, binary=binary), a.device.index)
        prepared = module.fixed_launches()
        assert prepared is not None  # kernels of fixed sizes only
        order = [*(("a", "b") if bias is None else ("a", "b", "bias")), "out", *(w.name for w in made.plan.workspaces)]
        data = forms(a, b, bias) | launcher.plan_data(
            made.plan,
            order,
            ordinal=a.device.index,
            context=module.context,
            functions=prepared[0],
            geometries=prepared[1],
        )
        data["spaces"] = tuple(int(w.size_bytes) for w in made.plan.workspaces)
        self._kept.append(module)
        return launcher.Compiled(*launcher.module(build=True).make(data)).launch

    def vendor(self, product: Product, row: Row, a: torch.Tensor, b: torch.Tensor) -> Call | None:
        """Returns the call of the algorithm that a table names, None where this is another version of the library."""
        asked = _library(a.device).product(
            product.m, product.n, product.k, b_is_kn=product.layout == "kn", dtype=a.dtype
        )
        steps = asked.launcher_step(row.algorithm)
        if steps is None:
            return None
        from kernelwright.judge.device import driver

        self._kept.append(asked)
        data = forms(a, b, None) | launcher.thread_data(driver.bind(a.device.index)) | {
            "device": a.device.index, "launch": 0, "steps": (steps,), "spaces": (steps["workspace_bytes"],),
        }  # fmt: skip
        return launcher.Compiled(*launcher.module(build=True).make(data)).launch


@functools.cache
def _library(device: torch.device) -> CublasLt:
    """The library of a device, for good."""
    from kernelwright.judge.device.products.cublaslt import CublasLt

    return CublasLt(device)


def build_one(product: Product, schedule: Schedule, architecture: str) -> Path:
    """Returns the cubin of a schedule, compiled if this machine has not compiled it before.

    Raises:
        KernelwrightError: when it does not compile.
    """
    from kernelwright.run.gemm.binaries import Point, build

    point = Point(product=product, schedule=schedule)
    target = Target(kind="cuda", architecture=architecture, features=(), threads=1, toolchain=())
    made = build([point], target, home() / "gemm" / "binaries", workers=1)[point]
    if not made.path:
        raise KernelwrightError(f"{spell(schedule)} does not compile: {made.fault}")
    return Path(made.path)


# ------------------------------------------------------------------------------ trying


def wrong(call: Call, given: Sequence[torch.Tensor], baseline: Baseline) -> str:
    """Returns what is wrong with a call's products, empty where nothing was found."""
    whole = [torch.empty_like(t).copy_(torch.randint(-2, 3, t.shape, device=t.device)) for t in given]
    for tensors, exact in ((whole, True), (given, False)):
        found = call(*tensors)
        if found is NotImplemented:
            return "it does not take these tensors"
        wanted = baseline(tensors[0], tensors[1], tensors[2] if len(tensors) > 2 else None)
        if exact and len(given) == 2 and not torch.equal(found, wanted):
            return "wrong on whole numbers"
        ours, theirs = (_error(out, tensors, baseline) for out in (found, wanted))
        if not ours <= ERROR_FACTOR * theirs + ERROR_FLOOR:
            return f"an error of {ours:.2e} against float64, torch has {theirs:.2e}"
    return ""


def _error(out: torch.Tensor, tensors: Sequence[torch.Tensor], baseline: Baseline) -> float:
    """The relative error of sampled rows against float64; infinite where it is no number."""
    a, b, *bias = tensors
    rows = torch.randperm(a.shape[-2], device=a.device)[:CHECKED_ROWS]
    truth = baseline(a[..., rows, :].double(), b.double(), bias[0].double() if bias else None)
    error = float((out[..., rows, :].double() - truth).norm() / truth.norm().clamp_min(1e-300))
    return error if error == error else float("inf")


def wins(call: Call, given: Sequence[torch.Tensor], baseline: Baseline) -> bool:
    """Returns whether a call is quicker than torch on the caller's tensors, timed in turns on the current stream."""
    bias = given[2] if len(given) > 2 else None
    contenders = (lambda: call(*given), lambda: baseline(given[0], given[1], bias))
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(ROUNDS):
        for which in (0, 1) if number % 2 else (1, 0):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            for _ in range(CALLS):
                contenders[which]()
            end.record()
            end.synchronize()
            times[which].append(float(start.elapsed_time(end)))
    return statistics.median(times[0]) < statistics.median(times[1])
