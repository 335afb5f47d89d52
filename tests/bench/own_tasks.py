"""Forty small tasks of our own in the class contract of KernelBench, laid out as a clone of it.

Level 1 has single operators, level 2 chains, level 3 blocks of networks: (what __init__ does, what forward gives,
what get_inputs gives). Sizes are small enough for a few kernels each to be built and judged within seconds.
"""

from __future__ import annotations

from pathlib import Path

X = "x=torch.randn(24, 96)"
IMAGE = "x=torch.randn(2, 8, 12, 12)"
TOKENS = "x=torch.randn(2, 16, 32)"
SINGLE = {
    "relu": ("", "torch.relu(x)", X),
    "gelu_tanh": ("", "F.gelu(x, approximate='tanh')", X),
    "swish": ("", "x * torch.sigmoid(x)", X),
    "hard_swish": ("", "F.hardswish(x)", X),
    "softmax": ("", "torch.softmax(x, dim=1)", X),
    "log_softmax": ("", "torch.log_softmax(x, dim=1)", X),
    "row_sums": ("", "x.sum(dim=1)", X),
    "column_means": ("", "x.mean(dim=0)", X),
    "largest": ("", "x.amax(dim=1)", X),
    "layer_norm": ("self.norm = nn.LayerNorm(96)", "self.norm(x)", X),
    "rms_norm": (
        "self.weight = nn.Parameter(torch.randn(96))",
        "x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * self.weight",
        X,
    ),
    "euclidean": ("", "x / x.norm(dim=1, keepdim=True)", X),
    "running_sum": ("", "torch.cumsum(x, dim=1)", X),
    "product": ("", "x @ y", "x=torch.randn(24, 40), y=torch.randn(40, 32)"),
    "product_transposed": ("", "x @ y.T", "x=torch.randn(24, 40), y=torch.randn(32, 40)"),
    "max_pool": ("self.pool = nn.MaxPool2d(2)", "self.pool(x)", IMAGE),
    "mean_pool": ("self.pool = nn.AvgPool2d(3, stride=2, padding=1)", "self.pool(x)", IMAGE),
    "convolution": ("self.conv = nn.Conv2d(8, 8, 3, padding=1)", "self.conv(x)", IMAGE),
    "depthwise": ("self.conv = nn.Conv2d(8, 8, 3, groups=8)", "self.conv(x)", IMAGE),
    "squared_error": ("", "F.mse_loss(x, y)", "x=torch.randn(24, 96), y=torch.randn(24, 96)"),
}
CHAINS = {
    "linear_relu": ("self.a = nn.Linear(96, 32)", "torch.relu(self.a(x))", X),
    "linear_scale_add": ("self.a = nn.Linear(96, 32)", "self.a(x) * 0.5 + 1.0", X),
    "linear_gelu_softmax": ("self.a = nn.Linear(96, 32)", "torch.softmax(F.gelu(self.a(x)), dim=1)", X),
    "linear_then_sum": ("self.a = nn.Linear(96, 32)", "self.a(x).sum(dim=1, keepdim=True)", X),
    "diagonal_product": ("", "torch.diag(d) @ x", "d=torch.randn(24), x=torch.randn(24, 32)"),
    "clamped_twice": ("", "torch.clamp(torch.clamp(x, min=-1.0), min=-1.0) * 2.0", X),
    "bias_gelu_scale": ("self.bias = nn.Parameter(torch.randn(96))", "F.gelu(x + self.bias) * 1.7", X),
    "residual_norm": ("self.norm = nn.LayerNorm(96)", "self.norm(x + y)", f"{X}, y=torch.randn(24, 96)"),
    "gated": ("", "F.silu(x) * y", f"{X}, y=torch.randn(24, 96)"),
    "softmax_of_scaled": ("", "torch.softmax(x / 8.0, dim=1) * 3.0", X),
    "conv_relu_bias": (
        "self.conv = nn.Conv2d(8, 8, 3)\nself.bias = nn.Parameter(torch.randn(8, 1, 1))",
        "torch.relu(self.conv(x)) + self.bias",
        IMAGE,
    ),
    "pool_then_tanh": ("self.pool = nn.AvgPool2d(2)", "torch.tanh(self.pool(x))", IMAGE),
    "mean_of_squares": ("", "((x - y) ** 2).mean(dim=1)", f"{X}, y=torch.randn(24, 96)"),
    "log_sum_exp": ("", "torch.logsumexp(x, dim=1)", X),
}
BLOCKS = {
    "perceptron": (
        "self.a = nn.Linear(96, 48)\nself.b = nn.Linear(48, 16)",
        "self.b(torch.relu(self.a(x)))",
        X,
    ),
    "deep_perceptron": (
        "self.a = nn.Linear(96, 32)\nself.b = nn.Linear(32, 32)\nself.c = nn.Linear(32, 8)",
        "self.c(torch.relu(self.b(torch.relu(self.a(x)))))",
        X,
    ),
    "gated_mlp": (
        "self.up = nn.Linear(96, 32, bias=False)\nself.gate = nn.Linear(96, 32, bias=False)",
        "F.silu(self.gate(x)) * self.up(x)",
        X,
    ),
    "attention": ("", "F.scaled_dot_product_attention(x, x, x)", "x=torch.randn(2, 2, 16, 32)"),
    "norm_and_linear": ("self.norm = nn.LayerNorm(32)\nself.a = nn.Linear(32, 32)", "x + self.a(self.norm(x))", TOKENS),
    "small_network": (
        "self.conv = nn.Conv2d(8, 8, 3)\nself.pool = nn.MaxPool2d(2)\nself.a = nn.Linear(200, 10)",
        "self.a(self.pool(torch.relu(self.conv(x))).flatten(1))",
        IMAGE,
    ),
}
LEVELS = (SINGLE, CHAINS, BLOCKS)


def text(init: str, forward: str, inputs: str) -> str:
    """Returns a task file."""
    drawn = eval(f"dict({inputs})", {"torch": _Written()})
    body = "".join(f"        {line}\n" for line in init.splitlines())
    return (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\nclass Model(nn.Module):\n"
        f"    def __init__(self):\n        super().__init__()\n{body}\n"
        f"    def forward(self, {', '.join(drawn)}):\n        return {forward}\n\n\n"
        f"def get_inputs():\n    return [{', '.join(drawn.values())}]\n\n\ndef get_init_inputs():\n    return []\n"
    )


class _Written:
    """Gives calls of torch's draws back as text."""

    def randn(self, *sizes: int) -> str:
        return f"torch.randn({', '.join(map(str, sizes))})"


def clone(folder: Path) -> Path:
    """Writes the tasks as a clone of the benchmark holds its own, and returns the folder."""
    for level, tasks in enumerate(LEVELS, 1):
        place = folder / "KernelBench" / f"level{level}"
        place.mkdir(parents=True)
        for number, (name, parts) in enumerate(tasks.items(), 1):
            (place / f"{number}_{name}.py").write_text(text(*parts))
    return folder
