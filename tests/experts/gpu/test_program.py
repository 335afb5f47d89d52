"""Whole graphs as plans for a GPU: run on the CPU by emulation against float64 with the judge's rule, and compiled."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from tests.experts.candidates import Traced, _moved, assert_as_accurate
from tests.experts.gpu.emulated_programs import Program, build
from tests.experts.test_program import Block, Nothing
from torch import nn
from torch.nn import functional as F  # noqa: N812

from kernelwright import experts
from kernelwright.experts.gpu import program
from kernelwright.graph import Graph
from kernelwright.languages.builder import Builder
from kernelwright.languages.device_plan import check_device_plan
from kernelwright.types import (
    Artifact,
    Binding,
    Candidate,
    Launch,
    LaunchPlan,
    OptionValue,
    Problem,
    Refusal,
    SourceFile,
    Space,
    Step,
    Target,
    Template,
    digest,
)

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")


def target(architecture: str = "sm_90a") -> Target:
    return Target(kind="cuda", architecture=architecture, features=(), threads=1, toolchain=())


def templates(case: Traced) -> dict[str, Template]:
    answer = program.propose(case.problem, case.graph, target())
    assert isinstance(answer, tuple), answer
    return {template.name: template for template in answer}


def emitted(template: Template, **chosen: OptionValue) -> Candidate:
    """The candidate of the default point with some choices changed, each of which must be one."""
    assert chosen.keys() <= {p.name for p in template.space.parameters}
    assert all(chosen.get(p.name, p.values[0]) in p.values for p in template.space.parameters)
    made = template.emit(tuple((p.name, chosen.get(p.name, p.values[0])) for p in template.space.parameters))
    assert isinstance(made, Candidate), made
    return made


def check(built: Program, case: Traced, *more: tuple[torch.Tensor, ...]) -> None:
    """Holds the outputs to the judge's rule, and to each other in another order of threads."""
    for number, inputs in enumerate((case.inputs, *more)):
        own, truth = case.run(*inputs), case.truth(*inputs)
        moved = _moved(case, inputs, truth)
        got = built((*inputs, *case.state.values()), order=number)
        for mine, theirs, exact, change in zip(got, own, truth, moved, strict=True):
            assert_as_accurate(mine, theirs, exact, change)


@pytest.mark.parametrize("chosen", [{"multiply": "fma", "tile": "64x64"}, {"products": "library"}])
def test_layers_norms_and_batches(chosen: dict[str, OptionValue], tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = Traced(Block(), torch.randn(21, 40), torch.randn(3, 5, 33))
    made = emitted(templates(case)["cuda-program"], **chosen)
    assert any(step.kind == "library" for step in made.plan.steps) == ("products" in chosen)
    check(build(case.problem, made, tmp_path), case)


class Images(nn.Module):
    """Channels shuffled before a strided convolution in groups; a transposed one of several rows of weights behind."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(16, 36, 3, padding=1, stride=2, groups=2), nn.BatchNorm2d(36)
        self.back = nn.ConvTranspose2d(36, 20, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.view(2, 4, 4, 6, 7).transpose(1, 2).reshape(2, 16, 6, 7)
        y: torch.Tensor = torch.tanh(self.back(F.relu(self.norm(self.conv(x)))) * 0.5)
        return y


@pytest.mark.parametrize(
    "chosen", [{"tile": "32x64", "depth": 16}, {"products": "library"}, {"products": "tuned library"}]
)
def test_convolutions_of_several_images(chosen: dict[str, OptionValue], tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = Traced(Images(), torch.randn(2, 16, 6, 7))
    made = emitted(templates(case)["cuda-program"], **chosen)
    called = [step.symbol for step in made.plan.steps if step.kind == "library"]
    # cuDNN's engines are asked for a convolution; the transposed one stays PyTorch's call.
    wanted = {"library": ["convolution"] * 2, "tuned library": ["tuned_convolution", "convolution"]}
    assert called == wanted.get(str(chosen.get("products")), [])
    assert check_device_plan(case.problem, made, target()) is None
    check(build(case.problem, made, tmp_path), case)


def long_sums() -> tuple[Traced, tuple[torch.Tensor, torch.Tensor]]:
    """Sums that grids share, of operands of any layout; and with infinities, NaN and whole numbers among them."""
    torch.manual_seed(0)
    a, b = torch.randn(20, 264), torch.randn(264, 35)
    odd, whole = a.clone(), b.round()
    odd[0, 0], odd[5, 7], odd[19, 3] = float("inf"), float("nan"), float("-inf")
    return Traced(lambda x, y: torch.relu(x @ y.T) + 1.0, a, b.T.contiguous()), (odd, whole.T.contiguous())


def test_shared_sums_and_what_is_not_finite(tmp_path: Path) -> None:
    """Parts of an infinity would make NaN of it: such sums are made again as the reference has them."""
    case, odd = long_sums()
    made = emitted(templates(case)["cuda-program"], tile="32x64", depth=16)
    assert [step.symbol for step in made.plan.steps] == ["kw_0", "kw_0_add"]
    check(build(case.problem, made, tmp_path), case, odd)


def test_six_products_of_parts_are_as_exact_as_float32_and_three_are_not(tmp_path: Path) -> None:
    case, _ = long_sums()
    template, errors = templates(case)["cuda-program"], {}
    for multiply in ("six", "three"):
        made = emitted(template, multiply=multiply, tile="32x64", share=False)
        (got,) = build(case.problem, made, tmp_path / multiply)(case.inputs)
        (exact,), (own,) = case.truth(), case.run()
        errors[multiply] = float((got.double() - exact).square().mean().sqrt())
        errors["own"] = float((own.double() - exact).square().mean().sqrt())
    assert errors["six"] < 2 * errors["own"]
    assert errors["three"] > 8 * errors["own"]


def test_a_guarded_rewrite_decides_on_the_device(tmp_path: Path) -> None:
    """The flag that its look sets decides whether the program as it was written runs: nothing asks the host."""
    torch.manual_seed(0)
    case = Traced(Nothing(), torch.randn(40, 100))
    made = emitted(templates(case)["cuda-guarded rewrite"])
    assert made.plan.steps[0].kind == "memset"
    assert made.rewrites
    assert made.independent
    odd = case.inputs[0].clone()
    odd[3, 5], odd[7, 0] = float("inf"), float("nan")
    check(build(case.problem, made, tmp_path), case, (odd,))


class Half(nn.Module):
    """Two layers in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(72, 64), nn.Linear(64, 48)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.b(F.relu(self.a(x)))
        return result


def test_half_precision(tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = Traced(Half(), torch.randn(33, 72).bfloat16())
    made = emitted(templates(case)["cuda-program"], tile="64x64")
    with torch.no_grad():
        exact = case.module.double()(case.inputs[0].double())
    (got,) = build(case.problem, made, tmp_path)((*case.inputs, *case.state.values()))
    assert float((got.double() - exact).abs().max()) < 2.0**-7 * float(exact.abs().max())


def test_equal_layers_share_their_kernels() -> None:
    layers = [layer for _ in range(3) for layer in (nn.Linear(32, 32), nn.ReLU())]
    case = Traced(nn.Sequential(*layers), torch.randn(24, 32))
    made = emitted(templates(case)["cuda-program"])
    assert len(made.plan.steps) == 3
    assert made.plan.steps[1].symbol == made.plan.steps[2].symbol == made.plan.steps[0].symbol
    assert made.sources[0].text.count("__global__") == 1


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compiles_without_spills(architecture: str) -> None:
    """Products of parts on every architecture; on Hopper the generated kernels of half types as well."""
    torch.manual_seed(0)
    case = Traced(lambda a, b: torch.relu(a @ b), torch.randn(256, 512), torch.randn(512, 384))
    jobs = [(case, emitted(templates(case)["cuda-program"], tile="128x128", share=False))]
    if architecture == "sm_90a":
        half = Traced(Half(), torch.randn(33, 72).bfloat16())
        halves = templates(half)["cuda-program"]
        jobs += [(half, emitted(halves, products=maker)) for maker in ("generated 2", "library")]
    with Builder(target(architecture), workers=1) as builder:
        for traced, made in jobs:
            (outcome,) = builder.build(traced.problem, [made])
            assert isinstance(outcome, Artifact), f"{made.point}: {outcome}"
            assert all(kernel.spill_bytes == 0 for kernel in outcome.resources), outcome.resources


def test_dtypes_without_tensor_cores_are_refused_by_name() -> None:
    case = Traced(lambda a, b: a @ b, torch.randn(8, 8).double(), torch.randn(8, 8).double())
    answer = program.propose(case.problem, case.graph, target())
    assert isinstance(answer, Refusal)
    assert "float64" in answer.reason


SORTING = """
extern "C" __global__ void __launch_bounds__(32) order(const float* __restrict__ rows, float* __restrict__ sorted) {
    float held[9];
    for (int i = 0; i < 9; ++i) {
        const float x = rows[threadIdx.x * 9 + i];
        int at = i;
        for (; at > 0 && held[at - 1] > x; --at) held[at] = held[at - 1];
        held[at] = x;
    }
    for (int i = 0; i < 9; ++i) sorted[threadIdx.x * 9 + i] = held[i];
}
"""


class Sorting:
    """An expert for one operator that no loop nest can do."""

    @staticmethod
    def propose(problem: Problem, graph: Graph, target: Target) -> Template | None:
        del target
        if [node.op for node in graph.nodes] != ["aten.sort.default"]:
            return None
        bound = tuple(Binding(kind="tensor", name=s.name, ctype="float") for s in problem.arguments)
        source = SORTING.replace("rows", problem.inputs[0].name).replace("sorted", problem.outputs[0].name)
        step = Step(symbol="order", arguments=bound, launch=Launch(grid=(1, 1, 1), block=(32, 1, 1)))
        made = Candidate(
            problem=digest(problem), language="cuda", sources=(SourceFile(path="order.cu", text=source),),
            plan=LaunchPlan(steps=(step,)),
        )  # fmt: skip
        return Template(name="sorting", space=Space(parameters=()), emit=lambda _: made)


def test_operators_without_a_reader_go_to_the_other_experts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    case = Traced(lambda x, w: torch.sort(x @ w).values * 2.0 + 1.0, torch.randn(32, 24), torch.randn(24, 9))
    refused = program.propose(case.problem, case.graph, target())
    assert isinstance(refused, Refusal)
    assert refused.subject == "aten.sort.default"
    program.foreign_candidate.cache_clear()
    monkeypatch.setitem(sys.modules, "kernelwright.experts.sorting", Sorting)
    monkeypatch.setitem(experts.EXPERTS, "cuda", (*experts.EXPERTS["cuda"], "sorting"))
    made = emitted(templates(case)["cuda-program"])
    assert [step.symbol for step in made.plan.steps] == ["kw_0", "kw_1_order", "kw_2"]
    check(build(case.problem, made, tmp_path), case)
    program.foreign_candidate.cache_clear()
