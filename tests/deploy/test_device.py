"""The device half, against a driver that only remembers what it was asked."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.deploy.making import bundle, launcher_or_skip, problem

import kernelwright
from kernelwright.deploy import Shadow, device, launcher, running
from kernelwright.deploy.bundle import BundledKernel, read_bundle
from kernelwright.deploy.envelope import envelope_of
from kernelwright.deploy.export import export
from kernelwright.deploy.guard import make_guard
from kernelwright.deploy.package import write_hub_layout
from kernelwright.errors import UserError
from kernelwright.judge.device import image
from kernelwright.judge.device.limits import DeviceLimits, KernelFacts
from kernelwright.languages import candidate_from_file, cuda_target
from kernelwright.run.verify import Remembered
from kernelwright.testing.strategies import fake_policy, fake_record
from kernelwright.types import (
    Artifact,
    Binding,
    Candidate,
    Launch,
    LaunchPlan,
    Problem,
    SourceFile,
    Step,
    Workspace,
    digest,
)

LIMITS = DeviceLimits("a device", 90, 132, 1024, (1024, 1024, 64), (1 << 31, 65535, 65535), 232448, 1 << 25, 1 << 36)


def tensor(name: str) -> Binding:
    return Binding(kind="tensor", name=name, ctype="float")


def plan(grid: int | str) -> LaunchPlan:
    sums = Binding(kind="workspace", name="sums", ctype="float")
    first = Step(
        symbol="scale",
        arguments=(
            tensor("x"),
            tensor("weight"),
            tensor("out"),
            Binding(kind="scalar", name="n", ctype="int", scalar=64),
        ),
        launch=Launch(grid=(grid, 1, 1), block=(128, 1, 1), shared_bytes=1024, programmatic=True),
    )
    second = Step(
        symbol="finish", arguments=(sums, tensor("out")),
        launch=Launch(grid=(1, 1, 1), block=(32, 1, 1), programmatic=True),
    )  # fmt: skip
    clear = Step(symbol="", arguments=(sums,), kind="memset", byte=7)
    steps = (first, clear, second) if isinstance(grid, str) else (first, second)
    return LaunchPlan(steps=steps, workspaces=(Workspace(name="sums", size_bytes=256),))


def kernel(folder: Path, *, dynamic: bool) -> BundledKernel:
    what: Problem = problem(dynamic=dynamic)
    candidate = Candidate(
        problem=digest(what),
        language="cuda",
        sources=(SourceFile(path="k.cu", text=""),),
        plan=plan("B" if dynamic else 8),
    )
    target, policy = cuda_target("sm_90a"), fake_policy("report")
    binary = folder / "kernel.cubin"
    binary.write_bytes(b"a cubin")
    artifact = Artifact(candidate=digest(candidate), key="", blob="", entry="", plan=candidate.plan)
    record = fake_record(candidate, digest(policy), 10.0, target=digest(target))
    return BundledKernel("scale", what, candidate, artifact, target, policy, record, False, binary)


class Driver:
    """Stands for judge/device/driver.py."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def limits_of(self, ordinal: int) -> DeviceLimits:
        return LIMITS

    def bind(self, ordinal: int) -> int:
        self.asked.append(("bind", ordinal))
        return 99

    def load_module(self, blob: bytes) -> str:
        return blob.decode()

    def kernel_of(self, module: str, symbol: str) -> tuple[int, KernelFacts]:
        sizes = (8, 8, 8, 4) if symbol == "scale" else (8, 8)
        return len(symbol), KernelFacts(symbol, 1024, 32, 0, 0, sizes)

    def allow(self, function: int, geometry: Any) -> None:
        self.asked.append(("allow", function, geometry.shared_bytes))

    def configuration(self, geometry: Any, stream: int) -> tuple[Any, int]:
        return geometry, stream

    def Parameters(self, packed: tuple[bytes, ...]) -> tuple[bytes, ...]:  # noqa: N802
        return packed

    def launch(self, config: Any, function: int, parameters: tuple[bytes, ...], symbol: str) -> None:
        self.asked.append(("launch", symbol, config[0].grid[0], config[0].programmatic, config[1], parameters))

    def fill(self, address: int, size: int, byte: int, stream: int) -> None:
        self.asked.append(("fill", address, size, byte, stream))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(device, "driver", made)
    monkeypatch.setattr(image, "fault", lambda blob, architecture: None)

    @contextlib.contextmanager
    def current(ordinal: int) -> Iterator[None]:
        yield

    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda ordinal: SimpleNamespace(cuda_stream=4711))
    return made


def test_a_plan_goes_to_the_callers_stream_in_order(driver: Driver, tmp_path: Path) -> None:
    module = device.Module(kernel(tmp_path, dynamic=True), 0)
    x, weight, out, sums = torch.zeros(5, 64), torch.zeros(64), torch.zeros(5, 64), torch.zeros(256, dtype=torch.uint8)
    for _ in range(2):
        module.call((x, weight, out), {"sums": sums}, (5,))
    assert driver.asked[0] == ("bind", 0)
    once = [entry for entry in driver.asked if entry[0] not in ("allow", "bind")][:3]
    pointers = tuple(struct.pack("<Q", t.data_ptr()) for t in (x, weight, out))
    assert once == [
        ("launch", "scale", 5, False, 4711, (*pointers, struct.pack("<i", 64))),  # the first never starts early
        ("fill", sums.data_ptr(), 256, 7, 4711),
        ("launch", "finish", 1, True, 4711, (struct.pack("<Q", sums.data_ptr()), pointers[2])),
    ]
    assert [entry for entry in driver.asked if entry[0] == "allow"] == [("allow", 5, 1024), ("allow", 6, 0)]


def test_the_wrong_architecture_is_refused(driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "fault", lambda blob, architecture: ("image", "it is for sm_100"))
    with pytest.raises(UserError, match="it is for sm_100"):
        device.Module(kernel(tmp_path, dynamic=False), 0)


def test_the_compiled_launcher_gets_the_plan_as_data(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = kernel(tmp_path, dynamic=False)
    prepared = device.Module(one, 0).fixed_launches()
    assert prepared is not None
    functions, geometries = prepared
    assert geometries[0] == (8, 1, 1, 128, 1, 1, 1, 1, 1, 1024, 0, 0)
    assert geometries[1][-1] == 1
    told: list[dict[str, Any]] = []

    def make(data: dict[str, Any]) -> tuple[Any, ...]:
        told.append(data)
        return None, None, None, None, None

    monkeypatch.setattr(launcher, "module", lambda *, build: SimpleNamespace(make=make))
    library = SimpleNamespace(cuLaunchKernelEx=None, cuCtxSetCurrent=None, aoti_torch_get_current_cuda_stream=None)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    made = launcher.compiled_cuda(
        one, Shadow(first=1, every=9), ordinal=0, context=99, functions=functions, geometries=geometries, build=False
    )
    assert made is not None
    (data,) = told
    assert data["steps"][0]["parameters"] == (0, 1, 2, struct.pack("<i", 64))
    assert data["steps"][1]["parameters"] == (3, 2)
    assert (data["spaces"], data["alignment"], data["every"], data["context"]) == ((256,), 256, 9, 99)
    assert device.Module(kernel(tmp_path, dynamic=True), 0).fixed_launches() is None


def test_a_guard_for_a_device_refuses_the_processors_tensors(tmp_path: Path) -> None:
    one = kernel(tmp_path, dynamic=True)
    guard = make_guard(envelope_of(one.problem, one.target, one.record))
    assert guard(torch.zeros(8, 64), torch.zeros(64)) is None
    assert "t1.get_device() != t0.get_device()" in (guard.__doc__ or "")


SOURCE = """// kernelwright-launch: scale grid=B block=64
extern "C" __global__ void scale(const float* x, const float* weight, float* out) {
  const int at = blockIdx.x * 64 + threadIdx.x;
  out[at] = fmaxf(x[at] * weight[threadIdx.x], 0.0f);
}
"""


def test_a_cubin_is_exported_and_loads_where_there_is_no_device(tmp_path: Path) -> None:
    what, file = problem(), tmp_path / "scale.cu"
    file.write_text(SOURCE)
    candidate, target, policy = candidate_from_file(what, file), cuda_target("sm_90a"), fake_policy("report")
    record = fake_record(candidate, digest(policy), 10.0, target=digest(target))
    one = Remembered(problem=what, candidate=candidate, target=target, policy=policy, record=record, origin="a test")
    folder = export([one], tmp_path / "bundle")
    (found,) = read_bundle(folder)
    assert found.binary.read_bytes()[:4] == b"\x7fELF"
    assert found.envelope.alignment_bytes == 256
    hub = write_hub_layout(folder, tmp_path / "hub")
    assert '"9.0a"' in (hub / "build" / "torch-cuda" / "metadata.json").read_text()
    op = kernelwright.load(folder)
    x, weight = torch.randn(8, 64), torch.randn(64)
    assert torch.equal(op(x, weight), torch.relu(x * weight))
    assert op.launched() == 0


def test_one_launch_leads_to_the_kernel_of_each_device(tmp_path: Path) -> None:
    launcher_or_skip()
    one = bundle(tmp_path / "cpu")
    op = kernelwright.load(one, launcher="compiled", shadow=Shadow(first=0, every=0))
    (here, library), *rest = op._running._compiled.values()
    assert library is not None
    assert not rest
    pretended = {
        "inputs": (), "outputs": (), "spaces": (), "axes": (), "alignment": 256, "first": 0, "every": 0, "device": 1,
        "launch": 0, "current_stream": 0, "set_context": 0, "context": 0, "steps": (),
    }  # fmt: skip
    far = launcher.Compiled(*launcher.module(build=False).make(pretended))
    x, weight = torch.randn(8, 64), torch.randn(64)
    assert far.launch(x, weight) is NotImplemented  # it has nothing for this device
    far.join(here.launch)
    assert torch.equal(far.launch(x, weight), torch.relu(x * weight))
    assert (far.launched(), here.launched()) == (0, 1)
    far.turn_off()
    assert torch.equal(far.launch(x, weight), torch.relu(x * weight))  # each is turned off by itself
    here.turn_off()
    assert far.launch(x, weight) is NotImplemented
    with pytest.raises(TypeError, match="only a launch"):
        far.join(print)


def test_nothing_is_loaded_while_a_graph_is_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    op = kernelwright.load(bundle(tmp_path / "cpu"), launcher="python", shadow=Shadow(first=0, every=0))
    monkeypatch.setattr(running, "_is_capturing", lambda device: True)
    x, weight = torch.randn(8, 64), torch.randn(64)
    assert torch.equal(op(x, weight), torch.relu(x * weight))
    assert (op.launched(), op.watch.reason) == (0, "")
    monkeypatch.undo()
    assert torch.equal(op(x, weight), torch.relu(x * weight))
    assert op.launched() == 1
