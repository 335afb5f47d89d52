"""What a mutation is: a named, located change of a source, as values.

Not here: where changes are found (bounds.py and its neighbours), and what becomes of mutants (run/mutate.py).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

from kernelwright.types import SourceFile
from kernelwright.values import note, value

SHOWN = 120
"""Characters of a line that a mutant's text repeats."""
EQUIVALENT = re.compile(r"(?://|#|/\*)\s*kw:\s*equivalent\s+([\w*,\- ]*[\w*])\s*(?::\s*(.*?))?\s*(?:\*/)?$")


@value
class Mutant:
    """One planted bug: a source that differs from the original in one place."""

    operator: str
    """The class of bugs that it belongs to; see `OPERATORS`."""
    path: str
    line: int
    """1-based, in the original."""
    column: int
    """1-based, in characters."""
    before: str
    """The changed lines as they were, stripped and joined by a space."""
    after: str
    """The same lines as they are."""
    source: SourceFile
    """The whole mutated file."""
    equivalent: str = note(default="")
    """Why it computes the same as the original; empty where nobody said so."""

    @property
    def location(self) -> str:
        """`file:line:column`."""
        return f"{self.path}:{self.line}:{self.column}"

    @property
    def name(self) -> str:
        """The location and the operator: unique among mutants but where one place can break in two ways."""
        return f"{self.location} {self.operator}"

    def diff(self, original: SourceFile) -> str:
        """Returns the change as a unified diff without context."""
        lines = difflib.unified_diff(
            original.text.splitlines(), self.source.text.splitlines(), self.path, self.path, lineterm="", n=0
        )
        return "\n".join(lines)


@value
class Edit:
    """What an operator's finder yields: replacements in the text, all of one mutation."""

    changes: tuple[tuple[int, int, str], ...]
    """(start, stop, new text) in characters; they do not overlap."""

    @property
    def start(self) -> int:
        """Where the first change is."""
        return min(start for start, _, _ in self.changes)

    def applied(self, text: str) -> str:
        """Returns the text with all changes made."""
        for start, stop, new in sorted(self.changes, reverse=True):
            text = text[:start] + new + text[stop:]
        return text


Finder = Callable[[Any], Iterator[Edit]]


def edit(*changes: tuple[int, int, str]) -> Edit:
    """Returns an edit of some replacements."""
    return Edit(changes=changes)


@value
class Operator:
    """A class of real kernel bugs, and where it can be planted."""

    name: str
    what: str
    """One line: the bug."""
    clike: Finder | None = None
    """Takes `tokens.Code`."""
    python: Finder | None = None
    """Takes `python_source.Module`."""


def made(source: SourceFile, operator: str, change: Edit) -> Mutant:
    """Returns the mutant of a source that one edit makes."""
    text = source.text
    start, stop = change.start, max(stop for _, stop, _ in change.changes)
    first = text.rfind("\n", 0, start) + 1
    end = text.find("\n", stop)
    end = len(text) if end < 0 else end
    changed = change.applied(text)
    line = text.count("\n", 0, start) + 1
    return Mutant(
        operator=operator,
        path=source.path,
        line=line,
        column=start - first + 1,
        before=_shown(text[first:end]),
        after=_shown(changed[first : len(changed) - (len(text) - end)]),
        source=SourceFile(path=source.path, text=changed),
        equivalent=_equivalent(text[first : _line_end(text, start)], operator),
    )


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _shown(lines: str) -> str:
    joined = " ".join(lines.split())
    return joined if len(joined) <= SHOWN else joined[: SHOWN - 3] + "..."


def _equivalent(line: str, operator: str) -> str:
    """Returns the reason that a comment such as `// kw: equivalent off-by-one: why` on the line gives, else ''."""
    found = EQUIVALENT.search(line.rstrip())
    if not found:
        return ""
    named = {word.strip() for word in re.split(r"[,\s]+", found[1])}
    return (found[2] or "said so in the source") if named & {operator, "*"} else ""
