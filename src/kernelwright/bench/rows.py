"""What became of one task, and the file that keeps it: one JSON line for each task, appended when it is done.

Not here: tables and plots (page.py).
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

from kernelwright.errors import UserError
from kernelwright.types import value

State = Literal["faster", "baseline", "no candidate", "unusable", "failed"]


@value
class Row:
    """One task's result."""

    task: str
    level: int
    device: str
    state: State
    """faster: a kernel beats every baseline beyond the noise; baseline: it does not, so the answer is the baseline;
    no candidate: nothing passed the judge; unusable: the task cannot be taken; failed: our own fault."""
    why: str
    eager: float | None = None
    """Speedup of the best kernel against eager, None without one."""
    best: float | None = None
    """Against the fastest baseline."""
    low: float | None = None
    high: float | None = None
    """The interval of that."""
    baseline: str = ""
    """Which baseline is fastest."""
    template: str = ""
    """Who wrote the kernel; `guarded rewrite` and `rewrite` are gains of algebra, not of kernels."""
    rewrites: tuple[str, ...] = ()
    """Rules that changed the program first."""
    independent: tuple[str, ...] = ()
    """Tensors that the kernel does not read although the reference does: its gain is no work done faster."""
    weak: tuple[str, ...] = ()
    """Answers without work that would pass as well: the task says little."""
    cap: int = 0
    """Sizes were shrunk to at most this; 0 for the published ones."""
    claimed: float | None = None
    """What the author of a solution claims."""
    published: float | None = None
    """What the benchmark's authors publish for their best kernel, on their machine."""
    group: str = ""
    """What this is summed up under; empty for the level."""
    outcome: str = ""
    """Of a solution: `passed`, the check that it failed, or how it ended."""
    key: str = ""
    """Of what was run and how: only a row of the same key is taken for the result of the same command."""
    free: float | None = None
    """Speedup of the fastest baseline against eager: what the answer has where no kernel beats it."""
    parts: tuple[tuple[str, float | None], ...] = ()
    """What the kernel's speedup against eager is made of: launch, rewrite, precision, kernel (report/gains.py)."""
    evaluation: bool = False
    seconds: float = 0.0

    @property
    def answer(self) -> float:
        """Speedup against eager of the answer: the kernel where it wins, else the baseline that costs nothing."""
        return self.eager if self.state == "faster" and self.eager else max(1.0, self.free or 1.0)

    @property
    def solved(self) -> bool:
        """Tells whether there is a right answer that is no slower than any baseline."""
        return self.state in ("faster", "baseline")


def append(path: Path, row: Row) -> None:
    """Adds a row to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def _tuples(item: Any) -> Any:
    return tuple(map(_tuples, item)) if isinstance(item, list) else item


def read(path: Path) -> tuple[Row, ...]:
    """Returns the rows of a file, the last one of each task; an unfinished last line is dropped.

    Raises:
        UserError: when a line in between is no row.
    """
    found: dict[str, Row] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    names = {f.name for f in fields(Row)}
    for number, line in enumerate(lines, 1):
        try:
            given = json.loads(line)
            data: dict[str, Any] = {k: _tuples(v) for k, v in given.items() if k in names}
            row = Row(**data)
        except (ValueError, TypeError, AttributeError) as error:
            if number == len(lines):
                continue
            raise UserError(
                f"{path}:{number} is no row of a benchmark", "remove the line, or use another --out"
            ) from error
        found[row.task] = row
    return tuple(found.values())
