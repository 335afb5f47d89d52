"""The JSON form: loses nothing, accepts nothing it does not know."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright import codec
from kernelwright.graph import Node, Ref, ResultSpec
from kernelwright.types import Failure, Measurement, Record, TensorSpec, digest, replace

NODE = Node(
    name="sum_1",
    op="aten.sum.dim_IntList",
    arguments=(("self", Ref(name="x")), ("dim", (1, -1)), ("keepdim", False), ("scale", 0.1), ("none", None)),
    results=(ResultSpec(shape=(4, 1), dtype="float32", strides=(1, 1)), None),
)


def test_round_trip_keeps_value_and_digest() -> None:
    back = codec.loads(codec.dumps(NODE))
    assert back == NODE
    assert digest(back) == digest(NODE)


def test_round_trip_keeps_notes() -> None:
    record = Record(
        problem="p",
        candidate="c",
        target="t",
        policy="o",
        outcome=Failure(stage="run", kind="x", message="m", detail="log"),
    )
    assert codec.loads(codec.dumps(record)).outcome.detail == "log"


@given(st.floats(allow_nan=False))
def test_floats_survive_exactly(number: float) -> None:
    item = Measurement(
        contender="c",
        workload="w",
        mode="cold",
        median_us=number,
        low_us=0.0,
        high_us=0.0,
        samples=1,
        calls=1,
        method="m",
    )
    assert codec.loads(codec.dumps(item)).median_us == number


def test_nan_survives() -> None:
    assert math.isnan(codec.loads(codec.dumps((float("nan"),)))[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"":"Unheard"}', "unknown type 'Unheard'"),
        ('{"":"Ref","name":"x","colour":1}', "unknown fields: colour"),
        ('{"":"Ref"}', "lacks fields: name"),
        ('{"no":"tag"}', "unknown type None"),
    ],
)
def test_unknown_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(codec.CodecError, match=message):
        codec.loads(text)


def test_defaults_fill_fields_that_old_text_lacks() -> None:
    old = '{"":"TensorSpec","name":"x","shape":[2],"dtype":"float32","role":"input"}'
    assert codec.loads(old) == TensorSpec(name="x", shape=(2,), dtype="float32", role="input")


def test_objects_without_a_form_are_refused() -> None:
    with pytest.raises(codec.CodecError, match="set has no JSON form"):
        codec.dumps({"a": {1}})


def test_members_of_every_value_have_types_that_can_be_looked_at() -> None:
    for cls in codec.REGISTRY.values():
        assert set(codec._kinds(cls)) >= {field.name for field in dataclasses.fields(cls)}


def test_what_is_not_of_its_members_type_is_named() -> None:
    spec = TensorSpec(name="x", shape=(2, 3), dtype="float32", role="input")
    assert codec.misfit(spec) == ""
    assert codec.misfit(replace(spec, shape=(2, "3"))) == "TensorSpec.shape is a tuple"
    assert codec.misfit(replace(spec, low=1)) == ""
    assert codec.misfit(replace(spec, low="1")) == "TensorSpec.low is a str"
    assert codec.misfit(replace(spec, role="owner")) == "TensorSpec.role is a str"
    nested = replace(NODE, results=(ResultSpec(shape=(4, 1), dtype=4, strides=(1, 1)),))  # type: ignore[arg-type]
    assert codec.misfit(nested) == "ResultSpec.dtype is a int"
