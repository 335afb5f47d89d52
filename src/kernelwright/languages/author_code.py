"""Building in a process of its own, for languages whose compiler must import the author's Python.

The build worker writes the sources and a request into its private folder and starts `python -P -m MODULE FOLDER`;
that process imports the sources, compiles, and leaves `outcome.json` and the cubin. What it left is read as data.

**Covers**: a fresh interpreter for every candidate (nothing that one candidate changes can reach the next), bounds on
time, memory, file size and processes, a jail of its own with no network and one folder, a clean environment, caches of
the compilers inside that folder.
The plan and the cubin that come out are held to the rules of every device language.
**Does not cover**: what the compiled code does, and machine code that no PTX shows (the author's Python could have made
any): the device judge's checks meet it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

from kernelwright import codec
from kernelwright.languages import cache, cubin, device_inspection, device_plan
from kernelwright.languages.bounded import Ended, Limits, run
from kernelwright.types import Artifact, Candidate, Failure, Problem, Target, digest, replace

REQUEST, OUTCOME, CUBIN, SOURCES = "request.json", "outcome.json", "kernel.cubin", "sources"
COMPILERS_OWN = re.compile(r"___NV_TILE_LAUNCH_META_DATA___|_\$_str[\w$]*")
"""Variables that compilers leave in cubins: tileiras for the driver, and libdevice the names of its switches. That no
kernel refers to them is looked up where the PTX is (kernelwright.tiles)."""
LIMITS = Limits(time_s=120.0, memory_bytes=8 << 30)
"""Compilers of tile languages map several GiB of address space before they use any of it."""
DETAIL_LIMIT = 20_000
WITHOUT_TORCH = (
    "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
"""Compilers look for torch to know its dtypes; importing it takes longer than everything else together."""
PACKAGES = Path(codec.__file__).resolve().parents[1]


def build(
    module: str, *, key: str, problem: Problem, candidate: Candidate, target: Target, folder: Path, limits: Limits
) -> Artifact | Failure:
    """Returns what became of a candidate whose compiler runs its author's code.

    Args:
        module: what to start, by name: it calls `serve_request`.
        key: the build's identity.
        problem: what it is a candidate for.
        candidate: what to build.
        target: the device to build for.
        folder: an empty private folder; an artifact's cubin is `folder/kernel.cubin`.
        limits: what the process may use.
    """
    started = time.monotonic()
    write_sources(candidate, folder)
    request = {"problem": problem, "candidate": candidate, "target": target}
    (folder / REQUEST).write_text(codec.dumps(request))
    ended = run_module(module, folder, limits=limits)
    outcome = _read(folder / OUTCOME)
    if outcome is None:
        return ended_badly(ended, limits)
    if isinstance(outcome, Failure):
        detail = outcome.detail or ended.output
        told = detail if outcome.message in detail else f"{outcome.message}\n{detail}"
        return replace(outcome, detail=told[:DETAIL_LIMIT])
    made = folder / CUBIN
    if fault := _check(problem, replace(candidate, plan=outcome.plan), target, made):
        return replace(fault, detail=fault.detail or ended.output[:DETAIL_LIMIT])
    return replace(
        outcome,
        candidate=digest(candidate),
        key=key,
        blob=cache.blob_digest(made),
        entry="",
        path=str(made),
        build_s=time.monotonic() - started,
        cached=False,
    )


def _check(problem: Problem, final: Candidate, target: Target, path: Path) -> Failure | None:
    """What is wrong with a finished plan and cubin: they come from a process that ran the author's code."""
    if fault := device_plan.check_device_plan(problem, final, target):
        return fault
    try:
        held = cubin.read(path)
    except (cubin.CubinError, OSError) as error:
        return Failure(stage="build", kind="compiler", message=f"the compiler left no whole cubin: {error}")
    kept = tuple(variable for variable in held.variables if not COMPILERS_OWN.fullmatch(variable.name))
    return device_inspection.inspect(final, replace(held, variables=kept), "") or device_plan.check_resources(
        final, held, target
    )


def write_sources(candidate: Candidate, folder: Path) -> None:
    """Writes a candidate's sources below `folder/sources`."""
    for source in candidate.sources:
        path = folder / SOURCES / source.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.text, newline="")
        os.utime(path, (0, 0))  # ptxas writes the time of the file into the line information


def run_module(
    module: str,
    folder: Path,
    *,
    limits: Limits,
    environment: tuple[tuple[str, str], ...] = (),
) -> Ended:
    """Runs one of our modules on a folder, with bounds and a clean environment, and returns how it ended.

    Args:
        module: its name.
        folder: its one argument, and where it runs.
        limits: what it may use.
        environment: further variables.
    """
    private = folder / "temporary"
    private.mkdir(exist_ok=True)
    variables = {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(PACKAGES), *packages()))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TRITON_CACHE_DIR": str(private / "triton"),
        "CUDA_TILE_CACHE_DIR": "0",
        "CUDA_TILE_TEMP_DIR": str(private),
        "OMP_NUM_THREADS": "1",
        **dict(environment),
    }
    command = ["/usr/bin/env", *(f"{name}={text}" for name, text in variables.items())]
    command += [sys.executable, "-P", "-c", WITHOUT_TORCH, module, str(folder)]
    return run(command, folder=folder, temporary=private, limits=limits, jailed=True)


def packages() -> tuple[str, ...]:
    """Returns the folders that this process was told to look for packages in, beside its interpreter's own."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return tuple(folder for folder in given if os.path.isabs(folder))


def _read(path: Path) -> Artifact | Failure | None:
    try:
        outcome = codec.loads(path.read_text())
    except cache.UNREADABLE:
        return None
    return outcome if isinstance(outcome, Artifact | Failure) else None


def ended_badly(ended: Ended, limits: Limits) -> Failure:
    """Returns what it means that a process left no outcome: killed, crashed, or ended by the author's code."""
    detail = ended.output[-DETAIL_LIMIT:]
    if ended.status is None or ended.status in (-24, 137, 152, -9):
        message = f"the build took longer than {limits.time_s:.0f} s and was killed"
        return Failure(stage="build", kind="timeout", message=message, detail=detail)
    if "MemoryError" in ended.output or "bad_alloc" in ended.output or "annot allocate memory" in ended.output:
        message = f"the build needed more than {limits.memory_bytes >> 20} MiB and was stopped"
        return Failure(stage="build", kind="memory", message=message, detail=detail)
    how = f"by signal {-ended.status}" if ended.status < 0 else f"with status {ended.status}"
    lines = [line for line in ended.output.splitlines() if line.strip()]
    message = f"the process that imports the source ended {how} before it had compiled anything"
    said = f": {lines[-1][:200]}" if lines else ""
    return Failure(stage="build", kind="signal", message=message + said, detail=detail)
