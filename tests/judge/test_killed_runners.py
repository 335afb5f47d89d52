"""Runners killed by somebody else cost time, never a record."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from tests.judge.kernel_files import QUICK, Sessions, kernels, reason

from kernelwright.judge import Judge
from kernelwright.types import replace

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
    left, done = [KILLS], threading.Event()
    killer = threading.Thread(target=_kill_runners, args=(judge, killed, left, done))
    killer.start()
    try:
        told = []
        for record in judge.judge([kernel.candidate(judge.problem) for kernel in batch], POLICY):
            told.append(reason(record))
            left[0] = KILLS
    finally:
        done.set()
        killer.join()
        made.close()
    assert told[: len(honest)] == ["passed"] * len(honest)
    for kernel, found in zip(cheats, told[len(honest) :], strict=True):
        assert found in kernel.reasons
    assert len(killed) >= KILLS * len(honest)
    assert not [pid for pid in killed if Path(f"/proc/{pid}").exists()]


def _kill_runners(judge: Judge, killed: set[int], left: list[int], done: threading.Event) -> None:
    assert judge._worker is not None
    worker = judge._worker.process.pid
    while not done.wait(0.005):
        for task in Path(f"/proc/{worker}/task").iterdir():
            for word in (task / "children").read_text().split():
                if left[0] > 0 and int(word) not in killed and _is_runner(int(word)):
                    left[0] -= 1
                    killed.add(int(word))
                    os.kill(int(word), signal.SIGKILL)


def _is_runner(pid: int) -> bool:
    try:
        return "/programs/" in os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
