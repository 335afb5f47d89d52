"""The jail's filter of system calls, as the bytes of a seccomp program.

Everything that computing needs is left alone. What is refused: tracing other processes, new namespaces and mounts,
sockets, shared memory that outlives its maker, kernel interfaces with a long record of holes, changes to the machine.

**Covers**: sockets and the calls above, on x86_64 and aarch64, 32-bit entries closed.
**Does not cover**: files (view.py), amounts (the limits in jail.py).
"""

from __future__ import annotations

import errno
import platform
import socket
import struct

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What Linux calls the machines for which the numbers are known."""
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # name: (x86_64, aarch64)
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "unshare": (272, 97), "setns": (308, 268), "clone": (56, 220), "clone3": (435, 435),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18), "vhangup": (153, 58), "iopl": (172, None), "ioperm": (173, None),
    "modify_ldt": (154, None), "sethostname": (170, 161), "setdomainname": (171, 162),
    "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "socket": (41, 198), "socketpair": (53, 199),
    "setsid": (112, 157), "setpgid": (109, 154), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
    "prlimit64": (302, 261), "ioctl": (16, 29),
}  # fmt: skip
ALWAYS_REFUSED = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "process_madvise", "process_mrelease",
    "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "open_tree_attr", "unshare", "setns", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup",
    "io_uring_enter", "io_uring_register", "keyctl", "add_key", "request_key", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "syslog", "acct", "quotactl",
    "quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "name_to_handle_at",
    "open_by_handle_at", "fanotify_init", "lookup_dcookie", "vhangup", "iopl", "ioperm", "modify_ldt", "sethostname",
    "setdomainname", "shmget", "msgget", "semget", "mq_open", "memfd_secret",
)  # fmt: skip
NEW_NAMESPACES = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
TERMINAL_INPUT = (0x5412, 0x541C)
"""ioctl requests that put words into a terminal's mouth."""
LOAD, EQUAL, ANY_BIT, AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
ARGUMENT_0, ARGUMENT_1 = 16, 24
"""Where the low half of an argument lies; both supported machines are little-endian."""


def supported() -> bool:
    """Tells whether this machine's system calls are known by number."""
    return platform.machine() in ARCHITECTURES


def program(*, network: bool, local_sockets: bool, memory_files: bool, grouped: bool, signals: bool) -> bytes:
    """Returns the filter's code.

    Args:
        network: leave sockets alone.
        local_sockets: leave Unix sockets alone.
        memory_files: leave memfd_create alone.
        grouped: answer setsid and setpgid with success and do nothing, so that a group stays whole.
        signals: refuse signals but those to one's own group (abort() then ends by SIGSEGV).
    """
    code = _Code()
    for name in ALWAYS_REFUSED:
        code.refuse(name)
    code.refuse_bits("clone", ARGUMENT_0, NEW_NAMESPACES)
    code.refuse("clone3", errno.ENOSYS)  # its flags lie in memory; the C library then takes clone
    if not memory_files:
        code.refuse("memfd_create", errno.ENOSYS)
    for name in () if network else ("socket", "socketpair"):
        if local_sockets or name == "socketpair":
            code.refuse_unless_equal(name, ARGUMENT_0, socket.AF_UNIX)
        else:
            code.refuse(name, errno.EACCES)
    code.refuse_values("ioctl", ARGUMENT_1, TERMINAL_INPUT)
    if grouped:
        code.refuse("setsid", 0)
        code.refuse("setpgid", 0)
    if signals:
        code.refuse_unless_equal("kill", ARGUMENT_0, 0)
        for name in ("tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"):
            code.refuse(name)
        code.refuse_unless_equal("prlimit64", ARGUMENT_0, 0)
    return code.finish()


class _Code:
    def __init__(self) -> None:
        machine = platform.machine()
        self._column = list(ARCHITECTURES).index(machine)
        self._code: list[tuple[int, int, int, int]] = [
            (LOAD, 0, 0, 4), (EQUAL, 1, 0, ARCHITECTURES[machine]), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0),
        ]  # fmt: skip
        if machine == "x86_64":
            self._code += [(AT_LEAST, 0, 1, 0x40000000), (RETURN, 0, 0, ERRNO | errno.ENOSYS)]  # x32

    def _add(self, name: str, body: list[tuple[int, int, int, int]]) -> None:
        number = NUMBERS[name][self._column]
        if number is not None:
            self._code += [(EQUAL, 0, len(body), number), *body]

    def refuse(self, name: str, error: int = errno.EPERM) -> None:
        self._add(name, [(RETURN, 0, 0, ERRNO | error)])

    def refuse_bits(self, name: str, argument: int, bits: int) -> None:
        refused = (RETURN, 0, 0, ERRNO | errno.EPERM)
        self._add(name, [(LOAD, 0, 0, argument), (ANY_BIT, 0, 1, bits), refused, (RETURN, 0, 0, ALLOW)])

    def refuse_unless_equal(self, name: str, argument: int, wanted: int) -> None:
        refused = (RETURN, 0, 0, ERRNO | errno.EACCES)
        self._add(name, [(LOAD, 0, 0, argument), (EQUAL, 1, 0, wanted), refused, (RETURN, 0, 0, ALLOW)])

    def refuse_values(self, name: str, argument: int, values: tuple[int, ...]) -> None:
        refused = (RETURN, 0, 0, ERRNO | errno.EPERM)
        tests = [step for found in values for step in ((EQUAL, 0, 1, found), refused)]
        self._add(name, [(LOAD, 0, 0, argument), *tests, (RETURN, 0, 0, ALLOW)])

    def finish(self) -> bytes:
        return b"".join(struct.pack("=HBBI", *step) for step in [*self._code, (RETURN, 0, 0, ALLOW)])
