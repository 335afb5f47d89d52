"""Expressions as CUDA C++: one constant for each value, in the outermost scope that knows its variables.

Everything is a scalar of one thread. A load whose elements lie side by side along the lane variable becomes one
vector load in front of the loop over a thread's elements. Not here: loops and folds (kernel.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kernelwright.experts.expression import Expression
from kernelwright.experts.index import Affine, Variable
from kernelwright.experts.print import CALLS, HALVES, INFIX, WORDS, Scope, is_product

BUFFERS = {
    "float32": "float", "float64": "double", "int64": "kw::i64", "int32": "int", "int16": "short",
    "uint8": "unsigned char", "int8": "signed char", "bool": "bool", "float16": "__half", "bfloat16": "__nv_bfloat16",
}  # fmt: skip
"""The element's type of a buffer, by dtype."""
BINDINGS = {**BUFFERS, "int64": "int64_t", "int32": "int32_t", "int16": "int16_t", "uint8": "uint8_t", "int8": "int8_t"}
"""The element's C type that a plan says, by dtype."""
CTYPES = {"float": "float", "double": "double", "int64_t": "kw::i64", "int32_t": "int", "bool": "bool"}
"""What values are computed in, by the type that expression.py gives them."""
OURS = re.compile(
    r"(me|q|s|v|V|sum|sums|batch|share|row|column|number|left|right|done|image|tile_[mn]|base|row|live|wanted|piece|here|kw|([xtwykafcpri]|sum|before|kw_)\d+[ab]*)|.*(Idx|Dim)"
)


def buffer_name(name: str) -> str:
    """Returns the C++ name of a buffer: its own, unless that is a word of C++, of CUDA or of this printer."""
    return f"{name}_buffer" if OURS.fullmatch(name) or name in WORDS else name


@dataclass
class Printer:
    """Prints expressions into a stack of scopes.

    Args:
        lane: the variable along which a thread's elements lie.
        base: the C++ of its value for a thread's first element.
        width: elements of a thread.
        index: the integer type of places.
        scopes: outermost first; the last one is inside the loop over a thread's elements.
        chunk: the scope in front of that loop, for vector loads.
    """

    lane: Variable
    base: str
    width: int
    index: str
    scopes: list[Scope]
    chunk: Scope | None = None
    counter: int = 0
    vectors: dict[Expression, str] = field(default_factory=dict)

    def text(self, e: Expression) -> str:
        """Returns the C++ of a value, computing it first where needed; a literal stands for itself."""
        if e.op == "literal":
            return literal(e)
        found = next((s.names[e] for s in reversed(self.scopes) if e in s.names), None)
        return found if found is not None else self.define(e)

    def define(self, e: Expression) -> str:
        """Adds the line that computes a value to its scope and returns its name."""
        text = self.computed(e)
        scope = next((s for s in self.scopes if e.variables <= s.bound), self.scopes[-1])
        self.counter += 1
        name = f"{'x' if e.op == 'load' else 't'}{self.counter}"
        scope.add(f"const {CTYPES[e.ctype]} {name} = {text};")
        scope.names[e] = name
        return name

    def computed(self, e: Expression) -> str:
        """Returns the C++ that computes a value."""
        if e.op == "load":
            return self.loaded(e)
        if e.op == "index":
            return f"{CTYPES[e.ctype]}({self.place(e.form)})"
        args = [self.text(x) for x in e.args]
        ctype = CTYPES[e.ctype]
        if e.op == "cast":
            return f"{args[0]} != 0" if e.ctype == "bool" else f"{ctype}({args[0]})"
        if e.op == "select":
            return f"{args[0]} ? {ctype}({args[1]}) : {ctype}({args[2]})"
        if e.op in INFIX:
            a, b = (self.kept_apart(e, text) for text in args)
            return f"{a} {INFIX[e.op]} {b}"
        if e.op == "fmod" and e.ctype.startswith("int"):
            return f"{args[0]} % {args[1]}"
        if e.op == "neg":
            return f"-({args[0]})"
        if e.op == "not":
            return f"{'!' if e.ctype == 'bool' else '~'}({args[0]})"
        typed = [f"{CTYPES[x.ctype]}({a})" if x.op == "literal" else a for x, a in zip(e.args, args, strict=True)]
        return f"kw::{CALLS.get(e.op, e.op)}({', '.join(typed)})"

    def kept_apart(self, e: Expression, text: str) -> str:
        """Returns an operand of a sum, kept from being fused where both operands are products."""
        both = e.op in ("add", "sub") and all(map(is_product, e.args)) and e.args[0] is not e.args[1]
        return f"kw::rounded({text})" if both else text

    def loaded(self, e: Expression) -> str:
        """Returns the C++ of a load: an element of a vector loaded before, or an access of its own."""
        source, name = e.source, buffer_name(e.source.buffer)
        if self.is_vector(e) and self.chunk is not None:
            if e not in self.vectors:
                self.counter += 1
                self.vectors[e] = f"w{self.counter}"
                place = self.place(source.place, at_base=True)
                self.chunk.add(f"const auto {self.vectors[e]} = kw::load<{self.width}>({name} + {place});")
            return f"kw::value({self.vectors[e]}[v])"
        return f"kw::value({name}[{self.place(source.place)}])"

    def is_vector(self, e: Expression) -> bool:
        """Tells whether a load is of neighbouring, aligned elements, known before the loop over elements."""
        terms = e.source.place.terms
        return (
            self.width > 1
            and e.source.place.coefficient(self.lane) == 1
            and all(isinstance(term, Variable) for term, _ in terms)
            and fits_width(e.source.place, self.lane, self.width)
        )

    def place(self, form: Affine, *, at_base: bool = False) -> str:
        """Returns the C++ of an affine form; with `at_base`, for a thread's first element."""
        parts = []
        for term, c in form.terms:
            if isinstance(term, Variable):
                text = self.base if at_base and term is self.lane else term.name
            else:
                text = f"{self.index}({self.text(term)})"  # type: ignore[arg-type]
            parts.append(text if c == 1 else f"{text} * {c}")
        if form.offset or not parts:
            parts.append(str(form.offset))
        return f"({' + '.join(parts)})" if len(parts) > 1 else parts[0]


def fits_width(place: Affine, lane: Variable, width: int) -> bool:
    """Tells whether vectors of `width` elements along the lane start at multiples of their width."""
    whole = all(c % width == 0 for term, c in place.terms if term is not lane)
    return whole and place.offset % width == 0


def literal(e: Expression) -> str:
    """Returns the C++ of a number."""
    text = str(e.data)
    if e.ctype == "bool":
        return "true" if text in ("True", "1") else "false"
    if text in ("nan", "inf", "-inf"):
        return f"{CTYPES[e.ctype]}({'-' if text[0] == '-' else ''}kw::{text.lstrip('-')}())"
    if e.ctype == "float":
        return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"
    return f"{text}LL" if e.ctype == "int64_t" else text


def stored(dtype: str, text: str) -> str:
    """Returns the C++ of a value as a buffer of some dtype holds it."""
    return f"kw::to<{BUFFERS[dtype]}>({text})" if dtype in HALVES else f"{BUFFERS[dtype]}({text})"
