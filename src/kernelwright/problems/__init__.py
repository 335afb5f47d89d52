"""The built-in problems: operations of real models, by name.

A built-in is a name for a reference file; it takes the same road as a user's file.
Not here: any torch. `reference/` has no `__init__` and is never imported, only read.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.problems import activations, lookups, losses, normalization, scans, softmax, windows
from kernelwright.problems.entry import Entry

FOLDER = Path(__file__).resolve().parent
ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for module in (normalization, softmax, activations, scans, losses, windows, lookups)
    for entry in module.ENTRIES
}


def names() -> tuple[str, ...]:
    """Returns the names of all built-in problems, group by group."""
    return tuple(ENTRIES)


def get(name: str) -> Entry:
    """Returns the built-in problem of that name.

    Raises:
        UserError: when there is none; the fix names the closest ones.
    """
    if name in ENTRIES:
        return ENTRIES[name]
    close = close_names(name)
    fix = f"did you mean {' or '.join(close)}?" if close else "`kernelwright problems` lists them"
    raise UserError(f"there is no built-in problem {name!r}", fix)


def close_names(name: str) -> tuple[str, ...]:
    """Returns up to three built-in names that resemble `name`, best first."""
    wanted = name.lower().replace("-", "_").replace(" ", "_")
    squeezed = {known.replace("_", ""): known for known in ENTRIES}
    if found := squeezed.get(wanted.replace("_", "")):
        return (found,)
    near = difflib.get_close_matches(wanted, ENTRIES, n=3, cutoff=0.6)
    near += [known for known in ENTRIES if wanted in known and known not in near and len(wanted) > 2]
    return tuple(near[:3])


def source_text(name: str) -> str:
    """Returns the text of a built-in problem's reference.

    Raises:
        UserError: when there is no such problem.
    """
    return (FOLDER / get(name).file).read_text(encoding="utf-8")
