"""FFTs by nvmath's bindings, with a binding of the test's own that computes on the addresses it is given."""

from __future__ import annotations

import builtins
import ctypes
import enum
from math import prod
from typing import Any

import pytest
import torch

from kernelwright.errors import KernelwrightError, MissingTool
from kernelwright.judge.device import cufft, library
from kernelwright.judge.device.faults import DeviceFault
from kernelwright.types import Binding, Step


class cuFFTError(Exception):  # noqa: N801
    """Named as nvmath names it."""


class Kind(enum.IntEnum):
    R2C, C2R, C2C, D2Z, Z2D, Z2Z = 0x2A, 0x2C, 0x29, 0x6A, 0x6C, 0x69


def memory(address: int, count: int, dtype: torch.dtype) -> torch.Tensor:
    buffer = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return torch.frombuffer(buffer, dtype=dtype)


class Binding4Tests:
    """What cufft.py uses of nvmath.bindings.cufft: strict about order and types, right about values."""

    Type = Kind

    def __init__(self, area_bytes: int = 512) -> None:
        self.area_bytes, self.plans = area_bytes, list[dict[str, Any]]()

    def create(self) -> int:
        self.plans.append({})
        return len(self.plans) - 1

    def set_auto_allocation(self, plan: int, auto_allocate: int) -> None:
        assert auto_allocate == 0
        self.plans[plan]["own"] = True

    def make_plan_many(
        self, plan: int, rank: int, n: tuple[int, ...], inembed: int, istride: int, idist: int, onembed: int,
        ostride: int, odist: int, kind: int, batch: int,
    ) -> int:  # fmt: skip
        assert self.plans[plan]["own"], "cuFFT would allocate"
        assert (rank, inembed, onembed, istride, ostride) == (len(n), 0, 0, 1, 1)
        if 13 in n:
            raise cuFFTError("CUFFT_INVALID_SIZE")
        self.plans[plan] |= {"n": n, "kind": Kind(kind), "batch": batch}
        return self.area_bytes

    def set_stream(self, plan: int, stream: int) -> None:
        self.plans[plan]["stream"] = stream

    def set_work_area(self, plan: int, work_area: int) -> None:
        self.plans[plan]["area"] = work_area

    def _execute(self, kind: Kind, plan: int, idata: int, odata: int, direction: int = 0) -> None:
        made = self.plans[plan]
        assert made["kind"] is kind
        assert made["stream"] == 0
        shape, n = (made["batch"], *made["n"]), made["n"]
        half = (*shape[:-1], n[-1] // 2 + 1)
        dtype = torch.float64 if kind in (Kind.D2Z, Kind.Z2D, Kind.Z2Z) else torch.float32
        dims = tuple(range(1, 1 + len(n)))
        memory(made["area"], self.area_bytes, torch.uint8).fill_(0x5A)
        if kind in (Kind.R2C, Kind.D2Z):
            found = torch.view_as_real(torch.fft.rfftn(memory(idata, prod(shape), dtype).view(shape), dim=dims))
        elif kind in (Kind.C2R, Kind.Z2D):
            given = memory(idata, 2 * prod(half), dtype)
            found = torch.fft.irfftn(torch.view_as_complex(given.view(*half, 2)), s=n, dim=dims, norm="forward")
            given.fill_(float("nan"))  # as cuFFT may
        else:
            given = torch.view_as_complex(memory(idata, 2 * prod(shape), dtype).view(*shape, 2))
            change = {-1: torch.fft.fftn, 1: torch.fft.ifftn}[direction]
            found = torch.view_as_real(change(given, dim=dims, norm="forward" if direction == 1 else "backward"))
        memory(odata, found.numel(), dtype).copy_(found.reshape(-1))

    def __getattr__(self, name: str) -> Any:
        assert name.startswith("exec_"), name
        return lambda *arguments: self._execute(Kind[name.removeprefix("exec_").upper()], *arguments)


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Binding4Tests:
    made = Binding4Tests()
    monkeypatch.setattr(cufft, "binding", lambda: made)
    monkeypatch.setattr(cufft, "_plans", {})
    return made


def step(kind: str, sizes: tuple[int, ...], batch: int, *, inverse: bool = False, scale: float = 1.0) -> Step:
    names = (("tensor", "x", "float"), ("tensor", "out", "float"), ("workspace", "work", "uint8_t"))
    bound = tuple(Binding(kind=k, name=name, ctype=ctype) for k, name, ctype in names)  # type: ignore[arg-type]
    options = (
        ("kind", kind),
        ("sizes", "x".join(map(str, sizes))),
        ("batch", batch),
        ("inverse", inverse),
        ("scale", scale),
    )
    return Step(symbol="fft", kind="library", arguments=bound, options=options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(16,), (6, 9), (4, 5, 6)])
@pytest.mark.parametrize(("kind", "inverse"), [("r2c", False), ("c2c", False), ("c2c", True), ("c2r", True)])
def test_every_kind_is_as_torch_does_it(
    kind: str, inverse: bool, sizes: tuple[int, ...], dtype: torch.dtype, used: Binding4Tests
) -> None:
    torch.manual_seed(0)
    shape, dims = (3, *sizes), tuple(range(1, 1 + len(sizes)))
    half = (*shape[:-1], sizes[-1] // 2 + 1)
    x = torch.randn(shape if kind == "r2c" else (*(half if kind == "c2r" else shape), 2), dtype=dtype)
    wide = x.double() if kind == "r2c" else torch.view_as_complex(x.double())
    scale = 1.0 / prod(sizes) if inverse else 1.0
    if kind == "c2r":
        truth = torch.fft.irfftn(wide, s=sizes, dim=dims)
    else:
        change = torch.fft.rfftn if kind == "r2c" else torch.fft.ifftn if inverse else torch.fft.fftn
        truth = torch.view_as_real(change(wide, dim=dims))
    views = {
        "x": x.clone(), "out": torch.full(truth.shape, float("nan"), dtype=dtype),
        "work": torch.zeros(1 << 16, dtype=torch.uint8),
    }  # fmt: skip
    call = library.call_of(step(kind, sizes, 3, inverse=inverse, scale=scale), views)
    for _ in range(2):
        call()
        torch.testing.assert_close(views["out"].double(), truth, rtol=1e-4, atol=1e-5)
    assert torch.equal(views["x"], x), "the input was written"
    library.call_of(step(kind, sizes, 3, inverse=inverse, scale=scale), views)
    assert len(used.plans) == 1, "a plan is made once"


def test_a_workspace_that_is_too_small_is_named(used: Binding4Tests) -> None:
    views = {"x": torch.randn(2, 9, 2), "out": torch.empty(2, 16), "work": torch.zeros(767, dtype=torch.uint8)}
    with pytest.raises(DeviceFault, match="needs 768 bytes of workspace, and the plan has 767"):
        library.call_of(step("c2r", (16,), 2, inverse=True), views)
    del used


def test_what_cufft_refuses_is_a_failure(used: Binding4Tests) -> None:
    views = {"x": torch.randn(2, 13), "out": torch.empty(2, 7, 2), "work": torch.zeros(4096, dtype=torch.uint8)}
    with pytest.raises(DeviceFault, match="cuFFT: CUFFT_INVALID_SIZE") as caught:
        library.call_of(step("r2c", (13,), 2), views)
    assert (caught.value.failure.stage, caught.value.failure.kind) == ("load", "library")
    del used


def test_a_missing_library_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch, used: Binding4Tests) -> None:
    views = {"x": torch.randn(2, 16), "out": torch.empty(2, 9, 2), "work": torch.zeros(4096, dtype=torch.uint8)}

    def lost() -> int:
        raise RuntimeError('Failure finding "libcufft.so.12"\n  listdir ...')

    monkeypatch.setattr(used, "create", lost, raising=False)
    with pytest.raises(DeviceFault, match=r"cuFFT cannot be used: Failure finding .*kernelwright\[baselines\]"):
        library.call_of(step("r2c", (16,), 2), views)


def test_without_nvmath_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def lost(name: str, *rest: Any) -> Any:
        if name.startswith("nvmath"):
            raise ImportError("No module named 'nvmath'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", lost)
    with pytest.raises(MissingTool, match="need nvmath-python"):
        cufft.binding()
    assert issubclass(MissingTool, KernelwrightError)
