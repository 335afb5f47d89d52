"""The judge's own kernels on a device do what torch does there: the checks of tests/judge/device/test_passes.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.judge.device import pass_checks

from kernelwright.judge.device import passes
from kernelwright.types import Target

DEVICE = torch.device("cuda", 0)


@pytest.fixture(autouse=True, scope="module")
def _in_use(target: Target) -> Iterator[None]:
    from kernelwright.judge.device.cuda_executor import CudaExecutor  # it needs a driver

    CudaExecutor()
    yield
    torch.cuda.synchronize()
    passes.use(None)


def test_sealing_is_undone_by_sealing_again() -> None:
    pass_checks.check_sealing(DEVICE)


@pytest.mark.parametrize("dtype", pass_checks.FLOATS)
def test_outputs_are_compared_with_what_is_sealed(dtype: torch.dtype) -> None:
    pass_checks.check_comparison_with_sealed_truth(dtype, DEVICE)


def test_many_errors_that_are_small_each_are_too_much() -> None:
    pass_checks.check_a_root_mean_square_beyond_its_bound(DEVICE)


def test_two_outputs_are_held_against_two_patterns() -> None:
    pass_checks.check_pairs(DEVICE)


def test_sums_see_every_write_in_their_rows() -> None:
    pass_checks.check_sums(DEVICE)


@pytest.mark.parametrize("dtype", pass_checks.FLOATS)
def test_answers_are_as_near_as_two_right_ones(dtype: torch.dtype) -> None:
    pass_checks.check_agreement(dtype, DEVICE)


@pytest.mark.parametrize("dtype", pass_checks.FLOATS)
def test_contents_are_renewed_and_resemble_others(dtype: torch.dtype) -> None:
    pass_checks.check_renewed_contents(dtype, DEVICE)
