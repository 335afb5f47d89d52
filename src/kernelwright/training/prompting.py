"""Contrastive prompts as lines of data, for trainers of others: verl's columns, one line a group.

Not here: how prompts are worded (llm/prompts), and who answers them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kernelwright.training.exercises import Exercise
from kernelwright.training.practice import CodePractice, drawn
from kernelwright.training.rows import Split
from kernelwright.types import Target

SOURCE = "kernelwright"


def lines(
    exercises: Sequence[Exercise], target: Target, *, split: Split, each: int, shown: int, seed: int
) -> Iterator[dict[str, object]]:
    """Yields `each` prompts of every problem, kernels drawn anew from distinct speed buckets; one plain if held out."""
    language = "cuda" if target.kind == "cuda" else "cpp"
    practice = CodePractice(None, target, language=language)
    rng = random.Random(f"prompts {seed}")
    for exercise in exercises:
        known = [e for row in exercise.rows if (e := practice.exemplar(exercise, row)) is not None]
        for number in range(each if split == "train" else 1):
            some = drawn(known, shown, "buckets", rng) if split == "train" else ()
            told = practice.conversation(None, exercise, some)
            yield {
                "data_source": SOURCE,
                "prompt": [{"role": message.role, "content": message.text} for message in told],
                "ability": "kernels",
                "reward_model": {"style": "rule", "ground_truth": exercise.name},
                "extra_info": {
                    "index": number, "split": split, "language": language,
                    "exemplars": [e.candidate.sources[0].text for e in some],
                },
            }  # fmt: skip
