"""What must be left as it was found: every change is named, and nothing else."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.judge.witness import structure
from kernelwright.judge.witness.surroundings import Surroundings


@contextmanager
def _put(owner: object, name: str, value: object) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value)
        yield


@contextmanager
def _set(change: Callable[[], object], back: Callable[[], object]) -> Iterator[None]:
    change()
    try:
        yield
    finally:
        back()


def _threads(now: int) -> AbstractContextManager[None]:
    return _set(lambda: torch.set_num_threads(now + 1), lambda: torch.set_num_threads(now))


class _Passing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    pass


def _other_code(result: object, tree: object, where: str = "") -> list[object]:
    return [result, tree, where]


CHANGES: dict[str, Callable[[], Any]] = {
    "matmul precision": lambda: _set(
        lambda: torch.set_float32_matmul_precision("medium"), lambda: torch.set_float32_matmul_precision("highest")
    ),
    "allow_tf32 of cuDNN": lambda: _put(torch.backends.cudnn, "allow_tf32", not torch.backends.cudnn.allow_tf32),
    "default dtype": lambda: _set(
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
    ),
    "default device": lambda: _set(lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None)),
    "thread count": lambda: _threads(torch.get_num_threads()),
    "gradient mode": lambda: torch.no_grad(),
    "autocast on cpu": lambda: torch.autocast("cpu"),
    "dispatch mode": lambda: _Passing(),  # type: ignore[no-untyped-call]
    "subnormal": lambda: _set(lambda: torch.set_flush_denormal(True), lambda: torch.set_flush_denormal(False)),
    "deterministic algorithms": lambda: _set(
        lambda: torch._C._set_deterministic_algorithms(True, warn_only=False),
        lambda: torch._C._set_deterministic_algorithms(False, warn_only=False),
    ),
    "collector's callbacks": lambda: _set(lambda: gc.callbacks.append(print), lambda: gc.callbacks.remove(print)),
    "handlers of signals": lambda: _set(
        lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN), lambda: signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    ),
    "timers": lambda: _set(
        lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 1000), lambda: signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    ),
    "time.perf_counter was replaced": lambda: _put(time, "perf_counter", lambda: 0.0),
    "functional.softmax was replaced": lambda: _put(functional, "softmax", torch.softmax),
    "Tensor.__eq__ was replaced": lambda: _put(torch.Tensor, "__eq__", lambda a, b: True),
    "Module.__call__ was replaced": lambda: _put(torch.nn.Module, "__call__", lambda *a: None),
    "Event.elapsed_time was replaced": lambda: _put(torch.cuda.Event, "elapsed_time", lambda *a: 0.0),
    "structure.leaves_of was replaced": lambda: _put(structure.leaves_of, "__code__", _other_code.__code__),
    "module time was replaced": lambda: _set(
        lambda: sys.modules.__setitem__("time", signal), lambda: sys.modules.__setitem__("time", time)
    ),
    "os.environ": lambda: _set(lambda: os.environ.update(KW_TEST="1"), lambda: os.environ.pop("KW_TEST")),
    "sys.path": lambda: _set(lambda: sys.path.append("/nowhere"), lambda: sys.path.remove("/nowhere")),
    "warnings.filters": lambda: warnings.catch_warnings(action="ignore"),
}


@pytest.mark.parametrize("words", CHANGES)
def test_a_change_is_named(words: str) -> None:
    around = Surroundings()
    assert around.changes() == []
    with CHANGES[words]():
        found = around.changes()
    assert any(words in text for text in found), found
    assert around.changes() == []


def test_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    around = Surroundings()
    monkeypatch.chdir(tmp_path)
    assert any("working folder" in text for text in around.changes())
    monkeypatch.undo()
    assert around.changes() == []


def test_what_only_concerns_its_own_process_can_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    around = Surroundings()
    monkeypatch.setenv("KW_TEST", "1")
    assert around.changes(own=False) == []
    assert around.own_changes() == ["os.environ was changed"]
    around.accept()
    assert around.changes() == []


def test_new_names_and_plain_data_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    around = Surroundings()
    monkeypatch.setattr(functional, "kw_new", len, raising=False)
    assert around.changes() == []
