"""Expressions as tiles: one name for each value, in the outermost scope that knows its variables.

Everything has two dimensions or none. A loop variable is a tile along one of the two axes, (R, 1) or (1, B), or a
scalar; whatever is computed from several broadcasts to what they span. How a language spells things is a `Dialect`.
Not here: loops and folds (tile_kernel.py), the languages (triton_dialect.py, cutile_dialect.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.experts import tensors as t
from kernelwright.experts.expression import Expression
from kernelwright.experts.frame import Loops
from kernelwright.experts.index import Affine, Variable
from kernelwright.experts.print import INFIX, Scope, is_product

LARGEST_TABLE = 64
"""Elements of a literal tensor, which becomes a chain of choices."""


class Dialect(Protocol):
    """How one tile language spells what a kernel needs; every method returns text."""

    name: str
    header: str
    """The first lines of a source."""
    decorator: str

    def refusal(self, e: Expression) -> str:
        """What cannot be spelled of an operation, empty where it can."""

    def program(self, index: str) -> str:
        """The number of this program, of the C type `index`."""

    def arange(self, count: int, axis: int, index: str) -> str:
        """0, 1 ... as a tile along an axis."""

    def full(self, shape: tuple[int, int], value: str, ctype: str) -> str:
        """A tile of one value."""

    def number(self, text: str) -> str:
        """A Python number, `nan` and `inf` included."""

    def load(self, name: str, place: str, mask: str, dtype: str, ctype: str) -> str:
        """The elements of a buffer at a tile of places, as values of a C type; where the mask is false, zero."""

    def store(self, name: str, place: str, value: str, mask: str, dtype: str) -> str:
        """The statement that stores a value."""

    def cast(self, text: str, ctype: str) -> str:
        """A value as another type that is not bool."""

    def where(self, condition: str, yes: str, no: str) -> str:
        """A choice."""

    def call(self, op: str, ctype: str, args: Sequence[str]) -> str:
        """Any operation that is neither infix nor a choice; `ctype` is that of its first argument."""

    def divide(self, left: str, right: str, ctype: str) -> str:
        """A division of floats, or one of integers that cuts."""

    def rounded(self, text: str, ctype: str) -> str:
        """A product, kept from being fused with the sum of two that it is part of."""

    def fold(self, kind: str, text: str, axis: int, ctype: str) -> str:
        """The fold of a tile along an axis, which stays as one element; kinds: sum product max min max_of_exp."""

    def scan(self, kind: str, text: str, axis: int) -> str:
        """Running sums or products along an axis."""

    def loop(self, name: str, count: int, stages: int) -> str:
        """The head of a loop of a fixed number of turns."""


@dataclass
class View:
    """What the loop variables are at one place of a kernel."""

    shape: tuple[int, int]
    names: dict[Variable, str] = field(default_factory=dict)
    axes: dict[Variable, int] = field(default_factory=dict)
    """The tile axis along which a variable runs; a variable that is not here is a scalar."""
    masks: dict[int, str] = field(default_factory=dict)
    """By axis the name of a tile that tells which elements exist; where all do, none."""

    def mask(self, axes: frozenset[int]) -> str:
        """Returns the mask of what spans some axes, empty where all of it exists."""
        return " & ".join(self.masks[axis] for axis in sorted(axes) if axis in self.masks)


@dataclass
class Printer:
    """Prints expressions into a stack of scopes, outermost first."""

    dialect: Dialect
    view: View
    index: str
    scopes: list[Scope]
    tables: dict[str, t.Table] = field(default_factory=dict)
    counter: int = 0

    def fresh(self, stem: str) -> str:
        """Returns a name that nothing else has."""
        self.counter += 1
        return f"{stem}{self.counter}"

    def axes_of(self, e: Expression) -> frozenset[int]:
        """Returns the tile axes that a value spans."""
        return frozenset(self.view.axes[v] for v in e.variables if v in self.view.axes)

    def text(self, e: Expression) -> str:
        """Returns the name of a value, computing it first where needed."""
        found = next((s.names[e] for s in reversed(self.scopes) if e in s.names), None)
        return found if found is not None else self.define(e)

    def define(self, e: Expression) -> str:
        """Adds the line that computes a value to its scope and returns its name."""
        text = self.computed(e)
        scope = next((s for s in self.scopes if e.variables <= s.bound), self.scopes[-1])
        name = self.fresh("x" if e.op == "load" else "t")
        scope.add(f"{name} = {text}")
        scope.names[e] = name
        return name

    def operands(self, args: Sequence[Expression]) -> list[str]:
        """Returns operands of which at least one is no number; numbers of the common types stay as they are."""
        loose = any(x.op != "literal" for x in args)
        plain = [loose and x.op == "literal" and x.ctype in ("float", "int32_t", "bool") for x in args]
        return [self.dialect.number(str(x.data)) if p else self.text(x) for x, p in zip(args, plain, strict=True)]

    def computed(self, e: Expression) -> str:
        """Returns the text that computes a value."""
        d = self.dialect
        if e.op == "literal":
            return d.full((1, 1), d.number(str(e.data)), e.ctype)
        if e.op == "load":
            return self.loaded(e)
        if e.op == "index":
            text = self.place(e.form)
            spans = any(isinstance(v, Variable) for v, _ in e.form.terms)
            return d.cast(text, e.ctype) if spans else d.full((1, 1), text, e.ctype)
        if e.op == "cast":
            text = self.text(e.args[0])
            return f"{text} != 0" if e.ctype == "bool" else d.cast(text, e.ctype)
        if e.op == "select":
            yes, no = (self.text(x) for x in e.args[1:])
            return d.where(self.text(e.args[0]), yes, no)
        ctype = e.args[0].ctype
        if e.op == "div":
            return d.divide(self.text(e.args[0]), self.text(e.args[1]), ctype)
        if e.op in INFIX:
            left, right = self.operands(e.args)
            if has_two_products(e):
                left, right = d.rounded(left, ctype), d.rounded(right, ctype)
            return f"{left} {INFIX[e.op]} {right}"
        if e.op == "neg":
            return f"-{self.text(e.args[0])}"
        if e.op == "not":
            return f"~{self.text(e.args[0])}"
        return d.call(e.op, ctype, [self.text(x) for x in e.args])

    def loaded(self, e: Expression) -> str:
        """Returns the text of a load."""
        source = e.source
        if source.buffer in self.tables:
            return self.chosen(self.tables[source.buffer], self.place(source.place), e.ctype)
        mask = self.view.mask(self.axes_of(e))
        return self.dialect.load(buffer_name(source.buffer), self.place(source.place), mask, source.dtype, e.ctype)

    def chosen(self, table: t.Table, place: str, ctype: str) -> str:
        """Returns the text of an element of a literal tensor."""
        d = self.dialect
        values = [d.full((1, 1), d.number(repr(v)), ctype) for v in table.values]
        text = values[0]
        for number, value in enumerate(values[1:], start=1):
            text = d.where(f"{place} == {number}", value, text)
        return text

    def place(self, form: Affine) -> str:
        """Returns the text of an affine form."""
        parts = []
        for term, c in form.terms:
            if isinstance(term, Variable):
                text = self.view.names[term]
            else:
                text = self.dialect.cast(self.text(term), self.index)  # type: ignore[arg-type]
            parts.append(text if c == 1 else f"{text} * {c}")
        if form.offset or not parts:
            parts.append(str(form.offset))
        return f"({' + '.join(parts)})" if len(parts) > 1 else parts[0]


def buffer_name(name: str) -> str:
    """Returns the parameter of a buffer; nothing else in a kernel ends like this."""
    return f"{name}_ptr"


def has_two_products(e: Expression) -> bool:
    """Tells whether a sum is of two different products: what cancels in PyTorch must cancel here."""
    return e.op in ("add", "sub") and all(map(is_product, e.args)) and e.args[0] is not e.args[1]


def expressions_of(loops: Loops) -> list[Expression]:
    """Returns every expression of a loop nest, in an order that does not change from run to run."""
    return below([e for s in loops.segments for e in (*s.folds.values(), *(w.value for w in s.writes))])


def below(roots: Sequence[Expression]) -> list[Expression]:
    """Returns every expression below some roots, in an order that does not change from run to run."""
    seen: dict[Expression, None] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen[e] = None
            stack.extend(e.args)
    return list(seen)
