"""The language `python`: arbitrary Python, witnessed instead of sealed. Nothing of it is executed while building.

A file that defines `ModelNew` (a torch.nn.Module, as public benchmarks have it) or a function of the reference's
name. Building it means reading its syntax; what it does is seen by the judge's witness (judge/witness).
"""

from __future__ import annotations

import ast
import time
import warnings
from pathlib import Path

from kernelwright import codec
from kernelwright.languages import cache
from kernelwright.languages.plan import check_plan
from kernelwright.types import Artifact, Candidate, Failure, Problem, SourceFile, Target, digest

FORMAT = 1
"""Part of every key: raise it when the same inputs would give another artifact or another verdict."""
SOURCE_LIMIT_BYTES = 4 << 20


class Python:
    """Python sources to a checked bundle of them.

    **Covers**: syntax, with file and line; size; options (there are none).
    **Does not cover**: what importing it does, and whether it defines what it should: the witness sees that.
    """

    name = "python"

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        """Returns the digest of the sources, or why there is none."""
        if fault := check_plan(problem, candidate) or _options_fault(candidate) or _size_fault(candidate.sources):
            return fault
        versions = tuple(pair for pair in target.toolchain if pair[0] in ("python", "torch"))
        return digest((FORMAT, self.name, candidate.sources, versions))

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        """Reads the syntax of every source; the bundle is one file in `folder`."""
        started = time.monotonic()
        key = self.key(problem, candidate, target)
        if isinstance(key, Failure):
            return key
        for source in candidate.sources:
            if fault := _syntax_fault(source):
                return fault
        bundle = folder / cache.LIBRARY
        bundle.write_text(codec.dumps(candidate.sources))
        return Artifact(
            candidate=digest(candidate),
            key=key,
            blob=cache.blob_digest(bundle),
            entry="",
            plan=candidate.plan,
            path=str(bundle),
            build_s=time.monotonic() - started,
        )


def _syntax_fault(source: SourceFile) -> Failure | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source.text, source.path)
    except SyntaxError as error:
        return Failure(stage="build", kind="syntax", message=error.msg, location=f"{source.path}:{error.lineno}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Failure(stage="build", kind="syntax", message=f"it cannot be parsed: {error}", location=source.path)
    return None


def _options_fault(candidate: Candidate) -> Failure | None:
    if not candidate.options:
        return None
    name = candidate.options[0][0]
    return Failure(stage="build", kind="option", message=f"unknown option {name!r}; python knows none")


def _size_fault(sources: tuple[SourceFile, ...]) -> Failure | None:
    size = sum(len(source.text) for source in sources)
    if not sources or size > SOURCE_LIMIT_BYTES:
        what = f"the sources have {size} characters" if sources else "there are no sources"
        return Failure(stage="build", kind="source", message=f"{what}; up to {SOURCE_LIMIT_BYTES} can be judged")
    return None
