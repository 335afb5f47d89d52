"""Built-in problems around softmax: plain, masked, biased, after a product, and its logarithm's sum."""

from __future__ import annotations

from kernelwright.problems.entry import Entry

ENTRIES = (
    Entry(
        name="softmax",
        group="softmax",
        description="softmax over rows of 512 attention scores",
        model="BERT large",
    ),
    Entry(
        name="masked_softmax",
        group="softmax",
        description="scaled softmax over 128 scores with a padding mask",
        model="BERT base",
    ),
    Entry(
        name="window_softmax",
        group="softmax",
        description="softmax over 49 scores plus a relative position bias",
        model="Swin-T",
    ),
    Entry(
        name="attention_scores",
        group="softmax",
        description="queries times keys, scale, causal mask and softmax, without dropout",
        model="GPT-2 small",
    ),
    Entry(
        name="log_sum_exp",
        group="softmax",
        description="log-sum-exp over a vocabulary of 32000",
        model="Llama 2 vocabulary, PaLM z-loss",
    ),
)
