"""What kernels would do for a model, before anybody compiles it: regions, reasons, shares of time, expected gain.

Times are the model's own operators one by one (eager, on the given inputs, the least of a few runs: other work
on the machine only adds), and each kernel
alone in the same process; the expected gain is Amdahl's: one over what is left of the whole.
Before any search it names the regions that one would be made for, and what they could gain at most.
**Covers**: every graph that torch.compile makes of the model. **Does not cover**: what Inductor would win by itself,
the time between graphs, the backward pass.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from kernelwright.deploy.backend import leaves_of, patterns, traced_graph
from kernelwright.deploy.cutting import Cut, cuts_of
from kernelwright.deploy.regions import Region, digest_of, regions_of
from kernelwright.deploy.tidying import sizes_fixed
from kernelwright.types import value

RUNS = 9
LEAST_SHARE = 0.01
"""Of the time, from which `optimize_model` searches a region by default."""
SHOWN = 12
"""Operators without a kernel that are listed, those with the largest share first."""


@value
class Part:
    """One region, or all calls of one operator that no kernel takes."""

    name: str
    graph: int
    """The number of the graph it is in."""
    calls: int
    share: float
    """Of the whole model's time."""
    speedup: float | None
    """Of the kernel against the same operators, one by one; None where none is put."""
    reason: str
    """Why it is not replaced, empty where it is."""


@value
class Explanation:
    """What was found; printed, it is a table."""

    parts: tuple[Part, ...]
    graphs: tuple[str, ...]
    """The digest of each graph of the model."""
    total_us: float
    """The model's operators one by one."""
    gain: float
    """Expected of the whole model: 1.2 is 20 % faster."""
    searchable: tuple[Part, ...] = ()
    """What `optimize_model` would search kernels for, beside what is replaced; largest share first."""

    @property
    def ceiling(self) -> float:
        """Times as fast the whole would be with what is searchable for nothing: no search can gain more."""
        left = 1 / self.gain - sum(part.share for part in self.searchable)
        return self.gain if left <= 0 else 1 / left

    def __str__(self) -> str:
        lines = [f"{'share':>6}  {'kernel':>7}  part"]
        for part in self.parts:
            speedup = f"{part.speedup:.2f}x" if part.speedup else "-"
            times = f" ({part.calls} calls)" if part.calls > 1 else ""
            lines.append(
                f"{100 * part.share:5.1f}%  {speedup:>7}  {part.name}{times}{': ' + part.reason if part.reason else ''}"
            )
        replaced = sum(part.share for part in self.parts if not part.reason)
        lines.append(f"{len(self.graphs)} graphs, {self.total_us:.0f} us operator by operator")
        lines.append(f"replaced: {100 * replaced:.1f} % of the time; expected gain of the whole: {self.gain:.2f}x")
        if self.searchable:
            share = sum(part.share for part in self.searchable)
            lines.append(
                f"optimize_model would search {len(self.searchable)} regions with {100 * share:.1f} % of the time: "
                f"at most {self.ceiling:.2f}x in all, were they free"
            )
            lines += [f"{100 * p.share:5.1f}%  {'?':>7}  {p.name} ({p.calls} places)" for p in self.searchable[:SHOWN]]
        return "\n".join(lines)


def explain(model: Callable[..., Any], *inputs: Any, show: bool = True) -> Explanation:
    """Returns, and prints, what loaded kernels would replace in a model, why the rest stays, and the expected gain.

    Args:
        model: a module or function.
        inputs: what it is called with.
        show: False prints nothing.
    """
    graphs = graphs_of(model, *inputs)
    parts: list[Part] = []
    searchable: list[Part] = []
    digests = []
    costs: list[tuple[float, float]] = []
    for number, (module, given) in enumerate(graphs):
        made, total_us, digest, saved_us, cut = _graph_parts(model, module, given, number)
        parts += made
        searchable += cut
        digests.append(digest)
        costs.append((total_us, saved_us))
    total_us = sum(total for total, _ in costs) or 1.0
    shares, worth = ([_scaled(part, costs[part.graph][0] / total_us) for part in each] for each in (parts, searchable))
    gain = total_us / max(total_us - sum(saved for _, saved in costs), 1e-9)
    for each in (shares, worth):
        each.sort(key=lambda part: -part.share)
    worth = [part for part in worth if part.share >= LEAST_SHARE]
    found = Explanation(
        parts=tuple(shares), graphs=tuple(digests), total_us=total_us, gain=gain, searchable=tuple(worth)
    )
    if show:
        print(found)
    return found


def graphs_of(model: Callable[..., Any], *inputs: Any) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """Returns the graphs that torch.compile makes of a model, each with what it is called with."""
    graphs: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def keep(module: torch.fx.GraphModule, given: list[Any], **_: object) -> Callable[..., Any]:
        graphs.append((module, list(given)))
        return module.forward

    torch._dynamo.reset()
    torch.compile(model, backend=keep)(*inputs)
    torch._dynamo.reset()
    return graphs


def cuts(model: Callable[..., Any], *inputs: Any, runs: int = RUNS) -> tuple[Cut, ...]:
    """Returns the regions of a model that are worth a kernel of their own, the largest share of time first."""
    made: dict[str, Cut] = {}
    whole = 0.0
    with torch.no_grad():
        graphs = [(module, given) for module, given in graphs_of(model, *inputs) if sizes_fixed(given)]
    for module, given in graphs:
        traced = traced_graph(module, given)
        times, values = _times(traced, given, runs)
        total = sum(times.values())
        whole += total
        for cut in cuts_of(traced.graph, times, values, _state(model, traced, given)):
            before = made.get(cut.text)
            calls, share = (before.calls, before.share) if before else (0, 0.0)
            made[cut.text] = replace(cut, calls=calls + cut.calls, share=share + cut.share * total)
    scaled = (replace(cut, share=cut.share / (whole or 1.0)) for cut in made.values())
    return tuple(sorted(scaled, key=lambda cut: -cut.share))


def _state(model: Any, traced: torch.fx.GraphModule, given: Sequence[torch.Tensor]) -> dict[torch.fx.Node, Any]:
    """Returns which inputs of a graph are a model's parameters and buffers: role and last part of the name."""
    known: dict[int, tuple[str, str]] = {}
    if isinstance(model, torch.nn.Module):
        for role, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers())):
            known |= {tensor.data_ptr(): (role, name.rpartition(".")[2]) for name, tensor in named}
    places = (node for node in traced.graph.nodes if node.op == "placeholder")
    return {node: known[t.data_ptr()] for node, t in zip(places, given, strict=True) if t.data_ptr() in known}


def _scaled(part: Part, factor: float) -> Part:
    return Part(
        name=part.name, graph=part.graph, calls=part.calls, share=part.share * factor, speedup=part.speedup,
        reason=part.reason,
    )  # fmt: skip


def _graph_parts(
    model: Any, module: torch.fx.GraphModule, given: Sequence[Any], number: int
) -> tuple[list[Part], float, str, float, list[Part]]:
    """Returns the parts of one graph with their shares in it, time, digest, what is saved and searchable."""
    if not sizes_fixed(given):
        part = Part(name="graph", graph=number, calls=1, share=1.0, speedup=None, reason="its sizes vary")
        return [part], 0.0, "", 0.0, []
    traced = traced_graph(module, given)
    regions = regions_of(traced, patterns(), leaves=leaves_of(given))
    times, values = _times(traced, given)
    total = sum(times.values()) or 1e-9
    taken: set[torch.fx.Node] = set()
    parts, saved = [], 0.0
    for region in regions:
        spent = sum(times[node] for node in region.nodes)
        speedup = None
        if not region.reason:
            taken |= set(region.nodes)
            speedup = spent / max(_kernel_us(region, values), 1e-9)
            saved += spent * (1 - 1 / speedup)
        parts.append(
            Part(name=region.name, graph=number, calls=1, share=spent / total, speedup=speedup, reason=region.reason)
        )
    rest: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for node, spent in times.items():
        if node not in taken:
            rest[str(node.target)] += spent  # type: ignore[assignment]
            calls[str(node.target)] += 1
    missing = "no loaded kernel has this graph"
    parts += [
        Part(name=name, graph=number, calls=calls[name], share=spent / total, speedup=None, reason=missing)
        for name, spent in rest.most_common(SHOWN)
    ]
    left = {node: 0.0 if node in taken else spent for node, spent in times.items()}
    kinds = cuts_of(traced.graph, left, values, _state(model, traced, given))
    share = sum(left.values()) / total
    searchable = [
        Part(name=cut.name, graph=number, calls=cut.calls, share=cut.share * share, speedup=None, reason="")
        for cut in kinds
    ]
    return parts, total, digest_of(traced.graph), saved, searchable


class _Timed(torch.fx.Interpreter):
    """Runs a graph operator by operator and keeps how long each took, in microseconds."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.times: dict[torch.fx.Node, list[float]] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        begun = time.perf_counter()
        found = super().run_node(n)
        if any(isinstance(leaf, torch.Tensor) and leaf.is_cuda for leaf in torch.utils._pytree.tree_leaves(found)):
            torch.cuda.synchronize()
        self.times.setdefault(n, []).append(1e6 * (time.perf_counter() - begun))
        return found


def _times(
    module: torch.fx.GraphModule, given: Sequence[Any], runs: int = RUNS
) -> tuple[dict[torch.fx.Node, float], dict[Any, Any]]:
    timed = _Timed(module)
    with torch.no_grad():
        for _ in range(runs):
            timed.run(*[t.clone() for t in given])
    return {node: min(spent) for node, spent in timed.times.items()}, dict(timed.env)


def _kernel_us(region: Region, values: dict[Any, Any]) -> float:
    """Returns the least time of a region's operator on the values that flow into it."""
    operator, tensors = region.pattern.operator, [values[node].detach() for node in region.inputs]
    spent = []
    with torch.no_grad():
        for _ in range(RUNS + 2):
            begun = time.perf_counter()
            operator(*tensors)
            if tensors and tensors[0].is_cuda:
                torch.cuda.synchronize()
            spent.append(1e6 * (time.perf_counter() - begun))
    return min(spent[2:])
