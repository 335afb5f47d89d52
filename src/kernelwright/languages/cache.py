"""Compiled results by identity, in environment.home()/artifacts.

Each lies in a folder of its own, made whole elsewhere and then renamed, so that it is either there
or not whoever is killed when. Blobs are checked against their digest on every use, and what was
not used for longest goes when the cache grows too large.
Not here: what the identity is made of; each language says (`Language.key`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kernelwright import codec, environment
from kernelwright.errors import UserError
from kernelwright.languages import table
from kernelwright.languages.diagnostics import UNSTABLE
from kernelwright.types import Artifact, Candidate, Failure, digest, replace

LIBRARY = "lib.so"
CUBIN = "kernel.cubin"
BLOBS = (LIBRARY, CUBIN)
"""What an artifact's file is called: a library for the CPU, or code for a device."""
OUTCOME = "artifact.json"
MOST_BLOB_BYTES = 1 << 28
CAP_BYTES = 1 << 30
KEEP_S = 3600.0
"""Nothing that was used within the last hour is evicted: a judge may be about to load it."""
STALE_S = 3600.0
"""Private folders older than this were left by a builder that was killed."""
UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError, codec.CodecError)


def folder() -> Path:
    """Returns the folder of compiled results."""
    return environment.home() / "artifacts"


def toolchains() -> Path:
    """Returns the folder of what builds share and may only read, such as a compiler's unpacked headers."""
    return environment.home() / "toolchains"


def blob_digest(path: Path) -> str:
    """Returns `sha256:...` of a file."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def find(key: str, candidate: Candidate) -> Artifact | Failure | None:
    """Returns what is known under a key, None where nothing whole is; a damaged entry is removed."""
    place = folder() / _name(key)
    outcome = place / OUTCOME
    try:
        known = codec.loads(outcome.read_text())
    except FileNotFoundError:
        return None
    except UNREADABLE:
        _discard(place)
        return None
    if isinstance(known, Failure):
        _touch(outcome)
        return known
    if not isinstance(known, Artifact) or known.key != key or not _is_blob(place, known):
        _discard(place)
        return None
    _touch(outcome)
    path = str(place / Path(known.path).name)
    return for_candidate(replace(known, path=path, cached=True), candidate)


def for_candidate(artifact: Artifact, candidate: Candidate) -> Artifact:
    """Returns an artifact as that of a candidate whose build has the same key.

    The plan is the candidate's, unless the compiler decides it (blocks, symbols, order of arguments): then the key
    covers the plan that was given, and the artifact's own is kept.
    """
    made = getattr(table.load(candidate.language), "makes_plan", False)
    return replace(artifact, candidate=digest(candidate), plan=artifact.plan if made else candidate.plan)


def keep(key: str, outcome: Artifact | Failure, made: Path) -> Artifact | Failure:
    """Takes a finished build over into the cache and returns the outcome as it lies there.

    Args:
        key: its identity.
        outcome: what came out; failures that depend on the machine's present state are not kept.
        made: the private folder; an artifact's file is
            `made/lib.so` or `made/kernel.cubin`, as its path says.
    """
    if isinstance(outcome, Failure) and outcome.kind in UNSTABLE:
        return outcome
    place = folder() / _name(key)
    final = replace(outcome, path=str(place / Path(outcome.path).name)) if isinstance(outcome, Artifact) else outcome
    with private_folder() as whole:
        if isinstance(outcome, Artifact):
            name = Path(outcome.path).name
            if fault := _take(made / name, whole / name, outcome):
                return fault
        (whole / OUTCOME).write_text(codec.dumps(final))
        for _ in range(3):
            try:
                os.rename(whole, place)
                break
            except OSError:  # somebody was quicker, with the same content unless it is damaged
                if _is_whole(place, final):
                    break
                _discard(place)
    return final


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Gives a new empty folder on the cache's file system and removes what is left of it."""
    building = folder() / ".building"
    prepare(building)
    path = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=building))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def prepare(place: Path) -> None:
    """Makes a folder below the home folder.

    Raises:
        UserError: when that is not possible.
    """
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the cache folder {place} cannot be made: {error.strerror}"
        raise UserError(message, "set KERNELWRIGHT_HOME to a folder that can be written") from None


def tidy(*, cap_bytes: int = CAP_BYTES, keep_s: float = KEEP_S) -> int:
    """Removes leftovers, and the longest unused entries beyond the cap; returns how many entries went."""
    now = time.time()
    for left in _entries(folder() / ".building"):
        if now - _modified(left) > STALE_S:
            shutil.rmtree(left, ignore_errors=True)
    known = [(_modified(place / OUTCOME), _size(place), place) for place in _entries(folder())]
    total = sum(size for _, size, _ in known)
    removed = 0
    for used, size, place in sorted(known):
        if total <= cap_bytes or now - used < keep_s:
            break
        _discard(place)
        total -= size
        removed += 1
    return removed


def _take(source: Path, target: Path, outcome: Artifact) -> Failure | None:
    """Copies an artifact's file out of a folder that strangers could write; returns what is wrong with it.

    A copy, so that nobody who still holds the file open can change what was checked.
    """
    message = ""
    try:
        # Neither a symbolic link that leads elsewhere, nor a pipe that never answers.
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BLOB_BYTES:
                message = "is no ordinary file of a possible size"
            else:
                target.write_bytes(file.read(MOST_BLOB_BYTES))
                message = "" if blob_digest(target) == outcome.blob else "is not what the build worker announced"
    except OSError as error:
        message = f"cannot be taken over: {error.strerror}"
    if source.name not in BLOBS:
        message = "has a name that no artifact has"
    return Failure(stage="build", kind="blob", message=f"the file {source.name} {message}") if message else None


def _is_whole(place: Path, final: Artifact | Failure) -> bool:
    if isinstance(final, Failure):
        return (place / OUTCOME).exists()
    try:
        known = codec.loads((place / OUTCOME).read_text())
        return isinstance(known, Artifact) and known.blob == final.blob and _is_blob(place, known)
    except UNREADABLE:
        return False


def _is_blob(place: Path, known: Artifact) -> bool:
    """Whether an artifact's file lies in its folder, whole; a name that is none of ours is not looked for."""
    name = Path(known.path).name
    try:
        return name in BLOBS and blob_digest(place / name) == known.blob
    except OSError:
        return False


def _discard(place: Path) -> None:
    """Takes an entry out of sight at once, then removes it."""
    with private_folder() as trash, contextlib.suppress(OSError):
        os.rename(place, trash / "old")


def _name(key: str) -> str:
    return key.replace(":", "-")


def _entries(parent: Path) -> list[Path]:
    try:
        return [entry for entry in parent.iterdir() if entry.name != ".building"]
    except OSError:
        return []


def _touch(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(path)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(place: Path) -> int:
    try:
        return sum(file.stat().st_size for file in place.iterdir())
    except OSError:
        return 0
