"""Arguments as bytes: exact layouts."""

from __future__ import annotations

import struct

import pytest

from kernelwright.judge.device.faults import DeviceFault
from kernelwright.judge.device.packing import pack_arguments, pack_number, tensor_map_call
from kernelwright.types import Binding, Step, TensorMap

ADDRESSES = {"x": 0x7F0000000100, "out": 0x7F0000000200, "scratch": 0x10}


def test_each_kind_of_argument_has_its_own_bytes() -> None:
    step = Step(
        symbol="k",
        arguments=(
            Binding(kind="tensor", name="x", ctype="const float"),
            Binding(kind="tensor_map", name="m", ctype="CUtensorMap"),
            Binding(kind="axis", name="M", ctype="int32_t"),
            Binding(kind="scalar", name="eps", ctype="float", scalar=1e-5),
            Binding(kind="workspace", name="scratch", ctype="float"),
            Binding(kind="scalar", name="flag", ctype="bool", scalar=1),
            Binding(kind="axis", name="M", ctype="int64_t"),
            Binding(kind="axis", name="ceil_div(M, 128) * 2", ctype="int32_t"),
        ),
    )
    packed = pack_arguments(step, ADDRESSES, {"M": 300}, {"m": b"t" * 128})
    assert packed == (
        bytes.fromhex("00010000007f0000"),
        b"t" * 128,
        struct.pack("<i", 300),
        struct.pack("<f", 1e-5),
        bytes.fromhex("1000000000000000"),
        b"\x01",
        struct.pack("<q", 300),
        struct.pack("<i", 6),
    )


@pytest.mark.parametrize(
    ("ctype", "number", "wanted"),
    [
        ("int8_t", -2, "fe"),
        ("uint16_t", 65535, "ffff"),
        ("uint64_t", 2**64 - 1, "ff" * 8),
        ("double", 1.0, "000000000000f03f"),
        ("__half", 1.5, "003e"),
        ("__nv_bfloat16", 1.0, "803f"),
        ("__nv_bfloat16", 1.00390625, "803f"),  # halfway between two: to the even one
        ("__nv_bfloat16", 1.01171875, "823f"),
    ],
)
def test_numbers(ctype: str, number: float, wanted: str) -> None:
    assert pack_number(number, ctype, "n").hex() == wanted


@pytest.mark.parametrize(("ctype", "number"), [("int32_t", 2**31), ("uint8_t", -1), ("int64_t", 2**63), ("string", 1)])
def test_numbers_that_do_not_fit_are_refused(ctype: str, number: int) -> None:
    with pytest.raises(DeviceFault) as caught:
        pack_number(number, ctype, "argument n")
    assert caught.value.failure.stage == "plan"
    assert not caught.value.fatal


@pytest.mark.parametrize(
    "binding",
    [
        Binding(kind="tensor", name="y", ctype="float"),
        Binding(kind="axis", name="N", ctype="int"),
        Binding(kind="tensor_map", name="m", ctype="CUtensorMap"),
    ],
)
def test_names_without_a_meaning_are_refused(binding: Binding) -> None:
    with pytest.raises(DeviceFault):
        pack_arguments(Step(symbol="k", arguments=(binding,)), ADDRESSES, {}, {})


def test_a_tensor_map_becomes_a_call_of_the_driver() -> None:
    made = TensorMap(
        name="m", of="x", dtype="bfloat16", shape=("K", "M"), strides_bytes=("2 * K",), box=(64, 128),
        swizzle_bytes=128, nan_fill=True,
    )  # fmt: skip
    call = tensor_map_call(made, ADDRESSES, {"K": 512, "M": 300})
    assert (call.dtype, call.address) == ("BFLOAT16", ADDRESSES["x"])
    assert (call.shape, call.strides_bytes, call.box) == ((512, 300), (1024,), (64, 128))
    assert (call.element_strides, call.swizzle, call.l2_promotion) == ((1, 1), "128B", "L2_128B")
    assert call.fill == "NAN_REQUEST_ZERO_FMA"


def test_a_tensor_map_of_nothing_is_refused() -> None:
    made = TensorMap(name="m", of="y", dtype="float32", shape=(4,), strides_bytes=(), box=(4,))
    with pytest.raises(DeviceFault):
        tensor_map_call(made, ADDRESSES, {})
