"""Several PTX modules, each with one kernel, as one module that ptxas makes one cubin of.

Method: modules that one Triton writes for one target have the same head and share only the name of dynamic shared
memory, which is one array for all kernels of a module anyway. File numbers of line information are kept apart, module
variables get a suffix, and debugging sections are left out.
Not here: running ptxas (triton_build.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable

HEAD = re.compile(r"^\.(version|target|address_size)\b.*$", re.MULTILINE)
SHARED = re.compile(r"^\.extern \.shared .*?;\s*$", re.MULTILINE)
ENTRY = re.compile(r"(\.visible \.entry )([A-Za-z_$][\w$]*)")
VARIABLE = re.compile(
    r"^(?:\.visible |\.weak )?\.(?:global|const)\b[^;={]*?\b([A-Za-z_$][\w$]*)(?:\[\d*\])?\s*[;=]", re.MULTILINE
)
SECTION = re.compile(r"^\s*\.section\s+\.debug_\w+\s*\{.*?^\s*\}\s*$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(\.file\s+)(\d+)")
LOCATION = re.compile(r"(\.loc\s+)(\d+)")


def merge(modules: tuple[tuple[str, str], ...]) -> str:
    """Returns one PTX module with the kernels of several.

    Args:
        modules: (symbol, PTX) of each; the kernel in it is renamed to the symbol.
    """
    head = [found[0] for found in HEAD.finditer(modules[0][1])]
    shared = list(dict.fromkeys(found[0].strip() for _, text in modules for found in SHARED.finditer(text)))
    bodies, files = [], 0
    for number, (symbol, text) in enumerate(modules):
        body = SECTION.sub("", SHARED.sub("", HEAD.sub("", text)))
        for name in VARIABLE.findall(body):
            body = re.sub(rf"(?<![\w$]){re.escape(name)}(?![\w$])", f"{name}_{number}", body)
        entry = ENTRY.search(body)
        if entry is not None:
            body = re.sub(rf"(?<![\w$]){re.escape(entry[2])}(_param_\d+)?(?![\w$])", rf"{symbol}\g<1>", body)
        body = LOCATION.sub(_shift(files), FILE.sub(_shift(files), body))
        files += max((int(number) for _, number in FILE.findall(text)), default=0)
        bodies.append(body.strip())
    return "\n".join([*head, "", *_one_shared(shared), "", "\n\n".join(bodies), ""])


def _shift(by: int) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{found[1]}{int(found[2]) + by}"


def _one_shared(declared: list[str]) -> list[str]:
    """One declaration of each dynamic shared array, with the strictest alignment that any module asks for."""
    best: dict[str, str] = {}
    for line in declared:
        name = re.search(r"([A-Za-z_$][\w$]*)\s*\[", line)
        align = re.search(r"\.align (\d+)", line)
        key = name[1] if name else line
        kept = re.search(r"\.align (\d+)", best.get(key, ""))
        if key not in best or (align and kept and int(align[1]) > int(kept[1])):
            best[key] = line
    return list(best.values())
