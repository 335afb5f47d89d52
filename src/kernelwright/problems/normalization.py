"""Built-in problems that normalise by statistics of a row, a group, a channel or a column."""

from __future__ import annotations

from kernelwright.problems.entry import Entry

ENTRIES = (
    Entry(
        name="rms_norm",
        group="normalization",
        description="RMSNorm of 512 tokens of size 4096, with a weight",
        model="Llama 3 8B",
    ),
    Entry(
        name="add_rms_norm",
        group="normalization",
        description="residual add, then RMSNorm; gives the normed states and the new residual",
        model="Llama 3 8B",
    ),
    Entry(
        name="layer_norm",
        group="normalization",
        description="LayerNorm of 8 x 512 tokens of size 768, with weight and bias",
        model="BERT base",
    ),
    Entry(
        name="group_norm",
        group="normalization",
        description="GroupNorm of 320 channels in 32 groups, then SiLU",
        model="Stable Diffusion 1.5 UNet",
    ),
    Entry(
        name="batch_norm_inference",
        group="normalization",
        description="batch normalisation with stored statistics, then ReLU",
        model="ResNet-50, first stage",
    ),
    Entry(
        name="adaln_modulate",
        group="normalization",
        description="LayerNorm without weights, then shift and scale per image",
        model="DiT-XL/2",
    ),
    Entry(
        name="l2_normalize",
        group="normalization",
        description="rows of size 768 divided by their Euclidean length",
        model="CLIP ViT-L/14",
    ),
    Entry(
        name="column_stats",
        group="normalization",
        description="mean and variance of 8192 features over a batch of 512",
        model="VICReg expander",
    ),
)
