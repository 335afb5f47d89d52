"""The words of a schedule author, and how a prompt is spelt in them.

    <begin> features ... [<shown> speed schedule]* <choose> schedule

Not here: which words may follow (grammar.py), and the model that chooses (models/schedules.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kernelwright.search.authored.archive import BUCKET
from kernelwright.training.grammar import MOST_CHOICES

PAD, BEGIN, SHOWN, CHOOSE, UNKNOWN = SPECIAL = ("<pad>", "<begin>", "<shown>", "<choose>", "<unknown>")
FASTEST_BUCKET = 16
SPEEDS = tuple(f"x{level}" for level in range(-FASTEST_BUCKET, FASTEST_BUCKET + 1))
PLACES = tuple(f"#{place}" for place in range(MOST_CHOICES))
POWERS = 34
SIZES = ("inner", "elements", "written", "bytes", "nodes", "threads")


def words(seen: Iterable[str]) -> tuple[str, ...]:
    """Returns a vocabulary: what every author knows, and what was seen in a corpus."""
    sizes = tuple(f"{name}:{power}" for name in SIZES for power in range(POWERS))
    return tuple(dict.fromkeys((*SPECIAL, *SPEEDS, *PLACES, *sizes, *sorted(set(seen)))))


def speed_word(speedup: float) -> str:
    """Returns the word of the speed bucket that a speedup lies in."""
    level = math.floor(math.log(max(speedup, 1e-9), BUCKET))
    return f"x{max(-FASTEST_BUCKET, min(FASTEST_BUCKET, level))}"


def prompt(features: Sequence[str], shown: Sequence[tuple[float, Sequence[str]]] = ()) -> tuple[str, ...]:
    """Returns a prompt's words.

    Args:
        features: of the problem.
        shown: (speedup, spelling) of the schedules that are contrasted, from slow to fast.
    """
    said: list[str] = [BEGIN, *features]
    for speedup, spelling in shown:
        # The names of parameters are the same in all: their values alone, in order, say everything.
        said += [SHOWN, speed_word(speedup), *spelling[1::2]]
    return (*said, CHOOSE)
