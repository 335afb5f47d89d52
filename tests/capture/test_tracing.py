from __future__ import annotations

import contextlib
import signal

import pytest
import torch

from kernelwright.capture import tracing
from kernelwright.graph import Constant, DtypeArg, Ref


class Loop(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(100_000):
            x = torch.tanh(x) + 1
        return x


def test_a_long_loop_is_given_up_and_the_process_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    # The first export of a process imports for seconds.
    tracing.trace(torch.nn.ReLU(), (torch.ones(2),), inputs=["x"], state={})
    monkeypatch.setattr(tracing, "DEADLINE_S", 0.5)
    with pytest.raises(tracing.Untraceable, match=r"longer than 0\.5 s"):
        tracing.trace(Loop(), (torch.ones(2),), inputs=["x"], state={})
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    monkeypatch.setattr(tracing, "DEADLINE_S", 60.0)
    graph = tracing.trace(torch.nn.ReLU(), (torch.ones(2),), inputs=["x"], state={})
    assert [node.op for node in graph.nodes] == ["aten.relu.default"]


class Deaf(torch.nn.Module):
    """Loses what is raised in it first, as finalisers do."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with contextlib.suppress(BaseException):
            for _ in range(100_000):
                x = torch.tanh(x) + 1
        for _ in range(10_000):
            x = torch.tanh(x) + 1
        return x


def test_a_deadline_that_is_lost_once_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing.trace(torch.nn.ReLU(), (torch.ones(2),), inputs=["x"], state={})
    monkeypatch.setattr(tracing, "DEADLINE_S", 0.5)
    monkeypatch.setattr(tracing, "AGAIN_S", 0.5)
    with pytest.raises(tracing.Untraceable, match=r"longer than 0\.5 s"):
        tracing.trace(Deaf(), (torch.ones(2),), inputs=["x"], state={})
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


class Everything(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = x.to(torch.float64).topk(2, dim=1)
        pooled = torch.nn.functional.avg_pool2d(values.view(1, 1, 4, 2), 2)
        return pooled + torch.tensor([0.5, 1.5], dtype=torch.float64).view(2, 1), index


def test_arguments_have_names_defaults_and_types_of_their_own() -> None:
    graph = tracing.trace(Everything(), (torch.randn(4, 8),), inputs=["x"], state={})
    ops = {node.op: node for node in graph.nodes}
    cast, topk, pool = ops["aten._to_copy.default"], ops["aten.topk.default"], ops["aten.avg_pool2d.default"]
    assert cast.argument("dtype") == DtypeArg(name="float64")
    assert cast.argument("self") == Ref(name="x")
    assert topk.arguments == (
        ("self", Ref(name=cast.name)),
        ("k", 2),
        ("dim", 1),
        ("largest", True),
        ("sorted", True),
    )
    assert [(r.shape, r.dtype, r.strides) for r in topk.results if r] == [
        ((4, 2), "float64", (2, 1)),
        ((4, 2), "int64", (2, 1)),
    ]
    # One number for a window is written out, as is the -1 or the missing size of a view.
    assert pool.argument("kernel_size") == (2, 2)
    assert pool.argument("padding") == (0, 0)
    assert pool.argument("divisor_override") is None
    assert graph.outputs[1] == Ref(name=topk.name, index=1)
    (constant,) = graph.constants
    assert constant == Constant(name=constant.name, shape=(2,), dtype="float64", values=(0.5, 1.5))
    with pytest.raises(KeyError, match="has no argument 'window'"):
        pool.argument("window")
