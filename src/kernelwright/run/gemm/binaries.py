"""Cubins of schedules, one for all products that it is right for, made by build workers and kept in a folder.

Not here: the judge's own builds, which hold a plan to its kernel once more (languages/builder.py).
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.experts.gemm import Product, Schedule, candidate, problem_of, spell
from kernelwright.process import Worker
from kernelwright.types import Artifact, Candidate, Failure, Target, digest, value

WORKER = "kernelwright.languages.worker"
DEADLINE_S = 120.0
CUBIN = "kernel.cubin"


@value
class Point:
    """A schedule of one product."""

    product: Product
    schedule: Schedule


@value
class Binary:
    """What became of a point's sources."""

    path: str
    """Of the cubin; empty where there is none."""
    fault: str = ""
    registers: int = 0
    spill_bytes: int = 0
    build_s: float = 0.0


def binary_name(made: Candidate, target: Target) -> str:
    """Returns the name of a candidate's binary: its sources and the architecture, not its sizes."""
    return digest((made.sources, made.options, target.architecture)).partition(":")[2][:24]


def build(
    points: Sequence[Point],
    target: Target,
    folder: Path,
    *,
    workers: int,
    told: Callable[[int, int], None] = lambda done, count: None,
) -> dict[Point, Binary]:
    """Returns a binary for each point; what lies in the folder already is taken as it is.

    Args:
        points: what to build.
        target: for which device.
        folder: where binaries are kept, as NAME.cubin and NAME.json.
        workers: how many compile at once.
        told: called with how many of how many are done.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[Point, Binary] = {}
    names: dict[Point, str] = {}
    jobs: dict[str, tuple[Point, Candidate]] = {}
    for point in points:
        made = candidate(point.product, point.schedule, architecture=target.architecture)
        if isinstance(made, Failure):
            found[point] = Binary(path="", fault=made.message)
            continue
        names[point] = binary_name(made, target)
        if not (folder / f"{names[point]}.json").is_file():
            jobs.setdefault(names[point], (point, made))
    _build_all(jobs, target, folder, min(workers, len(jobs)), told)
    return found | {point: _kept(folder, name) for point, name in names.items()}


def _build_all(
    jobs: dict[str, tuple[Point, Candidate]],
    target: Target,
    folder: Path,
    workers: int,
    told: Callable[[int, int], None],
) -> None:
    todo, count, lock, faults = list(jobs.items()), len(jobs), threading.Lock(), list[BaseException]()

    def work() -> None:
        with Worker(WORKER) as worker:
            while True:
                with lock:
                    if not todo or faults:
                        return
                    name, (point, made) = todo.pop()
                _build_one(worker, name, point, made, target, folder)
                with lock:
                    told(count - len(todo), count)

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            faults.append(error)

    threads = [threading.Thread(target=guarded, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]


def _build_one(worker: Worker, name: str, point: Point, made: Candidate, target: Target, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as private:
        outcome = worker.request(
            "build", deadline_s=DEADLINE_S, problem=problem_of(point.product), candidate=made, target=target,
            folder=private, checker="",
        )  # fmt: skip
        if isinstance(outcome, Artifact):
            shutil.move(Path(private) / CUBIN, folder / f"{name}.cubin")
            kernels = outcome.resources
            said = {
                "fault": "", "registers": max(k.registers for k in kernels),
                "spill_bytes": sum(k.spill_bytes for k in kernels), "build_s": outcome.build_s,
            }  # fmt: skip
        else:
            assert isinstance(outcome, Failure)
            said = {"fault": f"{outcome.kind}: {outcome.message}"}
    said["schedule"] = spell(point.schedule)
    waiting = folder / f".{name}.json"
    waiting.write_text(json.dumps(said))
    waiting.rename(folder / f"{name}.json")


def _kept(folder: Path, name: str) -> Binary:
    said = json.loads((folder / f"{name}.json").read_text())
    said.pop("schedule", None)
    return Binary(path="" if said["fault"] else str(folder / f"{name}.cubin"), **said)
