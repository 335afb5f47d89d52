"""CUDA candidates of the loop expert: run on the CPU by emulation against PyTorch in float64, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.experts.gpu import tile_cases
from tests.experts.gpu.emulated import Job, build, run
from tests.experts.gpu.tile_cases import COMPILED
from tests.experts.graphs import TARGET, Traced, traced
from tests.experts.test_loops import CASES, FINITE_ONLY, assert_close, random_point, spoiled

from kernelwright.experts.gpu import cuda
from kernelwright.types import Candidate, Template

GROUP = 12
"""Cases in one source."""


@dataclass
class Built:
    """One compiled point of one case."""

    case: Traced
    job: Job
    library: Any

    def __call__(self, arguments: list[torch.Tensor] | None = None) -> list[torch.Tensor]:
        return run(self.library, self.job, arguments or self.case.arguments)


def template_of(case: Traced) -> Template:
    answer = cuda.propose(case.problem, case.graph, TARGET)
    assert isinstance(answer, Template), answer
    return answer


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Built]]:
    """Compiles the group of a case on first use: the default point, and another for every second case."""
    folder: Path = tmp_path_factory.mktemp("emulated")
    names = list(CASES)
    done: dict[str, list[Built]] = {}

    def get(name: str) -> list[Built]:
        if name not in done:
            start = names.index(name) // GROUP * GROUP
            entries = []
            for n in names[start : start + GROUP]:
                function, inputs = CASES[n]
                case = traced(function, *inputs)
                template = template_of(case)
                points = [template.space.default()]
                if names.index(n) % 2:
                    points.append(random_point(template.space, len(n)))
                for number, point in enumerate(points):
                    candidate = template.emit(point)
                    assert isinstance(candidate, Candidate), candidate
                    entries.append((n, Built(case, (f"{n}_{number}", case.problem, candidate), None)))
            library = build([e.job for _, e in entries], folder, f"group{start}", descending=bool(start // GROUP % 2))
            for n, entry in entries:
                entry.library = library
                done.setdefault(n, []).append(entry)
        return done[name]

    return get


@pytest.mark.parametrize("name", list(CASES))
def test_values(built: Callable[[str], list[Built]], name: str) -> None:
    for one in built(name):
        for g, t, r in zip(one(), one.case.call(torch.float64), one.case.call(None), strict=True):
            assert_close(g, t, r)


@pytest.mark.parametrize("name", [n for n in CASES if n not in FINITE_ONLY])
def test_special_values(built: Callable[[str], list[Built]], name: str) -> None:
    for one in built(name):
        count = len(one.case.problem.inputs)
        arguments = [spoiled(x, n) if n < count else x for n, x in enumerate(one.case.arguments)]
        truth, own = one.case.call(torch.float64, arguments), one.case.call(None, arguments)
        for g, t, r in zip(one(arguments), truth, own, strict=True):
            assert_close(g, t, r)


@pytest.mark.parametrize(
    ("architecture", "names"), [("sm_90a", COMPILED), ("sm_80", COMPILED[2:6]), ("sm_100", COMPILED[2:6])]
)
def test_compiles_without_spills(architecture: str, names: tuple[str, ...]) -> None:
    for name, resources in tile_cases.compiled(cuda, names, architecture).items():
        assert all(kernel.spill_bytes == 0 for kernel in resources), name
        assert all(kernel.registers > 0 for kernel in resources), name


def test_approximations_are_a_choice_where_the_hardware_has_some() -> None:
    spaces = {name: template_of(traced(CASES[name][0], *CASES[name][1])) for name in ("softmax", "layer_norm")}
    assert {n for n, t in spaces.items() if "math" in {p.name for p in t.space.parameters}} == {"softmax"}
    template = spaces["softmax"]
    for math, said in (("exact", False), ("fast", True)):
        made = template.emit(tuple((n, math if n == "math" else v) for n, v in template.space.default()))
        assert isinstance(made, Candidate)
        assert ("#define KW_FAST" in made.sources[0].text.split('#include "device.cuh"')[0]) is said
