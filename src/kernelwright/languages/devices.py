"""What each GPU architecture allows: the limits that plans are held to and occupancy is counted with.

Numbers are those of the CUDA C++ Programming Guide (technical specifications per compute capability) and, for
allocation granularity, of the occupancy calculator's tables in cuda_occupancy.h. Times and bandwidths are not here:
they are measured on the device.
"""

from __future__ import annotations

import re

from kernelwright import environment
from kernelwright.types import Target, value

LARGEST_GRID = (2**31 - 1, 65_535, 65_535)
LARGEST_BLOCK = (1024, 1024, 64)
MOST_THREADS = 1024
MOST_CLUSTER = 16
"""Blocks of a cluster; more than 8 are an opt-in, which whoever launches sets, and must be asked for on the device."""
WARP = 32


@value
class Device:
    """The limits of one architecture."""

    architecture: str
    """The number alone: sm_90."""
    shared_block_bytes: int
    """Most shared memory of one block, static and dynamic together, with the opt-in that the judge makes."""
    shared_multiprocessor_bytes: int
    threads: int
    """Most resident threads of a multiprocessor."""
    blocks: int
    """Most resident blocks of a multiprocessor."""
    clusters: bool
    """Whether there are thread block clusters, tensor maps and programmatic launches."""
    registers: int = 65_536
    """Of a multiprocessor, and of a block."""
    register_unit: int = 256
    """Registers are given to a warp in multiples of this."""
    shared_unit_bytes: int = 128
    shared_reserved_bytes: int = 1024
    """What the system keeps of each block's shared memory."""


def _device(number: int, block_kib: int, threads: int, blocks: int) -> Device:
    return Device(
        architecture=f"sm_{number}",
        shared_block_bytes=block_kib << 10,
        shared_multiprocessor_bytes=(block_kib + 1) << 10,
        threads=threads,
        blocks=blocks,
        clusters=number >= 90,
    )


DEVICES = tuple(
    _device(*row)
    for row in (
        (80, 163, 2048, 32), (86, 99, 1536, 16), (87, 163, 1536, 16), (89, 99, 1536, 24), (90, 227, 2048, 32),
        (100, 227, 2048, 32), (103, 227, 2048, 32), (110, 227, 1536, 24), (120, 99, 1536, 24), (121, 99, 1536, 24),
    )
)  # fmt: skip
COMPILED = ("sm_80", "sm_90a", "sm_100")
"""What every device language is compiled for where there is no device."""
ARCHITECTURE = re.compile(r"(sm_\d+)[af]?")


def find(architecture: str) -> Device | None:
    """Returns the limits of an architecture such as sm_90a, None where it is not known."""
    found = ARCHITECTURE.fullmatch(architecture)
    return next((device for device in DEVICES if found and device.architecture == found[1]), None)


def known() -> str:
    """Returns the known architectures, for a message."""
    return ", ".join(device.architecture for device in DEVICES)


def cuda_target(architecture: str, *, toolchain: tuple[tuple[str, str], ...] = ()) -> Target:
    """Returns a target to compile for where there is no such device; nothing can be measured on it.

    Raises:
        ValueError: for an architecture that is not known.
    """
    if find(architecture) is None:
        raise ValueError(f"there is no architecture {architecture!r}; known are {known()}, some with an a or f behind")
    return Target(
        kind="cuda", architecture=architecture, features=(), threads=environment.threads(), toolchain=toolchain
    )
