"""What a jailed command sees of the file system, as mounts and as Landlock rules.

An allow-list: the system's programs and libraries, the Python that runs this, what the caller names, and one folder to
write in. Homes, temporary folders, sockets below /run and other people's files are not there.
Not here: putting it up (enter.py).
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable
from pathlib import Path

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store", "/sys",
    *(f"/etc/{name}" for name in (
        "alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "passwd", "group",
        "nsswitch.conf", "localtime", "os-release", "debian_version", "ssl", "pki", "OpenCL", "nvidia",
    )),
)  # fmt: skip
"""Read by every compiler and every Python; nothing of it is secret."""
BASIC_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
DEVICES = {"nvidia": ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dxg")}
"""By name: the device nodes that a kind of device needs."""
DEVICE_FILES = {"nvidia": ("/usr/local/nvidia", "/usr/lib/wsl", "/run/nvidia-persistenced", "/proc/driver/nvidia")}
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1, 2, 4, 8
TRUNCATE, IOCTL_DEVICE = 1 << 14, 1 << 15
READING = EXECUTE | READ_FILE | READ_FOLDER
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE
"""Rights that a rule for a single file may name."""


def visible(extra: Iterable[str]) -> tuple[str, ...]:
    """Returns the paths that can be read, none below another: the system, this Python, and `extra`."""
    packages = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    own = (sys.prefix, sys.base_prefix, sys.exec_prefix, *packages, *given, str(Path(__file__).parents[2]))
    wanted = {os.path.abspath(p) for p in (*SYSTEM, *own, *extra) if p}
    wanted |= {os.path.realpath(p) for p in wanted}
    kept: list[str] = []
    for path in sorted(p for p in wanted if p != "/" and os.path.lexists(p)):
        if not any(path == other or path.startswith(other + "/") for other in kept if not os.path.islink(other)):
            kept.append(path)
    return tuple(kept)


def device_nodes(devices: Iterable[str]) -> tuple[str, ...]:
    """Returns the device nodes of the named kinds that are there, the basic ones first."""
    patterns = [pattern for name in devices for pattern in DEVICES[name]]
    found = [path for pattern in patterns for path in sorted(glob.glob(pattern)) if not os.path.isdir(path)]
    return (*(p for p in BASIC_DEVICES if os.path.exists(p)), *found)


def mounts(
    paths: Iterable[str], *, write: str, devices: Iterable[str], memory_bytes: int
) -> list[tuple[str, str, str]]:
    """Returns the steps that build the new root, for `build_root` in enter.py."""
    steps = []
    for path in paths:
        if os.path.islink(path):
            steps.append(("link", path, os.readlink(path)))
        elif not path.startswith("/tmp/"):
            steps.append(("read", path, ""))
    steps += [("memory", "/tmp", str(memory_bytes)), ("memory", "/dev/shm", str(memory_bytes))]
    steps += [("device", path, "") for path in device_nodes(devices)]
    steps += [("link", "/dev/fd", "/proc/self/fd")]
    # Paths below /tmp lie on top of its empty file system.
    steps += [("read", path, "") for path in paths if path.startswith("/tmp/") and not os.path.islink(path)]
    return [*steps, ("write", write, "")] if write else steps


def landlock(
    paths: Iterable[str], *, write: str, devices: Iterable[str], abi: int, own_root: bool, network: bool
) -> tuple[tuple[int, int, int], list[tuple[str, int, int]], int]:
    """Returns the arguments of `landlock` in enter.py.

    Args:
        paths: what can be read.
        write: the folder where everything is allowed, empty for none.
        devices: kinds of devices whose nodes can be used.
        abi: the version of Landlock that the kernel has.
        own_root: whether /tmp and /dev/shm are the jail's own.
        network: whether TCP is allowed.
    """
    bits = {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)
    everything = (1 << bits) - 1
    ports = 0 if network or abi < 4 else 3
    scopes = 0 if abi < 6 else 3
    reading, using = READING & everything, (READ_FILE | WRITE_FILE | IOCTL_DEVICE) & everything
    rules = [(path, reading, reading & OF_FILES) for path in (*paths, "/proc")]
    rules += [("/", READ_FOLDER, 0)] if own_root else []
    rules += [(path, using, using) for path in device_nodes(devices)]
    # Opened by the command itself: its own threads' files and nobody else's (let_threads_be_named in enter.py).
    rules += [("/proc/self/task", (reading | WRITE_FILE | TRUNCATE) & everything, 0)] if "nvidia" in devices else []
    # A folder's own device files may not be talked to, whatever else may be done in it.
    folders = (write, "/tmp", "/dev/shm") if own_root else (write,)
    changing = everything & ~IOCTL_DEVICE
    rules += [(path, changing, changing & OF_FILES) for path in folders if path]
    return (everything, ports, scopes), rules, abi
