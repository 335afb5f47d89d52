"""From operator calls to tensors: the reader, and the operators that are one value at a time.

Every reader of an operator is a function from a `Call` to one tensor or several. Arithmetic happens in the result's
dtype, except that half precisions are computed in float32 and rounded where they are stored.
Not here: views (read_views.py), reductions and normalisations (read_folds.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.experts import tensors as t
from kernelwright.graph import Arg, DtypeArg, Graph, Node, Ref, ResultSpec
from kernelwright.types import Dtype, Problem


class Unreadable(Exception):
    """An operator, or a use of one, that these experts do not know."""

    def __init__(self, subject: str, reason: str) -> None:
        super().__init__(subject, reason)
        self.subject = subject
        self.reason = reason


@dataclass(frozen=True)
class Call:
    """One operator call with its tensor arguments resolved."""

    node: Node
    arguments: dict[str, object]
    specs: dict[Ref, ResultSpec] = field(default_factory=dict)
    """Of every node's results so far."""

    def result(self, index: int = 0) -> ResultSpec:
        """Returns the spec of a result that is a tensor."""
        spec = self.node.results[index]
        if spec is None:
            raise Unreadable(self.node.op, f"no expert for {self.node.op} with a result that is not a tensor")
        return spec

    @property
    def dtype(self) -> Dtype:
        """The first result's dtype."""
        return self.result().dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The first result's shape."""
        return self.result().shape

    def given(self, name: str) -> object:
        """Returns an argument as it is, None where the operator has none of that name."""
        return self.arguments.get(name)

    def tensor(self, name: str) -> t.Tensor:
        """Returns an argument that is a tensor, or a number as a tensor of shape ()."""
        item = self.arguments.get(name)
        if isinstance(item, t.Tensor):
            return item
        if isinstance(item, bool | int | float):
            return literal(item)
        raise self.unknown(f"with {name}={item!r}")

    def optional(self, name: str) -> t.Tensor | None:
        """Returns a tensor argument, None where it was not given."""
        return None if self.arguments.get(name) is None else self.tensor(name)

    def whole(self, name: str, default: int = 0) -> int:
        """Returns an integer argument."""
        item = self.arguments.get(name)
        return default if item is None else int(item)  # type: ignore[call-overload]

    def real(self, name: str, default: float = 0.0) -> float:
        """Returns a number argument."""
        item = self.arguments.get(name)
        return default if item is None else float(item)  # type: ignore[arg-type]

    def wholes(self, name: str) -> tuple[int, ...]:
        """Returns an argument that is a list of integers, or one integer."""
        item = self.arguments.get(name)
        if item is None:
            return ()
        return tuple(int(i) for i in item) if isinstance(item, tuple) else (int(item),)  # type: ignore[call-overload]

    def unknown(self, what: str) -> Unreadable:
        """Returns the refusal of this use of the operator."""
        return Unreadable(self.node.op, f"no expert for {self.node.op} {what}")


Read = Callable[[Call], "t.Tensor | tuple[t.Tensor, ...]"]


def literal(item: bool | int | float) -> t.Number:
    """Returns a number with the dtype that PyTorch gives it."""
    if isinstance(item, bool):
        return t.number(item, "bool")
    return t.number(item, "int64" if isinstance(item, int) else "float32")


def promoted(*args: t.Tensor) -> Dtype:
    """Returns the dtype in which tensors are compared: the widest of the highest category; numbers adapt."""
    ranks = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    firm = [a.dtype for a in args if a.shape != () or not isinstance(a, t.Number)]
    loose = [a.dtype for a in args if a.dtype not in firm]
    top = max(firm or loose, key=ranks.index)
    for dtype in loose:
        if dtype in t.FLOATS and top not in t.FLOATS:
            top = "float32"
        elif top == "bool":
            top = dtype
    return top


def to(arg: t.Tensor, dtype: Dtype) -> t.Tensor:
    """Returns a tensor in a dtype; numbers are converted here."""
    if isinstance(arg, t.Number) and arg.shape == ():
        if dtype in t.FLOATS:
            return t.number(float(arg.value), dtype)
        if dtype == "bool":
            return t.number(bool(arg.value), dtype)
        return t.number(int(arg.value), dtype) if math.isfinite(arg.value) else t.cast(arg, dtype)
    return t.cast(arg, dtype)


def op(name: str, *args: t.Tensor) -> t.Tensor:
    """Returns a float operation in the dtype of its first operand that is not a number."""
    dtype = next((a.dtype for a in args if not isinstance(a, t.Number)), args[0].dtype)
    return t.pointwise(name, *(to(a, dtype) for a in args), dtype=dtype)


def num(value: float) -> t.Number:
    """Returns a number that adapts to what it meets in `op`."""
    return t.number(value, "float32")


def choose(condition: t.Tensor, yes: t.Tensor, no: t.Tensor) -> t.Tensor:
    """Returns `yes` where the condition holds, else `no`."""
    dtype = promoted(yes, no)
    return t.pointwise("select", condition, to(yes, dtype), to(no, dtype), dtype=dtype)


def compare(name: str, a: t.Tensor, b: t.Tensor) -> t.Tensor:
    """Returns a comparison, bool."""
    dtype = promoted(a, b)
    return t.pointwise(name, to(a, dtype), to(b, dtype), dtype="bool")


# ----------------------------------------------------------------------------- readers


def unary(name: str) -> Read:
    """Returns the reader of an operator that is one operation in the result's dtype."""
    return lambda c: t.pointwise(name, to(c.tensor("self"), c.dtype), dtype=c.dtype)


def binary(name: str) -> Read:
    """Returns the reader of `name(self, other)` in the result's dtype."""
    return lambda c: t.pointwise(name, to(c.tensor("self"), c.dtype), to(c.tensor("other"), c.dtype), dtype=c.dtype)


def comparison(name: str) -> Read:
    """Returns the reader of a comparison of `self` and `other`."""
    return lambda c: compare(name, c.tensor("self"), c.tensor("other"))


def logical(name: str) -> Read:
    """Returns the reader of a logical operation: operands become bool first."""
    return lambda c: t.pointwise(name, *(to(c.tensor(a), "bool") for a in ("self", "other")), dtype="bool")


def read_sum(name: str) -> Read:
    """Returns the reader of add or sub, with their `alpha`."""

    def read(c: Call) -> t.Tensor:
        a, b = to(c.tensor("self"), c.dtype), to(c.tensor("other"), c.dtype)
        alpha = c.given("alpha")
        if isinstance(alpha, int | float) and alpha != 1:
            b = t.pointwise("mul", b, to(literal(alpha), c.dtype), dtype=c.dtype)
        if c.dtype == "bool":
            return t.pointwise("or", a, b, dtype="bool")
        return t.pointwise(name, a, b, dtype=c.dtype)

    return read


def read_div(c: Call) -> t.Tensor:
    """Reads true, floor and truncating division."""
    mode = c.given("rounding_mode")
    a, b = to(c.tensor("self"), c.dtype), to(c.tensor("other"), c.dtype)
    if c.dtype not in t.FLOATS:
        if mode is None:
            raise c.unknown("on integers without rounding")
        return t.pointwise("floor_div" if mode == "floor" else "div", a, b, dtype=c.dtype)
    quotient = t.pointwise("div", a, b, dtype=c.dtype)
    if mode is None:
        return quotient
    return t.pointwise("floor" if mode == "floor" else "trunc", quotient, dtype=c.dtype)


def read_pow(c: Call) -> t.Tensor:
    """Reads powers; the exponents that PyTorch itself treats apart are written out."""
    base, power = to(c.tensor("self"), c.dtype), c.tensor("exponent")
    if isinstance(power, t.Number):
        value = float(power.value)
        if value in (2.0, 3.0, 4.0):
            square = op("mul", base, base)
            return {2.0: square, 3.0: op("mul", square, base), 4.0: op("mul", square, square)}[value]
        if value == 1.0:
            return base
        if c.dtype in t.FLOATS and value in (0.5, -0.5, -1.0, -2.0):
            if value == -2.0:
                return op("reciprocal", op("mul", base, base))
            return op({0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}[value], base)
    if c.dtype not in t.FLOATS:
        raise c.unknown("on integers with this exponent")
    return t.pointwise("pow", base, to(power, c.dtype), dtype=c.dtype)


def read_clamp(c: Call) -> t.Tensor:
    """Reads clamp, clamp_min, clamp_max and hardtanh."""
    x = to(c.tensor("self"), c.dtype)
    low = c.given("min") if c.given("min") is not None else c.given("min_val")
    high = c.given("max") if c.given("max") is not None else c.given("max_val")
    for name, bound in (("max", low), ("min", high)):
        if bound is not None:
            limit = bound if isinstance(bound, t.Tensor) else literal(bound)  # type: ignore[arg-type]
            x = t.pointwise(name, x, to(limit, c.dtype), dtype=c.dtype)
    return x


def read_gelu(c: Call) -> t.Tensor:
    """Reads both forms of GELU, with PyTorch's constants."""
    x = c.tensor("self")
    if c.given("approximate") == "tanh":
        inner = op(
            "mul", op("add", op("mul", op("mul", op("mul", x, x), x), num(0.044715)), x), num(0.7978845608028654)
        )
        return op("mul", op("mul", x, num(0.5)), op("add", op("tanh", inner), num(1.0)))
    return op("mul", op("mul", x, num(0.5)), op("add", op("erf", op("mul", x, num(0.7071067811865476))), num(1.0)))


def read_elu(c: Call) -> t.Tensor:
    """Reads ELU and what is made of it (SELU, CELU)."""
    x, alpha, scale, inside = c.tensor("self"), c.real("alpha", 1.0), c.real("scale", 1.0), c.real("input_scale", 1.0)
    scaled = x if inside == 1.0 else op("mul", x, num(inside))
    negative = op("mul", op("expm1", scaled), num(alpha * scale))
    return choose(compare("gt", x, num(0.0)), x if scale == 1.0 else op("mul", x, num(scale)), negative)


def read_leaky_relu(c: Call) -> t.Tensor:
    """Reads leaky_relu."""
    x = c.tensor("self")
    return choose(compare("gt", x, num(0.0)), x, op("mul", x, num(c.real("negative_slope", 0.01))))


def read_softplus(c: Call) -> t.Tensor:
    """Reads softplus with its linear part."""
    x, beta = c.tensor("self"), c.real("beta", 1.0)
    scaled = x if beta == 1.0 else op("mul", x, num(beta))
    soft = op("log1p", op("exp", scaled))
    soft = soft if beta == 1.0 else op("div", soft, num(beta))
    return choose(compare("gt", scaled, num(c.real("threshold", 20.0))), x, soft)


def read_silu(c: Call) -> t.Tensor:
    """Reads SiLU as x / (1 + exp(-x)): one division less than x times sigmoid."""
    x = c.tensor("self")
    return op("div", x, op("add", op("exp", op("neg", x)), num(1.0)))


def read_hard(c: Call) -> t.Tensor:
    """Reads hardswish and hardsigmoid."""
    x = c.tensor("self")
    ramp = op("min", op("max", op("add", x, num(3.0)), num(0.0)), num(6.0))
    if "swish" in c.node.op:
        ramp = op("mul", x, ramp)
    return op("div", ramp, num(6.0))


def read_where(c: Call) -> t.Tensor:
    """Reads where and masked_fill."""
    if "masked_fill" in c.node.op:
        condition, yes, no = c.tensor("mask"), c.tensor("value"), c.tensor("self")
    else:
        condition, yes, no = c.tensor("condition"), c.tensor("self"), c.tensor("other")
    return t.pointwise("select", to(condition, "bool"), to(yes, c.dtype), to(no, c.dtype), dtype=c.dtype)


def read_remainder(c: Call) -> t.Tensor:
    """Reads Python's remainder, whose sign is the divisor's."""
    a, b = to(c.tensor("self"), c.dtype), to(c.tensor("other"), c.dtype)
    if c.dtype not in t.FLOATS:
        return t.pointwise("sub", a, op("mul", op("floor_div", a, b), b), dtype=c.dtype)
    r = op("fmod", a, b)
    wrong = t.pointwise("and", compare("ne", r, num(0.0)), differs(r, b), dtype="bool")
    return choose(wrong, op("add", r, b), r)


def differs(a: t.Tensor, b: t.Tensor) -> t.Tensor:
    """Returns whether the signs of two tensors differ."""
    return t.pointwise("xor", compare("lt", a, num(0.0)), compare("lt", b, num(0.0)), dtype="bool")


def read_not(c: Call) -> t.Tensor:
    """Reads logical_not and bitwise_not."""
    x = c.tensor("self")
    if "logical" in c.node.op:
        x = to(x, "bool")
    return t.pointwise("not", x, dtype=x.dtype)


def read_same(c: Call) -> t.Tensor:
    """Reads what does not change a value: clone, alias, detach, lift_fresh_copy."""
    return c.tensor("self")


def read_cast(c: Call) -> t.Tensor:
    """Reads _to_copy; the result spec already says the dtype."""
    return to(c.tensor("self"), c.dtype)


def read_full(c: Call) -> t.Tensor:
    """Reads full, scalar_tensor and their kin."""
    value = next((c.given(name) for name in ("fill_value", "s", "value") if c.given(name) is not None), None)
    if value is None:
        value = {"zeros": 0, "zeros_like": 0, "ones": 1, "ones_like": 1}.get(c.node.op.split(".")[1])
    item = value if isinstance(value, t.Tensor) else literal(value)  # type: ignore[arg-type]
    return t.expand(to(item, c.dtype), c.shape)


def read_arange(c: Call) -> t.Tensor:
    """Reads arange with integer steps."""
    start, step = c.given("start") or 0, c.given("step") or 1
    if not isinstance(start, int) or not isinstance(step, int):
        raise c.unknown("with steps that are not integers")
    return to(t.Counter(shape=c.shape, dtype="int64", start=start, step=step), c.dtype)


def read_addcmul(c: Call) -> t.Tensor:
    """Reads addcmul and addcdiv."""
    inner = "div" if "addcdiv" in c.node.op else "mul"
    parts = [to(c.tensor(name), c.dtype) for name in ("self", "tensor1", "tensor2")]
    product = op(inner, parts[1], parts[2])
    value = c.real("value", 1.0)
    return op("add", parts[0], product if value == 1.0 else op("mul", product, num(value)))


POINTWISE: dict[str, Read] = {
    **{
        f"aten.{n}": unary(n)
        for n in ("exp", "expm1", "log", "log1p", "log2", "log10", "exp2", "tanh", "sigmoid", "erf")
    },
    **{f"aten.{n}": unary(n) for n in ("erfc", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "sqrt")},
    **{f"aten.{n}": unary(n) for n in ("rsqrt", "reciprocal", "abs", "neg", "sign", "floor", "ceil", "trunc", "round")},
    **{f"aten.{n}": comparison(n) for n in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{f"aten.logical_{n}": logical(n) for n in ("and", "or", "xor")},
    **{f"aten.bitwise_{n}": binary(n) for n in ("and", "or", "xor")},
    **{f"aten.{n}": read_same for n in ("clone", "alias", "detach", "lift_fresh_copy", "contiguous", "dropout")},
    **{
        f"aten.{n}": read_full
        for n in ("full", "scalar_tensor", "full_like", "zeros", "ones", "zeros_like", "ones_like")
    },
    **{f"aten.{n}": read_clamp for n in ("clamp", "clamp_min", "clamp_max", "hardtanh")},
    "aten.relu": lambda c: t.pointwise("max", c.tensor("self"), to(literal(0), c.dtype), dtype=c.dtype),
    "aten.square": lambda c: op("mul", c.tensor("self"), c.tensor("self")),
    "aten.isnan": lambda c: compare("ne", c.tensor("self"), c.tensor("self")),
    "aten.isinf": lambda c: compare("eq", op("abs", c.tensor("self")), num(math.inf)),
    "aten.add": read_sum("add"),
    "aten.sub": read_sum("sub"),
    "aten.rsub": lambda c: t.pointwise(
        "sub", to(c.tensor("other"), c.dtype), to(c.tensor("self"), c.dtype), dtype=c.dtype
    ),
    "aten.mul": lambda c: binary("and" if c.dtype == "bool" else "mul")(c),
    "aten.div": read_div,
    "aten.pow": read_pow,
    "aten.maximum": binary("max"),
    "aten.minimum": binary("min"),
    "aten.fmod": binary("fmod"),
    "aten.atan2": binary("atan2"),
    "aten.remainder": read_remainder,
    "aten.gelu": read_gelu,
    "aten.silu": read_silu,
    "aten.elu": read_elu,
    "aten.leaky_relu": read_leaky_relu,
    "aten.softplus": read_softplus,
    "aten.hardswish": read_hard,
    "aten.hardsigmoid": read_hard,
    "aten.where": read_where,
    "aten.masked_fill": read_where,
    "aten.logical_not": read_not,
    "aten.bitwise_not": read_not,
    "aten._to_copy": read_cast,
    "prims.convert_element_type": read_cast,
    "aten.arange": read_arange,
    "aten.addcmul": read_addcmul,
    "aten.addcdiv": read_addcmul,
}


def read_graph(problem: Problem, graph: Graph, table: dict[str, Read]) -> tuple[t.Tensor, ...]:
    """Returns the graph's outputs as tensors.

    Args:
        table: readers by operator name without overload, such as `aten.add`.

    Raises:
        Unreadable: for an operator that has no reader, by its name.
    """
    known: dict[tuple[str, int], t.Tensor] = {}
    for spec in problem.inputs + problem.parameters:
        known[spec.name, 0] = t.Source(shape=spec.shape, dtype=spec.dtype, name=spec.name)
    for constant in graph.constants:
        known[constant.name, 0] = read_constant(constant.name, constant.shape, constant.dtype, constant.values)

    def resolve(arg: Arg) -> object:
        if isinstance(arg, Ref):
            if (arg.name, arg.index) not in known:
                raise Unreadable(arg.name, f"result {arg.index} of {arg.name} is not something that experts compute")
            return known[arg.name, arg.index]
        if isinstance(arg, tuple):
            return tuple(resolve(item) for item in arg)
        return arg.name if isinstance(arg, DtypeArg) else arg

    specs: dict[Ref, ResultSpec] = {}
    for node in graph.nodes:
        base = ".".join(node.op.split(".")[:2])
        if base not in table:
            raise Unreadable(node.op, f"no expert for {node.op}")
        call = Call(node=node, arguments={name: resolve(arg) for name, arg in node.arguments}, specs=specs)
        specs |= {Ref(name=node.name, index=i): spec for i, spec in enumerate(node.results) if spec is not None}
        result = table[base](call)
        for index, tensor in enumerate(result if isinstance(result, tuple) else (result,)):
            known[node.name, index] = t.expand(tensor, call.result(index).shape)
    return tuple(resolve(ref) for ref in graph.outputs)  # type: ignore[misc]


def read_constant(name: str, shape: tuple[int, ...], dtype: Dtype, values: tuple[float | int | bool, ...]) -> t.Tensor:
    """Returns a literal: a number where all its elements are equal, else a table."""
    if len(set(values)) == 1:
        return t.expand(t.number(values[0], dtype), shape)
    return t.Table(shape=shape, dtype=dtype, name=name, values=values)
