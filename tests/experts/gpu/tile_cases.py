"""What the tests of both tile experts share: which cases, at which points, and how they are judged.

The cases are those of the CPU's loop expert that differ in shape of kernel (flat, rows, columns), kind of fold or
scan, number of passes, or type; most of the rest are sums of these. Every case with a fold or scan runs at its default
point on plain values, and at another, with short chunks so that loops take several turns, on NaN, infinities and equal
values; cases without folds run at their default point on the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tests.experts.gpu.interpreted_tiles import run
from tests.experts.graphs import TARGET, Traced, traced
from tests.experts.test_loops import CASES, FINITE_ONLY, assert_close, normal, spoiled
from tests.experts.test_loops import ROWS as ROW_COUNT

from kernelwright.experts.protocol import Expert
from kernelwright.languages.builder import Builder
from kernelwright.types import Artifact, Candidate, KernelResources, Point, Target, Template

FLAT = ("gelu_bias", "activations", "rotary_odd", "triangles", "powers", "integers", "compared",
        "rounded", "mixed_types", "bytes", "table", "gather", "index", "joined_rows", "repeated", "scalar",
        "halves_joined", "gelu_bf16")  # fmt: skip
ROWS = ("softmax", "softmax_short", "softmax_float64", "masked_softmax", "cross_entropy", "layer_norm_half",
        "residual_rms_norm", "group_norm", "batch_norm", "cumsum", "cumsum_whole", "cumprod", "softmax_cumsum",
        "argmax", "argmax_all", "max_with_places", "many", "product", "padded_softmax", "causal", "total_prime",
        "mse")  # fmt: skip
COLUMNS = ("softmax_middle", "softmax_transposed", "cumsum_rows", "argmin_rows", "min_rows", "mean_and_var_rows",
           "sum_both_ends")  # fmt: skip
FEW_ROWS = 14
CHOSEN = FLAT + ROWS + COLUMNS
SHORT = {"block": 256, "chunk": 1024, "rows": 2, "lanes": 32, "stages": 2, "occupancy": 2, "warps": 4}
"""Another point than the default, where a parameter has no smaller value that matters."""
COMPILED = ("gelu_bias", "rotary_odd", "softmax", "layer_norm_half", "softmax_transposed", "cumsum", "argmax",
            "mean_and_var_rows", "many", "gather", "powers")  # fmt: skip


class Ran(NamedTuple):
    """One candidate's outputs, or what went wrong, with what they are compared with."""

    case: Traced
    arguments: list[torch.Tensor]
    outcome: list[torch.Tensor] | str


def small_case(name: str) -> Traced:
    """Returns a case with few rows: what an interpreter does takes as long for every block, and two rows of every
    special value are enough."""
    function, inputs = CASES[name]
    return traced(function, *(x[:FEW_ROWS] if x.dim() and x.shape[0] == ROW_COUNT else x for x in inputs))


def template_of(expert: Expert, case: Traced) -> Template:
    answer = expert.propose(case.problem, case.graph, TARGET)
    assert isinstance(answer, Template), answer
    return answer


def short_point(template: Template) -> Point:
    """Returns a point with small tiles, where every loop takes several turns."""
    return tuple((p.name, SHORT.get(p.name, p.values[-1])) for p in template.space.parameters)


def emitted(template: Template, point: Point) -> Candidate:
    candidate = template.emit(point)
    assert isinstance(candidate, Candidate), candidate
    return candidate


def run_cases(expert: Expert, language: str, names: tuple[str, ...], folder: Path) -> dict[str, list[Ran]]:
    """Returns what every case gives: plain values at the default point, special ones at another."""
    jobs, ran = [], []
    for name in names:
        case = small_case(name)
        template = template_of(expert, case)
        count = len(case.problem.inputs)
        special = [spoiled(x, n) if n < count else x for n, x in enumerate(case.arguments)]
        given = case.arguments if name in FINITE_ONLY else special
        usual, short = (template.space.default(), case.arguments), (short_point(template), given)
        for point, arguments in [(usual[0], given)] if name in FLAT else [usual, short]:
            jobs.append((case.problem, emitted(template, point), arguments))
            ran.append((name, case, arguments))
    found: dict[str, list[Ran]] = {}
    for (name, case, arguments), outcome in zip(ran, run(language, jobs, folder), strict=True):
        found.setdefault(name, []).append(Ran(case, arguments, outcome))
    return found


def check(ran: list[Ran]) -> None:
    """Compares what a case gave with PyTorch in float64."""
    for case, arguments, outcome in ran:
        assert not isinstance(outcome, str), outcome
        truth, own = case.call(torch.float64, arguments), case.call(None, arguments)
        for g, t, r in zip(outcome, truth, own, strict=True):
            assert_close(g, t, r)


def compiled(expert: Expert, names: tuple[str, ...], architecture: str) -> dict[str, tuple[KernelResources, ...]]:
    """Returns what the kernels of each case need at the default point, built in the jail as a user's would be."""
    target = Target(kind="cuda", architecture=architecture, features=(), threads=2, toolchain=())
    found = {}
    with Builder(target, workers=1) as builder:
        for name in names:
            function, inputs = CASES[name]
            case = traced(function, *inputs)
            template = template_of(expert, case)
            (outcome,) = builder.build(case.problem, [emitted(template, template.space.default())])
            assert isinstance(outcome, Artifact), f"{name}: {outcome}"
            found[name] = outcome.resources
    return found


def without_effect(expert: Expert) -> set[str]:
    """Returns the parameters that change no kernel and no launch: of long rows, of short rows, of columns."""
    idle: set[str] = set()
    moving: set[str] = set()
    for function, shape in (
        (lambda x: x.softmax(-1), (8, 3000)), (lambda x: x.softmax(-1), (3000, 7)), (lambda x: x.sum(0), (256, 256)),
    ):  # fmt: skip
        template = template_of(expert, traced(function, normal(*shape)))
        usual = made(template, template.space.default())
        for parameter in template.space.parameters:
            changed = any(made(template, at(template, parameter.name, v)) != usual for v in parameter.values[1:])
            (moving if changed else idle).add(parameter.name)
    return idle - moving


def at(template: Template, name: str, value: Any) -> Point:
    """Returns the default point with one other value."""
    return tuple((k, value if k == name else v) for k, v in template.space.default())


def made(template: Template, point: Point) -> tuple[Any, ...]:
    """Returns what a point decides, without the comment that repeats it; emission is checked on the way."""
    candidate = emitted(template, point)
    assert candidate == emitted(template, point)
    assert candidate.point == point
    return candidate.sources[0].text.splitlines()[2:], candidate.plan


def refusal(expert: Expert, function: Callable[..., Any], *inputs: torch.Tensor) -> str:
    """Returns why a reference is refused."""
    case = traced(function, *inputs)
    answer = expert.propose(case.problem, case.graph, TARGET)
    assert not isinstance(answer, Template)
    assert answer is not None
    assert not isinstance(answer, tuple)
    return answer.reason
