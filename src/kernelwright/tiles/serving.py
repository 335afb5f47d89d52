"""The child's side of `languages.author_code`: read the request, import the sources, leave the outcome.

Not here: what is made of the sources (triton_build.py, cutile_build.py).
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from kernelwright import codec
from kernelwright.languages import author_code
from kernelwright.languages.tile_arguments import PlanFault
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target

Build = Callable[[Problem, Candidate, Target, Path], Artifact | Failure]


def serve_request(build: Build) -> None:
    """Builds what the folder named on the command line asks for, and leaves the outcome there."""
    folder = Path(sys.argv[1])
    request = codec.loads((folder / author_code.REQUEST).read_text())
    try:
        outcome = build(request["problem"], request["candidate"], request["target"], folder)
    except PlanFault as fault:
        outcome = fault.failure()
    (folder / author_code.OUTCOME).write_text(codec.dumps(outcome))


class _OwnSources(MetaPathFinder, Loader):
    """Imports a candidate's files under relative names.

    A file's name ends up in the line information of the code that is compiled from it, so it may not hold the private
    folder's name: the same candidate must give the same cubin.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.sources = {source.path.removesuffix(".py").replace("/", "."): source for source in candidate.sources}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname not in self.sources:
            return None
        return ModuleSpec(fullname, self, origin=self.sources[fullname].path)

    def exec_module(self, module: ModuleType) -> None:
        source = self.sources[module.__name__]
        module.__file__ = source.path
        exec(compile(source.text, source.path, "exec"), module.__dict__)  # this process exists to do that


def import_sources(candidate: Candidate, folder: Path) -> ModuleType | Failure:
    """Imports a candidate's first source, from which the others can be imported by name."""
    os.chdir(folder / author_code.SOURCES)  # where the compilers look for the text behind a line
    sys.meta_path.insert(0, _OwnSources(candidate))
    first = candidate.sources[0].path
    try:
        return importlib.import_module(first.removesuffix(".py").replace("/", "."))
    except Exception as error:  # noqa: BLE001  (whatever the author's module does when it is imported)
        text = "".join(traceback.format_exception(error))
        return Failure(
            stage="build",
            kind="import",
            message=f"importing {first} raised {type(error).__name__}: {error}"[:400],
            location=own_place(error, candidate),
            detail=text[: author_code.DETAIL_LIMIT],
        )


def own_place(error: BaseException, candidate: Candidate) -> str:
    """Returns file:line of the innermost frame of an exception that lies in the candidate's own files."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if path := own_path(frame.filename, candidate):
            found = f"{path}:{frame.lineno}"
    return found


def own_path(filename: str | None, candidate: Candidate) -> str:
    """Returns the name of a candidate's file as a compiler wrote it, empty for any other file."""
    for source in candidate.sources:
        if filename == source.path or (filename or "").endswith(f"/{author_code.SOURCES}/{source.path}"):
            return source.path
    return ""
