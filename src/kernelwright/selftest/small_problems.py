"""Small problems that the judge tests itself on: the references of the corpus, by name.

Shapes are small, so that a session opens in a fraction of a second, and those of the mutants' problems are odd, so
that every loop has a tail. Not here: the kernels (kernel_files.py).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kernelwright.types import Axis, Problem, Role, SourceFile, TensorSpec, Workload

ROWS, COLUMNS = 64, 256


@dataclass(frozen=True)
class Given:
    """A problem in few words: tensors as `name[shape]` or `name:dtype[shape]`, and what is computed from them."""

    inputs: str
    outputs: str
    forward: str
    """The body of `forward`, without `return` where it is an expression."""
    parameters: str = ""
    init: str = ""
    """The rest of `__init__`."""
    draws: tuple[tuple[str, str], ...] = ()
    """How an input is drawn, where that is not `torch.randn`."""
    axes: tuple[Axis, ...] = ()
    """Sizes that vary."""


PROBLEMS = {
    "lookup": Given(
        "i:int64[64]", "out[64,32]", "self.table[i]", "table[500,32]",
        "self.table = torch.nn.Parameter(torch.randn(500, 32))", (("i", "torch.randint(0, 500, (64,))"),),
    ),
    "masked": Given(
        "x[64,128] mask:bool[64,128]", "out[64,128]", "torch.softmax(x.masked_fill(mask, -1e30), -1)",
        draws=(("mask", "torch.rand(64, 128) < 0.3"),),
    ),
    "rowsum": Given("x[64,256]", "out[64]", "x.sum(-1)"),
    "dynamic": Given(
        "x[32,64]", "out[32,64]", "torch.softmax(x, -1)",
        axes=(
            Axis(name="R", size=32, low=1, high=3000, places=(("x", 0), ("out", 0))),
            Axis(name="C", size=64, low=1, high=2000, places=(("x", 1), ("out", 1))),
        ),
    ),
    "softmax": Given("x[64,256]", "out[64,256]", "torch.softmax(x, dim=-1)"),
    "rowmax": Given("x[64,256]", "out[64]", "x.amax(dim=-1)"),
    "argmax": Given("x[64,256]", "out:int64[64]", "x.argmax(dim=-1)"),
    "mse": Given("x[64,256] y[64,256]", "out[]", "((x - y) ** 2).mean()"),
    "layernorm": Given(
        "x[64,256]", "out[64,256]", "self.ln(x)", "weight[256] bias[256]", "self.ln = torch.nn.LayerNorm(256)"
    ),
    "cumsum": Given("x[64,256]", "out[64,256]", "x.cumsum(dim=-1)"),
    "matmul": Given("a[48,64] b[64,40]", "out[48,40]", "a @ b"),
    "maxpool": Given("x[4,8,16,16]", "out[4,8,8,8]", "F.max_pool2d(x, 3, stride=2, padding=1)"),
    "avgpool": Given("x[4,8,16,16]", "out[4,8,8,8]", "F.avg_pool2d(x, 2)"),
    "embedding": Given(
        "ids:int64[96]", "out[96,32]", "self.table(ids)", "table[100,32]", "self.table = torch.nn.Embedding(100, 32)",
        (("ids", "torch.randint(0, 100, (96,))"),),
    ),
    "gather": Given(
        "x[64,256] index:int64[64,16]", "out[64,16]", "x.gather(1, index)",
        draws=(("index", "torch.randint(0, 256, (64, 16))"),),
    ),
    "topk": Given("x[64,256]", "values[64,8] indices:int64[64,8]", "tuple(torch.topk(x, 8, dim=-1))"),
    "sort": Given("x[64,256]", "out[64,256]", "torch.sort(x, dim=-1).values"),
    "cross_entropy": Given(
        "x[64,100] target:int64[64]", "out[]", "F.cross_entropy(x, target)",
        draws=(("target", "torch.randint(0, 100, (64,))"),),
    ),
    "gelu": Given("x[64,256]", "out[64,256]", "F.gelu(x)"),
    "lgamma": Given("x[64,256]", "out[64,256]", "torch.lgamma(x)"),
    "silu_float16": Given("x:float16[64,256]", "out:float16[64,256]", "F.silu(x)"),
    "rmsnorm_bfloat16": Given(
        "x:bfloat16[64,256]", "out:bfloat16[64,256]", "self.norm(x)", "weight:bfloat16[256]",
        "self.norm = torch.nn.RMSNorm(256, eps=1e-6).bfloat16()",
    ),
    "l2norm": Given("x[64,256]", "out[64,256]", "F.normalize(x, dim=-1)"),
    "groupnorm": Given(
        "x[4,16,8,8]", "out[4,16,8,8]", "self.gn(x)", "weight[16] bias[16]", "self.gn = torch.nn.GroupNorm(4, 16)"
    ),
    "transpose": Given("x[64,256]", "out[256,64]", "x.t().contiguous()"),
    "masked_softmax": Given(
        "x[64,256] mask:bool[64,256]", "out[64,256]", 'torch.softmax(x.masked_fill(mask, float("-inf")), dim=-1)',
        draws=(("mask", "(torch.rand(64, 256) < 0.4) | (torch.arange(64) % 16 == 5)[:, None]"),),
    ),
    "counts": Given("x[64,256]", "out:int64[64]", "(x > 0).sum(dim=-1)"),
    "greater": Given("x[64,256] y[64,256]", "out:bool[64,256]", "x > y"),
    "logsumexp_float64": Given("x:float64[64,256]", "out:float64[64]", "torch.logsumexp(x, dim=-1)"),
    "intsum": Given(
        "x:int64[64,256]", "out:int64[64]", "x.sum(dim=-1)", draws=(("x", "torch.randint(-(2**40), 2**40, (64, 256))"),)
    ),
    "var_mean": Given("x[64,256]", "var[64] mean[64]", "tuple(torch.var_mean(x, dim=-1))"),
    "norm": Given("x[64,256]", "out[]", "x.norm()"),
    "mlp": Given(
        "x[16,32]", "out[16,24]", "self.two(torch.relu(self.one(x)))", "w1[64,32] b1[64] w2[24,64] b2[24]",
        "self.one, self.two = torch.nn.Linear(32, 64), torch.nn.Linear(64, 24)",
    ),
    "attention": Given(
        "q[2,32,16] k[2,32,16] v[2,32,16]", "out[2,32,16]", "F.scaled_dot_product_attention(q, k, v)"
    ),
    "conv1d": Given("x[2,4,64]", "out[2,8,62]", "self.conv(x)", "weight[8,4,3] bias[8]",
                    "self.conv = torch.nn.Conv1d(4, 8, 3)"),
    "odd_softmax": Given("x[61,173]", "out[61,173]", "torch.softmax(x, dim=-1)"),
    "odd_rowmax": Given("x[61,173]", "out[61]", "x.amax(dim=-1)"),
    "odd_argmax": Given("x[61,173]", "out:int64[61]", "x.argmax(dim=-1)"),
    "odd_mse": Given("x[61,173] y[61,173]", "out[]", "((x - y) ** 2).mean()"),
    "odd_layernorm": Given(
        "x[61,173]", "out[61,173]", "self.ln(x)", "weight[173] bias[173]", "self.ln = torch.nn.LayerNorm(173)"
    ),
    "odd_rmsnorm": Given(
        "x[61,173]", "out[61,173]", "self.norm(x)", "weight[173]", "self.norm = torch.nn.RMSNorm(173, eps=1e-5)"
    ),
    "odd_groupnorm": Given(
        "x[5,12,7,11]", "out[5,12,7,11]", "self.gn(x)", "weight[12] bias[12]", "self.gn = torch.nn.GroupNorm(4, 12)"
    ),
    "odd_matmul": Given("a[61,83] b[83,47]", "out[61,47]", "a @ b"),
    "odd_cumsum": Given("x[61,173]", "out[61,173]", "x.cumsum(dim=-1)"),
    "odd_avgpool": Given(
        "x[7,4,23,31]", "out[7,4,12,16]", "F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)"
    ),
    "odd_masked_softmax": Given(
        "x[61,173] mask:bool[61,173]", "out[61,173]", 'torch.softmax(x.masked_fill(~mask, float("-inf")), dim=-1)',
        draws=(("mask", "torch.rand(61, 173) > 0.3"),),
    ),
    "transpose_add": Given("x[61,173] y[173,61]", "out[173,61]", "x.t() + y"),
    "batch_reduce": Given("x[17,61,29]", "out[17,29]", "x.sum(1)"),
    "scatter_add": Given(
        "index:int64[40009] x[40009]", "out[61]", "torch.zeros(61).index_add_(0, index, x)",
        draws=(("index", "torch.randint(0, 61, (40009,))"),),
    ),
    "rows_by_number": Given(
        "index:int64[251] x[61,173]", "out[251,173]", "x[index]", draws=(("index", "torch.randint(0, 61, (251,))"),)
    ),
    "dequantize": Given(
        "q:int8[61,173] x[61]", "out[61,173]", "q.float() * x[:, None]",
        draws=(("q", "torch.randint(-128, 128, (61, 173), dtype=torch.int8)"),),
    ),
}  # fmt: skip
"""Small, of many kinds: a session of each takes a fraction of a second."""
TENSOR = re.compile(r"(\w+)(?::(\w+))?\[([\d,]*)\]")


def _tensors(text: str, role: Role) -> tuple[TensorSpec, ...]:
    return tuple(
        TensorSpec(
            name=name, shape=tuple(int(size) for size in shape.split(",") if size), dtype=dtype or "float32", role=role
        )
        for name, dtype, shape in TENSOR.findall(text)
    )


def make_problem(name: str) -> Problem:
    """Returns a problem by name.

    Raises:
        KeyError: when there is none of that name.
    """
    given = PROBLEMS[name]
    inputs, outputs = _tensors(given.inputs, "input"), _tensors(given.outputs, "output")
    parameters = _tensors(given.parameters, "parameter")
    special = dict(given.draws)
    draws = [special.get(t.name, f"torch.randn({t.shape}).to(torch.{t.dtype})") for t in inputs]
    init = f"    def __init__(self):\n        super().__init__()\n        {given.init}\n" if given.init else ""
    text = (
        f"import torch, torch.nn.functional as F\nclass Model(torch.nn.Module):\n{init}"
        f"    def forward(self, {', '.join(t.name for t in inputs)}):\n        return {given.forward}\n"
        f"def get_inputs():\n    return [{', '.join(draws)}]\n"
    )
    return Problem(
        name=name,
        inputs=inputs,
        parameters=parameters,
        outputs=outputs,
        reference=(SourceFile(path=f"{name}.py", text=text),),
        entry="Model",
        workloads=(Workload(name="given", generator="source"),),
        axes=given.axes,
        min_bytes=sum(math.prod(t.shape) for t in inputs + outputs),
    )
