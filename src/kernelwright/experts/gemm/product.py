"""One matrix product as a value, and the problem that it is for the judge.

C = activation(alpha A B + beta C + bias), or activation(alpha A G) times (alpha A U) where B holds both G and U. A is
row-major m x k, B either k x n ("kn") or n x k ("nk") row-major, float16 or bfloat16 in and out, sums in float32.
Not here: how it is computed (schedules.py, print.py).
"""

from __future__ import annotations

from typing import Literal

from kernelwright.types import Problem, SourceFile, TensorSpec, Workload, value

Layout = Literal["kn", "nk"]
HalfType = Literal["float16", "bfloat16"]
Activation = Literal["none", "relu", "gelu", "gelu_tanh", "silu"]
ELEMENT_BYTES = 2


@value
class Product:
    """What is multiplied, and what happens to a finished sum."""

    m: int
    n: int
    k: int
    layout: Layout = "nk"
    """Whether B is n x k or k x n in memory."""
    dtype: HalfType = "float16"
    batch: int = 1
    """Products of the same sizes, one after another in memory."""
    alpha: float = 1.0
    beta: float = 0.0
    """Of the matrix `c`, which is read only where this is not zero."""
    bias: bool = False
    """Whether a vector of n is added to every row."""
    activation: Activation = "none"
    pair: bool = False
    """B has two parts of n rows (or columns, k x n): gates, whose activation multiplies the other part's sums: SwiGLU
    where the activation is silu. Without beta and bias."""

    @property
    def b_columns(self) -> int:
        """Rows of B n x k, columns of B k x n."""
        return self.n * (2 if self.pair else 1)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.b_columns * self.k

    @property
    def min_bytes(self) -> int:
        """Every operand once."""
        moved = self.m * self.k + self.k * self.b_columns + self.m * self.n * (2 if self.beta else 1)
        return ELEMENT_BYTES * (self.batch * moved + (self.n if self.bias else 0))


_CALLS = {
    "none": "{}",
    "relu": "torch.relu({})",
    "gelu": "torch.nn.functional.gelu({})",
    "gelu_tanh": 'torch.nn.functional.gelu({}, approximate="tanh")',
    "silu": "torch.nn.functional.silu({})",
}


def fault_of_product(product: Product) -> str:
    """Returns why a product is no product, empty where it is one."""
    for name in ("m", "n", "k", "batch"):
        if not 1 <= getattr(product, name) <= 1 << 24:
            return f"{name} is {getattr(product, name)}; 1 to {1 << 24} are possible"
    if product.pair and (product.beta or product.bias):
        return "a pair of products takes neither bias nor c"
    largest = max(product.m * product.k, product.k * product.b_columns, product.m * product.n) * product.batch
    return f"a tensor of {largest} elements; fewer than 2^40 are possible" if largest >= 1 << 40 else ""


def reference_text(product: Product) -> str:
    """Returns the product as a PyTorch function in its own precision."""
    names = ["a", "b", *(["bias"] if product.bias else []), *(["c"] if product.beta else [])]
    made = "a @ b" if product.layout == "kn" else "a @ b.transpose(-1, -2)"
    if product.alpha != 1.0:
        made = f"{product.alpha!r} * ({made})"
    if product.beta:
        made = f"{made} + {product.beta!r} * c"
    if product.bias:
        made = f"{made} + bias"
    head = f"import torch\n\n\ndef product({', '.join(names)}):\n"
    if product.pair:
        gates, others = (f"({made})[..., {part}]" for part in (f":{product.n}", f"{product.n}:"))
        return f"{head}    return {_CALLS[product.activation].format(gates)} * {others}\n"
    return f"{head}    return {_CALLS[product.activation].format(made)}\n"


def problem_of(product: Product) -> Problem:
    """Returns the problem that the judge knows: inputs a, b, bias and c where there are, the output out."""

    def tensor(name: str, role: Literal["input", "output"], *shape: int) -> TensorSpec:
        whole = (product.batch, *shape) if product.batch > 1 and len(shape) == 2 else shape
        return TensorSpec(name=name, shape=whole, dtype=product.dtype, role=role)

    m, n, k, rows = product.m, product.n, product.k, product.b_columns
    inputs = [tensor("a", "input", m, k), tensor("b", "input", *((k, rows) if product.layout == "kn" else (rows, k)))]
    inputs += [tensor("bias", "input", n)] if product.bias else []
    inputs += [tensor("c", "input", m, n)] if product.beta else []
    return Problem(
        name=f"product_{m}x{n}x{k}_{product.layout}_{product.dtype}",
        inputs=tuple(inputs),
        parameters=(),
        outputs=(tensor("out", "output", m, n),),
        reference=(SourceFile(path="reference.py", text=reference_text(product)),),
        entry="product",
        workloads=(Workload(name="default", generator="spec"),),
        flops=product.flops,
        min_bytes=product.min_bytes,
    )
