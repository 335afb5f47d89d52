"""Cutting: which operators make a region, and that its text computes the same and stands where it was cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelwright.deploy.backend import traced_graph
from kernelwright.deploy.cutting import cuts_of, groups_of
from kernelwright.deploy.explaining import cuts, graphs_of

X = torch.linspace(-2, 2, 2 * 6 * 16).view(2, 6, 16)


class Attention(torch.nn.Module):
    """A block with what real ones have: fused projections, turned views, residuals, a buffer, in-place changes."""

    mask: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)
        self.bn = torch.nn.BatchNorm1d(6)
        self.register_buffer("mask", torch.arange(6)[:, None] >= torch.arange(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).view(2, 6, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = q * 0.5 + q.sin(), k * 0.5 + k.sin()
        scores = (q @ k.transpose(-2, -1)).masked_fill(~self.mask, -1e4).softmax(-1)
        y = torch.relu_(self.bn(self.out((scores @ v).transpose(1, 2).reshape(2, 6, 16))))
        y += x
        return torch.nn.functional.silu(y)


def grouped(function: Callable[..., Any], *inputs: torch.Tensor) -> list[list[str]]:
    with torch.no_grad():
        ((module, given),) = graphs_of(function, *inputs)
        graph = traced_graph(module, given).graph
    return [[str(node.target).split(".")[1] for node in group] for group in groups_of(graph)]


def test_a_group_never_holds_a_path_that_leaves_and_returns() -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        return (y @ w).exp() + y  # y would have to be computed before, and used after, the product

    assert grouped(model, X, torch.eye(16)) == [["relu"], ["exp", "add"]]


def test_views_at_the_ends_stay_outside_unless_they_are_needed() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return (x.view(12, 16).t().exp() + 1).t()

    assert grouped(model, X) == [["t", "exp", "add"]]


def test_constants_and_random_numbers_are_not_cut() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x.exp() * torch.arange(16.0, device=x.device).cos(), 0.5, training=True)

    assert grouped(model, X) == [["exp", "mul"]]


def test_texts_compute_what_was_cut_and_are_equal_for_equal_places() -> None:
    model = Attention().eval()
    found = {cut.name.rpartition("_")[0]: cut for cut in cuts(model, X)}
    assert set(found) == {"layer_norm", "mul_sin_add", "bitwise_not_masked_fill_softmax", "batch_norm_relu_add_silu"}
    assert "torch.ops.aten.select.int" in found["mul_sin_add"].text  # takes the whole projection: its parts lie apart
    assert 0 < sum(cut.share for cut in found.values()) < 1
    text = found["batch_norm_relu_add_silu"].text
    assert "register_buffer" in text
    assert "_running_var" in text
    space: dict[str, Any] = {}
    exec(text, space)
    made, (y, x) = space["Model"](*space["get_init_inputs"]()).eval(), space["get_inputs"]()
    state = {name.partition("_")[2]: tensor for name, tensor in made.state_dict().items()}
    wanted = torch.nn.functional.batch_norm(
        y, state["running_mean"], state["running_var"], state["weight"], state["bias"]
    )
    assert torch.allclose(made(y, x), torch.nn.functional.silu(wanted.relu() + x), atol=1e-6)


def test_inputs_are_drawn_in_the_range_that_was_seen() -> None:
    def model(x: torch.Tensor, choice: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        return torch.where(choice, x.sqrt(), x) + number

    (cut,) = cuts(model, X.abs(), X > 1, torch.arange(16))
    space: dict[str, Any] = {}
    exec(cut.text, space)
    torch.manual_seed(0)
    drawn = dict(zip("cxn", space["get_inputs"](), strict=True))
    assert {str(t.dtype) for t in drawn.values()} == {"torch.bool", "torch.float32", "torch.int64"}
    assert space["Model"]()(*drawn.values()).isfinite().all()


def test_steps_of_a_recurrence_are_one_region_many_times() -> None:
    kept, steps = torch.nn.Linear(4, 16), 3

    def model(x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> torch.Tensor:
        for step in range(steps):
            i, f, g, o = (x[step] + kept(hidden)).chunk(4, dim=-1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
        return hidden

    with torch.no_grad():
        ((module, given),) = graphs_of(model, torch.randn(steps, 2, 16), torch.randn(2, 4), torch.randn(2, 4))
        graph = traced_graph(module, given).graph
    values = {node: torch.zeros(node.meta["val"].shape) for node in graph.nodes if "val" in node.meta}
    found = cuts_of(graph, {}, values, {})
    assert [cut.calls for cut in found] == [steps - 1, 1]  # the last step's cell has no further use
