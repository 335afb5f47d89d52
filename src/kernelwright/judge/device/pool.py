"""The parent's side of a device: one worker that holds it, and one in reserve.

The one in reserve has imported everything and touched nothing, so that a device whose worker died is in
use again within seconds. No framework is imported here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from kernelwright import environment
from kernelwright.errors import KernelwrightError, UserError, WorkerDied
from kernelwright.process import DeadlineExceeded, Worker

WORKER = "kernelwright.judge.device.worker"
PROBE_DEADLINE_S = 60.0
"""The first contact loads the driver and makes a context."""
COMPILE_THREADS = 8


class DeviceWorkers:
    """Gives out a worker whose device answered a probe.

    Args:
        module: what the workers run.
        variables: further environment variables.
        on_event: takes progress events.
    """

    def __init__(
        self,
        *,
        module: str = WORKER,
        variables: Mapping[str, str] | None = None,
        on_event: Callable[[Any], None] | None = None,
    ) -> None:
        self._module, self._variables = module, {**worker_environment(), **(variables or {})}
        self._on_event = on_event
        self._reserve: Worker | None = self._start()
        self.replaced_s: list[float] = []
        """How long each replacement took, from the demand to the probe's answer."""

    def take(self, instead_of: Worker | None = None) -> Worker:
        """Returns a new worker, probed; another starts to wait in reserve.

        Args:
            instead_of: the one to end first.

        Raises:
            UserError: when the device does not answer.
        """
        begun = time.monotonic()
        if instead_of is not None:
            instead_of.close()
        worker = self._reserve if self._reserve and self._reserve.alive else self._start()
        self._reserve = None
        try:
            worker.request("probe", deadline_s=PROBE_DEADLINE_S)
        except (WorkerDied, DeadlineExceeded, KernelwrightError) as error:
            worker.close()
            if isinstance(error, UserError):
                raise
            fix = "see `nvidia-smi` and `kernelwright doctor`"
            raise UserError(f"the device does not answer: {error.message}", fix) from error
        self.replaced_s.append(time.monotonic() - begun)
        if self._on_event and len(self.replaced_s) > 1:
            self._on_event({"state": "the device's worker was replaced", "seconds": round(self.replaced_s[-1], 2)})
        self._reserve = self._start()
        return worker

    def _start(self) -> Worker:
        return Worker(self._module, environment=self._variables)

    def close(self) -> None:
        """Ends the one in reserve; the others belong to whoever took them."""
        if self._reserve is not None:
            self._reserve.close()
        self._reserve = None


def worker_environment() -> dict[str, str]:
    """Returns the variables under which device workers run."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(environment.home() / "inductor"),
        "TORCHINDUCTOR_COMPILE_THREADS": str(min(COMPILE_THREADS, os.cpu_count() or 1)),
        "TRITON_CACHE_DIR": str(environment.home() / "triton"),
        # Two contexts, of a worker that is ending and of its successor, must not wait for each other's code.
        "CUDA_MODULE_LOADING": "LAZY",
    }
