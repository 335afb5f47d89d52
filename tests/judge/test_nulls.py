"""Null candidates: sound problems fail them all, and weak ones say which would pass."""

from __future__ import annotations

import pytest
import torch
from tests.judge.kernel_files import make_problem
from tests.judge.problems import problem_of

from kernelwright.judge.draws import Draws
from kernelwright.judge.nulls import Nulls, rounded, weaknesses
from kernelwright.judge.policies import FAMILIES
from kernelwright.types import Problem

MEMORY = 64 << 20


def caught(problem: Problem) -> dict[str, str]:
    found = Nulls(Draws(problem, 7, MEMORY)).run(FAMILIES, 1)
    return {null.name: null.caught_by for null in found}


@pytest.mark.parametrize("name", ["softmax", "rowmax", "layernorm", "argmax", "lookup", "masked"])
def test_every_null_candidate_fails_on_a_sound_problem(name: str) -> None:
    found = caught(make_problem(name))
    assert all(found.values()), found
    assert {"zeros", "a constant", "the answer for other inputs", "its first row everywhere"} <= set(found)
    if name != "argmax":
        # Rounded operands move the place of the largest element in few rows; everywhere else the numbers show it.
        assert {"bfloat16 operands", "float16 operands", "TF32 operands"} <= set(found)


def test_a_scalar_is_no_constant_and_no_mean_of_itself() -> None:
    found = caught(make_problem("mse"))
    assert all(found.values()), found
    assert "the mean of its rows" not in found


def test_an_answer_that_never_changes_is_weak() -> None:
    problem = problem_of("return torch.softmax(x.sum(1, keepdim=True), 1)", "torch.randn(32, 8)")
    nulls = Nulls(Draws(problem, 7, MEMORY))
    weak = {null.name for null in nulls.run(FAMILIES, 1) if not null.caught_by}
    assert {"a constant", "its first row everywhere", "the mean of its rows", "the answer for other inputs"} <= weak
    assert "zeros" not in weak
    assert nulls.independent() == [("out", "x")]


def test_a_copy_of_an_input_passes_only_where_inputs_are_positive() -> None:
    problem = problem_of("return torch.relu(x)", "torch.rand(32, 64)")
    found = caught(problem)
    assert found["a copy of x"] not in ("", "given")
    assert found["zeros"] == "given"


def test_one_weak_output_is_found_beside_a_sound_one() -> None:
    problem = problem_of("return x * 2, torch.clamp(x, 5.0, 5.0)", "torch.randn(32, 64)")
    weak = [(n.output, n.name) for n in Nulls(Draws(problem, 7, MEMORY)).run(FAMILIES, 1) if not n.caught_by]
    assert {output for output, _ in weak} == {"out1"}
    assert ("out1", "a constant") in weak


def test_fewer_bits_pass_unseen_only_where_they_change_nothing() -> None:
    # Only the sign counts, which rounding keeps: a kernel of rounded operands is right.
    signs = caught(problem_of("return torch.sign(x)", "torch.randn(32, 64)"))
    # (float16 has no numbers as small as those of family `tiny`.)
    assert [name for name in signs if name.endswith("operands")] in ([], ["float16 operands"])
    assert all(signs.values())
    # A tolerance wide enough for bfloat16 would be a weak problem.
    lines = weaknesses(Draws(problem_of("return x.bfloat16().float()", "torch.randn(32, 64)"), 7, MEMORY), FAMILIES, 1)
    assert any("operands would pass for out" in line for line in lines)


def test_inputs_without_influence_and_without_change_are_named() -> None:
    made = "torch.randn(32, 64), torch.randn(32, 64), torch.arange(64)"
    problem = problem_of("return x * p", made, p="int64")
    nulls = Nulls(Draws(problem, 7, MEMORY))
    assert nulls.independent() == [("out", "y")]
    assert nulls.fixed() == ["p"]


def test_rounding_to_another_precision() -> None:
    x = torch.tensor([1.0 + 2.0**-10, 1.0 + 2.0**-12, 3.0e38, -1.0])
    assert rounded(x, "TF32").tolist() == [1.0 + 2.0**-10, 1.0, pytest.approx(3.0e38, rel=1e-3), -1.0]
    assert rounded(x, "bfloat16")[0] == 1.0
    assert rounded(x, "float16")[2] == float("inf")
    assert torch.equal(rounded(torch.arange(3), "TF32"), torch.arange(3))
