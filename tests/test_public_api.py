"""The public names: short, sorted, all there, and all documented."""

from __future__ import annotations

import kernelwright


def test_names_are_few_sorted_and_there() -> None:
    names = kernelwright.__all__
    assert list(names) == sorted(names)
    assert len(names) <= 30
    for name in names:
        assert getattr(kernelwright, name).__doc__, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(kernelwright, "optimise")
