"""Reviewers: what may be said about a kernel's honesty before the judge has seen it, by whoever says it.

One interface for the hack database, a small classifier that needs neither a key nor a GPU, and any language model.
The classifier adds up what traits (idioms.py) weigh, never less than nothing, so that no added line makes a source less
suspicious; tools/reviewer_data.py fits the weights.
**Covers**: raising suspicion with reasons and the nearest known cheats; ordering a full judgement early.
**Does not cover**: accepting and rejecting, which only the judge does. How much of the judge's verdicts each reviewer
foresees is measured by `python benchmarks/reviewer.py`; of tricks of a new kind it is little.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from kernelwright.exchanges import Reply, Request
from kernelwright.hacks import LEAST_SCORE, HackBook, Resemblance, bundled
from kernelwright.hacks.idioms import traits
from kernelwright.llm import answers, model_of
from kernelwright.llm.prompts import doubting
from kernelwright.types import value

WEIGHTS = Path(__file__).with_name("classifier.json")
"""Made by `python tools/reviewer_data.py` of the corpus in the repository; a test holds it to that."""
SURE = re.compile(r"sure[ \t*:]*(\d{1,3})[ \t]*%", re.IGNORECASE)
MODEL_TOKENS = 2_000
NEAR = 0.1
"""Of what sets a hack apart: less is not worth showing."""


@value
class Review:
    """What one reviewer thinks of a kernel."""

    reviewer: str
    suspicion: float
    """0 to 1; from a half on the kernel is judged in full before it counts."""
    reasons: tuple[str, ...] = ()
    """The weightiest first."""

    @property
    def suspicious(self) -> bool:
        """True where the kernel is to be judged in full before it counts."""
        return self.suspicion >= 0.5


class Reviewer(Protocol):
    """Somebody who reads kernels and says how much they look like cheats.

    Covers: any number of sources of one language, in their order; None for what it cannot say anything about.
    Does not cover: verdicts. Whoever calls it may judge earlier or more thoroughly, and nothing else.
    """

    name: str

    def review(self, texts: Sequence[str], *, language: str) -> tuple[Review | None, ...]:
        """Returns what it thinks of each source."""


class Remembering:
    """Suspects what resembles a known cheat.

    Args:
        book: the cheats.
    """

    name = "hacks"

    def __init__(self, book: HackBook) -> None:
        self._book = book

    def review(self, texts: Sequence[str], *, language: str) -> tuple[Review | None, ...]:
        """Returns a review of each source; half of full suspicion is the book's own least score."""
        return tuple(self._one(nearest(text, language=language, book=self._book)) for text in texts)

    def _one(self, found: tuple[Resemblance, ...]) -> Review:
        reasons = tuple(
            f"it resembles {r.hack.name} ({r.hack.trick}), which {' or '.join(r.hack.caught_by)} caught"
            for r in found
            if r.score >= LEAST_SCORE
        )
        score = max((r.score for r in found), default=0.0)
        return Review(reviewer=self.name, suspicion=_share(score, LEAST_SCORE), reasons=reasons)


def nearest(text: str, *, language: str, book: HackBook | None = None, most: int = 3) -> tuple[Resemblance, ...]:
    """Returns the known cheats that lie nearest to a source, also those too far away to raise suspicion."""
    return (book or bundled()).resembling(text, language=language, most=most, least=NEAR)


class Classifier:
    """Adds up what a source's traits weigh.

    Args:
        weights: by trait, not negative.
        limits: by language, the sum from which a source is suspicious; other languages it knows nothing of.
    """

    name = "classifier"

    def __init__(self, weights: dict[str, float], limits: dict[str, float]) -> None:
        self.weights, self.limits = weights, limits

    def score(self, found: Iterable[str]) -> float:
        """Returns the sum of some traits' weights."""
        return math.fsum(self.weights.get(trait, 0.0) for trait in found)

    def review(self, texts: Sequence[str], *, language: str) -> tuple[Review | None, ...]:
        """Returns a review of each source."""
        if language not in self.limits:
            return (None,) * len(texts)
        return tuple(self._one(traits(text), self.limits[language]) for text in texts)

    def _one(self, found: tuple[str, ...], limit: float) -> Review:
        heavy = sorted((t for t in found if self.weights.get(t, 0.0) > 0), key=lambda t: (-self.weights[t], t))
        reasons = tuple(f"{trait} ({self.weights[trait]:.2f})" for trait in heavy)
        return Review(reviewer=self.name, suspicion=_share(self.score(found), limit), reasons=reasons)


Ask = Callable[[Sequence[Request]], Sequence[Reply | None]]
"""Has requests answered, in their order; None where there is no reply."""


class Doubting:
    """A language model as a reviewer: any provider's, or `local:DIR`.

    Args:
        model: its name, as after --model.
        ask: has its requests answered.
        book: the cheats of which it is shown the nearest.
    """

    def __init__(self, model: str, ask: Ask, *, book: HackBook | None = None) -> None:
        self.name = model
        self._ask, self._book = ask, book

    def review(self, texts: Sequence[str], *, language: str) -> tuple[Review | None, ...]:
        """Returns a review of each source, None where the model gave no verdict."""
        replies = self._ask([self._request(text, language) for text in texts])
        return tuple(None if reply is None else self._read(reply.text) for reply in replies)

    def _request(self, text: str, language: str) -> Request:
        near = nearest(text, language=language, book=self._book)
        told = doubting(text, language=language, tricks=tuple((r.hack.name, r.hack.trick) for r in near))
        return Request(model=self.name, messages=told, max_tokens=MODEL_TOKENS, kind="review")

    def _read(self, text: str) -> Review | None:
        said = answers.opinion(text)
        if said is None:
            return None
        found = SURE.search(text)
        sure = min(100, int(found[1])) / 100 if found else 1.0
        suspicion = 0.5 + sure / 2 if said[0] else 0.5 - max(sure, 0.01) / 2
        return Review(reviewer=self.name, suspicion=suspicion, reasons=(said[1],) if said[0] else ())


def asking(name: str) -> Ask:
    """Returns what asks one model, as named after --model, each request once.

    Raises:
        UserError: the name stands for no model. Called, raises `Fault` where a reply does not come.
    """
    model = model_of(name)
    return lambda requests: [model.complete(request) for request in requests]


@functools.cache
def usual() -> tuple[Reviewer, ...]:
    """Returns the reviewers that cost nothing: the judge's corpus, and the classifier that was fitted to it."""
    told = json.loads(WEIGHTS.read_text())
    return Remembering(bundled()), Classifier(told["weights"], told["limits"])


def reviews(text: str, *, language: str, reviewers: Sequence[Reviewer] | None = None) -> tuple[Review, ...]:
    """Returns what each reviewer that has something to say thinks of a source."""
    said = (one for who in reviewers or usual() for one in who.review((text,), language=language))
    return tuple(one for one in said if one is not None)


def _share(score: float, limit: float) -> float:
    return score / (score + limit) if score > 0 else 0.0
