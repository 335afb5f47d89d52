"""Builds with a memory or race checker of the compiler's in them, for finalists.

**Covers**: `address` (bounds, freed memory), `undefined` (arithmetic and pointers without meaning), `thread` (races);
macros by which a source could see that it is checked, attributes that switch the checker off for a function.
**Does not cover**: what inline assembly and vector built-ins (masked and streaming accesses) read and write.
Not here: the program that runs such a build and reads what it says (judge/checkers.py).
"""

from __future__ import annotations

import re

from kernelwright.types import Failure, digest

FORMAT = 1
CHECKERS = ("address", "undefined", "thread")
COMMON = ("-O1", "-g", "-fno-omit-frame-pointer", "-U__SANITIZE_ADDRESS__", "-U__SANITIZE_THREAD__")
"""-O1: found places are those that the author wrote. A source must not see that it is looked at."""
FLAGS = {
    "address": ("-fsanitize=address",),
    "undefined": (
        "-fsanitize=undefined", "-fno-sanitize=vptr", "-fno-sanitize-recover=all",
    ),
    "thread": ("-fsanitize=thread",),
}  # fmt: skip
LINK_FLAGS = ("-shared", "-nostartfiles", "-static-libgcc")
OFF = re.compile(r"\b_*(no_sanitize\w*|no_address_safety_analysis)\b")


def flags(checker: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the compiler's further flags and the linker's."""
    # Teams of threads are the checked program's own, which tells the checker what waits for what.
    own_teams = ("-nodefaultlibs", "-lm", "-lc", "-lstdc++") if checker == "thread" else ()
    return (*COMMON, *FLAGS[checker]), (*LINK_FLAGS, *own_teams)


def key(build: str, checker: str) -> str:
    """Returns the identity of a checked build of what has another key without the checker."""
    return digest((FORMAT, checker, FLAGS[checker], COMMON, build))


def switched_off(preprocessed: str) -> Failure | None:
    """Returns why a source may not be checked: it switches the checker off somewhere."""
    found = OFF.search(preprocessed)
    if found is None:
        return None
    message = f"the source switches memory checkers off: {found[0]}"
    return Failure(stage="build", kind="checker", message=message)
