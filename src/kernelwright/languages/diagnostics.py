"""What a C++ compiler said, as one Failure with the author's own line.

Reads the text form that g++ and clang++ share (the JSON form comes and goes between versions).
Not here: running the compiler (bounded.py).
"""

from __future__ import annotations

import re

from kernelwright.languages import entry
from kernelwright.languages.bounded import OUTSIDE, Ended, Limits
from kernelwright.languages.plan import signature
from kernelwright.types import KILLED, Candidate, Failure, Problem, Step, value

LINE = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)? (?P<kind>fatal error|error|note|warning): (?P<text>.*)$")
CONTEXT = re.compile(r"(?:In file included from|^\s+from) (?P<file>[^:\n]+):(?P<line>\d+)")
REQUIRED = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)?\s+(?:required|in|recursively|instantiated)\b")
OUT_OF_MEMORY = re.compile(
    r"out of memory|virtual memory exhausted|annot allocate memory|memory exhausted|std::bad_alloc"
    r"|failed to map segment|Killed signal terminated|LLVM ERROR: .*alloc"
)
SPELLINGS = {
    "long int": "int64_t", "long": "int64_t", "int": "int32_t", "short int": "int16_t", "short": "int16_t",
    "signed char": "int8_t", "unsigned char": "uint8_t", "short unsigned int": "uint16_t",
    "unsigned int": "uint32_t", "long unsigned int": "uint64_t",
}  # fmt: skip
"""The plan's word for a type, by the compiler's."""
SCALAR_MISMATCH = re.compile(
    r"Other = (?P<written>.+?)[;\]].*?T = (?P<planned>.+?)[\];]"  # g++
    r"|kernelwright_exact<(?P<also_planned>\w+)>'(?: \(aka '[^']*'\))? to '(?P<also_written>\w+)'"  # clang++
)
"""How a compiler says that a scalar would have to be converted."""
DETAIL_LIMIT = 20_000
KILLED_MESSAGE = "the compiler was killed or stopped by something outside (out of memory?)"
UNSTABLE = frozenset(("timeout", "memory", "size", "compiler", KILLED))
"""Kinds that say something about this machine now, and so may not be remembered."""


@value
class Said:
    """One error with its place."""

    file: str
    line: int
    text: str
    own: str
    """file:line of the author's code that led there, empty where none is named."""


def failure(problem: Problem, candidate: Candidate, ended: Ended, limits: Limits) -> Failure:
    """Returns what a compiler's unsuccessful end means for the candidate."""
    output = ended.output
    if kind_message := _resource(ended, limits):
        kind, message = kind_message
        return Failure(stage="build", kind=kind, message=message, detail=output[:DETAIL_LIMIT])
    own = {source.path for source in candidate.sources}
    for path in own:  # clang++ writes ./kernel.cpp
        output = output.replace(f"./{path}:", f"{path}:")
    first = _first_error(output, own)
    if first is None:
        return _without_place(candidate, output, ended)
    if first.file == entry.FILE:
        return _mismatch(problem, candidate, first, output)
    return Failure(
        stage="build", kind="syntax", message=first.text[:400], location=first.own, detail=output[:DETAIL_LIMIT]
    )


def _resource(ended: Ended, limits: Limits) -> tuple[str, str] | None:
    output = ended.output
    if ended.status == OUTSIDE:
        return KILLED, KILLED_MESSAGE
    if ended.status is None or "CPU time limit exceeded" in output or ended.status in (137, -9, -24):
        how = f"the compiler took longer than {limits.time_s:.0f} s and was killed"
        return "timeout", f"{how}; less unrolling, fewer templates or shorter constexpr loops compile sooner"
    if "File size limit exceeded" in output or ended.status in (153, -25):
        return "size", f"the compiler wrote more than {limits.file_bytes >> 20} MiB and was stopped"
    if OUT_OF_MEMORY.search(output):
        return "memory", f"the compiler needed more than {limits.memory_bytes >> 20} MiB and was stopped"
    if "internal compiler error" in output or "Segmentation fault" in output:
        lines = [line for line in output.splitlines() if "internal compiler error" in line or "Segmentation" in line]
        return "compiler", f"the compiler itself failed: {lines[0][:200]}"
    return None


def _first_error(output: str, own: set[str]) -> Said | None:
    """The first error, with the notes behind it and the nearest line of the author's that led to it."""
    lines = output.splitlines()
    included = required = ""
    for number, line in enumerate(lines):
        if (found := CONTEXT.search(line)) and found["file"] in own:
            included = f"{found['file']}:{found['line']}"
        if (found := REQUIRED.search(line)) and found["file"] in own:
            required = f"{found['file']}:{found['line']}"
        found = LINE.match(line)
        if not found or found["kind"] not in ("error", "fatal error"):
            continue
        notes = _notes(lines[number + 1 :])
        noted = next((f"{note['file']}:{note['line']}" for note in notes if note["file"] in own), "")
        place = f"{found['file']}:{found['line']}" if found["file"] in own else required or noted or included
        return Said(file=found["file"], line=int(found["line"]), text=found["text"], own=place)
    return None


def _notes(lines: list[str]) -> list[re.Match[str]]:
    """The notes before the next error or warning."""
    notes = []
    for line in lines:
        found = LINE.match(line)
        if found and found["kind"] != "note":
            break
        if found:
            notes.append(found)
    return notes


def _mismatch(problem: Problem, candidate: Candidate, said: Said, output: str) -> Failure:
    """An error in the generated entry: the plan and the source do not agree."""
    place = entry.locate(candidate, said.line)
    if place is None:
        message = f"the source leaves something open at its end, or redefines what the entry needs: {said.text}"
        return Failure(stage="build", kind="syntax", message=message[:400], detail=output[:DETAIL_LIMIT])
    step, number, argument = place
    where = f"step {number + 1} {step.symbol!r}"
    if re.search(rf"'(::)?{step.symbol}' (has not been declared|was not declared)", said.text) or re.search(
        rf"no member named '{step.symbol}'", said.text
    ):
        wanted = signature(step, problem)
        message = f"{where}: the source defines no such function; the plan needs {wanted}"
        return Failure(stage="build", kind="symbol", message=message, detail=output[:DETAIL_LIMIT])
    message = f"{where}: the source does not match the plan: {_argument_fault(step, argument, said)}; the plan needs "
    return Failure(
        stage="build",
        kind="type",
        message=message + signature(step, problem),
        location=said.own or definition_of(candidate, step.symbol),
        detail=output[:DETAIL_LIMIT],
    )


def definition_of(candidate: Candidate, symbol: str) -> str:
    """Returns file:line of the first mention of a function's name with a parenthesis."""
    for source in candidate.sources:
        if found := re.search(rf"\b{symbol}\s*\(", source.text):
            return f"{source.path}:{source.text.count(chr(10), 0, found.start()) + 1}"
    return ""


def _argument_fault(step: Step, argument: int | None, said: Said) -> str:
    if found := SCALAR_MISMATCH.search(said.text):
        wanted, given = found["planned"] or found["also_planned"], found["written"] or found["also_written"]
        planned = SPELLINGS.get(wanted, wanted)
        names = [repr(b.name) for b in step.arguments if b.kind == "scalar" and b.ctype == planned]
        written = SPELLINGS.get(given, given)
        return f"scalar {' or '.join(names)} is {planned} in the plan and {written} in the source"
    name = f"argument {step.arguments[argument].name!r}: " if argument is not None else ""
    return name + said.text


def _without_place(candidate: Candidate, output: str, ended: Ended) -> Failure:
    if found := re.search(r"undefined (?:reference to|symbol:?) [`']?([^'\n]+)", output):
        if found[1] == "__dso_handle":
            message = (
                "a static or thread_local object has a destructor, which would run after the judge; use plain arrays"
            )
            return Failure(stage="build", kind="constructor", message=message, detail=output[:DETAIL_LIMIT])
        message = f"{found[1]!r} is declared and used but defined nowhere; define it in the candidate's sources"
        own = next((s.path for s in candidate.sources if f"{s.path}:" in output), "")
        return Failure(stage="build", kind="symbol", message=message, location=own, detail=output[:DETAIL_LIMIT])
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines
    text = errors[0] if errors else f"the compiler ended with status {ended.status} and said nothing"
    return Failure(stage="build", kind="syntax", message=text[:400], detail=output[:DETAIL_LIMIT])
