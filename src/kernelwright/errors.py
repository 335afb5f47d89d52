"""Our own faults and the user's, as exceptions. A candidate's fault is a `Failure` value.

KernelwrightError
├── UserError            bad input; the command line prints one line and exits with 2
│   ├── SourceError      the user's reference cannot be used
│   └── MissingTool      a compiler or package is not installed
├── StoreError           the store is damaged or from a newer version
└── WorkerDied           a worker process ended although no candidate was at fault
"""

from __future__ import annotations


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


class StoreError(KernelwrightError):
    """The store is damaged, locked for too long, or was written by a newer version."""


class WorkerDied(KernelwrightError):
    """One of our own worker processes ended unexpectedly."""
