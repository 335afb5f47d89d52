"""cuTile candidates of the loop expert: run by the interpreter against PyTorch in float64, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest
import torch
from tests.experts.gpu import tile_cases
from tests.experts.gpu.tile_cases import CHOSEN, COMPILED, Ran
from tests.experts.graphs import traced

from kernelwright.experts.gpu import cutile

CASES = (*CHOSEN, "trigonometry")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Ran]]:
    """Every chosen case at two points, all in one child process."""
    return tile_cases.run_cases(cutile, "cutile", CASES, tmp_path_factory.mktemp("cutile"))


@pytest.mark.parametrize("name", CASES)
def test_values(ran: dict[str, list[Ran]], name: str) -> None:
    tile_cases.check(ran[name])


@pytest.mark.parametrize(
    ("architecture", "names"),
    [("sm_90a", (*COMPILED, "trigonometry")), ("sm_80", COMPILED[2:3]), ("sm_100", COMPILED[2:3])],
)
def test_compiles_without_spills(architecture: str, names: tuple[str, ...]) -> None:
    for name, resources in tile_cases.compiled(cutile, names, architecture).items():
        assert all(kernel.spill_bytes == 0 for kernel in resources), name
        assert all(kernel.registers > 0 for kernel in resources), name


def test_every_parameter_matters() -> None:
    assert tile_cases.without_effect(cutile) == set()


@pytest.mark.parametrize(
    ("function", "dtype", "word"),
    [
        (lambda x: x @ x.T, torch.float32, "aten.mm.default"),
        (torch.erfc, torch.float32, "erfc"),
        (torch.erf, torch.float64, "erf in float64"),
        (lambda x: torch.fmod(x, 3.0), torch.float32, "fmod of floats"),
    ],
)
def test_refuses_by_name(function: Callable[..., Any], dtype: torch.dtype, word: str) -> None:
    assert word in tile_cases.refusal(cutile, function, torch.ones(7, 7, dtype=dtype))


def test_products_that_cancel_are_not_fused() -> None:
    """Their difference is of values that went through their bits: tileiras does not see products there."""
    case = traced(lambda a, b, c, d: a * b - c * d, *(torch.ones(4, 4) for _ in range(4)))
    template = tile_cases.template_of(cutile, case)
    text = tile_cases.emitted(template, template.space.default()).sources[0].text
    assert text.count("ct.bitcast(ct.bitcast(") == 2


def test_a_language_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nothing)
    assert tile_cases.refusal(cutile, lambda x: x + 1, torch.ones(4)) == "the package 'cuda-tile' is not installed"
