"""Expressions over loop variables: what one iteration of a kernel computes.

An `Evaluator` turns a tensor at an index into an expression. Views, broadcasts, concatenations and gathers vanish
here: they only change the index. Equal expressions are one object, so that a value that two outputs share is
computed once. Not here: loops (frame.py) and C++ (print.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from kernelwright.experts import tensors as t
from kernelwright.experts.index import Affine, Index, NotAffine, Variable, linearise, side_of
from kernelwright.types import Dtype

CTYPES = {
    "float16": "float", "bfloat16": "float", "float32": "float", "float64": "double", "int64": "int64_t",
    "int32": "int32_t", "int16": "int32_t", "int8": "int32_t", "uint8": "int32_t", "bool": "bool",
}  # fmt: skip
"""The C type in which values of a dtype are computed."""

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
INT32_MAX = 2**31 - 1


class StoreNeeded(Exception):
    """A tensor cannot be computed in place here; an earlier kernel has to store it."""

    def __init__(self, tensor: t.Tensor) -> None:
        super().__init__(tensor)
        self.tensor = tensor


@dataclass(frozen=True)
class Load:
    """Where a loaded element lies."""

    buffer: str
    dtype: Dtype
    place: Affine


@dataclass(frozen=True, eq=False)
class Expression:
    """One value of an iteration."""

    op: str
    """load, literal, index, fold, scan, or an operation on `args`."""
    args: tuple[Expression, ...]
    ctype: str
    data: object = None
    """load: a Load; literal: the value's text; index: an Affine; fold and scan: the tensor."""
    variables: frozenset[Variable] = frozenset()
    """The loop variables that the value depends on."""
    folds: frozenset[t.Tensor] = frozenset()
    """The folds and scans of this kernel that it depends on."""
    span: tuple[int, int] | None = None
    """Bounds of an integer, where known."""

    @property
    def source(self) -> Load:
        """Where a load loads from."""
        assert isinstance(self.data, Load)
        return self.data

    @property
    def form(self) -> Affine:
        """The value of an index."""
        assert isinstance(self.data, Affine)
        return self.data


@dataclass
class Evaluator:
    """Expressions of tensors at indices, in the context of one kernel."""

    inside: dict[t.Tensor, Index]
    """The kernel's own folds and scans, and the one index at which each is available."""
    available: frozenset[Variable]
    """The variables that a fold of this kernel depends on."""
    stored: dict[t.Tensor, t.Source]
    """Tensors that earlier kernels store."""
    used: dict[t.Tensor, None] = field(default_factory=dict)
    """The stored tensors that were read."""
    tables: dict[str, t.Table] = field(default_factory=dict)
    """The literal tensors that were read."""
    equal: dict[t.Fold | t.Scan, t.Fold | t.Scan] = field(default_factory=dict)
    """The kernel's own folds and scans that another one before them equals."""
    known: dict[tuple[object, ...], Expression] = field(default_factory=dict)
    values: dict[tuple[t.Tensor, Index], Expression] = field(default_factory=dict)

    def value(self, tensor: t.Tensor, index: Index) -> Expression:
        """Returns the expression of one element.

        Raises:
            SplitNeeded, CutNeeded: when the loops have to change first.
            StoreNeeded: when a tensor has to be stored first.
        """
        key = (tensor, index)
        if key not in self.values:
            self.values[key] = self.compute(tensor, index)
        return self.values[key]

    def compute(self, tensor: t.Tensor, index: Index) -> Expression:
        """Returns the expression of one element that was not asked for before."""
        if tensor in self.stored and tensor not in self.inside:
            self.used[tensor] = None
            tensor = self.stored[tensor]
        match tensor:
            case t.Source():
                return self.load(tensor.name, tensor.dtype, linearise(index, tensor.shape))
            case t.Number():
                return self.literal(tensor.value, CTYPES[tensor.dtype])
            case t.Table():
                self.tables[tensor.name] = tensor
                return self.load(tensor.name, tensor.dtype, linearise(index, tensor.shape))
            case t.Counter():
                return self.counter(index[0] * tensor.step + tensor.start)
            case t.Pointwise():
                return self.apply(tensor, tuple(self.value(arg, index) for arg in tensor.args))
            case t.Reindexed():
                return self.reindexed(tensor, index)
            case t.Joined():
                return self.joined(tensor, index)
            case t.Taken():
                return self.taken(tensor, index)
            case t.Fold() | t.Scan():
                return self.folded(tensor, index)
        raise AssertionError(type(tensor))

    def make(
        self, op: str, args: tuple[Expression, ...], ctype: str, data: object = None, **notes: object
    ) -> Expression:
        """Returns the one expression of this kind."""
        key = (op, args, ctype, data)
        if key not in self.known:
            variables = frozenset().union(*(a.variables for a in args)) | set(notes.get("variables", ()))  # type: ignore[call-overload]
            folds = frozenset().union(*(a.folds for a in args)) | set(notes.get("folds", ()))  # type: ignore[call-overload]
            span = notes.get("span")
            self.known[key] = Expression(op, args, ctype, data, variables, folds, span)  # type: ignore[arg-type]
        return self.known[key]

    def load(self, name: str, dtype: Dtype, place: Affine) -> Expression:
        """Returns an element of a buffer."""
        variables = {v for v, _ in place.terms if isinstance(v, Variable)}
        symbols = tuple(s for s, _ in place.terms if isinstance(s, Expression))
        return self.make("load", symbols, CTYPES[dtype], Load(name, dtype, place), variables=variables)

    def literal(self, value: float | int | bool, ctype: str) -> Expression:
        """Returns a number. Floats are kept apart by their text, since 0.0 == -0.0 and nan != nan."""
        span = (value, value) if isinstance(value, int) and ctype.startswith("int") else None
        if ctype == "int64_t" and abs(value) <= INT32_MAX:
            ctype = "int32_t"
        return self.make("literal", (), ctype, repr(value), span=span)

    def counter(self, place: Affine) -> Expression:
        """Returns an index as a value."""
        span = place.bounds()
        ctype = "int32_t" if max(map(abs, span)) <= INT32_MAX else "int64_t"
        return self.make("index", (), ctype, place, variables={v for v, _ in place.terms}, span=span)

    def reindexed(self, tensor: t.Reindexed, index: Index) -> Expression:
        """Returns the element behind a view."""
        try:
            return self.value(tensor.arg, tensor.index(index))
        except NotAffine:
            # Of what lies in memory already, another shape does: element after element, whatever place is asked for.
            there = isinstance(tensor.arg, t.Source) or tensor.arg in self.stored
            raise StoreNeeded(tensor if there else tensor.arg) from None

    def joined(self, tensor: t.Joined, index: Index) -> Expression:
        """Returns the element of the part that the index falls in."""
        start = 0
        for part in tensor.args:
            end = start + part.shape[tensor.axis]
            try:
                inside = part is tensor.args[-1] or side_of(index[tensor.axis], end)
            except NotAffine:
                raise StoreNeeded(tensor) from None
            if inside:
                place = (*index[: tensor.axis], index[tensor.axis] + -start, *index[tensor.axis + 1 :])
                return self.value(part, place)
            start = end
        raise AssertionError("a concatenation has at least one part")

    def taken(self, tensor: t.Taken, index: Index) -> Expression:
        """Returns the element at a place that an integer tensor holds."""
        found = self.value(tensor.where, tensor.where_index(index))
        if tensor.wraps:
            zero, limit = self.literal(0, "int64_t"), self.literal(tensor.limit, "int64_t")
            wrapped = self.integers("add", (found, limit))
            found = self.integers("select", (self.integers("lt", (found, zero)), wrapped, found))
        if found.op == "literal":
            return self.value(tensor.arg, tensor.index(index, Affine(int(str(found.data)))))
        return self.value(tensor.arg, tensor.index(index, Affine(0, ((found, 1),))))

    def folded(self, tensor: t.Fold | t.Scan, index: Index) -> Expression:
        """Returns the result of a fold or scan of this kernel."""
        own = self.inside.get(tensor)
        if own is None or own != index:
            raise StoreNeeded(tensor)
        tensor = self.equal.get(tensor, tensor)
        variables = self.available
        if isinstance(tensor, t.Scan):
            variables |= {v for part in index for v, _ in part.terms if isinstance(v, Variable)}
        kind = "fold" if isinstance(tensor, t.Fold) else "scan"
        if isinstance(tensor, t.Fold) and tensor.kind in ("argmax", "argmin"):
            span = (0, tensor.arg.size)
            return self.make(kind, (), "int32_t", tensor, variables=variables, folds={tensor}, span=span)
        return self.make(kind, (), CTYPES[tensor.dtype], tensor, variables=variables, folds={tensor})

    def apply(self, tensor: t.Pointwise, args: tuple[Expression, ...]) -> Expression:
        """Returns an operation on values."""
        op = tensor.op
        ctype = CTYPES[tensor.dtype]
        if op == "cast":
            return self.cast(args[0], ctype)
        if op in COMPARISONS or ctype.startswith("int"):
            return self.integers(op, args, ctype) if args[-1].ctype.startswith("int") else self.make(op, args, ctype)
        return self.make(op, args, ctype)

    def cast(self, arg: Expression, ctype: str) -> Expression:
        """Returns a value as another C type; narrow integers count as int64_t."""
        if arg.ctype == ctype or (ctype == "int64_t" and arg.ctype == "int32_t" and arg.span is not None):
            return arg
        if arg.op == "literal" and arg.data not in ("nan", "inf", "-inf") and ctype in ("float", "double"):
            return self.literal(float(eval(str(arg.data), {})), ctype)
        return self.make(
            "cast", (arg,), ctype, span=arg.span if ctype.startswith("int") and arg.ctype.startswith("int") else None
        )

    def integers(self, op: str, args: tuple[Expression, ...], ctype: str = "int64_t") -> Expression:
        """Returns an integer operation or comparison: in 32 bits where the bounds of the values allow it."""
        whole = [a for a in args if a.ctype.startswith("int")]
        span = span_of(op, [a.span for a in whole])
        narrow = all(a.ctype == "int32_t" for a in whole) and (
            op in COMPARISONS or span is not None or ctype == "int32_t"
        )
        kind = "int32_t" if narrow else "int64_t"
        same = tuple(
            a if not a.ctype.startswith("int") or a.ctype == kind else self.make("cast", (a,), kind) for a in args
        )
        return self.make(op, same, "bool" if op in COMPARISONS else kind, span=span)


def span_of(op: str, spans: list[tuple[int, int] | None]) -> tuple[int, int] | None:
    """Returns bounds of an integer operation's result that fit 32 bits, None where they are unknown."""
    known = [s for s in spans if s is not None]
    if len(known) != len(spans) or not known:
        return None
    (a, b), (c, d) = known[0], known[-1]
    ends: dict[str, tuple[int, ...]] = {
        "add": (a + c, b + d),
        "sub": (a - d, b - c),
        "mul": (a * c, a * d, b * c, b * d),
        "neg": (-a, -b),
        "max": (max(a, c), max(b, d)),
        "min": (min(a, c), min(b, d)),
        "select": (min(a, c), max(b, d)),
    }
    if op not in ends or max(map(abs, ends[op])) > INT32_MAX:
        return None
    return min(ends[op]), max(ends[op])


def is_finite_literal(expression: Expression) -> bool:
    """Returns whether an expression is a number that has a plain C++ literal."""
    return expression.op == "literal" and math.isfinite(float(str(expression.data)))
