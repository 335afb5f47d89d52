"""LSTM and GRU over sequences, opened: products for all steps at once, and what has to follow step by step.

A layer is a product of all inputs with the input weights, which any maker of products can do, and an operator of our
own, `kernelwright.lstm.default` or `kernelwright.gru.default`, which takes these gates, the first state and the
recurrent weights of each direction. Not here: kernels for it (gpu/recurrence.py).

**Covers**: layers, both directions, with and without biases, either order of batch and time. **Does not cover**:
projections, dropout between layers, packed sequences.
"""

from __future__ import annotations

from kernelwright.graph import Arg, Graph, Node, Ref, ResultSpec
from kernelwright.types import Problem, TensorSpec, replace

GATES = {"aten.lstm.input": 4, "aten.gru.input": 3}
OWN = {"aten.lstm.input": "kernelwright.lstm.default", "aten.gru.input": "kernelwright.gru.default"}


def opened(problem: Problem, graph: Graph) -> Graph:
    """Returns a graph whose recurrent networks are products and recurrences; what is not covered stays."""
    specs: dict[Ref, TensorSpec | ResultSpec] = {Ref(name=s.name): s for s in problem.inputs + problem.parameters}
    now: dict[Ref, Ref] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = replace(node, arguments=tuple((key, _renamed(item, now)) for key, item in node.arguments))
        specs |= {Ref(name=node.name, index=i): r for i, r in enumerate(node.results) if r is not None}
        made = _opened(node, specs) if node.op in GATES else None
        if made is None:
            nodes.append(node)
            continue
        found, results = made
        nodes += found
        now |= {Ref(name=node.name, index=i): ref for i, ref in enumerate(results)}
        specs |= {Ref(name=n.name, index=i): r for n in found for i, r in enumerate(n.results) if r is not None}
    return replace(graph, nodes=tuple(nodes), outputs=tuple(now.get(ref, ref) for ref in graph.outputs))


def _renamed(item: Arg, now: dict[Ref, Ref]) -> Arg:
    if isinstance(item, Ref):
        return now.get(item, item)
    return tuple(_renamed(part, now) for part in item) if isinstance(item, tuple) else item


def _dense(shape: tuple[int, ...], like: TensorSpec | ResultSpec) -> ResultSpec:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return ResultSpec(shape=shape, dtype=like.dtype, strides=tuple(reversed(strides)))


def _opened(node: Node, specs: dict[Ref, TensorSpec | ResultSpec]) -> tuple[list[Node], list[Ref]] | None:
    """Returns the nodes of one network, and which results stand for its own."""
    gates, given, weights, states = GATES[node.op], node.argument("input"), node.argument("params"), node.argument("hx")
    states = states if isinstance(states, tuple) else (states,)
    ways, layers = 1 + bool(node.argument("bidirectional")), node.argument("num_layers")
    each = 4 if node.argument("has_biases") else 2
    assert isinstance(given, Ref)
    assert isinstance(weights, tuple)
    assert isinstance(layers, int)
    dropped = bool(node.argument("train")) and bool(node.argument("dropout")) and layers > 1
    if len(weights) != each * ways * layers or dropped or len(specs[given].shape) != 3:
        return None
    first, second, _ = specs[given].shape
    batch = first if node.argument("batch_first") else second
    like, nodes, scans = specs[given], list[Node](), list[Node]()
    hidden = (specs[weights[1]] if isinstance(weights[1], Ref) else like).shape[1]
    for layer in range(layers):
        width = (specs[given] if not scans else scans[-1].results[0] or like).shape[2]
        name = f"{node.name}_{layer}"
        rows = Node(
            name=f"{name}_rows", op="aten.view.default", arguments=(("self", given), ("size", (first * second, width))),
            results=(_dense((first * second, width), like),),
        )  # fmt: skip
        nodes.append(rows)
        of_layer = [weights[(layer * ways + way) * each :][:each] for way in range(ways)]
        for way, own in enumerate(of_layer):
            nodes += _product(f"{name}_{way}", rows, own, gates * hidden, like)
        state = _dense((ways, batch, hidden), like)
        scans.append(
            Node(
                name=f"{name}_steps",
                op=OWN[node.op],
                arguments=(
                    ("gates", tuple(Ref(name=f"{name}_{way}_gates") for way in range(ways))),
                    ("states", states),
                    ("weights", tuple(own[1] for own in of_layer)),
                    ("biases", tuple(own[3] for own in of_layer) if each == 4 else ()),
                    ("layer", layer),
                    ("batch_first", node.argument("batch_first")),
                ),
                results=(_dense((first, second, ways * hidden), like), *[state] * len(states)),
            )
        )
        nodes.append(scans[-1])
        given = Ref(name=scans[-1].name)
    results = [given]
    for index in range(1, 1 + len(states)):
        last = tuple(Ref(name=scan.name, index=index) for scan in scans)
        if layers > 1:
            nodes.append(
                Node(
                    name=f"{node.name}_last_{index}", op="aten.cat.default", arguments=(("tensors", last), ("dim", 0)),
                    results=(_dense((layers * ways, batch, hidden), like),),
                )
            )  # fmt: skip
        results.append(last[0] if layers == 1 else Ref(name=nodes[-1].name))
    return nodes, results


def _product(name: str, rows: Node, own: tuple[Arg, ...], columns: int, like: TensorSpec | ResultSpec) -> list[Node]:
    """Returns the nodes of all steps' gates, as far as they depend on the inputs."""
    (made,) = rows.results
    assert made is not None
    count, width = made.shape
    turned = Node(
        name=f"{name}_weight", op="aten.permute.default", arguments=(("self", own[0]), ("dims", (1, 0))),
        results=(ResultSpec(shape=(width, columns), dtype=like.dtype, strides=(1, width)),),
    )  # fmt: skip
    sides: tuple[tuple[str, Arg], ...] = (("mat1", Ref(name=rows.name)), ("mat2", Ref(name=turned.name)))
    result = (_dense((count, columns), like),)
    if len(own) == 4:
        arguments = (("self", own[2]), *sides, ("beta", 1), ("alpha", 1))
        return [turned, Node(name=f"{name}_gates", op="aten.addmm.default", arguments=arguments, results=result)]
    plain = (("self", sides[0][1]), sides[1])
    return [turned, Node(name=f"{name}_gates", op="aten.mm.default", arguments=plain, results=result)]
