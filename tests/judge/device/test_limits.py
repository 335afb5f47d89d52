"""Launches held against a device and a kernel."""

from __future__ import annotations

import dataclasses

import pytest
from tests.judge.device.fake_device import LIMITS

from kernelwright.judge.device.limits import Geometry, KernelFacts, launch_fault, parameters_fault

KERNEL = KernelFacts(
    symbol="k", threads_per_block=512, registers=128, shared_bytes=1024, local_bytes=0, parameters=(8, 8, 4)
)
LAUNCH = Geometry((64, 1, 1), (256, 1, 1), (1, 1, 1), 0, False, False)


def test_an_ordinary_launch_is_possible() -> None:
    assert launch_fault(LAUNCH, KERNEL, LIMITS) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"grid": (0, 1, 1)}, "grid x is 0"),
        ({"grid": (1, 65536, 1)}, "grid y"),
        ({"block": (1, 1, 65)}, "block z"),
        ({"block": (32, 33, 1)}, "1056 threads; fake device takes 1024"),
        ({"block": (1024, 1, 1)}, "compiled for at most 512"),
        ({"shared_bytes": (227 << 10) - 1023}, "shared memory"),
        ({"shared_bytes": -1}, "shared memory"),
        ({"cluster": (3, 1, 1)}, "no multiple of the cluster's 3"),
        ({"cluster": (32, 1, 1)}, "at most 16"),
        ({"cluster": (0, 1, 1)}, "at least 1"),
    ],
)
def test_an_impossible_launch_is_named(change: dict[str, object], words: str) -> None:
    fault = launch_fault(dataclasses.replace(LAUNCH, **change), KERNEL, LIMITS)  # type: ignore[arg-type]
    assert fault is not None
    assert words in fault


def test_all_shared_memory_of_a_block_can_be_asked_for() -> None:
    assert launch_fault(dataclasses.replace(LAUNCH, shared_bytes=(227 << 10) - 1024), KERNEL, LIMITS) is None


def test_clusters_need_hopper_and_the_shape_they_were_compiled_for() -> None:
    pair = dataclasses.replace(LAUNCH, cluster=(2, 1, 1))
    old = dataclasses.replace(LIMITS, architecture=80)
    assert "9.0" in (launch_fault(pair, KERNEL, old) or "")
    compiled = dataclasses.replace(KERNEL, required_cluster=(4, 1, 1))
    assert "compiled for (4, 1, 1)" in (launch_fault(pair, compiled, LIMITS) or "")
    assert "no multiple" in (launch_fault(dataclasses.replace(LAUNCH, grid=(66, 1, 1)), compiled, LIMITS) or "")


def test_arguments_are_held_against_the_kernels_own_table() -> None:
    assert parameters_fault("k", (bytes(8), bytes(8), bytes(4)), KERNEL.parameters) is None
    assert "takes 3 parameters, the plan gives 2" in (parameters_fault("k", (bytes(8),) * 2, KERNEL.parameters) or "")
    assert "parameter 3 of k has 4 bytes" in (parameters_fault("k", (bytes(8),) * 3, KERNEL.parameters) or "")
