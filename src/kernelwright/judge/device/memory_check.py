"""Finalists under the vendor's memory and race checkers: compute-sanitizer on one run of the plan, in a child process.

Covers: accesses outside allocations (each tensor is one), reads of memory nobody wrote, races in shared
    memory, wrong use of barriers.
Does not cover: races in global memory; accesses that stay inside another tensor's allocation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from kernelwright import codec
from kernelwright.types import Artifact, Candidate, Check, Problem

TOOLS = ("memcheck", "initcheck", "racecheck", "synccheck")
PROGRAM = "compute-sanitizer"
PACKAGE = "nvidia-cuda-sanitizer-api"
REPLAY = "kernelwright.judge.device.replay"
ERRORS_EXIT = 86
TIMEOUT_S = 40.0
"""For one tool: all of them together must leave time for the judgement that they belong to."""
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
"""Each tensor is then an allocation of its own, so that the checker knows its ends."""
FINDING = re.compile(
    r"========= (?:Error: |Warning: )?((?:Invalid (?!argument|device ordinal)|Uninitialized|Race reported|"
    r"Barrier error|Misaligned|Potential|Address|Out-of-range|Stack overflow|Illegal|Unspecified|"
    r"Divergent|Missing)[^\n]*)"
)
"""What a kernel did. Calls of the driver's interface that it refused are nobody's finding: torch asks for functions
that this driver does not have and goes on without them."""
API_ERROR = re.compile(r"========= Program hit [^\n]*")
PLACE = re.compile(r"=========\s+at (?:0x[0-9a-f]+ in )?([^\n]+)")
SUMMARY = re.compile(r"SUMMARY: (\d+) error")
RACES = re.compile(r"SUMMARY: \d+ hazards? displayed \((\d+) errors?")
"""Warnings are hazards within a warp, which may be there on purpose; the emulated device minds them."""
OPTIONS = {
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "all"),
}
"""Where a kernel is launched by the driver's interface the analysis of races reports none; single hazards are seen."""


def find() -> str | None:
    """Returns the checker's path: on PATH, or in the wheel that carries it."""
    if path := shutil.which(PROGRAM):
        return path
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    return next((str(f.locate()) for f in files if f.name == PROGRAM), None)


def run(
    problem: Problem, candidate: Candidate, artifact: Artifact, tools: Sequence[str]
) -> tuple[tuple[Check, ...], tuple[str, ...]]:
    """Returns one check for each tool that could run, and a note for each that could not."""
    program = find()
    if program is None:
        return (), tuple(f"{tool} did not run: there is no {PROGRAM} (pip install {PACKAGE})" for tool in tools)
    checks, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "replay.json")
        path.write_text(codec.dumps({"problem": problem, "candidate": candidate, "artifact": artifact}))
        for tool in tools:
            found = _run_tool(program, tool, path)
            if isinstance(found, Check):
                checks.append(found)
            else:
                notes.append(found)
    return tuple(checks), tuple(notes)


def command(program: str, tool: str, path: Path) -> list[str]:
    """Returns the command line of one tool."""
    return [
        program, "--tool", tool, *OPTIONS.get(tool, ()),
        "--error-exitcode", str(ERRORS_EXIT), "--print-limit", "20",
        sys.executable, "-P", "-m", REPLAY, str(path),
    ]  # fmt: skip


def _run_tool(program: str, tool: str, path: Path) -> Check | str:
    try:
        done = subprocess.run(
            command(program, tool, path),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            env={**os.environ, **ENVIRONMENT},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{tool} did not run: {type(error).__name__}"
    return read(tool, done.returncode, done.stdout + done.stderr)


def read(tool: str, status: int, text: str) -> Check | str:
    """Returns what a tool's output says: a check, or why there is none.

    Args:
        tool: its name.
        status: the process's exit status.
        text: all that it printed.
    """
    racy = tool == "racecheck"
    findings = FINDING.findall("\n".join(line for line in text.splitlines() if not racy or "Warning: " not in line))
    counts = [int(count) for count in (RACES if racy else SUMMARY).findall(text)]
    refused = len(API_ERROR.findall(text))
    total = max((*(count - refused for count in counts), len(findings)))
    if total:
        places = PLACE.findall(text)
        where = f" at {places[0].strip()}" if places else ""
        first = findings[0].strip() if findings else "see its output"
        return Check(name=tool, passed=False, evidence=f"{total} findings; first: {first}{where}")
    if (status != 0 and not (refused and status == ERRORS_EXIT)) or not counts:
        lines = [line.removeprefix("========= ") for line in text.strip().splitlines()] or ["it printed nothing"]
        return f"{tool} did not run: status {status}, {lines[-1][:200]}"
    return Check(name=tool, passed=True, evidence=f"{PROGRAM} found nothing in one run of the plan")
