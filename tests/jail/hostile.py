"""What other people's code may try: run as `python hostile.py NAME [ARGUMENTS]` in a jail, prints what it achieved."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)


def attempt(what: str, action: Callable[[], object]) -> None:
    try:
        action()
        print(f"{what}: done")
    except OSError as error:
        print(f"{what}: {errno.errorcode.get(error.errno or 0, '?')}")
    except Exception as error:  # noqa: BLE001
        print(f"{what}: {type(error).__name__}")


def raw(what: str, result: int) -> None:
    print(f"{what}: {'done' if result >= 0 else errno.errorcode[ctypes.get_errno()]}")


def write(path: str) -> None:
    with open(path, "a") as file:
        file.write("was here")


def read_byte(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def network(port: str) -> None:
    attempt("tcp", lambda: socket.create_connection(("127.0.0.1", int(port)), 2).close())
    attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(port))))


def local_socket(path: str) -> None:
    attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect(path))


def files(*paths: str) -> None:
    for path in paths:
        attempt(path, lambda path=path: write(path))  # type: ignore[misc]
    attempt("own", lambda: write("own"))


def secrets(path: str, parent: str) -> None:
    attempt("file", lambda: Path(path).read_text())
    for name in ("mem", "environ", "maps"):
        attempt(name, lambda name=name: read_byte(f"/proc/{parent}/{name}"))  # type: ignore[misc]
    attempt("write mem", lambda: os.close(os.open(f"/proc/{parent}/mem", os.O_RDWR)))


def bomb(mark: str) -> None:
    while True:
        with contextlib.suppress(OSError):
            os.fork()


def disk() -> None:
    block = b"x" * (1 << 20)
    for number in range(4000):
        with open(f"file{number}", "wb") as file:
            file.write(block)


def big_file() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill() -> None:
        with open("big", "wb") as file:
            for _ in range(1000):
                file.write(b"x" * (1 << 20))

    attempt("big", fill)
    print(os.path.getsize("big") >> 20)


def memory() -> None:
    def fill() -> None:
        held = []
        for _ in range(1000):
            held.append(bytearray(b"x") * (16 << 20))

    attempt("memory", fill)


def shared_memory() -> None:
    """Common memory is no process's own: only the watch counts it."""
    block = mmap.mmap(-1, 2 << 30)
    for at in range(0, len(block), mmap.PAGESIZE):
        block[at] = 1
    time.sleep(60)


def many_memories() -> None:
    for _ in range(8):
        if os.fork() == 0:
            memory()
            time.sleep(60)
    time.sleep(60)


def spin() -> None:
    while True:
        pass


def flood() -> None:
    block = b"noise " * 10_000
    while True:
        os.write(1, block)


def leave_children(seconds: str) -> None:
    """Two that left the session and whose parents are gone."""
    for _ in range(2):
        if os.fork() == 0:
            with contextlib.suppress(OSError):
                os.setsid()
            if os.fork() == 0:
                os.closerange(0, 3)
                os.execv("/bin/sleep", ["sleep", seconds])
            os._exit(0)
    time.sleep(0.3)


def kill_all(parent: str) -> None:
    for target in (int(parent), os.getppid(), -1):
        attempt(f"kill {'all' if target < 0 else 'one'}", lambda target=target: os.kill(target, signal.SIGKILL))  # type: ignore[misc]


def trace(parent: str) -> None:
    raw("ptrace", libc.ptrace(16, int(parent), 0, 0))
    space = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(space), 8)
    raw("read memory", libc.process_vm_readv(int(parent), vector, 1, vector, 1, 0))


def raise_limits() -> None:
    for name in ("RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC"):
        which = getattr(resource, name)
        more = resource.getrlimit(which)[1] + 1
        attempt(name, lambda which=which, more=more: resource.setrlimit(which, (more, more)))  # type: ignore[misc]


def descriptors() -> None:
    found = []
    for number in range(3, 4096):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(number)
    print("open:", found)


def namespaces() -> None:
    raw("unshare", libc.unshare(0x10000000))
    raw("mount", libc.mount(b"none", b"/", b"", 1 << 18, None))
    raw("clone", libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x10000011, 0, 0, 0, 0))


def leave_memory(name: str) -> None:
    attempt("posix", lambda: write(f"/dev/shm/{name}"))
    raw("system v", libc.shmget(0x6B77, 4096, 0o1600))


def sysctl() -> None:
    attempt("core_pattern", lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)))
    attempt("devices", lambda: os.mknod("disk", 0o60600, os.makedev(254, 0)))


def name_thread() -> None:
    """What CUDA does before anything else, from a thread of its own, and what the same right must not allow."""
    thread = threading.Thread(target=lambda: attempt("own", lambda: Path(own_name()).write_text("named")))
    thread.start()
    thread.join()
    for what, path in (
        ("its process", "/proc/self/oom_score_adj"),
        ("its parent", f"/proc/{os.getppid()}/task/{os.getppid()}/comm"),
        ("the kernel", "/proc/sys/vm/overcommit_memory"),
    ):
        attempt(what, lambda path=path: os.close(os.open(path, os.O_WRONLY)))  # type: ignore[misc]


def own_name() -> str:
    return f"/proc/self/task/{threading.get_native_id()}/comm"


def nap(seconds: str) -> None:
    """Sleeps in a grandchild too; says when all are there."""
    child = subprocess.Popen(["/bin/sleep", seconds])
    print("asleep", flush=True)
    child.wait()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
