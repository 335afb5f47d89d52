"""Rules of one value at a time: neutral numbers, bounds within bounds, scales of scales, and views of views."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from kernelwright.rewrites.egraph import ENode, Id
from kernelwright.rewrites.rule import rule
from kernelwright.rewrites.terms import Terms, size

IDEMPOTENT = ("relu", "abs", "floor", "ceil", "round", "trunc", "sign")
BOUNDS = ("clamp", "clamp_min", "clamp_max", "hardtanh", "relu")


def tensor(node: ENode, name: str = "self") -> Id:
    """Returns an argument that is a tensor."""
    item = node.argument(name)
    assert isinstance(item, Id)
    return item


def number(item: object) -> float | None:
    """Returns a plain number, None for anything else."""
    return float(item) if isinstance(item, int | float) and not isinstance(item, bool) else None


def is_sum(node: ENode) -> bool:
    """Returns whether an add or sub has no factor on its second operand."""
    return number(node.argument("alpha")) in (None, 1.0)


def is_plain_division(node: ENode) -> bool:
    """Returns whether a division does not round."""
    return node.argument("rounding_mode") is None


def same(t: Terms, node: ENode, item: Id) -> bool:
    """Returns whether an operand has the result's shape and dtype, so that it could stand for it."""
    own = t.graph.spec(t.graph.add(node, t.graph.spec(item)))
    return t.shape(item) == own.shape and t.dtype(item) == own.dtype


@rule("add", "sub", "mul", "div")
def neutral_number(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """X + 0, x - 0, x * 1 and x / 1 are x."""
    one = node.argument("self")
    if not isinstance(one, Id) or not t.floating(item):
        return
    neutral = 0.0 if node.base in ("add", "sub") else 1.0
    if node.base == "div" and not is_plain_division(node):
        return
    if t.full_value(node.argument("other")) == neutral and t.shape(one) == t.shape(item):
        yield one
    other = node.argument("other")
    swaps = node.base in ("add", "mul") and is_sum(node) and t.full_value(one) == neutral
    if swaps and isinstance(other, Id) and t.shape(other) == t.shape(item):
        yield other


@rule("add", "mul")
def operands_swapped(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A + b is b + a, and a * b is b * a."""
    one, other = node.argument("self"), node.argument("other")
    if isinstance(one, Id) and isinstance(other, Id) and is_sum(node) and t.dtype(one) == t.dtype(other):
        yield t.again(t.like(node, self=other, other=one), t.shape(item), t.dtype(item))


@rule("neg")
def sign_twice(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """- - x is x."""
    for inner in t.made(tensor(node), "neg"):
        yield tensor(inner)


@rule(*IDEMPOTENT)
def done_twice(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Relu of relu, abs of abs, floor of floor ...: once is enough."""
    if any(inner.arguments[1:] == node.arguments[1:] for inner in t.made(tensor(node), node.base)):
        yield tensor(node)


def bounds_of(node: ENode) -> tuple[float, float] | None:
    """Returns the numbers that a call keeps its operand between; None where they are tensors."""
    if node.base == "relu":
        return 0.0, math.inf
    keys = ("min_val", "max_val") if node.base == "hardtanh" else ("min", "max")
    found = []
    for key, free in zip(keys, (-math.inf, math.inf), strict=True):
        given = node.argument(key)
        bound = free if given is None else number(given)
        if bound is None or math.isnan(bound):
            return None
        found.append(bound)
    return found[0], found[1]


@rule(*BOUNDS)
def bounds_within_bounds(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Clamp of clamp, of relu, of hardtanh: one clamp."""
    outer = bounds_of(node)
    if outer is None or outer[0] > outer[1] or not t.floating(item):
        return
    for inner in t.made(tensor(node), *BOUNDS):
        limits = bounds_of(inner)
        if limits is None or limits[0] > limits[1]:
            continue
        # What the inner bounds let through, as the outer bounds leave it; when they do not meet, one number.
        low = min(max(limits[0], outer[0]), outer[1])
        high = max(min(limits[1], outer[1]), outer[0])
        yield clamped(t, tensor(inner), low, high)


def clamped(t: Terms, item: Id, low: float, high: float) -> Id:
    """Returns the shortest way to write bounds."""
    if low == 0.0 and high == math.inf:
        return t.unary("relu", item)
    return t.clamp(item, None if low == -math.inf else low, None if high == math.inf else high)


RANGES = {
    **dict.fromkeys(("sigmoid", "_softmax", "hardsigmoid"), (0.0, 1.0)),
    **dict.fromkeys(("relu", "abs", "exp"), (0.0, math.inf)),
    "tanh": (-1.0, 1.0),
}
"""What the results of an operator lie between, also after rounding."""


@rule(*BOUNDS, "abs")
def bounds_that_always_hold(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Clamp(sigmoid(x), 0, 1), relu(exp(x)), abs(relu(x)) and their like are what they are made of."""
    limits = (0.0, math.inf) if node.base == "abs" else bounds_of(node)
    for inner in t.made(tensor(node), *RANGES):
        low, high = RANGES[inner.base]
        if limits is not None and limits[0] <= low and high <= limits[1]:
            yield tensor(node)


@rule("mul", "div")
def scale_of_a_scale(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """(x * a) * b is x * (a b), with division by numbers as well."""
    outer = factor_of(node)
    if outer is None or not t.floating(item):
        return
    for inner in t.made(tensor(node), "mul", "div"):
        first = factor_of(inner)
        if first is not None and t.shape(tensor(inner)) == t.shape(item):
            yield t.scaled(tensor(inner), first * outer)


def factor_of(node: ENode) -> float | None:
    """Returns the finite number that a mul or div multiplies by, None where it is none."""
    by = number(node.argument("other"))
    if by is None or not isinstance(node.argument("self"), Id) or by == 0.0 or not math.isfinite(by):
        return None
    if node.base == "div":
        return 1.0 / by if is_plain_division(node) else None
    return by


@rule("add", "sub")
def offset_of_an_offset(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """(x + a) + b is x + (a + b)."""
    outer = offset_of(node)
    if outer is None or not t.floating(item):
        return
    for inner in t.made(tensor(node), "add", "sub"):
        first = offset_of(inner)
        if first is not None and t.shape(tensor(inner)) == t.shape(item):
            total = first + outer
            yield t.add(tensor(inner), total) if total else tensor(inner)


def offset_of(node: ENode) -> float | None:
    """Returns the finite number that an add or sub adds."""
    by, alpha = number(node.argument("other")), number(node.argument("alpha"))
    if by is None or not isinstance(node.argument("self"), Id) or not math.isfinite(by):
        return None
    return (by if node.base == "add" else -by) * (1.0 if alpha is None else alpha)


@rule("sub", finite=True)
def difference_of_equals(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """X - x is 0."""
    one, other = node.argument("self"), node.argument("other")
    tensors = isinstance(one, Id) and isinstance(other, Id) and is_sum(node) and t.floating(item)
    if tensors and t.graph.find(one) == t.graph.find(other):  # type: ignore[arg-type]
        yield t.full(t.shape(item), 0.0, t.dtype(item))


FIXED_POINTS = {"gelu": 0.0, "relu": 0.0, "tanh": 0.0, "silu": 0.0, "neg": 0.0, "abs": 0.0, "sqrt": None, "exp": None,
                "sigmoid": None, "hardswish": 0.0, "erf": 0.0}  # fmt: skip
VALUES: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)),
}


@rule(*FIXED_POINTS, "mul", "div", "add", "sub", "clamp", "sum", "mean", "amax", "amin", "view", "permute", "expand")
def work_on_a_constant(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """What is computed from equal numbers alone is a tensor of equal numbers."""
    one = node.argument("self")
    value = t.full_value(one) if isinstance(one, Id) else None
    if value is None or not isinstance(one, Id) or not t.floating(item) or not math.isfinite(value):
        return
    made = constant_of(t, node, value, size(t.shape(one)) // max(size(t.shape(item)), 1))
    if made is not None and math.isfinite(made):
        yield t.full(t.shape(item), made, t.dtype(item))


def constant_of(t: Terms, node: ENode, value: float, count: int) -> float | None:
    """Returns each element of a call's result where every element of its operand is one number."""
    base = node.base
    if base in VALUES:
        return VALUES[base](value) if abs(value) < 50.0 and not (base == "sqrt" and value < 0) else None
    if base in FIXED_POINTS:
        return 0.0 if value == 0.0 else None
    if base == "sum":
        return value * count if node.argument("dtype") is None else None
    if base == "mean":
        return value if node.argument("dtype") is None else None
    if base == "clamp":
        limits = bounds_of(node)
        return None if limits is None else min(max(value, limits[0]), limits[1])
    if base in ("mul", "div", "add", "sub"):
        by = t.full_value(node.argument("other"))
        if by is None or not is_sum(node) or not is_plain_division(node) or (base == "div" and by == 0.0):
            return None
        return {"mul": value * by, "add": value + by, "sub": value - by, "div": value / by if by else 0.0}[base]
    return value


@rule("permute")
def order_of_an_order(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Permute of permute is one permute, or none."""
    outer = node.argument("dims")
    for inner in t.made(tensor(node), "permute"):
        order = inner.argument("dims")
        if isinstance(outer, tuple) and isinstance(order, tuple):
            rank = len(order)
            first, then = [int(a) % rank for a in order], [int(a) % rank for a in outer]  # type: ignore[arg-type]
            yield t.permute(tensor(inner), tuple(first[axis] for axis in then))


VIEWS = ("view", "unsqueeze", "squeeze", "_unsafe_view", "reshape")


@rule(*VIEWS)
def shape_of_a_shape(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """View of view is one view, or none."""
    for inner in t.made(tensor(node), *VIEWS):
        yield t.view(tensor(inner), t.shape(item))


@rule("permute")
def order_of_single_elements(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A permutation that moves extents of 1 only is a view."""
    order, old = node.argument("dims"), t.shape(tensor(node))
    if isinstance(order, tuple):
        moved = [int(a) % len(old) for a in order if old[int(a) % len(old)] != 1]  # type: ignore[arg-type]
        if moved == sorted(moved):
            yield t.view(tensor(node), t.shape(item))


@rule("log")
def logarithm_of_a_softmax(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Log of softmax is log_softmax, which does not underflow."""
    for inner in t.made(tensor(node), "_softmax"):
        if inner.argument("half_to_float") is False:
            yield t.unary("_log_softmax", tensor(inner), dim=inner.argument("dim"), half_to_float=False)


@rule("_softmax", "_log_softmax", finite=True)
def softmax_of_shifted_rows(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Softmax of x + c, with one c for each row, is softmax of x."""
    axis = node.argument("dim")
    for inner in t.made(tensor(node), "add", "sub"):
        one, other = inner.argument("self"), inner.argument("other")
        if not isinstance(one, Id) or t.shape(one) != t.shape(item) or not isinstance(axis, int):
            continue
        if not isinstance(other, Id) or one_for_each_row(t.shape(other), t.shape(item), axis):
            yield t.again(t.like(node, self=one), t.shape(item), t.dtype(item))


def one_for_each_row(shape: tuple[int, ...], whole: tuple[int, ...], axis: int) -> bool:
    """Returns whether a tensor that broadcasts to `whole` has extent 1 along an axis of it."""
    at = axis % len(whole) - (len(whole) - len(shape))
    return at < 0 or shape[at] == 1


@rule("_softmax", "_log_softmax", finite=True)
def softmax_of_one(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Softmax over a single element is 1."""
    axis, shape = node.argument("dim"), t.shape(item)
    if isinstance(axis, int) and shape and shape[axis] == 1 and t.dtype(item) == t.dtype(tensor(node)):
        yield t.full(shape, 1.0 if node.base == "_softmax" else 0.0, t.dtype(item))


@rule("dropout", "native_dropout")
def dropout_in_evaluation(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Dropout that is switched off, or drops nothing, is its operand."""
    one = node.argument("input")
    if isinstance(one, Id) and node.index == 0 and (node.argument("train") is False or node.argument("p") == 0.0):
        yield one
