"""Kills a run that asks a model, with SIGKILL at random points, goes on from what is left, and counts.

A stored reply may never be lost, changed, or asked for again; each kill loses at most the calls in flight.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.llm.stub import Stub
from tests.run.models.fakes import Improver

from kernelwright.store import Store

PARALLEL = 2
LIMIT_S = 300.0
HERE = Path(__file__).parent
ASKED_AGAIN = "SELECT count(*) FROM sent JOIN exchange ON sent.request = exchange.request WHERE sent.id > exchange.sent"


@dataclass
class Count:
    """What became of runs that were killed."""

    runs: int = 0
    kills: int = 0
    stored: int = 0
    """Replies in the stores at the end."""
    records: int = 0
    """Of judgements, there too."""
    answered: int = 0
    """Replies that the server gave whole."""
    lost: int = 0
    """Replies or records that were stored once and were gone, or another, later."""
    asked_again: int = 0
    """Requests whose reply was stored already."""
    ended: str = ""
    damage: tuple[str, ...] = ()
    """What the store's own check says."""


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


def kept(path: Path) -> dict[object, object]:
    """Returns every stored reply and every record of a judgement, by its key."""
    found: dict[object, object] = {}
    for request, text in rows(path, "SELECT request, text FROM exchange WHERE request IS NOT NULL"):
        found["reply", request] = text
    for number, text in rows(path, "SELECT id, text FROM record"):
        found["record", number] = text
    return found


def killed(folder: Path, kills: int, *, seed: int = 20261130) -> Count:
    """Kills runs so often in all, lets each come to its end, and returns what became of them."""
    rng, count = random.Random(seed), Count()
    while not count.ended or (count.kills < kills and count.ended == "finished"):
        _one(folder / f"run{count.kills}.sqlite", kills, rng, count)
    return count


def _one(path: Path, kills: int, rng: random.Random, count: Count) -> None:
    """Kills one run until it comes to its end before a kill, or there were enough."""
    before: dict[object, object] = {}
    with Stub(Improver()) as stub:
        while count.kills < kills and kill_later(start(path, stub.url), stub, rng):
            count.kills += 1
            after = kept(path)
            count.lost += sum(after.get(key) != text for key, text in before.items())
            before = after
        printed, _ = start(path, stub.url).communicate(timeout=LIMIT_S)
        count.answered += stub.completed
    after = kept(path)
    count.lost += sum(after.get(key) != text for key, text in before.items())
    count.ended = printed.split()[-1].decode() if printed.split() else "nothing said"
    count.asked_again += int(str(rows(path, ASKED_AGAIN)[0][0]))
    count.stored += sum(key[0] == "reply" for key in after if isinstance(key, tuple))
    count.records += sum(key[0] == "record" for key in after if isinstance(key, tuple))
    count.runs += 1
    with Store(path) as store:
        count.damage += tuple(map(str, store.verify()))
