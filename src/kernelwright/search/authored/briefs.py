"""What a strategy asks an author for, and what it gets: the seam between search and language models.

A strategy sees neither prompts nor replies, prices nor providers: it says what is wanted and from what, and gets a
candidate, or why there is none. The same brief always gives the same draft, because replies are kept.
Not here: who writes (run/writing.py).
"""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.exchanges import Kind
from kernelwright.types import Candidate, Record, Template, value


@value
class Exemplar:
    """A kernel that passed, with what makes it worth showing."""

    candidate: Candidate
    speed: float
    intent: str = ""


@value
class Brief:
    """What is wanted."""

    kind: Kind
    model: str
    number: int
    """Of this brief in its run: tells apart briefs that are equal otherwise."""
    parent: Candidate | None = None
    parent_speed: float | None = None
    record: Record | None = None
    """Of the parent: what a repair must mend, or an improvement can read."""
    exemplars: tuple[Exemplar, ...] = ()
    """From slow to fast."""
    intent: str = ""
    tried: tuple[tuple[str, str], ...] = ()
    """(intent, what became of it)."""
    note: str = ""
    """What was wrong with the last reply, where no candidate came of it."""


@value
class Draft:
    """What came of a brief."""

    candidate: Candidate | None = None
    template: Template | None = None
    """The same kernel with free parameters, where its author left some to the tuner."""
    intent: str = ""
    ideas: tuple[str, ...] = ()
    fault: str = ""
    """Why there is no candidate, or why it should not be judged."""
    rejected: bool = False
    """True where a soft verifier took the candidate out."""
    model: str = ""
    """That wrote it."""
    cost_usd: float = 0.0
    tokens: int = 0
    stop: str = ""
    """Why nothing more will be written in this run; empty while it goes on."""


Write = Callable[[tuple[Brief, ...]], tuple[Draft, ...]]
"""Answers briefs, in their order."""
