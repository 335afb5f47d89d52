"""Our own faults and the user's, as exceptions. A candidate's fault is a `Failure` value.

KernelwrightError
├── UserError            bad input; the command line prints one line and exits with 2
│   ├── SourceError      the user's reference cannot be used
│   ├── StoreError       the store is damaged, cannot be written, or is from a newer version
│   └── MissingTool      a compiler or package is not installed
└── WorkerDied           a worker process ended although no candidate was at fault
"""

from __future__ import annotations

import errno

DISK_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
REFUSED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
PATHS = frozenset((errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
SCARCE = frozenset((errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE))


class KernelwrightError(Exception):
    """Base of everything that kernelwright raises on purpose.

    Args:
        message: what happened and where, in one line.
        fix: what to do next, in one line; may be empty.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message, fix)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}; {self.fix}" if self.fix else self.message


class UserError(KernelwrightError):
    """Something the user gave cannot be used; exit status 2."""


class SourceError(UserError):
    """The reference that the user gave cannot be loaded, traced or trusted."""


class MissingTool(UserError):
    """A program or package that this command needs is not installed."""


class StoreError(UserError):
    """The store is damaged, locked for too long, cannot be written, or is from a newer version."""


class WorkerDied(KernelwrightError):
    """One of our own worker processes ended unexpectedly."""


def words_of(error: BaseException) -> str:
    """Returns what an exception says; its `__str__` may be other people's code, and may fail."""
    try:
        return str(error)
    except BaseException as another:  # noqa: BLE001
        return f"its message cannot be read ({type(another).__name__})"


def fault_of_machine(error: OSError) -> UserError | None:
    """Returns the user's error behind a full disk, a path that leads nowhere, or scarce resources; None for others."""
    where = f"{error.filename}: " if error.filename else ""
    message = f"{where}{error.strerror}"
    if error.errno in DISK_FULL:
        return UserError(message, "free some disk space; what was stored is safe")
    if error.errno in REFUSED:
        return UserError(message, "use a folder that can be written (--out, KERNELWRIGHT_HOME, TMPDIR)")
    if error.errno in PATHS:
        return UserError(message, "check the path")
    if error.errno in SCARCE:
        return UserError(message, "end other programs, or raise the limits that `ulimit -a` shows")
    return None
