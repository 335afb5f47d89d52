"""Before every answer the worker looks whether the judge's own part is still its own; honest traces are no change."""

from __future__ import annotations

import builtins
import ctypes
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
from tests.judge.python_files import python_problem
from tests.judge.witness_stand import Stand

from kernelwright.judge.witness import channel, guard, holder, loading, memory

COPY = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.eps = eps
    def forward(self, x):
        y = torch.nn.functional.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)
        y.tied = tied()
        return y, x.amax(dim=-1)
class tied:
    def __del__(self):
        import builtins
        builtins.freed = getattr(builtins, "freed", 0) + 1
"""


@pytest.fixture(scope="module")
def stand() -> Stand:
    return Stand(python_problem())


@pytest.fixture
def look(stand: Stand) -> Callable[[], str]:
    tables = [table for table in guard.own_tables() if table.name != "__main__"] + stand.holder.tables()
    watched: Iterator[str] = guard.watch(tables, [*guard.functions_of(tables), *stand.holder.functions()])
    assert next(watched) == ""
    return lambda: next(watched)


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (builtins, "len", lambda _: 0),
        (holder, "zip", zip),
        (channel, "_read", print),
        (channel.receive, "__kwdefaults__", {"deadline": None, "most": 7}),
        (memory.Memory, "write", lambda *_: None),
        (memory._memmove, "argtypes", (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong)),
        (guard.own_tables, "__code__", guard.refuse_hooks.__code__),
        (loading, "_finder", None),
    ],
    ids=lambda item: getattr(item, "__name__", None) or (item if isinstance(item, str) else ""),
)
def test_what_is_exchanged_is_found_and_put_back_is_fine(
    owner: object, name: str, value: object, look: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, value, raising=False)
        assert look()
    assert look() == ""


def test_objects_of_the_judge_are_watched(
    stand: Stand, look: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stand.holder, "_engine", object())
    assert look() == "the holder was changed"


def test_handlers_and_timers_and_modes(look: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    assert look() == "the handlers of signals were changed"
    signal.signal(signal.SIGUSR1, before)
    signal.setitimer(signal.ITIMER_VIRTUAL, 1000)
    assert look() == "the timers were changed"
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    with torch.device("meta"):
        assert look() == "a torch mode was left on"
    assert look() == ""


def test_a_warning_that_is_laid_to_the_judge_is_no_change(look: Callable[[], str]) -> None:
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("default")
        warnings.warn_explicit("old", UserWarning, holder.__file__, 1, registry=vars(holder)["__warningregistry__"])
    assert look() == ""


def test_what_is_tied_to_results_is_freed_at_rest_only(monkeypatch: pytest.MonkeyPatch) -> None:
    stand = Stand(python_problem())  # of this test alone: whoever runs tests has a signal handler for each
    monkeypatch.setattr(builtins, "freed", 0, raising=False)
    monkeypatch.setattr(stand.holder, "_room", 2)
    stand.draw(0)
    assert stand.load(COPY) == []
    for number in range(3):
        assert stand.call((0, 1)) == []
        assert builtins.freed == max(0, 2 * (number - 1))  # type: ignore[attr-defined]
        stand.draw(number)
        stand.holder.rest()
        assert builtins.freed == 2 * number  # type: ignore[attr-defined]


def test_nobody_adds_an_audit_hook() -> None:
    code = (
        "import sys; from kernelwright.judge.witness import guard; sys.addaudithook(guard.refuse_hooks)\n"
        "seen = []; sys.addaudithook(lambda *event: seen.append(event)); id(seen); print(len(seen))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "0\n"


@pytest.mark.parametrize("event", guard.NEW_HOOKS)
def test_nobody_adds_what_runs_inside_other_code(event: str) -> None:
    with pytest.raises(RuntimeError, match="inside other code"):
        guard.refuse_hooks(event, ())
    guard.refuse_hooks("import", ())
