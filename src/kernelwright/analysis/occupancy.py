"""How many blocks and warps of a kernel fit on a multiprocessor at once, and what limits them.

The method is that of the CUDA occupancy calculator (cuda_occupancy.h): registers are given to warps in units of 256
and warps come in groups of four, shared memory in units of 128 bytes with 1 KiB per block for the system.
Not here: the limits themselves (languages/devices.py). Does not cover clusters, which need their blocks at once.
"""

from __future__ import annotations

from kernelwright.languages.devices import WARP, Device
from kernelwright.types import value

WARP_GROUP = 4


@value
class Occupancy:
    """One kernel with one block size on one architecture."""

    threads: int
    """Of a block."""
    blocks: int
    """Resident at once on a multiprocessor."""
    warps: int
    share: float
    """Resident warps over the most that are possible."""
    limit: str
    """registers, shared memory, threads or blocks: what allows no more."""


def occupancy(device: Device, *, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Returns the occupancy of a kernel; without any block where none fits."""
    warps = max(1, -(-threads // WARP))
    per_warp = _up(registers * WARP, device.register_unit)
    by_registers = device.registers // per_warp // WARP_GROUP * WARP_GROUP // warps if registers else device.blocks
    needed = _up(shared_bytes + device.shared_reserved_bytes, device.shared_unit_bytes)
    limits = {
        "registers": by_registers,
        "shared memory": device.shared_multiprocessor_bytes // needed,
        "threads": device.threads // WARP // warps,
        "blocks": device.blocks,
    }
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    resident = blocks * warps
    return Occupancy(
        threads=threads, blocks=blocks, warps=resident, share=resident / (device.threads // WARP), limit=limit
    )


def _up(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
