"""From CUDA C++ to a library for the CPU: preprocessed with the emulation's headers, rewritten, compiled, inspected.

The compiler is told to announce every access to memory, every array index and every alignment (its own checkers'
hooks); the emulation answers them itself, so that races are seen whatever the order in which threads run.
Not here: the rules for sources and plans, which are the device's (languages/cuda.py, device_plan.py, gate.py).
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from kernelwright.errors import MissingTool
from kernelwright.languages import bounded, cache, checked, cpp, diagnostics, entry, gate, inspection
from kernelwright.languages.bounded import Ended, Limits
from kernelwright.languages.emulation import launches, shared_memory, state
from kernelwright.languages.hardware import Compiler, cpu_identity, find_compiler
from kernelwright.types import Artifact, Candidate, Failure, Problem, digest

FORMAT = 1
"""Part of every key: raise it when the same inputs would give another artifact or another verdict."""
INCLUDE = Path(__file__).with_name("include")
FLAGS = tuple(flag for flag in cpp.BASE_FLAGS if flag != "-fopenmp")
# Signed numbers wrap on a device. -O1: what is announced is what the author wrote.
MORE = ("-O1", "-fwrapv", "-fno-strict-aliasing", "-D_GNU_SOURCE", "-isystem", str(INCLUDE))
BOUNDS = ("-fsanitize=bounds,alignment", "-fno-sanitize-recover=all", "-DKWE_BOUNDS")
WATCHED = ("-fsanitize=thread", "-DKWE_WATCHED")
TABLES = (".init_array.00099", ".rela.init_array.00099")
"""Where g++ puts the call that wakes the checker's library, which is not there."""
PREPROCESSED, REWRITTEN, OBJECT = "entry.ii", "rewritten.ii", "entry.o"
HEADERS = frozenset((*gate.HEADERS, *(path.name for path in INCLUDE.glob("*.h")), "cstdio", "stdio.h"))
NO_PTX = "the emulation runs no PTX; judge the kernel on a device"
INCLUDED = re.compile(r"^\s*#\s*include\s*<([^>]*)>", re.MULTILINE)


def key(problem: Problem, candidate: Candidate) -> str | Failure:
    """Returns the digest of sources, plan, options, compiler and headers, or what the emulation cannot do.

    Raises:
        MissingTool: when there is no C++ compiler.
    """
    if fault := launches.refusal(candidate) or _headers_fault(candidate):
        return fault
    headers = tuple((path.name, path.read_text()) for path in sorted(INCLUDE.rglob("*.h*")))
    parts = (
        FORMAT, "emulation", candidate.sources, candidate.plan, candidate.options, find_compiler(), cpu_identity(),
        digest(headers), launches.text(problem, candidate),
    )  # fmt: skip
    return digest(parts)


def _headers_fault(candidate: Candidate) -> Failure | None:
    for source in candidate.sources:
        for found in INCLUDED.finditer(source.text):
            if found[1] not in HEADERS:
                line = source.text.count("\n", 0, found.start(1)) + 1
                message = f"the emulation has no <{found[1]}>; judge the kernel on a device"
                return Failure(stage="build", kind="emulation", message=message, location=f"{source.path}:{line}")
    return None


def compile_candidate(
    problem: Problem, candidate: Candidate, key: str, files: tuple[tuple[str, str], ...], folder: Path, limits: Limits
) -> Artifact | Failure:
    """Builds and inspects a candidate whose key is known; the library is `folder/lib.so`.

    Args:
        problem: what it is a candidate for.
        candidate: what to build.
        key: the build's identity.
        files: sources by every name that another may include them by.
        folder: an empty private folder.
        limits: what each compiler process may use.
    """
    started = time.monotonic()
    compiler = find_compiler()
    text = _preprocessed(problem, candidate, files, compiler, (*BOUNDS, *_watched(compiler)), folder, limits)
    if isinstance(text, Failure):
        return text
    flags = (*_flags(candidate, compiler), *BOUNDS, *_watched(compiler))
    ended = _run((compiler.path, *flags, "-c", "-x", "c++-cpp-output", REWRITTEN, "-o", OBJECT), folder, limits)
    if ended.status == 0:
        ended = _run((_objcopy(), *(f"--remove-section={name}" for name in TABLES), OBJECT), folder, limits)
    script = folder / "exports.map"
    script.write_text(cpp.VERSION_SCRIPT)
    if ended.status == 0:
        link = (*cpp.LINK_FLAGS, f"-Wl,--version-script={script}", OBJECT, "-o", cache.LIBRARY)
        ended = _run((compiler.path, *link), folder, limits)
    if ended.status != 0:
        return diagnostics.failure(problem, candidate, ended, limits)
    library = folder / cache.LIBRARY
    if fault := state.inspect(library) or inspection.inspect_library(library):
        return fault
    return Artifact(
        candidate=digest(candidate),
        key=key,
        blob=cache.blob_digest(library),
        entry=entry.SYMBOL,
        plan=candidate.plan,
        log=ended.output[: diagnostics.DETAIL_LIMIT],
        path=str(library),
        build_s=time.monotonic() - started,
    )


def compile_checked(
    problem: Problem,
    candidate: Candidate,
    checker: str,
    files: tuple[tuple[str, str], ...],
    folder: Path,
    limits: Limits,
) -> Artifact | Failure:
    """Builds a candidate that has passed `compile_candidate` once more, with a memory checker in it (checked.py)."""
    compiler = find_compiler()
    more, link_flags = checked.flags(checker)
    # Fibers have stacks of their own, which is what this checker would put elsewhere.
    stacks = ("--param=asan-use-after-return=0",) if compiler.name.startswith("g++") else ()
    text = _preprocessed(problem, candidate, files, compiler, more, folder, limits)
    if isinstance(text, Failure):
        return text
    if fault := checked.switched_off(gate.own_text(text)):
        return fault
    flags = (*_flags(candidate, compiler), *more, *stacks, *link_flags)
    command = (compiler.path, *flags, "-x", "c++-cpp-output", REWRITTEN, "-o", cache.LIBRARY)
    ended = _run(command, folder, limits)
    if ended.status != 0:
        return diagnostics.failure(problem, candidate, ended, limits)
    library = folder / cache.LIBRARY
    return Artifact(
        candidate=digest(candidate), key="", blob=cache.blob_digest(library), entry=entry.SYMBOL, plan=candidate.plan,
        path=str(library),
    )  # fmt: skip


def _preprocessed(
    problem: Problem,
    candidate: Candidate,
    files: tuple[tuple[str, str], ...],
    compiler: Compiler,
    more: tuple[str, ...],
    folder: Path,
    limits: Limits,
) -> str | Failure:
    """The preprocessed text, checked and rewritten, which it also leaves in a file."""
    sources = folder / "sources"
    for name, body in files:
        path = sources / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, newline="")
    made = folder / PREPROCESSED
    command = [compiler.path, *_flags(candidate, compiler), *more, "-E", "-x", "c++", "-", "-o", str(made)]
    ended = bounded.run(
        command, folder=sources, temporary=folder / "temporary", limits=limits, stdin=launches.text(problem, candidate)
    )
    if ended.status != 0:
        return diagnostics.failure(problem, candidate, ended, limits)
    text = made.read_text(errors="replace")
    if fault := gate.check_preprocessed(text, headers=HEADERS):
        return fault if fault.kind != "asm" else Failure(
            stage="build", kind="emulation", message=NO_PTX, location=fault.location
        )  # fmt: skip
    if found := shared_memory.OWN.search(gate.own_text(text)):
        return Failure(stage="build", kind="source", message=f"the name {found[0]!r} is the emulation's own")
    rewritten = shared_memory.rewrite(text)
    if isinstance(rewritten, str):
        (folder / REWRITTEN).write_text(rewritten)
    return rewritten


def _flags(candidate: Candidate, compiler: Compiler) -> tuple[str, ...]:
    options = dict(candidate.options)
    standard = f"-std={options.get('std', 'c++17')}"
    contract = "-ffp-contract=off" if options.get("fmad") is False else "-ffp-contract=fast"
    kept = tuple(flag for flag in FLAGS if not flag.startswith("-std="))
    return (standard, *kept, *MORE, contract, *cpp.flags_of_machine(compiler))


def _watched(compiler: Compiler) -> tuple[str, ...]:
    """Only g++: others wake the checker's library in other ways."""
    return () if "clang" in compiler.banner else WATCHED


def _run(command: tuple[str, ...], folder: Path, limits: Limits) -> Ended:
    return bounded.run(list(command), folder=folder, temporary=folder / "temporary", limits=limits)


def _objcopy() -> str:
    found = shutil.which("objcopy")
    if found is None:
        raise MissingTool("objcopy is missing; emulated kernels cannot be built", "apt-get install binutils")
    return found
