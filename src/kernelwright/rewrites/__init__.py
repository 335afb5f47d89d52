"""Rewrites: from a graph to equal graphs that cost less, by equality saturation.

All equal programs that the rules lead to are kept at once (egraph.py), and the cheapest is taken out (extract.py):
no order of rules has to be chosen, and a rule that costs first and saves later is found as well. What comes out is a
graph over the same tensors; experts read it as they read any other, and what they make is judged like any candidate.
Not here: kernels (experts).
"""

from __future__ import annotations

from kernelwright.graph import Arg, Graph, Ref, ResultSpec
from kernelwright.rewrites import products, reductions, scalars  # noqa: F401  (they register their rules)
from kernelwright.rewrites.cost import rates_of
from kernelwright.rewrites.egraph import EArg, EGraph, ENode, Id, Origin
from kernelwright.rewrites.extract import Extractor, program
from kernelwright.rewrites.rule import RULES, Rule
from kernelwright.rewrites.terms import Terms, contiguous
from kernelwright.types import Problem, Target, value

__all__ = ["RULES", "Rewritten", "Rule", "load", "rewritten", "saturate"]

ROUNDS = 8
MOST_CALLS = 4000
"""Calls of an e-graph from which on no rule is applied any more."""
WORTH = 0.97
"""A rewritten program is offered where it costs at most this share of the one that it was made from."""
LINEAR = ("mm", "bmm", "addmm", "sum", "mean")


@value
class Rewritten:
    """An equal program."""

    graph: Graph
    rules: tuple[str, ...]
    """Names of the rules that led to it."""
    cost_ns: float
    """By the model of cost.py ..."""
    before_ns: float
    """... and what the program that it was made from costs."""
    finite: bool
    """True where it equals the other for finite values only."""
    witnesses: tuple[str, ...] = ()
    """For a finite one: tensors of the problem and nodes of the graph that are finite only where the programs agree."""
    independent: tuple[str, ...] = ()
    """Tensors that the other program reads and no output of this one depends on."""


def rewritten(problem: Problem, graph: Graph, target: Target) -> tuple[Rewritten, ...]:
    """Returns equal programs that cost less: one that always holds, one for finite values, where they are worth it."""
    found: list[Rewritten] = []
    for finite in (False, True):
        rules = tuple(r for r in RULES.values() if finite or not r.finite)
        made = _cheapest(problem, graph, target, rules, finite=finite)
        bar = min([r.cost_ns for r in found], default=made.before_ns)
        if made.cost_ns <= WORTH * bar:
            found.append(made)
    return tuple(found)


def _cheapest(problem: Problem, graph: Graph, target: Target, rules: tuple[Rule, ...], *, finite: bool) -> Rewritten:
    egraph, outputs = load(problem, graph)
    rates = rates_of(target)
    before = Extractor(egraph, outputs, rates)
    before_ns = before.cost(before.written()) or 0.0
    saturate(egraph, rules)
    extractor = Extractor(egraph, outputs, rates)
    choice, cost_ns = extractor.best()
    taken = frozenset(spec.name for spec in problem.arguments) | {c.name for c in graph.constants}
    made, calls = program(extractor, choice, graph.constants, taken)
    origins = {name: egraph.origin_of(node) for name, node in calls.items()}
    read = names_read(made)
    ignored = names_read(graph) - read
    gone = tuple(s.name for s in problem.inputs + problem.parameters if s.name in ignored)
    new = tuple(n for n, node in calls.items() if origins[n].rule and node.base in LINEAR)
    names = tuple(sorted({origin.rule for origin in origins.values() if origin.rule}))
    return Rewritten(
        graph=made,
        rules=names or ("equal calls shared",),
        cost_ns=cost_ns,
        before_ns=before_ns,
        finite=finite,
        witnesses=(*new, *gone) if finite else (),
        independent=gone,
    )


def names_read(graph: Graph) -> set[str]:
    """Returns the names of everything that a graph's nodes and outputs read."""
    found = {ref.name for ref in graph.outputs}
    pending: list[Arg] = [item for node in graph.nodes for _, item in node.arguments]
    while pending:
        item = pending.pop()
        if isinstance(item, Ref):
            found.add(item.name)
        elif isinstance(item, tuple):
            pending.extend(item)
    return found


def load(problem: Problem, graph: Graph) -> tuple[EGraph, tuple[Id, ...]]:
    """Returns an e-graph of a program as it was written, and the classes of its outputs."""
    egraph, known = EGraph(), dict[tuple[str, int], Id]()
    for spec in problem.inputs + problem.parameters:
        strides = spec.strides or contiguous(spec.shape)
        result = ResultSpec(shape=spec.shape, dtype=spec.dtype, strides=strides)
        known[spec.name, 0] = egraph.add(ENode("input", (("name", spec.name),)), result)
    for constant in graph.constants:
        result = ResultSpec(shape=constant.shape, dtype=constant.dtype, strides=contiguous(constant.shape))
        known[constant.name, 0] = egraph.add(ENode("constant", (("name", constant.name),)), result)

    def lifted(item: Arg) -> EArg:
        if isinstance(item, Ref):
            return known[item.name, item.index]
        return tuple(lifted(part) for part in item) if isinstance(item, tuple) else item

    for node in graph.nodes:
        arguments = tuple((key, lifted(item)) for key, item in node.arguments)
        for index, maybe in enumerate(node.results):
            if maybe is not None:
                known[node.name, index] = egraph.add(ENode(node.op, arguments, index), maybe)
    return egraph, tuple(known[ref.name, ref.index] for ref in graph.outputs)


def saturate(egraph: EGraph, rules: tuple[Rule, ...], *, rounds: int = ROUNDS) -> None:
    """Applies rules until nothing new is found, or until a limit is reached."""
    terms = Terms(egraph)
    by_base: dict[str, list[Rule]] = {}
    for each in rules:
        for base in each.bases:
            by_base.setdefault(base, []).append(each)
    for _ in range(rounds):
        size, unions = egraph.size(), egraph.unions
        work = [(item, node) for item in egraph.classes() for node in egraph.nodes(item)]
        for item, node in work:
            if egraph.size_now() > MOST_CALLS:
                break
            for each in by_base.get(node.base, ()):
                egraph.origin = Origin(rule=each.name, finite=each.finite)
                for equal in list(each.apply(terms, egraph.canonical(node), egraph.find(item))):
                    egraph.union(item, equal)
        egraph.rebuild()
        if (egraph.size(), egraph.unions) == (size, unions) or egraph.size() > MOST_CALLS:
            return
