"""Identity: derived from every field that is not a note, equal in every process."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from kernelwright import types
from kernelwright.types import (
    Check,
    Failure,
    Judgement,
    Parameter,
    Record,
    Space,
    Verdict,
    digest,
    identity,
    note,
    value,
)


@value
class Sample:
    """A value with one field of each sort."""

    name: str
    ratio: float
    parts: tuple[int, ...] = ()
    remark: str = note(default="")


def test_digest_sees_every_field_that_is_not_a_note() -> None:
    base = Sample(name="a", ratio=0.5, parts=(1, 2))
    assert digest(base) == digest(types.replace(base, remark="other"))
    for change in ({"name": "b"}, {"ratio": 0.25}, {"parts": (2, 1)}, {"parts": (12,)}):
        assert digest(types.replace(base, **change)) != digest(base)


def test_digest_tells_strings_apart_that_join_alike() -> None:
    assert digest(("ab", "c")) != digest(("a", "bc"))


def test_digest_tells_equal_fields_of_different_types_apart() -> None:
    first, second = Check(name="a", passed=True, evidence=""), types.Refusal(subject="a", reason="")
    assert digest(first) != digest(second)


def test_digest_is_the_same_in_another_process() -> None:
    code = "from kernelwright.types import *; print(digest(Check(name='é', passed=True, evidence='0.1')))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == digest(Check(name="é", passed=True, evidence="0.1"))


@pytest.mark.parametrize("bad", [[1], {"a": 1}, {1}, object(), b"bytes"])
def test_identity_refuses_what_can_change(bad: object) -> None:
    with pytest.raises(TypeError, match="cannot be part of an identity"):
        identity((bad,))


def test_values_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Sample(name="a", ratio=1.0).name = "b"  # type: ignore[misc]


def test_every_value_is_frozen_with_slots() -> None:
    for cls in vars(types).values():
        if isinstance(cls, type) and dataclasses.is_dataclass(cls):
            assert cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
            assert "__slots__" in vars(cls), cls


def test_notes_do_not_take_part_in_comparison() -> None:
    assert Sample(name="a", ratio=1.0, remark="x") == Sample(name="a", ratio=1.0, remark="y")


def test_an_empty_verdict_does_not_pass() -> None:
    good, bad = Check(name="a", passed=True, evidence=""), Check(name="b", passed=False, evidence="")
    assert not Verdict(checks=()).passed
    assert Verdict(checks=(good,)).passed
    assert not Verdict(checks=(good, bad)).passed


def test_a_failed_record_does_not_pass() -> None:
    failure = Failure(stage="build", kind="syntax", message="no")
    record = Record(problem="p", candidate="c", target="t", policy="o", outcome=failure)
    assert not record.passed
    good = Judgement(verdict=Verdict(checks=(Check(name="a", passed=True, evidence=""),)))
    assert types.replace(record, outcome=good).passed


def test_space_defaults_to_first_values() -> None:
    space = Space(parameters=(Parameter(name="a", values=(4, 8)), Parameter(name="b", values=(True, False, True))))
    assert space.default() == (("a", 4), ("b", True))
    assert space.size() == 6
