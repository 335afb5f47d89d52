"""Whether a file is a whole cubin for this device; looked at before the driver sees it.

The driver trusts the offsets in the file: one that was cut short ends the process that loads it.

Covers: headers, both tables of contents, every section and segment within the file, links between sections, names,
    symbols, tables of attributes, the machine and its architecture.
Does not cover: instructions and relocations that are wrong in themselves; whatever the compiler wrote is whole.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SEGMENT = struct.Struct("<IIQQQQQQ")
SYMBOL = struct.Struct("<IBBHQQ")
CUDA_MACHINE, EXECUTABLE = 190, 2
SYMTAB, STRTAB, RELA, NOBITS, REL = 2, 3, 4, 8, 9
RESERVED_INDEX = 0xFF00
"""Section indices from here on are no sections (absolute, common)."""
SVAL = 4
NEW_ABI = 8
"""From this ABI version on the architecture is the flags' second byte, before it their first."""


class Broken(Exception):
    """What is wrong with the file."""


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    entry: int


def fault(blob: bytes, architecture: int) -> tuple[str, str] | None:
    """Returns what is wrong with a cubin as a failure's kind and message, None when it is whole and fits.

    Args:
        blob: the file.
        architecture: the device's, 90 for sm_90.
    """
    try:
        number = _check(blob)
    except Broken as broken:
        return "image", f"the file is no whole cubin: {broken}"
    # Code runs on later devices of the same generation.
    if number // 10 != architecture // 10 or number > architecture:
        return "architecture", f"the cubin was built for sm_{number}, the device is sm_{architecture}"
    return None


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)


def _check(blob: bytes) -> int:
    _need(len(blob) >= HEADER.size, f"{len(blob)} bytes are no header")
    # Older compilers put their own version where ELF has a 1.
    (ident, kind, machine, _, _, segments_at, sections_at, flags, size, segment_size, segments, section_size,
     count, names) = HEADER.unpack_from(blob)  # fmt: skip
    _need(ident[:7] == b"\x7fELF\x02\x01\x01", "it does not begin as a 64-bit ELF file")
    _need(machine == CUDA_MACHINE, f"its machine is {machine}, not CUDA")
    _need(kind == EXECUTABLE, "it is not linked")
    _need(size == HEADER.size and section_size == SECTION.size, "its header has another form")
    _need(0 < count < RESERVED_INDEX and 0 < names < count, "it has no sections")
    _need(sections_at + count * SECTION.size <= len(blob), "its table of sections goes beyond the file")
    _need(segments > 0 and segment_size == SEGMENT.size, "it has no segments")
    _need(segments_at + segments * SEGMENT.size <= len(blob), "its table of segments goes beyond the file")
    for index in range(segments):
        offset, stored = (SEGMENT.unpack_from(blob, segments_at + index * SEGMENT.size)[i] for i in (2, 5))
        _need(offset + stored <= len(blob), f"segment {index} goes beyond the file")
    sections = _sections(blob, sections_at, count, names)
    for section in sections[1:]:
        _check_section(blob, section, sections)
    _need(any(s.kind == SYMTAB for s in sections), "it has no symbols")
    _need(any(s.name.startswith(".text.") for s in sections), "it has no code")
    return int(flags >> 8 & 0xFF if ident[8] >= NEW_ABI else flags & 0xFF)


def _sections(blob: bytes, at: int, count: int, names: int) -> list[_Section]:
    raw = [SECTION.unpack_from(blob, at + index * SECTION.size) for index in range(count)]
    start, size = raw[names][4], raw[names][5]
    _need(raw[names][1] == STRTAB and start + size <= len(blob), "the sections have no names")
    table = blob[start : start + size]
    return [
        _Section(_text(table, name), kind, offset, length, link, info, entry)
        for name, kind, _, _, offset, length, link, info, _, entry in raw
    ]


def _text(table: bytes, at: int) -> str:
    end = table.find(b"\0", at)
    _need(0 <= at < len(table) and end >= 0, "a name goes beyond its table")
    return table[at:end].decode("utf-8", "replace")


def _check_section(blob: bytes, section: _Section, sections: list[_Section]) -> None:
    name = section.name
    if section.kind != NOBITS:
        _need(section.offset + section.size <= len(blob), f"section {name} goes beyond the file")
    _need(section.link < len(sections), f"section {name} is linked with none")
    data = blob[section.offset : section.offset + section.size]
    if section.kind == SYMTAB:
        _check_symbols(data, section, sections, blob)
    elif section.kind in (RELA, REL):
        _need(section.info < len(sections), f"section {name} changes none")
        _need(section.entry > 0 and section.size % section.entry == 0, f"section {name} is cut short")
        _need(sections[section.link].kind == SYMTAB, f"section {name} has no symbols")
    elif name.startswith(".nv.info"):
        _check_attributes(data, name)


def _check_symbols(data: bytes, section: _Section, sections: list[_Section], blob: bytes) -> None:
    names = sections[section.link]
    _need(section.entry == SYMBOL.size and len(data) % SYMBOL.size == 0, "the symbols are cut short")
    _need(names.kind == STRTAB and names.offset + names.size <= len(blob), "the symbols have no names")
    table = blob[names.offset : names.offset + names.size]
    for name, _, _, index, _, _ in SYMBOL.iter_unpack(data):
        _text(table, name)
        _need(index < len(sections) or index >= RESERVED_INDEX, "a symbol lies in no section")


def _check_attributes(data: bytes, name: str) -> None:
    position = 0
    while position < len(data):
        _need(position + 4 <= len(data), f"the table {name} is cut short")
        form, _, size = struct.unpack_from("<BBH", data, position)
        position += 4 + (size if form == SVAL else 0)
    _need(position == len(data), f"the table {name} is cut short")
