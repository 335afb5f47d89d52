"""The hack database: every caught cheat with what it is like, to be searched, shown, and held against new kernels.

It begins with the judge's own corpus (tests/cheats*), which is bundled as features, and grows by the records of any
store whose verdict says that a candidate cheated. A source resembles a hack when it holds much of what sets that hack
apart (runs of tokens, weighted by how few hacks have them, without those that honest kernels have as well) and shares
an idiom with it; hacks that are only caught by wrong values resemble honest mistakes, and are left out of that.
**Covers**: raising suspicion, with the hack's name and the checks that caught it.
**Does not cover**: rejecting anything; only the judge does. A trick that nobody has played yet resembles nothing.
"""

from __future__ import annotations

import functools
import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from kernelwright import codec
from kernelwright.hacks.idioms import idioms, suspicions
from kernelwright.search.authored.novelty import normalised
from kernelwright.store import Store
from kernelwright.types import Candidate, Failure, Record, value

__all__ = ["BUNDLED", "Hack", "HackBook", "Resemblance", "bundled", "idioms", "of_store", "suspicions"]

BUNDLED = Path(__file__).with_name("corpus.jsonl.gz")
"""Made by `python tools/hacks_data.py` of the corpus in the repository; a test holds it to that."""
RUN = 6
"""Tokens that follow each other and count as one feature."""
LEAST_FEATURES = 6
"""Of its own, that a hack needs to be resembled at all."""
LEAST_SCORE = 0.3
"""Of what sets a hack apart: less is chance, by `python tools/hacks_data.py --score`."""
WRONG = frozenset(("accuracy", "non-finite"))
"""The checks that catch honest mistakes as well."""
NUMBERED = re.compile(r"\bv\d+\b")
WORD = re.compile(r"[a-z0-9]+")


@value
class Hack:
    """One caught cheat."""

    name: str
    language: str
    trick: str
    """What it tries, in a line; for a stored one what the judge said."""
    caught_by: tuple[str, ...]
    """Checks and failure kinds, any of which catches it."""
    problem: str
    origin: str
    """The folder of the corpus, or a store."""
    idioms: tuple[str, ...]
    source: str
    """Normalised: without comments, its own names numbered."""

    @property
    def deceives(self) -> bool:
        """False where only wrong values tell it from an honest kernel."""
        return not set(self.caught_by) <= WRONG


@value
class Resemblance:
    """How much of what sets a hack apart a source holds."""

    hack: Hack
    score: float
    """0 to 1."""


class HackBook:
    """Hacks that can be searched.

    Args:
        hacks: those that are known.
        honest: normalised sources of kernels that do not cheat: what they hold sets no hack apart.
    """

    def __init__(self, hacks: Iterable[Hack], honest: Iterable[str]) -> None:
        self.hacks = tuple(hacks)
        self._honest = tuple(honest)

    @functools.cached_property
    def _features(self) -> tuple[frozenset[str], ...]:
        common = frozenset().union(*(features(text) for text in self._honest))
        return tuple(features(hack.source) - common for hack in self.hacks)

    @functools.cached_property
    def _weights(self) -> dict[str, float]:
        held = Counter(feature for found in self._features for feature in found)
        return {feature: math.log(1 + len(self.hacks) / count) for feature, count in held.items()}

    def resembling(
        self, text: str, *, language: str, most: int = 3, least: float = LEAST_SCORE
    ) -> tuple[Resemblance, ...]:
        """Returns the hacks that a source resembles, the nearest first; usually none."""
        own, turns = features(normalised(text)), set(idioms(text))
        found = []
        for hack, special in zip(self.hacks, self._features, strict=True):
            fit = hack.language == language and hack.deceives and len(special) >= LEAST_FEATURES
            if not fit or not turns & set(hack.idioms):
                continue
            score = self._weight(special & own) / self._weight(special)
            if score >= least:
                found.append(Resemblance(hack=hack, score=score))
        return tuple(sorted(found, key=lambda r: (-r.score, r.hack.name))[:most])

    def search(self, text: str, *, most: int = 10) -> tuple[Resemblance, ...]:
        """Returns the hacks whose description holds words of a text, the best first; scores are shares of its words."""
        words = set(WORD.findall(text.lower()))
        held = [set(WORD.findall(_described(hack).lower())) for hack in self.hacks]
        rarity = {word: math.log(1 + len(held) / (1 + sum(word in h for h in held))) for word in words}
        total = sum(rarity.values()) or 1.0
        scored = (
            Resemblance(hack=hack, score=sum(rarity[w] for w in words & of_hack) / total)
            for hack, of_hack in zip(self.hacks, held, strict=True)
        )
        return tuple(sorted((r for r in scored if r.score > 0), key=lambda r: (-r.score, r.hack.name))[:most])

    def with_more(self, hacks: Iterable[Hack]) -> HackBook:
        """Returns a book that has these as well."""
        return HackBook((*self.hacks, *hacks), self._honest)

    def _weight(self, found: frozenset[str]) -> float:
        return sum(self._weights[feature] for feature in found)


@functools.lru_cache(maxsize=2048)
def features(source: str) -> frozenset[str]:
    """Returns the runs of tokens of a normalised source; a name's number does not matter."""
    words = NUMBERED.sub("v", source).split()
    return frozenset(" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1))


@functools.cache
def bundled() -> HackBook:
    """Returns the judge's corpus."""
    lines = gzip.decompress(BUNDLED.read_bytes()).decode().splitlines()
    found = [json.loads(line) for line in lines]
    made = [Hack(**{name: codec.from_data(item) for name, item in d.items()}) for d in found if "name" in d]
    return HackBook(made, [d["honest"] for d in found if "honest" in d])


def packed(book: HackBook) -> bytes:
    """Returns a book as the file that `bundled` reads."""
    rows = [{n: v for n, v in codec.to_data(hack).items() if n} for hack in book.hacks]
    rows += [{"honest": text} for text in book._honest]
    return gzip.compress("\n".join(json.dumps(row) for row in rows).encode(), mtime=0)


def of_store(store: Store, cheated: Callable[[Record], bool]) -> tuple[Hack, ...]:
    """Returns the cheats that a store holds, each candidate once.

    Args:
        store: with records.
        cheated: says of a record whether its candidate cheated; training/reward.py does.
    """
    found: dict[str, Hack] = {}
    for record in store.records(passed=False):
        if record.candidate in found or not cheated(record):
            continue
        candidate: Candidate = store.get(record.candidate)
        text = "\n".join(source.text for source in candidate.sources)
        reasons, said = _reasons(record)
        found[record.candidate] = Hack(
            name=record.candidate[:15], language=candidate.language, trick=said, caught_by=reasons,
            problem=store.get(record.problem).name, origin=str(store.path), idioms=idioms(text),
            source=normalised(text),
        )  # fmt: skip
    return tuple(found.values())


def _reasons(record: Record) -> tuple[tuple[str, ...], str]:
    if isinstance(record.outcome, Failure):
        return (record.outcome.kind,), record.outcome.message
    failed = [check for check in record.outcome.verdict.checks if not check.passed]
    return tuple(check.name for check in failed), failed[0].evidence if failed else ""


def _described(hack: Hack) -> str:
    parts = (hack.name, hack.language, hack.trick, hack.problem, *hack.caught_by, *hack.idioms)
    return " ".join(parts).replace("_", " ")
