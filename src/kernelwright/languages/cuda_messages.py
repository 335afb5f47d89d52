"""What NVRTC, nvcc and ptxas said: one Failure with the author's own line, and the report of resources.

Not here: running them (nvrtc.py, bounded.py), and what is refused in good code (device_inspection.py).
"""

from __future__ import annotations

import re

from kernelwright.languages import cuda_entry, device_inspection
from kernelwright.languages.bounded import OUTSIDE, Limits
from kernelwright.languages.diagnostics import DETAIL_LIMIT, KILLED_MESSAGE, definition_of
from kernelwright.types import KILLED, Candidate, Failure, Problem

ERROR = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?:catastrophic |internal )?error(?: #[\w-]+)?: (?P<text>.*)$",
    re.MULTILINE,
)
AT_LINE = re.compile(r"at line (\d+)(?: of (\S+))?")
WITH = re.compile(r"\[with [^\]]*?Planned=(.+?), Written=(.+?)\]")
COUNT = re.compile(r"\[with [^\]]*?planned=(-?\d+), written=(-?\d+)\]")
PTXAS_LINE = re.compile(r"^\s*ptxas\b.*?[,(] ?line (\d+)\)?; (?:error|fatal)\s*: (.*)$", re.MULTILINE)
PTXAS_ERROR = re.compile(r"^\s*ptxas (?:\S+ )?(?:error|fatal)\s*: (.*)$", re.MULTILINE)
LINKER_ERROR = re.compile(r"^(?:nvlink|nvcc) (?:error|fatal)\s*: (.*)$", re.MULTILINE)
FUNCTION = re.compile(r"Function properties for '?([\w$]+)'?")
SPILLS = re.compile(r"(\d+) bytes spill stores")
BUILTINS = re.compile(r"failed to open\s+\S*nvrtc-builtins")
MEMORY = re.compile(r"out of memory|std::bad_alloc|annot allocate memory|memory exhausted", re.IGNORECASE)


def failure(
    problem: Problem, candidate: Candidate, status: int | None, log: str, limits: Limits, ptx: str = ""
) -> Failure:
    """Returns what an unsuccessful compilation means for the candidate.

    Args:
        problem: what the plan is for.
        candidate: what was compiled.
        status: the compiler's end: None at its deadline, negative for a signal.
        log: all that it said.
        limits: what it was held to.
        ptx: the text that ptxas refused, where it got so far.
    """
    if bounded := _resource(status, log, limits):
        return Failure(stage="build", kind=bounded[0], message=bounded[1], detail=log[:DETAIL_LIMIT])
    own = {source.path for source in candidate.sources}
    for found in ERROR.finditer(log):
        file, line, text = found["file"].removeprefix("/"), int(found["line"]), found["text"]
        context = log[found.start() : _end(log, found.end())]
        if file == cuda_entry.FILE:
            return _mismatch(problem, candidate, _entry_line(context, line), context, text, log)
        place = f"{file}:{line}" if file in own else _own_line(context, own)
        return Failure(stage="build", kind="syntax", message=text[:400], location=place, detail=log[:DETAIL_LIMIT])
    return _assembler(candidate, log, ptx) or Failure(
        stage="build", kind="syntax", message=_first_line(log), detail=log[:DETAIL_LIMIT]
    )


def spills(log: str) -> dict[str, int]:
    """Returns the bytes of spill stores by function, from the report of ptxas."""
    found: dict[str, int] = {}
    symbol = ""
    for line in log.splitlines():
        if named := FUNCTION.search(line):
            symbol = named[1]
        elif (spilled := SPILLS.search(line)) and symbol:
            found[symbol] = int(spilled[1])
    return found


def _resource(status: int | None, log: str, limits: Limits) -> tuple[str, str] | None:
    if status == OUTSIDE:
        return KILLED, KILLED_MESSAGE
    if status is None or status in (-24, 152, 137, -9):
        how = f"the compiler took longer than {limits.time_s:.0f} s and was killed"
        return "timeout", f"{how}; less unrolling, fewer templates or shorter constexpr loops compile sooner"
    if BUILTINS.search(log):
        what = f"the compiler could not load its own library within {limits.memory_bytes >> 20} MiB"
        return "memory", f"{what}; if every kernel is told so, NVRTC is not whole: see kernelwright doctor"
    if MEMORY.search(log):
        return "memory", f"the compiler needed more than {limits.memory_bytes >> 20} MiB and was stopped"
    if status in (-25, 153):
        return "size", f"the compiler wrote more than {limits.file_bytes >> 20} MiB and was stopped"
    if status < 0 or not log.strip():
        may = f"perhaps for lack of memory: it may use {limits.memory_bytes >> 20} MiB"
        return "compiler", f"the compiler itself failed (status {status}), {may}"
    return None


def _end(log: str, start: int) -> int:
    """Where the next error begins."""
    following = ERROR.search(log, start)
    return following.start() if following else len(log)


def _entry_line(context: str, line: int) -> int:
    """The line of the entry's text that asked: the error itself stands inside a template."""
    asked = [int(number) for number, file in AT_LINE.findall(context) if not file or file.endswith(cuda_entry.FILE)]
    return asked[-1] if asked else line


def _own_line(context: str, own: set[str]) -> str:
    """The author's line that led into a header."""
    for number, file in AT_LINE.findall(context):
        if file.strip('"').removeprefix("/") in own:
            return f"{file.strip(chr(34)).removeprefix('/')}:{number}"
    return ""


def _mismatch(problem: Problem, candidate: Candidate, line: int, context: str, text: str, log: str) -> Failure:
    """An error in the entry's own text: the plan and the source do not agree."""
    place = cuda_entry.locate(problem, candidate, line)
    detail = log[:DETAIL_LIMIT]
    if place is None:
        message = f"the source leaves something open at its end, or redefines what the check of the plan needs: {text}"
        return Failure(stage="build", kind="syntax", message=message[:400], detail=detail)
    where, wanted = f"step {place.number} {place.step.symbol!r}", cuda_entry.signature(problem, place.step)
    if "undefined" in text or "has no" in text:
        message = f"{where}: the source defines no such kernel; the plan needs {wanted}"
        return Failure(stage="build", kind="symbol", message=message, detail=detail)
    location = definition_of(candidate, place.step.symbol)
    if place.argument is None:
        found = COUNT.search(context)
        written = f"takes {found[2]} arguments" if found and int(found[2]) >= 0 else "is no function that returns void"
        fault = f"the kernel {written}, the plan gives {len(place.step.arguments)}"
    else:
        binding = place.step.arguments[place.argument]
        types = WITH.search(context)
        planned = cuda_entry.spelled(problem, binding)
        differ = f"is {planned} in the plan and {types[2]} in the source" if types else text
        fault = f"argument {place.argument + 1} {binding.name!r} {differ}"
    message = f"{where}: the source does not match the plan: {fault}; the plan needs {wanted}"
    return Failure(stage="build", kind="type", message=message, location=location, detail=detail)


def _assembler(candidate: Candidate, log: str, ptx: str) -> Failure | None:
    """What the assembler refused: inline PTX, or more of a resource than there is."""
    detail = log[:DETAIL_LIMIT]
    if found := PTXAS_LINE.search(log):
        location = device_inspection.locate_ptx(candidate, ptx, int(found[1])) if ptx else ""
        return Failure(
            stage="build", kind="syntax", message=f"ptxas: {found[2][:300]}", location=location, detail=detail
        )
    found = PTXAS_ERROR.search(log) or LINKER_ERROR.search(log)
    if found is None:
        return None
    if unresolved := re.search(r"(?:Unresolved extern \w+|Undefined reference to) '([\w$]+)'", found[1]):
        kind, message = device_inspection.why_wanted(unresolved[1])
        return Failure(stage="build", kind=kind, message=message, detail=detail)
    kind = "resources" if re.search(r"too much|too many|exceed", found[1]) else "syntax"
    return Failure(stage="build", kind=kind, message=f"ptxas: {found[1][:300]}", detail=detail)


def _first_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower()] or lines
    return told[0][:400]
