"""Which layers of a jail this machine has: each is tried, not assumed.

Not here: how they are used (jail.py, enter.py), and how to install what is missing (doctor.py).
"""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Literal

from kernelwright.jail import filter as calls
from kernelwright.values import value

SYS_LANDLOCK_CREATE = 444
Engine = Literal["bubblewrap", "namespaces", "landlock"]
ENGINES: tuple[Engine, ...] = ("bubblewrap", "namespaces", "landlock")
"""What keeps files, processes and network apart, in order of preference."""


@value
class Strength:
    """What holds a jailed command on this machine."""

    engines: tuple[Engine, ...]
    """The engines that work here, the preferred one first; none means that nothing can be jailed."""
    user_namespace: bool
    """Whether namespaces are made without the rights of root."""
    landlock: int
    """The version of Landlock, 0 where there is none."""
    seccomp: bool
    problems: tuple[tuple[str, str], ...] = ()
    """By engine: why it does not work here."""

    @property
    def layers(self) -> tuple[str, ...]:
        """Returns the names of the layers that hold."""
        found: list[str] = [*self.engines[:1]] if self.engines[:1] != ("landlock",) else []
        found += [f"Landlock {self.landlock}"] if self.landlock else []
        found += ["seccomp"] if self.seccomp else []
        return (*found, "rlimits", "watch")


def landlock_abi() -> int:
    """Returns the kernel's version of Landlock, 0 where there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(ctypes.c_long(SYS_LANDLOCK_CREATE), None, ctypes.c_long(0), ctypes.c_long(1))))


def has_seccomp() -> bool:
    """Tells whether system calls can be filtered, and are known by number on this machine."""
    try:
        return calls.supported() and "Seccomp:" in Path("/proc/self/status").read_text()
    except OSError:
        return False


def bubblewrap() -> str:
    """Returns the path of bubblewrap's program, empty where there is none."""
    return shutil.which("bwrap") or ""
