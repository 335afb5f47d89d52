"""The channel, what is handed over, what is seen from outside, and the judge's own part of a block."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.errors import SourceError
from kernelwright.judge.integrity import block_time_us, clock_fault
from kernelwright.judge.runner import Block, RunnerStopped
from kernelwright.judge.witness import channel, observing
from kernelwright.judge.witness.handover import describe_tree, from_json, to_json, tree_of
from kernelwright.judge.witness.witness import (
    ROOM,
    ROOM_NS,
    Allowance,
    _failure_of,
    as_it_counts,
    by_the_judges_clock,
    was_interrupted,
)


@pytest.fixture
def pipe() -> Any:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        os.close(fd)


def test_messages_arrive_whole_and_in_order(pipe: tuple[int, int]) -> None:
    read, write = pipe
    channel.send(write, {"a": [1, None, "é"]})
    channel.send(write, {"b": 2})
    assert channel.receive(read) == {"a": [1, None, "é"]}
    assert channel.receive(read, deadline=time.monotonic() + 5) == {"b": 2}


def test_what_is_no_message_is_refused(pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.write(write, channel.LENGTH.pack(1 << 31))
    with pytest.raises(channel.BadMessage, match="announced"):
        channel.receive(read, most=1 << 20)
    os.write(write, channel.LENGTH.pack(3) + b"{]}")
    with pytest.raises(channel.BadMessage, match="no JSON"):
        channel.receive(read)
    with pytest.raises(TimeoutError):
        channel.receive(read, deadline=time.monotonic() + 0.01)


def test_arguments_come_back_as_they_were() -> None:
    tensor = torch.arange(6, dtype=torch.bfloat16).view(2, 3)
    given = [1, 2.5, True, None, "text", (3, [4]), {"k": torch.float16, 2: torch.device("cpu")}, tensor, float("inf")]
    back = from_json(to_json(given))
    assert back[:7] == given[:7]
    assert [type(item) for item in back] == [type(item) for item in given]
    assert torch.equal(back[7], tensor)
    assert back[8] == float("inf")
    assert from_json(to_json(torch.empty(0, 3))).shape == (0, 3)
    with pytest.raises(SourceError, match="object"):
        to_json(object())


def test_trees_are_described() -> None:
    a = torch.ones(1)
    assert describe_tree(tree_of(a)) == "a tensor"
    assert describe_tree(tree_of([a, (a, a)])) == "a list of 2"
    assert describe_tree(tree_of({"x": a})) == "a dict with keys x"
    with pytest.raises(SourceError, match="int"):
        tree_of((a, 1))


def test_a_page_that_was_written_is_seen_from_outside() -> None:
    fd = os.memfd_create("kernelwright-test")
    size = 8 * mmap.PAGESIZE
    os.ftruncate(fd, size)
    private = mmap.mmap(fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    view = np.frombuffer(private, dtype=np.uint8)
    address = int(view.ctypes.data)
    assert int(view.sum()) == 0
    try:
        assert observing.written_page(os.getpid(), address, size) is None
    except OSError:
        pytest.skip("this kernel does not show page maps")
    private[5 * mmap.PAGESIZE + 7] = 1
    assert observing.written_page(os.getpid(), address, size) == 5 * mmap.PAGESIZE
    assert observing.written_page(os.getpid(), address, 5 * mmap.PAGESIZE) is None
    os.close(fd)


def test_processes_and_threads_are_seen_and_stopped() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "sleep 300 & sleep 301"]) as shell:
        until = time.monotonic() + 60
        # A child is below the shell from its fork on, but has its own name only after its exec.
        while _names_below(shell.pid) != ["sleep", "sleep"] and time.monotonic() < until:
            time.sleep(0.01)
        below = observing.descendants(shell.pid)
        assert _names_below(shell.pid) == ["sleep", "sleep"]
        assert shell.pid in observing.descendants(os.getpid())
        assert len(observing.threads_of(shell.pid)) == 1
        observing.stop(shell.pid)
        assert not observing._runs(shell.pid)
        observing.go_on(shell.pid)
        for process in (*below, shell.pid):
            os.kill(process, 9)
    assert observing.threads_of(shell.pid) == frozenset()
    assert observing.descendants(shell.pid) == frozenset()


def _names_below(process: int) -> list[str]:
    return sorted(observing.name_of(below) for below in observing.descendants(process))


def test_time_in_the_judges_own_part_counts_beyond_what_is_usual() -> None:
    usual = Allowance(ready=(1e5, 1e3), hand_in=(2e5, 1e4))
    assert usual.excess(1e5, 2e5, 0) == 0
    assert usual.excess(1.1e5 + 1e4, 2e5 + 1e5, 10) == 0
    hidden = 5e7
    assert usual.excess(hidden, 0, 10) == pytest.approx(hidden - ROOM * 1.1e5 - ROOM_NS)
    assert usual.excess(0, hidden, 10) == pytest.approx(hidden - ROOM * 3e5 - ROOM_NS)


def _block(stamps: list[tuple[int, int]], received: int) -> Block:
    columns = np.asarray(stamps, dtype=np.int64)
    return Block(columns[:, 0], columns[:, 1], 0, received)


def test_only_time_without_a_processor_is_an_interruption() -> None:
    ms = 1_000_000
    short = _block([(ms, 2 * ms), (40 * ms, 41 * ms)], 50 * ms)
    assert clock_fault(short) is not None
    assert was_interrupted(short, 2 * ms, 1)
    assert not was_interrupted(short, 45 * ms, 2)
    whole = by_the_judges_clock(short)
    assert clock_fault(whole) is None
    assert int((whole.ends - whole.starts).sum()) == 50 * ms
    assert block_time_us(whole, 0, 0.0) == pytest.approx(25_000)
    for stamps in ([(2 * ms, ms)], [(-ms, ms)], [(ms, 60 * ms)], [(5 * ms, 6 * ms), (ms, 2 * ms)]):
        assert not was_interrupted(_block(stamps, 50 * ms), 0, 1)
    assert not was_interrupted(Block(np.empty(0, np.int64), np.empty(0, np.int64), 0, 50 * ms), 0, 1)


def test_the_usual_way_to_the_process_and_back_is_no_interruption() -> None:
    ms = 1_000_000
    block = _block([(ms // 2, 3 * ms // 2), (3 * ms // 2, 5 * ms // 2)], 16 * ms // 5)
    assert as_it_counts(block, 0.9 * ms, ms, 1) is block
    assert block_time_us(as_it_counts(block, 0.1 * ms, ms, 1), 0, 0.0) == pytest.approx(1600)


def test_processor_time_is_seen_from_outside() -> None:
    before = observing.processor_ns(os.getpid())
    used = time.process_time()
    while time.process_time() < used + 0.02:
        pass
    assert observing.processor_ns(os.getpid()) - before >= 20_000_000


def test_a_failure_from_a_stranger_is_cut_to_words() -> None:
    failure = _failure_of({"stage": "verdict", "kind": "k" * 99, "message": "a\nb" * 999, "passed": True})
    assert failure.stage == "run"
    assert len(failure.kind) == 20
    assert "\n" not in failure.message
    assert failure.location == ""
    assert issubclass(RunnerStopped, Exception)
