"""Regions of a model that have a verified kernel: found by comparing graphs, replaced by operators.

A kernel's original and the model are traced by the same tracer to the same operators (ATen before autograd, so that
what is left still differentiates), and compared node by node; then the envelope is held against what flows into the
region. **Covers**: any spelling that traces to the same operators; positional, named and default arguments; regions
with several outputs; dropout that is switched off.
**Does not cover**: other algebra for the same values, sizes that vary from call to call, regions across which
something is changed in place, programs that autocast.
"""

from __future__ import annotations

import hashlib
import operator as operators
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

from kernelwright.deploy.envelope import Envelope
from kernelwright.deploy.operator import Operator
from kernelwright.deploy.tidying import tidy
from kernelwright.reference_program import DTYPES
from kernelwright.types import TensorSpec


@dataclass(frozen=True, eq=False)
class Pattern:
    """An operator's original as a graph."""

    operator: Operator
    graph: torch.fx.Graph
    digest: str
    """Equal for equal graphs, whatever their nodes are called."""


@dataclass(eq=False)
class Region:
    """One place in a traced model where an operator can stand."""

    pattern: Pattern
    match: InternalMatch
    inputs: tuple[torch.fx.Node, ...]
    """In the order of the operator's tensors."""
    nodes: tuple[torch.fx.Node, ...]
    """What it replaces, in the graph's order."""
    reason: str = ""
    """Why the operator cannot stand here, empty where it can."""

    @property
    def name(self) -> str:
        """The problem's name."""
        return self.pattern.operator.problem.name


def trace(function: Callable[..., Any], arguments: Sequence[Any]) -> torch.fx.GraphModule:
    """Returns a function as ATen operators before autograd, in the one form of tidying.py.

    Raises:
        Exception: whatever tracing raises for what it cannot follow.
    """
    return tidy(make_fx(function, pre_dispatch=True)(*arguments))


def pattern_of(operator: Operator) -> Pattern | None:
    """Returns an operator's pattern, None where none can be compared safely.

    That is: an original that cannot be traced, does nothing, gives a part of its inputs back, or holds tensors of its
    own (a matcher compares what they are called, not what is in them).
    """
    problem = operator.problem
    device = operator.kernels[0].target.kind if operator.kernels else "cpu"
    try:
        with FakeTensorMode():
            fakes = [
                torch.empty(spec.shape, dtype=DTYPES[spec.dtype], device=device)
                for spec in problem.inputs + problem.parameters
            ]
            outputs = operator.original.forward(*fakes)
            graph = trace(operator.original.forward, fakes).graph
    except Exception:  # noqa: BLE001  (tracing raises whatever its many stages raise)
        return None
    given = {t.untyped_storage()._cdata for t in fakes}
    if any(t.untyped_storage()._cdata in given for t in outputs):
        return None
    _leave_out_contiguous(graph)
    kinds = {node.op for node in graph.nodes}
    if "call_function" not in kinds or "get_attr" in kinds:
        return None
    return Pattern(operator, graph, digest_of(graph))


def _leave_out_contiguous(graph: torch.fx.Graph) -> None:
    """What an operator gives is contiguous anyway: models that leave it to the next operator have no such call."""
    (out,) = (node for node in graph.nodes if node.op == "output")
    for node in tuple(out.all_input_nodes):
        if str(node.target) == "aten.contiguous.default" and len(node.users) == 1:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def digest_of(graph: torch.fx.Graph) -> str:
    """Returns a digest of operators, arguments and edges."""
    numbers: dict[torch.fx.Node, str] = {}
    lines = []
    for number, node in enumerate(graph.nodes):
        numbers[node] = f"%{number}"
        named = torch.fx.map_arg((node.args, node.kwargs), lambda n: numbers[n])
        lines.append(f"{node.op} {node.target if node.op == 'call_function' else ''} {named}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def regions_of(
    module: torch.fx.GraphModule, patterns: Sequence[Pattern], *, leaves: Sequence[bool] = ()
) -> tuple[Region, ...]:
    """Returns the places of a traced model where an original stands, largest patterns first; none overlap.

    A place outside the envelope is among them, with its reason.

    Args:
        module: the traced model.
        patterns: of the operators to look for.
        leaves: which of the model's inputs need a gradient; none by default.
    """
    differentiated = _differentiated(module.graph, leaves)
    order = {node: number for number, node in enumerate(module.graph.nodes)}
    taken: set[torch.fx.Node] = set()
    found = []
    for pattern in sorted(patterns, key=lambda p: -len(p.graph.nodes)):
        matcher = SubgraphMatcher(pattern.graph, match_output=False, match_placeholder=False)
        for match in matcher.match(module.graph):
            region = _region(pattern, match, order)
            if region is None or taken & set(region.nodes):
                continue
            region.reason = _misplaced(region, order) or _outside(region)
            if not region.reason and not pattern.operator.has_backward and differentiated & set(region.inputs):
                region.reason = "a gradient is needed, and the bundle has no kernel for it"
            if not region.reason and not _all_contiguous(region) and not _lies_alike(module, region):
                region.reason = "its result is not contiguous, and the model needs it as it is"
            if not region.reason:
                taken |= set(region.nodes)
            found.append(region)
    return tuple(sorted(found, key=lambda region: order[region.nodes[0]]))


def _differentiated(graph: torch.fx.Graph, leaves: Sequence[bool]) -> set[torch.fx.Node]:
    """Returns the nodes that depend on an input whose gradient is needed."""
    places = [node for node in graph.nodes if node.op == "placeholder"]
    found = {place for place, leaf in zip(places, leaves, strict=False) if leaf}
    for node in graph.nodes:
        if found & set(node.all_input_nodes):
            found.add(node)
    return found


def _region(pattern: Pattern, match: InternalMatch, order: dict[torch.fx.Node, int]) -> Region | None:
    places = [node for node in pattern.graph.nodes if node.op == "placeholder"]
    if any(place not in match.nodes_map for place in places):
        return None
    inner = [match.nodes_map[node] for node in pattern.graph.nodes if node.op == "call_function"]
    inputs = tuple(match.nodes_map[place] for place in places)
    return Region(pattern, match, inputs, tuple(sorted(inner, key=order.__getitem__)))


def _misplaced(region: Region, order: dict[torch.fx.Node, int]) -> str:
    first, last = order[region.nodes[0]], order[region.nodes[-1]]
    inside = set(region.nodes)
    for output in region.match.returning_nodes:
        if any(order[user] < last for user in output.users if user not in inside):
            return "a result is used before the region has ended"
    for node, number in order.items():
        if first < number < last and node not in inside and _changes(node):
            return f"{node.target} changes something in place in between"
    return ""


def _changes(node: torch.fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _outside(region: Region) -> str:
    operator = region.pattern.operator
    envelopes = [kernel.envelope for kernel in operator.kernels]
    if operator.watch.reason:
        return operator.watch.reason
    reasons = [_outside_of(envelope, region) for envelope in envelopes]
    return "" if "" in reasons else "; ".join(dict.fromkeys(reasons)) or "the bundle has no forward kernel"


def _outside_of(envelope: Envelope, region: Region) -> str:
    sizes: dict[str, int] = {}
    axes = {(name, dim): axis for axis in envelope.axes for name, dim in axis.places}
    for node, spec in zip(region.inputs, envelope.tensors, strict=True):
        given = node.meta.get("val")
        if not isinstance(given, torch.Tensor):
            return f"{spec.name} is no tensor"
        if given.dtype is not DTYPES[spec.dtype]:
            return f"{spec.name} is {str(given.dtype).removeprefix('torch.')}, verified for {spec.dtype}"
        if given.device.type != envelope.kind:
            return f"{spec.name} is on {given.device.type}, verified on {envelope.kind}"
        if spec.strides is None and not given.is_contiguous():
            return f"{spec.name} is not contiguous"
        if fault := _shape_fault(spec, tuple(given.shape), axes, sizes):
            return fault
    return ""


def _all_contiguous(region: Region) -> bool:
    return all(output.meta["val"].is_contiguous() for output in region.match.returning_nodes)


def _lies_alike(module: torch.fx.GraphModule, region: Region) -> bool:
    """Whether the model's outputs can be had, and lie as before, with a contiguous result in the region's place."""
    try:
        return _layouts(module) == _layouts(replaced(module, [region]))
    except Exception:  # noqa: BLE001  (a view of what lies differently raises anything)
        return False


def _layouts(module: torch.fx.GraphModule) -> list[tuple[Any, ...]]:
    given = [node.meta["val"] for node in module.graph.nodes if node.op == "placeholder"]
    with torch._guards.tracing(None), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        fakes = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in given]
        outputs = torch.utils._pytree.tree_leaves(module(*fakes))
        return [(tuple(t.shape), t.stride()) for t in outputs if isinstance(t, torch.Tensor)]


def _shape_fault(
    spec: TensorSpec, given: tuple[Any, ...], axes: dict[tuple[str, int], Any], sizes: dict[str, int]
) -> str:
    text = f"{spec.name} is {list(given)}, verified for {list(spec.shape)}"
    if len(given) != len(spec.shape) or not all(isinstance(size, int) for size in given):
        return text
    for dim, size in enumerate(given):
        axis = axes.get((spec.name, dim))
        if axis is None and size != spec.shape[dim]:
            return text
        if axis is not None and sizes.setdefault(axis.name, size) != size:
            return text
        if axis is not None and not axis.low <= size <= axis.high:
            return f"{text} with {axis.name} from {axis.low} to {axis.high}"
    return ""


def replaced(module: torch.fx.GraphModule, regions: Sequence[Region]) -> torch.fx.GraphModule:
    """Returns a copy of a traced model in which operators stand in place of regions."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.output(graph.graph_copy(module.graph, copies))
    for region in regions:
        with graph.inserting_after(copies[region.nodes[-1]]):
            called = graph.call_function(region.pattern.operator.overload, tuple(copies[n] for n in region.inputs))
        results = [copies[node] for node in region.match.returning_nodes]
        values, after = [called], called
        if len(results) > 1:
            values = []
            for number in range(len(results)):
                with graph.inserting_after(after):
                    after = graph.call_function(operators.getitem, (called, number))
                values.append(after)
        for old, new in zip(results, values, strict=True):
            old.replace_all_uses_with(new)
        for node in reversed(region.nodes):
            graph.erase_node(copies[node])
        # What a later region takes may be what this one gives.
        copies |= dict(zip(region.match.returning_nodes, values, strict=True))
    made = torch.fx.GraphModule(module, graph)
    made.recompile()
    return made
