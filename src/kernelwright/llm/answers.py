"""What is in a reply: the intent, a kernel or edits, further ideas; as much as can be saved where the form is broken.

Models leave fences open, put code into JSON, number lines, wrap edits in fences, or answer with code alone; each of
these costs tokens that are already paid for.
**Covers**: the forms above; edits whose lines differ from the file in white space only.
**Does not cover**: guessing what code was meant to say; whatever comes out goes before the judge like any other.
"""

from __future__ import annotations

import json
import re

from kernelwright.values import value

FENCE = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
EDIT = re.compile(
    r"^[ \t]*<{5,}[ \t]*SEARCH[ \t]*\n(.*?)^[ \t]*={5,}[ \t]*\n(.*?)^[ \t]*>{5,}[ \t]*REPLACE", re.MULTILINE | re.DOTALL
)
INTENT = re.compile(r"^[ \t>*#-]*(?:\*\*)?intent(?:\*\*)?[ \t]*:[ \t*]*(.+?)[ \t*]*$", re.MULTILINE | re.IGNORECASE)
IDEAS = re.compile(r"^[ \t>*#`]*(?:\*\*)?ideas(?:\*\*)?`?[ \t]*:?[ \t*`]*(?:a list.*)?$", re.MULTILINE | re.IGNORECASE)
BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d+[.)])[ \t]+(.+?)[ \t]*$")
VERDICT = re.compile(r"verdict[ \t*:]*[ \t*]*(fine|faulty)\b[ \t*.:,-]*([^\n]*)\n*([^\n]*)", re.IGNORECASE)
NUMBERED = re.compile(r"^[ \t]*\d+[ \t]*[|:][ \t]?", re.MULTILINE)
KERNEL = re.compile(r'extern\s+"C"|__global__|@triton\.jit|@ct\.kernel')
MOST_IDEAS = 5
LONGEST_LINE = 300


@value
class Edit:
    """Lines to be replaced, and what by."""

    search: str
    replacement: str


@value
class Answer:
    """What a reply holds."""

    intent: str = ""
    code: str = ""
    """A whole file; empty where there is none."""
    edits: tuple[Edit, ...] = ()
    ideas: tuple[str, ...] = ()
    salvaged: str = ""
    """How the code had to be got out, empty where the form was right."""


class EditFault(Exception):
    """An edit does not fit the file; the message says which and why."""


def parsed(text: str) -> Answer:
    """Returns what is in a reply; without code and edits where nothing could be found."""
    edits = tuple(Edit(search=m[1], replacement=m[2]) for m in EDIT.finditer(text))
    intent = INTENT.search(text)
    code, salvaged = ("", "") if edits else _code(text)
    return Answer(
        intent=intent[1][:LONGEST_LINE] if intent else "", code=code, edits=edits, ideas=_ideas(text), salvaged=salvaged
    )


def _code(text: str) -> tuple[str, str]:
    """Returns the file in a reply, and how it had to be got out."""
    blocks = [(m[3], bool(re.search(r"(`{3,}|~{3,})[ \t]*\Z", m[0]))) for m in FENCE.finditer(text)]
    kernels = [(code, closed) for code, closed in blocks if KERNEL.search(code)]
    if kernels:
        # The last whole one: models correct themselves further down.
        code, closed = next((pair for pair in reversed(kernels) if pair[1]), kernels[-1])
        if closed:
            return _plain(code)
        return (_plain(code)[0], "the fence was open") if _balanced(code) else ("", "the code breaks off")
    from_json = _in_json(text)
    if from_json:
        return from_json, "the code was in JSON"
    found = KERNEL.search(text)
    if found and not blocks:
        start = text.rfind("\n\n", 0, _first_code_line(text, found.start())) + 1
        code = text[start:].strip()
        code = code[: code.rfind("}") + 1 or len(code)] + "\n"
        if _balanced(code):
            return code, "there was no fence"
    return "", ""


def _plain(code: str) -> tuple[str, str]:
    """Returns code without line numbers or diff marks where every line has them."""
    lines = [line for line in code.splitlines() if line.strip()]
    if lines and all(NUMBERED.match(line) for line in lines):
        return NUMBERED.sub("", code), "the lines were numbered"
    if lines and all(line.startswith("+") for line in lines):
        return "\n".join(line[1:] for line in code.splitlines()) + "\n", "the lines had diff marks"
    return code, ""


def _first_code_line(text: str, at: int) -> int:
    """Returns where the code around a place begins: includes and comments before it belong to it."""
    begin = text.rfind("#include", 0, at)
    first = text.find("#include") if begin >= 0 else at
    return first if first >= 0 else at


def _balanced(code: str) -> bool:
    """Tells whether code seems to be complete: it has braces and they close, or it is Python."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", "", code, flags=re.DOTALL)
    if "{" in plain:
        return plain.count("{") == plain.count("}") and plain.rstrip().endswith(("}", ";"))
    return "def " in plain and plain.count("(") == plain.count(")")


def _in_json(text: str) -> str:
    """Returns the longest text with a kernel in it inside any JSON object of the reply."""
    decoder, best = json.JSONDecoder(), ""
    for match in re.finditer(r"\{", text):
        try:
            data, _ = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        for found in _strings(data):
            if KERNEL.search(found) and len(found) > len(best):
                best = found
        if best:
            return best
    return best


def _strings(data: object) -> list[str]:
    if isinstance(data, str):
        return [data]
    if isinstance(data, dict):
        return [text for item in data.values() for text in _strings(item)]
    return [text for item in data for text in _strings(item)] if isinstance(data, list) else []


def _ideas(text: str) -> tuple[str, ...]:
    heads = list(IDEAS.finditer(FENCE.sub("\n", text)))
    if not heads:
        return ()
    found: list[str] = []
    for line in FENCE.sub("\n", text)[heads[-1].end() :].splitlines():
        bullet = BULLET.match(line)
        if bullet:
            found.append(bullet[1][:LONGEST_LINE])
        elif line.strip() and found:
            break
    return tuple(found[:MOST_IDEAS])


def applied(source: str, edits: tuple[Edit, ...]) -> str:
    """Returns a file with edits made in it.

    Raises:
        EditFault: where the lines of one are not in the file, or more than once.
    """
    for number, edit in enumerate(edits, 1):
        source = _replaced(source, edit, number)
    return source


def _replaced(source: str, edit: Edit, number: int) -> str:
    if not edit.search.strip():
        raise EditFault(f"edit {number} has no lines to be replaced")
    count = source.count(edit.search)
    if count == 1:
        return source.replace(edit.search, edit.replacement)
    if count > 1:
        raise EditFault(f"the lines of edit {number} stand in the file {count} times")
    lines, wanted = source.splitlines(keepends=True), [" ".join(line.split()) for line in edit.search.splitlines()]
    while wanted and not wanted[-1]:
        wanted.pop()
    while wanted and not wanted[0]:
        wanted.pop(0)
    have = [" ".join(line.split()) for line in lines]
    places = [i for i in range(len(have) - len(wanted) + 1) if have[i : i + len(wanted)] == wanted]
    if len(places) != 1:
        raise EditFault(f"the lines of edit {number} are not in the file: {edit.search.strip().splitlines()[0]!r}")
    end = "" if edit.replacement.endswith("\n") or not edit.replacement else "\n"
    return "".join(lines[: places[0]]) + edit.replacement + end + "".join(lines[places[0] + len(wanted) :])


def opinion(text: str) -> tuple[bool, str] | None:
    """Returns (faulty, why) of a review; None where it says neither."""
    found = VERDICT.search(text)
    if found is None:
        return None
    reason = found[2].strip() or found[3].strip()
    return found[1].lower() == "faulty", reason[:LONGEST_LINE]
