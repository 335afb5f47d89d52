"""Rules of products of matrices, and of what is linear in them: chains, sums, scales, diagonals, batch norm."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.rewrites.egraph import ENode, Id
from kernelwright.rewrites.rule import rule
from kernelwright.rewrites.scalars import factor_of, is_plain_division, is_sum, number, tensor
from kernelwright.rewrites.terms import Terms, axes_of

BATCH_NORM = "_native_batch_norm_legit_no_training"


@rule("addmm")
def product_and_sum_apart(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Addmm is a product and a sum, so that what holds for those holds for it."""
    beta, alpha = number(node.argument("beta")), number(node.argument("alpha"))
    if t.floating(item) and beta not in (None, 0.0) and alpha is not None:
        product = t.scaled(t.mm(tensor(node, "mat1"), tensor(node, "mat2")), alpha)
        yield t.add(product, t.scaled(tensor(node), beta or 1.0))


@rule("add")
def product_and_sum_together(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A product plus something that broadcasts to it is addmm."""
    one, other = node.argument("self"), node.argument("other")
    if isinstance(one, Id) and isinstance(other, Id) and is_sum(node) and t.dtype(one) == t.dtype(other):
        for product, rest in ((one, other), (other, one)):
            if t.shape(product) == t.shape(item) and len(t.shape(rest)) <= 2:
                for inner in t.made(product, "mm"):
                    yield t.addmm(rest, tensor(inner), tensor(inner, "mat2"))


@rule("mm", finite=True)
def chain_from_the_other_end(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """(A B) C is A (B C), and back."""
    first, second = tensor(node), tensor(node, "mat2")
    for inner in t.made(first, "mm"):
        yield t.mm(tensor(inner), t.mm(tensor(inner, "mat2"), second))
    for inner in t.made(second, "mm"):
        yield t.mm(t.mm(first, tensor(inner)), tensor(inner, "mat2"))


@rule("bmm", finite=True)
def batched_chain_from_the_other_end(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """(A B) C is A (B C) for each of a batch, and back."""
    first, second = tensor(node), tensor(node, "mat2")
    for inner in t.made(first, "bmm"):
        yield t.bmm(tensor(inner), t.bmm(tensor(inner, "mat2"), second))
    for inner in t.made(second, "bmm"):
        yield t.bmm(t.bmm(first, tensor(inner)), tensor(inner, "mat2"))


@rule("mm", finite=True)
def product_of_a_shifted_matrix(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """(A + b) C is A C + b C for one row b: two layers without anything between them are one."""
    second = tensor(node, "mat2")
    for inner in t.made(tensor(node), "add"):
        one, row = inner.argument("self"), inner.argument("other")
        if not (isinstance(one, Id) and isinstance(row, Id) and is_sum(inner)) or t.dtype(row) != t.dtype(one):
            continue
        terms = t.shape(second)[0]
        if t.shape(one) == t.shape(tensor(node)) and t.shape(row) in ((terms,), (1, terms)):
            yield t.add(t.mm(one, second), t.mm(t.view(row, (1, terms)), second))


@rule("add", "sub", finite=True)
def common_factor(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A B + A C is A (B + C), and B A + C A is (B + C) A."""
    one, other = node.argument("self"), node.argument("other")
    if not (isinstance(one, Id) and isinstance(other, Id) and is_sum(node) and t.shape(one) == t.shape(other)):
        return
    for left in t.made(one, "mm"):
        for right in t.made(other, "mm"):
            pairs = [(tensor(left, key), tensor(right, key)) for key in ("self", "mat2")]
            if t.graph.find(pairs[0][0]) == t.graph.find(pairs[0][1]):
                yield t.mm(pairs[0][0], t.binary(node.base, *pairs[1]))
            if t.graph.find(pairs[1][0]) == t.graph.find(pairs[1][1]):
                yield t.mm(t.binary(node.base, *pairs[0]), pairs[1][0])


@rule("permute")
def transpose_of_a_product(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """The transpose of A B is that of B times that of A."""
    order = node.argument("dims")
    for inner in t.made(tensor(node), "mm"):
        if order in ((1, 0), (-1, -2), (-1, 0), (1, -2)):
            yield t.mm(t.permute(tensor(inner, "mat2"), (1, 0)), t.permute(tensor(inner), (1, 0)))


@rule("mm", "bmm")
def scale_out_of_a_product(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """(c A) B is c (A B), so that the scale meets the smaller tensor, or the product's own epilogue."""
    first, second = tensor(node), tensor(node, "mat2")
    product = t.mm if node.base == "mm" else t.bmm
    for inner in t.made(first, "mul", "div"):
        if (factor := factor_of(inner)) is not None:
            yield t.scaled(product(tensor(inner), second), factor)
    for inner in t.made(second, "mul", "div"):
        if (factor := factor_of(inner)) is not None:
            yield t.scaled(product(first, tensor(inner)), factor)


@rule("mul", "div")
def scale_into_a_product(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """C (A B) is (c A) B and A (c B): a scale of many elements becomes one of few."""
    factor = factor_of(node)
    if factor is None or not t.floating(item):
        return
    for inner in t.made(tensor(node), "mm", "bmm"):
        product = t.mm if inner.base == "mm" else t.bmm
        first, second = tensor(inner), tensor(inner, "mat2")
        yield product(t.scaled(first, factor), second)
        yield product(first, t.scaled(second, factor))


@rule("mul")
def columns_of_a_product_scaled(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """(A B) s, with one s for each column, is A (B s); with one for each row it is (s A) B."""
    one, other = node.argument("self"), node.argument("other")
    if not (isinstance(one, Id) and isinstance(other, Id) and t.dtype(one) == t.dtype(other)):
        return
    rows, columns = t.shape(item) if len(t.shape(item)) == 2 else (0, 0)
    for inner in t.made(one, "mm"):
        first, second = tensor(inner), tensor(inner, "mat2")
        if t.shape(other) in ((columns,), (1, columns)):
            yield t.mm(first, t.mul(second, other))
        if t.shape(other) == (rows, 1):
            yield t.mm(t.mul(first, other), second)


@rule("mm")
def product_with_a_scaled_identity(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A diagonal matrix times B scales the rows of B; B times one scales its columns."""
    first, second = tensor(node), tensor(node, "mat2")
    for diagonal in diagonals(t, first):
        yield t.mul(t.view(diagonal, (t.shape(first)[0], 1)), second)
    for diagonal in diagonals(t, second):
        yield t.mul(first, t.view(diagonal, (1, t.shape(second)[1])))


def diagonals(t: Terms, item: Id) -> Iterator[Id]:
    """Yields vectors whose diagonal matrix a value is."""
    if len(t.shape(item)) == 2 and t.shape(item)[0] == t.shape(item)[1]:
        for made in t.made(item, "diag_embed"):
            if len(t.shape(tensor(made))) == 1 and made.argument("offset") == 0:
                yield tensor(made)


@rule("sum")
def sum_of_products_as_a_product(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """The sum over k of a[m, k, 1] b[1, k, n] is a product of matrices."""
    whole = t.shape(tensor(node))
    if len(whole) != 3 or not t.floating(item):
        return
    (axis, *more) = axes_of(node, 3)
    m_axis, n_axis = [a for a in range(3) if a != axis]
    if more:
        return
    for inner in t.made(tensor(node), "mul"):
        one, other = inner.argument("self"), inner.argument("other")
        if not (isinstance(one, Id) and isinstance(other, Id)):
            continue
        for left, right in ((one, other), (other, one)):
            shapes = [(1,) * (3 - len(t.shape(x))) + t.shape(x) for x in (left, right)]
            if shapes[0][n_axis] == 1 and shapes[1][m_axis] == 1 and shapes[0][axis] == shapes[1][axis] == whole[axis]:
                a = matrix(t, left, shapes[0], (m_axis, axis))
                b = matrix(t, right, shapes[1], (axis, n_axis))
                yield t.view(t.mm(a, b), t.shape(item))


def matrix(t: Terms, item: Id, shape: tuple[int, ...], axes: tuple[int, int]) -> Id:
    """Returns two axes of a tensor, whose others have extent 1, as a matrix in that order."""
    low, high = sorted(axes)
    made = t.view(item, (shape[low], shape[high]))
    return made if axes == (low, high) else t.permute(made, (1, 0))


@rule(BATCH_NORM)
def batch_norm_as_scale_and_offset(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """Batch norm in inference is x * a + b, with two numbers for each channel."""
    if node.index != 0:
        return
    x, eps = tensor(node, "input"), number(node.argument("eps")) or 0.0
    mean, variance = tensor(node, "running_mean"), tensor(node, "running_var")
    if any(t.dtype(p) != t.dtype(x) for p in (mean, variance)):
        return
    scale = t.unary("rsqrt", t.add(variance, eps))
    weight, bias = node.argument("weight"), node.argument("bias")
    scale = t.mul(scale, weight) if isinstance(weight, Id) else scale
    offset = t.mul(mean, scale)
    offset = t.sub(bias, offset) if isinstance(bias, Id) else t.unary("neg", offset)
    column = (-1 if len(t.shape(x)) < 2 else t.shape(x)[1], *(1,) * (len(t.shape(x)) - 2))
    if len(t.shape(x)) == 2:
        yield t.add(t.mul(x, scale), offset)
    else:
        yield t.add(t.mul(x, t.view(scale, column)), t.view(offset, column))


@rule("mul")
def channels_of_a_convolution_scaled(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A convolution times one number for each channel is one with scaled weights."""
    one, other = node.argument("self"), node.argument("other")
    if not isinstance(one, Id) or len(t.shape(item)) < 3:
        return
    channels, spatial = t.shape(item)[1], len(t.shape(item)) - 2
    by = other if isinstance(other, Id) else number(other)
    if by is None or (
        isinstance(by, Id) and t.shape(by) not in ((channels, *(1,) * spatial), (1, channels, *(1,) * spatial))
    ):
        return
    for inner in t.made(one, "convolution"):
        if inner.argument("transposed") is not False:
            continue
        weight, bias = tensor(inner, "weight"), inner.argument("bias")
        column = t.view(by, (channels, *(1,) * (spatial + 1))) if isinstance(by, Id) else by
        flat = t.view(by, (channels,)) if isinstance(by, Id) else by
        scaled = t.like(inner, weight=t.mul(weight, column), bias=t.mul(bias, flat) if isinstance(bias, Id) else None)
        yield t.again(scaled, t.shape(item), t.dtype(item))


@rule("add", "sub")
def channels_of_a_convolution_shifted(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """A convolution plus one number for each channel is one with another bias."""
    one, other = node.argument("self"), node.argument("other")
    if not (isinstance(one, Id) and isinstance(other, Id) and is_sum(node)) or len(t.shape(item)) < 3:
        return
    channels, spatial = t.shape(item)[1], len(t.shape(item)) - 2
    if t.shape(other) not in ((channels, *(1,) * spatial), (1, channels, *(1,) * spatial)):
        return
    for inner in t.made(one, "convolution"):
        bias, flat = inner.argument("bias"), t.view(other, (channels,))
        if isinstance(bias, Id):
            flat = t.binary(node.base, bias, flat)
        elif node.base == "sub":
            flat = t.unary("neg", flat)
        yield t.again(t.like(inner, bias=flat), t.shape(item), t.dtype(item))


@rule("div")
def division_as_a_scale(t: Terms, node: ENode, item: Id) -> Iterator[Id]:
    """X / c is x * (1 / c) for a number c."""
    factor = factor_of(node)
    if factor is not None and is_plain_division(node) and t.floating(item):
        yield t.scaled(tensor(node), factor)
