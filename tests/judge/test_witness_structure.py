"""What a result is held to, tensor by tensor, without a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kernelwright.judge.witness.handover import tree_of
from kernelwright.judge.witness.structure import (
    Extent,
    Output,
    Wrong,
    check_tensor,
    dense,
    leaves_of,
    meets,
    overlap,
    row_major,
    same_strides,
)

WANTED = Output("y", (4, 6), torch.float32, (6, 1), "cpu", False)


class Lazy(torch.Tensor):
    """A tensor of another type."""


def _with_method() -> torch.Tensor:
    tensor = torch.ones(4, 6)
    tensor.data_ptr = lambda: 0  # type: ignore[method-assign]
    return tensor


def _batched() -> Any:
    kept: list[Any] = []

    def keep(tensor: Any) -> Any:
        kept.append(tensor)
        return tensor

    torch.vmap(keep)(torch.ones(2, 4, 6))
    return kept[0]


FAULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "none": (lambda: None, "is None"),
    "number": (lambda: 1.0, "is a float"),
    "subclass": (lambda: torch.ones(4, 6).as_subclass(Lazy), "is a Lazy"),
    "method": (_with_method, "function of its own"),
    "sparse": (lambda: torch.ones(4, 6).to_sparse(), "layout"),
    "meta": (lambda: torch.ones(4, 6, device="meta"), "is on meta"),
    "dtype": (lambda: torch.ones(4, 6, dtype=torch.float64), "is torch.float64"),
    "shape": (lambda: torch.ones(6, 4), r"shape \[6, 4\]"),
    "expanded": (lambda: torch.ones(1, 6).expand(4, 6), r"strides \[0, 1\]"),
    "transposed": (lambda: torch.ones(6, 4).t(), r"strides \[1, 4\]"),
    "gradient": (lambda: torch.ones(4, 6, requires_grad=True), "requires a gradient"),
    "negation": (lambda: torch._neg_view(torch.ones(4, 6)), "sign"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_tensor_that_is_not_what_it_should_be_is_named(name: str) -> None:
    make, words = FAULTS[name]
    with pytest.raises(Wrong, match=words):
        check_tensor(make(), WANTED)


def test_a_wrapped_tensor_is_never_taken_for_a_real_one() -> None:
    for make in (_batched, lambda: torch._efficientzerotensor((4, 6))):
        # What has no memory says so itself: the holder takes either for an answer.
        with pytest.raises((Wrong, RuntimeError)):
            check_tensor(make(), WANTED)


def test_plain_tensors_and_parameters_pass_with_their_memory() -> None:
    tensor = torch.ones(4, 6)
    extent = check_tensor(tensor, WANTED)
    assert (extent.start, extent.end) == (tensor.data_ptr(), tensor.data_ptr() + 96)
    check_tensor(torch.nn.Parameter(tensor, requires_grad=False), WANTED)
    inside = torch.ones(10, 6)[3:7]
    assert check_tensor(inside, WANTED).start == inside.data_ptr()


def test_the_references_own_strides_pass_as_well() -> None:
    wanted = Output("y", (4, 6), torch.float32, (1, 4), "cpu", False)
    check_tensor(torch.ones(6, 4).t(), wanted)
    check_tensor(torch.ones(4, 6), wanted)
    empty = Output("y", (0, 6), torch.float32, (6, 1), "cpu", False)
    assert check_tensor(torch.ones(0, 6), empty).end == 0


def test_trees_are_compared_with_their_kinds_and_keys() -> None:
    a, b = torch.ones(1), torch.ones(2)
    tree = tree_of({"a": a, "b": [b, (a,)]})
    leaves = leaves_of({"a": a, "b": [b, (a,)]}, tree)
    assert [leaf is wanted for leaf, wanted in zip(leaves, (a, b, a), strict=True)] == [True] * 3
    for wrong in (
        a,
        {"a": a},
        {"b": [b, (a,)], "a": a},
        {"a": a, "b": (b, (a,))},
        {"a": a, "b": [b]},
        {"a": a, "b": [b, [a]]},
        {"a": a, "b": [b, (a, a)]},
        (),
    ):
        with pytest.raises(Wrong):
            leaves_of(wrong, tree)


def test_a_tuple_that_unpacks_itself_is_refused_and_torchs_own_is_not() -> None:
    class Later(tuple[Any, ...]):
        def __iter__(self) -> Any:
            raise AssertionError("it was asked")

    tree = tree_of((torch.ones(1), torch.ones(1)))
    with pytest.raises(Wrong, match="Later"):
        leaves_of(Later((1, 2)), tree)
    assert len(leaves_of(torch.ones(3).topk(2), tree)) == 2


def test_shared_memory_is_found_wherever_it_lies() -> None:
    far, near, inside = Extent(0, 100, "far"), Extent(200, 300, "near"), Extent(250, 260, "inside")
    assert overlap([near, far]) is None
    assert overlap([near, far, Extent(100, 200, "between")]) is None
    found = overlap([inside, far, near])
    assert found is not None
    assert {found[0].name, found[1].name} == {"near", "inside"}
    assert overlap([Extent(5, 5, "empty"), far]) is None
    assert meets(inside, [far, near]) == near
    assert meets(Extent(100, 200, "between"), [far, near]) is None


def test_strides_of_single_elements_say_nothing() -> None:
    assert row_major((2, 3, 4)) == (12, 4, 1)
    assert same_strides((1, 3), (99, 1), (3, 1))
    assert not same_strides((2, 3), (99, 1), (3, 1))


def test_strides_of_axes_in_another_order() -> None:
    for shape, order in (((2, 3, 4), (0, 2, 1)), ((5, 1, 7), (2, 0, 1)), ((3,), (0,)), ((), ())):
        tensor = torch.empty([shape[axis] for axis in order]).permute([order.index(axis) for axis in range(len(order))])
        assert dense(shape, order) == tensor.stride()
