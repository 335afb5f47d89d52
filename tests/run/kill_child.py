"""One optimisation with a fake judge, to be killed.

The log gets a line `judged ...` before the judge hands over a record and `stored ...` after the
store acknowledged it; a file beside it gets why the optimisation stopped.
"""

from __future__ import annotations

from pathlib import Path

from tests.search.fake_judge import CAPTURE, TARGET, FakeParts, note

from kernelwright.run import optimize
from kernelwright.store import Store
from kernelwright.types import Record


class Witnessed(Store):
    """A store that says outside itself what it acknowledged."""

    def __init__(self, path: str, *, log: Path) -> None:
        super().__init__(path)
        self._log = log

    def append(self, record: Record, *values: object) -> Record:
        kept = super().append(record, *values)
        note(self._log, "stored", kept)
        return kept


def said(log: Path) -> Path:
    """Returns where a child of this log says why it stopped."""
    return log.with_suffix(".stopped")


def main(path: Path, log: Path, hangs_at: int | None = None) -> None:
    with Witnessed(str(path), log=log) as store:
        fake = FakeParts(options={"log": log, "pause_s": 0.003, "hangs_at": hangs_at})
        # The first run says a seed, so that the test is repeatable; the others must find it in the store.
        seed = None if store.runs() else 11
        result = optimize(CAPTURE, TARGET, store=store, budget_s=1e9, parts=fake.parts(), seed=seed)
    said(log).write_text(result.stopped)
