"""Vendor routines as steps, on the CPU's own torch."""

from __future__ import annotations

import pytest
import torch

from kernelwright.judge.device import library
from kernelwright.judge.device.faults import DeviceFault
from kernelwright.types import Binding, Step


def step(symbol: str, *names: str, **options: bool) -> Step:
    bound = tuple(Binding(kind="tensor", name=name, ctype="float") for name in names)
    return Step(symbol=symbol, arguments=bound, kind="library", options=tuple(options.items()))


def test_products_with_and_without_transposition_and_bias() -> None:
    a, b, bias = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5)
    views = {"a": a, "b": b, "bias": bias, "out": torch.full((3, 5), float("nan"))}
    library.call_of(step("matmul", "a", "b", "out", transpose_b=True), views)()
    wanted = (a.double() @ b.double().T).float()
    torch.testing.assert_close(views["out"], wanted)
    library.call_of(step("addmm", "bias", "a", "b", "out", transpose_b=True), views)()
    torch.testing.assert_close(views["out"], wanted + bias)


def test_what_cannot_be_called_is_a_failure() -> None:
    with pytest.raises(DeviceFault) as caught:
        library.call_of(step("conv9d"), {})
    assert (caught.value.failure.stage, caught.value.failure.kind) == ("load", "library")
    views = {"a": torch.randn(3, 4), "b": torch.randn(3, 4), "out": torch.empty(3, 3)}
    with pytest.raises(DeviceFault) as caught:
        library.call_of(step("matmul", "a", "b", "out"), views)()
    assert caught.value.failure.stage == "run"
