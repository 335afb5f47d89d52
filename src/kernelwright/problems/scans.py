"""Built-in problems in which an element depends on all before it."""

from __future__ import annotations

from kernelwright.problems.entry import Entry

ENTRIES = (
    Entry(
        name="cumsum",
        group="scans",
        description="cumulative sum of sorted probabilities for top-p sampling",
        model="Llama 2 vocabulary",
    ),
)
