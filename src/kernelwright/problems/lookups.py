"""Built-in problems that select: gathers by index, the largest, the k largest."""

from __future__ import annotations

from kernelwright.problems.entry import Entry

ENTRIES = (
    Entry(
        name="topk_gather",
        group="lookups",
        description="the 300 best of 8400 proposals by class score, and their boxes",
        model="RT-DETR",
    ),
    Entry(
        name="embedding_bag",
        group="lookups",
        description="sum of 32 rows of a table of 100000 x 64, for 8192 bags",
        model="DLRM",
    ),
    Entry(
        name="argmax",
        group="lookups",
        description="the most likely of 32000 words for 128 sequences",
        model="Llama 2 vocabulary",
    ),
)
