"""The channel to workers: answers, faults of three kinds, deadlines, and orphans."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright import process
from kernelwright.errors import KernelwrightError, SourceError, UserError, WorkerDied
from kernelwright.graph import Ref
from kernelwright.process import DeadlineExceeded, Worker, WorkerKilled

MODULE = "worker_for_tests"
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))}


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker(MODULE, environment=ENVIRONMENT) as made:
        yield made


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> bool:
    for _ in range(1200):
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


def test_values_go_both_ways_and_prints_do_not_disturb(worker: Worker) -> None:
    events: list[object] = []
    item = (Ref(name="x", index=1), 2.5, None, "text")
    assert worker.request("echo", deadline_s=120, on_event=events.append, item=item) == item
    assert events == ["working"]


def test_the_users_fault_arrives_as_itself(worker: Worker) -> None:
    with pytest.raises(SourceError) as caught:
        worker.request("refuse", deadline_s=120)
    assert (caught.value.message, caught.value.fix) == ("the file is empty", "write something into it")
    assert worker.request("echo", deadline_s=120, item=1) == 1


def test_half_a_character_arrives_as_a_question_mark(worker: Worker) -> None:
    assert worker.request("echo", deadline_s=20, item="a\udcffb") == "a?b"


def test_our_fault_arrives_with_its_traceback(worker: Worker) -> None:
    with pytest.raises(KernelwrightError, match="ZeroDivisionError") as caught:
        worker.request("fault", deadline_s=120)
    assert "1 // 0" in caught.value.__notes__[0]


def test_a_full_disk_is_not_our_fault(worker: Worker) -> None:
    with pytest.raises(UserError, match="No space left on device; free some disk space"):
        worker.request("full", deadline_s=120)


def test_a_copy_that_the_users_code_forks_says_nothing(worker: Worker) -> None:
    for _ in range(5):
        events: list[object] = []
        assert worker.request("fork", deadline_s=120, on_event=events.append) == "original"
        assert events == ["from the original"]


def test_files_in_the_users_folder_do_not_stand_for_pythons_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    with Worker(MODULE, environment=ENVIRONMENT) as process:
        assert process.request("echo", deadline_s=120, item=1) == 1


def test_a_crash_is_named(worker: Worker) -> None:
    with pytest.raises(WorkerDied, match="SIGABRT during 'crash'"):
        worker.request("crash", deadline_s=120)
    assert not worker.alive


def test_a_deadline_kills_the_worker_and_its_children(worker: Worker) -> None:
    child = worker.request("start_child", deadline_s=120)
    assert is_running(child)
    with pytest.raises(DeadlineExceeded, match="longer than 2 s"):
        worker.request("hang", deadline_s=1.5)
    assert not worker.alive
    assert wait_until_gone(child)


def test_a_worker_ends_when_its_parent_is_killed() -> None:
    code = (
        "from kernelwright.process import Worker; import time\n"
        f"w = Worker({MODULE!r}); print(w.request('pid', deadline_s=120), flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.send_signal(signal.SIGKILL)
    assert wait_until_gone(pid)


def test_an_unknown_verb_is_our_fault(worker: Worker) -> None:
    with pytest.raises(KernelwrightError, match="KeyError"):
        worker.request("nothing", deadline_s=120)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda n: n.name)
def test_whoever_kills_or_stops_a_worker_is_told_apart_from_what_ran_in_it(
    number: signal.Signals, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOPPED_LOOKS", 2)
    assert worker.request("echo", deadline_s=120, item=1) == 1
    worker.process.send_signal(number)  # type: ignore[union-attr]
    with pytest.raises(WorkerKilled, match="SIGKILL" if number is signal.SIGKILL else "stopped by something outside"):
        worker.request("hang", deadline_s=600)
    assert not worker.alive


def test_what_a_worker_forgets_goes_with_it(worker: Worker) -> None:
    folder = Path(worker.request("scratch", deadline_s=120))
    assert list(folder.rglob("left"))
    worker.kill()
    worker.close()
    assert not folder.exists()


ORPHAN = """
import os, signal, sys
from kernelwright.process import Worker
worker = Worker("worker_for_tests")
print(worker.request("scratch", deadline_s=120), worker.process.pid, flush=True)
worker.request(sys.argv[1], deadline_s=600, on_event=lambda _: os.kill(os.getpid(), signal.SIGKILL), item=1)
"""


def test_a_worker_without_a_parent_leaves_no_file() -> None:
    environment = {**os.environ, **ENVIRONMENT}
    ended = subprocess.run([sys.executable, "-c", ORPHAN, "echo"], env=environment, capture_output=True, check=False)
    folder, pid = ended.stdout.split()
    assert ended.returncode == -signal.SIGKILL
    assert wait_until_gone(int(pid))
    assert not Path(folder.decode()).exists()
