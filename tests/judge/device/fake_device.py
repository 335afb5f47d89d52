"""A device whose kernels are Python functions on CPU tensors, and small problems for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from kernelwright.judge.device.executor import BoundPlan, Loaded, Span
from kernelwright.judge.device.faults import fault_of
from kernelwright.judge.device.limits import DeviceLimits
from kernelwright.types import (
    Artifact,
    Binding,
    Candidate,
    Launch,
    LaunchPlan,
    Problem,
    SourceFile,
    Step,
    TensorSpec,
    Workload,
    Workspace,
    digest,
)

Kernel = Callable[..., None]
LIMITS = DeviceLimits(
    name="fake device",
    architecture=90,
    multiprocessors=4,
    threads_per_block=1024,
    block=(1024, 1024, 64),
    grid=(2**31 - 1, 65535, 65535),
    shared_bytes=227 << 10,
    cache_bytes=1 << 20,
    memory_bytes=1 << 30,
)
ROWS, COLUMNS = 32, 128


class FakeReplay:
    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work

    def launch(self) -> None:
        self._work()


class FakeExecutor:
    """Runs kernels at once, with clocks that say what they are told: no test may depend on how busy the machine is.

    `time_us` is one execution of a plan, `other_us` whatever else is timed; `hidden_us` only the host's clock sees.
    """

    def __init__(self, kernels: Mapping[str, Kernel], *, time_us: float = 50.0, other_us: float = 100.0) -> None:
        self.device, self.limits = torch.device("cpu"), LIMITS
        self.kernels, self.time_us, self.other_us, self.hidden_us = kernels, time_us, other_us, 0.0
        self.log: list[str] = []
        self.issued = 0
        self.capturing = False
        self.fault_after: int | None = None
        self.fault = "CUDA_ERROR_ILLEGAL_ADDRESS"

    def load(self, blob: bytes, candidate: Candidate) -> Loaded:
        for step in candidate.plan.steps:
            if step.symbol not in self.kernels:
                raise fault_of("CUDA_ERROR_NOT_FOUND", f"looking for {step.symbol!r}")
        return Loaded(None, {})

    def unload(self, loaded: Loaded) -> None:
        self.log.append("unload")

    def bind(
        self,
        loaded: Loaded,
        plan: LaunchPlan,
        addresses: Mapping[str, int],
        views: Mapping[str, torch.Tensor],
        axes: Mapping[str, int],
    ) -> BoundPlan:
        calls = []
        for step in plan.steps:
            given = {b.name: views[b.name] for b in step.arguments if b.kind in ("tensor", "workspace")}
            calls.append((self.kernels[step.symbol], given))
        return BoundPlan(tuple(calls))

    def issue(self, bound: BoundPlan) -> None:
        self.issued += 1
        self.log.append("candidate")
        if self.fault_after is not None and self.issued > self.fault_after:
            raise fault_of(self.fault, "running")
        for kernel, given in bound.calls:
            kernel(**given)

    def capture(self, work: Callable[[], object]) -> FakeReplay:
        return FakeReplay(work)

    def timed(self, launch: Callable[[], object], *, deadline_s: float, during: str) -> Span:
        before = self.issued
        launch()
        calls = self.issued - before
        device_us = calls * self.time_us if calls else self.other_us
        return Span(device_us, device_us + (self.hidden_us if calls else 0.0))

    def wait(self, *, deadline_s: float, during: str) -> None:
        return None

    def flush(self) -> None:
        self.log.append("flush")

    def perturb(self, byte: int) -> None:
        self.log.append("perturb")

    def scrub(self) -> None:
        self.log.append("scrub")

    def free_bytes(self) -> int:
        return 1 << 30


def softmax_problem() -> Problem:
    text = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, -1)\n"
        f"def get_inputs():\n    return [torch.randn({ROWS}, {COLUMNS})]\n"
    )
    spec = {"shape": (ROWS, COLUMNS), "dtype": "float32"}
    return Problem(
        name="softmax",
        inputs=(TensorSpec(name="x", role="input", **spec),),  # type: ignore[arg-type]
        parameters=(),
        outputs=(TensorSpec(name="out", role="output", **spec),),  # type: ignore[arg-type]
        reference=(SourceFile(path="softmax.py", text=text),),
        entry="Model",
        workloads=(Workload(name="given", generator="source"),),
        min_bytes=8 * ROWS * COLUMNS,
    )


def candidate_for(problem: Problem, *symbols: str, workspace_bytes: int = 0) -> Candidate:
    """Returns a candidate whose plan calls the symbols, each with every tensor (and the workspace, if any)."""
    bound = [Binding(kind="tensor", name=t.name, ctype="float") for t in problem.arguments]
    spaces: tuple[Workspace, ...] = ()
    if workspace_bytes:
        spaces = (Workspace(name="scratch", size_bytes=workspace_bytes),)
        bound.append(Binding(kind="workspace", name="scratch", ctype="float"))
    launch = Launch(grid=(1, 1, 1), block=(32, 1, 1))
    steps = tuple(Step(symbol=s, arguments=tuple(bound), launch=launch) for s in symbols)
    return Candidate(
        problem=digest(problem),
        language="cuda",
        sources=(SourceFile(path="kernel.cu", text="// " + " ".join(symbols)),),
        plan=LaunchPlan(steps=steps, workspaces=spaces),
    )


def artifact_for(candidate: Candidate, folder: Path) -> Artifact:
    path = folder / "kernel.cubin"
    path.write_bytes(b"cubin")
    blob = "sha256:" + hashlib.sha256(b"cubin").hexdigest()
    return Artifact(candidate=digest(candidate), key="k", blob=blob, entry="", plan=candidate.plan, path=str(path))
