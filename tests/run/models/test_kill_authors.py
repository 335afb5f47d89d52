"""Killing a run that asks a model, with SIGKILL at random points, and going on from what is left.

What is promised, and tested here: a stored reply is never lost, changed, or asked for again; each kill loses at most
the calls in flight. KERNELWRIGHT_KILLS=50 makes it fifty kills.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from tests.llm.stub import Stub
from tests.run.models.fakes import Improver

from kernelwright.store import Store

KILLS = int(os.environ.get("KERNELWRIGHT_KILLS", "6"))
PARALLEL = 2
LIMIT_S = 300.0
HERE = Path(__file__).parent


def start(store: Path, url: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[2]), *filter(None, sys.path)])}
    command = [sys.executable, str(HERE / "kill_child.py"), str(store), url]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    if not path.exists():
        return []
    db = sqlite3.connect(path)
    try:
        made = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'attempt'").fetchone()
        return db.execute(sql).fetchall() if made else []
    finally:
        db.close()


def kill_later(child: subprocess.Popen[bytes], stub: Stub, rng: random.Random) -> bool:
    """Kills the child after a few more calls and a moment; False where it finished before."""
    enough = len(stub.bodies) + rng.randrange(0, 6)
    deadline = time.monotonic() + LIMIT_S
    while child.poll() is None and len(stub.bodies) < enough and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(rng.random() * 0.02)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    return child.returncode == -signal.SIGKILL


def test_no_stored_reply_is_lost_or_paid_for_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    rng = random.Random(20261130)
    kept: dict[object, object] = {}
    kills = 0
    with Stub(Improver()) as stub:
        for _ in range(KILLS):
            kills += kill_later(start(path, stub.url), stub, rng)
            after: dict[object, object] = {}
            after.update(rows(path, "SELECT request, text FROM exchange WHERE request IS NOT NULL"))  # type: ignore[arg-type]
            assert {key: after[key] for key in kept} == kept, "a stored reply was lost or changed"
            kept = after
        last = start(path, stub.url)
        printed, _ = last.communicate(timeout=LIMIT_S)
        assert printed.split()[-1] == b"finished"
        completed = stub.completed
    asked_again = "SELECT 1 FROM sent JOIN exchange ON sent.request = exchange.request WHERE sent.id > exchange.sent"
    assert rows(path, asked_again) == []
    stored = rows(path, "SELECT count(*) FROM exchange")[0][0]
    assert isinstance(stored, int)
    assert completed <= stored + PARALLEL * kills
    with Store(path) as store:
        assert store.verify() == ()
        assert len(store.runs()) >= 1
