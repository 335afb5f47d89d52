"""The mutants that the judge must catch: named one by one in a list, made anew by the mutation tool.

A list has one line for each: `KERNEL:LINE:COLUMN OPERATOR: what stands there afterwards | REASONS`. A kernel that is
edited, or an operator that changes, breaks its lines, so that nothing is silently not planted any more.
Not here: planting (mutation), judging (sessions.py).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from kernelwright.errors import KernelwrightError
from kernelwright.mutation import Mutant, language_of, mutants
from kernelwright.selftest.kernel_files import CORPUS, Kernel, kernel_of
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import Candidate, SourceFile, replace

FOLDER = "mutants"
LIST = "caught.txt"
THREADS = "threads"
"""Among the reasons of what takes two threads to show."""
LINE = re.compile(
    r"(?P<kernel>\S+?):(?P<line>\d+):(?P<column>\d+) (?P<operator>[\w-]+): (?P<after>.*) \| (?P<reasons>.*)"
)


@dataclass(frozen=True)
class Planted:
    """One bug in one kernel, and what must catch it."""

    kernel: Kernel
    mutant: Mutant
    reasons: tuple[str, ...]
    """Checks or failure kinds, any of them; `threads` among them: only where there are two threads."""

    @property
    def name(self) -> str:
        """The place and the operator."""
        return self.mutant.name

    def candidate(self) -> Candidate:
        """Returns the broken kernel."""
        original = self.kernel.candidate(make_problem(self.kernel.problem))
        first, *others = original.sources
        return replace(original, sources=(replace(first, text=self.mutant.source.text), *others))


def planted(*, folder: Path | None = None) -> list[Planted]:
    """Returns every bug of the list, in its order.

    Raises:
        KernelwrightError: a line names a bug that the mutation tool does not make (any more).
    """
    place = folder or CORPUS / FOLDER
    found = []
    for number, text in enumerate((place / LIST).read_text().splitlines(), 1):
        if not text or text.startswith("#"):
            continue
        line = LINE.fullmatch(text)
        if not line:
            raise KernelwrightError(f"{place / LIST}:{number}: no line of the list: {text}")
        path = place / "kernels" / line["kernel"]
        key = (int(line["line"]), int(line["column"]), line["operator"], line["after"])
        mutant = _made(path).get(key)
        if mutant is None:
            raise KernelwrightError(f"{place / LIST}:{number}: {line['kernel']} has no such mutant any more: {text}")
        reasons = tuple(word.strip() for word in line["reasons"].split(","))
        found.append(Planted(kernel_of(path), mutant, reasons))
    return found


@functools.cache
def _made(path: Path) -> dict[tuple[int, int, str, str], Mutant]:
    source = SourceFile(path=path.name, text=path.read_text())
    return {(m.line, m.column, m.operator, m.after): m for m in mutants(source, language_of(path.name))}
