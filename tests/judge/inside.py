"""Runs cheats in a holder without jail or judge, each in a forked copy of this process; prints what was found of each.

    python -m tests.judge.inside FILE...

For cheats that the witness worker itself must name. Importing torch once for all of them keeps the tests short; the
judge never forks a witness.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from tests.judge.python_files import python_problem
from tests.judge.witness_stand import Stand

from kernelwright.judge.witness.loading import Stopped

BLOCKS = ((0,), (0,), (1, 2), (0, 1, 3))


def reason(text: str) -> str:
    """Returns the first check that failed, or the failure's kind; `passed` when there is neither."""
    stand = Stand(python_problem())
    stand.draw(0)
    try:
        found = stand.load(text)
        for number, slots in enumerate(BLOCKS):
            if found:
                break
            stand.draw(number)
            found = stand.call(slots)
            if not number:
                stand.holder.accept()
    except Stopped as stopped:
        return str(stopped.failure["kind"])
    return found[0][0] if found else "passed"


def main(paths: list[str]) -> None:
    torch.set_num_threads(1)
    for path in paths:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            try:
                told = reason(Path(path).read_text())
            except BaseException as error:  # noqa: BLE001  (the test says so)
                told = repr(error)
            os.write(write, told.encode())
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        print(json.dumps([path, os.read(read, 1000).decode()]), flush=True)
        os.close(read)


if __name__ == "__main__":
    main(sys.argv[1:])
