"""Whole programs through the rewrites: what is found, what it costs, and that it is equal."""

from __future__ import annotations

import pytest
import torch
from tests.experts.candidates import TARGET, Traced
from tests.rewrites.interpreter import run
from torch import nn
from torch.nn import functional as F  # noqa: N812

from kernelwright.graph import ResultSpec
from kernelwright.rewrites import Rewritten, extract, rewritten
from kernelwright.rewrites.cost import rates_of
from kernelwright.rewrites.egraph import EGraph, ENode, Id
from kernelwright.types import replace


def versions(traced: Traced) -> tuple[Rewritten, ...]:
    return rewritten(traced.problem, traced.graph, TARGET)


def best(traced: Traced) -> Rewritten:
    found = versions(traced)[-1]
    tensors = {s.name: t.double() for s, t in zip(traced.problem.inputs, traced.inputs, strict=True)}
    tensors |= {name: t.double() for name, t in traced.state.items()}
    for mine, truth in zip(run(found.graph, tensors), traced.truth(*traced.inputs), strict=True):
        torch.testing.assert_close(mine, truth, rtol=1e-9, atol=1e-9)
    return found


def ops(found: Rewritten) -> list[str]:
    return [node.op.split(".")[1] for node in found.graph.nodes]


def test_row_sums_of_a_layer_become_a_dot() -> None:
    found = best(Traced(Summed(nn.Linear(300, 500)), torch.randn(1000, 300)))
    assert found.finite
    assert found.rules
    assert found.cost_ns < found.before_ns / 5
    products = [n for n in found.graph.nodes if n.op.split(".")[1] in ("mm", "addmm")]
    assert all(n.results[0] is not None and n.results[0].shape == (1000, 1) for n in products)
    assert set(found.witnesses) <= {n.name for n in found.graph.nodes}


class Summed(nn.Module):
    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x).sum(1)
        return result


def test_a_chain_is_multiplied_from_its_thin_end() -> None:
    traced = Traced(lambda a, b, c: (a @ b) @ c, torch.randn(300, 400), torch.randn(400, 500), torch.randn(500, 2))
    found = best(traced)
    shapes = [n.results[0].shape for n in found.graph.nodes if n.results[0] is not None]
    assert shapes == [(400, 2), (300, 2)]


def test_an_answer_without_its_inputs_is_said_to_be_one() -> None:
    def nothing(x: torch.Tensor) -> torch.Tensor:
        most = x.amax(1, keepdim=True)
        return F.gelu(most - most.mean(1, keepdim=True))

    found = best(Traced(nothing, torch.randn(2000, 500)))
    assert found.independent == ("x0",)
    assert found.witnesses == ("x0",)
    assert ops(found) == ["full"]


def test_equal_work_is_shared_and_neutral_work_dropped() -> None:
    def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).relu().clamp(0, 1) + (x @ w).clamp_min(0).clamp(0, 1) * 1.0

    found = best(Traced(twice, torch.randn(64, 64), torch.randn(64, 64)))
    assert not found.finite
    assert ops(found).count("mm") == 1
    assert ops(found).count("clamp") == 1


def test_batch_norm_is_folded_into_few_weights() -> None:
    found = best(Traced(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)), torch.randn(4, 3, 60, 60)))
    assert "_native_batch_norm_legit_no_training" not in ops(found)
    assert ops(found)[-1] == "convolution"


@pytest.mark.parametrize("function", [torch.exp, lambda x: x.softmax(-1), lambda x: x.cumsum(0)])
def test_programs_that_cannot_be_bettered_stay(function) -> None:  # type: ignore[no-untyped-def]
    assert versions(Traced(function, torch.randn(40, 30))) == ()


def test_costs_follow_the_target() -> None:
    slow, fast = replace(TARGET, threads=1), replace(TARGET, kind="cuda")
    assert rates_of(fast).flops_per_ns > 10 * rates_of(slow).flops_per_ns


def test_congruence_is_restored() -> None:
    graph = EGraph()
    spec = ResultSpec(shape=(2,), dtype="float64", strides=(1,))
    a, b = (graph.add(ENode("input", (("name", n),)), spec) for n in "ab")
    f, g = (graph.add(ENode("aten.neg.default", (("self", item),)), spec) for item in (a, b))
    assert graph.find(f) != graph.find(g)
    assert graph.union(a, b)
    graph.rebuild()
    assert graph.find(f) == graph.find(g)
    assert not graph.union(f, g)


def test_numbers_and_classes_are_told_apart() -> None:
    graph = EGraph()
    spec = ResultSpec(shape=(2,), dtype="float64", strides=(1,))
    made = [graph.add(ENode("aten.mul.Tensor", (("other", n),)), spec) for n in (1, 1.0, True, -0.0, 0.0)]
    made.append(graph.add(ENode("aten.mul.Tensor", (("other", Id(1)),)), spec))
    assert len(set(made)) == 6


def test_trials_that_are_left_out_could_not_have_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(
        lambda a, b, c: ((torch.relu((a @ b) * 0.5) @ c) / 2 - 1).sum(1) * 3,
        torch.randn(64, 40), torch.randn(40, 56), torch.randn(56, 48),
    )  # fmt: skip
    found = [r.cost_ns for r in versions(traced)]
    monkeypatch.setattr(extract, "_cannot_help", lambda *_: False)
    assert found
    assert [r.cost_ns for r in versions(traced)] == found
