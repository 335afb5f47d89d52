"""The kernels of the corpus: files whose heads say what they are, as candidates.

Not here: the problems that they solve (small_problems.py), and judging them (sessions.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kernelwright.errors import UserError
from kernelwright.languages import candidate_from_file
from kernelwright.languages.plan import element_ctype
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    Judgement,
    LaunchPlan,
    Problem,
    Record,
    SourceFile,
    Step,
    Workspace,
    digest,
)

CORPUS = Path(__file__).parents[3] / "tests"
"""Where the folders cheats, honest and mutants lie: in the repository."""

VALUES = ("accuracy", "non-finite")
"""The checks that compare outputs with the truth."""

Kind = Literal["tensor", "workspace", "axis"]


@dataclass(frozen=True)
class Kernel:
    """A kernel file with what its head says.

    A header that it includes in quotation marks lies beside it.
    `TRICK:` what it tries. `CAUGHT BY:` names of checks or failure kinds, any of them. `PROBLEM:` which
    reference. `WORKSPACE:` name, bytes and C type (float). `STEP:` symbol and its arguments, once for each step.
    """

    path: Path
    head: tuple[tuple[str, str], ...]

    def said(self, key: str, default: str = "") -> str:
        """Returns what the head says first under a key."""
        return next((text for name, text in self.head if name == key), default)

    def every(self, key: str) -> list[list[str]]:
        """Returns the words of every line of the head under a key."""
        return [text.split() for name, text in self.head if name == key]

    @property
    def problem(self) -> str:
        """The name of the problem that it solves."""
        return self.said("PROBLEM", "softmax")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The checks and failure kinds of which one must catch it.

        Which of two checks of values sees a wrong one first is up to the order of the draws: a file that names
        one of them means the other too.
        """
        named = tuple(word.strip() for word in self.said("CAUGHT BY").split("|"))
        return tuple(dict.fromkeys((*named, *(VALUES if set(named) & set(VALUES) else ()))))

    def candidate(self, problem: Problem) -> Candidate:
        """Returns the candidate that the file describes; device files say how they are launched, as anybody's do."""
        if self.path.suffix == ".cu":
            return candidate_from_file(problem, self.path)
        spaces = {name: more for name, *more in self.every("WORKSPACE")}
        workspaces = tuple(
            Workspace(name=name, size_bytes=int(size) if size.isdecimal() else size)
            for name, (size, *_) in spaces.items()
        )
        types = {name: ctype for name, (_, *rest) in spaces.items() for ctype in rest or ["float"]}
        types |= {t.name: element_ctype(t) for t in problem.arguments}
        kinds: dict[str, Kind] = {t.name: "tensor" for t in problem.arguments}
        kinds.update((name, "workspace") for name in spaces)
        kinds.update((axis.name, "axis") for axis in problem.axes)
        types |= {axis.name: "int64_t" for axis in problem.axes}
        steps = self.every("STEP") or [["kernel", *kinds]]
        return Candidate(
            problem=digest(problem),
            language="cpp",
            sources=self._sources(),
            plan=LaunchPlan(steps=tuple(_step(words, types, kinds) for words in steps), workspaces=workspaces),
        )

    def _sources(self) -> tuple[SourceFile, ...]:
        text = self.path.read_text()
        beside = [self.path.with_name(name) for name in re.findall(r'#include "(\w+\.h)"', text)]
        headers = [SourceFile(path=path.name, text=path.read_text()) for path in beside if path.exists()]
        return (SourceFile(path="kernel.cpp", text=text), *headers)


def _step(words: list[str], types: dict[str, str], kinds: dict[str, Kind]) -> Step:
    bound = tuple(Binding(kind=kinds[name], name=name, ctype=types[name]) for name in words[1:])
    return Step(symbol=words[0], arguments=bound)


def kernels(folder: str, *, suffix: str = ".cpp") -> list[Kernel]:
    """Returns the kernels of one folder of the corpus, by name.

    Raises:
        UserError: when the corpus is not installed here.
    """
    if not (CORPUS / folder).is_dir():
        raise UserError(f"the corpus is not installed: there is no {CORPUS / folder}", "run this in a checkout")
    return [kernel_of(path) for path in sorted((CORPUS / folder).glob(f"*{suffix}"))]


def kernel_of(path: Path) -> Kernel:
    """Returns a kernel file with its head."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("// ")]
    head = tuple((m[1], m[2].strip()) for line in lines if (m := re.match(r"// ([A-Z ]+): (.*)", line)))
    return Kernel(path, head)


def judged(record: Record) -> Judgement:
    """Returns the outcome of a candidate that could be run."""
    assert isinstance(record.outcome, Judgement), record.outcome
    return record.outcome


def reason(record: Record) -> str:
    """Returns the failure's kind or the failed check's name, 'passed' when there is neither."""
    if isinstance(record.outcome, Failure):
        return record.outcome.kind
    failed = [check.name for check in record.outcome.verdict.checks if not check.passed]
    return failed[0] if failed else "passed"
