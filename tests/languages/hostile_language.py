"""A language for tests: the source is Python that runs while it is built, and has to leave a library in its folder."""

from __future__ import annotations

import sys
from pathlib import Path

from kernelwright.languages import bounded, cache
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target, digest

LIMITS = bounded.Limits(time_s=6.0, memory_bytes=400 << 20, file_bytes=16 << 20, processes=40)


class Build:
    """Runs the first source in the private folder; `lib.so` there is the artifact."""

    name = "hostile"
    runs_author_code = True

    def prepare(self) -> None:
        """What all builds may read; unpacked once, outside the jail."""
        (cache.toolchains() / "hostile").write_text("prepared")

    def key(self, problem: Problem, candidate: Candidate, target: Target) -> str | Failure:
        return digest(("hostile", candidate.sources))

    def compile(self, problem: Problem, candidate: Candidate, target: Target, folder: Path) -> Artifact | Failure:
        made = folder / "made"
        made.mkdir()
        (made / "source.py").write_text(candidate.sources[0].text)
        if (cache.toolchains() / "hostile").read_text() != "prepared":
            raise AssertionError
        try:
            (cache.toolchains() / "hostile").write_text("changed")
        except OSError as error:
            print("toolchains can only be read:", error)
        ended = bounded.run(
            [sys.executable, "-I", str(made / "source.py")],
            folder=made, temporary=made / "temporary", limits=LIMITS, jailed=True,
        )  # fmt: skip
        if ended.status != 0:
            kind = "timeout" if ended.status is None else "author"
            return Failure(stage="build", kind=kind, message=f"status {ended.status}", detail=ended.output[-500:])
        library = folder / cache.LIBRARY
        library.write_bytes((made / cache.LIBRARY).read_bytes())
        return Artifact(
            candidate=digest(candidate), key="", blob=cache.blob_digest(library), entry="", plan=candidate.plan,
            log=ended.output, path=str(library),
        )  # fmt: skip
