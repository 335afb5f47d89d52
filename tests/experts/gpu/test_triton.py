"""Triton candidates of the loop expert: run by the interpreter against PyTorch in float64, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest
import torch
from tests.experts.gpu import tile_cases
from tests.experts.gpu.tile_cases import CHOSEN, COMPILED, Ran
from tests.experts.graphs import traced

from kernelwright.experts.gpu import triton


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Ran]]:
    """Every chosen case at two points, all in one child process."""
    return tile_cases.run_cases(triton, "triton", CHOSEN, tmp_path_factory.mktemp("triton"))


@pytest.mark.parametrize("name", CHOSEN)
def test_values(ran: dict[str, list[Ran]], name: str) -> None:
    tile_cases.check(ran[name])


@pytest.mark.parametrize(
    ("architecture", "names"), [("sm_90a", COMPILED), ("sm_80", COMPILED[2:3]), ("sm_100", COMPILED[2:3])]
)
def test_compiles_without_spills(architecture: str, names: tuple[str, ...]) -> None:
    for name, resources in tile_cases.compiled(triton, names, architecture).items():
        assert all(kernel.spill_bytes == 0 for kernel in resources), name
        assert all(kernel.registers > 0 for kernel in resources), name


def test_every_parameter_matters() -> None:
    assert tile_cases.without_effect(triton) == set()


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda x: x @ x.T, "aten.mm.default"),
        (torch.sin, "sin without state"),
        (lambda x: x * torch.tensor([n / 7 for n in range(70)]), "literal tensors of 70 elements"),
    ],
)
def test_refuses_by_name(function: Callable[..., Any], word: str) -> None:
    assert word in tile_cases.refusal(triton, function, torch.ones(70, 70))


def test_products_that_cancel_are_not_fused() -> None:
    case = traced(lambda a, b, c, d: a * b - c * d, *(torch.ones(4, 4) for _ in range(4)))
    template = tile_cases.template_of(triton, case)
    assert tile_cases.emitted(template, template.space.default()).options == (("fp_fusion", False),)


def test_a_language_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    assert tile_cases.refusal(triton, lambda x: x + 1, torch.ones(4)) == "the package 'triton' is not installed"
