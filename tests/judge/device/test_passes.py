"""The judge's own kernels, emulated on the CPU, do what torch does; tests/gpu/test_passes.py asks a device the same."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.judge.device import pass_checks
from tests.judge.device.own_passes import emulated, widths

from kernelwright.judge.device import driver, image, passes

CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def _in_use(own_library: ctypes.CDLL) -> Iterator[None]:
    with emulated(own_library):
        yield


def test_sealing_is_undone_by_sealing_again() -> None:
    pass_checks.check_sealing(CPU)


@pytest.mark.parametrize("dtype", pass_checks.FLOATS)
def test_outputs_are_compared_with_what_is_sealed(dtype: torch.dtype) -> None:
    pass_checks.check_comparison_with_sealed_truth(dtype, CPU)


def test_many_errors_that_are_small_each_are_too_much() -> None:
    pass_checks.check_a_root_mean_square_beyond_its_bound(CPU)


def test_two_outputs_are_held_against_two_patterns() -> None:
    pass_checks.check_pairs(CPU)


def test_sums_see_every_write_in_their_rows() -> None:
    pass_checks.check_sums(CPU)


@pytest.mark.parametrize("dtype", pass_checks.FLOATS)
def test_answers_are_as_near_as_two_right_ones(dtype: torch.dtype) -> None:
    pass_checks.check_agreement(dtype, CPU)


@pytest.mark.parametrize("dtype", pass_checks.FLOATS)
def test_contents_are_renewed_and_resemble_others(dtype: torch.dtype) -> None:
    pass_checks.check_renewed_contents(dtype, CPU)


def test_arguments_have_the_width_of_the_kernels_parameters() -> None:
    packed: dict[str, list[int]] = {}

    def launch(name: str, grid: Any, threads: int, shared: int, given: tuple[bytes, ...]) -> None:
        packed[name] = [len(data) for data in given]

    own = passes.Passes(launch, CPU, 4)
    x = torch.zeros(64)
    levels = (x.double(), x.double(), x.short())
    own.seal(x, 1)
    own.within(x, (x, 1), None, (x.long(), 0, x.double(), 0), levels, lowest=0, groups=1)
    own.pair(x, x)
    own.sums(x[None], (0,))
    own.agree(x, x, x.double(), lowest=0)
    own.renew(x[None], [0], [x], [0], [0.1], limits=(None, None), key=1)
    assert packed == widths()
    assert set(packed) == set(passes.NAMES)


def test_tensors_elsewhere_with_gaps_or_out_of_step_are_left_to_torch() -> None:
    x = torch.zeros(64)
    assert passes.of(x) is not None
    assert passes.of(x, x[1:]) is None
    assert passes.of(x[::2]) is None
    assert passes.of(x, torch.zeros(1, device="meta")) is None


@pytest.mark.parametrize("architecture", [80, 90, 100])
def test_all_own_kernels_compile_as_one_source(architecture: int) -> None:
    folder = Path(passes.__file__).parent
    source = "\n".join((folder / name).read_text() for name in ("own_kernels.cu", "own_passes.cu"))
    made = driver.compile_own(source, architecture)
    assert image.fault(made, architecture) is None
    assert all(name.encode() in made for name in passes.NAMES)
