"""`__shared__` declarations, rewritten so that the emulation places the arrays: in its arena, poisoned for each block.

    __shared__ float tile[32][33];   ->  static Shared<float[32][33]> kw_shared_1; float (&tile)[32][33] = ...here();
    extern __shared__ float all[];   ->  static float (*const all) = (float*)arena;

Works on preprocessed text and keeps its lines, so that the compiler's complaints name the author's.
Not here: what the arena watches (include/kernelwright_emulation/shared.hpp).
"""

from __future__ import annotations

import re

from kernelwright.types import Failure

WORD = "__shared__"
SPACE = "::kernelwright_emulation"
OWN = re.compile(
    r"\b(kw_shared_\w*|\w*kernelwright_emulation\w*|kwe_\w*|KWE_\w*|kernelwright_(larger|smaller|bits|whole)\w*)"
)
"""Names that only the emulation may use."""
MARKER = re.compile(r'^# (\d+) "((?:[^"\\]|\\.)*)".*$')
ALIGNMENT = re.compile(r"\b(?:alignas|__align__|__attribute__)\s*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")
NUMBER = re.compile(r"\baligned\s*\(([^()]*)\)")
DROPPED = re.compile(r"\b(static|extern|__shared__|inline)\b")
ANONYMOUS = re.compile(r"\s*(struct|union)\s*\{")
NAME = re.compile(r"([A-Za-z_]\w*)\s*$")
OPEN, CLOSE = "([{", ")]}"


class _Refused(Exception):
    pass


def rewrite(text: str) -> str | Failure:
    """Returns preprocessed text without `__shared__`, or why a declaration cannot be used."""
    parts: list[str] = []
    position = count = 0
    for found in re.finditer(rf"\b{WORD}\b", text):
        if found.start() < position:
            continue  # a second one in the same declaration
        start = max(text.rfind(mark, position, found.start()) for mark in ";{}") + 1
        start = max(start, position, _after_marker(text, found.start()))
        end = _end(text, found.end())
        count += 1
        line = _line(text, found.start())
        try:
            if end < 0:
                raise _Refused("the declaration has no end")
            made = _declaration(text[start:end], count, line[1], _depth(text, start))
        except _Refused as refused:
            message = f"a {WORD} declaration: {refused}"
            return Failure(stage="build", kind="syntax", message=message, location=f"{line[0]}:{line[1]}")
        parts += [text[position:start], made]
        position = end + 1
    return "".join([*parts, text[position:]])


def _after_marker(text: str, position: int) -> int:
    marker = text.rfind("\n# ", 0, position)
    return text.find("\n", marker + 1) + 1 if marker >= 0 else 0


def _line(text: str, position: int) -> tuple[str, int]:
    """File and line of the author's at a place in preprocessed text."""
    number, path = 0, ""
    for line in text[: text.find("\n", position)].split("\n"):
        if found := MARKER.match(line):
            number, path = int(found[1]) - 1, found[2].removeprefix("./")
        else:
            number += 1
    return path, number


def _end(text: str, position: int) -> int:
    depth = 0
    for at in range(position, len(text)):
        character = text[at]
        depth += (character in OPEN) - (character in CLOSE)
        if character == ";" and depth == 0:
            return at
        if depth < 0:
            return -1
    return -1


def _depth(text: str, position: int) -> int:
    """How many bodies are open: braces that no namespace or linkage opened."""
    last = text.rfind("kernelwright_buffers);\n", 0, position)  # the entry's declaration: the source comes after it
    opened: list[bool] = []
    for found in re.finditer(r'(namespace[\w\s:]*|extern\s*"C"\s*)?\{|\}', text[max(last, 0) : position]):
        if found[0] == "}":
            if opened:
                opened.pop()
        else:
            opened.append(found[1] is None)
    return sum(opened)


def _declaration(text: str, number: int, line: int, depth: int) -> str:
    newlines = "\n" * text.count("\n")
    plain = " ".join(text.split())
    dynamic = bool(re.search(r"\bextern\b", plain))
    alignments = [
        found[1] for found in ALIGNMENT.finditer(plain) if "aligned" not in found[1] or NUMBER.search(found[1])
    ]
    wanted = [f"({named[1]})" if (named := NUMBER.search(given)) else given for given in alignments]
    plain = DROPPED.sub(" ", ALIGNMENT.sub(" ", plain)).strip()
    before = ""
    if found := ANONYMOUS.match(plain):
        close = _closing(plain, found.end() - 1)
        before = f"{found[1]} kw_shared_type_{number} {plain[found.end() - 1 : close + 1]}; "
        plain = f"kw_shared_type_{number} {plain[close + 1 :]}"
    made = [before]
    base = ""
    for place, declarator in enumerate(_declarators(plain)):
        if "=" in declarator or "{" in declarator:
            raise _Refused("shared memory cannot have initial values")
        head, bracket, rest = declarator.partition("[")
        name = NAME.search(head)
        if name is None:
            raise _Refused(f"{declarator.strip()!r} cannot be read")
        kind = head[: name.start()].strip()
        base = kind if place == 0 else base
        kind = kind if place == 0 else f"{base.rstrip('*& ')} {kind}"
        sizes = bracket + rest.strip()
        if dynamic:
            inner = re.sub(r"^\[\s*\]", "", sizes)
            made.append(f"static {kind} (*const {name[1]}){inner} = ({kind} (*){inner}){SPACE}::arena; ")
            continue
        if depth == 0:
            raise _Refused("it stands outside every function; declare it in the kernel that uses it")
        variable = f"kw_shared_{number}_{place}"
        alignment = f", ({wanted[-1]} > alignof({kind}) ? {wanted[-1]} : alignof({kind}))" if wanted else ""
        made.append(f"static {SPACE}::Shared<{kind} {sizes}{alignment}> {variable}; ")
        made.append(f"{kind} (&{name[1]}){sizes} = {variable}.here({line}); ")
    return newlines + "".join(made)


def _declarators(text: str) -> list[str]:
    """Splits at commas that stand in no brackets; those of template arguments come before the first name ends."""
    parts: list[str] = []
    depth = angle = start = 0
    for at, character in enumerate(text):
        depth += (character in OPEN) - (character in CLOSE)
        if depth == 0 and not parts:
            angle += (character == "<") - (character == ">")
        if character == "," and depth == 0 and angle <= 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _closing(text: str, position: int) -> int:
    depth = 0
    for at in range(position, len(text)):
        depth += (text[at] in OPEN) - (text[at] in CLOSE)
        if depth == 0:
            return at
    raise _Refused("a brace is not closed")
