"""Killing an optimisation with SIGKILL at random points, and going on from what is left.

What is promised, and tested here: a record that the store acknowledged (`append` returned, or the
transaction was on the disk when the process died) is never lost, changed, or judged again. A
judgement that had no time to reach the store is made again; there is at most one for each kill,
because every record is appended as soon as it is judged.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from tests.run.kill_child import main, said
from tests.search.fake_judge import CAPTURE, TARGET, FakeParts

from kernelwright.run import optimize
from kernelwright.store import Store

KILLS = 50
JUDGED = 2
"""By each child at most; the next one hangs. 50 of them leave some of the 108 judgements, however late a kill comes."""
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([main.__module__])


def lines_of(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def kept_in(path: Path) -> dict[tuple[str, str], str]:
    """Reads the records as the file holds them, past the code under test."""
    if not path.exists():
        return {}
    db = sqlite3.connect(path)
    try:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'record'").fetchone():
            return {}
        return {(c, p): text for c, p, text in db.execute("SELECT candidate, policy, text FROM record")}
    finally:
        db.close()


def start(store: Path, log: Path, hangs_at: int | None = None) -> ForkServerProcess:
    """Starts a child as a copy of a process that has imported everything: that takes most of a child's time."""
    said(log).unlink(missing_ok=True)
    child = CONTEXT.Process(target=main, args=(store, log, hangs_at))
    child.start()
    return child


def stopped(child: ForkServerProcess, log: Path) -> str:
    """Waits for the end of a child that nobody kills; returns why it stopped."""
    child.join(300)
    assert child.exitcode == 0
    return said(log).read_text()


def kill_later(child: ForkServerProcess, log: Path, rng: random.Random) -> None:
    """Kills the child after a few more lines (two for each judgement) and a moment."""
    enough = len(lines_of(log)) + rng.randrange(0, 2 * JUDGED + 1)
    while child.is_alive() and len(lines_of(log)) < enough:
        time.sleep(0.001)
    # Also before the first judgement: while the store is opened, migrated or replayed.
    time.sleep(rng.random() * (0.1 if rng.random() < 0.1 else 0.006))
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_or_judged_again(tmp_path: Path) -> None:
    path, log = tmp_path / "kept.sqlite", tmp_path / "log"
    rng = random.Random(20240607)
    kept: dict[tuple[str, str], str] = {}
    for _ in range(KILLS):
        seen = len(lines_of(log))
        kill_later(start(path, log, JUDGED), log, rng)
        session = [line.split() for line in lines_of(log)[seen:]]
        judged = [(c, p) for event, c, p in session if event == "judged"]
        stored = [(c, p) for event, c, p in session if event == "stored"]
        assert not set(judged) & set(kept), "judged again although the store had it"
        assert len(judged) == len(set(judged))
        after = kept_in(path)
        assert kept.items() <= after.items(), "lost or changed"
        assert set(stored) <= set(after), "acknowledged, then lost"
        assert len(set(judged) - set(after)) <= 1, "more than the one in hand was not stored"
        kept = after
    assert len(kept) > 20

    assert stopped(start(path, log), log) == "finished"
    again = Counter(line.split(" ", 1)[1] for line in lines_of(log) if line.startswith("judged"))
    assert sum(again.values()) - len(again) <= KILLS
    with Store(path) as store, Store(tmp_path / "whole.sqlite") as fresh:
        assert store.verify() == ()
        assert len({run.seed for run in store.runs()}) == 1
        resumed = optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=FakeParts().parts())
        seed = store.runs()[0].seed
        whole = optimize(CAPTURE, TARGET, store=fresh, budget_s=1e9, parts=FakeParts().parts(), seed=seed)
    assert resumed.judged == 0
    assert (resumed.best, resumed.answer, resumed.why) == (whole.best, whole.answer, whole.why)
    assert resumed.rows == whole.rows
    assert [row.candidate.parents for row in resumed.rows] == [row.candidate.parents for row in whole.rows]
    assert set(again) == {f"{r.candidate} {r.policy}" for row in whole.rows for _, r in row.records}


def test_ctrl_c_ends_it_with_an_answer_at_any_moment(tmp_path: Path) -> None:
    path, log = tmp_path / "kept.sqlite", tmp_path / "log"
    rng = random.Random(5)
    for _ in range(5):
        seen = len(lines_of(log))
        child = start(path, log, 10)
        while child.is_alive() and len(lines_of(log)) < seen + 2:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.02)
        assert child.pid
        os.kill(child.pid, signal.SIGINT)
        assert stopped(child, log) == "interrupted"
        session = [tuple(line.split()) for line in lines_of(log)[seen:]]
        judged = {(c, p) for event, c, p in session if event == "judged"}
        assert judged
        assert len(judged - set(kept_in(path))) <= 1
    with Store(path) as store:
        assert store.verify() == ()


@pytest.mark.parametrize(("count", "killed"), [(2, 0), (4, 1)])
def test_processes_on_one_store_agree(count: int, killed: int, tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    victims = [start(path, tmp_path / f"killed{number}", JUDGED) for number in range(killed)]
    logs = [tmp_path / f"log{number}" for number in range(count - killed)]
    children = [(start(path, log), log) for log in logs]
    for number, victim in enumerate(victims):
        while len(lines_of(tmp_path / f"killed{number}")) < 2 and victim.is_alive():
            time.sleep(0.001)
        victim.kill()
        victim.join()
    assert [stopped(*child) for child in children] == ["finished"] * (count - killed)
    with Store(path) as store:
        assert store.verify() == ()
        both = optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=FakeParts().parts())
        assert both.judged == 0
        assert len(list(store.records())) == both.found == sum(len(row.records) for row in both.rows)
