"""kernelwright.matmul on a driver that runs kernels by functional models: plans, guards, trials, vendor's calls."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.deploy.making import launcher_or_skip

import kernelwright
from kernelwright.deploy import launcher, products, serving
from kernelwright.deploy import matmul as matmuls
from kernelwright.deploy.products import Products, forms, product_of
from kernelwright.experts.gemm import Direct, Hopper, Product, Schedule, candidate, problem_of, spell
from kernelwright.experts.gemm.table import VENDOR, Row, Table
from kernelwright.languages.emulation.clusters import Emulated
from kernelwright.types import Candidate

LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_void_p] * 4))
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)
ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, *([ctypes.c_void_p] * 5), *([ctypes.c_int] * 4)
)
MATMUL = ctypes.CFUNCTYPE(ctypes.c_int, *([ctypes.c_void_p] * 14), ctypes.c_size_t, ctypes.c_void_p)
DEVICE = "a processor"
OPEN: list[Emulated] = []


def row(product: Product, plan: str, **more: str) -> Row:
    return Row(
        device=DEVICE, dtype=product.dtype, layout=product.layout, m=product.m, n=product.n, k=product.k, plan=plan,
        ours_us="1", vendor_us="2", **more,
    )  # fmt: skip


class OnTheProcessor(Products):
    """Products of a driver that is none: what is launched runs by functional models."""

    def __init__(self, *rows: Row) -> None:
        super().__init__(lambda device: Table(rows))
        self.launched: list[str] = []
        self.wrong = False

    def device_name(self, a: torch.Tensor) -> str:
        return DEVICE

    def architecture(self, a: torch.Tensor) -> str:
        return "sm_90a"

    def kernel(self, product: Product, schedule: Schedule, a: Any, b: Any, bias: Any) -> Callable[..., Any]:
        made = candidate(product, schedule, multiprocessors=2)
        assert isinstance(made, Candidate), made
        emulated = Emulated(made)
        OPEN.append(emulated)
        (step,) = made.plan.steps
        of = {m.name: m.of for m in made.plan.tensor_maps}

        def launch(config: int, function: int, parameters: int, extra: int) -> int:
            pointers = (ctypes.c_void_p * len(step.arguments)).from_address(parameters)
            where = {
                of.get(argument.name, argument.name): ctypes.c_uint64.from_address(pointer).value
                for argument, pointer in zip(step.arguments, pointers, strict=True)
                if argument.kind != "scalar"
            }
            said = emulated.run(where, len(self.launched) % 3)
            if self.wrong:
                ctypes.c_uint16.from_address(where["out"]).value ^= 0x3FF
            self.launched.append(spell(schedule))
            return int(bool(said))

        def encode(to: int, kind: int, rank: int, base: int, *others: Any) -> int:
            assert to % 64 == 0
            assert rank == 3
            ctypes.c_uint64.from_address(to).value = base
            return 0

        functions = LAUNCH(launch), STREAM(lambda device, stream: 0), ENCODE(encode)
        self._kept.append((functions, emulated))
        order = [*(("a", "b") if bias is None else ("a", "b", "bias")), "out"]
        maps = {m.name: launcher._map_numbers(m, order) for m in made.plan.tensor_maps}
        geometry = tuple(int(n) for n in (*step.launch.grid, *step.launch.block, *step.launch.cluster, 0, 0, 0))  # type: ignore[union-attr]
        addresses = dict(zip(("launch", "current_stream", "encode"), map(launcher.address_of, functions), strict=True))
        steps = ({"function": 1, "geometry": geometry, "parameters": launcher._parameters(step, order, maps)},)
        data = forms(a, b, bias) | addresses | {"device": -1, "set_context": 0, "context": 0, "steps": steps}
        return launcher.Compiled(*launcher.module(build=True).make(data)).launch


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    launcher_or_skip()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    before = matmuls._using[0]
    yield
    matmuls.use(before)
    while OPEN:
        OPEN.pop().close()


def call(a: torch.Tensor, b: torch.Tensor, bias: Any = None, activation: Any = None) -> torch.Tensor:
    """What matmul does for tensors of a device."""
    return matmuls._called(matmuls._known, a, b, bias, activation)


def whole(*shape: int) -> torch.Tensor:
    return torch.randint(-2, 3, shape).half()


SMALL = Product(m=24, n=32, k=64)
DIRECT = spell(Direct(bm=16, bn=16, warps=1, depth=1))
HOPPER = spell(Hopper(bm=64, bn=32, consumers=1, stages=2))


@pytest.mark.parametrize("plan", [DIRECT, HOPPER], ids=["direct", "hopper"])
def test_a_listed_plan_runs_and_gives_the_product(plan: str) -> None:
    using = OnTheProcessor(row(SMALL, plan))
    matmuls.use(using)
    a, b = whole(24, 64), whole(32, 64).t()
    assert torch.equal(call(a, b), (a.double() @ b.double()).half())
    tried = len(using.launched)
    assert set(using.launched) == {plan}
    assert torch.equal(call(a, b), (a.double() @ b.double()).half())
    assert len(using.launched) == tried + 1


def test_what_the_guard_refuses_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    using = OnTheProcessor(row(SMALL, DIRECT))
    matmuls.use(using)
    a, b = whole(24, 64), whole(32, 64).t()
    call(a, b)
    tried = len(using.launched)
    shifted = torch.zeros(24 * 64 + 1).half()[1:].view(24, 64).copy_(a)
    needed = a.clone().requires_grad_()
    call(needed, b).float().sum().backward()  # type: ignore[no-untyped-call]
    assert torch.equal(call(shifted, b), a @ b)
    assert needed.grad is not None
    kn = whole(64, 32)
    assert torch.equal(call(a, kn), a @ kn)  # another layout, which has no row
    assert len(using.launched) == tried
    monkeypatch.setenv("KERNELWRIGHT_DISABLE", "1")
    matmuls.use(using)
    assert torch.equal(call(a, b), a @ b)
    assert len(using.launched) == tried


def test_what_no_table_lists_has_to_win_first(monkeypatch: pytest.MonkeyPatch) -> None:
    using = OnTheProcessor(row(SMALL, DIRECT))
    matmuls.use(using)
    asked: list[object] = []

    def wins(*given: object) -> bool:
        asked.append(given)
        return len(asked) < 3

    monkeypatch.setattr(products, "wins", wins)
    a, b, bias = whole(3, 8, 64), whole(32, 64).t(), whole(32)
    truth = torch.relu(a.double() @ b.double() + bias.double()).half()
    assert torch.equal(call(a, b, bias, "relu"), truth)  # an epilogue that was not timed
    assert torch.equal(call(whole(20, 64) * 0 + 1, b), b.sum(0).half().expand(20, 32))  # a near size
    assert len(asked) == 2
    tried = len(using.launched)
    assert torch.equal(call(a[:1], b), a[:1] @ b)  # it loses: torch's
    assert len(asked) == 3
    after = len(using.launched)
    call(a[:1], b)
    assert len(using.launched) == after > tried
    call(whole(24, 4096), whole(32, 4096).t())  # too far for any plan
    assert len(asked) == 3


def test_a_wrong_kernel_is_never_used(caplog: pytest.LogCaptureFixture) -> None:
    using = OnTheProcessor(row(SMALL, DIRECT))
    using.wrong = True
    matmuls.use(using)
    a, b = whole(24, 64), whole(32, 64).t()
    with caplog.at_level(logging.WARNING):
        assert torch.equal(call(a, b), a @ b)
        assert torch.equal(call(a, b), a @ b)
    assert len(using.launched) == 1
    assert "wrong on whole numbers" in caplog.text


def test_the_vendors_algorithm_is_called_with_what_was_written_down() -> None:
    said: list[Any] = []

    def matmul(*given: Any) -> int:
        said.append(given)
        return 0

    function = MATMUL(matmul)
    stream = STREAM(lambda device, to: 0)
    a, b = whole(24, 64), whole(32, 64).t()
    step = {
        "matmul": launcher.address_of(function), "handle": 11, "product": 12, "layouts": (21, 22, 23),
        "buffers": (1, 0, 2, 3), "algorithm": bytes(range(64)), "workspace_bytes": 256,
    }  # fmt: skip
    data = forms(a, b, None) | {
        "device": -1, "launch": 0, "current_stream": launcher.address_of(stream), "set_context": 0, "context": 0,
        "steps": (step,), "spaces": (256,),
    }  # fmt: skip
    out = launcher.Compiled(*launcher.module(build=False).make(data)).launch(a, b)
    ((handle, product, _, first, first_layout, second, second_layout, _, c, _, d, last, algorithm, _, size, _),) = said
    assert (handle, product, first_layout, second_layout, last, size) == (11, 12, 21, 22, 23, 256)
    assert (first, second, c, d) == (b.data_ptr(), a.data_ptr(), out.data_ptr(), out.data_ptr())
    assert algorithm


def test_products_are_read_off_tensors_as_they_lie() -> None:
    a, kn = whole(3, 8, 64), whole(64, 32)
    assert product_of(a, kn, None, None) == Product(m=24, n=32, k=64, layout="kn")
    assert product_of(a, whole(32, 64).t(), whole(32), "gelu") == Product(
        m=24, n=32, k=64, bias=True, activation="gelu"
    )
    assert product_of(a, whole(3, 64, 32), None, None) == Product(m=8, n=32, k=64, batch=3, layout="kn")
    for wrong in (whole(64, 64)[:, ::2], whole(64, 32).float(), whole(63, 32), whole(2, 64, 32), whole(64)):
        assert product_of(a, wrong, None, None) is None
    assert product_of(a.transpose(1, 2), whole(8, 32), None, None) is None
    assert product_of(a, kn, whole(33), None) is None


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "gelu_tanh", "silu"])
def test_on_the_processor_torch_multiplies(activation: Any) -> None:
    a, b, bias = torch.randn(5, 7), torch.randn(7, 3), torch.randn(3)
    wanted = matmuls.ACTIVATIONS[activation](a.double() @ b.double() + bias.double())
    assert torch.allclose(kernelwright.matmul(a, b, bias, activation).double(), wanted, atol=1e-5)
    assert torch.equal(kernelwright.matmul(a, b), a @ b)
    with pytest.raises(ValueError, match="tanh"):
        kernelwright.matmul(a, b, activation="tanh")  # type: ignore[arg-type]


def test_it_stands_in_compiled_graphs() -> None:
    made = torch.compile(lambda a, b: kernelwright.matmul(a, b, None, "relu"), fullgraph=True, backend="eager")
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    assert torch.equal(made(a, b), torch.relu(a @ b))


def test_isolated_calls_are_timed_one_by_one() -> None:
    p = Product(m=16, n=16, k=64)
    fields = [{name: getattr(r, name) for name in r.__dataclass_fields__} for r in (row(p, VENDOR),)]
    times = serving.measure(
        lambda event: None, product={"m": 16, "n": 16, "k": 64}, rows=fields, first={}, rounds=3, device="cpu"
    )
    assert set(times) == {"ours_nk", "torch_nk"}
    assert min(times.values()) > 0
    assert problem_of(p).flops == 2 * 16 * 16 * 64
