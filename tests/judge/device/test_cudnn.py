"""cuDNN's convolutions with a library of the test's own: descriptors are checked, engines convolve by torch."""

from __future__ import annotations

import ctypes
import types
from typing import Any

import pytest
import torch

from kernelwright.errors import KernelwrightError
from kernelwright.judge.device import cudnn, library
from kernelwright.judge.device.cudnn import Cudnn, Engine, fastest, usable
from kernelwright.judge.device.faults import DeviceFault
from kernelwright.types import Binding, Step

REFUSED, OK = 3000, 0
SIZES = {0: 8, 6: 8, 15: 8, 3: 8, 4: 4}


class Library4Tests:
    """The backend API as cudnn.py uses it.

    Args:
        ranked: for each mode, engines as (workspace bytes, notes, whether its plan can be made, whether it runs).
    """

    def __init__(self, ranked: dict[int, list[tuple[int, list[int], bool, bool]]]) -> None:
        self.ranked = ranked
        self.nodes: dict[int, dict[Any, Any]] = {}
        self.alive: set[int] = set()
        self.executed: list[int] = []

    def cudnnCreate(self, handle: Any) -> int:  # noqa: N802
        handle._obj.value = 7
        return OK

    def cudnnSetStream(self, handle: Any, stream: Any) -> int:  # noqa: N802
        assert handle.value == 7
        assert stream.value in (None, 0)
        return OK

    def cudnnBackendCreateDescriptor(self, kind: int, made: Any) -> int:  # noqa: N802
        number = 1000 + len(self.nodes)
        self.nodes[number] = {"kind": kind, "done": False}
        self.alive.add(number)
        made._obj.value = number
        return OK

    def cudnnBackendDestroyDescriptor(self, descriptor: Any) -> int:  # noqa: N802
        self.alive.remove(descriptor.value)
        return OK

    def cudnnBackendSetAttribute(self, of: Any, name: int, form: int, count: Any, values: Any) -> int:  # noqa: N802
        assert count.value == len(values)
        assert ctypes.sizeof(values) == count.value * SIZES.get(form, 4)
        assert of.value in self.alive
        self.nodes[of.value][name] = list(values)
        return OK

    def cudnnBackendFinalize(self, of: Any) -> int:  # noqa: N802
        node = self.nodes[of.value]
        if node["kind"] == cudnn.PLAN and not self.nodes[node[401][0]]["engine"][2]:
            return REFUSED
        if node["kind"] == cudnn.HEURISTIC and node[200][0] not in self.ranked:
            return REFUSED
        node["done"] = True
        return OK

    def cudnnBackendGetAttribute(self, of: Any, name: int, form: int, count: Any, found: Any, values: Any) -> int:  # noqa: N802
        node = self.nodes[of.value]
        if name == 202:
            engines = self.ranked[node[200][0]]
            for place, engine in enumerate(engines):
                self.nodes[values[place]] |= {"engine": engine, "graph": node[201][0]}
            found._obj.value = len(engines)
        elif name == 300:
            self.nodes[values[0]]["engine"] = node["engine"]
            found._obj.value = 1
        elif name == 1303:
            for place, note in enumerate(node["engine"][1]):
                values[place] = note
            found._obj.value = len(node["engine"][1])
        else:
            assert (name, form, count.value) == (402, 3, 1)
            values[0] = self.nodes[node[401][0]]["engine"][0]
            found._obj.value = 1
        return OK

    def cudnnBackendExecute(self, handle: Any, plan: Any, pack: Any) -> int:  # noqa: N802
        """Reads everything back from the descriptors, as the library would."""
        del handle
        assert self.nodes[plan.value]["done"]
        assert self.nodes[pack.value][1000] == [1, 2, 3]
        assert plan.value in self.alive
        configuration = self.nodes[self.nodes[plan.value][401][0]]
        if not configuration["engine"][3]:
            return REFUSED
        operation = self.nodes[self.nodes[configuration["graph"]][801][0]]
        specs = [self.nodes[operation[name][0]] for name in (704, 703, 705)]
        assert [spec[906][0] for spec in specs] == [1, 2, 3]
        window = self.nodes[operation[702][0]]
        assert (window[101], window[105]) == ([1], window[104])
        x, weight, out = (
            torch.frombuffer((ctypes.c_float * self._count(spec)).from_address(address), dtype=torch.float32)
            .as_strided(spec[902], spec[903])
            for spec, address in zip(specs, self.nodes[pack.value][1001], strict=True)
        )  # fmt: skip
        convolve = torch.nn.functional.conv2d if len(window[103]) == 2 else torch.nn.functional.conv3d
        groups = x.shape[1] // weight.shape[1]
        out.copy_(convolve(x, weight, None, window[103], window[104], window[102], groups))
        self.executed.append(plan.value)
        return OK

    @staticmethod
    def _count(spec: dict[Any, Any]) -> int:
        return 1 + sum((int(n) - 1) * int(s) for n, s in zip(spec[902], spec[903], strict=True))


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: types.SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(cudnn, "_chosen", {})


WINDOWS = {"stride": "2x1", "padding": "1x0", "dilation": "1x2"}


def operands() -> list[torch.Tensor]:
    torch.manual_seed(0)
    out = torch.full((2, 6, 5, 7), float("nan"))
    return [torch.randn(2, 4, 9, 11), torch.randn(6, 2, 3, 3), out, torch.zeros(4096, dtype=torch.uint8)]


def test_the_fastest_engine_that_fits_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one that is too large, in TF32, cannot be made, or fails when it is called; of two others the quicker."""
    ranked = {
        3: [
            (9999, [], True, True),
            (0, [0], True, True),
            (0, [], False, True),
            (0, [], True, False),
            (64, [], True, True),
        ],
        2: [(4096, [9], True, True)],
    }
    fake = Library4Tests(ranked)
    made = Cudnn(fake)
    monkeypatch.setattr(cudnn, "on_device", lambda ordinal: made)
    asked: list[int] = []

    def time_us(library: Cudnn, engine: Engine, tensors: list[torch.Tensor]) -> float:
        library.run(engine, tensors)
        asked.append(engine.workspace_bytes)
        return 9.0 if engine.workspace_bytes == 64 else 3.0

    monkeypatch.setattr(cudnn, "time_us", time_us)
    tensors = operands()
    call = cudnn.prepared(tensors, WINDOWS)
    assert asked == [64, 4096]
    assert bool(tensors[2].isnan().all()), "measuring wrote to the output"
    call()
    truth = torch.nn.functional.conv2d(
        tensors[0].double(), tensors[1].double(), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2
    )
    torch.testing.assert_close(tensors[2].double(), truth, rtol=1e-5, atol=1e-5)
    plans = [number for number in fake.alive if fake.nodes[number]["kind"] == cudnn.PLAN]
    assert plans == [fake.executed[-1]], "only the chosen plan is kept"
    assert not [number for number in fake.alive if fake.nodes[number]["kind"] == cudnn.VARIANT]
    cudnn.prepared(tensors, WINDOWS)
    assert asked == [64, 4096], "another slot is not measured again"


def test_images_of_three_dimensions() -> None:
    fake = Library4Tests({2: [(0, [], True, True)]})
    made = Cudnn(fake)
    x, weight, out = torch.randn(1, 2, 4, 5, 6), torch.randn(3, 2, 2, 2, 2), torch.empty(1, 3, 3, 4, 5)
    shapes = [tuple(tensor.shape) for tensor in (x, weight, out)]
    (engine,) = made.engines(shapes, 0, [[1, 1, 1], [0, 0, 0], [1, 1, 1]])
    made.run(engine, [x, weight, out, torch.zeros(1, dtype=torch.uint8)])
    torch.testing.assert_close(out, torch.nn.functional.conv3d(x, weight))


def test_without_an_engine_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn, "on_device", lambda ordinal: Cudnn(Library4Tests({3: [(1 << 20, [], True, True)]})))
    with pytest.raises(KernelwrightError, match=r"no engine .* fits into the plan's workspace"):
        cudnn.prepared(operands(), WINDOWS)


def test_nothing_is_measured_inside_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn, "on_device", lambda ordinal: Cudnn(Library4Tests({})))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(KernelwrightError, match="inside a capture"):
        cudnn.prepared(operands(), WINDOWS)


def test_tf32_and_what_varies_are_left_out() -> None:
    kinds = {name: Engine(1, 0, frozenset(notes)) for name, notes in (
        ("exact", []), ("tensor cores", [0]), ("less", [1]), ("short sums", [2]), ("varies", [4]), ("winograd", [5, 7]),
        ("strict", [9]),
    )}  # fmt: skip

    def left(exact: bool) -> list[str]:
        kept = list(usable(kinds.values(), room_bytes=0, exact=exact))
        return [name for name, engine in kinds.items() if any(engine is one for one in kept)]

    assert left(exact=True) == ["exact", "strict"]
    assert left(exact=False) == ["exact", "tensor cores", "strict"]


def test_only_the_first_engines_are_measured() -> None:
    asked: list[int] = []

    def time_us(engine: Engine) -> float:
        asked.append(engine.plan)
        return -float(engine.plan)

    every = [Engine(number, 0, frozenset()) for number in range(99)]
    assert fastest(every, time_us).plan == cudnn.MOST_MEASURED - 1
    assert len(asked) == cudnn.MOST_MEASURED


def test_on_a_cpu_a_tuned_convolution_is_tried_unmeasured() -> None:
    x, weight, out, work = operands()
    names = ("x", "weight", "out", "work")
    bound = tuple(Binding(kind="workspace" if n == "work" else "tensor", name=n, ctype="float") for n in names)
    step = Step(symbol="tuned_convolution", kind="library", arguments=bound, options=(*WINDOWS.items(), ("groups", 2)))
    library.call_of(step, {"x": x, "weight": weight, "out": out, "work": work})()
    truth = torch.nn.functional.conv2d(x.double(), weight.double(), None, (2, 1), (1, 0), (1, 2), 2)
    torch.testing.assert_close(out.double(), truth, rtol=1e-5, atol=1e-5)
    with pytest.raises(DeviceFault):
        library.call_of(step, {"x": x, "weight": weight[:, :1], "out": out, "work": work})()
