"""The built-in problems at sizes that fill a GPU: the same references with other numbers in them.

What memory limits holds 64 MiB or more, so that no cache of a present GPU holds it. Not here: running them (gpu.py).
"""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

from kernelwright import problems

SIZES: dict[str, dict[str, int]] = {
    "softmax": {"batch": 4, "length": 1024},
    "rms_norm": {"tokens": 8192},
    "layer_norm": {"batch": 32, "length": 1024, "hidden_size": 1024},
    "swiglu": {"tokens": 2048},
    "gelu_bias": {"tokens": 8192},
    "add_rms_norm": {"tokens": 8192},
    "cross_entropy": {"tokens": 512},
    "log_sum_exp": {"tokens": 1024},
    "column_stats": {"batch": 4096},
    "cumsum": {"sequences": 1024},
    "argmax": {"sequences": 1024},
    "logit_softcap": {"tokens": 128},
    "geglu_bias": {"tokens": 8192},
    "group_norm": {"batch": 16},
    "masked_softmax": {"batch": 32, "length": 256},
    "kl_divergence": {"tokens": 1024},
    "l2_normalize": {"images": 32768},
    "cosine_similarity": {"pairs": 32768},
    "mse_loss": {"batch": 2048},
    "huber_loss": {"batch": 1024},
    "focal_loss": {"anchors": 16368 * 16},
    "adaln_modulate": {"batch": 64},
    "batch_norm_inference": {"batch": 128},
    "rotary": {"length": 4096},
    "depthwise_conv2d": {"batch": 64},
    "causal_conv1d": {"batch": 8, "length": 4096},
    "avg_pool2d": {"batch": 64},
    "max_pool2d": {"batch": 32},
    "window_softmax": {"windows": 4096},
    "embedding_bag": {"rows": 1000000, "bags": 65536},
    "topk_gather": {"batch": 64},
}
"""Module-level numbers of a reference that are replaced, by problem, in the order in which they are run: the problems
that say most come first."""


def source(name: str) -> str:
    """Returns a built-in's reference with its numbers replaced.

    Raises:
        ValueError: when the reference has no such number on a line of its own.
    """
    text = problems.source_text(name)
    for key, number in SIZES[name].items():
        text, count = re.subn(rf"(?m)^{key} = \d+$", f"{key} = {number}", text)
        if count != 1:
            raise ValueError(f"{name} has {count} lines that set {key}")
    return text


def write(name: str, folder: Path) -> Path:
    """Writes a problem's file, which the tool then reads as a user's; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(source(name))
    return path


def shape_text(shapes: tuple[tuple[int, ...], ...]) -> str:
    """Returns the largest shape in words."""
    largest = max(shapes, key=prod)
    return " x ".join(map(str, largest))
