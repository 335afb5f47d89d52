"""LSTM and GRU: traced whole, opened into products and recurrences, run by emulation, compiled in clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced
from tests.experts.gpu.emulated_programs import build
from tests.experts.gpu.test_program import check, emitted, target
from torch import nn

from kernelwright.experts.gpu import program, recurrence
from kernelwright.languages.builder import Builder
from kernelwright.types import Artifact, Refusal, Template

STEPS = 36
"""More than are unrolled."""


class Both(nn.Module):
    """Two layers, both directions, first states given, all results used."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], *, bias: bool, batch_first: bool) -> None:
        super().__init__()
        self.network = kind(12, 16, 2, bias=bias, batch_first=batch_first, bidirectional=True)
        self.last = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        out, last = self.network(x, states if len(states) > 1 else states[0])
        return self.last(out), *(last if isinstance(last, tuple) else (last,))


class Last(nn.Module):
    """One layer and direction from zeros; only the last step is used."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.LSTM(12, 24, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out, _ = self.network(x)
        return torch.tanh(out[:, -1])


class Plain(nn.Module):
    """One layer, of which only the sequence is used."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], hidden: int) -> None:
        super().__init__()
        self.network = kind(8, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.network(x)[0]
        return out


def first(case: Traced, architecture: str) -> Template:
    answer = program.propose(case.problem, case.graph, target(architecture))
    assert isinstance(answer, tuple), answer
    return answer[0]


def states(count: int) -> Sequence[torch.Tensor]:
    return [0.5 * torch.randn(4, 3, 16) for _ in range(count)]


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_layers_in_both_directions(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    lstm = name == "lstm"
    module = Both(nn.LSTM if lstm else nn.GRU, bias=lstm, batch_first=not lstm)
    shape = (STEPS, 3, 12) if lstm else (3, STEPS, 12)
    case = Traced(module, torch.randn(*shape), *states(2 if lstm else 1))
    assert f"aten.{name}.input" in {node.op for node in case.graph.nodes}
    check(build(case.problem, emitted(first(case, "sm_80")), tmp_path), case)


def test_the_last_step_of_one_layer(tmp_path: Path) -> None:
    torch.manual_seed(1)
    case = Traced(Last(), torch.randn(5, STEPS, 12))
    check(build(case.problem, emitted(first(case, "sm_80")), tmp_path), case)


def test_short_sequences_are_unrolled() -> None:
    case = Traced(Plain(nn.GRU, 8), torch.randn(6, 2, 8))
    assert not any("gru" in node.op for node in case.graph.nodes)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_cluster_holds_the_weights_of_256_units_without_spills(kind: type[nn.LSTM] | type[nn.GRU]) -> None:
    case = Traced(Plain(kind, 256), torch.randn(STEPS, 2, 8))
    made = emitted(first(case, "sm_90a"))
    assert [s.launch.cluster for s in made.plan.steps if s.launch and "steps" in s.symbol] == [(8, 1, 1)]
    with Builder(target(), workers=1) as builder:
        (built,) = builder.build(case.problem, [made])
    assert isinstance(built, Artifact), built
    assert {kernel.spill_bytes for kernel in built.resources} == {0}


def test_what_no_registers_hold_is_refused() -> None:
    assert recurrence.splits(256, 4, clusters=True)[0] == "8x4"
    assert recurrence.splits(256, 4, clusters=False) == ()
    case = Traced(Plain(nn.LSTM, 2048), torch.randn(STEPS, 2, 8))
    answer = program.propose(case.problem, case.graph, target())
    assert isinstance(answer, Refusal)
    assert "no expert for kernelwright.lstm.default" in answer.text
