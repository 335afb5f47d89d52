from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelwright import capture
from kernelwright.errors import SourceError
from kernelwright.graph import Capture
from kernelwright.process import Worker

MODEL = """
import os, torch
class Model(torch.nn.Module):
    def forward(self, x):
        {}
        return x * 2
def get_inputs():
    return [torch.ones(4)]
def get_init_inputs():
    return []
"""


def test_steps_are_told_in_order_and_the_worker_goes_away(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Worker] = []

    class Kept(Worker):
        def __init__(self, module: str) -> None:
            super().__init__(module)
            started.append(self)

    monkeypatch.setattr(capture, "Worker", Kept)
    path, steps = write(MODEL.format("pass")), list[str]()
    captured = capture.load(str(path), on_event=steps.append)
    assert steps == [f"reading {path}", "importing torch", "running the reference", "tracing"]
    assert captured.problem.name == "user"
    assert captured.problem.min_bytes == 32
    assert [worker.alive for worker in started] == [False]


def test_a_reference_that_ends_its_process_is_the_users_fault(write: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match=r"ended its own process while running the reference.*status 7") as caught:
        capture.load(str(write(MODEL.format("os._exit(7)"))))
    assert "run the file on its own" in caught.value.fix


def test_a_reference_that_never_ends_is_stopped(write: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match=r"did not finish '.*' within 0\.2 s") as caught:
        capture.load(str(write(MODEL.format("while True: pass"))), deadline_s=0.2)
    assert "endless loop" in caught.value.fix


def test_the_parents_side_loads_no_framework() -> None:
    code = "import kernelwright.capture, sys; print('torch' in sys.modules or 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_shared_worker_keeps_nothing_of_the_file_before(
    write: Callable[..., Path], load: Callable[..., Capture]
) -> None:
    text = "from constants import FACTOR\n" + MODEL.format("x = x + FACTOR")
    first = load(write(text, constants="FACTOR = 1.0\n"))
    second = load(write(text, constants="FACTOR = 5.0\n"))
    added = [next(n for n in c.graph.nodes if "add" in n.op).argument("other") for c in (first, second) if c.graph]
    assert added == [1.0, 5.0]
