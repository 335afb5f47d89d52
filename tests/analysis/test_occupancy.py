from __future__ import annotations

import pytest

from kernelwright.analysis import occupancy
from kernelwright.languages import devices


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks", "limit"),
    [
        # From NVIDIA's occupancy calculator.
        ("sm_90a", 256, 32, 0, 8, "registers"),
        ("sm_90a", 256, 64, 0, 4, "registers"),
        ("sm_90a", 128, 168, 0, 3, "registers"),
        ("sm_90a", 384, 168, 200 << 10, 1, "registers"),
        ("sm_80", 1024, 32, 0, 2, "registers"),
        ("sm_80", 1024, 65, 0, 0, "registers"),
        ("sm_80", 128, 32, 48 << 10, 3, "shared memory"),
        ("sm_90a", 128, 32, 227 << 10, 1, "shared memory"),
        ("sm_86", 32, 16, 0, 16, "blocks"),
        ("sm_89", 512, 16, 0, 3, "threads"),
        ("sm_80", 1, 255, 0, 8, "registers"),
    ],
)
def test_occupancy_is_that_of_the_calculator(
    architecture: str, threads: int, registers: int, shared: int, blocks: int, limit: str
) -> None:
    device = devices.find(architecture)
    assert device is not None
    found = occupancy(device, threads=threads, registers=registers, shared_bytes=shared)
    assert (found.blocks, found.limit) == (blocks, limit)
    assert found.share == found.warps / (device.threads // 32)
