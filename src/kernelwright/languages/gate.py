"""What C++ and CUDA C++ source may contain, checked before the compiler sees it and again after preprocessing.

**Covers**: paths and sizes of the files; directives (an allow-list: no #line, #embed, #import,
#include_next, no computed include); includes (own files, and an allow-list of standard headers,
never an absolute path or '..'); pragmas that read files; in the preprocessed text, and therefore
through any macro: inline assembly and asm labels other than the empty compiler barrier
`asm volatile("" ::: "memory")`, because assembler text can hold any directive (.incbin reads files,
.section and .pushsection build what linkers trust), and attributes that put text into the assembler
unescaped or run code at load time (section, alias, ifunc, symver, constructor ...).
**Does not cover**: what the code does when it runs. inspection.py looks at the result, and the
judge at its behaviour; this gate is about the compiler's own safety and about clear messages.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from typing import NamedTuple

from kernelwright.types import Failure, SourceFile

_HEADERS = (
    "algorithm array atomic bit cassert cfloat cinttypes climits cmath complex cstdbool cstddef cstdint cstdlib "
    "cstring functional initializer_list iterator limits memory new numeric optional random ratio stdfloat tuple "
    "type_traits utility variant vector assert.h float.h inttypes.h limits.h math.h omp.h stdbool.h stddef.h stdint.h "
    "stdlib.h string.h stdalign.h immintrin.h x86intrin.h xmmintrin.h emmintrin.h pmmintrin.h tmmintrin.h smmintrin.h "
    "nmmintrin.h arm_neon.h arm_sve.h arm_fp16.h arm_bf16.h arm_acle.h"
)
HEADERS = frozenset(_HEADERS.split())
EXTENSIONS = (".cpp", ".cc", ".cxx", ".hpp", ".hh", ".h", ".inc", ".ipp")
PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*){0,4}")
TOTAL_LIMIT_BYTES = 1 << 20
_DIRECTIVES = "include define undef if ifdef ifndef elif else endif error warning pragma"
DIRECTIVES = frozenset(_DIRECTIVES.split()) | {""}
HASHES = ("#", "%:", "??=")
FUNCTION_MACRO = re.compile(r"\s*define\s+\w+\(")
PRAGMAS_REFUSED = re.compile(r"(GCC\s+)?(pch_preprocess|dependency|system_header|plugin|include_alias|ident)\b")
ASM = frozenset(("asm", "__asm", "__asm__"))
_ATTRIBUTES_REFUSED = (
    "section constructor destructor init_priority alias ifunc weakref symver target_clones patchable_function_entry "
    "retain no_reorder"
)
ATTRIBUTES_REFUSED = frozenset(_ATTRIBUTES_REFUSED.split())
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<raw>(?:u8|[uUL])?R")
    |(?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"?)
    |(?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
    |(?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'?)
    |(?P<word>[^\W\d]\w*)
    |(?P<newline>\n)
    |(?P<space>[^\S\n]+)
    |(?P<punct>%:|\?\?=|<:|:>|.)""",
    re.DOTALL | re.VERBOSE,
)
SPLICE = re.compile(r"\\[ \t\f\v\r]*\n")
MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')


class Rules(NamedTuple):
    """What differs between the languages that this gate serves."""

    headers: frozenset[str]
    """Standard headers that may be included."""
    folders: tuple[str, ...]
    """Beginnings of further headers' names: `cuda/`."""
    extensions: tuple[str, ...]
    """How the names of source files end."""
    advice: str
    """Which headers there are, for a message."""

    def knows(self, name: str) -> bool:
        """Returns whether a header may be included."""
        return name in self.headers or name.startswith(self.folders)


CPP = Rules(
    headers=HEADERS,
    folders=(),
    extensions=EXTENSIONS,
    advice="headers without input, output or threads, such as <cmath>, <cstdint>, <algorithm>, <vector>, "
    "<immintrin.h>, <omp.h>",
)


class Token(NamedTuple):
    """One token of C++ text, with the line that it stands on."""

    kind: str
    text: str
    line: int
    offset: int


def tokens(text: str) -> Iterator[Token]:
    """Returns the tokens of spliced text, newlines included, comments and blanks left out."""
    joined, starts = _splice(text)
    for match in TOKEN.finditer(joined):
        kind = match.lastgroup or "punct"
        if kind not in ("comment", "space"):
            yield Token(kind, match[0], bisect.bisect_right(starts, match.start()) + 1, match.start())


def _splice(text: str) -> tuple[str, list[int]]:
    """Text with continued lines joined, and the offsets in it at which a new line of `text` begins."""
    starts: list[int] = []
    parts: list[str] = []
    position = length = 0
    for match in [*SPLICE.finditer(text), None]:
        part = text[position : match.start()] if match else text[position:]
        starts += [length + i + 1 for i, character in enumerate(part) if character == "\n"]
        parts.append(part)
        length += len(part)
        if match:
            starts.append(length)
            position = match.end()
    return "".join(parts), starts


def check_sources(sources: tuple[SourceFile, ...], *, rules: Rules = CPP) -> Failure | None:
    """Returns why these files may not be compiled, None where they may."""
    if not sources:
        return _refuse("source", "the candidate has no source file")
    if sum(len(source.text) for source in sources) > TOTAL_LIMIT_BYTES:
        return _refuse("source", f"the sources are larger than {TOTAL_LIMIT_BYTES} bytes together")
    carried: set[str] = set()
    for source in sources:
        if not PATH.fullmatch(source.path) or ".." in source.path or not source.path.endswith(rules.extensions):
            known = ", ".join(rules.extensions)
            return _refuse("source", f"{source.path!r} is no usable file name: relative, no '..', ending in {known}")
        if source.path in carried:
            return _refuse("source", f"the candidate has two files named {source.path!r}")
        carried.add(source.path)
    return next((fault for source in sources if (fault := _check_file(source, carried, rules))), None)


def _check_file(source: SourceFile, carried: set[str], rules: Rules) -> Failure | None:
    if bad := re.search(r"[\x00-\x08\x0e-\x1f\x7f]", source.text):
        line = source.text.count("\n", 0, bad.start()) + 1
        return _refuse("source", f"a control character (code {ord(bad[0])}) in the source", f"{source.path}:{line}")
    joined, _ = _splice(source.text)
    at_start, stringifies = True, False
    for token in tokens(source.text):
        where = f"{source.path}:{token.line}"
        if token.kind == "raw":  # it can hold lines that read as a preprocessor's own
            return _refuse("source", "a raw string; kernels need none", where)
        if token.text in HASHES and at_start:
            rest = joined[token.offset + len(token.text) :].split("\n", 1)[0]
            if fault := _check_directive(rest, source.path, carried, where, rules):
                return fault
            stringifies = bool(FUNCTION_MACRO.match(rest))
        elif token.text in HASHES and not stringifies:
            # Printed by the preprocessor at the start of a line it would become a directive.
            return _refuse("directive", "a '#' outside a directive or a macro with parameters", where)
        at_start = token.kind == "newline"
        stringifies = stringifies and not at_start
    return None


def _check_directive(rest: str, path: str, carried: set[str], where: str, rules: Rules) -> Failure | None:
    rest = re.sub(r"/\*.*?(?:\*/|$)", " ", rest)
    found = re.match(r"\s*(\w*)\s*(.*)", rest)
    word, argument = (found[1], found[2].strip()) if found else ("", "")
    if word not in DIRECTIVES or (not word and argument.split("//")[0]):
        return _refuse("directive", f"the directive #{word} is not for kernels", where)
    if word == "pragma" and PRAGMAS_REFUSED.match(argument):
        return _refuse("directive", f"#pragma {argument[:60]!r} is not for kernels", where)
    if word in ("if", "elif") and re.search(r"__has_(include|embed)\w*\s*\(\s*[\"<]\s*(/|[^\">]*\.\.)", argument):
        return _refuse("include", "__has_include may only ask for standard headers", where)
    return _check_include(argument, path, carried, where, rules) if word == "include" else None


def _check_include(argument: str, path: str, carried: set[str], where: str, rules: Rules) -> Failure | None:
    found = re.match(r"(?:<([^>]*)>|\"([^\"]*)\")\s*(//.*)?$", argument)
    if not found:
        return _refuse("include", f'#include {argument[:60]}: write the header\'s name out, as <...> or "..."', where)
    name = found[1] if found[1] is not None else found[2]
    if found[2] is not None:
        folder = path.rpartition("/")[0]
        if name in carried or (folder and f"{folder}/{name}" in carried):
            return None
    if rules.knows(name) and ".." not in name:
        return None
    if name.startswith("/") or ".." in name or "\\" in name:
        return _refuse("include", f"#include of {name!r}: absolute paths and '..' are refused", where)
    own = ", ".join(sorted(carried - {path})) or "none"
    return _refuse(
        "include",
        f"#include of {name!r} is not allowed: a kernel may include its own files ({own}) and {rules.advice}",
        where,
    )


def check_preprocessed(text: str) -> Failure | None:
    """Returns why preprocessed text may not be compiled; looks only at what came from the candidate's files."""
    lines, places, fault = _own_lines(text)
    if fault:
        return fault
    found = [token for token in tokens("\n".join(lines)) if token.kind != "newline"]
    for position, token in enumerate(found):
        if token.text in ASM and not _is_barrier(found, position):
            message = (
                "inline assembly and asm labels are refused, since assembler text can read files and build what "
                'the inspection trusts; use intrinsics (the empty barrier asm volatile("" ::: "memory") is fine)'
            )
            return _refuse("asm", message, places[token.line - 1])
        doubled = _is(token, "[") and position + 1 < len(found) and _is(found[position + 1], "[")
        if doubled or token.text in ("__attribute__", "__attribute"):
            name = _refused_attribute(found, position)
            if name:
                return _refuse("attribute", f"the attribute {name!r} is not for kernels", places[token.line - 1])
    return None


def _own_lines(text: str) -> tuple[list[str], list[str], Failure | None]:
    """The lines that came from the candidate's files, and where each stands in them."""
    lines: list[str] = []
    places: list[str] = []
    path, number = "<stdin>", 1
    for line in text.split("\n"):
        if line.startswith("#"):
            marker = MARKER.match(line)
            if marker:
                came_from, path, number = path, marker[2].removeprefix("./"), int(marker[1])
                entered = " 1" in marker[3] and path.startswith("/") and _is_own(came_from)
                if entered and not any(path.endswith(f"/{name}") for name in HEADERS):
                    return lines, places, _refuse("include", f"the source includes {path}, which is not allowed")
                continue
            if PRAGMAS_REFUSED.match(line.partition("pragma")[2].strip()) and _is_own(path):
                return lines, places, _refuse("directive", f"{line[:80]!r} is not for kernels", f"{path}:{number}")
        elif _is_own(path):
            lines.append(line)
            places.append(f"{path}:{number}")
        number += 1
    return lines, places, None


def _is_own(path: str) -> bool:
    return not path.startswith(("/", "<"))


def _is_barrier(found: list[Token], position: int) -> bool:
    """Whether an asm statement has an empty template: `asm [volatile] ( "" : or )`."""
    texts = [token.text for token in found[position + 1 : position + 12]]
    while texts and texts[0] in ("volatile", "__volatile__", "__volatile"):
        texts.pop(0)
    return texts[:2] == ["(", '""'] and texts[2:3] in ([":"], [")"])


def _refused_attribute(found: list[Token], position: int) -> str:
    depth = 0
    for token in found[position:]:
        depth += _is(token, "([") - _is(token, ")]")
        if token.kind == "word" and token.text.strip("_") in ATTRIBUTES_REFUSED:
            return token.text
        if depth == 0 and _is(token, ")]"):
            return ""
    return ""


def _is(token: Token, brackets: str) -> bool:
    """Whether a token is one of some brackets, however it is spelled."""
    return {"<:": "[", ":>": "]"}.get(token.text, token.text) in brackets


def _refuse(kind: str, message: str, location: str = "") -> Failure:
    return Failure(stage="build", kind=kind, message=message, location=location)
