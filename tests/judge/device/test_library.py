"""Vendor routines as steps, on the CPU's own torch."""

from __future__ import annotations

import pytest
import torch

from kernelwright.judge.device import library
from kernelwright.judge.device.faults import DeviceFault
from kernelwright.types import Binding, Step


def step(symbol: str, *names: str, **options: bool | int | str) -> Step:
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


def test_convolutions_of_views_of_bytes() -> None:
    x, weight, out = torch.randn(2, 4, 6, 7), torch.randn(6, 2, 3, 3), torch.full((2, 6, 3, 4), float("nan"))
    views = {"x": x, "weight": weight.flatten().view(torch.uint8), "out": out}
    options: dict[str, bool | int | str] = {
        "view1": "6x2x3x3:18x9x3x1+0", "stride": "2x2", "padding": "1x1", "dilation": "1x1", "longer": "0x0",
        "groups": 2, "transposed": False,
    }  # fmt: skip
    library.call_of(step("convolution", "x", "weight", "out", **options), views)()
    wanted = torch.nn.functional.conv2d(x.double(), weight.double(), stride=2, padding=1, groups=2)
    torch.testing.assert_close(out, wanted.float())


@pytest.mark.parametrize(
    "text", ["3x4:4x1+1", "3x5:4x1+0", "3x4:-4x1+8", "3x4:4x1+-1", "3:4:1", "3x4:4+0", "0x4:4x1+0"]
)
def test_views_beyond_their_buffer_are_refused(text: str) -> None:
    """What lies beside a buffer is another call's, or the judge's."""
    whole = torch.randn(10, 12)
    views = {"a": whole[4].view(3, 4), "b": torch.randn(4, 3), "out": torch.empty(3, 3)}
    with pytest.raises(DeviceFault) as caught:
        library.call_of(step("matmul", "a", "b", "out", view0=text), views)
    assert caught.value.failure.stage == "load"


def test_what_cannot_be_called_is_a_failure() -> None:
    with pytest.raises(DeviceFault) as caught:
        library.call_of(step("conv9d"), {})
    assert (caught.value.failure.stage, caught.value.failure.kind) == ("load", "library")
    views = {"a": torch.randn(3, 4), "b": torch.randn(3, 4), "out": torch.empty(3, 3)}
    with pytest.raises(DeviceFault) as caught:
        library.call_of(step("matmul", "a", "b", "out"), views)()
    assert caught.value.failure.stage == "run"
