"""What a stranger in a jailed worker does to the channel, or to himself, ends his worker and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.errors import KernelwrightError, WorkerDied
from kernelwright.jail import Jail
from kernelwright.process import DeadlineExceeded, Worker

HERE = Path(__file__).parent
DEADLINE_S = 120.0


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Worker]:
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    jail = Jail(write=str(tmp_path), read=(str(HERE),), memory_bytes=512 << 20)
    with Worker("stranger", jail=jail, environment={"PYTHONPATH": path}) as worker:
        assert worker.request("echo", deadline_s=DEADLINE_S, item=(1, "two")) == (1, "two")
        yield worker
    assert not worker.alive
    assert not Path(f"/proc/{worker.process.pid}").exists()


@pytest.mark.parametrize("verb", ["garbage", "huge", "unknown_type", "nested"])
def test_what_is_no_message_ends_the_worker(stranger: Worker, verb: str) -> None:
    with pytest.raises(WorkerDied, match="no message"):
        stranger.request(verb, deadline_s=DEADLINE_S)
    assert not stranger.alive


@pytest.mark.parametrize(
    ("verb", "words"), [("crash", "SIGSEGV"), ("closes", "SIGKILL"), ("eat", "for its memory|MemoryError")]
)
def test_an_end_is_named(stranger: Worker, verb: str, words: str) -> None:
    with pytest.raises(KernelwrightError, match=words):
        stranger.request(verb, deadline_s=DEADLINE_S)


def test_events_without_end_meet_the_deadline(stranger: Worker) -> None:
    with pytest.raises(DeadlineExceeded):
        stranger.request("endless_events", deadline_s=1.0)
    assert not stranger.alive


def test_a_worker_that_does_not_read_meets_the_deadline(stranger: Worker) -> None:
    assert stranger.request("deaf", deadline_s=DEADLINE_S) == "early"
    with pytest.raises(DeadlineExceeded):
        stranger.request("echo", deadline_s=1.0, item="x" * (1 << 20))
    assert not stranger.alive
