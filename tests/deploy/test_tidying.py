"""One form for traced graphs: the same values, whatever was written in place or in pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.deploy.regions import trace
from kernelwright.deploy.tidying import sizes_fixed


def traced(function: Callable[..., Any], *shapes: tuple[int, ...]) -> torch.fx.GraphModule:
    with FakeTensorMode():
        return trace(function, [torch.empty(shape) for shape in shapes])


def names(module: torch.fx.GraphModule) -> list[str]:
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]


def chained(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = torch.relu_(x * w)
    y += x
    return y.float(), y


def looked_at_before(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * w
    z = y + 1  # sees the values before the change
    y.mul_(2)
    return y - z, y.t()


def through_a_view(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * w
    row = y[0]
    y.add_(1)
    return row * 2, y  # the row sees the change


def of_a_view(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = x * w
    y[0].zero_()
    return y.relu()


def of_an_input(x: torch.Tensor, w: torch.Tensor) -> Any:
    x.add_(w)
    return x.relu()


def other_dtype(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = (x > w).clone()
    return y.logical_not_(), x.half().float().add_(1)


def pieces(x: torch.Tensor, w: torch.Tensor) -> Any:
    a, b = x.chunk(2, -1)
    c, d, e = x.split([1, 2, 5], dim=-1)  # type: ignore[no-untyped-call]
    first, *_ = x.unbind(0)
    f, g = x.split(3, dim=0)[:2]  # type: ignore[no-untyped-call]
    return a * b, c + d.sum() + e.mean(), first * w, f.sum() + g.sum()


@pytest.mark.parametrize(
    ("function", "in_place"),
    [(chained, 0), (looked_at_before, 0), (through_a_view, 1), (of_a_view, 1), (of_an_input, 1), (other_dtype, 0)],
    ids=lambda item: getattr(item, "__name__", str(item)),
)
def test_changes_in_place_become_plain_where_nobody_else_looks(function: Any, in_place: int) -> None:
    module = traced(function, (4, 8), (8,))
    assert sum(name.partition(".default")[0].partition(".Tensor")[0].partition(".Scalar")[0].endswith("_")
               for name in names(module)) == in_place  # fmt: skip
    x, w = torch.randn(4, 8), torch.randn(8)
    for found, wanted in zip(as_tuple(module(x.clone(), w)), as_tuple(function(x.clone(), w)), strict=True):
        assert torch.equal(found, wanted)


def as_tuple(made: Any) -> tuple[torch.Tensor, ...]:
    return made if isinstance(made, tuple) else (made,)


def test_pieces_become_slices_of_their_own() -> None:
    module = traced(pieces, (4, 8), (8,))
    assert not {"aten.chunk.default", "aten.split.sizes", "aten.split_with_sizes.default", "aten.unbind.int"} & set(
        names(module)
    )
    x, w = torch.randn(4, 8), torch.randn(8)
    assert all(torch.equal(a, b) for a, b in zip(module(x, w), pieces(x, w), strict=True))


def test_what_does_nothing_is_left_out() -> None:
    def idle(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x.float().contiguous().reshape(4, 8).detach(), 0.5, training=False).relu()

    assert names(traced(idle, (4, 8))) == ["aten.relu.default"]
    assert "aten.dropout.default" in names(traced(lambda x: torch.nn.functional.dropout(x, 0.5) + 1, (4, 8)))


def test_a_view_that_is_not_contiguous_has_one_user() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        turned = x.view(8, 4).t()
        return turned.relu() + turned.exp()

    module = traced(twice, (4, 8))
    assert names(module).count("aten.t.default") == 2
    assert names(module).count("aten.view.default") == 1
    x = torch.randn(4, 8)
    assert torch.equal(module(x), twice(x))


def test_sizes_that_vary_are_seen() -> None:
    assert sizes_fixed([torch.zeros(3), torch.zeros(2, 2)])
    assert not sizes_fixed([torch.zeros(3), 5])
