"""Measuring points on a device through a worker that may hang or die: the rest goes on in a new one.

Not here: what the worker does (judge/device/products).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from kernelwright.errors import KernelwrightError, WorkerDied
from kernelwright.experts.gemm import Product, spell
from kernelwright.process import Worker
from kernelwright.run.gemm.binaries import Binary, Point
from kernelwright.types import value

WORKER = "kernelwright.judge.device.products.worker"
START_S = 180.0
PRODUCT_S = 45.0
ROUNDS = 7
TUNING = ("torch", "cublaslt")
MOST_DEATHS = 6
"""Of workers for one product, each of which takes a schedule out of the race."""


@value
class Row:
    """What is known of one schedule for one product."""

    layout: str
    schedule: str
    us: float | None = None
    """Median of one call; None where it failed."""
    failed: str = ""
    error: float | None = None
    """Relative, against float64 on normal numbers."""


@value
class Outcome:
    """What measuring one product gave."""

    product: Product
    rows: tuple[Row, ...]
    baselines: tuple[tuple[str, float], ...]
    """Microseconds by name: torch_kn, torch_nk, cublaslt_first_kn ... cublaslt_tuned_nk."""
    algorithms: tuple[tuple[str, str], ...] = ()
    """By the same names, cuBLASLt's algorithms as a tuned table keeps them."""

    def best(self, layout: str = "") -> Row | None:
        """Returns the fastest schedule that was right, of one layout or of both."""
        timed = [row for row in self.rows if row.us is not None and row.layout.startswith(layout)]
        return min(timed, key=lambda row: row.us or 0.0) if timed else None

    def baseline(self, prefix: str) -> float | None:
        """Returns the better layout's time of a baseline."""
        times = [us for name, us in self.baselines if name.startswith(prefix)]
        return min(times) if times else None


class Measuring:
    """A device worker that is replaced when a kernel kills it. Use from one thread.

    Args:
        module: the worker's module.
        deadline_s: a worker that takes longer for one product is killed.
        visible: the host's devices that the worker sees, as CUDA_VISIBLE_DEVICES has them; empty leaves them alone.
    """

    def __init__(self, module: str = WORKER, *, deadline_s: float = PRODUCT_S, visible: str = "") -> None:
        self._module, self._deadline_s = module, deadline_s
        self._environment = {"CUDA_VISIBLE_DEVICES": visible} if visible else {}
        self._worker: Worker | None = None
        self._doing = ""
        self.device: dict[str, Any] = {}

    def __enter__(self) -> Measuring:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the worker."""
        if self._worker:
            self._worker.close()
        self._worker = None

    def _open(self) -> Worker:
        if self._worker is None or not self._worker.alive:
            self.close()
            self._worker = Worker(self._module, environment=self._environment)
            self.device = dict(self._worker.request("describe", deadline_s=START_S))
        return self._worker

    def measure(
        self,
        product: Product,
        points: Sequence[tuple[Point, Binary]],
        *,
        rounds: int = ROUNDS,
        baselines: Sequence[str] = TUNING,
        foreign: str = "",
        told: Callable[[str], None] = lambda doing: None,
    ) -> Outcome:
        """Returns what became of every point of one product (their layouts may differ) and of the baselines.

        Args:
            product: what is multiplied.
            points: schedules with their binaries.
            rounds: of interleaved replays.
            baselines: what else takes part: torch, cublas, cublaslt, exhaustive, compiled.
            foreign: a folder of other people's kernels, empty for none.
            told: called with what is being done.
        """
        rows = [
            Row(layout=p.product.layout, schedule=spell(p.schedule), failed=b.fault) for p, b in points if not b.path
        ]
        left = [(str(p.product.layout), spell(p.schedule), b.path) for p, b in points if b.path]
        for _ in range(MOST_DEATHS):
            try:
                more = {"rounds": rounds, "baselines": tuple(baselines), "foreign": foreign}
                answer = self._ask(product, left, more, told)
            except KernelwrightError as death:
                self.close()
                guilty = [point for point in left if f"{point[0]} {point[1]}" == self._doing]
                if not guilty:
                    why = f"{self._doing or 'starting'}: {death}"
                    return Outcome(product=product, rows=(*rows, *(_lost(p, why) for p in left)), baselines=())
                rows += [_lost(point, str(death)) for point in guilty]
                left = [point for point in left if point not in guilty]
                continue
            rows += [_row(found) for found in answer["points"]]
            return Outcome(
                product=product, rows=tuple(rows), baselines=tuple(answer["baselines"].items()),
                algorithms=tuple(answer.get("algorithms", {}).items()),
            )  # fmt: skip
        return Outcome(product=product, rows=(*rows, *(_lost(p, "too many faults before") for p in left)), baselines=())

    def _ask(
        self,
        product: Product,
        left: list[tuple[str, str, str]],
        more: dict[str, Any],
        told: Callable[[str], None],
    ) -> dict[str, Any]:
        def on_event(event: Any) -> None:
            if event[0] == "doing":
                self._doing = str(event[1])
            told(str(event[1]))

        self._doing = ""
        answer = self._open().request(
            "measure", deadline_s=self._deadline_s, on_event=on_event, product=asdict(product), points=tuple(left),
            **more,
        )  # fmt: skip
        if not isinstance(answer, dict):
            raise WorkerDied("a measuring worker answered with something else")
        return answer


def _lost(point: tuple[str, str, str], why: str) -> Row:
    return Row(layout=point[0], schedule=point[1], failed=why.splitlines()[0][:300])


def _row(found: dict[str, Any]) -> Row:
    return Row(
        layout=found["layout"], schedule=found["schedule"], us=found.get("us"), failed=found.get("failed", ""),
        error=found.get("error"),
    )  # fmt: skip
