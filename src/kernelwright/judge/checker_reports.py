"""What checkers print, as one line of evidence: what happened, where in the source, next to which buffer.

Not here: running the checked program (checkers.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

PLACE = re.compile(r"^ +#\d+ .* \S*/sources/(?P<file>[^\s:<>]+):(?P<line>\d+)", re.MULTILINE)
"""A frame in the author's files: they lie below `sources` where they are built (cpp.py)."""
GLOBAL = re.compile(r"Location is (?:global '(?P<name>\w+)'|(?P<place>stack|heap))")
ADDRESS = re.compile(r"ERROR: AddressSanitizer: (?P<what>[\w-]+)(?: on (?:unknown )?address (?P<at>0x[0-9a-f]+))?")
ACCESS = re.compile(r"^(?P<way>READ|WRITE) of size (?P<size>\d+) at (?P<at>0x[0-9a-f]+)", re.MULTILINE)
UNDEFINED = re.compile(r"^(?P<file>\S+?):(?P<line>\d+):\d+: runtime error: (?P<what>.+)$", re.MULTILINE)
RACE = re.compile(r"WARNING: ThreadSanitizer: (?P<what>[\w ()-]+?)(?: \(pid=\d+\))?$", re.MULTILINE)
RACE_ACCESS = re.compile(
    r"^  (?P<way>(?:Previous )?(?:atomic )?(?:[Ww]rite|[Rr]ead)) of size (?P<size>\d+) at (?P<at>0x[0-9a-f]+) by",
    re.MULTILINE,
)
BUFFER = re.compile(r"^buffer (?P<name>\S+) (?P<at>0x[0-9a-f]+) (?P<size>\d+)$", re.MULTILINE)
NEAR_BYTES = 1 << 16


class Placed(NamedTuple):
    """A buffer of the call that was being made."""

    name: str
    address: int
    size: int


def buffers_of(printed: str) -> tuple[Placed, ...]:
    """Returns the buffers that a checked program has announced, those of its last call."""
    latest = {m["name"]: Placed(m["name"], int(m["at"], 16), int(m["size"])) for m in BUFFER.finditer(printed)}
    return tuple(latest.values())


def evidence(checker: str, report: str, buffers: Sequence[Placed]) -> str | None:
    """Returns what a checker found, None where its report holds no finding."""
    return {"address": _address, "undefined": _undefined, "thread": _thread}[checker](report, buffers)


def _address(report: str, buffers: Sequence[Placed]) -> str | None:
    found = ADDRESS.search(report)
    if found is None:
        return None
    what, place = found["what"].replace("-", " "), _place(report)
    if access := ACCESS.search(report):
        way = "reads" if access["way"] == "READ" else "writes"
        near = nearest(int(access["at"], 16), buffers)
        return f"{place}{way} {access['size']} bytes {near or 'where nothing is its own'} ({what})"
    near = nearest(int(found["at"], 16), buffers) if found["at"] else ""
    return f"{place}{what}{f' {near}' if near else ''}"


def _undefined(report: str, buffers: Sequence[Placed]) -> str | None:
    del buffers
    found = UNDEFINED.search(report)
    return None if found is None else f"{found['file']}:{found['line']}: {found['what']}"


def _thread(report: str, buffers: Sequence[Placed]) -> str | None:
    found = RACE.search(report)
    if found is None:
        return None
    parts = []
    for access in list(RACE_ACCESS.finditer(report))[:2]:
        place = _place(report[access.end() :].partition("\n\n")[0])
        parts.append(f"{place}{access['way'].removeprefix('Previous ').lower()} of {access['size']} bytes")
    if not parts:
        return f"{_place(report)}{found['what']}"
    near = next((nearest(int(a["at"], 16), buffers) for a in RACE_ACCESS.finditer(report)), "")
    if found := GLOBAL.search(report):
        near = f"at {found['name']}" if found["name"] else near or f"on the {found['place']}"
    return f"two threads meet{f' {near}' if near else ''} and nothing orders them: {'; '.join(parts)}"


def nearest(address: int, buffers: Sequence[Placed]) -> str:
    """Returns where an address lies relative to the nearest buffer, in words; empty where none is near."""
    best, text = NEAR_BYTES, ""
    for buffer in buffers:
        end = buffer.address + buffer.size
        if buffer.address <= address < end:
            return f"at byte {address - buffer.address} of {buffer.name}"
        if address >= end and address - end < best:
            best, text = address - end, f"{address - end} bytes after the end of {buffer.name}"
        elif address < buffer.address and buffer.address - address < best:
            best, text = buffer.address - address, f"{buffer.address - address} bytes before {buffer.name}"
    return text


def _place(report: str) -> str:
    """The innermost frame that lies in the author's files, as `file:line: `."""
    frame = PLACE.search(report)
    return f"{frame['file']}:{frame['line']}: " if frame else ""
