"""From an e-graph to the cheapest program in it.

Each class gets one of its calls. A call that two others read is paid for once, so the cheapest choice is no sum over
a tree, and finding it is NP-hard; a choice by trees, and the program as it was written, are improved by single
changes until none helps.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelwright.graph import Arg, Constant, Graph, Node, Ref, ResultSpec
from kernelwright.rewrites.cost import Rates, node_ns
from kernelwright.rewrites.egraph import EArg, EGraph, ENode, Id

MOST_STEPS = 1_000_000
"""Calls that are walked over while changes are tried; each trial walks the program once."""
LEAVES = ("input", "constant")


@dataclass(frozen=True, eq=False, slots=True)
class Option:
    """One call that a class may be computed by."""

    node: ENode
    call: str
    """Equal for the results of one call, which is paid for once."""
    cost_ns: float
    operands: tuple[Id, ...]


Choice = dict[Id, Option]


class Extractor:
    """Chooses calls for the classes that some outputs need."""

    def __init__(self, graph: EGraph, outputs: tuple[Id, ...], rates: Rates) -> None:
        self.graph = graph
        self.outputs = tuple(graph.find(item) for item in outputs)
        self.options = {
            item: tuple(self._option(item, node, rates) for node in graph.nodes(item)) for item in graph.classes()
        }

    def _option(self, item: Id, node: ENode, rates: Rates) -> Option:
        operands = tuple(self.graph.find(operand) for operand in node.operands())
        return Option(node, f"{node.op}{node.arguments!r}", node_ns(self.graph, node, item, rates), operands)

    def best(self) -> tuple[Choice, float]:
        """Returns the cheapest choice that was found, and its cost in nanoseconds."""
        tree = self.by_trees()
        written = {**tree, **self.written()}
        starts = [choice for choice in (tree, written) if self.cost(choice) is not None]
        improved = [self._improved(dict(choice)) for choice in starts]
        return min(improved, key=lambda pair: pair[1])

    def written(self) -> Choice:
        """Returns the program as it was written."""
        return {
            item: option
            for item, options in self.options.items()
            for option in reversed(options)
            if not self.graph.origin_of(option.node).rule
        }

    def cost(self, choice: Choice) -> float | None:
        """Returns what a choice costs, None where it goes round in a circle."""
        order = self.order(choice)
        return None if order is None else sum({option.call: option.cost_ns for _, option in order}.values())

    def order(self, choice: Choice) -> list[tuple[Id, Option]] | None:
        """Returns the calls that the outputs need, operands first; None for a circle."""
        done: dict[Id, bool] = {}
        found: list[tuple[Id, Option]] = []
        stack: list[tuple[Id, bool]] = [(item, False) for item in reversed(self.outputs)]
        while stack:
            item, ready = stack.pop()
            if ready:
                done[item] = True
                found.append((item, choice[item]))
                continue
            if item in done:
                if not done[item]:
                    return None
                continue
            done[item] = False
            stack.append((item, True))
            for operand in choice[item].operands:
                if operand not in done:
                    stack.append((operand, False))
                elif not done[operand]:
                    return None
        return found

    def by_trees(self) -> Choice:
        """Returns the choice that is cheapest where nothing is shared."""
        best: dict[Id, float] = {}
        choice: Choice = {}
        changed = True
        while changed:
            changed = False
            for item, options in self.options.items():
                for option in options:
                    if all(o in best for o in option.operands):
                        cost = option.cost_ns + sum(best[o] for o in option.operands)
                        if cost < best.get(item, float("inf")) - 1e-9:
                            best[item], choice[item], changed = cost, option, True
        return choice

    def _improved(self, choice: Choice) -> tuple[Choice, float]:
        cost = self.cost(choice)
        assert cost is not None
        steps, changed = 0, True
        while changed:
            changed = False
            order = self.order(choice) or []
            walked = len(order)
            for item, chosen in reversed(order):
                for option in self.options[item] if choice[item] is chosen else ():
                    if option is choice[item] or steps >= MOST_STEPS or _cannot_help(option, choice[item]):
                        continue
                    steps += walked
                    before, choice[item] = choice[item], option
                    new = self.cost(choice)
                    if new is not None and new < cost * (1.0 - 1e-9):
                        cost, changed = new, True
                    else:
                        choice[item] = before
        return choice, cost


def _cannot_help(option: Option, chosen: Option) -> bool:
    """Returns whether a call costs no less than the chosen one and needs all that this needs: nothing falls away."""
    alone = option.node.index == chosen.node.index == 0  # a further result of a call that is paid already is free
    return alone and option.cost_ns >= chosen.cost_ns and set(chosen.operands) <= set(option.operands)


def program(
    extractor: Extractor, choice: Choice, constants: tuple[Constant, ...], taken: frozenset[str]
) -> tuple[Graph, dict[str, ENode]]:
    """Returns a choice as a graph, and the call behind each of its nodes."""
    graph = extractor.graph
    refs: dict[Id, Ref] = {}
    nodes: list[Node] = []
    made: dict[str, str] = {}
    calls: dict[str, ENode] = {}

    def plain(item: EArg) -> Arg:
        if isinstance(item, Id):
            return refs[graph.find(item)]
        return tuple(plain(part) for part in item) if isinstance(item, tuple) else item

    for item, option in extractor.order(choice) or []:
        node = option.node
        if node.op in LEAVES:
            refs[item] = Ref(name=str(node.argument("name")))
            continue
        key = option.call
        if key not in made:
            name = next(n for n in (f"r{len(made) + i}" for i in range(10_000)) if n not in taken and n not in calls)
            made[key], calls[name] = name, node
            arguments = tuple((k, plain(a)) for k, a in node.arguments)
            nodes.append(Node(name=name, op=node.op, arguments=arguments, results=results_of(graph, node, item)))
        refs[item] = Ref(name=made[key], index=node.index)
    used = {ref.name for ref in refs.values()}
    kept = tuple(c for c in constants if c.name in used)
    return Graph(nodes=tuple(nodes), outputs=tuple(refs[o] for o in extractor.outputs), constants=kept), calls


def results_of(graph: EGraph, node: ENode, item: Id) -> tuple[ResultSpec | None, ...]:
    """Returns the specs of all results of a call, as far as the e-graph knows them."""
    found: dict[int, ResultSpec] = {node.index: graph.spec(item)}
    for index in range(8):
        other = graph.known(ENode(node.op, node.arguments, index))
        if other is not None:
            found[index] = graph.spec(other)
    return tuple(found.get(index) for index in range(max(found) + 1))
