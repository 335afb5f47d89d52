"""Admission of a folder of tasks: every file is captured and tried, and one bad file does not end the run.

Not here: what is tried (judge/admission.py, judge/nulls.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kernelwright import capture
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.graph import Capture
from kernelwright.judge import admission
from kernelwright.judge.admission import Admission
from kernelwright.process import Worker

SKIPPED = ("__init__.py", "conftest.py", "setup.py")


def task_files(folder: Path) -> tuple[Path, ...]:
    """Returns the Python files of a folder and below it that could define a task, in natural order.

    Raises:
        UserError: when there is none.
    """
    if folder.is_file():
        return (folder,)
    found = [p for p in folder.rglob("*.py") if p.name not in SKIPPED and not any(_hidden(part) for part in p.parts)]
    if not found:
        raise UserError(f"{folder} holds no Python files", "name a folder of files that define Model and get_inputs")
    return tuple(sorted(found, key=_natural))


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts 2_relu.py before 10_gelu.py."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def _hidden(part: str) -> bool:
    return part.startswith(".") and part not in (".", "..")


class Admissions:
    """Tries problems one after the other, in workers that are replaced where one dies or takes too long.

    Args:
        threads: what a reference may use.
        deadline_s: the most that capturing one problem may take, and the most that trying it may.
        evaluation: call `.eval()` on modules.
    """

    def __init__(self, *, threads: int, deadline_s: float = admission.DEADLINE_S, evaluation: bool = False) -> None:
        self._threads, self._deadline_s, self._evaluation = threads, deadline_s, evaluation
        self._capture: Worker | None = None
        self._judge: Worker | None = None

    def admit(self, source: str, *, on_event: Callable[[str], None] | None = None) -> Admission:
        """Returns whether null candidates fail on one source (a file, or a built-in's name).

        One that is no function of its inputs but in evaluation mode is tried in that.
        """
        try:
            captured = self._captured(source, self._evaluation, on_event)
        except KernelwrightError as error:
            if self._evaluation or "--eval" not in str(error):
                return admission.refused(Path(source).stem, error.message)
            try:
                captured = self._captured(source, True, on_event)
            except KernelwrightError:
                return admission.refused(Path(source).stem, error.message)
        if self._judge is None or not self._judge.alive:
            self._close(self._judge)
            self._judge = admission.start_worker(self._threads)
        return admission.admit(captured.problem, self._judge, deadline_s=self._deadline_s, on_event=on_event)

    def _captured(self, source: str, evaluation: bool, on_event: Callable[[str], None] | None) -> Capture:
        if self._capture is None or not self._capture.alive:
            self._close(self._capture)
            self._capture = Worker(capture.MODULE)
        return capture.load(
            source, evaluation=evaluation, worker=self._capture, on_event=on_event, deadline_s=self._deadline_s
        )

    def every(
        self, sources: tuple[str, ...], *, on_event: Callable[[str], None] | None = None
    ) -> Iterator[tuple[str, Admission]]:
        """Yields each source with what became of it."""
        for number, source in enumerate(sources, 1):
            if on_event:
                on_event(f"{number}/{len(sources)} {source}")
            yield source, self.admit(source)

    def close(self) -> None:
        """Ends the workers."""
        for worker in (self._capture, self._judge):
            self._close(worker)
        self._capture = self._judge = None

    def _close(self, worker: Worker | None) -> None:
        if worker is not None:
            worker.close()

    def __enter__(self) -> Admissions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def plain(file: str, admission: Admission) -> dict[str, Any]:
    """Returns an admission as JSON data, the file that it is of included."""
    return {
        "file": file,
        "name": admission.name,
        "state": admission.state,
        "why": list(admission.why()),
        "nulls": [{"output": n.output, "answer": n.answer, "caught_by": n.caught_by} for n in admission.nulls],
        "independent": [list(pair) for pair in admission.independent],
        "fixed": list(admission.fixed),
        "left_out": list(admission.left_out),
    }
