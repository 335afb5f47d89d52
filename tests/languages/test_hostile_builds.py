"""Sources that run while they are built cost only themselves: the next one builds, and nothing is left behind."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.languages import Builder, cache, detect_target, table
from kernelwright.languages.builder import BuildWorker
from kernelwright.testing.languages import scale_candidate, scale_problem
from kernelwright.types import Artifact, Failure, SourceFile, replace

MARK = f"kernelwright-hostile-{os.getpid()}"
HONEST = "open('lib.so', 'w').write('{0}'); print('built {0}')"
FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
NASTY = {
    "fork_bomb": FORK_BOMB,
    "fills_the_disk": "for n in range(200): open(f'f{n}', 'wb').write(b'x' * (12 << 20))\nimport time; time.sleep(60)",
    "hangs": "while True: pass",
    "sleeps": "import time; time.sleep(600)",
    "takes_all_memory": "held = []\nwhile True: held.append(b'x' * (32 << 20))",
    "floods_its_output": "import os\nwhile True: os.write(1, b'noise' * 100000)",
    "ends_by_signal": "import os; os.abort()",
    "kills_all": "import os, signal\nfor p in (os.getppid(), -1):\n    try: os.kill(p, signal.SIGKILL)\n"
                 "    except OSError: pass\nraise SystemExit(1)",
    "leaves_children": f"import os\nfor n in range(3):\n    if os.fork() == 0:\n        os.setsid()\n"
                       f"        os.execv('/bin/sleep', ['{MARK}', '600'])\nraise SystemExit(1)",
}  # fmt: skip
TRIES = {
    "network": "import socket; socket.create_connection(('127.0.0.1', {port}))",
    "home": "open(__import__('os').path.expanduser('{home}/mark'), 'w')",
    "temporary": f"open('/tmp/{MARK}', 'w')",
    "shared": f"open('/dev/shm/{MARK}', 'w')",
    "beside": "open('../planted', 'w')",
    "other": "[open(e.path).read() for e in __import__('os').scandir('../..')]",
    "worker": "open(f'/proc/{__import__(\"os\").getppid()}/mem', 'rb+')",
    "limits": "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (1 << 20, 1 << 20))",
    "trace": "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\n"
             "if c.ptrace(16, os.getppid(), 0, 0): raise OSError(ctypes.get_errno(), 'ptrace')",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _plugged_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Makes the test's language an installed plug-in, for this process and its workers."""
    place = tmp_path_factory.mktemp("plugin")
    (place / "hostile_language.py").write_text(Path(__file__).with_name("hostile_language.py").read_text())
    info = place / "hostile_language-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile-language\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{table.GROUP}]\nhostile = hostile_language:Build\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(place))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(place), os.environ.get("PYTHONPATH")])))
        patch.setenv("KERNELWRIGHT_HOME", str(tmp_path_factory.mktemp("home")))
        table.names.cache_clear()
        table.load.cache_clear()
        yield
    table.names.cache_clear()
    table.load.cache_clear()


@pytest.fixture(scope="module")
def builder(_plugged_in: None) -> Iterator[Builder]:
    with Builder(detect_target(), workers=1) as made:
        yield made


def build(builder: Builder, text: str) -> Artifact | Failure:
    candidate = replace(scale_candidate("hostile", "unused"), sources=(SourceFile(path="source.py", text=text),))
    return builder.build(scale_problem(), [candidate])[0]


def left_behind() -> list[str]:
    """Processes, files and shared memory that carry this test's mark or run its sources, not another run's."""
    found, home = [], os.environ["KERNELWRIGHT_HOME"]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and any(
            MARK in word or (word.startswith(home) and word.endswith("made/source.py")) for word in words
        ):
            found.append(f"{entry.name}: {words}")
    places = (Path("/tmp"), Path("/dev/shm"), Path.home())
    return found + [str(place / MARK) for place in places if (place / MARK).exists()]


@pytest.mark.parametrize("name", NASTY)
def test_it_costs_only_itself(builder: Builder, name: str) -> None:
    outcome = build(builder, NASTY[name])
    assert isinstance(outcome, Failure), outcome
    assert outcome.kind in ("author", "timeout", "signal"), outcome
    honest = build(builder, HONEST.format(f"after {name}"))
    assert isinstance(honest, Artifact), honest
    assert Path(honest.path).read_text() == f"after {name}"
    assert left_behind() == []


def test_what_was_prepared_can_be_read_and_not_changed(builder: Builder) -> None:
    assert isinstance(build(builder, HONEST.format("prepared")), Artifact)
    assert (cache.toolchains() / "hostile").read_text() == "prepared"


def test_it_reaches_nothing(builder: Builder, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    lines = ["reached = []"]
    for name, text in TRIES.items():
        body = text.replace("{port}", "9").replace("{home}", str(home)).replace("\n", "\n    ")
        lines += ["try:", f"    {body}", f"    reached.append({name!r})", "except (OSError, ValueError): pass"]
    lines += ["print('reached:', reached)", "open('lib.so', 'w').write('x')"]
    outcome = build(builder, "\n".join(lines))
    assert isinstance(outcome, Artifact), outcome
    assert outcome.log.strip() == "reached: []"
    assert left_behind() == []


def test_what_is_left_in_the_library_s_place_is_not_believed(builder: Builder, tmp_path: Path) -> None:
    """A worker that was taken over may leave anything: a link, a pipe, another name, other bytes than it announced."""
    made = tmp_path / "made"
    made.mkdir()
    good = made / cache.LIBRARY
    good.write_bytes(b"good")
    template = build(builder, HONEST.format("template"))
    assert isinstance(template, Artifact)
    announced = replace(template, blob=cache.blob_digest(good), path=str(good))
    secret = tmp_path / "secret"
    secret.write_bytes(b"good")
    for spoil in (lambda: good.symlink_to(secret), lambda: os.mkfifo(good), lambda: good.write_bytes(b"evil")):
        good.unlink()
        spoil()
        outcome = cache.keep("k1:spoilt", announced, made)
        assert isinstance(outcome, Failure), outcome
        assert outcome.kind == "blob"
    outcome = cache.keep("k1:named", replace(announced, path="/etc/passwd"), made)
    assert isinstance(outcome, Failure)
    assert cache.find("k1:spoilt", scale_candidate("hostile", "unused")) is None


def test_workers_killed_again_and_again_lose_nothing() -> None:
    """Build workers are killed while they work, each candidate's a few times; all are built all the same."""
    text = 'extern "C" void scale(const float* x, const float* weight, float* out, long n) {{ /* {} */ }}\n'
    texts = map(text.format, itertools.count())
    there = set((cache.folder() / ".building").iterdir())
    killed: set[BuildWorker] = set()
    left, done = [0], threading.Event()
    outcomes: list[Artifact | Failure] = []
    with Builder(detect_target(), workers=2) as builder:
        killer = threading.Thread(target=_kill_workers, args=(builder, killed, left, done))
        killer.start()
        try:
            while len(killed) < 12:
                left[0] = 5  # less than what one candidate outlasts, even if all meet the same one
                outcomes += builder.build(scale_problem(), [scale_candidate("cpp", next(texts)) for _ in range(2)])
        finally:
            done.set()
            killer.join()
    assert {type(outcome) for outcome in outcomes} == {Artifact}
    assert set((cache.folder() / ".building").iterdir()) <= there


def _kill_workers(builder: Builder, killed: set[BuildWorker], left: list[int], done: threading.Event) -> None:
    while not done.wait(0.02):
        for worker in list(builder._busy):
            if left[0] > 0 and worker not in killed:
                with contextlib.suppress(ProcessLookupError):  # it was done, and is gone
                    os.kill(worker.process.pid, signal.SIGKILL)
                    left[0] -= 1
                    killed.add(worker)
