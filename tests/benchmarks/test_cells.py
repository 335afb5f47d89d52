"""Cells side by side: each on cores of its own, in order, resumed, ended in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import ablation, cells

SAYS = """
import json, os, pathlib, sys, time
sys.path.insert(0, {root!r})
from benchmarks import cells
left, wait_for, cores = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[4]
cells.bind(cores)
deadline = time.monotonic() + 120
while wait_for and not pathlib.Path(wait_for).exists() and time.monotonic() < deadline:
    time.sleep(0.01)
pathlib.Path(str(left) + ".begun").write_text("")
left.write_text(json.dumps([sorted(os.sched_getaffinity(0)), os.environ.get("CUDA_VISIBLE_DEVICES", "")]))
"""
ROOT = str(Path(__file__).parents[2])


def cell(folder: Path, name: str, *, wait_for: str = "", after: tuple[str, ...] = (), code: str = SAYS) -> cells.Cell:
    left = folder / f"{name}.json"
    command = (sys.executable, "-c", code.format(root=ROOT), str(left), wait_for)
    return cells.Cell(name=name, command=command, left=left, after=after)


def test_cells_are_bound_to_cores_and_run_side_by_side(tmp_path: Path) -> None:
    own = sorted(os.sched_getaffinity(0))
    if len(own) < 2:
        pytest.skip("there is one processor only")
    # Each of the first two ends only when the other one has begun: they are there together, or never end.
    todo = [
        cell(tmp_path, "a", wait_for=str(tmp_path / "meet")),
        cell(tmp_path, "b", code=SAYS + "\nleft.with_name('meet').write_text('')"),
        cell(tmp_path, "c", after=("a", "b")),
    ]
    places = cells.slots(2, each=1)
    ended_order: list[str] = []
    ended = cells.finish(
        todo, places, seconds=300, logs=tmp_path / "logs", on_end=lambda one: ended_order.append(one.name)
    )
    assert ended == cells.Ended(done=("a", "b", "c"), failed=(), waiting=())
    assert ended_order[-1] == "c"
    bound = {name: json.loads((tmp_path / f"{name}.json").read_text())[0] for name in "abc"}
    assert len(bound["a"]) == len(bound["b"]) == 1
    assert bound["a"] != bound["b"]
    assert bound["c"] in (bound["a"], bound["b"])


def test_what_was_left_behind_is_not_made_again_and_a_fault_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("kept")
    broken = cell(tmp_path, "b", code="raise SystemExit('no luck')  # {root}")
    todo = [cell(tmp_path, "a"), broken, cell(tmp_path, "c", after=("b",)), cell(tmp_path, "d", after=("a",))]
    ended = cells.finish(todo, cells.slots(1, each=1), seconds=300, logs=tmp_path / "logs")
    assert (tmp_path / "a.json").read_text() == "kept"
    assert ended.done == ("a", "d")
    assert [name for name, _ in ended.failed] == ["b"]
    assert "no luck" in ended.failed[0][1]
    assert ended.waiting == ("c",)


def test_the_deadline_ends_what_runs_and_what_it_has_started(tmp_path: Path) -> None:
    code = """
import os, pathlib, subprocess, sys, time
deaf = "import signal, time; signal.signal(2, signal.SIG_IGN); print(flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
child.stdout.readline()
told = pathlib.Path(sys.argv[1] + ".part")
told.write_text(str(child.pid))
told.rename(sys.argv[1] + ".child")
time.sleep(600)
# {root}
"""
    todo = [cell(tmp_path, "a", code=code), cell(tmp_path, "b")]

    def clock() -> float:
        """Time stands still until the cell has started its child; then it is late."""
        return 1e6 if (tmp_path / "a.json.child").exists() else 0.0

    ended = cells.finish(todo, cells.slots(1, each=1), seconds=60, logs=tmp_path / "logs", clock=clock)
    assert ended == cells.Ended(done=(), failed=(), waiting=("a", "b"))
    state = Path(f"/proc/{(tmp_path / 'a.json.child').read_text()}/stat")
    limit = time.monotonic() + 120
    while alive(state) and time.monotonic() < limit:
        time.sleep(0.01)
    assert not alive(state)


def alive(state: Path) -> bool:
    try:
        return state.read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_list_that_is_told_to_end_takes_its_cells_with_it(tmp_path: Path) -> None:
    left = tmp_path / "a.json"
    code = f"""
import pathlib, signal, sys
sys.path.insert(0, {ROOT!r})
from benchmarks import cells
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
command = (sys.executable, "-c", "import os, pathlib, time; "
    "pathlib.Path({str(tmp_path)!r}, 'part').write_text(str(os.getpid())); "
    "os.rename({str(tmp_path / "part")!r}, {str(tmp_path / "child")!r}); time.sleep(600)")
cell = cells.Cell(name="a", command=command, left=pathlib.Path({str(left)!r}))
cells.finish([cell], cells.slots(1, each=1), seconds=1e9, logs=pathlib.Path({str(tmp_path / "logs")!r}))
"""
    limit = time.monotonic() + 120
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        while not (tmp_path / "child").exists() and time.monotonic() < limit:
            time.sleep(0.01)
        process.terminate()
        assert process.wait(timeout=120) == 3
    state = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    while alive(state) and time.monotonic() < limit:
        time.sleep(0.01)
    assert not alive(state)


def test_there_must_be_a_core_and_a_gpu_for_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    with pytest.raises(ValueError, match="4 workers of 2 cores need 8, and there are 6"):
        cells.slots(4, each=2)
    with pytest.raises(ValueError, match="one kernel at a time"):
        cells.slots(2, each=2, gpus=("0",))
    first, second = cells.slots(2, each=3, gpus=("3", "5"))
    assert (first.gpu, second.gpu) == ("3", "5")
    assert not set(first.cores) & set(second.cores)
    assert len(first.cores) == len(second.cores) == 3


def test_threads_of_one_core_go_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for cpu in range(8):  # as such machines count: 0 and 4 are one core
        for what, number in (("physical_package_id", 0), ("core_id", cpu % 4)):
            file = tmp_path / f"cpu{cpu}" / what
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{number}\n")
    monkeypatch.setattr(cells, "TOPOLOGY", str(tmp_path) + "/cpu{}/{}")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert [place.cores for place in cells.slots(4, each=2)] == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_no_strategy_has_a_better_place_in_the_list(tmp_path: Path) -> None:
    names = ablation.PROBLEMS["cpu"]
    assert len(names) >= 8
    found = ablation.listed(names, 5, tmp_path, ("--each", "8"))
    trials = [one.name.split(".") for one in found if not one.after]
    groups = [trials[i : i + 5] for i in range(0, len(trials), 5)]
    assert all(len({(name, seed) for name, _, seed in group}) == 1 for group in groups)
    assert all({strategy for _, strategy, _ in group} == set(ablation.STRATEGIES) for group in groups)
    places = Counter((strategy, place) for group in groups for place, (_, strategy, _) in enumerate(group))
    assert set(places.values()) == {len(groups) // 5}
    assert [seed for _, _, seed in trials] == sorted(seed for _, _, seed in trials)
    again = {one.name: one.after for one in found if one.after}
    assert set(again) == {f"{name}.again" for name in names}
    assert all(len(after) == 25 for after in again.values())


def trial(strategy: str, seed: int, curve: list[float], winner: str, author: str = "tune") -> dict[str, object]:
    return {
        "problem": "softmax", "strategy": strategy, "seed": seed, "curve": curve, "calls": 0, "winner": winner,
        "author": author, "machine": "a machine",
    }  # fmt: skip


def test_the_page_tells_what_was_measured_anew(tmp_path: Path) -> None:
    folder = tmp_path / "cells"
    folder.mkdir()
    found = [
        trial("random", 0, [0.0, 1.5, 1.5, 2.0], "a"), trial("random", 1, [0.0, 0.0, 3.0, 3.0], "b"),
        trial("authors", 0, [0.0, 0.0, 0.0, 4.0], "c", "replay/softmax.jsonl"), trial("authors", 1, [], ""),
    ]  # fmt: skip
    for one in found:
        (folder / f"softmax.{one['strategy']}.{one['seed']}.json").write_text(json.dumps(one))
    again = {"a": [1.9, 1.7, 1.8], "b": [2.4, 2.2, 2.6], "c": [3.0, 3.2, 3.1]}
    given = ablation.parsed(["--problems", "softmax", "--each", "4", "--seeds", "2", "--work", str(tmp_path)])
    assert "0 of 1 problems" in ablation.page(given)
    (folder / "softmax.again.json").write_text(json.dumps(again))
    text = ablation.page(given)
    assert "**Not all is measured yet**: 4 of 10 trials" in text
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    rows = {label: cells_ for label, *cells_ in lines}
    by = dict(zip(ablation.STRATEGIES, range(5), strict=True))
    assert rows["softmax"][by["random"]] == "2.10 [1.80, 2.40]"
    assert rows["softmax"][by["authors"]] == "2.05 [1.00, 3.10]"  # a trial without a kernel leaves the user with eager
    assert rows["softmax"][by["tune"]] == "-"
    assert rows["**geometric mean**"][by["random"]] == "2.10"
    assert rows["problems behind random by more than 3 %"][by["authors"]] == "0"
    assert rows["problems behind random by more than 3 %"][by["tune"]] == "1"
    assert rows["as the search saw it, after 4 proposals"][by["random"]] == "2.50"
    assert rows["proposals of a trial"][by["random"]] == "4"
    assert rows["trials won by a written kernel"][by["authors"]] == "1 of 2"
