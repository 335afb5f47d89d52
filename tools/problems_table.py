"""Writes docs/problems.md: every built-in problem with the tensors it takes and gives.

Run `python tools/problems_table.py` after changing a built-in; a test fails while the page is old.
"""

from __future__ import annotations

from pathlib import Path

from kernelwright import capture, problems
from kernelwright.process import Worker
from kernelwright.types import Problem, TensorSpec

PAGE = Path(__file__).resolve().parents[1] / "docs" / "problems.md"
HEAD = """# Built-in problems

Operations of real models, at the shapes that those models use. `kernelwright optimize NAME` takes any of them; the
references are ordinary PyTorch files in `src/kernelwright/problems/reference/` and take the same road as a user's file.
Traffic is the least that one call must move: what it reads of each input and weight once, and each output once.
This page is written by `tools/problems_table.py`.

| name | operation | shape from | takes | gives | traffic |
|---|---|---|---|---|---|
"""


def row(problem: Problem) -> str:
    """Returns the table's line for a captured built-in."""
    entry = problems.get(problem.name)
    takes, gives = _tensors(problem.inputs + problem.parameters), _tensors(problem.outputs)
    cells = (f"`{entry.name}`", entry.description, entry.model, takes, gives, f"{problem.min_bytes / 1e6:.1f} MB")
    return f"| {' | '.join(cells)} |\n"


def _tensors(specs: tuple[TensorSpec, ...]) -> str:
    return ", ".join(f"{spec.name} {spec.dtype}[{','.join(map(str, spec.shape))}]" for spec in specs)


def main() -> None:
    """Captures every built-in and writes the page."""
    with Worker(capture.MODULE) as worker:
        rows = [row(capture.load(name, worker=worker).problem) for name in problems.names()]
    PAGE.write_text(HEAD + "".join(rows))


if __name__ == "__main__":
    main()
