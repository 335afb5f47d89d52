"""Regions of a model that are worth a kernel of their own, cut out as sources that `kernelwright.optimize` takes.

A cut is a connected group of operators that move more than they compute (element by element, reductions,
normalisations, rearrangements), as large as it can be without a path that leaves it and comes back. Its text is a
module over the same ATen operators, so that a kernel that is found for it stands in the model exactly where it was
cut (regions.py). Parameters and buffers of the model are the module's own, and the judge draws them as such.
**Covers**: traced models of fixed sizes; several results; views at either end, which are left to the model unless the
group needs them. **Does not cover**: products, convolutions, attention, lookups and recurrences, which libraries have;
what does not depend on the model's inputs, which is computed once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.deploy.tidying import is_view
from kernelwright.reference_program import NAMES

_WORDS = """batch_norm layer_norm group_norm instance_norm rms_norm softmax log_softmax mean sum amax amin var var_mean
cat stack to contiguous clone softplus logsumexp linalg_vector_norm cumsum silu gelu mish glu where"""
GATHERED = frozenset(_WORDS.split())
"""Operators of a cut besides those that torch itself tags as element by element."""
State = Mapping[torch.fx.Node, "tuple[str, str]"]
"""Which of a graph's inputs are parameters or buffers: role and name."""


@dataclass(frozen=True, eq=False)
class Cut:
    """One kind of region: all places of a model with the same text."""

    name: str
    """Of its operators, with the first digits of its text's digest."""
    text: str
    """A file with `Model`, `get_inputs` and `get_init_inputs`."""
    calls: int
    share: float
    """Of the model's time, operator by operator, of all places together."""


def cuts_of(
    graph: torch.fx.Graph, times: Mapping[torch.fx.Node, float], values: Mapping[torch.fx.Node, Any], state: State
) -> tuple[Cut, ...]:
    """Returns what can be cut out of a traced graph, the largest share of time first.

    Args:
        graph: in the form of tidying.py.
        times: of its calls, in any unit.
        values: what one run gave for each node.
        state: parameters and buffers among its inputs.
    """
    total = sum(times.values()) or 1.0
    found: dict[str, Cut] = {}
    for group in groups_of(graph):
        text = text_of(group, values, state)
        if text is None:
            continue
        share = sum(times.get(node, 0.0) for node in group) / total
        before = found.get(text)
        calls, share = (before.calls + 1, before.share + share) if before else (1, share)
        found[text] = Cut(_name(group, text), text, calls, share)
    return tuple(sorted(found.values(), key=lambda cut: -cut.share))


def groups_of(graph: torch.fx.Graph) -> tuple[tuple[torch.fx.Node, ...], ...]:
    """Returns the groups of operators to cut out, each in the graph's order."""
    nodes = list(graph.nodes)
    bit = {node: 1 << number for number, node in enumerate(nodes)}
    before = dict.fromkeys(nodes, 0)
    after = dict.fromkeys(nodes, 0)
    for node in nodes:
        for given in node.all_input_nodes:
            before[node] |= before[given] | bit[given]
    for node in reversed(nodes):
        for user in node.users:
            after[node] |= after[user] | bit[user]
    given = sum(bit[node] for node in nodes if node.op == "placeholder")
    group: dict[torch.fx.Node, int] = {}
    """The members of the group that a node is in, as bits."""

    def is_whole(members: int) -> bool:
        inside = [node for node in nodes if bit[node] & members]
        later = _any(after[node] for node in inside)
        return not later & _any(before[node] for node in inside) & ~members

    for node in nodes:
        if not before[node] & given or not _is_light(node):
            continue
        group[node] = bit[node]
        for producer in node.all_input_nodes:
            if producer in group and is_whole(group[producer] | group[node]):
                joined = group[producer] | group[node]
                group |= {member: joined for member in nodes if bit[member] & joined}
    found = []
    for members in dict.fromkeys(group.values()):
        found += _pieces(_trimmed([node for node in nodes if bit[node] & members]))
    return tuple(piece for piece in found if any(not is_view(node) for node in piece))


def _any(bits: Any) -> int:
    found = 0
    for each in bits:
        found |= each
    return found


def _is_light(node: torch.fx.Node) -> bool:
    target, made = node.target, node.meta.get("val")
    if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in target.tags or not isinstance(made, torch.Tensor) or not made.numel():
        return False
    given = [each.meta.get("val") for each in node.all_input_nodes]
    if any(not isinstance(t, torch.Tensor) or t.device != made.device or t.dtype not in NAMES for t in given):
        return False
    if made.dtype not in NAMES or any(not isinstance(size, int) for size in made.shape):
        return False
    return torch.Tag.pointwise in target.tags or is_view(node) or target._schema.name.partition("::")[2] in GATHERED


def _trimmed(group: list[torch.fx.Node]) -> list[torch.fx.Node]:
    """Returns a group without the views at its ends, but for those of whole memory that no kernel takes otherwise."""
    kept = list(group)
    while True:
        inside = set(kept)
        for node in kept:
            if not is_view(node):
                continue
            first, last = not inside & set(node.all_input_nodes), not inside & set(node.users)
            needed = not _is_plain(node) and all(_is_plain(each) for each in node.all_input_nodes)
            if last or (first and not needed):
                kept.remove(node)
                break
        else:
            return kept


def _is_plain(node: torch.fx.Node) -> bool:
    return bool(node.meta["val"].is_contiguous())


def _pieces(group: list[torch.fx.Node]) -> list[tuple[torch.fx.Node, ...]]:
    """Returns the connected parts of a group."""
    left, found = set(group), []
    while left:
        piece, front = set(), [next(node for node in group if node in left)]
        while front:
            node = front.pop()
            if node in left:
                left.discard(node)
                piece.add(node)
                front += [*node.all_input_nodes, *node.users]
        found.append(tuple(node for node in group if node in piece))
    return found


# ------------------------------------------------------------------------------ the text


def text_of(group: Sequence[torch.fx.Node], values: Mapping[torch.fx.Node, Any], state: State) -> str | None:
    """Returns a group as a file of the class contract, None where it cannot be one."""
    inside = set(group)
    outer = list(dict.fromkeys(each for node in group for each in node.all_input_nodes if each not in inside))
    results = [node for node in group if set(node.users) - inside]
    if not results or any(not isinstance(values.get(node), torch.Tensor) for node in outer):
        return None
    names: dict[torch.fx.Node, str] = {}
    made, given, inputs = [], [], []
    for number, node in enumerate(outer):
        role, name = state.get(node, ("", ""))
        if role == "buffer" and not name.endswith(("var", "mean")):
            role = ""
        if role:
            names[node] = f"self.s{number}_{name}"
            made.append(f"        {_state_line(f's{number}_{name}', role, values[node])}")
        else:
            names[node] = f"x{number}"
            given.append(f"x{number}")
            inputs.append(f"        {_draw(values[node])},")
    if not given:
        return None
    lines = []
    for number, node in enumerate(group):
        called = _call(node, names)
        if called is None:
            return None
        names[node] = f"y{number}"
        lines.append(f"        y{number} = {called}")
    # What the operator gives is contiguous, and a pattern leaves this out (regions.pattern_of).
    returned = ", ".join(names[node] if _is_plain(node) else f"{names[node]}.contiguous()" for node in results)
    return TEXT.format(
        arguments=", ".join(given), lines="\n".join(lines), returned=returned, inputs="\n".join(inputs),
        state="\n".join(["        super().__init__()", *made]),
    )  # fmt: skip


TEXT = '''import math

import torch


class Model(torch.nn.Module):
    """A region of a model."""

    def __init__(self):
{state}

    def forward(self, {arguments}):
{lines}
        return {returned}


def get_inputs():
    return [
{inputs}
    ]


def get_init_inputs():
    return []
'''


def _state_line(name: str, role: str, tensor: torch.Tensor) -> str:
    kind = "ones" if name.endswith(("weight", "var")) else "zeros"
    made = f"torch.{kind}({tuple(tensor.shape)}, dtype={tensor.dtype})"
    if role == "buffer":
        return f'self.register_buffer("{name}", {made})'
    return f"self.{name} = torch.nn.Parameter({made}, requires_grad={tensor.is_floating_point()})"


def _draw(tensor: torch.Tensor) -> str:
    """Returns what draws an input of the same kind: within the sign or the range that was seen."""
    shape, dtype = tuple(tensor.shape), tensor.dtype
    if dtype is torch.bool:
        return f"torch.rand({shape}) < {min(0.9, max(0.1, round(float(tensor.double().mean()), 1)))}"
    if not dtype.is_floating_point:
        return f"torch.randint({int(tensor.min())}, {int(tensor.max()) + 1}, {shape}, dtype={dtype})"
    kind = "rand" if float(tensor.min()) >= 0 and float(tensor.max()) > 0 else "randn"
    return f"torch.{kind}({shape}, dtype={dtype})"


def _call(node: torch.fx.Node, names: Mapping[torch.fx.Node, str]) -> str | None:
    try:
        arguments = [_argument(each, names) for each in node.args]
        arguments += [f"{key}={_argument(each, names)}" for key, each in node.kwargs.items()]
    except TypeError:
        return None
    return f"torch.ops.{node.target}({', '.join(arguments)})"


def _argument(item: Any, names: Mapping[torch.fx.Node, str]) -> str:
    if isinstance(item, torch.fx.Node):
        return names[item]
    if isinstance(item, tuple | list):
        return f"[{', '.join(_argument(each, names) for each in item)}]"
    if isinstance(item, float) and not math.isfinite(item):
        return f"float({str(item)!r})"
    if item is None or isinstance(item, bool | int | float | str | torch.dtype | torch.memory_format | torch.layout):
        return repr(item)
    raise TypeError(f"{type(item).__name__} cannot be written")


def _name(group: Sequence[torch.fx.Node], text: str) -> str:
    counted = [str(node.target).split(".")[1] for node in group if not is_view(node)]
    words = [word.strip("_") for word in dict.fromkeys(counted)]
    stem = "_".join(words if len(words) <= 4 else [*words[:2], *words[-2:]])
    return f"{stem}_{hashlib.sha256(text.encode()).hexdigest()[:6]}"
