"""Strided views of tensors: what a chain of permute, view, expand, slice ... reads, as offsets.

A view's dimension is a list of factors (size, stride), so that every reshape that only splits or joins
dimensions stays exact, also over repeated (stride 0) data. Not here: arithmetic on elements (chain.py).
"""

from __future__ import annotations

from math import prod

from kernelwright.graph import Arg, Graph, Node, Ref, ResultSpec
from kernelwright.types import Problem, replace, value

Factor = tuple[int, int]
"""(size, stride in elements)."""

VIEW_OPS = frozenset(
    {
        "aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.permute.default",
        "aten.unsqueeze.default", "aten.squeeze.dims", "aten.squeeze.dim", "aten.squeeze.default",
        "aten.expand.default", "aten.clone.default", "aten.alias.default", "aten.detach.default",
        "aten.slice.Tensor", "aten.select.int", "aten.transpose.int", "aten.t.default", "aten.contiguous.default",
        "aten.split_with_sizes.default", "aten.split.Tensor",
    }
)  # fmt: skip
"""Operators that only rename elements; a clone copies them, which no reader of values can see."""


@value
class View:
    """Where each element of a tensor lies: `base[start + sum of index * stride]`."""

    base: str
    dims: tuple[tuple[Factor, ...], ...]
    """Factors of each dimension, outermost first; sizes of 1 are dropped."""
    start: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the sizes of the dimensions."""
        return tuple(prod(size for size, _ in factors) for factors in self.dims)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Returns one stride for each dimension (0 for size 1), None where a dimension needs two."""
        if any(len(factors) > 1 for factors in self.dims):
            return None
        return tuple(factors[0][1] if factors else 0 for factors in self.dims)

    @property
    def contiguous(self) -> bool:
        """Says whether elements lie one after another in row-major order, from the base's first."""
        return self.start == 0 and replace(self, dims=dense(self.shape)) == self

    def offset(self, indices: tuple[str, ...]) -> str:
        """Returns a C++ expression of the element's offset; an index "" counts as 0."""
        terms = [str(self.start)] if self.start else []
        for index, factors in zip(indices, self.dims, strict=True):
            inner = prod(size for size, _ in factors)
            for position, (size, stride) in enumerate(factors):
                inner //= size
                if not stride or index in ("", "0"):
                    continue
                part = f"({index})" if inner == 1 else f"({index}) / {inner}"
                part = f"({part} % {size})" if position else f"({part})" if inner > 1 else part
                terms.append(part if stride == 1 else f"{part} * {stride}")
        return " + ".join(terms) or "0"


def dense(shape: tuple[int, ...]) -> tuple[tuple[Factor, ...], ...]:
    """Returns the factors of a contiguous row-major tensor."""
    dims: list[tuple[Factor, ...]] = []
    stride = 1
    for size in reversed(shape):
        dims.append(((size, stride),) if size != 1 else ())
        stride *= size
    return tuple(reversed(dims))


def whole(base: str, shape: tuple[int, ...]) -> View:
    """Returns the view of all of a contiguous tensor."""
    return View(base=base, dims=dense(shape))


def reshape(view: View, shape: tuple[int, ...]) -> View | None:
    """Returns the same elements under another shape, None where a size would cut a factor unevenly."""
    if prod(view.shape) != prod(shape) or 0 in shape:
        return None
    pending = [factor for factors in view.dims for factor in factors]
    dims: list[tuple[Factor, ...]] = []
    for size in shape:
        taken: list[Factor] = []
        left = size
        while left > 1:
            have, stride = pending.pop(0)
            if left % have == 0:
                taken.append((have, stride))
                left //= have
            elif have % left == 0:
                taken.append((left, stride * (have // left)))
                pending.insert(0, (have // left, stride))
                left = 1
            else:
                return None
        dims.append(_joined(taken))
    return replace(view, dims=tuple(dims))


def _joined(factors: list[Factor]) -> tuple[Factor, ...]:
    """Returns factors with neighbours made one where one stride serves both."""
    result: list[Factor] = []
    for size, stride in factors:
        if result and result[-1][1] == size * stride:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def expand(view: View, shape: tuple[int, ...]) -> View | None:
    """Returns a view broadcast to a shape by PyTorch's rules."""
    have = view.shape
    missing = len(shape) - len(have)
    if missing < 0:
        return None
    dims: list[tuple[Factor, ...]] = []
    for position, size in enumerate(shape):
        old = have[position - missing] if position >= missing else 1
        if old == size:
            dims.append(view.dims[position - missing] if position >= missing else ())
        elif old == 1:
            dims.append(((size, 0),))
        else:
            return None
    return replace(view, dims=tuple(dims))


def apply(node: Node, view: View, index: int = 0) -> View | None:
    """Returns a view operator's result as a view of its operand's base, None where that is no strided view.

    Args:
        node: one of VIEW_OPS.
        view: the operand.
        index: which result, for operators that return several.
    """
    result = node.results[index]
    assert result is not None
    if node.op in ("aten.permute.default", "aten.transpose.int", "aten.t.default"):
        return replace(view, dims=tuple(view.dims[i] for i in _order(node, len(view.dims))))
    if node.op == "aten.expand.default":
        return expand(view, result.shape)
    if node.op in ("aten.slice.Tensor", "aten.select.int"):
        return _sliced(node, view, result)
    if node.op in ("aten.split_with_sizes.default", "aten.split.Tensor"):
        return _part(node, view, index)
    if node.op in VIEW_OPS:
        return reshape(view, result.shape)
    return None


def _order(node: Node, rank: int) -> tuple[int, ...]:
    """Returns which operand dimension each result dimension is."""
    if node.op == "aten.permute.default":
        return tuple(whole_number(i) % rank for i in sequence(node.argument("dims")))
    order = list(range(rank))
    if node.op == "aten.t.default":
        return tuple(reversed(order))
    first, second = (whole_number(node.argument(key)) % rank for key in ("dim0", "dim1"))
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _part(node: Node, view: View, index: int) -> View | None:
    """Returns one part of a split."""
    dim = whole_number(node.argument("dim")) % len(view.dims)
    factors = view.dims[dim]
    if len(factors) > 1:
        return None
    before = sum(result.shape[dim] for result in node.results[:index] if result is not None)
    result = node.results[index]
    assert result is not None
    size, stride = result.shape[dim], factors[0][1] if factors else 0
    new: tuple[Factor, ...] = ((size, stride),) if size != 1 else ()
    return replace(view, dims=(*view.dims[:dim], new, *view.dims[dim + 1 :]), start=view.start + before * stride)


def _sliced(node: Node, view: View, result: ResultSpec) -> View | None:
    dim = whole_number(node.argument("dim")) % len(view.dims)
    factors = view.dims[dim]
    if len(factors) > 1:
        return None
    size, stride = factors[0] if factors else (1, 0)
    selects = node.op == "aten.select.int"
    begin = node.argument("index" if selects else "start")
    first = 0 if begin is None else whole_number(begin)
    first = min(max(first + size if first < 0 else first, 0), size)
    start = view.start + first * stride
    if selects:
        return replace(view, dims=view.dims[:dim] + view.dims[dim + 1 :], start=start)
    kept = result.shape[dim]
    new: tuple[Factor, ...] = ((kept, stride * whole_number(node.argument("step"))),) if kept != 1 else ()
    return replace(view, dims=(*view.dims[:dim], new, *view.dims[dim + 1 :]), start=start)


def inverse(view: View, base: str) -> View | None:
    """Returns where each element of a dense core goes in a dense result that is a view of it.

    Args:
        view: the result, as a view of the core; must read every element once.
        base: the result's name.

    Returns:
        a one-dimensional view of `base`, indexed by the core's flat offset; None where none exists.
    """
    if view.start:
        return None
    pairs: list[tuple[int, int, int]] = []  # (stride in the core, size, stride in the result)
    stride = 1
    for size, inner in reversed([factor for factors in view.dims for factor in factors]):
        pairs.append((inner, size, stride))
        stride *= size
    pairs.sort()
    expected = 1
    for inner, size, _ in pairs:
        if inner != expected:
            return None
        expected *= size
    return View(base=base, dims=(_joined([(size, outer) for _, size, outer in reversed(pairs)]),))


def whole_number(item: Arg) -> int:
    """Returns an argument that must be an integer."""
    assert isinstance(item, int), item
    return int(item)


def sequence(item: Arg) -> tuple[Arg, ...]:
    """Returns a list argument; one number counts as a list of one."""
    return item if isinstance(item, tuple) else (item,)


class Wiring:
    """A problem and its graph with look-ups by name: who makes a tensor, who reads it.

    Args:
        problem: whose tensors they are.
        graph: its operators.
        floats: the dtypes that the expert computes with; conversions between them only round.
    """

    def __init__(self, problem: Problem, graph: Graph, floats: tuple[str, ...] = ("float32",)) -> None:
        self.problem = problem
        self.graph = graph
        self.floats = floats
        self.nodes = {node.name: node for node in graph.nodes}
        self.tensors = {spec.name: spec for spec in problem.inputs + problem.parameters}
        self.constants = {constant.name: constant for constant in graph.constants}
        self.readers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in sorted({ref.name for ref in refs(node)}):
                self.readers.setdefault(name, []).append(node)

    def shape(self, ref: Ref) -> tuple[int, ...]:
        """Returns a tensor's shape."""
        return self._spec(ref)[0]

    def dtype(self, ref: Ref) -> str:
        """Returns a tensor's dtype name."""
        return self._spec(ref)[1]

    def _spec(self, ref: Ref) -> tuple[tuple[int, ...], str]:
        if ref.name in self.nodes:
            result = self.nodes[ref.name].results[ref.index]
            assert result is not None
            return result.shape, result.dtype
        held = self.tensors.get(ref.name) or self.constants[ref.name]
        return held.shape, held.dtype

    def maker(self, ref: Arg) -> Node | None:
        """Returns the node that makes a tensor, None for inputs, parameters, constants and non-tensors."""
        return self.nodes.get(ref.name) if isinstance(ref, Ref) else None

    def view(self, ref: Ref, *, core: str = "") -> View | None:
        """Returns a tensor as a view of an input, parameter, constant or of the node named `core`."""
        node = self.nodes.get(ref.name)
        if node is None or ref.name == core:
            return whole(ref.name, self.shape(ref))
        operand = node.argument("self") if self.renames(node) else None
        below = self.view(operand, core=core) if isinstance(operand, Ref) else None
        if below is None or node.op not in VIEW_OPS:
            return below
        return apply(node, below, ref.index)

    def renames(self, node: Node) -> bool:
        """Says whether a node only renames elements, or rounds them to another of the expert's dtypes."""
        if node.op != "aten._to_copy.default":
            return node.op in VIEW_OPS
        operand = node.argument("self")
        return (
            isinstance(operand, Ref)
            and self.dtype(operand) in self.floats
            and self.dtype(Ref(name=node.name)) in self.floats
        )

    def covers(self, used: set[str]) -> str:
        """Returns the first operator that is not among the used nodes although an output needs it, else ""."""
        pending = [ref.name for ref in self.graph.outputs]
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in seen or name not in self.nodes:
                continue
            seen.add(name)
            if name not in used:
                return self.nodes[name].op
            pending.extend(ref.name for ref in refs(self.nodes[name]))
        return ""


def refs(node: Node) -> tuple[Ref, ...]:
    """Returns every tensor that a node reads."""
    found: list[Ref] = []
    pending: list[Arg] = [item for _, item in node.arguments]
    while pending:
        item = pending.pop()
        if isinstance(item, Ref):
            found.append(item)
        elif isinstance(item, tuple):
            pending.extend(item)
    return tuple(found)
