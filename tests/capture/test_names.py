from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.capture import names


def test_dots_keywords_functions_and_outputs() -> None:
    wanted = [
        "ln.weight",
        "double",
        "exp",
        "out",
        "out0",
        "outer",
        "x",
        "x",
        "ln_weight",
        "3d",
        "__a__",
        "größe",
        "_",
        "kw_x",
    ]
    assert names.identifiers(wanted, taken=["outer"]) == (
        "ln_weight",
        "double_",
        "exp_",
        "out_",
        "out0_",
        "outer_2",
        "x",
        "x_2",
        "ln_weight_2",
        "t_3d",
        "a",
        "gruf6udfe",
        "t",
        "t_kw_x",
    )


@given(st.lists(st.text(max_size=12)), st.lists(st.sampled_from(["x", "out_", "int_"])))
def test_identifiers_are_always_valid_and_unique(wanted: list[str], taken: list[str]) -> None:
    made = names.identifiers(wanted, taken=taken)
    assert len(made) == len(wanted)
    assert len(set(made)) == len(made)
    assert not set(made) & set(taken)
    for name in made:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
        assert "__" not in name
        assert name not in names.KEYWORDS | names.TAKEN
        assert not re.fullmatch(r"out\d*", name)


def test_reserved_words_that_repeat_get_no_double_underscore() -> None:
    assert names.identifiers(["if", "if", "if"]) == ("if_", "if_2", "if_3")
