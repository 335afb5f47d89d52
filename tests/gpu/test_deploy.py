"""Deployed kernels on a real device: streams, captured graphs, threads, faults, both launchers."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.deploy.making import problem
from tests.deploy.test_device import SOURCE

import kernelwright
from kernelwright.deploy import Shadow, launcher
from kernelwright.deploy.export import export
from kernelwright.deploy.operator import Operator
from kernelwright.errors import KernelwrightError
from kernelwright.judge.device import driver
from kernelwright.languages import candidate_from_file, cuda_target
from kernelwright.run.verify import Remembered
from kernelwright.testing.strategies import fake_policy, fake_record
from kernelwright.types import Target, digest

# The compiler of this version of torch uses what this version has deprecated, captures an empty graph, and says
# what else float32 products could be.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*TensorFloat32 tensor cores"),
]

NEVER = Shadow(first=0, every=0)
EVERY = Shadow(first=1, every=1)


def exported(folder: Path, target: Target, source: str = SOURCE) -> Path:
    """Returns a bundle of a kernel of fixed shape, which both launchers can do."""
    what, file = problem(dynamic=False), folder / "scale.cu"
    file.write_text(source.replace("grid=B", "grid=8"))
    candidate, policy = candidate_from_file(what, file), fake_policy("report")
    record = fake_record(candidate, digest(policy), 10.0, target=digest(target))
    one = Remembered(problem=what, candidate=candidate, target=target, policy=policy, record=record, origin="a test")
    return export([one], folder / "bundle")


@pytest.fixture(params=["python", "compiled"])
def op(request: pytest.FixtureRequest, tmp_path: Path, target: Target) -> Operator:
    op = kernelwright.load(exported(tmp_path, target), launcher=request.param, shadow=NEVER)
    assert op._is_compiled == (request.param == "compiled")
    return op


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 64, device="cuda"), torch.randn(64, device="cuda")


def test_a_call_runs_the_kernel_on_the_current_stream(op: Operator) -> None:
    x, weight = drawn()
    assert torch.equal(op(x, weight), torch.relu(x * weight))
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)  # type: ignore[no-untyped-call]
        y = x * 2
        out = op(y, weight)  # right only if it waits for what the side stream does
    side.synchronize()
    assert torch.equal(out, torch.relu(x * 2 * weight))
    assert op.launched() == 2


def test_it_can_be_captured(op: Operator) -> None:
    x, weight = drawn()
    op(x, weight)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(x, weight)
    for _ in range(3):
        x.normal_()
        graph.replay()
        assert torch.equal(out, torch.relu(x * weight))
    assert op.launched() == 2


def test_it_lives_in_compiled_graphs_with_captures(op: Operator) -> None:
    def whole(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.add(op(x, weight), 1)

    x, weight = drawn()
    compiled = torch.compile(whole, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        assert torch.equal(compiled(x, weight), torch.relu(x * weight) + 1)
    assert op.launched() > 0


def test_eight_threads_on_streams_of_their_own(op: Operator) -> None:
    weight, faults = torch.randn(64, device="cuda"), list[int]()

    def work(seed: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
            x = torch.full((8, 64), float(seed + 1), device="cuda")
            faults.extend(1 for _ in range(100) if not torch.equal(op(x, weight), torch.relu(x * weight)))

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert op.launched() == 800


def test_a_thread_that_has_asked_the_device_for_nothing_yet_can_call(op: Operator) -> None:
    x, weight = drawn()
    found: list[torch.Tensor] = []
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: found.append(op(x, weight)))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(found[0], torch.relu(x * weight))
    assert (op.launched(), op.watch.reason) == (1, "")


def test_a_first_call_that_is_captured_is_right(op: Operator) -> None:
    x, weight = drawn()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(x, weight)
    x.normal_()
    graph.replay()
    assert torch.equal(out, torch.relu(x * weight))
    assert not op.watch.reason


@pytest.mark.parametrize("how", ["python", "compiled"])
def test_a_refused_launch_ends_in_the_original(
    how: Any, tmp_path: Path, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(lambda *_: 1)
    real = launcher.address_of

    def address_of(function: Any) -> int:
        return real(refusal if getattr(function, "__name__", "") == "cuLaunchKernelEx" else function)

    def refuses(*_: object) -> None:
        raise KernelwrightError("the driver refused a launch")

    monkeypatch.setattr(launcher, "address_of", address_of)
    monkeypatch.setattr(driver, "launch", refuses)
    op = kernelwright.load(exported(tmp_path, target), launcher=how, shadow=NEVER)
    x, weight = drawn()
    for _ in range(3):
        assert torch.equal(op(x, weight), torch.relu(x * weight))
    assert "refused a launch" in op.watch.reason
    assert op.launched() == 0


def test_nan_and_late_faults_are_seen(tmp_path: Path, target: Target) -> None:
    source = SOURCE.replace("fmaxf(x[at] * weight[threadIdx.x], 0.0f)", "sqrtf(-1.0f)")
    op = kernelwright.load(exported(tmp_path, target, source), shadow=EVERY)
    x, weight = drawn()
    assert torch.equal(op(x, weight), torch.relu(x * weight))
    assert "NaN" in op.watch.reason


def test_wrong_kernels_and_architectures_end_in_the_original(tmp_path: Path, target: Target) -> None:
    x, weight = drawn()
    (tmp_path / "wrong").mkdir()
    wrong = exported(tmp_path / "wrong", target, SOURCE.replace("0.0f)", "0.5f)"))
    op = kernelwright.load(wrong, shadow=EVERY)
    assert torch.equal(op(x, weight), torch.relu(x * weight))
    assert "is wrong by" in op.watch.reason
    (tmp_path / "other").mkdir()
    other = "sm_80" if not target.architecture.startswith("sm_8") else "sm_90a"
    op = kernelwright.load(exported(tmp_path / "other", cuda_target(other)), shadow=NEVER)
    assert torch.equal(op(x, weight), torch.relu(x * weight))
    assert op.watch.reason
    assert op.launched() == 0


@pytest.mark.alone
def test_every_device_gets_its_own_module(op: Operator) -> None:
    for ordinal in range(torch.cuda.device_count()):
        x, weight = (t.to(f"cuda:{ordinal}") for t in drawn())
        out = op(x, weight)
        assert out.device.index == ordinal
        assert torch.equal(out, torch.relu(x * weight))
    assert op.launched() == torch.cuda.device_count()


def test_a_model_is_captured_with_kernels_in_it(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.deploy.backend.KNOWN", [op])  # other tests have loaded the same kernel

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.last = torch.nn.Parameter(torch.rand(64)), torch.nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.last(torch.relu(x * self.weight))
            return out

    model = Model().cuda()
    with torch.no_grad():
        fast = kernelwright.accelerate(model, measure=False, mode="reduce-overhead")
        for _ in range(5):
            x = torch.randn(8, 64, device="cuda")
            assert torch.allclose(fast(x), model(x), atol=1e-5)
        model.weight.mul_(2)  # what is captured reads the parameters where they are
        assert torch.allclose(fast(x), model(x), atol=1e-5)
    assert op.launched() > 0
