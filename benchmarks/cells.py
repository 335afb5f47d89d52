"""Many independent measurements ("cells") at once, each in a process of its own on processor cores of its own.

No two cells share a core; whole physical cores go together where the machine has two threads for each. What a cell has
left behind is not made again, so that a call that was cut off goes on. A cell may wait for others. Cells that are
compared with each other should stand next to each other in the list: they then run at nearly the same time.
**Covers**: the deadline, also of what a cell has started; cells that fail.
**Does not cover**: memory bandwidth and caches, which all cells share; which cells run beside which is the list's part.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

GRACE_S = 10.0
"""Between asking a cell to end and ending it."""
LOOK_S = 0.05
TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/{}"


@dataclass(frozen=True)
class Slot:
    """Where one cell at a time runs."""

    cores: tuple[int, ...]
    gpu: str = ""


@dataclass(frozen=True)
class Cell:
    """One measurement."""

    name: str
    command: tuple[str, ...]
    """To it come `--cores 0,1`; it binds itself to them before it does anything."""
    left: Path
    """The file that it leaves behind when it has come to its end."""
    after: tuple[str, ...] = ()
    """Names of cells that must have come to their end before."""


@dataclass(frozen=True)
class Ended:
    """What became of a list of cells."""

    done: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]
    """(name, the end of what it said)."""
    waiting: tuple[str, ...]
    """Not begun, or cut off at the deadline: the same call goes on with them."""


def _whole_cores() -> list[int]:
    """Returns this process's processors, those of one physical core side by side."""

    def place(cpu: int) -> tuple[int, int, int]:
        found = []
        for what in ("physical_package_id", "core_id"):
            try:
                found.append(int(Path(TOPOLOGY.format(cpu, what)).read_text()))
            except (OSError, ValueError):
                found.append(0 if what == "physical_package_id" else cpu)
        return found[0], found[1], cpu

    return sorted(os.sched_getaffinity(0), key=place)


def slots(workers: int, *, each: int, gpus: Sequence[str] = ()) -> tuple[Slot, ...]:
    """Returns places for so many cells at once.

    Raises:
        ValueError: this process may not use so many processors, or there are not so many GPUs.
    """
    own = _whole_cores()
    if workers * each > len(own):
        raise ValueError(f"{workers} workers of {each} cores need {workers * each}, and there are {len(own)}")
    if gpus and workers > len(gpus):
        raise ValueError(f"{workers} workers, and {len(gpus)} GPUs: a GPU times one kernel at a time")
    return tuple(Slot(cores=tuple(own[i * each : (i + 1) * each]), gpu=gpus[i] if gpus else "") for i in range(workers))


def bind(cores: str) -> None:
    """Binds this process, and what it will start, to `0,1`; to nothing where the text is empty."""
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})


def finish(
    cells: Sequence[Cell], places: Sequence[Slot], *, seconds: float, logs: Path,
    on_end: Callable[[Cell], None] = lambda _: None, clock: Callable[[], float] = time.monotonic,
) -> Ended:  # fmt: skip
    """Runs all cells that have not left anything behind, in their order, until they are done or the time is up.

    Args:
        cells: what there is to do.
        places: one cell at a time runs in each.
        seconds: then running cells are ended, and none begins.
        logs: folder for what each cell says.
        on_end: called after each cell that came to its end, one call at a time.
        clock: in seconds.
    """
    work = _Work(cells, clock=clock, seconds=seconds, logs=logs, on_end=on_end)
    logs.mkdir(parents=True, exist_ok=True)
    threads = [threading.Thread(target=work.serve, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        work.stop()
        raise
    return work.ended()


class _Work:
    """The list, as the threads of all places see it."""

    def __init__(
        self, cells: Sequence[Cell], *, clock: Callable[[], float], seconds: float, logs: Path,
        on_end: Callable[[Cell], None],
    ) -> None:  # fmt: skip
        self._cells = cells
        self._clock = clock
        self._deadline = clock() + seconds
        self._logs = logs
        self._on_end = on_end
        self._turn = threading.Condition()
        self._done = {cell.name for cell in cells if cell.left.exists()}
        self._running: set[str] = set()
        self._failed: dict[str, str] = {}
        self._processes: list[subprocess.Popen[bytes]] = []

    def serve(self, place: Slot) -> None:
        """Runs cells in one place for as long as there are any."""
        while (cell := self._next()) is not None:
            fault = self._run(cell, place)
            with self._turn:
                self._running.remove(cell.name)
                if cell.left.exists():
                    self._done.add(cell.name)
                    self._on_end(cell)
                elif fault:
                    self._failed[cell.name] = fault
                self._turn.notify_all()

    def stop(self) -> None:
        """Lets no further cell begin, and ends those that run.

        It does not leave that to the threads: where a signal interrupts `join`, Python 3.11 exits without them.
        """
        with self._turn:
            self._deadline = -math.inf
            running = tuple(self._processes)
        for process in running:
            _end(process)

    def ended(self) -> Ended:
        """Returns what became of the cells."""
        names = [cell.name for cell in self._cells]
        return Ended(
            done=tuple(n for n in names if n in self._done),
            failed=tuple(self._failed.items()),
            waiting=tuple(n for n in names if n not in self._done and n not in self._failed),
        )

    def _next(self) -> Cell | None:
        """Returns the first cell that can begin, waits for one that another cell must make way for; None at the end."""
        with self._turn:
            while self._clock() < self._deadline:
                begun = self._done | self._running | self._failed.keys()
                left = [cell for cell in self._cells if cell.name not in begun]
                ready = next((cell for cell in left if self._done.issuperset(cell.after)), None)
                if ready is not None:
                    self._running.add(ready.name)
                    return ready
                if not left or not self._running:
                    return None
                self._turn.wait(min(1.0, max(LOOK_S, self._deadline - self._clock())))
        return None

    def _run(self, cell: Cell, place: Slot) -> str:
        """Returns why a cell failed, empty where it did not, or was ended at the deadline."""
        log = self._logs / f"{cell.name}.txt"
        cores = ",".join(map(str, place.cores))
        environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": place.gpu} if place.gpu else {})}
        with log.open("wb") as said:
            with self._turn:
                if self._clock() >= self._deadline:
                    return ""
                process = subprocess.Popen(
                    (*cell.command, "--cores", cores), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                    env=environment, start_new_session=True,
                )  # fmt: skip
                self._processes.append(process)
            while process.poll() is None and self._clock() < self._deadline:
                time.sleep(LOOK_S)
            if process.poll() is None:
                _end(process)
            with self._turn:
                self._processes.remove(process)
            if not cell.left.exists() and self._clock() >= self._deadline:
                return ""
        return "" if process.returncode == 0 else log.read_text("utf-8", "replace")[-2000:]


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
