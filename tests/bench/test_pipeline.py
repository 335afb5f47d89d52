"""Stages overlap within their bounds; devices have room; what was killed goes on; rows say what they are of."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bench.test_bench import clone
from tests.search.fake_judge import CAPTURE, TARGET, FakeJudge, FakeParts

from kernelwright import capture
from kernelwright.bench import page, pipeline, quick, rows, running, tasks
from kernelwright.bench.rows import Row
from kernelwright.types import TensorSpec, replace

LONG_S = 60.0
"""Nothing here takes so long; only a fault waits for it."""


def test_what_needs_no_device_runs_ahead_and_not_too_far() -> None:
    ready_now, most, lock = [0], [0], threading.Lock()
    third = threading.Event()

    def ready(task: int) -> int:
        with lock:
            ready_now[0] += 1
            most[0] = max(most[0], ready_now[0])
        if task == 2:
            third.set()
        return 10 * task

    def finish(task: int, prepared: int) -> int:
        # The first task ends only when the third was made ready meanwhile.
        assert third.wait(LONG_S)
        with lock:
            ready_now[0] -= 1
        return prepared + 1

    assert sorted(pipeline.run(range(6), ready, finish, workers=1, ahead=2)) == [1, 11, 21, 31, 41, 51]
    assert most[0] <= 3


def test_what_a_stage_raises_reaches_whoever_listens() -> None:
    def finish(task: int, prepared: int) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(pipeline.run([1, 2], lambda task: task, finish, workers=1))
    with pytest.raises(ZeroDivisionError):
        list(pipeline.run([1, 0], lambda task: 1 // task, lambda task, prepared: prepared, workers=1))


def test_a_task_that_needs_a_whole_device_waits_for_it_and_is_not_overtaken() -> None:
    devices = pipeline.Devices({"0": 100, "1": 100}, tasks_each=2)
    order: list[str] = []
    with devices.taken(30) as first, devices.taken(30) as second:
        assert {first[0], second[0]} == {"0", "1"}  # the device with the fewest tasks

        def take(name: str, need: int) -> None:
            with devices.taken(need) as (_, given):
                order.append(f"{name} {given}")

        large = threading.Thread(target=take, args=("large", 900))
        large.start()
        with devices._changed:
            assert devices._changed.wait_for(lambda: len(devices._waiting) == 1, LONG_S)
        small = threading.Thread(target=take, args=("small", 10))
        small.start()
        with devices._changed:
            assert devices._changed.wait_for(lambda: len(devices._waiting) == 2, LONG_S)
        assert order == []
    large.join(LONG_S)
    small.join(LONG_S)
    assert order == ["large 100", "small 10"]


def test_large_problems_need_a_device_of_their_own() -> None:
    x = TensorSpec(name="x", shape=(4096, 393216), dtype="float32", role="input")
    huge = replace(CAPTURE.problem, inputs=(x,), outputs=(replace(x, name="out", role="output"),))
    assert quick.need_bytes(CAPTURE.problem) < 8 << 30
    assert quick.need_bytes(huge) > 139 << 30


class Room:
    """Devices whose judges are fakes."""

    target = TARGET

    def __init__(self, **more: Any) -> None:
        self.more, self.problems = more, list[str]()

    @contextmanager
    def taken(self, problem: Any) -> Iterator[Any]:
        self.problems.append(problem.name)
        yield partial(FakeJudge, **self.more)


def fakes(monkeypatch: pytest.MonkeyPatch, room: Room) -> None:
    monkeypatch.setattr(quick, "places", lambda *_: room)
    monkeypatch.setattr(quick, "parts", lambda target, task_s: FakeParts().parts())
    monkeypatch.setattr(running, "usable", lambda task, *_: (task.path, CAPTURE, False, 0))


def test_a_run_that_was_killed_goes_on_and_reports_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = tasks.kernelbench(clone(tmp_path), levels=(1, 2))
    out, settings = tmp_path / "out", running.Settings(device="cuda", budget_s=600.0, admit=False, task_s=60.0)
    room, killed = Room(), list[str]()
    fakes(monkeypatch, room)

    def listener(row: Row, done: int, total: int, left_s: float) -> None:
        killed.append(row.task)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        running.run(todo, out, settings, workers=1, on_row=listener)
    kept = rows.read(out / running.RESULTS)
    assert [row.task for row in kept] == killed
    assert len(kept) == 2
    told: list[tuple[int, int]] = []
    found = running.run(
        todo, out, settings, workers=2, devices=("0", "1"), on_row=lambda _r, d, t, _s: told.append((d, t))
    )
    assert told == [(3, 4), (4, 4)]
    assert [row.task for row in found] == [task.name for task in todo]
    assert all(row.state == "faster" and row.eager and row.eager > 1.0 for row in found)
    text = page.markdown(found, title="Ours", command="kernelwright bench")
    assert "4 of 4 solved" in text
    assert "kernel" in text.partition("Of the gains against eager of 4 kernels")[2]


def test_where_no_kernel_wins_the_answer_is_the_free_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    todo = tasks.kernelbench(clone(tmp_path), levels=(1,), only="relu")
    fakes(monkeypatch, Room(fails_under=("screen", "measure", "final", "report")))
    settings = running.Settings(device="cuda", budget_s=600.0, admit=False, task_s=60.0)
    (row,) = running.run(todo, tmp_path / "out", settings)
    assert (row.state, row.solved, row.eager) == ("baseline", True, None)
    assert row.baseline == "compile:default"
    assert row.answer == pytest.approx(1.25)
    text = page.markdown((row,), title="Ours", command="kernelwright bench")
    assert "answers against eager 1.250x" in text
    assert "against the best baseline 1.000x" in text


def test_small_copies_are_checked_and_the_task_itself_is_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = tasks.kernelbench(clone(tmp_path), levels=(2,), only="sums")
    calls: list[tuple[str, str]] = []

    def load(source: str, *, form: str, **_: Any) -> Any:
        calls.append((form, Path(source).read_text()))
        return SimpleNamespace()

    monkeypatch.setattr(capture, "load", load)
    source, _, evaluation, cap = running.usable(task, tmp_path / "home", running.Settings(device="cuda"))
    assert (source, evaluation, cap) == (task.path, False, 0)
    assert [form for form, _ in calls] == ["checked", "outlined"]
    assert "= 64, 64" in calls[0][1]
    assert "= 4096, 2048" in calls[1][1]
