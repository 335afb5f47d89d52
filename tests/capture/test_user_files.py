"""Files as users write them: captured, and their graphs executed against them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.graph import Capture
from kernelwright.reference_program import load_problem

HEAD = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
TAIL = "def get_inputs():\n    return [torch.randn(8, 16)]\ndef get_init_inputs():\n    return []\n"

Load = Callable[..., Capture]
Write = Callable[..., Path]
Execute = Callable[..., Any]


def check(captured: Capture, execute: Execute) -> None:
    for double, rtol, atol in ((True, 1e-10, 1e-12), (False, 1e-4, 1e-5)):
        expected, found = execute(captured, 3, double)
        torch.testing.assert_close(tuple(found), tuple(expected), rtol=rtol, atol=atol)


FILES = {
    "tied weights": """
class Model(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.head = nn.Linear(d, vocab, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, ids):
        return self.head(self.embed(ids))
def get_inputs():
    return [torch.randint(0, 12, (4, 5))]
def get_init_inputs():
    return [12, 8]
""",
    "several outputs, one of them an input and one a view": """
class Model(nn.Module):
    def forward(self, x):
        return x, x.t(), (x * 2).sum(0), x.argmax(1)
"""
    + TAIL,
    "defaults, numbers and None": """
class Model(nn.Module):
    def forward(self, x, scale, mask=None, *, eps=1e-5):
        if mask is not None:
            x = x.masked_fill(mask, 0)
        return x * scale + eps
def get_inputs():
    return [torch.randn(4, 4), 3, None]
def get_init_inputs():
    return []
""",
    "in place on a view of a temporary, on a slice, and on a column": """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y[0].add_(1)
        y[:, 2:5].mul_(3)
        y.t()[1].copy_(x[:, 0])
        return y
"""
    + TAIL,
    "outputs that share memory": """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        y.relu_()
        return y, y, y.t(), y[:4], y[2:]
"""
    + TAIL,
    "an output that is a parameter, and one that is a view of it": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(16))
    def forward(self, x):
        return x + self.w, self.w, self.w.view(4, 4)
"""
    + TAIL,
    "a view of an input that is changed after it was copied": """
class Model(nn.Module):
    def forward(self, x):
        y = x.clone()
        z = y.view(-1)
        z[::2] = 0.0
        return y + x, z
"""
    + TAIL,
    "the same tensor twice": """
class Model(nn.Module):
    def forward(self, x, y):
        return x * y + x
def get_inputs():
    t = torch.randn(4, 4)
    return [t, t]
def get_init_inputs():
    return []
""",
    "in place on a temporary": """
class Model(nn.Module):
    def forward(self, x):
        y = x.clone()
        y.mul_(2).add_(1)
        y[:, 0] = 0
        z = torch.empty_like(x)
        z.copy_(y)
        return z.relu_()
"""
    + TAIL,
    "buffers and Python control flow": """
class Model(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.register_buffer("mask", torch.ones(16, 16).tril().bool(), persistent=False)
        self.register_buffer("scale", torch.full((1,), 0.5))
        self.layers = nn.ModuleList(nn.LayerNorm(16) for _ in range(depth))
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) if i % 2 == 0 else x + layer(x)
        return (x @ x.t() * self.scale).masked_fill(~self.mask[:8, :8], -1.0)
def get_inputs():
    return [torch.rand(8, 16)]
def get_init_inputs():
    return [3]
""",
    "literals": """
class Model(nn.Module):
    def forward(self, x):
        return x[:, :3] @ torch.tensor([[1.0, 2.5], [3.0, -4.0], [0.5, 6.0]]) + torch.tensor([1, 2])
"""
    + TAIL,
    "reserved names": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.auto = nn.Parameter(torch.ones(16))
        self.exp = nn.Parameter(torch.ones(16))
    def forward(self, out, int, x_1):
        return out * self.auto + int * torch.exp(self.exp * x_1)
def get_inputs():
    return [torch.randn(4, 16), torch.randn(4, 16), torch.randn(16)]
def get_init_inputs():
    return []
""",
    "gradients and views going in": """
class Model(nn.Module):
    def forward(self, x, w):
        return torch.einsum("bij,jk->bik", x, w), F.scaled_dot_product_attention(x, x, x)
def get_inputs():
    return [torch.randn(5, 6, 4).transpose(0, 1).requires_grad_(), torch.randn(4, 7).requires_grad_()]
def get_init_inputs():
    return []
""",
    "half precision": """
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x.float(), -1).to(x.dtype)
def get_inputs():
    return [torch.randn(4, 16, dtype=torch.bfloat16)]
def get_init_inputs():
    return []
""",
}


@pytest.mark.parametrize("name", FILES)
def test_a_user_file_is_captured_and_its_graph_is_the_reference(
    name: str, load: Load, write: Write, execute: Execute
) -> None:
    captured = load(write(HEAD + FILES[name]))
    assert captured.problem.name == "user"
    if name == "half precision":  # In float64 the graph's cast to bfloat16 has nothing to be compared with.
        expected, found = execute(captured, 3, False)
        assert torch.equal(found[0], expected[0])
    else:
        check(captured, execute)


def test_names_and_roles(load: Load, write: Write) -> None:
    captured = load(write(HEAD + FILES["reserved names"]))
    assert [s.name for s in captured.problem.arguments] == ["out_", "int_", "x_1", "auto_", "exp_", "out"]
    captured = load(write(HEAD + FILES["buffers and Python control flow"]))
    roles = {s.name: (s.role, s.dtype) for s in captured.problem.parameters}
    assert roles["layers_0_weight"] == ("parameter", "float32")
    assert roles["mask"] == ("buffer", "bool")
    tied = load(write(HEAD + FILES["tied weights"]))
    assert [(s.name, s.shape) for s in tied.problem.parameters] == [("embed_weight", (12, 8))]


def test_plain_numbers_are_noted(load: Load, write: Write) -> None:
    captured = load(write(HEAD + FILES["defaults, numbers and None"]))
    assert captured.notes == ("scale=3 is built into the kernel", "mask=None is built into the kernel")
    assert [s.name for s in captured.problem.inputs] == ["x"]
    captured = load(write(HEAD + FILES["gradients and views going in"]))
    assert captured.notes == ("x is given to kernels contiguous; get_inputs returns strides [4, 24, 1]",)


def test_identities_and_dead_nodes_are_gone(load: Load, write: Write) -> None:
    text = """
class Model(nn.Module):
    def forward(self, x):
        unused = torch.exp(x).sum()
        assert x.shape[0] == 8
        return x.detach().clone().contiguous().float().expand(8, 16).view(8, 16) * 2
"""
    captured = load(write(HEAD + text + TAIL))
    assert captured.graph is not None
    assert [node.op for node in captured.graph.nodes] == ["aten.mul.Tensor"]
    assert captured.problem.flops == 8 * 16
    assert captured.problem.min_bytes == 2 * 8 * 16 * 4


def test_evaluation_makes_batch_norm_and_dropout_functions(load: Load, write: Write, execute: Execute) -> None:
    text = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.3)
    def forward(self, x):
        return self.drop(self.norm(x))
"""
    captured = load(write(HEAD + text + TAIL), evaluation=True)
    assert captured.problem.evaluation
    assert [s.name for s in captured.problem.parameters][-1] == "norm_num_batches_tracked"
    check(captured, execute)


def test_imports_from_the_files_own_folder_travel_with_it(load: Load, write: Write, execute: Execute) -> None:
    main = (
        HEAD
        + "from ops import scale\nimport parts.norm\n"
        + ("class Model(nn.Module):\n    def forward(self, x):\n        return parts.norm.centre(scale(x))\n" + TAIL)
    )
    path = write(
        main,
        ops="from constants import FACTOR\ndef scale(x):\n    return x * FACTOR\n",
        constants="FACTOR = 3.0\n",
        unrelated="raise RuntimeError('not imported')\n",
        parts__norm="from . import detail\ndef centre(x):\n    return x - detail.mean(x)\n",
        parts__detail="def mean(x):\n    return x.mean(-1, keepdim=True)\n",
    )
    captured = load(path)
    carried = [file.path for file in captured.problem.reference]
    assert carried == ["user.py", "ops.py", "parts/__init__.py", "parts/norm.py", "constants.py", "parts/detail.py"]
    assert captured.problem.origin == str(path.parent)
    for file in path.parent.rglob("*.py"):
        file.unlink()
    check(captured, execute)


def test_a_function_with_specs(load: Load, write: Write, execute: Execute) -> None:
    text = HEAD + (
        "def pick(table, ids, weight=None):\n"
        "    '''Weighted rows.\n\n    More.'''\n"
        "    rows = table[ids]\n"
        "    return rows if weight is None else rows * weight\n"
    )
    path = write(text)
    captured = load(f"{path}:pick", inputs=("float32[10,4]", "int64[6]=2..9", "float64[]=0..1"))
    problem = captured.problem
    assert (problem.name, problem.entry, problem.description) == ("user.pick", "pick", "Weighted rows.")
    assert [(s.name, s.shape, s.low, s.high) for s in problem.inputs] == [
        ("table", (10, 4), None, None),
        ("ids", (6,), 2, 9),
        ("weight", (), 0.0, 1.0),
    ]
    assert problem.workloads[0].generator == "spec"
    assert captured.notes == ()
    check(captured, execute)
    ids = load_problem(problem).make_inputs(1)[1]
    assert 2 <= int(ids.min()) <= int(ids.max()) <= 9
    shorter = load(f"{path}:pick", inputs=("float32[10,4]", "int64[6]"))
    assert [s.name for s in shorter.problem.inputs] == ["table", "ids"]
    assert shorter.notes == ('ids is drawn from 0..9; give a range with --input "int64[...]=0..N"',)


NO_GRAPH = {
    "control flow on values": ("return x if x.sum() > 0 else -x", "control flow or a shape depends on the values"),
    "shape depends on data": ("return x[x > 0].sum()", "aten.index.Tensor has a shape that depends on data"),
    "NumPy in between": (
        "return torch.from_numpy(x.numpy() * 2)",
        "torch.export: RuntimeError: .numpy() is not supported",
    ),
    "complex in between": ("return torch.fft.fft(x).abs()", "aten.abs.default works on complex numbers"),
    "large literal": ("return x + torch.tensor([[float(i) for i in range(5000)]])[:, :16]", "literal tensor of 5000"),
}


@pytest.mark.parametrize("name", NO_GRAPH)
def test_a_reference_without_a_graph_is_still_a_problem(name: str, load: Load, write: Write) -> None:
    forward, reason = NO_GRAPH[name]
    captured = load(write(HEAD + f"class Model(nn.Module):\n    def forward(self, x):\n        {forward}\n" + TAIL))
    assert captured.graph is None
    assert reason in captured.reason
    assert "\n" not in captured.reason
    assert captured.problem.outputs
    assert captured.problem.min_bytes == sum(4 * torch.Size(s.shape).numel() for s in captured.problem.arguments)
