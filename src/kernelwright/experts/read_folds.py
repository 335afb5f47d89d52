"""Readers of reductions, normalisations, softmaxes, losses and scans: written in folds and pointwise operations."""

from __future__ import annotations

import math

from kernelwright.experts import tensors as t
from kernelwright.experts.fold_parts import part_of
from kernelwright.experts.read import Call, Read, choose, compare, num, op, to
from kernelwright.experts.read_views import reshape

LONG_ROW = 8192
"""Elements from which on a mean that is subtracted is summed in double."""


def axes_of(c: Call, arg: t.Tensor) -> tuple[int, ...]:
    """Returns the reduced axes; none given means all."""
    given = c.wholes("dim")
    return (
        tuple(sorted({axis % len(arg.shape) for axis in given}))
        if given and arg.shape
        else tuple(range(len(arg.shape)))
    )


def count_of(arg: t.Tensor, axes: tuple[int, ...]) -> int:
    """Returns how many elements each reduction takes in."""
    return math.prod(arg.shape[axis] for axis in axes)


def mean_of(x: t.Tensor, axes: tuple[int, ...], *, keep: bool) -> t.Tensor:
    """Returns the mean; NaN over nothing."""
    count = count_of(x, axes)
    total = t.fold("sum", x, axes, keep=keep)
    return op("mul", total, num(1.0 / count)) if count & (count - 1) == 0 else op("div", total, num(float(count)))


def read_plain(kind: t.FoldKind) -> Read:
    """Returns the reader of a fold in the result's dtype."""

    def read(c: Call) -> t.Tensor:
        x = to(c.tensor("self"), c.dtype)
        return t.fold(kind, x, axes_of(c, x), keep=bool(c.given("keepdim")))

    return read


def read_product(c: Call) -> t.Tensor:
    """Reads prod; floats are multiplied in float64, as PyTorch does on the CPU."""
    x = to(c.tensor("self"), c.dtype)
    wide = "float64" if c.dtype in t.FLOATS else c.dtype
    return to(t.fold("product", to(x, wide), axes_of(c, x), keep=bool(c.given("keepdim"))), c.dtype)


def read_mean(c: Call) -> t.Tensor:
    """Reads mean."""
    x = to(c.tensor("self"), c.dtype)
    return mean_of(x, axes_of(c, x), keep=bool(c.given("keepdim")))


def read_truth(kind: t.FoldKind) -> Read:
    """Returns the reader of any or all."""

    def read(c: Call) -> t.Tensor:
        x = to(c.tensor("self"), "bool")
        return t.fold(kind, x, axes_of(c, x), keep=bool(c.given("keepdim")))

    return read


def read_extreme(kind: t.FoldKind) -> Read:
    """Returns the reader of max.dim, min.dim, max.default and min.default."""

    def read(c: Call) -> t.Tensor | tuple[t.Tensor, ...]:
        x = c.tensor("self")
        if c.given("dim") is None:
            return t.fold(kind, x, tuple(range(len(x.shape))))
        if not x.shape:
            return x, to(num(0), "int64")
        axes, keep = (c.whole("dim"),), bool(c.given("keepdim"))
        place = t.fold("argmax" if kind == "max" else "argmin", x, axes, keep=keep, dtype="int64")
        return t.fold(kind, x, axes, keep=keep), place

    return read


def read_arg(kind: t.FoldKind) -> Read:
    """Returns the reader of argmax or argmin, also over the flattened tensor."""

    def read(c: Call) -> t.Tensor:
        x, dim = c.tensor("self"), c.given("dim")
        if dim is None:
            x = reshape(x, (x.size,))
        place = t.fold(kind, x, (c.whole("dim"),), keep=bool(c.given("keepdim")), dtype="int64")
        return reshape(place, c.shape)

    return read


def centred(x: t.Tensor, axes: tuple[int, ...]) -> tuple[t.Tensor, t.Tensor, t.Tensor]:
    """Returns the mean, x less its mean, and the sum of its squares; reduced axes are kept."""
    count = count_of(x, axes)
    if axes == tuple(range(len(axes))) and len(axes) < len(x.shape):
        part = part_of(1, x.shape[: len(axes)], x.size // max(1, count))
        if part != count:
            return centred_in_parts(x, len(axes), part)
    if count >= LONG_ROW and len(x.shape) - 1 in {axis % len(x.shape) for axis in axes} and x.dtype != "float64":
        # An error of the mean moves every element: over many elements it is worth summing in double.
        total = t.fold("sum", x, axes, keep=True, dtype="float64")
        mean = to(op("div", total, t.number(float(count), "float64")), x.dtype)
    else:
        mean = mean_of(x, axes, keep=True)
    rest = op("sub", x, mean)
    return mean, rest, t.fold("sum", op("mul", rest, rest), axes, keep=True)


def centred_in_parts(x: t.Tensor, leading: int, part: int) -> tuple[t.Tensor, t.Tensor, t.Tensor]:
    """Returns what `centred` does of some leading axes, whose elements are read once: part by part.

    Each part's squares are about its own mean, and moved to the whole's by the distance of the means (Chan, Golub and
    LeVeque, 1979, for parts of one size).
    """
    rest_shape = x.shape[leading:]
    count = math.prod(x.shape[:leading])
    cut = reshape(x, (count // part, part, *rest_shape))
    means = mean_of(cut, (1,), keep=True)
    inside = op("sub", cut, means)
    squares = t.fold("sum", op("mul", inside, inside), (1,), keep=True)
    mean = mean_of(means, (0,), keep=True)
    apart = op("sub", means, mean)
    moved = op("add", squares, op("mul", op("mul", apart, apart), num(float(part))))
    kept = (*(1,) * leading, *rest_shape)
    whole = reshape(mean, kept)
    return whole, op("sub", x, whole), reshape(t.fold("sum", moved, (0,), keep=True), kept)


def without_axes(x: t.Tensor, axes: tuple[int, ...], *, keep: bool) -> t.Tensor:
    """Returns a tensor whose reduced axes (of extent 1) are dropped unless they are to be kept."""
    return x if keep else reshape(x, tuple(n for axis, n in enumerate(x.shape) if axis not in axes))


def read_var(c: Call) -> t.Tensor | tuple[t.Tensor, ...]:
    """Reads var, std and var_mean with any correction: two passes, as accurate as Welford's method."""
    x = to(c.tensor("self"), c.dtype)
    axes, keep = axes_of(c, x), bool(c.given("keepdim"))
    given = c.given("correction")
    freedom = count_of(x, axes) - (1.0 if given is None else float(given))  # type: ignore[arg-type]
    mean, _, squares = centred(x, axes)
    var = op("mul", squares, num(math.nan)) if freedom <= 0 else op("div", squares, num(freedom))
    if freedom <= 0 and count_of(x, axes) > 1:
        var = op("div", squares, num(0.0))
    if "std" in c.node.op:
        var = op("sqrt", var)
    var = without_axes(var, axes, keep=keep)
    return (var, without_axes(running_mean(mean, squares), axes, keep=keep)) if "mean" in c.node.op else var


def running_mean(mean: t.Tensor, squares: t.Tensor) -> t.Tensor:
    """Returns the mean as Welford's method, PyTorch's, gives it: NaN once an infinity was met."""
    return choose(compare("eq", squares, squares), mean, num(math.nan))


def read_layer_norm(c: Call) -> tuple[t.Tensor, ...]:
    """Reads native_layer_norm with its mean and reciprocal deviation."""
    x, weight, bias = c.tensor("input"), c.optional("weight"), c.optional("bias")
    rank = len(c.wholes("normalized_shape"))
    axes = tuple(range(len(x.shape) - rank, len(x.shape)))
    mean, rest, squares = centred(x, axes)
    scale = op("rsqrt", op("add", op("div", squares, num(float(count_of(x, axes)))), num(c.real("eps"))))
    y = op("mul", rest, scale)
    y = y if weight is None else op("mul", y, to(weight, x.dtype))
    return (y if bias is None else op("add", y, to(bias, x.dtype))), running_mean(mean, squares), scale


def read_rms_norm(c: Call) -> t.Tensor | tuple[t.Tensor, ...]:
    """Reads the fused RMS norm, where it is not decomposed."""
    x, weight = c.tensor("input"), c.optional("weight")
    rank = len(c.wholes("normalized_shape"))
    axes = tuple(range(len(x.shape) - rank, len(x.shape)))
    eps = c.given("eps")
    small = float(eps) if isinstance(eps, int | float) else {"float64": 2.0**-52}.get(x.dtype, 2.0**-23)
    scale = op("rsqrt", op("add", mean_of(op("mul", x, x), axes, keep=True), num(small)))
    y = op("mul", x, scale)
    y = y if weight is None else op("mul", y, to(weight, x.dtype))
    return (y, scale) if len(c.node.results) > 1 else y


def read_group_norm(c: Call) -> tuple[t.Tensor, ...]:
    """Reads native_group_norm; the affine part is by channel."""
    x, weight, bias = c.tensor("input"), c.optional("weight"), c.optional("bias")
    images, channels, groups = c.whole("N"), c.whole("C"), c.whole("group")
    grouped = reshape(x, (images, groups, x.size // (images * groups)))
    mean, rest, squares = centred(grouped, (2,))
    scale = op("rsqrt", op("add", op("div", squares, num(float(grouped.shape[2]))), num(c.real("eps"))))
    y = reshape(op("mul", rest, scale), x.shape)
    column = (channels, *(1,) * (len(x.shape) - 2))
    y = y if weight is None else op("mul", y, reshape(to(weight, x.dtype), column))
    y = y if bias is None else op("add", y, reshape(to(bias, x.dtype), column))
    return y, reshape(mean, (images, groups)), reshape(scale, (images, groups))


def read_batch_norm(c: Call) -> tuple[t.Tensor, ...]:
    """Reads batch norm in inference: the running statistics are given."""
    x = c.tensor("input")
    column = (-1, *(1,) * (len(x.shape) - 2))

    def by_channel(arg: t.Tensor) -> t.Tensor:
        return reshape(to(arg, x.dtype), (arg.size, *column[1:]))

    scale = op("rsqrt", op("add", by_channel(c.tensor("running_var")), num(c.real("eps"))))
    weight, bias = c.optional("weight"), c.optional("bias")
    y = op("mul", op("sub", x, by_channel(c.tensor("running_mean"))), scale)
    y = y if weight is None else op("mul", y, by_channel(weight))
    y = y if bias is None else op("add", y, by_channel(bias))
    return (y,)


def read_batch_statistics(c: Call) -> tuple[t.Tensor, ...]:
    """Reads batch norm that uses its own batch's statistics and keeps none, as instance norm does."""
    x = c.tensor("input")
    axes = (0, *range(2, len(x.shape)))
    mean, rest, squares = centred(x, axes)
    column = (x.shape[1], *(1,) * (len(x.shape) - 2))
    scale = op("rsqrt", op("add", op("div", squares, num(float(count_of(x, axes)))), num(c.real("eps"))))
    y, weight, bias = op("mul", rest, scale), c.optional("weight"), c.optional("bias")
    y = y if weight is None else op("mul", y, reshape(to(weight, x.dtype), column))
    y = y if bias is None else op("add", y, reshape(to(bias, x.dtype), column))
    return y, reshape(mean, (x.shape[1],)), reshape(scale, (x.shape[1],))


def read_softmax(c: Call) -> t.Tensor:
    """Reads _softmax and _log_softmax."""
    x = to(c.tensor("self"), c.dtype)
    if not x.shape:
        return op("sub", x, x) if "log" in c.node.op else op("div", op("exp", op("sub", x, x)), num(1.0))
    axes = (c.whole("dim"),)
    rest = op("sub", x, t.fold("max_of_exp", x, axes, keep=True))
    powers = op("exp", rest)
    total = t.fold("sum", powers, axes, keep=True)
    return op("sub", rest, op("log", total)) if "log" in c.node.op else op("mul", powers, op("reciprocal", total))


def read_norm(c: Call) -> t.Tensor:
    """Reads linalg_vector_norm for every order."""
    x = op("abs", to(c.tensor("self"), c.dtype))
    axes, keep, order = axes_of(c, x), bool(c.given("keepdim")), c.real("ord", 2.0)
    if math.isinf(order):
        return t.fold("max" if order > 0 else "min", x, axes, keep=keep)
    if order == 0.0:
        return t.fold("sum", to(compare("ne", x, num(0.0)), c.dtype), axes, keep=keep)
    if order == 1.0:
        return t.fold("sum", x, axes, keep=keep)
    if order == 2.0:
        return op("sqrt", t.fold("sum", op("mul", x, x), axes, keep=keep))
    return op("pow", t.fold("sum", op("pow", x, num(order)), axes, keep=keep), num(1.0 / order))


def read_scan(kind: str) -> Read:
    """Returns the reader of cumsum or cumprod."""

    def read(c: Call) -> t.Tensor:
        x = to(c.tensor("self"), c.dtype)
        if not x.shape:
            return x
        axis = c.whole("dim") % len(x.shape)
        return t.Scan(shape=x.shape, dtype=c.dtype, kind="sum" if kind == "sum" else "product", arg=x, axis=axis)

    return read


def read_nll_loss(c: Call) -> tuple[t.Tensor, ...]:
    """Reads nll_loss_forward without class weights."""
    x, target = c.tensor("self"), c.tensor("target")
    if c.given("weight") is not None or len(x.shape) != 2:
        raise c.unknown("with class weights")
    ignored = compare("eq", target, to(num(c.whole("ignore_index", -100)), "int64"))
    safe = choose(ignored, to(num(0), "int64"), target)
    picked = t.Taken(
        shape=target.shape, dtype=x.dtype, arg=x, where=safe, where_index=lambda place: place,
        index=lambda place, found: (place[0], found), limit=x.shape[1], wraps=False,
    )  # fmt: skip
    loss = choose(ignored, to(num(0.0), x.dtype), op("neg", picked))
    counted = t.fold("sum", to(compare("eq", to(ignored, "int64"), to(num(0), "int64")), x.dtype), (0,))
    reduction = c.whole("reduction", 1)
    if reduction == 0:
        return loss, to(num(0.0), x.dtype)
    total = t.fold("sum", loss, (0,))
    return (op("div", total, counted) if reduction == 1 else total), counted


FOLDS: dict[str, Read] = {
    "aten.sum": read_plain("sum"),
    "aten.prod": read_product,
    "aten.amax": read_plain("max"),
    "aten.amin": read_plain("min"),
    "aten.mean": read_mean,
    "aten.any": read_truth("any"),
    "aten.all": read_truth("all"),
    "aten.max": read_extreme("max"),
    "aten.min": read_extreme("min"),
    "aten.argmax": read_arg("argmax"),
    "aten.argmin": read_arg("argmin"),
    **{f"aten.{n}": read_var for n in ("var", "std", "var_mean", "std_mean")},
    "aten.linalg_vector_norm": read_norm,
    "aten.native_layer_norm": read_layer_norm,
    "aten._fused_rms_norm": read_rms_norm,
    "aten.rms_norm": read_rms_norm,
    "aten.native_group_norm": read_group_norm,
    "aten._native_batch_norm_legit_no_training": read_batch_norm,
    "aten._native_batch_norm_legit": read_batch_statistics,
    "aten._softmax": read_softmax,
    "aten._log_softmax": read_softmax,
    "aten.cumsum": read_scan("sum"),
    "aten.cumprod": read_scan("product"),
    "aten.nll_loss_forward": read_nll_loss,
}
