"""One form for traced graphs, so that a model's and an original's can be compared whatever they were written like.

Operators that do nothing are left out; changes in place of what nobody else sees become plain operators; pieces of a
tensor (chunk, split, unbind) become slices of their own; every view that is not
contiguous has one user. All of it keeps every value.
**Does not cover**: changes of a graph's inputs and of memory that a view shares: those stay as they are, and no region
reaches across them.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

IDLE = ("aten.detach.default", "aten.alias.default", "aten.lift_fresh.default")
SAME_OR_COPY = ("aten.to.", "aten.contiguous.", "aten.type_as.", "aten.reshape.", "aten.expand.", "aten.view.")
"""They give their first argument back where it already is as they would make it."""
PIECES = ("aten.chunk.default", "aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default",
          "aten.unbind.int", "aten.tensor_split.sections")  # fmt: skip


def tidy(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Brings a traced module's graph into the one form, in place, and returns the module."""
    graph = module.graph
    for node in tuple(graph.nodes):
        if _is_idle(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    for node in tuple(graph.nodes):
        if str(node.target) in PIECES:
            _slice_pieces(graph, node)
    if any(_plain(node.target) for node in graph.nodes):
        _leave_places(graph)
    for node in reversed(tuple(graph.nodes)):
        # Whole ones may be shared: they stay outside of regions, since what they give is as good as what they take.
        if is_view(node) and isinstance(node.meta["val"], torch.Tensor) and not node.meta["val"].is_contiguous():
            for user in list(node.users)[1:]:
                with graph.inserting_after(node):
                    copy = graph.node_copy(node)
                user.replace_input_with(node, copy)
    module.recompile()
    return module


def storages_of(node: Any) -> tuple[int, ...]:
    """Returns which memory a node's tensors lie in."""
    found = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    several = found if isinstance(found, tuple | list) else (found,)
    return tuple(t.untyped_storage()._cdata for t in several if isinstance(t, torch.Tensor))


def is_view(node: torch.fx.Node) -> bool:
    """Tells whether a call gives nothing but another look at memory that it was given."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return True
    returned = node.target._schema.returns if isinstance(node.target, torch._ops.OpOverload) else ()
    if not returned or any(one.alias_info is None or one.alias_info.is_write for one in returned):
        return False
    return set(storages_of(node)) <= {s for given in node.all_input_nodes for s in storages_of(given)}


def _is_idle(node: torch.fx.Node) -> bool:
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], torch.fx.Node):
        return False
    name = str(node.target)
    if name == "aten.dropout.default":
        return not node.args[2]
    if name in IDLE:
        return True
    own, given = node.meta.get("val"), node.args[0].meta.get("val")
    if not name.startswith(SAME_OR_COPY) or not isinstance(own, torch.Tensor) or not isinstance(given, torch.Tensor):
        return False
    alike = (own.shape, own.stride(), own.dtype, own.device) == (given.shape, given.stride(), given.dtype, given.device)
    return alike and storages_of(node) == storages_of(node.args[0])


def _slice_pieces(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Makes each taken piece a slice (or, of unbind, a selection) of its own."""
    users, source = list(node.users), node.args[0]
    if any(user.target is not operator.getitem for user in users) or not isinstance(source, torch.fx.Node):
        return
    whole, pieces = source.meta["val"], node.meta["val"]
    given = node.args[1] if str(node.target) == "aten.unbind.int" and len(node.args) > 1 else None
    dim = given if given is not None else node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
    if not isinstance(dim, int) or any(not isinstance(size, int) for size in whole.shape):
        return
    dim %= whole.dim()
    for user in users:
        number = user.args[1]
        assert isinstance(number, int)
        with graph.inserting_before(user):
            if str(node.target) == "aten.unbind.int":
                made = graph.call_function(torch.ops.aten.select.int, (source, dim, number))
            else:
                begin = sum(piece.shape[dim] for piece in pieces[:number])
                end = begin + pieces[number].shape[dim]
                made = graph.call_function(torch.ops.aten.slice.Tensor, (source, dim, begin, end))
        made.meta = dict(user.meta) | {"val": pieces[number]}
        user.replace_all_uses_with(made)
        graph.erase_node(user)
    graph.erase_node(node)


def _leave_places(graph: torch.fx.Graph) -> None:
    """Makes a change in place plain where every look at the memory that is used afterwards is at the whole of it."""
    for node in tuple(graph.nodes):
        plain = _plain(node.target)
        if plain is None or not node.args or not isinstance(node.args[0], torch.fx.Node):
            continue
        order = {each: number for number, each in enumerate(graph.nodes)}
        looks = _looks_before(node, node.args[0], order)
        if looks is None:
            continue
        with graph.inserting_before(node):
            made = graph.call_function(plain, node.args, node.kwargs)
        made.meta = dict(node.meta)
        for look in looks:
            for user in tuple(look.users):
                if user is not made and order[user] > order[node]:
                    user.replace_input_with(look, made)
        node.replace_all_uses_with(made)
        graph.erase_node(node)


def _plain(target: Any) -> Any:
    """Returns the operator that computes what one in place does, None where there is none of the same arguments."""
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.name.endswith("_"):
        return None
    packet = getattr(torch.ops.aten, target._schema.name.removeprefix("aten::").removesuffix("_"), None)
    found = getattr(packet, target._overloadname, None) if target.namespace == "aten" else None
    if found is None or found._schema.is_mutable:
        return None
    given, wanted = ([(a.name, str(a.type)) for a in op._schema.arguments] for op in (target, found))
    return found if given == wanted else None


def _looks_before(
    node: torch.fx.Node, base: torch.fx.Node, order: dict[torch.fx.Node, int]
) -> list[torch.fx.Node] | None:
    """Returns the looks at what a node changes that are older than it; None where one of them forbids to leave it out.

    That is: it is the graph's input, or another shape of the memory that is used after the change.
    """
    own, given, found = storages_of(base), base.meta.get("val"), node.meta.get("val")
    if not isinstance(found, torch.Tensor) or not isinstance(given, torch.Tensor) or given.dtype != found.dtype:
        return None
    looks = [each for each in order if order[each] < order[node] and set(own) & set(storages_of(each))]
    for look in looks:
        value = look.meta.get("val")
        whole = isinstance(value, torch.Tensor) and (value.shape, value.stride()) == (given.shape, given.stride())
        used = any(order[user] > order[node] for user in look.users)
        if look.op != "call_function" or (used and not whole):
            return None
    return looks


def sizes_fixed(values: Sequence[Any]) -> bool:
    """Tells whether all of a graph's inputs are tensors whose sizes are numbers."""
    return all(isinstance(t, torch.Tensor) and all(isinstance(n, int) for n in (*t.shape, *t.stride())) for t in values)
