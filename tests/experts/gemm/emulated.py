"""Runs a product's candidate on the CPU by functional models, and compares with float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kernelwright.experts.gemm import Product, Schedule, candidate
from kernelwright.languages.emulation.clusters import ORDERS, Emulated
from kernelwright.types import Candidate, replace

GUARD = 64
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass
class Operands:
    """Tensors of one product, and what it is in float64."""

    product: Product
    a: torch.Tensor
    b: torch.Tensor
    bias: torch.Tensor
    c: torch.Tensor
    truth: NDArray[np.float64]


def operands(product: Product, *, whole: bool, seed: int = 1) -> Operands:
    """Draws whole numbers whose sums are exact, or normal ones."""
    random = np.random.default_rng(seed)
    p, dtype = product, DTYPES[product.dtype]

    def drawn(*shape: int) -> torch.Tensor:
        numbers = random.integers(-2, 3, shape) if whole else random.standard_normal(shape)
        return torch.from_numpy(np.asarray(numbers, dtype=np.float64)).to(dtype)

    a, kn = drawn(p.batch, p.m, p.k), drawn(p.batch, p.k, p.b_columns)
    bias, c = drawn(p.n), drawn(p.batch, p.m, p.n)
    x = p.alpha * (a.double() @ kn.double())
    x = x + p.beta * c.double() if p.beta else x
    x = x + bias.double() if p.bias else x
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "none": lambda t: t, "relu": torch.relu, "silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda t: torch.nn.functional.gelu(t, approximate="tanh"),
    }  # fmt: skip
    truth = calls[p.activation](x[..., : p.n] if p.pair else x).numpy()
    if p.pair:
        truth *= (p.alpha * (a.double() @ kn.double()))[..., p.n :].numpy()
    b = kn if p.layout == "kn" else kn.transpose(1, 2).contiguous()
    return Operands(p, a, b, bias, c, truth)


def made(product: Product, schedule: Schedule) -> Candidate:
    """The candidate of a schedule that must be possible; persistent blocks have many tiles on so small a device."""
    found = candidate(product, schedule, multiprocessors=1)
    assert isinstance(found, Candidate), found
    return found


def changed(given: Candidate, file: str, old: str, new: str) -> Candidate:
    """The candidate with a bug in one of its files."""
    assert sum(old in source.text for source in given.sources if source.path == file) == 1, old
    sources = tuple(
        replace(source, text=source.text.replace(old, new)) if source.path == file else source
        for source in given.sources
    )
    return replace(given, sources=sources)


def run(given: Candidate, data: Operands, seed: int, emulated: Emulated) -> tuple[str, NDArray[np.float64]]:
    """What went wrong, and the output in float64; a write beside it is something that went wrong."""
    count = data.truth.size
    whole = torch.full((count + 2 * GUARD,), float("nan"), dtype=data.a.dtype)
    out = whole[GUARD : GUARD + count]
    parts = torch.full((max(1, sum(int(w.size_bytes) for w in given.plan.workspaces)),), 0xFF, dtype=torch.uint8)
    named = {"a": data.a, "b": data.b, "bias": data.bias, "c": data.c, "out": out, "parts": parts}
    said = emulated.run({name: tensor.data_ptr() for name, tensor in named.items()}, seed)
    beside = torch.cat([whole[:GUARD], whole[-GUARD:]])
    if not said and not bool(beside.isnan().all()):
        said = "wrote beside the output"
    return said, out.double().numpy().reshape(data.truth.shape)


def faults(given: Candidate, data: Operands, *, exact: bool) -> list[str]:
    """What is wrong with a candidate under each order of what is asynchronous."""
    found = []
    emulated = Emulated(given)
    try:
        for seed in range(ORDERS):
            said, out = run(given, data, seed, emulated)
            if said:
                found.append(f"order {seed}: {said}")
            elif exact and not np.array_equal(out, data.truth):
                found.append(f"order {seed}: {int((out != data.truth).sum())} of {out.size} wrong")
            elif not exact:
                error = float(np.linalg.norm(out - data.truth) / np.linalg.norm(data.truth))
                limit = 1e-3 if data.a.dtype == torch.float16 else 6e-3
                if not error < limit:
                    found.append(f"order {seed}: error {error}")
    finally:
        emulated.close()
    return found
