"""The measuring worker on a device that is none: kernels run by functional models, clocks say what they are told.

    python -m tests.run.gemm.emulated_worker READ_FD WRITE_FD

A schedule with `group=17` ends the process, one with `group=19` is wrong, and one with `group=23` writes beside its
output.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernelwright.judge.device.executor import BoundPlan, Loaded, Span
from kernelwright.judge.device.limits import DeviceLimits
from kernelwright.judge.device.products import worker
from kernelwright.languages.emulation.clusters import Emulated
from kernelwright.process import serve
from kernelwright.types import Candidate, LaunchPlan

LIMITS = DeviceLimits(
    name="emulated", architecture=90, multiprocessors=2, threads_per_block=1024, block=(1024, 1024, 64),
    grid=(1 << 31, 65535, 65535), shared_bytes=232448, cache_bytes=1 << 12, memory_bytes=1 << 30, cooperative=True,
)  # fmt: skip


class Replay:
    def __init__(self, work: Callable[[], object]) -> None:
        self.launch = work


class EmulatedDevice:
    """As much of an executor as measuring needs."""

    def __init__(self) -> None:
        self.device, self.limits = torch.device("cpu"), LIMITS
        self._runs = 0

    def load(self, blob: bytes, candidate: Candidate) -> Loaded:
        assert blob
        return Loaded(Emulated(candidate), {})

    def bind(
        self,
        loaded: Loaded,
        plan: LaunchPlan,
        addresses: Mapping[str, int],
        views: Mapping[str, Any],
        axes: Mapping[str, int],
    ) -> BoundPlan:
        return BoundPlan(((loaded.handle, dict(addresses)),))

    def unload(self, loaded: Loaded) -> None:
        loaded.handle.close()

    def issue(self, bound: BoundPlan) -> None:
        ((emulated, addresses),) = bound.calls
        spelled = str(emulated.candidate.point[0][1])
        if "group=17" in spelled:
            os._exit(3)
        self._runs += 1
        said = emulated.run(addresses, self._runs % 3)
        assert not said, said
        wrong = addresses["out"] if "group=19" in spelled else addresses["out"] - 2 if "group=23" in spelled else 0
        if wrong:
            ctypes.c_uint16.from_address(wrong).value = 0x3C01

    def capture(self, work: Callable[[], object]) -> Replay:
        return Replay(lambda: None)

    def timed(self, launch: Callable[[], object], *, deadline_s: float, during: str) -> Span:
        launch()
        us = 600.0 if during.startswith("torch") else 300.0
        return Span(us, us)

    def wait(self, *, deadline_s: float, during: str) -> None:
        return


def main() -> None:
    worker._device.append(EmulatedDevice())  # type: ignore[arg-type]
    serve({"describe": worker.describe, "measure": worker.measure})


if __name__ == "__main__":
    main()
