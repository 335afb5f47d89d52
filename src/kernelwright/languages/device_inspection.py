"""What device code may not hold, looked up in what the compiler made: the cubin's tables and its PTX.

The source cannot be trusted to show it: macros, templates and assembler text hide anything. After the compiler, every
way to keep state, to know the time, or to reach the host is a name.

**Covers**: functions that somebody else would have to define (device printf, malloc and free, assertions, launches
from the device); variables in device memory that code refers to, which live from one launch to the next and so could
count calls or keep answers (tables belong into __constant__ memory; what headers define and nobody uses is left
alone); registers that tell the time, count events, or number the launches (%clock, %clock64, %globaltimer, %pm,
%gridid): a kernel that knows when it is timed can behave otherwise; textures and surfaces by name; the system
registers of a grid-wide barrier in a kernel that is not launched cooperatively.
**Does not cover**: addresses that code makes up, what it finds in shared memory, registers or workspaces before it
wrote there, and instructions whose duration tells the time: the judge fills memory with poison, compares the outputs
of timed runs, and runs memory checkers. `trap`, `nanosleep` and `%smid` are allowed: a trap fails its own
candidate, and persistent kernels need the other two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kernelwright.languages.cubin import Cubin
from kernelwright.types import Candidate, Failure

FUNCTIONS = {
    "vprintf": ("printf", "device printf writes to the host's terminal and slows the kernel; leave it out"),
    "malloc": ("memory", "device malloc keeps memory between launches; use a workspace of the plan"),
    "free": ("memory", "device free goes with malloc, which keeps memory between launches; use a workspace"),
    "__assertfail": ("assert", "device assertions end the context; leave them out (assert of <assert.h> is empty)"),
    "cudaLaunchDevice": ("launch", "kernels are started by the plan, not from the device; add a step to the plan"),
    "cudaGetParameterBuffer": ("launch", "kernels are started by the plan, not from the device; add a step"),
}
"""By the beginning of the name: the failure's kind, and why."""
REGISTERS = re.compile(
    r"%(clock(?:_hi|64)?|globaltimer(?:_lo|_hi)?|pm\d(?:_64)?|pm\d|gridid|warpid|nwarpid|envreg\d+|current_graph_exec)\b"
)
BARRIER_REGISTERS = frozenset(("envreg1", "envreg2"))
"""What cooperative_groups::this_grid().sync() asks for its counter's address."""
HARMLESS_REGISTERS = frozenset(("warpid", "nwarpid"))
OPAQUE = re.compile(r"\.(texref|samplerref|surfref)\b")
LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+(?:\s*,\s*function_name\s+\S+\s*,\s*inlined_at\s+(\d+)\s+(\d+))?")
FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
ENTRY = re.compile(r"\.entry\s+([\w$]+)")
IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$]*")
RENAMED = re.compile(r"\$__(.+)__\d+\$\d+")
LENGTH = re.compile(r"\d+")
DECLARATION = re.compile(r"[\s{}]*(?:\.(?:visible|extern|weak|common)\s+)*\.(?:global|extern\s+\.global)\b")


class Line(NamedTuple):
    """One line of PTX without its comments, and the source line that it came from."""

    text: str
    location: str
    kernel: str
    """The entry that it stands in or after."""


def inspect(candidate: Candidate, built: Cubin, ptx: str) -> Failure | None:
    """Returns why compiled code may not run, None where it may."""
    lines = list(ptx_lines(candidate, ptx))
    return (
        _wanted(built, lines) or _variables(candidate, built, lines) or _registers(candidate, lines) or _textures(lines)
    )


def _textures(lines: list[Line]) -> Failure | None:
    found = next((line for line in lines if OPAQUE.search(line.text)), None)
    return _refuse("symbol", "textures and surfaces by name belong to a host program", found) if found else None


def ptx_lines(candidate: Candidate, ptx: str) -> Iterator[Line]:
    """Yields the lines of PTX with the candidate's own source line that each came from."""
    own = {source.path for source in candidate.sources}
    files = {}
    for line in ptx.splitlines():
        if found := FILE.match(line):
            files[found[1]] = found[2].removeprefix("/")
    location = kernel = ""
    for line in re.sub(r"/\*.*?\*/", " ", ptx, flags=re.DOTALL).splitlines():
        if found := LOC.match(line):
            places = [(found[1], found[2])] + ([(found[3], found[4])] if found[3] else [])
            mine = [f"{files[file]}:{number}" for file, number in places if files.get(file) in own and number != "0"]
            location = mine[0] if mine else location
            continue
        if found := ENTRY.search(line):
            kernel, location = found[1], ""
        text = line.split("//")[0]
        if text.strip() and not FILE.match(line):
            yield Line(text, location, kernel)


def locate_ptx(candidate: Candidate, ptx: str, number: int) -> str:
    """Returns the candidate's source line behind line `number` of PTX, empty where there is none."""
    lines = list(ptx_lines(candidate, "\n".join(ptx.splitlines()[:number]) + "\n" + _file_lines(ptx)))
    return lines[-1].location if lines else ""


def _file_lines(ptx: str) -> str:
    return "\n".join(line for line in ptx.splitlines() if FILE.match(line))


def _wanted(built: Cubin, lines: list[Line]) -> Failure | None:
    for name in built.wanted:
        at = next((line for line in lines if _mentions(line.text, name) and ".extern" not in line.text), None)
        return _refuse(*why_wanted(name), at)
    return None


def why_wanted(name: str) -> tuple[str, str]:
    """Returns the kind and the message for a function that nobody in the candidate's sources defines."""
    for beginning, (kind, why) in FUNCTIONS.items():
        if name.startswith(beginning):
            return kind, f"{name!r}: {why}"
    return "symbol", f"{name!r} is used but defined nowhere in the candidate's sources"


def _variables(candidate: Candidate, built: Cubin, lines: list[Line]) -> Failure | None:
    uses, declared = _names(lines) if built.variables else ({}, set())
    for variable in built.variables:
        used = uses.get(variable.name)
        # Left alone is only what the PTX declares under this very name and no code looks at: constants of headers.
        # The assembler renames what inline PTX declares inside a function.
        if used is None and variable.name in declared:
            declared.remove(variable.name)
            continue
        message = (
            f"{_plain(variable.name)!r} is a variable in device memory, which keeps what is written to it from one "
            "launch to the next; use a workspace of the plan, __constant__ for a table, or make it __shared__ or local"
        )
        location = _source_line(candidate, variable.name) or (used.location if used else "")
        return Failure(stage="inspect", kind="state", message=message, location=location)
    return None


def _registers(candidate: Candidate, lines: list[Line]) -> Failure | None:
    together = {s.symbol for s in candidate.plan.steps if s.launch is not None and s.launch.cooperative}
    for line in lines:
        for found in REGISTERS.finditer(line.text):
            name = found[1]
            if name in HARMLESS_REGISTERS or (name in BARRIER_REGISTERS and line.kernel in together):
                continue
            if name in BARRIER_REGISTERS:
                message = f"kernel {line.kernel!r} waits for the whole grid: launch it with cooperative: true"
                return _refuse("plan", message, line)
            message = (
                f"the register %{name} tells the time or counts launches; kernels may not know when they are timed"
            )
            return _refuse("clock", message, line)
    return None


def _names(lines: list[Line]) -> tuple[dict[str, Line], set[str]]:
    """Every name that code refers to, with the first line that does, and every name of a variable that is declared."""
    uses: dict[str, Line] = {}
    declared: set[str] = set()
    for line in lines:
        for statement in line.text.split(";"):
            if DECLARATION.match(statement):
                declared.update(IDENTIFIER.findall(statement.split("=")[0]))
                continue
            for name in IDENTIFIER.findall(statement):
                uses.setdefault(name, line)
    return uses, declared


def _mentions(text: str, name: str) -> bool:
    return bool(name) and re.search(rf"(?<![\w$%]){re.escape(name)}(?![\w$])", text) is not None


def _plain(name: str) -> str:
    """A variable's own name: _ZZ1kE5state -> state, $__hidden__241$1 -> hidden."""
    if found := RENAMED.fullmatch(name):
        return found[1]
    parts, position = [], 0
    while name.startswith("_Z") and (found := LENGTH.search(name, position)):
        position = found.end() + int(found[0])
        parts.append(name[found.end() : position])
    return parts[-1] if parts else name


def _source_line(candidate: Candidate, name: str) -> str:
    for source in candidate.sources:
        if found := re.search(rf"\b{re.escape(_plain(name))}\b", source.text):
            return f"{source.path}:{source.text.count(chr(10), 0, found.start()) + 1}"
    return ""


def _refuse(kind: str, message: str, line: Line | None) -> Failure:
    return Failure(stage="inspect", kind=kind, message=message, location=line.location if line else "")
