"""The grammar of schedules: which words may follow which, from the experts' spaces; whatever it lets through emits.

A schedule is spelt as a template's name, then for each parameter its name, which is forced, and one word for its value.
One word a decision: the probability of a schedule is the product of its decisions, and nothing is spent on syntax.
After TLM (OSDI 2024), where a language model chooses inside the space that a compiler gives it.
**Covers**: points that a template refuses to emit, as hard limits of a device make them; points that are not wanted,
such as those that the prompt shows.
**Does not cover**: whether what is emitted builds, is right or quick.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from kernelwright.types import Candidate, OptionValue, Parameter, Point, Space, Template, value

Choices = tuple[int, ...]
"""A schedule as positions: of the template, then of each parameter's value."""
MOST_TRIES = 4096
"""Points that are emitted to find out whether a beginning can be completed; then it counts as impossible."""
MOST_CHOICES = 32
TEMPLATE = "template"


@value
class Slot:
    """One decision: what is asked, and a word for each possible answer."""

    name: str
    words: tuple[str, ...]


def word_of(choice: OptionValue) -> str:
    """Returns the word of a value: numbers by their power of two where they have one, so that sizes share words."""
    if isinstance(choice, bool):
        return f"={str(choice).lower()}"
    if isinstance(choice, int) and choice > 0 and choice & (choice - 1) == 0:
        return f"=2^{choice.bit_length() - 1}"
    return f"={choice}"


def words_of(parameter: Parameter, known: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Returns a word for each value of a parameter; by position where a vocabulary lacks one of them."""
    words = tuple(map(word_of, parameter.values))
    if len(set(words)) == len(words) and (not known or known.issuperset(words)):
        return words
    return tuple(f"#{place}" for place in range(len(parameter.values)))


class Grammar:
    """What may be said about one problem.

    Args:
        templates: of the experts; each has at most MOST_CHOICES values for a parameter, or the rest is left out.
        known: the vocabulary; empty for none.
    """

    def __init__(self, templates: Sequence[Template], *, known: frozenset[str] = frozenset()) -> None:
        self.templates = tuple(templates)[:MOST_CHOICES]
        self._spaces = tuple(_cut(template.space) for template in self.templates)
        names = tuple(t.name.split(" ")[0] for t in self.templates)
        spelt = len(set(names)) == len(names) and (not known or known.issuperset(names))
        self._first = Slot(name=TEMPLATE, words=names if spelt else tuple(f"#{place}" for place in range(len(names))))
        self._slots = tuple(
            tuple(Slot(name=p.name, words=words_of(p, known)) for p in space.parameters) for space in self._spaces
        )
        self._emitted: dict[Choices, Candidate | None] = {}
        self._beginnings: dict[Choices, tuple[list[Choices], Iterator[Choices]]] = {}
        """What is known to complete a beginning, and the search for more."""

    def slot(self, begun: Choices) -> Slot | None:
        """Returns the next decision after a beginning, None where the schedule is complete."""
        if not begun:
            return self._first
        slots = self._slots[begun[0]]
        return slots[len(begun) - 1] if len(begun) - 1 < len(slots) else None

    def allowed(self, begun: Choices, *, without: frozenset[Choices] = frozenset()) -> tuple[bool, ...]:
        """Returns which answers to the next decision can be completed to one that emits and is not of `without`.

        A schedule that is begun by allowed choices can always be completed.
        """
        slot = self.slot(begun)
        if slot is None:
            return ()
        return tuple(self._completes((*begun, place), without) for place in range(len(slot.words)))

    def candidate(self, choices: Choices) -> Candidate | None:
        """Returns what a complete schedule emits, None where its template refuses."""
        if choices not in self._emitted:
            made = self.templates[choices[0]].emit(self.point(choices))
            self._emitted[choices] = made if isinstance(made, Candidate) else None
        return self._emitted[choices]

    def point(self, choices: Choices) -> Point:
        """Returns the point of a complete schedule."""
        parameters = self._spaces[choices[0]].parameters
        return tuple((p.name, p.values[place]) for p, place in zip(parameters, choices[1:], strict=True))

    def choices(self, template: str, point: Point) -> Choices | None:
        """Returns how a template's point is chosen, None where it cannot be said."""
        for number, (known, space) in enumerate(zip(self.templates, self._spaces, strict=True)):
            if known.name == template and tuple(p.name for p in space.parameters) == tuple(name for name, _ in point):
                places = zip(space.parameters, point, strict=True)
                if all(choice in p.values for p, (_, choice) in places):
                    return (number, *(p.values.index(c) for p, (_, c) in zip(space.parameters, point, strict=True)))
        return None

    def spelling(self, choices: Choices) -> tuple[str, ...]:
        """Returns a schedule's words, names and values in turn."""
        words: list[str] = []
        for length, place in enumerate(choices):
            slot = self.slot(choices[:length])
            assert slot is not None
            words += [slot.name, slot.words[place]]
        return tuple(words)

    def size(self) -> int:
        """Returns the number of schedules, those that do not emit included."""
        return sum(math.prod(len(p.values) for p in space.parameters) for space in self._spaces)

    def every(self) -> Iterator[Choices]:
        """Yields every schedule that emits."""
        for number in range(len(self.templates)):
            yield from (c for c in self._completions((number,)) if self.candidate(c) is not None)

    def vocabulary(self) -> tuple[str, ...]:
        """Returns every word that this grammar can say or force."""
        words = [*self._first.words, TEMPLATE]
        for slots in self._slots:
            words += [word for slot in slots for word in (slot.name, *slot.words)]
        return tuple(dict.fromkeys(words))

    def _completes(self, begun: Choices, without: frozenset[Choices]) -> bool:
        found, further = self._beginnings.setdefault(begun, ([], self._emitting(begun)))
        if any(choices not in without for choices in found):
            return True
        for choices in further:
            found.append(choices)
            if choices not in without:
                return True
        return False

    def _emitting(self, begun: Choices) -> Iterator[Choices]:
        tries = itertools.islice(self._completions(begun), MOST_TRIES)
        return (choices for choices in tries if self.candidate(choices) is not None)

    def _completions(self, begun: Choices) -> Iterator[Choices]:
        slot = self.slot(begun)
        if slot is None:
            yield begun
            return
        for place in range(len(slot.words)):
            yield from self._completions((*begun, place))


def _cut(space: Space) -> Space:
    return Space(parameters=tuple(Parameter(name=p.name, values=p.values[:MOST_CHOICES]) for p in space.parameters))
