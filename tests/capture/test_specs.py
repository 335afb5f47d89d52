from __future__ import annotations

import pytest

from kernelwright.capture import specs
from kernelwright.errors import UserError
from kernelwright.types import TensorSpec

GOOD = {
    "float32[4096,1024]": ((4096, 1024), "float32", None, None),
    " bfloat16[ 8 , 1 ] ": ((8, 1), "bfloat16", None, None),
    "torch.float16[3]": ((3,), "float16", None, None),
    "float32[]": ((), "float32", None, None),
    "int64[512]=0..31999": ((512,), "int64", 0, 31999),
    "int32[2]=-5..-5": ((2,), "int32", -5, -5),
    "float32[8,16]=0..1": ((8, 16), "float32", 0.0, 1.0),
    "float64[2] = -1.5 .. 2e3": ((2,), "float64", -1.5, 2000.0),
    "uint8[2]=0..255": ((2,), "uint8", 0, 255),
    "bool[7]": ((7,), "bool", None, None),
}


@pytest.mark.parametrize("text", GOOD)
def test_the_grammar(text: str) -> None:
    shape, dtype, low, high = GOOD[text]
    assert specs.parse(text, "x") == TensorSpec(name="x", shape=shape, dtype=dtype, role="input", low=low, high=high)


def test_integer_ranges_stay_whole_numbers() -> None:
    spec = specs.parse("int64[1]=0..9007199254740993", "x")
    assert spec.high == 9007199254740993


BAD = {
    "float32": ("not a dtype with a shape", 'write it like "float32[4096,1024]"'),
    "4096,1024": ("not a dtype with a shape", "float32[4096,1024]"),
    "float32(4,4)": ("not a dtype with a shape", "float32[4096,1024]"),
    "float32[4]x": ("not a dtype with a shape", "float32[4096,1024]"),
    "float33[4]": ("unknown dtype 'float33'", "float32"),
    "fp16[4]": ("unknown dtype 'fp16'", "did you mean float16?"),
    "int[4]": ("unknown dtype 'int'", "did you mean int64?"),
    "qqq[4]": ("unknown dtype 'qqq'", "use one of float32"),
    "float32[4,N]": ("whole numbers", "float32[4096,1024]"),
    "float32[4,]": ("whole numbers", "float32[4096,1024]"),
    "float32[-4]": ("whole numbers", "float32[4096,1024]"),
    "float32[4,0]": ("has no elements", "at least 1"),
    "bool[4]=0..1": ("a bool tensor takes no range", "leave out"),
    "int64[4]=0..1.5": ("a range is two whole numbers", "=0..31999"),
    "int64[4]=7": ("a range is two whole numbers", "=0..31999"),
    "float32[4]=a..b": ("a range is two numbers", "=0..1"),
    "float32[4]=0..inf": ("must be finite", "=0..1"),
    "float32[4]=0..nan": ("the range is empty", "smaller number first"),
    "float32[4]=2..1": ("the range is empty", "smaller number first"),
    "uint8[4]=0..256": ("uint8 holds 0..255", "narrow the range"),
    "int8[4]=-200..0": ("int8 holds -128..127", "narrow the range"),
}


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_refused_with_the_way_to_write_it(text: str) -> None:
    message, fix = BAD[text]
    with pytest.raises(UserError) as caught:
        specs.parse(text, "x")
    assert message in caught.value.message
    assert text in caught.value.message
    assert fix in caught.value.fix
