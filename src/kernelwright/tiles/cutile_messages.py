"""What cuda.tile and tileiras say, in words and at the author's line.

Not here: running them (cutile_build.py).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

from cuda.tile import TileCompilerExecutionError, TileError, TileInternalError, TileUnsupportedFeatureError

from kernelwright.languages import author_code
from kernelwright.languages.tile_arguments import Matched, PlanFault
from kernelwright.tiles.serving import own_path, own_place
from kernelwright.types import Candidate, Failure

LOCATED = re.compile(r'"(?P<file>[^"\n]+\.py)"?:(?P<line>\d+):(?P<column>\d+)')
ERROR = re.compile(r"error:\s*(?P<text>[^\n]+)")
FIELD = re.compile(r"^\s*(?:- )?(?P<name>\w+):\s*(?P<text>.*?)\s*$", re.MULTILINE)
PLACE = re.compile(r"File: '(?P<file>[^']*)', Line: (?P<line>\d+)")
CRASHES = {-11: "a segmentation fault", -6: "an assertion", -4: "an illegal instruction", -8: "a division by zero"}
ADVICE_CRASH = "other tile sizes, another opt_level or no occupancy hint may avoid it"
ADVICE_OPAQUE = (
    "it names no place; usual causes are tiles that need more shared memory or registers than a block has, an "
    "operation that this architecture lacks, or a tileiras that is older than cuda-tile expects"
)


def of_exception(error: Exception, matched: Matched | None, candidate: Candidate) -> Failure:
    """Returns what cuda.tile's front end found wrong with the author's source."""
    where = f"{matched.where}: " if matched else ""
    fallback = matched.kernel.location if matched else ""
    if isinstance(error, PlanFault):
        return error.failure()
    if not isinstance(error, TileError):
        place = own_place(error, candidate) or fallback
        kind = "type" if isinstance(error, TypeError) and "kernel parameter" in str(error) else "syntax"
        message = f"{where}{type(error).__name__}: {error}"[:400]
        return Failure(stage="build", kind=kind, message=message, location=place, detail=str(error))
    place = fallback
    at = error.loc
    while at is not None and not at.is_unknown():
        if path := own_path(at.filename, candidate):
            place = f"{path}:{at.line}"
            break
        at = at.call_site
    kind = "syntax"
    if isinstance(error, TileUnsupportedFeatureError):
        kind = "unsupported"
    elif isinstance(error, TileInternalError | TileCompilerExecutionError):
        kind = "compiler"
    message = f"{where}{error.message.splitlines()[0] if error.message else type(error).__name__}"[:400]
    detail = str(error).replace(f"{os.getcwd()}/", "")
    return Failure(stage="build", kind=kind, message=message, location=place, detail=detail[: author_code.DETAIL_LIMIT])


def of_tileiras(status: int, output: str, candidate: Candidate) -> Failure:
    """Returns what an unsuccessful end of tileiras means."""
    detail = output.replace(f"{os.getcwd()}/", "")[: author_code.DETAIL_LIMIT]
    if status in CRASHES or status >= 128:
        how = CRASHES.get(status) or CRASHES.get(128 - status, f"status {status}")
        message = f"the compiler tileiras crashed with {how} on this kernel; {ADVICE_CRASH}"
        return Failure(
            stage="build", kind="compiler", message=message, location=_place(output, candidate), detail=detail
        )
    said = [found["text"].strip() for found in ERROR.finditer(output)]
    place = _place(output, candidate)
    telling = [text for text in said if "failed to compile Tile IR program" not in text]
    if telling:
        kind = "resources" if re.search(r"shared|register|resource|too large|exceed", telling[0]) else "syntax"
        message = f"tileiras: {telling[0]}"[:400]
        return Failure(stage="build", kind=kind, message=message, location=place, detail=detail)
    message = f"tileiras could not compile the kernel (status {status}): {ADVICE_OPAQUE}"
    return Failure(stage="build", kind="compiler", message=message, location=place, detail=detail)


def _place(output: str, candidate: Candidate) -> str:
    for found in LOCATED.finditer(output):
        if path := own_path(found["file"], candidate):
            return f"{path}:{found['line']}"
    return ""


def remarks(path: Path, candidate: Candidate) -> str:
    """Returns tileiras' remarks as text, one line for each place and outcome, in the order of the source.

    `kernel.py:14: Load instruction selected: TMA Load instruction, [64, 128]`; `missed` stands before what was not
    done.
    """
    try:
        documents = path.read_text(errors="replace").split("--- !")[1:]
    except OSError:
        return ""
    counted: Counter[tuple[str, int, str]] = Counter()
    for document in documents:
        place = PLACE.search(document)
        fields = {found["name"]: found["text"].strip("'\"") for found in FIELD.finditer(document)}
        outcome = document.split(None, 1)[0].lower()
        facts = [fields[name] for name in ("Instruction", "Shape", "Reason") if fields.get(name)]
        text = fields.get("Remark", fields.get("Name", ""))
        text = f"{text}: {', '.join(facts)}" if facts else text
        if outcome != "passed":
            text = f"{outcome}: {text}"
        file = own_path(place["file"], candidate) if place else ""
        counted[file, int(place["line"]) if place else 0, text] += 1
    lines = [f"{file}:{line}: {text}" if file else text for (file, line, text), _ in sorted(counted.items())]
    return "\n".join(lines)[: author_code.DETAIL_LIMIT]
