"""Runners killed by somebody else cost time, never a record."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from pathlib import Path

import pytest
from tests.judge.kernel_files import QUICK, Sessions, kernels, make_problem, reason

from kernelwright import process
from kernelwright.errors import WorkerDied
from kernelwright.judge import Judge
from kernelwright.languages import detect_target
from kernelwright.process import DeadlineExceeded, WorkerKilled
from kernelwright.run.session import disturbed
from kernelwright.types import KILLED, Record, replace

POLICY = replace(QUICK, name="killed", families=("given",), rounds=2, block_us=200.0)
KILLS = 3
"""Of one candidate's runners: one less than it has."""


def test_runners_killed_again_and_again_lose_nothing() -> None:
    honest = [k for k in kernels("honest") if k.problem == "softmax" and not k.said("THREADS")][:6]
    cheats = [k for k in kernels("cheats") if k.problem == "softmax" and k.path.stem in ("zeros", "crash")]
    batch = [*honest, *cheats]
    made = Sessions()
    judge = made.judge("softmax")
    judge.prepare(POLICY)
    killed: set[int] = set()
    told: list[Record] = []
    left, done = [KILLS], threading.Event()
    killer = threading.Thread(target=_kill_runners, args=(judge, killed, left, done))
    killer.start()
    try:
        while len(killed) < KILLS * len(honest):
            for record in judge.judge([kernel.candidate(judge.problem) for kernel in batch], POLICY):
                told.append(record)
                left[0] = KILLS
    finally:
        done.set()
        killer.join()
        made.close()
    for kernel, record in zip(itertools.cycle(batch), told, strict=False):
        # On a busy machine the clocks stop some; that is no record lost.
        wanted = kernel.reasons if kernel in cheats else ("passed",)
        assert reason(record) in wanted or (kernel in honest and disturbed(record)), record.outcome
    assert not [pid for pid in killed if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda n: n.name)
def test_a_judge_worker_that_is_killed_or_stopped_is_replaced(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOPPED_LOOKS", 1)
    kernel = next(k for k in kernels("honest") if k.problem == "softmax" and not k.said("THREADS"))
    made = Sessions()
    judge = made.judge("softmax")
    judge.prepare(POLICY)
    assert judge._worker is not None
    lost = judge._worker.process.pid
    os.kill(lost, number)
    try:
        record = next(judge.judge([kernel.candidate(judge.problem)], POLICY))
        assert record.passed or disturbed(record), record.outcome
        assert judge._worker.process.pid != lost
    finally:
        made.close()
    assert not Path(f"/proc/{lost}").exists()


@pytest.mark.parametrize("error", [WorkerKilled("stopped"), DeadlineExceeded("late"), WorkerDied("ended")])
def test_no_end_of_a_cpu_worker_is_a_candidates_fault(error: WorkerDied) -> None:
    with Judge(make_problem("softmax"), detect_target()) as judge:
        assert judge._blame(error).kind == KILLED


def _kill_runners(judge: Judge, killed: set[int], left: list[int], done: threading.Event) -> None:
    assert judge._worker is not None
    worker = judge._worker.process.pid
    while not done.wait(0.005):
        # A thread or process that was there a moment ago may be gone.
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{worker}/task").iterdir():
                for word in (task / "children").read_text().split():
                    if left[0] > 0 and int(word) not in killed and _is_runner(int(word)):
                        os.kill(int(word), signal.SIGKILL)
                        left[0] -= 1
                        killed.add(int(word))


def _is_runner(pid: int) -> bool:
    try:
        return "/programs/" in os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
