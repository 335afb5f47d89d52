"""Small random programs, each made so that one rule applies to it."""

from __future__ import annotations

import random
from collections.abc import Callable

from kernelwright.rewrites.egraph import EArg, Id
from kernelwright.rewrites.terms import Shape, Terms

Make = Callable[[Terms, random.Random], Id]


def shape(rng: random.Random, rank: int = 0) -> Shape:
    return tuple(rng.randint(1, 5) for _ in range(rank or rng.randint(1, 4)))


def x(t: Terms, rng: random.Random, rank: int = 0) -> Id:
    return t.input("x", shape(rng, rank), "float64")


def matrices(t: Terms, rng: random.Random, count: int) -> list[Id]:
    sizes = [rng.randint(1, 5) for _ in range(count + 1)]
    return [t.input(f"m{i}", (sizes[i], sizes[i + 1]), "float64") for i in range(count)]


def batches(t: Terms, rng: random.Random, count: int) -> list[Id]:
    lot, sizes = rng.randint(1, 4), [rng.randint(1, 5) for _ in range(count + 1)]
    return [t.input(f"m{i}", (lot, sizes[i], sizes[i + 1]), "float64") for i in range(count)]


def axes(rng: random.Random, rank: int) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(rank), rng.randint(1, rank))))


def reduced(t: Terms, rng: random.Random, item: Id, *names: str) -> Id:
    return t.reduce(rng.choice(names), item, axes(rng, len(t.shape(item))), keep=rng.random() < 0.5)


def number(rng: random.Random) -> float:
    return rng.choice((0.5, 2.0, -3.0, 1.5, 0.25))


def bounded(t: Terms, rng: random.Random, item: Id) -> Id:
    low, high = sorted((rng.uniform(-2, 2), rng.uniform(-2, 2)))
    kind = rng.randrange(4)
    if kind == 0:
        return t.unary("relu", item)
    if kind == 1:
        return t.unary("hardtanh", item, min_val=low, max_val=high)
    return t.clamp(item, low if kind == 2 or rng.random() < 0.5 else None, high)


def softmax(t: Terms, item: Id, axis: int, name: str = "_softmax") -> Id:
    return t.unary(name, item, dim=axis, half_to_float=False)


def batch_norm(t: Terms, rng: random.Random, item: Id) -> Id:
    channels = (t.shape(item)[1],)
    named: dict[str, EArg] = {key: t.input(key, channels, "float64") for key in ("weight", "bias")}
    if rng.random() < 0.3:
        named["bias" if rng.random() < 0.5 else "weight"] = None
    return t.call(
        "aten._native_batch_norm_legit_no_training.default", t.shape(item), "float64", input=item, **named,
        running_mean=t.input("running_mean", channels, "float64"),
        running_var=t.input("positive_var", channels, "float64"), momentum=0.1, eps=1e-5,
    )  # fmt: skip


def convolution(t: Terms, rng: random.Random, *, biased: bool) -> Id:
    spatial = rng.randint(1, 3)
    groups = rng.choice((1, 1, 2))
    images, ins, outs = rng.randint(1, 2), groups * rng.randint(1, 2), groups * rng.randint(1, 3)
    sizes, kernel = tuple(rng.randint(4, 6) for _ in range(spatial)), tuple(rng.randint(1, 3) for _ in range(spatial))
    out = (images, outs, *(n - k + 1 for n, k in zip(sizes, kernel, strict=True)))
    return t.call(
        "aten.convolution.default", out, "float64", input=t.input("x", (images, ins, *sizes), "float64"),
        weight=t.input("w", (outs, ins // groups, *kernel), "float64"),
        bias=t.input("b", (outs,), "float64") if biased else None, stride=(1,) * spatial, padding=(0,) * spatial,
        dilation=(1,) * spatial, transposed=False, output_padding=(0,) * spatial, groups=groups,
    )  # fmt: skip


def by_channel(t: Terms, item: Id) -> Id:
    whole = t.shape(item)
    return t.input("s", (whole[1], *(1,) * (len(whole) - 2)), "float64")


def neutral(t: Terms, rng: random.Random) -> Id:
    name = rng.choice(("add", "sub", "mul", "div"))
    return t.binary(name, x(t, rng), 0.0 if name in ("add", "sub") else 1.0)


def one_of_rows(t: Terms, rng: random.Random, item: Id) -> Id:
    whole = t.shape(item)
    axis = rng.randrange(len(whole))
    other: EArg = 1.5
    if rng.random() < 0.7:
        other = t.input("c", tuple(1 if a == axis or rng.random() < 0.3 else n for a, n in enumerate(whole)), "float64")
    return softmax(t, t.binary(rng.choice(("add", "sub")), item, other), axis, rng.choice(("_softmax", "_log_softmax")))


def over_ones(t: Terms, rng: random.Random) -> Id:
    item = t.input("x", (*(rng.choice((1, 1, 3)) for _ in range(3)), 1), "float64")
    ones = tuple(a for a, n in enumerate(t.shape(item)) if n == 1)
    return t.reduce(rng.choice(("sum", "mean", "amax", "amin")), item, ones, keep=rng.random() < 0.5)


def twice_reduced(t: Terms, rng: random.Random) -> Id:
    name = rng.choice(("sum", "mean", "amax", "amin"))
    item = x(t, rng, 4)
    inner = t.reduce(name, item, axes(rng, 4)[:3], keep=rng.random() < 0.5)
    return reduced(t, rng, inner, name)


def scaled_sum(t: Terms, rng: random.Random) -> Id:
    item, kind = x(t, rng, 3), rng.randrange(3)
    gone = axes(rng, 3)
    name = rng.choice(("sum", "mean"))
    if kind == 0:
        return t.reduce(name, t.unary("neg", item), gone, keep=rng.random() < 0.5)
    if kind == 1:
        return t.reduce(name, t.binary(rng.choice(("mul", "div")), item, number(rng)), gone, keep=rng.random() < 0.5)
    by = t.input("c", tuple(1 if a in gone else n for a, n in enumerate(t.shape(item))), "float64")
    return t.reduce(name, t.mul(item, by), gone, keep=True)


def shifted_sum(t: Terms, rng: random.Random) -> Id:
    item = x(t, rng, 3)
    other: EArg = number(rng)
    if rng.random() < 0.7:
        drop = rng.randint(0, 2)
        other = t.input("c", tuple(1 if rng.random() < 0.4 else n for n in t.shape(item))[drop:], "float64")
    return reduced(t, rng, t.binary(rng.choice(("add", "sub")), item, other), "sum", "mean")


def rising(t: Terms, rng: random.Random) -> Id:
    item, kind = x(t, rng, 3), rng.randrange(3)
    if kind == 0:
        item = t.unary(rng.choice(("relu", "tanh", "sigmoid", "exp", "floor", "erf")), item)
    elif kind == 1:
        item = t.binary(rng.choice(("mul", "div", "add", "sub")), item, number(rng))
    else:
        item = t.clamp(item, -0.5, rng.choice((None, 0.7)))
    return reduced(t, rng, item, "amax", "amin")


def outer_products_summed(t: Terms, rng: random.Random) -> Id:
    m, k, n = (rng.randint(2, 5) for _ in range(3))
    order = rng.sample(range(3), 3)
    place = {order[0]: m, order[1]: k, order[2]: n}
    a = t.input("a", tuple(1 if axis == order[2] else place[axis] for axis in range(3)), "float64")
    b = t.input("b", tuple(1 if axis == order[0] else place[axis] for axis in range(3)), "float64")
    return t.sum(t.mul(a, b), (order[1],), keep=rng.random() < 0.5)


def in_bounds(t: Terms, rng: random.Random) -> Id:
    inner = t.unary(rng.choice(("sigmoid", "relu", "exp", "abs", "hardsigmoid")), x(t, rng))
    return rng.choice((t.unary("relu", inner), t.unary("abs", inner), t.clamp(inner, -0.5, None)))


def common(t: Terms, rng: random.Random) -> Id:
    m, k, n = (rng.randint(1, 5) for _ in range(3))
    name = rng.choice(("add", "sub"))
    if rng.random() < 0.5:
        a, b, c = (t.input(s, z, "float64") for s, z in (("a", (m, k)), ("b", (k, n)), ("c", (k, n))))
        return t.binary(name, t.mm(a, b), t.mm(a, c))
    a, b, c = (t.input(s, z, "float64") for s, z in (("a", (k, n)), ("b", (m, k)), ("c", (m, k))))
    return t.binary(name, t.mm(b, a), t.mm(c, a))


def scaled_columns(t: Terms, rng: random.Random) -> Id:
    product = t.mm(*matrices(t, rng, 2))
    rows, columns = t.shape(product)
    return t.mul(product, t.input("s", rng.choice(((columns,), (1, columns), (rows, 1))), "float64"))


def shifted_product(t: Terms, rng: random.Random) -> Id:
    a, b = matrices(t, rng, 2)
    return t.mm(t.add(a, t.input("r", rng.choice(((t.shape(a)[1],), (1, t.shape(a)[1]))), "float64")), b)


def added(t: Terms, rng: random.Random, *, together: bool) -> Id:
    a, b = matrices(t, rng, 2)
    rows, columns = t.shape(a)[0], t.shape(b)[1]
    c = t.input("c", rng.choice(((columns,), (rows, columns), (1, columns), (rows, 1), (1,))), "float64")
    if together:
        return t.addmm(c, a, b, beta=number(rng), alpha=number(rng))
    return t.add(t.mm(a, b), c) if rng.random() < 0.5 else t.add(c, t.mm(a, b))


def twice(t: Terms, item: Id) -> Id:
    return t.sub(item, item)


def diagonal(t: Terms, rng: random.Random) -> Id:
    n, m = rng.randint(1, 5), rng.randint(1, 5)
    d = t.call("aten.diag_embed.default", (n, n), "float64", self=t.input("d", (n,), "float64"), offset=0, dim1=-2,
               dim2=-1)  # fmt: skip
    return t.mm(d, t.input("b", (n, m), "float64")) if rng.random() < 0.5 else t.mm(t.input("b", (m, n), "float64"), d)


def constant(t: Terms, rng: random.Random) -> Id:
    item = t.full(shape(rng, 3), rng.choice((0.0, 0.5, 2.0)), "float64")
    kind = rng.randrange(4)
    if kind == 0:
        return reduced(t, rng, item, "sum", "mean", "amax", "amin")
    if kind == 1:
        return t.binary(rng.choice(("add", "sub", "mul", "div")), item, number(rng))
    if kind == 2:
        return t.unary(rng.choice(("sqrt", "exp", "sigmoid")), item)
    return t.unary("gelu", t.full(shape(rng, 2), 0.0, "float64"), approximate="none")


def dropped(t: Terms, rng: random.Random) -> Id:
    item = x(t, rng)
    return t.call("aten.dropout.default", t.shape(item), "float64", input=item, p=rng.choice((0.0, 0.5)), train=False)


def softmax_of_one_column(t: Terms, rng: random.Random) -> Id:
    return softmax(t, t.input("x", (rng.randint(1, 5), 1), "float64"), -1, rng.choice(("_softmax", "_log_softmax")))


def views(t: Terms, rng: random.Random) -> Id:
    item = t.input("x", (2, 3, 4), "float64")
    return t.view(t.view(item, (6, 4)), rng.choice(((24,), (2, 3, 4), (4, 6), (2, 12))))


def moved_ones(t: Terms, rng: random.Random) -> Id:
    item = t.input("x", rng.choice(((1, 3, 4), (3, 1, 4), (3, 4, 1))), "float64")
    return t.permute(item, rng.choice(((1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 2, 0), (2, 1, 0))))


def orders(t: Terms, rng: random.Random) -> Id:
    return t.permute(t.permute(x(t, rng, 3), tuple(rng.sample(range(3), 3))), tuple(rng.sample(range(3), 3)))


def reduced_order(t: Terms, rng: random.Random) -> Id:
    return reduced(t, rng, t.permute(x(t, rng, 3), tuple(rng.sample(range(3), 3))), "sum", "mean", "amax", "amin")


def scaled_factor(t: Terms, rng: random.Random) -> Id:
    if rng.random() < 0.5:
        a, b = matrices(t, rng, 2)
        return t.mm(t.mul(a, number(rng)), b) if rng.random() < 0.5 else t.mm(a, t.div(b, number(rng)))
    a, b = batches(t, rng, 2)
    return t.bmm(t.mul(a, number(rng)), b) if rng.random() < 0.5 else t.bmm(a, t.div(b, number(rng)))


def chained(t: Terms, rng: random.Random) -> Id:
    a, b, c = matrices(t, rng, 3)
    return t.mm(t.mm(a, b), c) if rng.random() < 0.5 else t.mm(a, t.mm(b, c))


def chained_batches(t: Terms, rng: random.Random) -> Id:
    a, b, c = batches(t, rng, 3)
    return t.bmm(t.bmm(a, b), c) if rng.random() < 0.5 else t.bmm(a, t.bmm(b, c))


def sum_of_product(t: Terms, rng: random.Random) -> Id:
    product = t.mm(*matrices(t, rng, 2)) if rng.random() < 0.5 else t.bmm(*batches(t, rng, 2))
    return reduced(t, rng, product, "sum", "mean")


def idempotent(t: Terms, rng: random.Random) -> Id:
    name = rng.choice(("relu", "abs", "floor", "ceil", "sign", "trunc"))
    return t.unary(name, t.unary(name, x(t, rng)))


PROGRAMS: dict[str, Make] = {
    "neutral number": neutral,
    "operands swapped": lambda t, rng: t.binary(
        rng.choice(("add", "mul")), x(t, rng, 2), t.input("y", (1,), "float64")
    ),
    "sign twice": lambda t, rng: t.unary("neg", t.unary("neg", x(t, rng))),
    "done twice": idempotent,
    "bounds within bounds": lambda t, rng: bounded(t, rng, bounded(t, rng, x(t, rng))),
    "bounds that always hold": in_bounds,
    "scale of a scale": lambda t, rng: t.div(t.mul(x(t, rng), number(rng)), number(rng)),
    "offset of an offset": lambda t, rng: t.sub(t.add(x(t, rng), number(rng)), number(rng)),
    "difference of equals": lambda t, rng: twice(t, x(t, rng, 2)),
    "work on a constant": constant,
    "order of an order": orders,
    "shape of a shape": views,
    "order of single elements": moved_ones,
    "logarithm of a softmax": lambda t, rng: t.unary("log", softmax(t, x(t, rng, 2), 1)),
    "softmax of shifted rows": lambda t, rng: one_of_rows(t, rng, x(t, rng, 3)),
    "softmax of one": softmax_of_one_column,
    "dropout in evaluation": dropped,
    "reduction over one element": over_ones,
    "axes kept by a view": lambda t, rng: t.reduce(rng.choice(("sum", "amax")), x(t, rng, 3), axes(rng, 3), keep=True),
    "reduction of a reduction": twice_reduced,
    "mean as a sum": lambda t, rng: reduced(t, rng, x(t, rng, 3), "mean"),
    "reduction of a scale": scaled_sum,
    "reduction of an offset": shifted_sum,
    "reduction through a product": sum_of_product,
    "reduction of a permutation": reduced_order,
    "extreme of a rising function": rising,
    "product and sum apart": lambda t, rng: added(t, rng, together=True),
    "product and sum together": lambda t, rng: added(t, rng, together=False),
    "chain from the other end": chained,
    "batched chain from the other end": chained_batches,
    "product of a shifted matrix": shifted_product,
    "common factor": common,
    "transpose of a product": lambda t, rng: t.permute(t.mm(*matrices(t, rng, 2)), (1, 0)),
    "scale out of a product": scaled_factor,
    "scale into a product": lambda t, rng: t.mul(sum_free_product(t, rng), number(rng)),
    "columns of a product scaled": scaled_columns,
    "product with a scaled identity": diagonal,
    "sum of products as a product": outer_products_summed,
    "batch norm as scale and offset": lambda t, rng: batch_norm(t, rng, x(t, rng, rng.randint(2, 4))),
    "channels of a convolution scaled": lambda t, rng: scaled_channels(t, rng),
    "channels of a convolution shifted": lambda t, rng: shifted_channels(t, rng),
    "division as a scale": lambda t, rng: t.div(x(t, rng), number(rng)),
}


def sum_free_product(t: Terms, rng: random.Random) -> Id:
    return t.mm(*matrices(t, rng, 2)) if rng.random() < 0.5 else t.bmm(*batches(t, rng, 2))


def scaled_channels(t: Terms, rng: random.Random) -> Id:
    made = convolution(t, rng, biased=rng.random() < 0.5)
    return t.mul(made, by_channel(t, made) if rng.random() < 0.7 else number(rng))


def shifted_channels(t: Terms, rng: random.Random) -> Id:
    made = convolution(t, rng, biased=rng.random() < 0.5)
    return t.binary(rng.choice(("add", "sub")), made, by_channel(t, made))
