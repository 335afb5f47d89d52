from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright.errors import KernelwrightError, UserError
from kernelwright.languages import Builder, bounded, build_program, cache, detect_target, program
from kernelwright.testing.languages import scale_candidate, scale_problem
from kernelwright.types import Artifact, Failure, digest, replace

CANDIDATE = scale_candidate("cpp", "")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KERNELWRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def made(key: str, content: bytes = b"library") -> Artifact:
    """An artifact put into the cache."""
    with cache.private_folder() as folder:
        path = folder / cache.LIBRARY
        path.write_bytes(content)
        artifact = Artifact(
            candidate=digest(CANDIDATE), key=key, blob=cache.blob_digest(path), entry="kw_entry",
            plan=CANDIDATE.plan, path=str(path),
        )  # fmt: skip
        kept = cache.keep(key, artifact, folder)
    assert isinstance(kept, Artifact)
    return kept


def test_what_is_kept_is_found(home: Path) -> None:
    kept = made("k1:a")
    found = cache.find("k1:a", CANDIDATE)
    assert isinstance(found, Artifact)
    assert (found.path, found.blob, found.cached, kept.cached) == (kept.path, kept.blob, True, False)
    assert Path(found.path).read_bytes() == b"library"
    assert cache.find("k1:b", CANDIDATE) is None
    assert list((home / "artifacts" / ".building").iterdir()) == []


def test_hit_belongs_to_the_candidate_that_asked() -> None:
    made("k1:a")
    other = replace(CANDIDATE, problem="k1:other")
    found = cache.find("k1:a", other)
    assert isinstance(found, Artifact)
    assert found.candidate == digest(other)


def test_keeping_twice_leaves_one_whole_entry() -> None:
    assert made("k1:a").path == made("k1:a").path
    assert len(list(cache.folder().glob("k1-*"))) == 1


def test_a_damaged_entry_is_replaced() -> None:
    Path(made("k1:a").path).write_bytes(b"rubbish")
    again = made("k1:a")
    assert Path(again.path).read_bytes() == b"library"
    assert isinstance(cache.find("k1:a", CANDIDATE), Artifact)


def test_an_entry_under_a_wrong_key_is_not_believed() -> None:
    path = Path(made("k1:a").path).parent
    path.rename(path.with_name("k1-b"))
    assert cache.find("k1:b", CANDIDATE) is None


@pytest.mark.parametrize(("kind", "kept"), [("syntax", True), ("import", True), ("timeout", False), ("memory", False)])
def test_failures_are_kept_unless_they_may_pass(kind: str, kept: bool, tmp_path: Path) -> None:
    failure = Failure(stage="build", kind=kind, message="no")
    assert cache.keep("k1:f", failure, tmp_path) == failure
    assert cache.find("k1:f", CANDIDATE) == (failure if kept else None)


def test_longest_unused_entries_go_first() -> None:
    now = time.time()
    for number in range(6):
        path = Path(made(f"k1:{number}", bytes(10_000)).path)
        age = 10_000 - 1000 * number
        os.utime(path.parent / cache.OUTCOME, (now - age, now - age))
    cache.find("k1:0", CANDIDATE)  # used just now
    assert cache.tidy(cap_bytes=35_000) == 3
    left = sorted(path.name for path in cache.folder().glob("k1-*"))
    assert left == ["k1-0", "k1-4", "k1-5"]


def test_what_was_used_recently_stays_even_above_the_cap() -> None:
    made("k1:a")
    assert cache.tidy(cap_bytes=0) == 0
    assert cache.tidy(cap_bytes=0, keep_s=-1) == 1


def test_leftovers_of_killed_builders_are_removed() -> None:
    made("k1:a")
    old, new = (cache.folder() / ".building" / name for name in ("old", "new"))
    for path in (old, new):
        path.mkdir()
    os.utime(old, (0, 0))
    cache.tidy()
    assert (old.exists(), new.exists()) == (False, True)


def test_home_that_cannot_be_made_names_its_fix(home: Path) -> None:
    home.write_text("a file, not a folder")
    with pytest.raises(UserError) as caught:
        Builder(detect_target())
    assert "KERNELWRIGHT_HOME" in caught.value.fix


BUILD = """
import sys
from kernelwright.languages import Builder, detect_target
from kernelwright.testing.languages import scale_candidate, scale_problem
text = open(sys.argv[1]).read()
with Builder(detect_target(), workers=2) as builder:
    print("ready", flush=True)
    for number in range(1000):
        pair = [scale_candidate("cpp", text + f"// {number} {half}\\n") for half in (0, 1)]
        builder.build(scale_problem(), pair)
        print(number, flush=True)
"""


def test_killed_at_any_moment_nothing_half_is_found(tmp_path: Path) -> None:
    text = (
        'extern "C" void scale(const float* x, const float* weight, float* out, long n) {\n'
        "  for (long i = 0; i < n; i++) out[i] = x[i] * weight[i];\n}\n"
    )
    (tmp_path / "kernel.cpp").write_text(text)
    draw = random.Random(3)
    for _ in range(5):
        parent = subprocess.Popen(
            [sys.executable, "-c", BUILD, str(tmp_path / "kernel.cpp")], stdout=subprocess.PIPE, start_new_session=True
        )
        assert parent.stdout is not None
        for _ in range(2):  # ready, and the first pair is in the cache
            parent.stdout.readline()
        time.sleep(0.3 + draw.random() * 0.7)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
        parent.stdout.close()
    _wait_until_unused(cache.folder())
    whole = list(cache.folder().glob("k1-*"))
    assert whole
    with Builder(detect_target(), workers=2) as builder:
        for number in range(3):
            candidates = [scale_candidate("cpp", text + f"// {number} {half}\n") for half in (0, 1)]
            for outcome in builder.build(scale_problem(), candidates):
                assert isinstance(outcome, Artifact)
                assert outcome.blob == cache.blob_digest(Path(outcome.path))


def _wait_until_unused(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while _users_of(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _users_of(folder), "a worker or compiler outlived its parent"


def _users_of(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            environ, words = (path / "environ").read_bytes(), (path / "cmdline").read_bytes()
        except OSError:
            continue
        if os.fsencode(folder.parent) in environ + words and int(path.name) != os.getpid():
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_ctrl_c_ends_the_workers_and_keeps_the_cache(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text('extern "C" void scale(const float*, const float*, float*, long) {}\n')
    parent = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(tmp_path / "kernel.cpp")], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    time.sleep(0.8)
    parent.send_signal(signal.SIGINT)
    _, error = parent.communicate(timeout=120)
    assert parent.returncode != 0
    assert error.decode().rstrip().endswith("KeyboardInterrupt")
    _wait_until_unused(cache.folder())


# --------------------------------------------------------------------- our own programs


def test_programs_are_built_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "answer.cpp"
    source.write_text("#include <cstdio>\n#include <cmath>\nint main() { std::puts(TEXT); }\n")
    flags = ('-DTEXT="forty-two"', "-lm")
    path = build_program(source, flags=flags)
    assert subprocess.run([path], capture_output=True, text=True, check=True).stdout == "forty-two\n"
    path.write_bytes(b"#!/bin/sh\necho forged\n")
    assert build_program(source, flags=flags) == path
    assert subprocess.run([path], capture_output=True, text=True, check=True).stdout == "forty-two\n"
    with monkeypatch.context() as patch:
        patch.setattr(bounded, "run", lambda *_, **__: pytest.fail("compiled again"))
        assert build_program(source, flags=flags) == path
    assert build_program(source, flags=('-DTEXT="other"',)) != path
    assert program.FORMAT == 1


def test_program_that_does_not_compile_is_our_fault(tmp_path: Path) -> None:
    source = tmp_path / "broken.cpp"
    source.write_text("int main( {}\n")
    with pytest.raises(KernelwrightError, match=r"broken\.cpp does not compile: .*error"):
        build_program(source)


def test_bounded_commands_have_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPATH", "/tmp")
    monkeypatch.setenv("SECRET", "1")
    ended = bounded.run(["/usr/bin/env"], folder=tmp_path, temporary=tmp_path / "temporary", limits=bounded.Limits())
    names = {line.partition("=")[0] for line in ended.output.splitlines()} - {"PWD", "OLDPWD", "_", "SHLVL"}
    assert names == {"PATH", "LC_ALL", "TMPDIR", "HOME", "SOURCE_DATE_EPOCH"}


def test_bounded_trees_are_killed_whole(tmp_path: Path) -> None:
    limits = bounded.Limits(time_s=1.0)
    nap = f"600.{os.getpid()}"
    script = f"sh -c 'sleep {nap} & sleep {nap}; true' & sleep {nap}; true"
    ended = bounded.run(["/bin/sh", "-c", script], folder=tmp_path, temporary=tmp_path / "temporary", limits=limits)
    assert ended.status is None
    deadline = time.monotonic() + 60
    while _sleepers(nap) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _sleepers(nap)


def _sleepers(nap: str) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if nap.encode() in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_bounded_limits_hold(tmp_path: Path) -> None:
    limits = bounded.Limits(memory_bytes=1 << 30, file_bytes=1 << 20, time_s=7)
    ended = bounded.run(
        ["/bin/sh", "-c", "ulimit -v; ulimit -f; ulimit -t; ulimit -c"],
        folder=tmp_path, temporary=tmp_path / "temporary", limits=limits,
    )  # fmt: skip
    assert ended.output.split() == ["1048576", "2048", "7", "0"]
