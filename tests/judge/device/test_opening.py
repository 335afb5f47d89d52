"""What opening a session in a device worker costs, as far as it can be counted: imports, and what is found once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.judge.device.fake_device import FakeExecutor, softmax_problem

from kernelwright.judge import draws
from kernelwright.judge.device.draws import Facts
from kernelwright.judge.device.session import DeviceSession
from kernelwright.languages import cuda_target

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys
import kernelwright.judge.device.worker
from tests.judge.device.fake_device import FakeExecutor, softmax_problem
from kernelwright.judge import policies_for
from kernelwright.judge.device.session import DeviceSession
from kernelwright.languages import cuda_target

before = set(sys.modules)
target = cuda_target("sm_90a")
session = DeviceSession(softmax_problem(), target, FakeExecutor({}), lambda event: None)
session.prepare(policies_for(target)["screen"])
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("kernelwright_reference")))
"""
HEAVY = ("sympy", "torch._dynamo", "torch._inductor", "torch.fx", "mpmath")


def test_nothing_heavy_is_imported_while_a_session_is_opened(tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "KERNELWRIGHT_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=variables, capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert not [name for name in imported if name.startswith(HEAVY)]
    assert len(imported) < 30, imported


def test_a_second_session_takes_the_facts_of_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path))
    problem, target, events = softmax_problem(), cuda_target("sm_90a"), list[Any]()
    first = DeviceSession(problem, target, FakeExecutor({}), events.append)
    assert first.facts == Facts(fan_in=(128.0,), bytes_read=4 * 32 * 128, bytes_written=4 * 32 * 128, sums_only=False)
    assert {event["opening"] for event in events if "opening" in event} >= {"floors", "reference", "first draw"}

    def never(*_: object) -> None:
        raise AssertionError("found again")

    monkeypatch.setattr(draws, "Sensitivity", never)
    second = DeviceSession(problem, target, FakeExecutor({}), events.append, known=first.facts)
    assert second.facts is first.facts
    draw = second.draw("given", 0)
    assert draw is not None
    with draw.bounds as (bound,):
        assert bound.check(torch.softmax(draw.inputs[0], -1)).passed
        assert not bound.check(torch.softmax(draw.inputs[0], -1) * 1.01).passed
