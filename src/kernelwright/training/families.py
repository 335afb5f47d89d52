"""The problem families that a corpus is made of: the built-ins, and small functions in several shapes and layouts.

A family is one computation; its variants differ in sizes and in which axis lies innermost. Held-out families are
computations that a model has not seen in any variant.
Not here: judging (judging.py) and what becomes of the kernels (corpus.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelwright import problems
from kernelwright.types import value

SHAPES = ((256, 1024), (1024, 256), (64, 4096))
"""Rows and columns of a function's variants: a few hundred thousand elements, so that judging takes a second or two."""
HEADER = "import torch\nimport torch.nn.functional as F\n\n\n"
MATRIX, ROW, COLUMN = "float32[R,C]", "float32[C]", "float32[R,1]"


@value
class Source:
    """Something that can be captured, and the family it belongs to."""

    family: str
    variant: str
    """Empty for a family's only variant."""
    source: str
    """As the command line takes it."""
    inputs: tuple[str, ...] = ()


# name, arguments, expression, what each argument is
FUNCTIONS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("scaled_relu", "x, s", "torch.relu(x) * s", (MATRIX, ROW)),
    ("leaky_bias", "x, b", "F.leaky_relu(x + b, 0.1)", (MATRIX, ROW)),
    ("silu_scale", "x, s", "F.silu(x) * s", (MATRIX, ROW)),
    ("hardswish_bias", "x, b", "F.hardswish(x + b)", (MATRIX, ROW)),
    ("tanh_residual", "x, r", "r + torch.tanh(x)", (MATRIX, MATRIX)),
    ("sigmoid_gate", "x, g", "x * torch.sigmoid(g)", (MATRIX, MATRIX)),
    ("softplus_sum", "x, y", "F.softplus(x) + F.softplus(y)", (MATRIX, MATRIX)),
    ("elu_scale", "x, s", "F.elu(x) * s", (MATRIX, ROW)),
    ("mish_like", "x", "x * torch.tanh(torch.log1p(torch.exp(-torch.abs(x))) + torch.relu(x))", (MATRIX,)),
    ("clamped_residual", "x, r", "torch.clamp(x, -1.0, 1.0) + r", (MATRIX, MATRIX)),
    ("rational", "x", "x / (1.0 + torch.abs(x))", (MATRIX,)),
    ("gaussian", "x, m", "torch.exp(-(x - m) * (x - m))", (MATRIX, ROW)),
    ("polynomial", "x", "((0.5 * x + 1.0) * x - 2.0) * x + 3.0", (MATRIX,)),
    ("sine_mix", "x, y", "torch.sin(x) * torch.cos(y)", (MATRIX, MATRIX)),
    ("lerp", "x, y, w", "x + w * (y - x)", (MATRIX, MATRIX, ROW)),
    ("masked_scale", "x, y", "torch.where(x > 0, x * y, 0.1 * y)", (MATRIX, MATRIX)),
    ("row_sum", "x", "x.sum(dim=-1)", (MATRIX,)),
    ("row_mean_square", "x", "(x * x).mean(dim=-1)", (MATRIX,)),
    ("row_max", "x", "x.amax(dim=-1)", (MATRIX,)),
    ("row_range", "x", "x.amax(dim=-1) - x.amin(dim=-1)", (MATRIX,)),
    ("row_norm", "x", "torch.sqrt((x * x).sum(dim=-1))", (MATRIX,)),
    ("row_variance", "x", "x.var(dim=-1, unbiased=False)", (MATRIX,)),
    ("absolute_mean", "x", "x.abs().mean(dim=-1, keepdim=True)", (MATRIX,)),
    ("column_sum", "x", "x.sum(dim=0)", (MATRIX,)),
    ("column_max", "x", "x.amax(dim=0)", (MATRIX,)),
    ("column_mean_scale", "x, s", "x.mean(dim=0) * s", (MATRIX, ROW)),
    ("weighted_row_sum", "x, w", "(x * w).sum(dim=-1)", (MATRIX, ROW)),
    ("row_dot", "x, y", "(x * y).sum(dim=-1)", (MATRIX, MATRIX)),
    ("l1_distance", "x, y", "(x - y).abs().sum(dim=-1)", (MATRIX, MATRIX)),
    ("squared_distance", "x, y", "((x - y) * (x - y)).sum(dim=-1)", (MATRIX, MATRIX)),
    ("centre_rows", "x", "x - x.mean(dim=-1, keepdim=True)", (MATRIX,)),
    ("scale_by_max", "x", "x / (x.abs().amax(dim=-1, keepdim=True) + 1e-6)", (MATRIX,)),
    ("l1_normalise", "x", "x / (x.abs().sum(dim=-1, keepdim=True) + 1e-6)", (MATRIX,)),
    ("standardise", "x", "(x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)",
     (MATRIX,)),
    ("rms_gate", "x, g", "g * x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)", (MATRIX, MATRIX)),
    ("softmax_scale", "x, s", "torch.softmax(x, dim=-1) * s", (MATRIX, ROW)),
    ("log_softmax_row", "x", "F.log_softmax(x, dim=-1)", (MATRIX,)),
    ("softmax_bias", "x, b", "torch.softmax(x + b, dim=-1)", (MATRIX, ROW)),
    ("entropy", "x", "-(torch.softmax(x, -1) * F.log_softmax(x, -1)).sum(-1)", (MATRIX,)),
    ("centre_columns", "x", "x - x.mean(dim=0, keepdim=True)", (MATRIX,)),
    ("row_scale_residual", "x, s, r", "x * s + r", (MATRIX, COLUMN, MATRIX)),
    ("hinge", "x, y", "torch.relu(1.0 - x * y).mean(dim=-1)", (MATRIX, MATRIX)),
    ("log_cosh", "x, y", "(torch.abs(x - y) + F.softplus(-2.0 * torch.abs(x - y)) - 0.6931471805599453).mean(-1)",
     (MATRIX, MATRIX)),
    ("norm_silu", "x, s", "F.silu(F.layer_norm(x, (x.shape[-1],)) * s)", (MATRIX, ROW)),
)  # fmt: skip


def every() -> tuple[str, ...]:
    """Returns the names of all families, the built-ins first."""
    return (*problems.names(), *(name for name, *_ in FUNCTIONS))


def sources(folder: Path, *, names: tuple[str, ...] = (), variants: int = len(SHAPES)) -> Iterator[Source]:
    """Yields what can be captured: every family's first variant before any family's second.

    Args:
        folder: where files of functions are written.
        names: families to leave all others out for.
        variants: of each function at most.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in problems.names():
        if not names or name in names:
            yield Source(family=name, variant="", source=name)
    for rows, columns in SHAPES[:variants]:
        for name, arguments, expression, kinds in FUNCTIONS:
            if names and name not in names:
                continue
            path = folder / f"{name}.py"
            text = f"{HEADER}def {name}({arguments}):\n    return {expression}\n"
            if not path.is_file() or path.read_text() != text:
                path.write_text(text)
            shaped = tuple(kind.replace("R", str(rows)).replace("C", str(columns)) for kind in kinds)
            yield Source(family=name, variant=f"{rows}x{columns}", source=f"{path}:{name}", inputs=shaped)
