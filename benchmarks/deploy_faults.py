"""What planted faults do to a program that calls deployed kernels; deploy.py writes the table.

Each row calls an operator often enough for its fault to show, in one way of calling, and holds every output against
the original's. A program that ends with one wrong output has lost.
**Does not cover**: faults that a device reports later (they end its context, as any kernel's do).
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from tests.deploy.making import KERNEL, LATER, NAN, WRONG, bundle, problem

import kernelwright
from kernelwright.deploy import Shadow, launcher
from kernelwright.deploy.bundle import file_digest
from kernelwright.deploy.export import export
from kernelwright.deploy.operator import Operator
from kernelwright.experts.gemm import Product, candidate, parse, problem_of
from kernelwright.languages import candidate_from_file, cuda_target, detect_device_target
from kernelwright.run.verify import Remembered
from kernelwright.testing.strategies import fake_policy, fake_record
from kernelwright.types import Candidate, Problem, SourceFile, Target, TensorSpec, digest, replace

EVERY, NEVER = Shadow(first=1, every=1), Shadow(first=0, every=0)
CALLS = 12
Kernels = dict[str, Path]
"""Bundles by what is wrong with their kernels."""
Call = Callable[..., Any]
Row = tuple[str, str, str]
"""What was planted, whether the program ended with right outputs, what was said."""
How = Literal["eager", "compiled", "other stream", "captured after a call", "captured at once", "streams of their own"]

SMALL = """import torch


def product(a, b):
    return torch.mm(a, b.t())
"""
SMALL_KERNEL = """#include <cstdint>
extern "C" void product(const float* a, const float* b, float* out) {
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < 8; ++k) sum += a[i * 8 + k] * b[j * 8 + k];
      out[i * 8 + j] = sum;
    }
}
"""


class Operands(NamedTuple):
    """What relu(x * w) is called with."""

    x: torch.Tensor
    weight: torch.Tensor

    @classmethod
    def on(cls, device: str) -> Operands:
        """Returns them on a device."""
        return cls(torch.linspace(-1, 1, 8 * 64).view(8, 64).to(device), torch.linspace(1, 2, 64).to(device))


# ------------------------------------------------------------------------------ kernels


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
    return found | {
        "other": other,
        "product of 8 x 8 x 8, float32": bundle(folder / "product", SMALL_KERNEL, small_product()),
    }


def small_product() -> Problem:
    """Returns the product that stands for small ones on a CPU."""
    tensors = [TensorSpec(name=name, shape=(8, 8), dtype="float32", role="input") for name in ("a", "b", "out")]
    return replace(
        problem(dynamic=False), name="small_product", inputs=tuple(tensors[:2]), parameters=(),
        outputs=(replace(tensors[2], role="output"),), entry="product",
        reference=(SourceFile(path="product.py", text=SMALL),), workloads=problem_of(Product(m=8, n=8, k=8)).workloads,
    )  # fmt: skip


def device_kernels(folder: Path) -> Kernels:
    """Returns the same for the first GPU; the other one is for another architecture."""
    from tests.deploy.test_device import SOURCE

    here = detect_device_target()
    sound = "fmaxf(x[at] * weight[threadIdx.x], 0.0f)"
    texts = {"sound": sound, "wrong": sound.replace("0.0f)", "0.5f)"), "nan": "sqrtf(-1.0f)", "other": sound}
    other = cuda_target("sm_80" if not here.architecture.startswith("sm_8") else "sm_90a")
    found, what = {}, problem(dynamic=False)
    for name, text in texts.items():
        file = folder / f"{name}.cu"
        file.write_text(SOURCE.replace("grid=B", "grid=8").replace(sound, text))
        target = other if name == "other" else here
        found[name] = exported(folder / name, what, candidate_from_file(what, file), target)
    plans = {"product of 64 x 64 x 512, bfloat16": "direct"}
    if here.architecture == "sm_90a":
        plans["product of 64 x 64 x 512, bfloat16, tensor maps"] = "hopper"
    for name, plan in plans.items():
        product = Product(m=64, n=64, k=512, dtype="bfloat16")
        made = candidate(product, parse(plan), architecture=here.architecture)
        assert isinstance(made, Candidate), made
        found[name] = exported(folder / plan, problem_of(product), made, here)
    return found


def exported(folder: Path, what: Problem, kernel: Candidate, target: Target) -> Path:
    """Returns a bundle of a kernel that passes for verified."""
    policy = fake_policy("report")
    record = fake_record(kernel, digest(policy), 10.0, target=digest(target))
    one = Remembered(problem=what, candidate=kernel, target=target, policy=policy, record=record, origin="a benchmark")
    return export([one], folder)


# ------------------------------------------------------------------------------ faults


def fault_rows(kernels: Kernels, device: str, step: Callable[[str], None]) -> list[Row]:
    """Returns the table, row by row."""
    rows = []
    for ordinal in range(torch.cuda.device_count() if device == "cuda" else 1):
        place = f"cuda:{ordinal}" if device == "cuda" else device
        step(f"planting faults on {place}")
        mine = _rows(kernels, place)
        rows += [(f"{what}, second device" if ordinal else what, right, why) for what, right, why in mine]
        if ordinal:
            break
    return rows


def _rows(kernels: Kernels, device: str) -> list[Row]:
    given, rows = Operands.on(device), list[Row]()

    def add(what: str, op: Operator, how: How = "eager", threads: int = 1) -> None:
        rows.append(row(what, op, given, how=how, threads=threads))

    def checked(name: str) -> Operator:
        return kernelwright.load(kernels[name], shadow=EVERY)

    add("a wrong kernel", checked("wrong"))
    add("NaN where the original has none", checked("nan"))
    add("a kernel for another architecture", checked("other"))
    add("a wrong kernel, 8 threads", checked("wrong"), threads=8)
    add("a sound kernel, 8 threads", checked("sound"), threads=8)
    add("a wrong kernel in a compiled graph", checked("wrong"), "compiled")
    add("a sound kernel in a compiled graph, unchecked", kernelwright.load(kernels["sound"], shadow=NEVER), "compiled")
    add("a launch that fails, Python", failing(kernelwright.load(kernels["sound"], launcher="python"), device))
    if "later" in kernels:
        add("wrong from the sixth call on", checked("later"))
    if given.x.is_cuda:
        if device == "cuda:0":  # the launcher of another device is made when that is met: with the real driver
            with refusing_driver():
                refused = kernelwright.load(kernels["sound"], launcher="compiled", shadow=NEVER)
            add("a launch that fails, compiled launcher, unchecked", refused)
        for name in ("sound", "wrong"):
            for how in ("other stream", "captured after a call", "captured at once"):
                if (name, how) != ("wrong", "captured at once"):  # replays of what was never checked are not covered
                    add(f"a {name} kernel, {how}", checked(name), how)
            add(f"a {name} kernel, 8 threads on streams of their own", checked(name), "streams of their own", threads=8)
        add("a sound kernel, unchecked, 8 threads on streams of their own",
            kernelwright.load(kernels["sound"], shadow=NEVER), "streams of their own", threads=8)  # fmt: skip
    os.environ["KERNELWRIGHT_DISABLE"] = "1"
    add("a wrong kernel, KERNELWRIGHT_DISABLE=1", kernelwright.load(kernels["wrong"]))
    del os.environ["KERNELWRIGHT_DISABLE"]
    return rows


def failing(op: Operator, device: str) -> Operator:
    """Makes an operator's launches from Python fail."""

    def refused(*_: object) -> Any:
        raise RuntimeError("the driver refused a launch")

    place = torch.device(device)
    op._running._runners[(place.type, place.index)] = refused
    return op


@contextmanager
def refusing_driver() -> Any:
    """What is loaded meanwhile gets a driver that refuses every launch (CUDA_ERROR_INVALID_VALUE)."""
    real = launcher.address_of

    def address_of(function: Any) -> int:
        return real(REFUSAL if getattr(function, "__name__", "") == "cuLaunchKernelEx" else function)

    launcher.address_of = address_of
    try:
        yield
    finally:
        launcher.address_of = real


REFUSAL = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(lambda *_: 1)


def row(what: str, op: Operator, given: Operands, *, how: How, threads: int) -> Row:
    """Calls an operator often enough for its fault to show, and holds every output against the original's."""
    x, weight = given
    wanted, wrong = torch.relu(x * weight), list[str]()

    def plain(x: torch.Tensor, weight: torch.Tensor) -> Any:
        return op(x, weight)

    def work() -> None:
        try:
            called = how_called(plain, how, given)
            wrong.extend("wrong" for _ in range(CALLS) if not torch.equal(called(x, weight), wanted))
        except Exception as error:  # noqa: BLE001  (a program that ended is the worst outcome, and a row)
            wrong.append(f"it ended: {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work) for _ in range(threads - 1)]
    for worker in workers:
        worker.start()
    work()
    for worker in workers:
        worker.join()
    return what, f"no: {len(wrong)} times; {wrong[-1]}" if wrong else "yes", op.watch.reason or "the kernel stays on"


def how_called(call: Call, how: How, given: Operands) -> Call:
    """Returns a way of calling."""
    if how == "compiled":
        torch._dynamo.reset()
        return torch.compile(call, backend="aot_eager")
    if how in ("other stream", "streams of their own"):
        return on_another_stream(call, given.x.device)
    if how.startswith("captured"):
        if how == "captured after a call":
            call(*given)
        return replayed(call, given)
    return call


def on_another_stream(call: Call, device: torch.device) -> Call:
    """Returns a call on a stream of its own, whose input is only made there, late."""
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def there(x: torch.Tensor, weight: torch.Tensor) -> Any:
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)  # type: ignore[no-untyped-call]
            made = call(x * 1, weight)
        torch.cuda.current_stream(device).wait_stream(side)
        return made

    return there


def replayed(call: Call, given: Operands) -> Call:
    """Returns a call that replays a captured graph over new values of its input."""
    with torch.cuda.device(given.x.device):
        graph, held = torch.cuda.CUDAGraph(), torch.zeros_like(given.x)
        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        with torch.cuda.graph(graph, stream=side):  # its default one is the first device's
            made = call(held, given.weight)

    def again(x: torch.Tensor, _: torch.Tensor) -> Any:
        held.copy_(x)
        graph.replay()
        return made

    return again
