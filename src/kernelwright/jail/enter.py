"""The jailer: a small program that builds a jail round one command, watches it, and ends it whole.

    python -I -S -c "..." FOLDER SPECIFICATION      (see Jail in jail.py, which writes the specification)

It is started by path and imports only what Python always has, so that it starts in about 15 ms; everything that
needs thought (which paths, which system calls) was decided by the parent. Nothing runs in a jail of which a layer
that was asked for could not be put up: it says why on its report and ends with status 125.

Three processes where there are namespaces: this one, which only waits; the keeper, which is process 1 of its own
namespace, so that its end is the end of everything below it; and the command. Elsewhere the jailer is the keeper.
Not here: what a jail is made of (jail.py, view.py, filter.py), and which layers this machine has (layers.py).
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the module round it takes 7 ms to import
import ctypes
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLONE = {"user": 0x10000000, "mount": 0x20000, "pid": 0x20000000, "network": 0x40000000, "ipc": 0x8000000,
         "names": 0x4000000, "cgroup": 0x2000000}  # fmt: skip
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
SYS_MOUNT_SETATTR, SYS_LANDLOCK = 442, 444
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
ADDR_NO_RANDOMIZE = 0x40000
UNUSABLE = 125
"""The status of a jail that could not be put up."""
LEAST_PIDS = 301
"""The smallest limit on process numbers that Linux takes."""

libc = ctypes.CDLL(None, use_errno=True)


class suppressed:  # noqa: N801  (contextlib would have to be imported)
    """Lets an error of the operating system pass: what was to be done is done already, or cannot be."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, OSError)


class Unusable(Exception):
    """A layer could not be put up."""


def call(what: str, number: int, *arguments: object) -> int:
    """Makes a raw system call.

    Raises:
        Unusable: when the system refuses it.
    """
    return checked(what, libc.syscall(ctypes.c_long(number), *map(_argument, arguments)))


def checked(what: str, result: int) -> int:
    """Returns a C function's result.

    Raises:
        Unusable: when it is -1.
    """
    if result < 0:
        raise Unusable(f"{what}: {os.strerror(ctypes.get_errno())}")
    return result


def _argument(value: object) -> object:
    return ctypes.c_long(value) if isinstance(value, int) else value


def prctl(option: int, argument: int) -> int:
    """Calls prctl and returns what it says; the caller decides whether that matters."""
    return int(libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0))


def machine() -> str:
    """Returns the processor's architecture."""
    return os.uname().machine


# ------------------------------------------------------------------------------------------- namespaces and mounts


def unshare(names: list[str]) -> None:
    """Leaves the given namespaces of the parent for new ones, oneself mapped to oneself."""
    user, group = os.getuid(), os.getgid()
    flags = 0
    for name in names:
        flags |= CLONE[name]
    checked("unshare", libc.unshare(flags))
    if "user" in names:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")


def _write(path: str, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from None


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mounts a file system."""
    done = libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    checked(f"mount {target}", done)


def build_root(steps: list[tuple[str, str, str]], processes: int) -> None:
    """Makes a new root of nothing but what the steps name, and leaves the old one.

    Args:
        steps: (kind, path, detail) in order: `read`, `write` and `device` bind what lies at the path, `link` makes a
            symbolic link to the detail, `memory` mounts an empty file system of that many bytes.
        processes: how many processes the namespace may hold, where Linux keeps such a limit for each.
    """
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    os.mkdir("/tmp/.old")
    os.chdir("/tmp")
    call("pivot_root", SYS_PIVOT_ROOT[machine()], b"/tmp", b"/tmp/.old")
    os.chdir("/")
    for kind, path, detail in steps:
        if kind == "link":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(detail, path)
        elif kind == "memory":
            os.makedirs(path, exist_ok=True)
            mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={detail}")
        else:
            _bind(kind, path)
    os.makedirs("/proc", exist_ok=True)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _bound_pids(processes)
    mount("none", "/proc", "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    checked("umount", libc.umount2(b"/.old", MNT_DETACH))
    os.rmdir("/.old")
    mount("none", "/", "", MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def _bind(kind: str, path: str) -> None:
    source = "/.old" + path
    if os.path.isdir(source):
        os.makedirs(path, exist_ok=True)
    elif os.path.exists(source):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    else:
        return
    mount(source, path, "", MS_BIND | MS_REC)
    if kind != "device":
        attributes = (ctypes.c_uint64 * 4)(MS_NOSUID | MS_NODEV | (MS_RDONLY if kind == "read" else 0), 0, 0, 0)
        call(f"mount_setattr {path}", SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), AT_RECURSIVE, attributes, 32)


def _bound_pids(processes: int) -> None:
    """Numbers run out at the limit, which stops whoever forks without end: root is bound by no other limit."""
    try:
        with open("/proc/sys/kernel/pid_max", "r+") as file:
            if int(file.read()) > LEAST_PIDS:
                file.seek(0)
                file.write(str(max(LEAST_PIDS, processes)))
    except (OSError, ValueError):
        return  # before Linux 6.14 the limit is the whole machine's


def let_threads_be_named() -> None:
    """Lets this process, and nobody below it, write into its own threads' files; all else of /proc stays as it is.

    CUDA's cuInit names its threads by /proc/self/task/N/comm and gives up where it cannot.
    """
    path = f"/proc/{os.getpid()}/task"
    mount(path, path, "", MS_BIND)
    mount("none", path, "", MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC)


# ------------------------------------------------------------------------------------ what the command does to itself


def landlock(handled: tuple[int, int, int], rules: list[tuple[str, int, int]], abi: int) -> None:
    """Forbids everything that is handled but for the rules: (path, rights, rights for a file)."""
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = call("landlock", SYS_LANDLOCK, (ctypes.c_uint64 * 3)(*handled), size, 0)
    for path, rights, file_rights in rules:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # what is not there can be left out: nothing is allowed by that
        allowed = rights if os.path.isdir(path) else file_rights
        rule = (ctypes.c_char * 12).from_buffer_copy(
            allowed.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
        )
        call(f"landlock {path}", SYS_LANDLOCK + 1, ruleset, 1, rule, 0)
        os.close(descriptor)
    call("landlock", SYS_LANDLOCK + 2, ruleset, 0)
    os.close(ruleset)


def seccomp(program: bytes) -> None:
    """Installs a filter of system calls, made by filter.py."""
    code = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    given = Program(len(program) // 8, ctypes.addressof(code))
    call("seccomp", SYS_SECCOMP[machine()], 1, 0, ctypes.byref(given))


def drop_rights() -> None:
    """Gives up every capability for good, and the gain of new ones by any program."""
    checked("no_new_privs", libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0))
    prctl(PR_CAP_AMBIENT, 4)
    for capability in range(64):
        if prctl(PR_CAPBSET_DROP, capability) < 0 and ctypes.get_errno() == 22:
            break
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    call("capset", SYS_CAPSET[machine()], header, (ctypes.c_uint32 * 6)())


def become(spec: dict[str, Any], report: int) -> None:
    """Puts up the layers that hold the command itself and becomes it; returns never."""
    try:
        os.setpgid(0, 0)
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.chdir(spec["folder"])
        _close_others({0, 1, 2, report, *spec["descriptors"]})
        for which, most in spec["limits"]:
            _limit(which, most)
        if spec["names_threads"]:
            let_threads_be_named()
        drop_rights()
        if spec["fixed_addresses"]:
            checked("personality", libc.personality(ctypes.c_ulong(ADDR_NO_RANDOMIZE)))
        if spec["landlock"]:
            landlock(*spec["landlock"])
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)  # Python ignores them, and what is ignored stays so
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.set_inheritable(report, False)
        if spec["filter"]:
            seccomp(spec["filter"])
        os.execve(spec["command"][0], spec["command"], spec["environment"])
    except (OSError, Unusable) as error:
        say(report, "unusable", str(error))
    except BaseException as error:  # noqa: BLE001  (whatever it is, the command must not run half jailed)
        say(report, "unusable", repr(error))
    os._exit(UNUSABLE)


def _limit(which: int, most: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(which, (most, most))


def _close_others(kept: set[int]) -> None:
    below = 3
    for descriptor in sorted(kept | {1 << 20}):
        if descriptor >= 3:
            os.closerange(below, descriptor)
            below = descriptor + 1


# ---------------------------------------------------------------------------------------------------- keeping watch


def say(report: int, what: str, detail: str) -> None:
    """Tells the parent one thing: a line `WORD DETAIL`."""
    try:
        os.write(report, f"{what} {' '.join(detail.split())[:1000]}\n".encode())
    except OSError:
        return


class Watch:
    """What the jail's processes use together, looked at a few times a second."""

    def __init__(self, spec: dict[str, Any], root: int) -> None:
        self.spec, self.root, self.started = spec, root, time.monotonic()
        self.bounds = spec["watch"]
        self.ticks = os.sysconf("SC_CLK_TCK")

    def fault(self) -> str:
        """Returns which bound is exceeded, in words; empty while all hold."""
        bounds = self.bounds
        members = self._members()
        if len(members) > bounds["processes"]:
            return f"processes: {len(members)} processes, {bounds['processes']} are allowed"
        if bounds["wall_s"] and time.monotonic() - self.started > bounds["wall_s"]:
            return f"time: it ran longer than {bounds['wall_s']:g} s"
        count, memory, shared, cpu = self._usage(members)
        if count > bounds["processes"]:
            return f"processes: {count} processes and threads, {bounds['processes']} are allowed"
        if memory + shared > bounds["memory_bytes"]:
            return f"memory: {(memory + shared) >> 20} MiB, {bounds['memory_bytes'] >> 20} are allowed"
        if bounds["cpu_s"] and cpu > bounds["cpu_s"]:
            return f"cpu: {cpu:.0f} s of processor time, {bounds['cpu_s']:g} are allowed"
        if self.spec["write"] and (used := disk_bytes(self.spec["write"], bounds["disk_bytes"])) > bounds["disk_bytes"]:
            return f"disk: {used >> 20} MiB, {bounds['disk_bytes'] >> 20} are allowed"
        if os.fstat(1).st_size > bounds["output_bytes"]:
            return f"output: it printed more than {bounds['output_bytes'] >> 20} MiB"
        return ""

    def _usage(self, members: list[int]) -> tuple[int, int, int, float]:
        """Processes and threads, their own memory, the largest share of common memory, and processor seconds."""
        count = memory = shared = 0
        cpu = 0.0
        for number in members:
            try:
                with open(f"/proc/{number}/status") as file:
                    found = dict(line.split(":", 1) for line in file if line[:3] in ("Rss", "Thr", "VmP"))
                with open(f"/proc/{number}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue
            count += int(found.get("Threads", "1"))
            memory += (int(found.get("RssAnon", "0").split()[0]) + int(found.get("VmPTE", "0").split()[0])) << 10
            shared = max(shared, int(found.get("RssShmem", "0").split()[0]) << 10)
            cpu += sum(map(int, fields[11:15])) / self.ticks
        return count, memory, shared, cpu

    def _members(self) -> list[int]:
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        if os.getpid() == 1:
            return [number for number in numbers if number != 1]
        return [number for number in numbers if _group(number) == self.root]


def _group(number: int) -> int:
    try:
        return os.getpgid(number)
    except OSError:
        return 0


def disk_bytes(folder: str, most: int) -> int:
    """Returns what the files below a folder take on the disk; stops counting beyond `most`."""
    total, todo = 0, [folder]
    while todo and total <= most:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except OSError:
            continue
    return total


def keep(spec: dict[str, Any], report: int) -> int:
    """Starts the command, watches until it ends or has to, ends what is left, and returns the status to exit with."""
    prctl(PR_SET_DUMPABLE, 0)
    root = os.fork()
    if root == 0:
        become(spec, report)
    with suppressed():
        os.setpgid(root, root)  # both do it, so that it is done whoever comes first
    say(report, "group", str(root))
    for descriptor in spec["descriptors"]:
        os.close(descriptor)
    watch, poll = Watch(spec, root), select.poll()
    life = spec["life"]
    poll.register(life, 0)  # POLLHUP comes unasked: the parent is gone, or wants the end
    end = _process_descriptor(root)
    if end >= 0:
        poll.register(end, select.POLLIN)
    period_ms = spec["watch"]["period_ms"]
    while True:
        ready = {descriptor for descriptor, _ in poll.poll(period_ms if end >= 0 else min(period_ms, 10))}
        if life in ready:
            return _end(root, report, "killed")
        status = _reap(root)
        if status is not None:
            how = f"signal {-status}" if status < 0 else f"status {status}"
            _end(root, report, "")
            say(report, "ended", how)
            return status if status >= 0 else 128 - status
        if fault := watch.fault():
            say(report, "limit", fault)
            return _end(root, report, "killed")


def _process_descriptor(process: int) -> int:
    try:
        return os.pidfd_open(process)
    except OSError:
        return -1


def _reap(root: int) -> int | None:
    """Takes leave of children that ended; returns the root's status, negative for a signal, when it is among them."""
    found = None
    while True:
        try:
            number, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if number == 0:
            return found
        if number == root:
            found = os.waitstatus_to_exitcode(status)


def _end(root: int, report: int, word: str) -> int:
    """Kills everything that is left and waits until it is gone."""
    while True:
        with suppressed():
            # As process 1: everything else in the namespace. Elsewhere: the group, which nobody could leave.
            os.kill(-1 if os.getpid() == 1 else -root, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    if word:
        say(report, "ended", f"signal {signal.SIGKILL}")
    return 128 + int(signal.SIGKILL)


def main() -> int:
    """Puts up the jail and returns the status to exit with."""
    spec = marshal.loads(bytes.fromhex(sys.argv[2]))
    report = spec["report"]
    with suppressed():
        # Root is bound by no number of processes before Linux 6.14: the keeper must come to its turn among thousands.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        if spec["engine"] == "namespaces":
            return _behind_namespaces(spec, report)
        if spec["engine"] == "bubblewrap":
            if os.getpid() != 1:
                raise Unusable("bubblewrap has not made this process the first of its namespace")
        else:
            if prctl(PR_SET_CHILD_SUBREAPER, 1) < 0:
                raise Unusable("this kernel has no subreapers")
        _prefer_for_oom()
        return keep(spec, report)
    except (OSError, Unusable) as error:
        say(report, "unusable", str(error))
        return UNUSABLE


def _behind_namespaces(spec: dict[str, Any], report: int) -> int:
    _prefer_for_oom()
    unshare(spec["namespaces"])
    keeper = os.fork()
    if keeper == 0:
        status = UNUSABLE
        try:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            build_root(spec["mounts"], spec["watch"]["processes"])
            status = keep(spec, report)
        except (OSError, Unusable) as error:
            say(report, "unusable", str(error))
        finally:
            os._exit(status)
    for descriptor in spec["descriptors"]:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(keeper, 0)[1]) % 256


def _prefer_for_oom() -> None:
    """When the machine runs out of memory, the jail's processes are the ones that should go."""
    try:
        _write("/proc/self/oom_score_adj", "800")
    except Unusable:
        return


if __name__ == "enter":
    os._exit(main())
