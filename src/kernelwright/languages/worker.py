"""The build worker: compiles and inspects one candidate at a time, and puts what came out in the cache.

Not here: who asks (builder.py), and what a language does (cpp.py).
"""

from __future__ import annotations

from pathlib import Path

from kernelwright import process
from kernelwright.languages import cache, table
from kernelwright.languages.cuda import Cuda
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target


def build(
    emit: process.Emit, *, problem: Problem, candidate: Candidate, target: Target, key: str
) -> Artifact | Failure:
    """Returns what became of a candidate; whatever can be remembered is in the cache by then."""
    del emit
    language = table.load(candidate.language)
    with cache.private_folder() as folder:
        outcome = language.compile(problem, candidate, target, folder)
        return cache.keep(key, outcome, folder)


def compile_alone(emit: process.Emit, *, candidate: Candidate, target: Target, folder: str) -> Artifact | Failure:
    """Returns what becomes of a CUDA source without a plan, to be looked at; it lies in `folder` and is not kept."""
    del emit
    return Cuda().compile_alone(candidate, target, Path(folder))


if __name__ == "__main__":
    process.serve({"build": build, "compile_alone": compile_alone})
