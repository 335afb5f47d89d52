"""Size expressions of launch plans."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.sizes import evaluate


@given(st.integers(1, 10**6), st.integers(1, 4096))
def test_expressions_are_worth_what_python_says(m: int, tile: int) -> None:
    axes = {"M": m, "N": 7}
    assert evaluate(f"ceil_div(M, {tile}) * N + M % {tile} - M // {tile}", axes) == (
        (m + tile - 1) // tile * 7 + m % tile - m // tile
    )
    assert evaluate(f"max(min(M, {tile}), 3)", axes) == max(min(m, tile), 3)
    assert evaluate(m, axes) == m


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("K", "axis 'K'"),
        ("M // 0", "zero"),
        ("M % (M - M)", "zero"),
        ("M ** 2", "other than"),
        ("__import__('os')", "other than"),
        ("M.real", "other than"),
        ("1.5", "other than"),
        ("True", "other than"),
        ("min(M)", "other than"),
        ("M +", "no size expression"),
        ("((((" * 60, "no size"),
        ("M * 99999999999 * 99999999999", "2^62"),
    ],
)
def test_what_is_no_size_is_refused_by_name(text: str, word: str) -> None:
    with pytest.raises(ValueError) as caught:
        evaluate(text, {"M": 5})
    assert word in str(caught.value)


@pytest.mark.parametrize("item", [True, 1.0, None, "M" * 300])
def test_other_values_are_refused(item: object) -> None:
    with pytest.raises(ValueError, match="is no size"):
        evaluate(item, {"M": 5})  # type: ignore[arg-type]
