"""Hidden shapes: every axis meets the ends of its range and odd sizes, within the memory."""

from __future__ import annotations

import numpy as np
import pytest
from tests.judge.kernel_files import make_problem

from kernelwright.axes import problem_at
from kernelwright.judge.shapes import hidden_sizes, tensor_bytes
from kernelwright.types import replace

DYNAMIC = make_problem("dynamic")
LARGE = 1 << 40


@pytest.mark.parametrize("seed", range(5))
def test_every_axis_meets_every_kind_of_size(seed: int) -> None:
    found = hidden_sizes(DYNAMIC, 6, np.random.default_rng(seed), LARGE)
    for axis in DYNAMIC.axes:
        sizes = [shape[axis.name] for shape in found]
        assert {axis.low, axis.high} <= set(sizes)
        assert any(size % 64 == 1 and size > 1 for size in sizes)
        assert any(size % 64 == 63 for size in sizes)
        assert all(axis.low <= size <= axis.high for size in sizes)


@pytest.mark.parametrize("count", [1, 3])
def test_few_shapes_hold_the_most_telling_sizes(count: int) -> None:
    for seed in range(10):
        found = hidden_sizes(DYNAMIC, count, np.random.default_rng(seed), LARGE)
        for axis in DYNAMIC.axes:
            sizes = [shape[axis.name] for shape in found]
            assert any(size % 2 and size not in (1, axis.size) for size in sizes)
            assert count < 3 or {axis.low, axis.high} <= set(sizes)


def test_sizes_differ_from_session_to_session_and_never_is_the_declared_one_drawn() -> None:
    drawn = [hidden_sizes(DYNAMIC, 1, np.random.default_rng(seed), LARGE)[0] for seed in range(20)]
    assert len({tuple(shape.values()) for shape in drawn}) > 10
    assert all(shape["R"] != 32 and shape["C"] != 64 for shape in drawn)


def test_large_ranges_are_cut_down_to_the_memory() -> None:
    axes = (replace(DYNAMIC.axes[0], high=1 << 40), DYNAMIC.axes[1])
    problem = replace(DYNAMIC, axes=axes)
    for shape in hidden_sizes(problem, 6, np.random.default_rng(1), 1 << 20):
        assert tensor_bytes(problem_at(problem, shape)) <= 1 << 20


def test_a_range_of_even_sizes_next_to_each_other_still_gives_a_size() -> None:
    axes = (replace(DYNAMIC.axes[0], low=32, high=33), DYNAMIC.axes[1])
    found = hidden_sizes(replace(DYNAMIC, axes=axes), 6, np.random.default_rng(1), LARGE)
    assert {shape["R"] for shape in found} == {32, 33}
