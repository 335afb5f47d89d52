"""Expert for attention: the score block softmax(q k^T with scale and mask), alone or times v.

Recognises one softmax over the last dimension of a pointwise chain on one matrix product, with its result as an
output, as the left factor of a second product that is an output, or both. Scales, additive and boolean masks,
causal masks made of ranges, heads that share keys, and permuted layouts are read from the graph, whichever way they
were written; `scaled_dot_product_attention` arrives as the same operators. The code is in attention_code.py.
Not here: dropout, other work on q, k or v than scaling them, products followed by anything but views.
"""

from __future__ import annotations

from functools import partial

from kernelwright.experts.attention_code import Attention, attention_space, emit_attention
from kernelwright.experts.chain import (
    COMPARE,
    IOTA,
    Expression,
    Leaf,
    Literal,
    Operation,
    Reader,
    Unsupported,
    leaves,
    shaped,
)
from kernelwright.experts.protocol import Answer
from kernelwright.experts.views import View, Wiring, inverse, refs, reshape, sequence, whole, whole_number
from kernelwright.graph import Arg, Graph, Node, Ref
from kernelwright.types import Problem, Refusal, Target, Template, TensorSpec, replace, value

PRODUCTS = ("aten.bmm.default", "aten.mm.default")
NEGATIVE_INFINITY = Literal(number=float("-inf"), dtype="float32")


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one softmax over a matrix product; None where there is none."""
    work = recognised(Wiring(problem, graph))
    if not isinstance(work, Attention):
        return work
    return Template(name="attention", space=attention_space(work, target), emit=partial(emit_attention, problem, work))


def recognised(wiring: Wiring) -> Attention | Refusal | None:
    """Returns the attention that a graph is, why it cannot be done, or None where there is none."""
    softmaxes = [node for node in wiring.graph.nodes if node.op == "aten._softmax.default"]
    if len(softmaxes) != 1 or len(_products(wiring, softmaxes[0])) != 1:
        return None
    try:
        return _read(wiring, softmaxes[0])
    except Unsupported as reason:
        return Refusal(subject="attention", reason=str(reason))


def _products(wiring: Wiring, softmax: Node) -> list[Node]:
    """Returns the matrix products that a softmax is made from."""
    found: dict[str, Node] = {}
    pending, seen = list(refs(softmax)), set[str]()
    while pending:
        node = wiring.maker(pending.pop())
        if node is None or node.name in seen:
            continue
        seen.add(node.name)
        if node.op in PRODUCTS:
            found[node.name] = node
        else:
            pending.extend(refs(node))
    return list(found.values())


def _read(wiring: Wiring, softmax: Node) -> Attention:
    (product,) = _products(wiring, softmax)
    shape = wiring.shape(Ref(name=softmax.name))
    if whole_number(softmax.argument("dim")) % len(shape) != len(shape) - 1:
        raise Unsupported("a softmax over another dimension than the keys")
    full = wiring.shape(Ref(name=product.name))
    heads, queries, keys = full if len(full) == 3 else (1, *full)
    score = shaped(Reader(wiring, product.name).read(_ref(softmax.argument("self"))), (heads, queries, keys))
    core = Leaf(view=whole(product.name, (heads, queries, keys)), dtype=wiring.dtype(Ref(name=product.name)))
    if [leaf for leaf in leaves(score) if leaf.view.base == product.name] != [core]:
        raise Unsupported("the scores are permuted before the softmax")
    depth = wiring.shape(_ref(product.argument("self")))[-1]
    q, q_scale = _factor(wiring, product.argument("self"), (heads, queries, depth), "q")
    k, k_scale = _factor(wiring, product.argument("mat2"), (heads, depth, keys), "k")
    names = dict.fromkeys(leaf.view.base for leaf in leaves(score) if leaf.view.base not in (product.name, IOTA))
    if any(name not in wiring.tensors for name in names):
        raise Unsupported("a literal tensor in the mask")
    ending = _ending(wiring, softmax)
    v = None if ending.product is None else _value(wiring, ending.product, heads, keys)
    rule = _causal(score)
    return Attention(
        core=product.name, q=q, k=k, v=v, scale=q_scale * k_scale, score=score,
        masks=tuple(wiring.tensors[name] for name in names),
        heads=heads, queries=queries, keys=keys, depth=depth,
        width=v.shape[-1] if v is not None else 0,
        weights_out=ending.weights((heads, queries, keys)),
        values_out=None if v is None else ending.values((heads, queries, v.shape[-1])),
        outs=wiring.problem.outputs, guarded=ending.guarded,
        horizon=rule.horizon if rule else None, visible=rule.visible if rule else None,
        sheltered=rule is not None and isinstance(score, Operation) and score.op == "select",
    )  # fmt: skip


def _ref(item: Arg) -> Ref:
    if not isinstance(item, Ref):
        raise Unsupported("an operand that is no tensor")
    return item


def _factor(wiring: Wiring, item: Arg, shape: tuple[int, ...], name: str) -> tuple[View, float]:
    """Returns a product's operand as a view of an input and the number that it was multiplied by."""
    found, scale = shaped(Reader(wiring).read(_ref(item)), shape), 1.0
    while isinstance(found, Operation):
        right = found.operands[1] if len(found.operands) == 2 else None
        if not isinstance(right, Literal) or found.op not in ("mul", "div"):
            raise Unsupported(f"{name} is computed from its input by more than a scale")
        scale = scale * float(right.number) if found.op == "mul" else scale / float(right.number)
        found = found.operands[0]
    if not isinstance(found, Leaf) or found.view.base not in wiring.tensors or found.dtype not in wiring.floats:
        raise Unsupported(f"{name} is not an input of {' or '.join(wiring.floats)}")
    if any(len(factors) > 1 for factors in found.view.dims[1:]):
        raise Unsupported(f"{name} has a layout that no strides describe")
    return found.view, scale


def _value(wiring: Wiring, product: Node, heads: int, keys: int) -> View:
    item = _ref(product.argument("mat2"))
    view, scale = _factor(wiring, item, (heads, keys, wiring.shape(item)[-1]), "v")
    strides = view.dims[2][0][1] if view.dims[2] else 1
    if scale != 1.0 or strides != 1:
        raise Unsupported("v is scaled or its rows are not contiguous")
    return view


class _Ending:
    """What becomes of the softmax: a second product, and how both results lie in the outputs."""

    def __init__(self, wiring: Wiring, softmax: Node) -> None:
        self.wiring = wiring
        self.softmax = softmax
        self.product: Node | None = None
        self.guarded = False
        self._weights: tuple[TensorSpec, View] | None = None
        self._values: tuple[TensorSpec, View] | None = None
        self._guards: list[bool] = []
        for ref, spec in zip(wiring.graph.outputs, wiring.problem.outputs, strict=True):
            self._output(ref, spec)
        if len(set(self._guards)) > 1:
            raise Unsupported("rows without a visible key are zeroed in one place only")
        self.guarded = any(self._guards)

    def _output(self, ref: Ref, spec: TensorSpec) -> None:
        node = self._origin(ref)
        if spec.dtype not in self.wiring.floats:
            raise Unsupported(f"an output of {spec.dtype}")
        if node is not None and node.op in PRODUCTS:
            left = self._origin(_ref(node.argument("self")))
            if not self._is_weights(left) or self._values is not None:
                raise Unsupported("an output that is not made of the softmax")
            self._in_order(_ref(node.argument("self")), left)
            self.product = node
            self._values = (spec, self._placed(ref, node, spec))
        elif self._is_weights(node) and node is not None and self._weights is None:
            self._weights = (spec, self._placed(ref, node, spec))
        else:
            raise Unsupported(f"{node.op if node else 'an input'} after the softmax")

    def _origin(self, ref: Ref) -> Node | None:
        """Returns the node below all views."""
        node = self.wiring.maker(ref)
        while node is not None and self.wiring.renames(node):
            node = self.wiring.maker(node.argument("self"))
        return node

    def _is_weights(self, node: Node | None) -> bool:
        """Says whether a node is the softmax, or it with zeros for rows that see no key; notes which."""
        if node is None:
            return False
        if node.name == self.softmax.name:
            self._guards.append(False)
            return True
        if node.op != "aten.where.self" or node.argument("other") != Ref(name=self.softmax.name):
            return False
        zero = self.wiring.maker(node.argument("self"))
        unseen = self.wiring.maker(node.argument("condition"))
        seen = self._step(unseen, "aten.logical_not.default")
        finite = self._step(seen, "aten.any.dim")
        equal = self._step(finite, "aten.logical_not.default")
        compared = self._step(equal, "aten.eq.Scalar")
        good = (
            zero is not None
            and zero.op.startswith("aten.full")
            and zero.argument("fill_value") == 0
            and equal is not None
            and equal.argument("other") == float("-inf")
            and compared is None
            and equal.argument("self") == self.softmax.argument("self")
            and seen is not None
            and [whole_number(d) for d in sequence(seen.argument("dim"))] in ([-1], [len(self._shape()) - 1])
        )
        self._guards.append(True)
        return good

    def _shape(self) -> tuple[int, ...]:
        return self.wiring.shape(Ref(name=self.softmax.name))

    def _step(self, node: Node | None, op: str) -> Node | None:
        """Returns the operand's maker of a node that must be of an operator; for the last step, None."""
        if node is None or node.op != op:
            raise Unsupported("a where after the softmax")
        below = self.wiring.maker(node.argument("self"))
        return None if op == "aten.eq.Scalar" else below

    def _in_order(self, ref: Ref, node: Node | None) -> None:
        assert node is not None
        view = self.wiring.view(ref, core=node.name)
        if view is None or not view.contiguous:
            raise Unsupported("the softmax is permuted before it is multiplied")

    def _placed(self, ref: Ref, node: Node, spec: TensorSpec) -> View:
        """Returns where each element of a node's result goes in an output."""
        view = self.wiring.view(ref, core=node.name)
        found = None if view is None else inverse(replace(view, dims=view.dims), spec.name)
        if found is None:
            raise Unsupported("an output that leaves out or repeats results")
        return found

    def weights(self, shape: tuple[int, ...]) -> View | None:
        """Returns where the softmax goes, by (head, query, key); None when it is no output."""
        return None if self._weights is None else _by(self._weights[1], shape)

    def values(self, shape: tuple[int, ...]) -> View | None:
        """Returns where the second product goes, by (head, query, element)."""
        return None if self._values is None else _by(self._values[1], shape)


def _ending(wiring: Wiring, softmax: Node) -> _Ending:
    return _Ending(wiring, softmax)


def _by(view: View, shape: tuple[int, ...]) -> View:
    found = reshape(view, shape)
    last = found.dims[-1] if found is not None else ()
    if found is None or (last and (len(last) > 1 or last[0][1] != 1)):
        raise Unsupported("an output whose rows are not contiguous")
    return found


# ------------------------------------------------------------------------------------------- causal masks


@value
class _Rule:
    """A causal mask: keys from query + horizon on are -inf; elsewhere a score is `visible`."""

    horizon: int
    visible: Expression


def _causal(score: Expression) -> _Rule | None:
    """Returns the causal mask in a score, None where none is visible.

    Sees `where` with a comparison of ranges as condition, as the whole score or as a term that is added.
    """
    if not isinstance(score, Operation):
        return None
    if score.op == "add":
        for position in (0, 1):
            rule = _causal(score.operands[position])
            if rule is not None:
                operands = list(score.operands)
                operands[position] = rule.visible
                return _Rule(horizon=rule.horizon, visible=replace(score, operands=tuple(operands)))
        return None
    if score.op != "select":
        return None
    condition, chosen, other = score.operands
    if NEGATIVE_INFINITY not in (chosen, other):
        return None
    hides = chosen == NEGATIVE_INFINITY
    horizon = _masked_from(condition, when=hides)
    return None if horizon is None else _Rule(horizon=horizon, visible=other if hides else chosen)


def _masked_from(condition: Expression, *, when: bool) -> int | None:
    """Returns h where `condition` equals `when` exactly for the keys from query + h on, None where there is none."""
    if not isinstance(condition, Operation):
        return None
    operands = condition.operands
    if condition.op == "not":
        return _masked_from(operands[0], when=not when)
    if condition.op == "and":
        rest = [o for o in operands if not (isinstance(o, Literal) and o.number)]
        return _masked_from(rest[0], when=when) if len(rest) == 1 else None
    if condition.op not in ("le", "ge", "lt", "gt"):
        return None
    left, right = _affine(operands[0]), _affine(operands[1])
    if left is None or right is None:
        return None
    return _bound(left, right, COMPARE[condition.op], when=when)


def _bound(left: tuple[int, int, int], right: tuple[int, int, int], symbol: str, *, when: bool) -> int | None:
    """Solves `left symbol right` (or its contrary) for key - query."""
    query, key, constant = (a - b for a, b in zip(left, right, strict=True))
    if not when:
        symbol = {"<=": ">", ">=": "<", "<": ">=", ">": "<="}[symbol]
    if key == -1:
        query, key, constant = -query, -key, -constant
        symbol = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}[symbol]
    if key != 1 or query != -1 or symbol not in (">", ">="):
        return None
    return -constant + (1 if symbol == ">" else 0)


def _affine(item: Expression) -> tuple[int, int, int] | None:
    """Returns (a, b, c) where a whole-number expression is a * query + b * key + c."""
    if isinstance(item, Literal):
        return (0, 0, int(item.number))
    if isinstance(item, Leaf):
        strides = item.view.strides
        if item.view.base != IOTA or strides is None or strides[0] != 0:
            return None
        return (strides[1], strides[2], item.view.start)
    parts = [_affine(operand) for operand in item.operands]
    if len(parts) != 2 or parts[0] is None or parts[1] is None or item.op not in ("add", "sub"):
        return None
    sign = 1 if item.op == "add" else -1
    (a, b, c), (d, e, f) = parts[0], parts[1]
    return (a + sign * d, b + sign * e, c + sign * f)
