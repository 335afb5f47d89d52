"""Pointwise chains around a core operation: from graph nodes to an expression, from that to C++ on vectors.

The core's own result is one more leaf, so that what follows it in the graph runs on registers. Views between
the operations are pushed down to the leaves. Not here: which chains an expert accepts, loops and stores.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isinf, isnan

from kernelwright.experts.kernel import pointer
from kernelwright.experts.views import VIEW_OPS, View, Wiring, apply, expand, reshape, whole
from kernelwright.graph import Arg, Node, Ref
from kernelwright.types import replace, value

IOTA = "@iota"
"""Base of a view whose elements are their own offsets."""


class Unsupported(Exception):
    """A chain that cannot be emitted; the message names the operator. Never leaves the experts."""


@value
class Leaf:
    """Elements that are read: of a tensor, of the core's result, or of the whole numbers."""

    view: View
    dtype: str


@value
class Literal:
    """One number for all elements."""

    number: float | int | bool
    dtype: str


@value
class Operation:
    """One operation of VECTORS on each element; how a language spells it is the printer's matter."""

    op: str
    operands: tuple[Expression, ...]
    dtype: str


Expression = Leaf | Literal | Operation

FLOAT = "float32"
HALVES = ("float16", "bfloat16")
UNARY = frozenset(
    ("relu", "sigmoid", "tanh", "neg", "exp", "abs", "sqrt", "rsqrt", "log", "log1p", "erf", "reciprocal", "silu")
)
BINARY = ("mul", "div", "maximum", "minimum")
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
LOGIC = {"logical_and": "and", "logical_or": "or", "bitwise_and": "and", "bitwise_or": "or", "logical_xor": "xor"}
VECTORS = {
    "relu": "kw::maximum({0}, kw::broadcast<V>(0.0f))", "sigmoid": "kw::sigmoid({0})", "tanh": "kw::tanh({0})",
    "neg": "(-{0})", "exp": "kw::exp({0})", "abs": "kw::abs({0})", "sqrt": "kw::sqrt({0})",
    "rsqrt": "kw::rsqrt({0})", "log": "kw::log({0})", "log1p": "kw::log1p({0})", "erf": "kw::erf({0})",
    "reciprocal": "(1.0f / {0})", "silu": "({0} * kw::sigmoid({0}))", "square": "({0} * {0})",
    "gelu": "({0} * 0.5f * (1.0f + kw::erf({0} * 0.70710678f)))",
    "gelu_tanh": "({0} * 0.5f * (1.0f + kw::tanh(0.79788456f * ({0} + 0.044715f * {0} * {0} * {0}))))",
    "leaky_relu": "kw::select(kw::to_mask({0} > 0.0f), {0}, {0} * {1})",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "div": "({0} / {1})",
    "maximum": "kw::maximum({0}, {1})", "minimum": "kw::minimum({0}, {1})", "scaled_shift": "({0} * {1} + {2})",
    **{name: f"kw::to_mask({{0}} {sign} {{1}})" for name, sign in COMPARE.items()},
    "and": "({0} & {1})", "or": "({0} | {1})", "xor": "({0} ^ {1})", "not": "(~{0})",
    "select": "kw::select({0}, {1}, {2})", "to_float": "kw::convert<float>({0})",
    "truth": "kw::select({0}, kw::broadcast<V>(1.0f), kw::broadcast<V>(0.0f))",
}  # fmt: skip
"""Every operation as C++ on vectors, with {0}, {1} ... for the operands; V stands for the float vector type."""


def literal(number: float | int | bool, dtype: str = FLOAT) -> Literal:
    """Returns a literal, as a float where the dtype is one."""
    return Literal(number=float(number) if dtype == FLOAT else number, dtype=dtype)


class Reader:
    """Turns graph nodes into expressions over the leaves, and keeps the names of the nodes it went through.

    Args:
        wiring: the problem and graph.
        core: names of nodes whose results are leaves.
    """

    def __init__(self, wiring: Wiring, *cores: str) -> None:
        self.wiring = wiring
        self.cores = frozenset(cores)
        self.used: set[str] = set()

    def read(self, ref: Ref) -> Expression:
        """Returns the tensor as an expression whose leaves all have its shape.

        Raises:
            Unsupported: names the operator that is not pointwise, a view or a leaf.
        """
        node = self.wiring.nodes.get(ref.name)
        if node is None or ref.name in self.cores:
            name = f"{ref.name}.{ref.index}" if ref.index else ref.name
            return Leaf(view=whole(name, self.wiring.shape(ref)), dtype=self.wiring.dtype(ref))
        self.used.add(node.name)
        result = node.results[ref.index]
        if result is not None and node.op in VIEW_OPS:
            return mapped(self.read(_ref(node, "self")), lambda view: apply(node, view, ref.index))
        if result is None or ref.index:
            raise Unsupported(f"{node.op} is not pointwise")
        return _pointwise(self, node, result.shape, result.dtype)

    def operand(self, item: Arg, shape: tuple[int, ...], dtype: str = FLOAT) -> Expression:
        """Returns an operand broadcast to a shape and, where it is a number, of a dtype."""
        if isinstance(item, Ref):
            found = mapped(self.read(item), lambda view: expand(view, shape))
            return found if dtype != FLOAT or found.dtype in (FLOAT, *self.wiring.floats) else _to_float(found)
        if isinstance(item, int | float):
            return literal(item, dtype)
        raise Unsupported(f"operand {item!r} is neither a tensor nor a number")


def mapped(item: Expression, change: Callable[[View], View | None]) -> Expression:
    """Returns an expression with every leaf's view changed.

    Raises:
        Unsupported: when the change of one is None.
    """
    if isinstance(item, Leaf):
        view = change(item.view)
        if view is None:
            raise Unsupported(f"a view of {item.view.base} that no strides describe")
        return replace(item, view=view)
    if isinstance(item, Operation):
        return replace(item, operands=tuple(mapped(operand, change) for operand in item.operands))
    return item


def shaped(item: Expression, shape: tuple[int, ...]) -> Expression:
    """Returns an expression under another shape of as many elements."""
    return mapped(item, lambda view: reshape(view, shape))


def leaves(item: Expression) -> tuple[Leaf, ...]:
    """Returns every different leaf, in the order of reading."""
    if isinstance(item, Leaf):
        return (item,)
    if isinstance(item, Operation):
        return tuple(dict.fromkeys(leaf for operand in item.operands for leaf in leaves(operand)))
    return ()


def _ref(node: Node, name: str) -> Ref:
    item = node.argument(name)
    if not isinstance(item, Ref):
        raise Unsupported(f"{node.op} without a tensor for {name}")
    return item


def _operation(op: str, *operands: Expression, dtype: str = FLOAT) -> Operation:
    return Operation(op=op, operands=operands, dtype=dtype)


def _to_float(item: Expression) -> Expression:
    if isinstance(item, Literal):
        return literal(float(item.number))
    if item.dtype == "bool":
        return _operation("truth", item)
    if item.dtype in ("int64", "int32"):
        return _operation("to_float", item)
    raise Unsupported(f"arithmetic on {item.dtype}")


def _pointwise(reader: Reader, node: Node, shape: tuple[int, ...], dtype: str) -> Expression:
    """Returns one pointwise node as an expression."""
    space, name, _ = node.op.split(".")
    arguments = dict(node.arguments)
    if dtype in reader.wiring.floats:  # halves are computed in float32
        dtype = FLOAT
    if space != "aten":
        raise Unsupported(f"{node.op} is not pointwise")
    if name in ("full", "full_like", "scalar_tensor"):
        number = arguments["fill_value" if "fill_value" in arguments else "s"]
        if not isinstance(number, int | float) or dtype not in (FLOAT, "bool", "int64"):
            raise Unsupported(f"{node.op} of {dtype}")
        return literal(number, dtype)
    if name == "arange":
        return _arange(arguments, shape, dtype)
    if name in COMPARE or name in LOGIC or name in ("logical_not", "bitwise_not"):
        return _boolean(reader, name, arguments, shape)
    if name == "where":
        return _where(reader, arguments, shape, dtype)
    if dtype == "int64" and name in ("add", "sub", "rsub"):
        return _sum(reader, name, arguments, shape, dtype)
    if dtype != FLOAT:
        raise Unsupported(f"{node.op} on {dtype}")
    return _float(reader, node, arguments, shape)


def _arange(arguments: dict[str, Arg], shape: tuple[int, ...], dtype: str) -> Expression:
    start, step = arguments.get("start", 0), arguments.get("step", 1)
    if dtype != "int64" or not isinstance(start, int) or not isinstance(step, int):
        raise Unsupported(f"aten.arange of {dtype}")
    view = View(base=IOTA, dims=((((shape[0], step),) if shape[0] != 1 else ()),), start=start)
    return Leaf(view=view, dtype=dtype)


def _boolean(reader: Reader, name: str, arguments: dict[str, Arg], shape: tuple[int, ...]) -> Expression:
    left = reader.operand(arguments["self"], shape, "")
    if name in ("logical_not", "bitwise_not"):
        if left.dtype != "bool":
            raise Unsupported(f"aten.{name} on {left.dtype}")
        return _operation("not", left, dtype="bool")
    right = reader.operand(arguments["other"], shape, FLOAT if left.dtype in HALVES else left.dtype)
    if left.dtype != right.dtype and not {left.dtype, right.dtype} <= {FLOAT, *reader.wiring.floats}:
        left, right = _to_float(left), _to_float(right)
    if name in COMPARE:
        if left.dtype == "bool":
            raise Unsupported(f"aten.{name} on bool")
        return _operation(name, left, right, dtype="bool")
    if left.dtype != "bool":
        raise Unsupported(f"aten.{name} on {left.dtype}")
    return _operation(LOGIC[name], left, right, dtype="bool")


def _where(reader: Reader, arguments: dict[str, Arg], shape: tuple[int, ...], dtype: str) -> Expression:
    condition = reader.operand(arguments["condition"], shape, "")
    if condition.dtype != "bool" or dtype != FLOAT:
        raise Unsupported(f"aten.where of {condition.dtype} and {dtype}")
    chosen, other = (reader.operand(arguments[key], shape) for key in ("self", "other"))
    return _operation("select", condition, chosen, other)


def _sum(reader: Reader, name: str, arguments: dict[str, Arg], shape: tuple[int, ...], dtype: str) -> Expression:
    left, right = (reader.operand(arguments[key], shape, dtype) for key in ("self", "other"))
    if name == "rsub":
        left, right = right, left
    alpha = arguments.get("alpha", 1)
    if not isinstance(alpha, int | float):
        raise Unsupported(f"aten.{name} with alpha {alpha!r}")
    if alpha != 1 and name != "rsub":
        right = _operation("mul", right, literal(alpha, dtype), dtype=dtype)
    elif alpha != 1:
        left = _operation("mul", left, literal(alpha, dtype), dtype=dtype)
    return _operation("add" if name == "add" else "sub", left, right, dtype=dtype)


def _float(reader: Reader, node: Node, arguments: dict[str, Arg], shape: tuple[int, ...]) -> Expression:
    name = node.op.split(".")[1]
    if name == "_native_batch_norm_legit_no_training":
        return _batch_norm(reader, arguments, shape)
    if name in ("add", "sub", "rsub"):
        return _sum(reader, name, arguments, shape, FLOAT)
    if name in BINARY:
        if arguments.get("rounding_mode") is not None:
            raise Unsupported(f"{node.op} with rounding")
        return _operation(name, *(reader.operand(arguments[key], shape) for key in ("self", "other")))
    if "self" not in arguments:
        raise Unsupported(f"{node.op} is not pointwise")
    item = reader.operand(arguments["self"], shape)
    if name in UNARY:
        return _operation(name, item)
    if name == "_to_copy":
        return item
    if name in ("hardtanh", "clamp"):
        keys = ("min_val", "max_val") if name == "hardtanh" else ("min", "max")
        for key, function in zip(keys, ("maximum", "minimum"), strict=True):
            if arguments[key] is not None:
                item = _operation(function, item, reader.operand(arguments[key], shape))
        return item
    if name == "gelu":
        return _operation("gelu_tanh" if arguments["approximate"] == "tanh" else "gelu", item)
    if name == "leaky_relu":
        slope = reader.operand(arguments["negative_slope"], shape)
        return _operation("leaky_relu", item, slope)
    if name == "pow" and arguments["exponent"] == 2:
        return _operation("square", item)
    raise Unsupported(f"{node.op} is not among the pointwise operators that can follow")


def _batch_norm(reader: Reader, arguments: dict[str, Arg], shape: tuple[int, ...]) -> Expression:
    """Returns batch normalisation in inference, with each channel's two numbers made from four on the fly."""
    across = (1, shape[1]) + (1,) * (len(shape) - 2)
    parts: list[Expression] = []
    for key in ("weight", "bias", "running_mean", "running_var"):
        item = arguments[key]
        if not isinstance(item, Ref):
            raise Unsupported("aten._native_batch_norm_legit_no_training without weight or bias")
        parts.append(mapped(shaped(reader.read(item), across), lambda view: expand(view, shape)))
    eps = reader.operand(arguments["eps"], shape)
    weight, bias, mean, variance = parts
    slope = _operation("div", weight, _operation("sqrt", _operation("add", variance, eps)))
    offset = _operation("sub", bias, _operation("mul", mean, slope))
    return _operation("scaled_shift", reader.operand(arguments["input"], shape), slope, offset)


def number_code(item: Literal) -> str:
    """Returns a literal as a C++ expression."""
    if item.dtype != FLOAT:
        return str(int(item.number))
    if isnan(item.number):
        return '__builtin_nanf("")'
    if isinf(item.number):
        return "__builtin_inff()" if item.number == inf else "-__builtin_inff()"
    return f"{float(item.number)!r}f"


class Lines:
    """Writes expressions as C++ statements, each shared part once.

    Args:
        indices: C++ names of the indices of all dimensions; the last one is the first lane's.
        width: lanes of V.
        count: C++ expression of how many lanes count; "" when all do.
        held: code for leaves that are in registers, by base name.
    """

    spelled = VECTORS
    """How operations are written."""
    statement = "const auto {0} = {1};"

    def __init__(self, indices: tuple[str, ...], *, width: int, count: str = "", held: dict[str, str]) -> None:
        self.indices = indices
        self.width = width
        self.count = count
        self.held = held
        self.lines: list[str] = []
        self._names: dict[Expression, str] = {}

    def write(self, item: Expression) -> str:
        """Returns the code of an expression after writing the statements that it needs."""
        if isinstance(item, Literal):
            return self.literal(item)
        if isinstance(item, Leaf) and item.view.base in self.held:
            return self.held[item.view.base]
        if item not in self._names:
            code = self.leaf(item) if isinstance(item, Leaf) else self._operation(item)
            name = f"t{len(self._names)}"
            self.lines.append(self.statement.format(name, code))
            self._names[item] = name
        return self._names[item]

    def _operation(self, item: Operation) -> str:
        return self.spelled[item.op].format(*(self.write(operand) for operand in item.operands))

    def literal(self, item: Literal) -> str:
        """Returns the code of a number."""
        if item.dtype == "bool":
            return f"kw::broadcast<kw::mask<{self.width}>>({-int(item.number)})"
        vector = "V" if item.dtype == FLOAT else f"kw::vec<int64_t, {self.width}>"
        return f"kw::broadcast<{vector}>({number_code(item)})"

    def leaf(self, item: Leaf) -> str:
        """Returns the code of elements that are read."""
        view, width = item.view, self.width
        last = view.dims[-1]
        if len(last) > 1:
            raise Unsupported(f"a view of {view.base} with two strides in the last dimension")
        stride = last[0][1] if last else 0
        base = view.offset((*self.indices[:-1], self.indices[-1] if stride else ""))
        if view.base == IOTA:
            lanes = f"kw::iota<kw::vec<int64_t, {width}>>() * int64_t({stride}) + " if stride else ""
            return f"{lanes}kw::broadcast<kw::vec<int64_t, {width}>>({base})"
        ctype = {"float32": "float", "int64": "int64_t", "int32": "int32_t", "bool": "uint8_t"}.get(item.dtype)
        if ctype is None:
            raise Unsupported(f"{view.base} of {item.dtype} in a pointwise chain")
        from_ = pointer(view.base)
        if item.dtype == "bool":
            from_ = f"reinterpret_cast<const uint8_t*>({from_})"
        vector = f"kw::vec<{ctype}, {width}>"
        if stride == 0:
            code = f"kw::broadcast<{vector}>({from_}[{base}])"
        elif stride == 1 and not self.count:
            code = f"kw::load<{ctype}, {width}>({from_} + {base})"
        elif stride == 1:
            code = f"kw::load_part<{ctype}, {width}>({from_} + {base}, {self.count}, 0)"
        else:
            count = self.count or str(width)
            code = f"kw::load_strided<{ctype}, {width}>({from_} + {base}, {stride}, {count}, 0)"
        return f"kw::to_mask({code} != 0)" if item.dtype == "bool" else code
