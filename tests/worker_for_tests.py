"""A worker with one handler for each thing that can go wrong; run by test_process.py."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kernelwright.errors import SourceError
from kernelwright.process import serve


def echo(emit: Callable[[object], None], item: object) -> object:
    print("noise on stdout that must not disturb the channel", flush=True)
    emit("working")
    return item


def refuse(emit: Callable[[object], None]) -> object:
    raise SourceError("the file is empty", "write something into it")


def fault(emit: Callable[[object], None]) -> object:
    return 1 // 0


def start_child(emit: Callable[[object], None]) -> object:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid


def hang(emit: Callable[[object], None]) -> object:
    time.sleep(600)
    return None


def crash(emit: Callable[[object], None]) -> object:
    os.abort()


def pid(emit: Callable[[object], None]) -> object:
    return os.getpid()


def fork(emit: Callable[[object], None]) -> object:
    """What a reference that calls fork() and returns in both processes does."""
    child = os.fork()
    emit(f"from the {'original' if child else 'copy'}")
    return "original" if child else "copy"


def scratch(emit: Callable[[object], None]) -> object:
    made = tempfile.mkdtemp()
    Path(made, "left").write_text("forgotten")
    return os.path.dirname(made)


def full(emit: Callable[[object], None]) -> object:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


if __name__ == "__main__":
    serve(
        {
            "echo": echo,
            "refuse": refuse,
            "fault": fault,
            "start_child": start_child,
            "hang": hang,
            "crash": crash,
            "pid": pid,
            "fork": fork,
            "scratch": scratch,
            "full": full,
        }
    )
