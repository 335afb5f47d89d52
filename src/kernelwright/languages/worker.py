"""The build worker: compiles and inspects one candidate at a time, in a jail.

Not here: who asks and keeps what came out (builder.py), and what a language does (cpp.py).
"""

from __future__ import annotations

from pathlib import Path

from kernelwright import process
from kernelwright.languages import table
from kernelwright.languages.cuda import Cuda
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target


def build(
    emit: process.Emit, *, problem: Problem, candidate: Candidate, target: Target, folder: str, checker: str = ""
) -> Artifact | Failure:
    """Returns what became of a candidate; an artifact's file lies in the folder, which is this build's own."""
    del emit
    language = table.load(candidate.language)
    if not checker:
        return language.compile(problem, candidate, target, Path(folder))
    if not isinstance(language, table.Checkable):
        message = f"{candidate.language} has no build with the checker {checker!r}"
        return Failure(stage="build", kind="checker", message=message)
    return language.compile_checked(problem, candidate, checker, Path(folder))


def compile_alone(emit: process.Emit, *, candidate: Candidate, target: Target, folder: str) -> Artifact | Failure:
    """Returns what becomes of a CUDA source without a plan, to be looked at; it lies in `folder` and is not kept."""
    del emit
    return Cuda().compile_alone(candidate, target, Path(folder))


if __name__ == "__main__":
    process.serve({"build": build, "compile_alone": compile_alone})
