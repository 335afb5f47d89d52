"""What an emulated candidate's library may keep between its calls: nothing, as on a device.

**Covers**: variables that can be written and are not the emulation's own; functions that give memory.
**Does not cover**: what every library is held to (inspection.py).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from kernelwright.types import Failure

OURS = re.compile(r"_Z[ZNLK]*22kernelwright_emulation\w*|_ZL(9threadIdx|8blockIdx|8blockDim|7gridDim)")
SHARED = re.compile(r"\w*kw_shared_\d+_\d+\w*")
"""Handles of arrays in shared memory: they hold where the running launch has placed them."""
WRITABLE = re.compile(r"\.t?(data|bss)(?!\.rel\.ro)(\..*)?")
ALLOCATORS = re.compile(r"malloc|calloc|realloc|free|aligned_alloc|posix_memalign|_Zn[wa]\w+|_Zd[la]\w+")


def inspect(library: Path) -> Failure | None:
    """Returns why a library keeps something between its calls, None where it does not."""
    with library.open("rb") as file:
        elf: Any = ELFFile(file)
        for symbol in elf.get_section_by_name(".dynsym").iter_symbols():
            if symbol["st_shndx"] == "SHN_UNDEF" and ALLOCATORS.fullmatch(symbol.name):
                return _refuse("memory", f"the code asks for memory ({symbol.name}); workspaces are in the plan")
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            name, section = symbol.name, symbol["st_shndx"]
            if symbol["st_info"]["type"] not in ("STT_OBJECT", "STT_TLS", "STT_COMMON") or not isinstance(section, int):
                continue
            kept = WRITABLE.fullmatch(elf.get_section(section).name)
            if kept and not OURS.match(name) and not SHARED.fullmatch(name):
                plain = re.sub(r"^_ZL?\d+", "", name)
                return _refuse("state", f"the code has the variable {plain!r}, which lives from one call to the next")
    return None


def _refuse(kind: str, message: str) -> Failure:
    return Failure(stage="inspect", kind=kind, message=message)
