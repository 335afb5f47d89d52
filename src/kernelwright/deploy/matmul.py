"""`kernelwright.matmul`: a matrix product by the plan that won on this device, by the vendor's call everywhere else.

The first call of a kind of product looks for its plan (products.py), which takes from a millisecond to as long as a
compilation; later ones find it by shape, layout, dtype, device and epilogue in one dictionary, and the compiled
launcher holds the tensors against it once more, alignment, modes and gradients included.
**Does not cover**: gradients (torch's product runs where one is needed), complex and double types, sparse tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch

from kernelwright import environment
from kernelwright.deploy.guard import quiet
from kernelwright.deploy.products import Products
from kernelwright.experts.gemm import Product
from kernelwright.experts.gemm.table import Row

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Call = Callable[..., Any]
_F = torch.nn.functional
ACTIVATIONS: dict[str | None, Callable[[torch.Tensor], torch.Tensor]] = {
    None: lambda x: x, "relu": torch.relu, "gelu": _F.gelu, "silu": _F.silu,
    "gelu_tanh": lambda x: _F.gelu(x, approximate="tanh"),
}  # fmt: skip
_compiling = torch.compiler.is_compiling
_known: dict[tuple[Any, ...], Call | None] = {}
_using = [Products()]


def matmul(
    a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None, activation: Activation | None = None
) -> torch.Tensor:
    """Returns activation(a @ b + bias), a new tensor, by the fastest way that is known on the tensors' device.

    Never slower than torch on purpose: a kernel of ours runs where it won a confirming run, or, for sizes that no table
    lists, a measurement on its first use, after it gave exact products of whole numbers. Sums are in float32.

    Args:
        a: (..., m, k).
        b: (k, n), or (..., k, n) as torch.matmul takes it; the transpose of a contiguous (n, k) has a plan of its own.
        bias: (n,), added to every row.
        activation: what the sums go through at the end.

    Raises:
        RuntimeError: what torch.matmul raises, for shapes and types that do not fit.
    """
    if a.is_cuda and not _compiling():
        return _called(_known, a, b, bias, activation)
    return torch_product(a, b, bias, activation)


def _called(
    plans: dict[tuple[Any, ...], Call | None], a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None,
    activation: str | None,
) -> torch.Tensor:  # fmt: skip
    key = (a.shape, b.shape, b.stride(), a.dtype, a.get_device(), bias is None, activation)
    try:
        found = plans[key]
    except KeyError:
        found = _learn(key, a, b, bias, activation)
    except TypeError:  # symbolic sizes
        found = None
    if found is not None:
        out = found(a, b) if bias is None else found(a, b, bias)
        if out is not NotImplemented:
            return out  # type: ignore[no-any-return]
    return torch_product(a, b, bias, activation)


def torch_product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, activation: str | None) -> torch.Tensor:
    """Returns the same by torch alone."""
    if bias is None:
        x = torch.matmul(a, b)
    elif b.dim() == 2:
        x = _F.linear(a, b.t(), bias)
    else:
        x = torch.matmul(a, b) + bias
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; write one of {', '.join(filter(None, ACTIVATIONS))}, or None")
    return ACTIVATIONS[activation](x)


def _learn(
    key: tuple[Any, ...], a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None, activation: str | None
) -> Call | None:
    """Finds the plan of a kind of product; the vendor's calls are remembered as None."""
    if environment.disabled():
        _known[key] = None
        return None
    if not quiet() or torch.cuda.is_current_stream_capturing():
        return None  # nothing can be tried now: learnt at the next call outside graphs and modes
    with torch.no_grad():
        given = (a.detach(), b.detach(), bias if bias is None else bias.detach())
        _known[key] = _using[0].call_for(*given, activation, functools.partial(torch_product, activation=activation))
    return _known[key]


def use(products: Products) -> None:
    """Has other products found, or the same ones again: every plan is forgotten, and tables are read again."""
    _known.clear()
    _using[0].forget()
    _using[0] = products


def bound(a: torch.Tensor, b: torch.Tensor) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Returns `matmul` after it has learnt its plan for tensors like these, which `use` does not take back.

    For measuring: the call looks up its plan as any call does.
    """
    matmul(a, b)
    plans = dict(_known)

    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return _called(plans, a, b, None, None) if plans else torch_product(a, b, None, None)

    return call


def vendor_call(product: Product, row: Row, a: torch.Tensor, b: torch.Tensor) -> Call | None:
    """Returns the call of the vendor's algorithm in a table's row; None for another version of its library."""
    return _using[0].vendor(product, row, a, b)
