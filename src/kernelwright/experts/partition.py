"""From a whole graph to steps: products with what follows them, and loop nests for everything between them.

Every node gets a stage: products of stage s run after the loops of stage s, and what reads their results comes later.
Other nodes run as late as their readers allow, so that as few tensors as possible lie in memory between steps. A
product takes the element-by-element operators behind it along, as far as nobody else reads what lies between.
Not here: kernels (products.py, loops.py), and how steps become a candidate (program.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from kernelwright.experts.chain import Expression, Leaf, Literal, Operation, Reader, Unsupported, leaves, shaped
from kernelwright.experts.parts import (
    buffer_of,
    matrix_of,
    matrix_shape,
    name_of,
    put,
    renamed_node,
    spec_of,
    usable,
    view_from,
)
from kernelwright.experts.products import Matrix, Product, Windows, core_leaf
from kernelwright.experts.read import Unreadable
from kernelwright.experts.views import VIEW_OPS, View, Wiring, dense, expand, refs, reshape
from kernelwright.graph import Graph, Node, Ref
from kernelwright.types import Problem, TensorSpec, replace

PRODUCTS = frozenset(f"aten.{n}.default" for n in ("mm", "bmm", "addmm", "baddbmm", "convolution"))
SINGLE = frozenset({"float32"})
THIN = 1
"""Products with no more rows or columns than this are sums over rows: loop nests stream them better."""
LONGEST_TAIL = 24
"""Operators that a product may take along."""


@dataclass
class LoopStep:
    """A part of the graph that loop nests compute."""

    problem: Problem
    graph: Graph


@dataclass
class Foreign:
    """One operator that neither loops nor products can do: a graph of its own, for whichever expert knows it."""

    problem: Problem
    graph: Graph


Part = LoopStep | Product | Foreign


@dataclass
class Partition:
    """Steps in order, and the buffers between them."""

    parts: list[Part]
    buffers: dict[str, TensorSpec] = field(default_factory=dict)
    """Every tensor between steps that is no tensor of the problem."""
    homes: dict[str, str] = field(default_factory=dict)
    """The buffer that holds a node's result, for those that are held."""


def cut(
    problem: Problem,
    graph: Graph,
    *,
    held: frozenset[str] = frozenset(),
    dtypes: frozenset[str] = SINGLE,
    foreign: frozenset[str] = frozenset(),
) -> Partition:
    """Returns a graph's steps.

    Args:
        problem: whose tensors the graph reads.
        graph: what is computed; products in it may be of any number.
        held: nodes whose results have to lie in memory, for a look at them.
        dtypes: of which products can be steps.
        foreign: names of operators that are parts of their own, for other experts.

    Raises:
        Unreadable: names the operator that no step can do.
    """
    return _Cutter(problem, graph, held, dtypes, foreign).run()


def is_product(node: Node, dtypes: frozenset[str]) -> bool:
    """Returns whether a node becomes a product step: a thin one is left to loops."""
    if node.op not in PRODUCTS:
        return False
    result = node.results[0]
    if result is None or result.dtype not in dtypes:
        raise Unreadable(node.op, f"no expert for {node.op} of {result.dtype if result else 'no tensor'}")
    if node.op.startswith("aten.convolution"):
        return True
    return min(result.shape[-2:]) > THIN


class _Cutter:
    """One call of `cut`."""

    def __init__(
        self, problem: Problem, graph: Graph, held: frozenset[str], dtypes: frozenset[str], foreign: frozenset[str]
    ) -> None:
        self.problem, self.graph, self.held = problem, graph, held
        self.wiring = Wiring(problem, graph)
        self.foreign = {n.name for n in graph.nodes if n.op in foreign}
        self.products = self.foreign | {n.name for n in graph.nodes if is_product(n, dtypes)}
        """Products, and whatever else is a step of its own."""
        self.stage: dict[str, int] = {}
        self.partition = Partition(parts=[])
        self.absorbed: dict[str, str] = {}
        """Nodes of tails, by the product that takes them along."""
        self.last: dict[str, str] = {}
        """The last node of each product's tail."""
        self.tails: dict[str, Expression] = {}
        self.needed: dict[str, list[Ref]] = {}
        """What `_needs` has found, for each node."""
        self.final = 0
        """The last stage, behind all products."""
        self.done: set[str] = set()
        """Outputs that some loops write."""

    def run(self) -> Partition:
        self._stages()
        for node in self.graph.nodes:
            if node.name in self.products - self.foreign:
                self._take_tail(node)
        self.final = max((self._ready(n.name) for n in self.graph.nodes), default=0)
        late = self._late()
        for stage in range(self.final + 1):
            nodes = tuple(n for n in self.graph.nodes if late.get(n.name) == stage and self._loops(n))
            self._loop_step(nodes, stage)
            for node in self.graph.nodes:
                if node.name in self.products and late[node.name] == stage:
                    part = self._foreign(node) if node.name in self.foreign else self._product(node)
                    self.partition.parts.append(part)
        return self.partition

    def _loops(self, node: Node) -> bool:
        return node.name not in self.products and node.name not in self.absorbed

    def _stages(self) -> None:
        """Numbers every node: what products it stands behind."""
        for node in self.graph.nodes:
            stage = max((self._ready(ref.name) for ref in refs(node)), default=0)
            self.stage[node.name] = stage

    def _ready(self, name: str) -> int:
        if name not in self.stage:
            return 0
        return self.stage[name] + (name in self.products)

    # ------------------------------------------------------------------------- tails

    def _take_tail(self, node: Node) -> None:
        """Finds the longest chain behind a product that it can do on registers."""
        shape = matrix_shape(node)
        leaf = core_leaf(shape, node.name)
        tail: Expression = leaf
        seen: list[str] = []
        current, best = node, 0
        for _ in range(LONGEST_TAIL):
            follower = self._only_reader(current)
            if follower is None or prod(spec_of(follower).shape) != prod(shape) or spec_of(follower).dtype != "float32":
                break
            if current.name in self.held:
                break
            seen.append(follower.name)
            found = self._read(node, follower, shape)
            if found is None and follower.op not in VIEW_OPS:
                break
            if found is not None:
                tail, best = found, len(seen)
            current = follower
        for name in seen[:best]:
            self.absorbed[name] = node.name
        self.last[node.name] = seen[best - 1] if best else node.name
        self.tails[node.name] = with_bias(self, node, tail, shape)

    def _only_reader(self, node: Node) -> Node | None:
        readers = self.wiring.readers.get(node.name, [])
        if len(readers) != 1 or any(ref.name == node.name for ref in self.graph.outputs):
            return None
        return None if readers[0].name in self.products else readers[0]

    def _read(self, node: Node, follower: Node, shape: tuple[int, int, int]) -> Expression | None:
        """Returns a chain's end as an expression over the product's shape, None where registers cannot hold it."""
        stored = [self.last[p] for p in self.last if self.stage[p] < self.stage[node.name]]
        stored += [name for name in self.foreign if self.stage[name] < self.stage[node.name]]
        reader = Reader(self.wiring, node.name, *stored)
        try:
            found = shaped(reader.read(Ref(name=follower.name)), shape)
        except (Unsupported, AssertionError, KeyError, IndexError):
            return None
        for leaf in leaves(found):
            if leaf.view.base == node.name and leaf != core_leaf(shape, node.name):
                return None
            if leaf.view.base in self.wiring.constants or any(len(d) > 1 for d in leaf.view.dims[-1:]):
                return None
        # What hangs on anything but inputs and finished products would be computed again for each element.
        return found

    # ------------------------------------------------------------------------- stages

    def _late(self) -> dict[str, int]:
        """Returns the stage in which each node runs: as late as what reads it allows."""
        final = self.final
        late: dict[str, int] = {}
        for node in reversed(self.graph.nodes):
            if node.name in self.products:
                late[node.name] = self.stage[node.name]
                continue
            wanted = (
                [final] if any(ref.name == node.name for ref in self.graph.outputs) or node.name in self.held else []
            )
            for reader in self.wiring.readers.get(node.name, []):
                owner = self.absorbed.get(reader.name)
                wanted.append(self.stage[owner] if owner else late[reader.name])
            late[node.name] = min(wanted, default=final)
        return late

    def _loop_step(self, nodes: tuple[Node, ...], stage: int) -> None:
        """Adds the loops of one stage: what later steps and the outputs need of its nodes."""
        own = {node.name for node in nodes}
        wanted: dict[Ref, None] = {}
        for node in self.graph.nodes:
            if node.name in own:
                continue
            for ref in self._needs(node):
                if ref.name in own:
                    wanted[ref] = None
        final = stage == self.final
        outputs: list[tuple[Ref, TensorSpec]] = []
        for ref, spec in zip(self.graph.outputs, self.problem.outputs, strict=True):
            if spec.name not in self.done and (ref.name in own or (final and not self._direct(ref, spec))):
                outputs.append((ref, spec))
                self.done.add(spec.name)
        homes = {name_of(ref): spec.name for ref, spec in outputs if ref.name in own}
        wanted |= {Ref(name=name): None for name in sorted(own & self.held)}
        outputs += [(ref, self._buffer(ref)) for ref in wanted if name_of(ref) not in homes]
        if outputs:
            self.partition.parts.append(self._part(nodes, outputs))
            self.partition.homes |= homes

    def _needs(self, node: Node) -> list[Ref]:
        """Returns what has to lie in memory for a node of another step."""
        if node.name not in self.needed:
            if node.name in self.products - self.foreign:
                found = [operand_ref(self, ref, node) for ref in refs(node)]
                found += [Ref(name=leaf) for leaf in self._tail_bases(node.name)]
            else:
                found = [] if node.name in self.absorbed else list(refs(node))
            self.needed[node.name] = found
        return self.needed[node.name]

    def _tail_bases(self, product: str) -> list[str]:
        return [leaf.view.base for leaf in leaves(self.tails[product]) if leaf.view.base in self.wiring.nodes]

    def _direct(self, ref: Ref, spec: TensorSpec) -> bool:
        """Returns whether a product writes an output itself."""
        return self.partition.homes.get(name_of(ref)) == spec.name

    def _buffer(self, ref: Ref) -> TensorSpec:
        """Returns the buffer of a result between steps."""
        result = self.wiring.nodes[ref.name].results[ref.index]
        assert result is not None
        name = buffer_of(ref)
        spec = TensorSpec(name=name, shape=result.shape, dtype=result.dtype, role="output")
        self.partition.buffers[name] = spec
        self.partition.homes[name_of(ref)] = name
        return spec

    def _part(self, nodes: tuple[Node, ...], outputs: list[tuple[Ref, TensorSpec]]) -> LoopStep:
        """Returns loops over some nodes as a problem of their own."""
        own = {node.name for node in nodes}
        read = dict.fromkeys(ref for node in nodes for ref in refs(node) if ref.name not in own)
        read |= dict.fromkeys(ref for ref, _ in outputs if ref.name not in own)
        inputs, names = [], {}
        for ref in read:
            if ref.name in self.wiring.constants:
                continue
            names[ref] = home = self._home(ref)
            inputs.append(
                TensorSpec(name=home, shape=self.wiring.shape(ref), dtype=self.wiring.dtype(ref), role="input")
            )
        renamed = tuple(renamed_node(node, names) for node in nodes)
        unique = tuple({spec.name: spec for spec in inputs}.values())
        constants = tuple(c for c in self.graph.constants if Ref(name=c.name) in read)
        return LoopStep(
            problem=replace(
                self.problem, inputs=unique, parameters=(), outputs=tuple(replace(s, role="output") for _, s in outputs)
            ),
            graph=Graph(
                nodes=renamed,
                outputs=tuple(Ref(name=names[r]) if r in names else r for r, _ in outputs),
                constants=constants,
            ),
        )

    def _home(self, ref: Ref) -> str:
        """Returns the name of the buffer that holds a tensor."""
        if ref.name in self.wiring.tensors:
            return ref.name
        if name_of(ref) not in self.partition.homes:
            raise Unreadable(self.wiring.nodes[ref.name].op, f"{ref.name} is needed before it is computed")
        return self.partition.homes[name_of(ref)]

    # ----------------------------------------------------------------------- products

    def _product(self, node: Node) -> Product:
        """Returns a product step; its operands lie in memory by now."""
        last, shape = self.last[node.name], matrix_shape(node)
        direct = [s for r, s in zip(self.graph.outputs, self.problem.outputs, strict=True) if r == Ref(name=last)]
        if direct:
            self.partition.homes[last] = direct[0].name
        out = direct[0].name if direct else self._buffer(Ref(name=last)).name
        tail = self._moved(self.tails[node.name])
        batches, m, n = shape
        right: Matrix | Windows
        if node.op.startswith("aten.convolution"):
            left, right, k = convolution_operands(self, node)
        else:
            first, second = ("mat1", "mat2") if node.op == "aten.addmm.default" else ("self", "mat2")
            if node.op == "aten.baddbmm.default":
                first, second = "batch1", "batch2"
            a, b = self.operand(node, first), self.operand(node, second)
            k = a.shape[-1]
            left, right = matrix_of(a), matrix_of(b)
        return Product(core=node.name, batches=batches, m=m, n=n, k=k, left=left, right=right, tail=tail, out=out)

    def _foreign(self, node: Node) -> Foreign:
        """Returns a step of one operator; its operands lie in memory by now."""
        used = {ref for other in self.graph.nodes for ref in refs(other) if ref.name == node.name}
        used |= {ref for ref in self.graph.outputs if ref.name == node.name}
        outputs: list[tuple[Ref, TensorSpec]] = []
        for ref in sorted(used, key=lambda found: found.index):
            direct = [s for r, s in zip(self.graph.outputs, self.problem.outputs, strict=True) if r == ref]
            if direct:
                self.partition.homes[name_of(ref)] = direct[0].name
            outputs.append((ref, direct[0] if direct else self._buffer(ref)))
        part = self._part((node,), outputs)
        return Foreign(part.problem, part.graph)

    def _moved(self, tail: Expression) -> Expression:
        """Returns a tail whose leaves name buffers instead of nodes."""
        if isinstance(tail, Leaf):
            base = tail.view.base
            home = self.partition.homes.get(base, base)
            return (
                replace(tail, view=replace(tail.view, base=home))
                if home != base and base not in self.products
                else tail
            )
        if isinstance(tail, Operation):
            return replace(tail, operands=tuple(self._moved(o) for o in tail.operands))
        return tail

    def operand(self, node: Node, name: str) -> View:
        """Returns an operand as a strided view of a buffer."""
        given = node.argument(name)
        assert isinstance(given, Ref)
        stored = operand_ref(self, given, node)
        view = view_from(self.wiring, given, stored)
        assert view is not None
        return replace(view, base=self._home(stored))


def operand_ref(cutter: _Cutter, ref: Ref, product: Node) -> Ref:
    """Returns the tensor that must lie in memory for a product's operand: what it is a strided view of, or itself."""
    current = ref
    while (node := cutter.wiring.nodes.get(current.name)) is not None and node.op in VIEW_OPS:
        below = node.argument("self")
        if node.name in cutter.absorbed or not isinstance(below, Ref) or view_from(cutter.wiring, ref, below) is None:
            break
        current = below
    view = view_from(cutter.wiring, ref, current)
    windows = product.op.startswith("aten.convolution") and ref != product.argument("bias")
    if view is None or not usable(view) or (windows and not view.contiguous):
        return ref
    return current


def convolution_operands(cutter: _Cutter, node: Node) -> tuple[Matrix, Windows, int]:
    """Returns weights and windows of a convolution, and the length of its sums."""
    spec, weight, x = spec_of(node), cutter.operand(node, "weight"), cutter.operand(node, "input")
    for view in (weight, x):
        if view.dims != dense(view.shape) or view.start:
            raise Unreadable(node.op, f"no expert for {node.op} of strided operands")
    groups, transposed = node.argument("groups"), node.argument("transposed")
    assert isinstance(groups, int)
    channels, kernel = x.shape[1] // groups, weight.shape[2:]
    taps, images, outs = prod(kernel), spec.shape[0], spec.shape[1] // groups
    lists = {key: node.argument(key) for key in ("stride", "padding", "dilation")}
    stride, padding, dilation = (tuple(int(i) for i in v) for v in lists.values())  # type: ignore[union-attr,arg-type]
    batch = ((images, 0), (groups, outs * channels * taps))
    if transposed:
        left = Matrix(base=weight.base, start=0, batch=batch, row=taps, column=1, inner=taps, outer=outs * taps)
    else:
        left = Matrix(base=weight.base, start=0, batch=batch, row=channels * taps, column=1)
    right = Windows(
        base=x.base, channels=channels, size=x.shape[2:], out=spec.shape[2:], kernel=kernel, stride=stride,
        padding=padding, dilation=dilation, transposed=bool(transposed),
    )  # fmt: skip
    return left, right, channels * taps


def with_bias(cutter: _Cutter, node: Node, tail: Expression, shape: tuple[int, int, int]) -> Expression:
    """Returns a tail over the product alone where the node adds something of its own."""
    core = core_leaf(shape, node.name)
    result: Expression = core
    if node.op.startswith("aten.convolution"):
        given = node.argument("bias")
        if isinstance(given, Ref):
            stored = operand_ref(cutter, given, node)
            view = view_from(cutter.wiring, given, stored)
            across = None if view is None else reshape(view, (1, shape[0] // spec_of(node).shape[0], shape[1], 1))
            images = spec_of(node).shape[0]
            spread = None if across is None else expand(across, (images, shape[0] // images, shape[1], shape[2]))
            joined = None if spread is None else reshape(spread, shape)
            if joined is None:
                raise Unreadable(node.op, f"no expert for {node.op} with such a bias")
            bias = Leaf(view=joined, dtype=spec_of(node).dtype)
            result = Operation(op="add", operands=(core, bias), dtype="float32")
    elif node.op in ("aten.addmm.default", "aten.baddbmm.default"):
        given = node.argument("self")
        assert isinstance(given, Ref)
        stored = operand_ref(cutter, given, node)
        view = view_from(cutter.wiring, given, stored)
        spread = None if view is None else expand(view, spec_of(node).shape)
        joined = None if spread is None else reshape(spread, shape)
        if joined is None:
            raise Unreadable(node.op, f"no expert for {node.op} with such an addend")
        addend: Expression = Leaf(view=joined, dtype=spec_of(node).dtype)
        for key in ("alpha", "beta"):
            factor = node.argument(key)
            assert isinstance(factor, int | float)
            if factor != 1:
                number = Literal(number=float(factor), dtype="float32")
                if key == "alpha":
                    result = Operation(op="mul", operands=(result, number), dtype="float32")
                else:
                    addend = Operation(op="mul", operands=(addend, number), dtype="float32")
        result = Operation(op="add", operands=(result, addend), dtype="float32")
    return tail if result is core else put(tail, core, result)
