"""Built-in problems that reduce to a loss, or to one similarity for each row."""

from __future__ import annotations

from kernelwright.problems.entry import Entry

ENTRIES = (
    Entry(
        name="cross_entropy",
        group="losses",
        description="cross entropy of 64 tokens over a vocabulary of 50257",
        model="GPT-2",
    ),
    Entry(
        name="kl_divergence",
        group="losses",
        description="KL divergence of tempered student and teacher logits",
        model="DistilBERT",
    ),
    Entry(
        name="huber_loss",
        group="losses",
        description="mean Huber loss of 64 x 8732 box offsets",
        model="SSD300",
    ),
    Entry(
        name="focal_loss",
        group="losses",
        description="sigmoid focal loss of 16368 anchors and 80 classes",
        model="RetinaNet",
    ),
    Entry(
        name="mse_loss",
        group="losses",
        description="mean squared error of predicted noise over 4x64x64 latents",
        model="Stable Diffusion 1.5",
    ),
    Entry(
        name="cosine_similarity",
        group="losses",
        description="cosine similarity of 4096 pairs of size 768",
        model="SimCSE (BERT base)",
    ),
)
