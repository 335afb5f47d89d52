"""The child's side of `languages.author_code`: read the request, import the sources, leave the outcome.

Not here: what is made of the sources (triton_build.py, cutile_build.py).
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from kernelwright import codec
from kernelwright.languages import author_code
from kernelwright.languages.tile_arguments import PlanFault
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target

Build = Callable[[Problem, Candidate, Target, Path], Artifact | Failure]
MODULE = "kernelwright_candidate"


def serve_request(build: Build) -> None:
    """Builds what the folder named on the command line asks for, and leaves the outcome there."""
    folder = Path(sys.argv[1])
    request = codec.loads((folder / author_code.REQUEST).read_text())
    try:
        outcome = build(request["problem"], request["candidate"], request["target"], folder)
    except PlanFault as fault:
        outcome = fault.failure()
    (folder / author_code.OUTCOME).write_text(codec.dumps(outcome))


def import_sources(candidate: Candidate, folder: Path) -> ModuleType | Failure:
    """Imports a candidate's first source, from which the others can be imported by name."""
    sources = folder / author_code.SOURCES
    sys.path.insert(0, str(sources))
    first = candidate.sources[0].path
    spec = importlib.util.spec_from_file_location(MODULE, sources / first)
    assert spec is not None and spec.loader is not None  # a path that ends in .py always has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  (whatever the author's module does when it is imported)
        text = "".join(traceback.format_exception(error))
        return Failure(
            stage="build",
            kind="import",
            message=f"importing {first} raised {type(error).__name__}: {error}"[:400],
            location=own_place(error, sources),
            detail=text[: author_code.DETAIL_LIMIT],
        )
    return module


def own_place(error: BaseException, sources: Path) -> str:
    """Returns file:line of the innermost frame of an exception that lies in the candidate's own files."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if relative := own_path(frame.filename, sources):
            found = f"{relative}:{frame.lineno}"
    return found


def own_path(filename: str | None, sources: Path) -> str:
    """Returns a file's path relative to the candidate's sources, empty for any other file."""
    try:
        return Path(filename or "").relative_to(sources).as_posix()
    except ValueError:
        return ""
