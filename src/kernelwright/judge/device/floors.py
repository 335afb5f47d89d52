"""What the device cannot be faster than: measured once for each device and driver, and stored.

Copy and read bandwidth by size, the rate of matrix products by dtype, what a launch costs with and without
programmatic launch. A time is refused when it needs more than these allow, with a margin.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from kernelwright import environment
from kernelwright.judge.device.executor import Executor

SIZES = tuple(1 << power for power in (20, 22, 24, 26, 28, 30))
"""Bytes of the copied buffer."""
REPEATS = 9
PRODUCT = 8192
PRODUCTS = ("bfloat16", "float16", "float32", "float64")
LAUNCHES = 256
MARGIN = 1.2
"""A time is refused when it implies more than this multiple of the best rate that was measured."""
VERSION = 1


@dataclass(frozen=True)
class Floors:
    """What one device reached.

    Bandwidths are bytes read plus bytes written in a second.
    """

    device: str
    driver: int
    when: str
    copy: dict[str, float] = field(default_factory=dict)
    """By size of the buffer."""
    read: float = 0.0
    """Of a plain sum."""
    products: dict[str, float] = field(default_factory=dict)
    """Operations in a second, by dtype."""
    launch_us: float = 0.0
    """Of one more empty kernel in a graph."""
    programmatic_us: float = 0.0
    """The same with programmatic launch."""
    version: int = VERSION

    @property
    def bandwidth(self) -> float:
        """The best bandwidth of large buffers; 0 where none was measured."""
        large = [rate for size, rate in self.copy.items() if int(size) >= 1 << 26]
        return max((*large, self.read), default=0.0)

    @property
    def fastest_product(self) -> float:
        """The best rate of matrix products; 0 where none was measured."""
        return max(self.products.values(), default=0.0)


def floor_us(floors: Floors, *, bytes_moved: int, operations: int | None) -> float:
    """Returns the microseconds that the bytes take at the best bandwidth, or the operations at the best rate."""
    times = [0.0]
    if floors.bandwidth:
        times.append(bytes_moved / floors.bandwidth * 1e6)
    if floors.fastest_product and operations:
        times.append(operations / floors.fastest_product * 1e6)
    return max(times)


def refusal_us(
    floors: Floors, *, bytes_read: int, bytes_written: int, operations: int | None, calls: int, cache_bytes: int
) -> float:
    """Returns the microseconds of one call below which a time cannot be true.

    What is written may still lie in the cache when a block of calls ends, so a cache's worth of it does not count.
    Counted operations may be saved by cleverer algorithms (Winograd, Strassen): half of them must be done.
    """
    written = max(0, calls * bytes_written - cache_bytes) / max(1, calls)
    halved = operations // 2 if operations else None
    return floor_us(floors, bytes_moved=bytes_read + int(written), operations=halved) / MARGIN


def path_of(device: str, driver: int) -> Path:
    """Returns where a device's floors are stored."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", device).strip("-").lower() or "device"
    return environment.home() / "devices" / f"{name}-{driver}-v{VERSION}.json"


def stored(device: str, driver: int) -> Floors | None:
    """Returns the floors that were stored for a device, None where there are none or they cannot be read."""
    try:
        data: dict[str, Any] = json.loads(path_of(device, driver).read_text())
        found = Floors(**data)
    except (OSError, ValueError, TypeError):
        return None
    return found if found.version == VERSION and found.device == device else None


def store(floors: Floors) -> None:
    """Keeps floors for later sessions; a folder that cannot be written only means measuring again."""
    path = path_of(floors.device, floors.driver)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(floors), indent=1))
    except OSError:
        return


def measure(executor: Executor, driver: int, *, empty: Callable[[bool], None] | None = None) -> Floors:
    """Measures a device's floors: about two seconds.

    Args:
        executor: the device.
        driver: its driver's version.
        empty: enqueues the smallest kernel, with or without programmatic launch.
    """
    most = executor.free_bytes() // 4
    sizes = [size for size in SIZES if size <= most]
    launch_us = programmatic_us = 0.0
    if empty is not None:
        launch_us, programmatic_us = (_launch_us(executor, empty, flag) for flag in (False, True))
    return Floors(
        device=executor.limits.name,
        driver=driver,
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        copy={str(size): _copy_rate(executor, size) for size in sizes},
        read=_read_rate(executor, sizes[-1]),
        products={name: _product_rate(executor, name) for name in PRODUCTS} if executor.device.type == "cuda" else {},
        launch_us=launch_us,
        programmatic_us=programmatic_us,
    )


def _best_us(executor: Executor, work: Callable[[], object]) -> float:
    work()
    spans = [executor.timed(work, deadline_s=30.0, during="measuring the device") for _ in range(REPEATS)]
    return min(span.device_us for span in spans)


def _copy_rate(executor: Executor, size: int) -> float:
    # Distinct buffers for small sizes, so that it is memory that is measured and not the cache.
    count = max(1, min(16, 4 * executor.limits.cache_bytes // size))
    pairs = [torch.empty((2, size), dtype=torch.uint8, device=executor.device).fill_(i) for i in range(count)]

    def work() -> None:
        for pair in pairs:
            pair[1].copy_(pair[0])

    return 2e6 * size * count / _best_us(executor, work)


def _read_rate(executor: Executor, size: int) -> float:
    words = torch.ones(size // 4, dtype=torch.float32, device=executor.device)
    return 1e6 * size / _best_us(executor, lambda: torch.sum(words))


def _product_rate(executor: Executor, name: str) -> float:
    dtype = getattr(torch, name)
    n = PRODUCT if dtype.itemsize == 2 else PRODUCT // 2
    a, b = (torch.randn(n, n, device=executor.device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2e6 * n**3 / _best_us(executor, lambda: torch.matmul(a, b, out=out))


def _launch_us(executor: Executor, empty: Callable[[bool], None], programmatic: bool) -> float:
    def work() -> None:
        for _ in range(LAUNCHES):
            empty(programmatic)

    work()
    replay = executor.capture(work)
    return _best_us(executor, replay.launch) / LAUNCHES
