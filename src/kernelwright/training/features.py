"""What a problem is like, in a few words: for prompts of schedules and for finding near problems.

Pure: a capture in, words out. Not here: how words become numbers (vocabulary.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from kernelwright.graph import Capture
from kernelwright.types import Target

MOST_OPERATORS = 12
"""Distinct operators that are told, the first that a graph has."""


def words_of(capture: Capture, target: Target) -> tuple[str, ...]:
    """Returns a problem's features: target, operators, sizes as powers of two, in a fixed order."""
    problem = capture.problem
    nodes = capture.graph.nodes if capture.graph else ()
    operators = tuple(dict.fromkeys(node.op.removeprefix("aten.").split(".")[0] for node in nodes))
    first = problem.inputs[0].shape if problem.inputs else ()
    return (
        f"target:{target.kind}",
        f"threads:{_power(target.threads)}",
        *(f"op:{name}" for name in operators[:MOST_OPERATORS]),
        f"nodes:{_power(len(nodes))}",
        f"inputs:{len(problem.inputs) + len(problem.parameters)}",
        f"rank:{len(first)}",
        f"inner:{_power(first[-1] if first else 1)}",
        f"elements:{_power(math.prod(first))}",
        f"written:{_power(sum(math.prod(spec.shape) for spec in problem.outputs))}",
        f"bytes:{_power(problem.min_bytes)}",
    )


def likeness(one: Sequence[str], other: Sequence[str]) -> float:
    """Returns how alike two problems are, from 0 to 1: operators by what they share, sizes by how near they are."""
    shared = _jaccard(_operators(one), _operators(other))
    sizes, others = _sizes(one), _sizes(other)
    apart = [abs(sizes[name] - others[name]) for name in sizes if name in others]
    near = sum(1.0 / (1.0 + distance) for distance in apart) / len(apart) if apart else 0.0
    return 0.75 * shared + 0.25 * near


def _operators(words: Sequence[str]) -> Counter[str]:
    return Counter(word for word in words if word.startswith(("op:", "target:")))


def _jaccard(one: Counter[str], other: Counter[str]) -> float:
    union = (one | other).total()
    return (one & other).total() / union if union else 1.0


def _sizes(words: Sequence[str]) -> dict[str, int]:
    pairs = (word.split(":", 1) for word in words if not word.startswith(("op:", "target:")))
    return {name: int(number) for name, number in pairs}


def _power(number: int) -> int:
    return max(0, round(math.log2(max(1, number))))
