"""Whether a launch can be started on a device at all: numbers against numbers, before anything is launched; pure.

Covers: block and grid sizes, threads a kernel was compiled for, static and dynamic shared memory, cluster
    shape and size, kernels that demand a cluster, cooperative grids that must be resident at once.
Does not cover: what only the driver knows (it is asked as well, and its refusal is a Failure too).
"""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_CLUSTER = 16


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What the driver says of a device."""

    name: str
    architecture: int
    """Compute capability: 90 for 9.0."""
    multiprocessors: int
    threads_per_block: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared_bytes: int
    """Shared memory of a block after opting in, static and dynamic together."""
    cache_bytes: int
    """Level-2 cache."""
    memory_bytes: int
    cooperative: bool = True
    address: str = ""
    """On the PCI bus, empty where it has none."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """What the driver says of a loaded kernel."""

    symbol: str
    threads_per_block: int
    registers: int
    shared_bytes: int
    """Static."""
    local_bytes: int
    parameters: tuple[int, ...]
    """Size of each parameter in bytes."""
    cluster_must_be_set: bool = False
    required_cluster: tuple[int, int, int] = (0, 0, 0)
    """As compiled in with __cluster_dims__; zeros where nothing was."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A launch with its sizes evaluated."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    shared_bytes: int
    cooperative: bool
    programmatic: bool

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_blocks(self) -> int:
        """Blocks of one cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


def launch_fault(geometry: Geometry, kernel: KernelFacts, device: DeviceLimits) -> str | None:
    """Returns why a launch cannot be, None where nothing speaks against it."""
    return (
        _shape_fault(geometry, device)
        or _thread_fault(geometry, kernel, device)
        or _shared_fault(geometry, kernel, device)
        or _cluster_fault(geometry, kernel, device)
    )


def _shape_fault(geometry: Geometry, device: DeviceLimits) -> str | None:
    for what, given, most in (("grid", geometry.grid, device.grid), ("block", geometry.block, device.block)):
        for axis, size, limit in zip("xyz", given, most, strict=True):
            if not 1 <= size <= limit:
                return f"{what} {axis} is {size}; 1 to {limit} are possible"
    return None


def _thread_fault(geometry: Geometry, kernel: KernelFacts, device: DeviceLimits) -> str | None:
    if geometry.threads > device.threads_per_block:
        return f"a block of {geometry.threads} threads; {device.name} takes {device.threads_per_block}"
    if geometry.threads > kernel.threads_per_block:
        return (
            f"a block of {geometry.threads} threads; {kernel.symbol} was compiled for at most "
            f"{kernel.threads_per_block} (its launch bounds, or its {kernel.registers} registers)"
        )
    return None


def _shared_fault(geometry: Geometry, kernel: KernelFacts, device: DeviceLimits) -> str | None:
    needed = geometry.shared_bytes + kernel.shared_bytes
    if geometry.shared_bytes < 0 or needed > device.shared_bytes:
        return (
            f"{geometry.shared_bytes} bytes of dynamic and {kernel.shared_bytes} of static shared memory; "
            f"a block can have {device.shared_bytes} in all"
        )
    return None


def _cluster_fault(geometry: Geometry, kernel: KernelFacts, device: DeviceLimits) -> str | None:
    cluster, blocks = geometry.cluster, geometry.cluster_blocks
    if min(cluster) < 1:
        return f"a cluster of {cluster}; every side is at least 1"
    if any(kernel.required_cluster) and blocks > 1 and cluster != kernel.required_cluster:
        return f"a cluster of {cluster}; {kernel.symbol} was compiled for {kernel.required_cluster}"
    if blocks > 1 and device.architecture < 90:
        return f"a cluster of {blocks} blocks; clusters need compute capability 9.0"
    if blocks > LARGEST_CLUSTER:
        return f"a cluster of {blocks} blocks; at most {LARGEST_CLUSTER} are possible"
    shape = cluster if blocks > 1 else kernel.required_cluster if any(kernel.required_cluster) else (1, 1, 1)
    for axis, size, part in zip("xyz", geometry.grid, shape, strict=True):
        if size % part:
            return f"grid {axis} of {size} blocks is no multiple of the cluster's {part}"
    return None


def parameters_fault(symbol: str, packed: tuple[bytes, ...], sizes: tuple[int, ...]) -> str | None:
    """Returns how the plan's arguments differ from the kernel's own table, None where they agree."""
    if len(packed) != len(sizes):
        return f"{symbol} takes {len(sizes)} parameters, the plan gives {len(packed)}"
    for number, (given, wanted) in enumerate(zip(packed, sizes, strict=True), 1):
        if len(given) != wanted:
            return f"parameter {number} of {symbol} has {wanted} bytes, the plan gives {len(given)}"
    return None
