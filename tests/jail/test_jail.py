"""Jails: what is inside can change, reach and use only what it was given, with every engine and each layer alone."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kernelwright.errors import UserError
from kernelwright.jail import Jail, preferred_engine, strength
from kernelwright.jail import filter as calls

HOSTILE = Path(__file__).with_name("hostile.py")
ENGINES = strength().engines
DEADLINE_S = 30.0
MIB = 1 << 20
IS_ROOT = os.geteuid() == 0


@dataclass
class Told:
    """What became of a jailed command."""

    status: int
    text: str
    reason: str
    took_s: float

    @property
    def lines(self) -> dict[str, str]:
        return dict(line.rsplit(": ", 1) for line in self.text.splitlines() if ": " in line)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    return made


def attempt(folder: Path, name: str, *arguments: object, **settings: Any) -> Told:
    jail = Jail(write=str(folder), read=(str(HOSTILE),), **settings)
    started = time.monotonic()
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-I", str(HOSTILE), name, *map(str, arguments)]
        with jail.start(command, stdout=said, stderr=said) as jailed:
            status = jailed.wait(DEADLINE_S)
            reason = jailed.reason
        said.seek(0)
        text = said.read(1 << 20).decode(errors="replace")
    return Told(status, text, reason, time.monotonic() - started)


def running(word: str) -> list[int]:
    """Returns the processes on the machine whose command line has a word of its own."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if word in words and state != "Z":
                found.append(int(entry.name))
    return found


def gone(word: str) -> bool:
    """Waits until no process has the word any more."""
    for _ in range(1200):
        if not running(word):
            return True
        time.sleep(0.05)
    return False


_naps = iter(range(10_000))


def own_nap() -> str:
    """A length of sleep by which a process of this test is known, also where other runs of it are under way."""
    return f"{7000 + os.getpid()}.{next(_naps):04d}1"


# ----------------------------------------------------------------------------------------------------- every engine


def test_status_signal_and_output_come_back(folder: Path, engine: str) -> None:
    with tempfile.TemporaryFile() as said:
        with Jail(write=str(folder), engine=engine).start(["/bin/sh", "-c", "echo $FLAG; exit 7"], stdout=said,
                                                          environment={"FLAG": "given"}) as jailed:  # fmt: skip
            assert jailed.wait(DEADLINE_S) == 7
        said.seek(0)
        assert said.read() == b"given\n"
    with Jail(write=str(folder), engine=engine).start(["/bin/sh", "-c", "kill -SEGV $$"]) as jailed:
        assert jailed.wait(DEADLINE_S) == -signal.SIGSEGV
    assert list(folder.iterdir()) == []


def test_no_network(folder: Path, engine: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = attempt(folder, "network", server.getsockname()[1], engine=engine)
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    assert set(told.lines) == {"tcp", "udp"}
    assert "done" not in told.lines.values(), told.text


def test_network_can_be_given(folder: Path, engine: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = attempt(folder, "network", server.getsockname()[1], engine=engine, network=True)
    assert told.lines == {"tcp": "done", "udp": "done"}


def test_sockets_of_other_programs_cannot_be_reached(folder: Path, engine: str) -> None:
    with tempfile.TemporaryDirectory() as short, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{short}/s")
        server.listen()
        told = attempt(folder, "local_socket", f"{short}/s", engine=engine)
    assert told.lines["unix"] != "done"


def test_only_the_folder_can_be_written(folder: Path, engine: str, tmp_path: Path) -> None:
    home = Path.home() / f".kernelwright-test-{os.getpid()}"
    outside = [tmp_path / "beside", home, Path(f"/tmp/kernelwright-test-{os.getpid()}"), Path("/usr/kernelwright-test"),
               HOSTILE.with_name("made"), HOSTILE]  # fmt: skip
    text = HOSTILE.read_text()
    told = attempt(folder, "files", *outside, engine=engine)
    assert told.lines["own"] == "done"
    assert (folder / "own").read_text() == "was here"
    assert not [path for path in outside[:-1] if path.exists()]
    assert HOSTILE.read_text() == text


def test_other_files_and_processes_cannot_be_read(folder: Path, engine: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the answer")
    told = attempt(folder, "secrets", secret, os.getpid(), engine=engine)
    assert len(told.lines) == 5
    assert "done" not in told.lines.values(), told.text


def test_threads_can_be_named_where_a_gpu_is_used(folder: Path, engine: str) -> None:
    told = attempt(folder, "name_thread", engine=engine, devices=("nvidia",))
    lines = told.lines
    assert lines.pop("own") == "done", told.text
    if engine == "bubblewrap":  # its /proc is writable but for the kernel's own files
        assert lines["the kernel"] != "done"
    else:
        assert len(lines) == 3
        assert "done" not in lines.values(), told.text


@pytest.mark.parametrize("layer", ["landlock", "seccomp"])
def test_each_layer_alone_lets_threads_be_named(folder: Path, layer: str) -> None:
    assert attempt(folder, "name_thread", devices=("nvidia",), **{layer: False}).lines["own"] == "done"


def test_a_fork_bomb_ends(folder: Path, engine: str) -> None:
    own = own_nap()
    told = attempt(folder, "bomb", own, engine=engine, processes=64, wall_s=5.0)
    assert told.reason.startswith(("processes", "time")), told
    assert not running(own)


def test_a_full_disk_ends_it(folder: Path, engine: str) -> None:
    told = attempt(folder, "disk", engine=engine, disk_bytes=50 * MIB)
    assert told.reason.startswith("disk"), told


def test_a_file_cannot_grow_beyond_its_bound(folder: Path, engine: str) -> None:
    told = attempt(folder, "big_file", engine=engine, file_bytes=8 * MIB)
    assert told.text.split() == ["big:", "EFBIG", "8"]


def test_memory_is_bounded(folder: Path, engine: str) -> None:
    told = attempt(folder, "memory", engine=engine, memory_bytes=256 * MIB)
    assert told.lines == {"memory": "MemoryError"}
    for way in ("shared_memory", "many_memories"):
        told = attempt(folder, way, engine=engine, memory_bytes=256 * MIB)
        assert told.reason.startswith("memory"), told


def test_time_is_bounded(folder: Path, engine: str) -> None:
    assert attempt(folder, "spin", engine=engine, wall_s=0.5).reason.startswith("time")
    told = attempt(folder, "spin", engine=engine, cpu_s=1.0)
    assert told.reason.startswith("cpu") or told.status in (-signal.SIGXCPU, -signal.SIGKILL), told


def test_a_flood_of_output_ends_it(folder: Path, engine: str) -> None:
    told = attempt(folder, "flood", engine=engine, output_bytes=8 * MIB)
    assert told.reason.startswith("output") or told.status == -signal.SIGXFSZ


def test_children_that_left_are_ended_too(folder: Path, engine: str) -> None:
    nap = own_nap()
    told = attempt(folder, "leave_children", nap, engine=engine)
    assert told.status == 0
    assert not running(nap)


def test_it_cannot_kill_others(folder: Path, engine: str) -> None:
    nap = own_nap()
    with subprocess.Popen(["/bin/sleep", nap]) as bystander:
        told = attempt(folder, "kill_all", bystander.pid, engine=engine)
        assert bystander.poll() is None
        bystander.kill()
    assert told.status is not None


def test_it_cannot_trace_others(folder: Path, engine: str) -> None:
    with subprocess.Popen(["/bin/sleep", own_nap()]) as bystander:
        told = attempt(folder, "trace", bystander.pid, engine=engine)
        bystander.kill()
    assert len(told.lines) == 2
    assert "done" not in told.lines.values(), told.text


def test_limits_cannot_be_raised(folder: Path, engine: str) -> None:
    lines = attempt(folder, "raise_limits", engine=engine).lines
    assert set(lines.values()) <= {"ValueError", "EPERM"}, lines


def test_only_the_given_descriptors_are_open(folder: Path, engine: str) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        assert attempt(folder, "descriptors", engine=engine).text.strip() == "open: []"
    finally:
        os.close(reader)
        os.close(writer)


def test_no_new_namespaces_mounts_or_devices(folder: Path, engine: str) -> None:
    assert set(attempt(folder, "namespaces", engine=engine).lines.values()) == {"EPERM"}
    lines = attempt(folder, "sysctl", engine=engine).lines
    assert len(lines) == 2
    assert "done" not in lines.values(), lines


def test_shared_memory_does_not_outlive_it(folder: Path, engine: str) -> None:
    name = f"kernelwright-test-{os.getpid()}"
    attempt(folder, "leave_memory", name, engine=engine)
    assert not Path("/dev/shm", name).exists()
    assert "0x00006b77" not in subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout


# ----------------------------------------------------------------------------------------------- each layer by itself


@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "landlock"])
def test_namespaces_alone_hold_files_network_and_processes(folder: Path, engine: str, tmp_path: Path) -> None:
    alone = {"engine": engine, "landlock": False, "seccomp": False}
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = attempt(folder, "network", server.getsockname()[1], **alone)
        assert told.lines["tcp"] == "ECONNREFUSED" or told.lines["tcp"] == "ENETUNREACH"
    beside = tmp_path / "beside"
    told = attempt(folder, "files", beside, "/usr/kernelwright-test", **alone)
    assert told.lines["/usr/kernelwright-test"] == "EROFS"
    assert not beside.exists()
    with subprocess.Popen(["/bin/sleep", own_nap()]) as bystander:
        attempt(folder, "kill_all", bystander.pid, **alone)
        assert bystander.poll() is None
        told = attempt(folder, "secrets", beside, bystander.pid, **alone)
        bystander.kill()
    assert set(told.lines.values()) == {"ENOENT"}


def test_landlock_alone_holds_files_signals_and_tcp(folder: Path, tmp_path: Path) -> None:
    abi = strength().landlock
    if not abi:
        pytest.skip("this kernel has no Landlock")
    alone = {"engine": "landlock", "seccomp": False}
    told = attempt(folder, "files", tmp_path / "beside", "/usr/kernelwright-test", **alone)
    assert [told.lines[str(p)] for p in (tmp_path / "beside", "/usr/kernelwright-test")] == ["EACCES", "EACCES"]
    assert told.lines["own"] == "done"
    with socket.create_server(("127.0.0.1", 0)) as server:
        told = attempt(folder, "network", server.getsockname()[1], **alone)
        assert abi < 4 or told.lines["tcp"] == "EACCES"
    with subprocess.Popen(["/bin/sleep", own_nap()]) as bystander:
        told = attempt(folder, "secrets", HOSTILE.with_name("test_jail.py"), bystander.pid, **alone)
        if abi >= 6:
            assert attempt(folder, "kill_all", bystander.pid, **alone).lines["kill one"] == "EPERM"
            assert bystander.poll() is None
        bystander.kill()
    assert set(told.lines.values()) == {"EACCES"}


@pytest.mark.parametrize("engine", [e for e in ENGINES if e != "landlock"])
def test_seccomp_alone_refuses_what_namespaces_leave_open(folder: Path, engine: str) -> None:
    refused = attempt(folder, "namespaces", engine=engine, landlock=False).lines
    assert set(refused.values()) == {"EPERM"}
    told = attempt(folder, "local_socket", "/nothing", engine=engine, landlock=False)
    assert told.lines == {"unix": "EACCES"}
    assert attempt(folder, "local_socket", "/nothing", engine=engine, landlock=False, seccomp=False).lines == {
        "unix": "ENOENT"
    }
    lines = attempt(folder, "leave_memory", "x", engine=engine, landlock=False).lines
    assert lines["system v"] == "EPERM"


def test_the_filter_without_landlocks_scopes_guards_other_processes(folder: Path) -> None:
    """On kernels before 6.12 the filter refuses signals, since Landlock does not yet."""
    program = calls.program(network=False, local_sockets=False, memory_files=False, grouped=True, signals=True)
    code = (
        "import ctypes, os, signal, struct, sys\n"
        "program = bytes.fromhex(sys.argv[1]); libc = ctypes.CDLL(None, use_errno=True)\n"
        "class P(ctypes.Structure): _fields_ = (('n', ctypes.c_ushort), ('p', ctypes.c_void_p))\n"
        "space = ctypes.create_string_buffer(program, len(program))\n"
        "libc.prctl(38, 1, 0, 0, 0); libc.prctl(22, 2, ctypes.byref(P(len(program) // 8, ctypes.addressof(space))))\n"
        "for target in (os.getppid(), -1, os.getpid()):\n"
        "    try: os.kill(target, signal.SIGTERM); print('done')\n"
        "    except PermissionError: print('refused')\n"
        "group = os.getpgid(0); os.setsid(); os.setpgid(0, 0); print(os.getpgid(0) == group)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, program.hex()], capture_output=True, text=True, timeout=30,
                          check=True, start_new_session=True)  # fmt: skip
    assert done.stdout.split() == ["refused", "refused", "refused", "True"]


# ---------------------------------------------------------------------------------------------- whole-jail endings


def test_it_ends_with_its_jailer(folder: Path, engine: str) -> None:
    nap = own_nap()
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-I", str(HOSTILE), "nap", nap]
        with Jail(write=str(folder), read=(str(HOSTILE),), engine=engine).start(command, stdout=said) as jailed:
            _wait_for(said)
            assert running(nap)
            os.kill(jailed.pid, signal.SIGKILL)
            assert jailed.wait(DEADLINE_S) == -signal.SIGKILL
    assert gone(nap)


def test_it_ends_with_its_parent(folder: Path, engine: str) -> None:
    nap = own_nap()
    code = (
        "from kernelwright.jail import Jail; import sys, time\n"
        f"jail = Jail(write={str(folder)!r}, read=({str(HOSTILE)!r},), engine={engine!r})\n"
        f"jailed = jail.start([sys.executable, '-I', {str(HOSTILE)!r}, 'nap', {nap!r}], stdout=1)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"asleep\n"
        parent.send_signal(signal.SIGKILL)
    assert gone(nap)


def test_closing_it_leaves_nothing(folder: Path, engine: str) -> None:
    nap = own_nap()
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-I", str(HOSTILE), "nap", nap]
        with Jail(write=str(folder), read=(str(HOSTILE),), engine=engine).start(command, stdout=said):
            _wait_for(said)
    assert not running(nap)


def _wait_for(said: Any) -> None:
    for _ in range(1200):
        said.seek(0)
        if said.read():
            return
        time.sleep(0.05)
    raise AssertionError("it never spoke")


# ----------------------------------------------------------------------------------------------------- what is there


def test_the_preferred_engine_is_the_first_that_works() -> None:
    assert preferred_engine() == ENGINES[0]
    found = strength()
    assert Jail().describe().split(", ")[-2:] == ["rlimits", "watch"]
    assert {name for name, _ in found.problems} | set(found.engines) == {"bubblewrap", "namespaces", "landlock"}


def test_what_cannot_be_put_up_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        Jail(write=str(folder / "nowhere")).start(["/bin/true"])
    with pytest.raises(UserError, match="does not exist"):
        Jail(read=(str(folder / "nowhere"),)).start(["/bin/true"])
    with Jail(write=str(folder)).start([str(folder / "nothing")]) as jailed, pytest.raises(UserError, match="put up"):
        jailed.wait(DEADLINE_S)


NESTED = (
    "from kernelwright.jail import Jail, strength\n"
    "found = strength()\n"
    "with Jail().start(['/bin/sh', '-c', 'echo > /tmp/x']) as jailed: print(found.engines, jailed.wait(20))\n"
)


def test_where_namespaces_are_forbidden_landlock_holds(folder: Path) -> None:
    """As in a container that forbids them: a jail inside a jail has Landlock left."""
    if not strength().landlock:
        pytest.skip("this kernel has no Landlock")
    with tempfile.TemporaryFile() as said:
        with Jail(write=str(folder)).start([sys.executable, "-c", NESTED], stdout=said, stderr=said) as jailed:
            jailed.wait(DEADLINE_S)
        said.seek(0)
        assert said.read().decode().split("\n")[-2] == "('landlock',) 2"


def test_an_ordinary_user_can_jail() -> None:
    if not IS_ROOT:
        pytest.skip("the other tests have shown it")
    python = next((p for p in (sys.executable, "/usr/bin/python3") if _works_for_nobody(p)), None)
    if python is None:
        pytest.skip("no Python here can be run by an ordinary user")
    done = _as_nobody(python, NESTED.replace("Jail()", f"Jail(engine={preferred_engine()!r})"))
    assert done.stdout.strip().startswith(f"('{preferred_engine()}'"), done.stderr


def _as_nobody(python: str, code: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PATH": os.environ["PATH"]}
    return subprocess.run([python, "-B", "-c", code], capture_output=True, text=True, timeout=60, check=False,
                          user=65534, group=65534, extra_groups=[], env=environment, cwd="/")  # fmt: skip


def _works_for_nobody(python: str) -> bool:
    try:
        return _as_nobody(python, "import sys, kernelwright.jail; assert sys.version_info >= (3, 11)").returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
)
def test_numbers_of_system_calls_are_the_kernels(column: int, header: str) -> None:
    # The generic table is aarch64's; the headers may be older than a call.
    if not Path(header).exists():
        pytest.skip("the kernel's headers are not installed")
    found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text()))
    known = {name: numbers[column] for name, numbers in calls.NUMBERS.items() if name in found}
    assert len(known) > 60
    assert known == {name: int(found[name]) for name in known}
