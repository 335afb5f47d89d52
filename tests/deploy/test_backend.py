"""torch.compile with kernels: regions, envelopes, in-place decisions, training, explanations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import kernelwright
from kernelwright.deploy import Shadow, decisions, regions
from kernelwright.deploy import backend as backends
from kernelwright.deploy.operator import KNOWN, Operator
from kernelwright.deploy.regions import pattern_of, regions_of, replaced, trace
from kernelwright.types import replace

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
"""Inductor's own imports warn."""
QUIET = Shadow(first=0, every=0)


class Block(torch.nn.Module):
    """Two places where the kernel's original stands, in other spellings, and something between."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 64))
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = torch.nn.functional.relu(x * self.weight)
        out: torch.Tensor = self.linear((self.linear(first).mul(self.weight)).relu())
        return out


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """No other test's operators are known, and nothing that was compiled is used again."""
    before = list(KNOWN)
    KNOWN.clear()
    torch._dynamo.reset()
    yield
    KNOWN[:] = before


@pytest.fixture
def op(scale_bundle: Path) -> Operator:
    return kernelwright.load(scale_bundle, shadow=QUIET)


def eagerly(module: torch.fx.GraphModule, _: object) -> Any:
    """Stands for Inductor, whose compiler would take most of these tests' time."""
    return module.forward


def traced(function: Any, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
    with FakeTensorMode():
        return trace(function, [torch.empty(shape, dtype=dtype) for shape in shapes])


def test_regions_are_found_in_any_spelling_and_replaced(op: Operator) -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.relu((x * w).relu() * w) + 1

    module = traced(model, (16, 64), (64,))
    regions = regions_of(module, backends.patterns())
    assert [(r.name, r.reason) for r in regions] == [("scale_relu", "")] * 2
    x, w = torch.randn(16, 64), torch.randn(64)
    before = op.launched()
    assert torch.equal(replaced(module, regions)(x, w), model(x, w))
    assert op.launched() == before + 2


@pytest.mark.parametrize(
    ("shapes", "dtype", "words"),
    [
        (((16, 65), (65,)), torch.float32, "verified for"),
        (((5000, 64), (64,)), torch.float32, "from 1 to 4096"),
        (((16, 64), (64,)), torch.float64, "is float64, verified for float32"),
        (((16, 64), (16, 64)), torch.float32, "weight is"),
    ],
)
def test_a_near_miss_says_why(op: Operator, shapes: Any, dtype: torch.dtype, words: str) -> None:
    assert op.problem.name == "scale_relu"
    module = traced(lambda x, w: (x * w).relu(), *shapes, dtype=dtype)
    (region,) = regions_of(module, backends.patterns())
    assert words in region.reason


def test_what_escapes_or_changes_is_no_region(op: Operator) -> None:
    assert op.problem.name == "scale_relu"
    escapes = traced(lambda x, w: ((x * w).relu(), (x * w + 0).sum()), (16, 64), (64,))
    assert len(regions_of(escapes, backends.patterns())) == 1

    def inner_is_used(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = x * w
        return product.relu(), product

    assert regions_of(traced(inner_is_used, (16, 64), (64,)), backends.patterns()) == ()

    def changes(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        product = x * w
        x.add_(1)
        return product.relu()

    (region,) = regions_of(traced(changes, (16, 64), (64,)), backends.patterns())
    assert "in place" in region.reason


@pytest.mark.parametrize(
    "forward",
    [lambda x, w: (x + torch.tensor([1.0])) * w, lambda x, w: x.view(64, 8), lambda x, w: x],
    ids=["holds a tensor", "a view of its input", "nothing"],
)
def test_what_cannot_be_compared_safely_is_no_pattern(op: Operator, forward: Any, monkeypatch: Any) -> None:
    assert pattern_of(op) is not None
    monkeypatch.setattr(op.original, "forward", lambda *tensors: (forward(*tensors),))
    assert pattern_of(op) is None


def test_a_model_runs_with_kernels_in_it(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: eagerly)
    model, x = Block(), torch.randn(8, 64)
    with torch.no_grad():
        fast = kernelwright.accelerate(model, measure=False, fullgraph=True)
        before = op.launched()
        assert torch.allclose(fast(x), model(x), atol=1e-6)
        assert op.launched() == before + 2


def test_only_winners_stay(op: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: eagerly)
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    model, x = Block(), torch.randn(8, 64)
    for low, launches in ((1.5, 2), (0.9, 0)):
        torch._dynamo.reset()
        monkeypatch.setattr(backends, "ratio", lambda *_, low=low: (low, low + 0.1, low + 0.2))
        with torch.no_grad():
            fast = torch.compile(model, backend=backends.backend, options={"measure": "again"})
            fast(x)
            before = op.launched()
            assert torch.allclose(fast(x), model(x), atol=1e-6)
            assert op.launched() == before + launches


def test_what_was_measured_is_remembered(op: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: eagerly)
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    measured: list[int] = []

    def ratio(*_: object) -> tuple[float, float, float]:
        measured.append(1)
        return 1.5, 1.6, 1.7

    monkeypatch.setattr(backends, "ratio", ratio)
    decisions.DECIDED.clear()
    model = Block()
    for rows, count in ((8, 1), (8, 1), (16, 2)):  # another shape is another decision
        torch._dynamo.reset()
        with torch.no_grad():
            kernelwright.accelerate(model)(torch.randn(rows, 64))
        assert len(measured) == count
    assert [str(placed) for placed in decisions.DECIDED] == [
        f"{op.name} in place, 2 times: 1.60x (1.50 to 1.70): kept"
    ] * 3
    for file in tmp_path.rglob("*.json"):
        file.write_text("{")  # damaged: measured again
    torch._dynamo.reset()
    with torch.no_grad():
        kernelwright.accelerate(model)(torch.randn(8, 64))
    assert len(measured) == 3


def test_a_graph_that_does_not_compile_with_a_kernel_runs_without_it(
    op: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def picky(module: torch.fx.GraphModule, _: object) -> Any:
        if any("kernelwright" in str(node.target) for node in module.graph.nodes):
            raise RuntimeError("no such operator")
        return module.forward

    monkeypatch.setattr(backends, "inductor", lambda *_, **__: picky)
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    model, x = Block(), torch.randn(8, 64)
    with torch.no_grad():
        assert torch.allclose(kernelwright.accelerate(model)(x), model(x))
    assert "does not compile: no such operator" in decisions.DECIDED[-1].reason
    assert op.launched() == 0


@pytest.mark.parametrize("dynamic", [True, None])
def test_sizes_that_vary_are_inductors(op: Operator, monkeypatch: pytest.MonkeyPatch, dynamic: bool | None) -> None:
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: eagerly)
    model = Block()
    fast = torch.compile(model, backend=backends.backend, dynamic=dynamic, options={"measure": False})
    with torch.no_grad():
        for rows in (8, 12, 16, 12):
            x = torch.randn(rows, 64)
            assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert op.launched() == (0 if dynamic else 2)  # without a word from the user, the first size is a fixed one


def test_a_recurrent_module_that_breaks_the_graph_stays_right(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: eagerly)
    block, lstm = Block(), torch.nn.LSTM(64, 64, batch_first=True)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first = block(x)
            out: torch.Tensor = block(lstm(first[None])[0][0])
            return out

    model, x = Model(), torch.randn(8, 64)
    with torch.no_grad():
        assert torch.allclose(kernelwright.accelerate(model, measure=False)(x), model(x), atol=1e-6)
    assert op.launched() == 4


def test_results_that_lay_otherwise_are_replaced_where_nothing_needs_it(
    op: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def original(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (torch.relu(x.t() * w).contiguous(),)

    monkeypatch.setattr(op.original, "forward", original)
    monkeypatch.setattr(op, "problem", replace(op.problem, inputs=(replace(op.problem.inputs[0], shape=(64, 8)),)))
    pattern = pattern_of(op)
    assert pattern is not None
    assert "contiguous" not in str(pattern.graph)
    module = traced(lambda x, w: torch.relu(x.t() * w) @ w, (64, 16), (64,))
    returned = traced(lambda x, w: torch.relu(x.t() * w), (64, 16), (64,))
    viewed = traced(lambda x, w: torch.relu(x.t() * w).t().view(-1) + 1, (64, 16), (64,))
    reasons = []
    for each in (module, returned, viewed):
        monkeypatch.setattr(regions, "_outside", lambda region: "")
        reasons += [region.reason for region in regions_of(each, [pattern])]
    assert reasons[0] == ""
    assert all("not contiguous" in reason for reason in reasons[1:])
    assert len(reasons) == 3


def test_training_leaves_a_kernel_without_gradients_out(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: eagerly)
    model, x = Block(), torch.randn(8, 64)
    model(x).sum().backward()
    wanted = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    before = op.launched()
    kernelwright.accelerate(model, measure=False)(x).sum().backward()
    found = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(found) == len(wanted) == 3
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, wanted, strict=True))
    assert op.launched() == before


def test_the_ratio_is_that_of_the_times_with_its_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = [0.0]
    monkeypatch.setattr(backends, "time", SimpleNamespace(perf_counter=lambda: moment[0]))
    # Three calls before the rounds; a round is the least of five calls, so that one that is interrupted does not count.
    rounds = itertools.cycle([*(9.0, 0.010) * 2, 9.0, *(0.011,) * 5, *(0.012,) * 5])
    turns = itertools.chain(itertools.repeat(0.010, 3), rounds)

    def takes(seconds: Iterator[float]) -> Any:
        def run(x: torch.Tensor) -> torch.Tensor:
            moment[0] += next(seconds)
            return x

        return run

    low, middle, high = backends.ratio(takes(turns), takes(itertools.repeat(0.005)), [torch.zeros(1)])
    assert low == pytest.approx(2.0)
    assert middle == pytest.approx(2.2)
    assert high == pytest.approx(2.4)


def test_it_is_turned_off_by_the_variable(op: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "inductor", lambda *_, **__: eagerly)
    monkeypatch.setenv("KERNELWRIGHT_DISABLE", "1")
    model, x = Block(), torch.randn(8, 64)
    before = op.launched()
    with torch.no_grad():
        assert torch.allclose(kernelwright.accelerate(model, measure=False)(x), model(x))
    assert op.launched() == before


def test_inductor_compiles_what_is_left(op: Operator) -> None:
    """The one test with Inductor's own compiler: a graph with an operator in it, forward only."""

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * w) + 1

    x, w = torch.randn(8, 64), torch.randn(64)
    before = op.launched()
    assert torch.equal(kernelwright.accelerate(model, measure=False)(x, w), model(x, w))
    assert op.launched() == before + 1


def test_an_explanation_says_what_why_and_how_much(op: Operator, capsys: pytest.CaptureFixture[str]) -> None:
    assert op.problem.name == "scale_relu"
    model, x = Block(), torch.randn(8, 64)
    with torch.no_grad():
        found = kernelwright.explain(model, x)
    mine = [part for part in found.parts if part.name == "scale_relu"]
    assert len(mine) == 2
    assert all(part.speedup and not part.reason for part in mine)
    linear = next(part for part in found.parts if part.name == "aten.linear.default")
    assert linear.calls == 2
    assert "no loaded kernel" in linear.reason
    assert sum(part.share for part in found.parts) == pytest.approx(1.0)
    saved = sum(part.share * (1 - 1 / part.speedup) for part in mine if part.speedup)
    assert found.gain == pytest.approx(1 / (1 - saved), rel=1e-6)
    assert "expected gain of the whole" in capsys.readouterr().out
    big = kernelwright.explain(lambda x, w: torch.relu(x * w), torch.randn(5000, 64), torch.randn(64), show=False)
    assert any("verified for" in part.reason for part in big.parts)
    assert not found.searchable  # both regions have their kernel
    assert found.ceiling == pytest.approx(found.gain)
    (region,) = big.searchable
    assert region.name.startswith("mul_relu_")
    assert region.share == pytest.approx(1.0)
    half = kernelwright.explain(lambda x, w: torch.tanh(x * w) @ w, torch.randn(50, 64), torch.randn(64), show=False)
    (region,) = half.searchable
    assert half.ceiling == pytest.approx(1 / (1 - region.share))


def test_a_mode_is_for_what_stays_and_parameters_are_known(
    op: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    asked: list[tuple[str, bool]] = []
    static: list[list[bool]] = []

    def inductor(mode: str = "default", *, captures: bool = True) -> Any:
        asked.append((mode, captures))

        def compiled(module: torch.fx.GraphModule, _: Any) -> Any:
            places = module.graph.find_nodes(op="placeholder")
            kinds = [place.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") for place in places]
            static.append([kind is not None for kind in kinds])
            return module.forward

        return compiled

    monkeypatch.setattr(backends, "inductor", inductor)
    monkeypatch.setattr(backends, "ratio", lambda *_: (1.5, 1.6, 1.7))
    model, x = Block(), torch.randn(8, 64)
    torch._dynamo.reset()
    with torch.no_grad():
        fast = torch.compile(model, backend=backends.backend, mode="reduce-overhead")
        assert torch.allclose(fast(x), model(x), atol=1e-6)
    assert asked[1:] == [("reduce-overhead", False)] * 2  # without and with the kernel; on the CPU nothing is captured
    assert static[0] == static[1]
    assert sum(static[0]) == len(list(model.parameters()))
