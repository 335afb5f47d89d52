"""The run that is going on: which block, at which line of the author's, and what was found so far.

One run at a time in one thread: kernels are ordinary functions and have no other way to know their block.
Not here: what starts a run (running.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType

from kernelwright.tile_interpreter.findings import Finding, Level, TileFault

Block = tuple[int, int, int]


class Run:
    """The state of one run of one kernel."""

    def __init__(self, grid: Block, *, most_operations: int, file_names: dict[str, str]) -> None:
        self.grid = grid
        self.block: Block = (0, 0, 0)
        self.number = 0
        """The block's place in x-fastest order."""
        self.moment = 0
        """Counts memory operations, so that accesses and releases can be ordered."""
        self.operations = 0
        self.most_operations = most_operations
        self.own: set[CodeType] = set()
        """Code of the author's functions."""
        self.file_names = file_names
        self.known: dict[int, dict[int, int]] = {}
        """By block: the last moment of every other block that is ordered before what the block does now."""
        self.found: dict[tuple[str, str, int, int, str], Finding] = {}

    def start_block(self, block: Block) -> None:
        """Says that a block begins."""
        self.block = block
        self.number = block[0] + self.grid[0] * (block[1] + self.grid[1] * block[2])
        self.operations = 0

    def place(self) -> tuple[str, int]:
        """Returns the author's file and line that are being executed."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in self.own:
                name = frame.f_code.co_filename
                return self.file_names.get(name, name), frame.f_lineno
            frame = frame.f_back
        return "", 0

    def step(self) -> int:
        """Counts one memory operation and returns its moment.

        Raises:
            TileFault: when a block has made too many: it waits for something that never comes.
        """
        self.moment += 1
        self.operations += 1
        if self.operations > self.most_operations:
            message = (
                f"a block made more than {self.most_operations} memory operations; does it wait for another block?"
            )
            raise TileFault("stuck", message)
        return self.moment

    def report(
        self,
        kind: str,
        level: Level,
        message: str,
        *,
        line: int = 0,
        other_line: int = 0,
        count: int = 1,
        about: str = "",
    ) -> None:
        """Notes a finding at the author's line that is being executed."""
        file, here = self.place()
        self.report_at(
            kind, level, message, file=file, line=line or here, other_line=other_line, count=count, about=about
        )

    def report_at(
        self, kind: str, level: Level, message: str, *, file: str, line: int, other_line: int = 0, count: int = 1,
        about: str = "",
    ) -> None:  # fmt: skip
        """Notes a finding; the same thing at the same line is counted, not repeated."""
        key = (kind, file, line, other_line, about)
        known = self.found.get(key)
        self.found[key] = Finding(
            kind=kind, level=level, message=known.message if known else message, file=file, line=line,
            other_line=other_line, block=known.block if known else self.block,
            count=count + (known.count if known else 0),
        )  # fmt: skip


_current: list[Run] = []


def run() -> Run:
    """Returns the run that is going on.

    Raises:
        TileFault: outside of one.
    """
    if not _current:
        raise TileFault("error", "no kernel is being interpreted")
    return _current[-1]


@contextmanager
def running(new: Run) -> Iterator[Run]:
    """Makes a run the current one."""
    _current.append(new)
    try:
        yield new
    finally:
        _current.pop()
