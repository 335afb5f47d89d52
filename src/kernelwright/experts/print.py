"""Expressions as C++: one constant for each value, in the outermost scope that knows its variables.

A value that depends on the lane variable is a vector, any other a scalar; a scalar that meets vectors is broadcast
where it is defined. Not here: loops and accumulators (emit.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kernelwright.experts.expression import COMPARISONS, Expression, is_finite_literal
from kernelwright.experts.index import Affine, Variable
from kernelwright.types import Dtype

VECTORS = {"float": "F", "double": "D", "int32_t": "I", "int64_t": "L", "bool": "M"}
ELEMENTS = {"float": "float", "double": "double", "int32_t": "int32_t", "int64_t": "int64_t", "bool": "int32_t"}
BUFFERS = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t",
    "uint8": "uint8_t", "int8": "int8_t", "bool": "bool", "float16": "uint16_t", "bfloat16": "uint16_t",
}  # fmt: skip
"""The element's C type of a buffer, by dtype."""
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
CALLS = {"max": "maximum", "min": "minimum", "round": "round_even"}
HALVES = {"bfloat16": "bf16", "float16": "fp16"}


OURS = re.compile(r"(N|U|F|D|I|L|M|n|u|h|task|row|piece|body|copies|block|from|to|kw|(row|[xtbapfscrki])\d+[ab]*)")
WORDS = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "constexpr",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "not",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "while",
        "xor",
    ]
)


def buffer_name(name: str) -> str:
    """Returns the C++ name of a buffer: its own, unless that is a word of C++ or of this printer."""
    return f"{name}_buffer" if OURS.fullmatch(name) or name in WORDS else name


@dataclass
class Scope:
    """One block of C++: its lines and the values that are known in it."""

    bound: frozenset[Variable]
    """The loop variables that are known here, outer ones included."""
    depth: int
    lines: list[str] = field(default_factory=list)
    names: dict[Expression, str] = field(default_factory=dict)
    broadcasts: dict[str, str] = field(default_factory=dict)
    each: bool = False
    """True where vectors are arrays over u: outside the innermost loop, with several vectors for each row."""

    def add(self, line: str) -> None:
        """Appends a line at this scope's depth."""
        self.lines.append("    " * self.depth + line)


@dataclass
class Printer:
    """Prints expressions into a stack of scopes."""

    lane: Variable
    """The variable that runs over the lanes of a vector."""
    lane_text: str
    """The C++ of its value in lane 0."""
    scopes: list[Scope]
    counter: int = 0
    loads: list[tuple[str, str]] = field(default_factory=list)
    """(buffer, C++ of the address) of every contiguous vector load of the innermost scope, for prefetching."""

    def is_vector(self, e: Expression) -> bool:
        """Returns whether a value differs between lanes."""
        return self.lane in e.variables

    def home(self, e: Expression) -> Scope:
        """Returns the outermost scope in which a value can be computed."""
        return next((s for s in self.scopes if e.variables <= s.bound), self.scopes[-1])

    def known(self, e: Expression) -> str | None:
        """Returns the name of a value that is already computed in a scope that is open."""
        return next((s.names[e] for s in reversed(self.scopes) if e in s.names), None)

    def text(self, e: Expression) -> str:
        """Returns the C++ of a value, computing it first where needed; a literal stands for itself."""
        if e.op == "literal":
            return literal(e)
        name = self.known(e)
        if name is None:
            name = self.define(e)
        return name

    def define(self, e: Expression) -> str:
        """Adds the line that computes a value to its scope and returns its name."""
        vector = self.is_vector(e)
        text = self.vector(e) if vector else self.scalar(e)
        scope = self.home(e)
        self.counter += 1
        stem = "x" if e.op == "load" else "t"
        name = f"{stem}{self.counter}"
        if vector and scope.each:
            scope.add(f"{VECTORS[e.ctype]} {name}[U];")
            scope.add(f"for (int u = 0; u < U; ++u) {name}[u] = {text};")
            name += "[u]"
        else:
            scope.add(f"const {VECTORS[e.ctype] if vector else e.ctype} {name} = {text};")
        scope.names[e] = name
        return name

    def operand(self, e: Expression) -> str:
        """Returns the C++ of a value as a vector."""
        if self.is_vector(e):
            return self.text(e)
        text = self.text(e)
        kind = VECTORS[e.ctype]
        if e.op == "literal":
            return f"kw::broadcast<{kind}>({'-1' if text == 'true' else '0' if text == 'false' else text})"
        scope = self.home(e)
        key = f"{kind}:{text}"
        if key not in scope.broadcasts:
            self.counter += 1
            scope.broadcasts[key] = f"b{self.counter}"
            scope.add(
                f"const {kind} b{self.counter} = kw::broadcast<{kind}>({f'{text} ? -1 : 0' if kind == 'M' else text});"
            )
        return scope.broadcasts[key]

    # ------------------------------------------------------------------------- vectors

    def vector(self, e: Expression) -> str:
        """Returns the C++ that computes a vector."""
        if e.op == "load":
            return self.vector_load(e)
        if e.op == "index":
            return self.vector_index(e)
        if e.op == "cast":
            return self.vector_cast(e.args[0], e.ctype)
        if e.op in INFIX:
            a, b = (self.term(x) for x in e.args)
            text = f"{a} {INFIX[e.op]} {b}"
            return f"kw::to_mask({text})" if e.op in COMPARISONS else text
        args = [self.operand(x) for x in e.args]
        if e.op == "neg":
            return f"-{args[0]}"
        if e.op == "not":
            return f"~{args[0]}"
        if e.op == "fmod" and e.ctype.startswith("int"):
            return f"{args[0]} % {args[1]}"
        return f"kw::{CALLS.get(e.op, e.op)}({', '.join(args)})"

    def term(self, e: Expression) -> str:
        """Returns an operand of an infix operator, where a plain number may stand for a vector."""
        return literal(e) if is_finite_literal(e) and e.ctype != "bool" else self.operand(e)

    def vector_cast(self, arg: Expression, ctype: str) -> str:
        """Returns the C++ of a conversion."""
        text = self.operand(arg)
        if arg.ctype == "bool":
            return f"kw::convert<{ELEMENTS[ctype]}>({text} & 1)"
        if ctype == "bool":
            return f"kw::to_mask({text} != 0)"
        return f"kw::convert<{ELEMENTS[ctype]}>({text})"

    def vector_index(self, e: Expression) -> str:
        """Returns the C++ of an index as a vector."""
        form = e.form
        kind = VECTORS[e.ctype]
        base = self.affine(form, lane=True)
        return f"kw::iota<{kind}>() * {form.coefficient(self.lane)} + {ELEMENTS[e.ctype]}({base})"

    def vector_load(self, e: Expression) -> str:
        """Returns the C++ of a load of one vector: contiguous, strided, or element by element."""
        dtype, place, name = e.source.dtype, e.source.place, buffer_name(e.source.buffer)
        moving = [s for s, _ in place.terms if isinstance(s, Expression) and self.is_vector(s)]
        step = place.coefficient(self.lane)
        if moving:
            return loaded(dtype, f"kw::gather({name}, {self.vector_place(place)})")
        address = f"{name} + {self.affine(place, lane=True)}"
        if step == 1:
            if all(not isinstance(s, Expression) for s, _ in place.terms):
                self.loads.append((name, address))
            if dtype == "bool":
                return f"kw::load_bools<N>({address}, n)"
            return loaded(dtype, f"kw::load_part<{BUFFERS[dtype]}, N>({address}, n, 0)")
        if dtype == "bool":
            return f"kw::load_bools_strided<N>({address}, {step}, n)"
        return loaded(dtype, f"kw::load_strided<{BUFFERS[dtype]}, N>({address}, {step}, n, 0)")

    def vector_place(self, place: Affine) -> str:
        """Returns the C++ of a vector of places, where an index tensor is read along the lanes."""
        parts = []
        rest = place
        for term, c in place.terms:
            if isinstance(term, Expression) and self.is_vector(term):
                parts.append(f"kw::convert<int64_t>({self.operand(term)}) * {c}")
                rest = rest.without(term)
        if step := place.coefficient(self.lane):
            parts.append(f"kw::iota<L>() * {step}")
        return " + ".join([*parts, f"int64_t({self.affine(rest, lane=True)})"])

    # ------------------------------------------------------------------------- scalars

    def scalar(self, e: Expression) -> str:
        """Returns the C++ that computes a scalar."""
        if e.op == "load":
            dtype = e.source.dtype
            text = f"{buffer_name(e.source.buffer)}[{self.affine(e.source.place)}]"
            return f"kw::one::from_{HALVES[dtype]}({text})" if dtype in HALVES else text
        if e.op == "index":
            return f"{e.ctype}({self.affine(e.form)})"
        args = [self.text(x) for x in e.args]
        if e.op == "cast":
            return f"{args[0]} != 0" if e.ctype == "bool" else f"{e.ctype}({args[0]})"
        if e.op == "select":
            return f"{args[0]} ? {args[1]} : {args[2]}"
        if e.op in INFIX:
            return f"{args[0]} {INFIX[e.op]} {args[1]}"
        if e.op == "fmod" and e.ctype.startswith("int"):
            return f"{args[0]} % {args[1]}"
        if e.op == "neg":
            return f"-{args[0]}"
        if e.op == "not":
            return f"{'!' if e.ctype == 'bool' else '~'}{args[0]}"
        # A literal among the arguments gets the type of the others, for which the function is overloaded.
        typed = [f"{e.ctype}({a})" if x.op == "literal" else a for x, a in zip(e.args, args, strict=True)]
        return f"kw::one::{CALLS.get(e.op, e.op)}({', '.join(typed)})"

    def affine(self, form: Affine, *, lane: bool = False) -> str:
        """Returns the C++ of an affine form; with `lane`, at lane 0 of a vector."""
        parts = []
        for term, c in form.terms:
            if isinstance(term, Variable):
                text = self.lane_text if lane and term is self.lane else term.name
            else:
                text = self.text(term)  # type: ignore[arg-type]
            parts.append(text if c == 1 else f"{text} * {c}")
        if form.offset or not parts:
            parts.append(str(form.offset))
        text = " + ".join(parts)
        return f"({text})" if len(parts) > 1 else text


def literal(e: Expression) -> str:
    """Returns the C++ of a number."""
    text = str(e.data)
    if e.ctype == "bool":
        return "true" if text in ("True", "1") else "false"
    if text in ("nan", "inf", "-inf"):
        suffix = "f" if e.ctype == "float" else ""
        if text == "nan":
            return f'__builtin_nan{suffix}("")'
        return f"{text.replace('inf', '')}__builtin_inf{suffix}()"
    if e.ctype == "float":
        return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"
    return text


def loaded(dtype: Dtype, text: str) -> str:
    """Returns the C++ of a loaded vector in the type that its dtype is computed in."""
    if dtype in HALVES:
        return f"kw::from_{HALVES[dtype]}({text})"
    return f"kw::convert<int32_t>({text})" if dtype in ("uint8", "int8", "int16") else text


def stored(dtype: Dtype, ctype: str, text: str) -> str:
    """Returns the C++ of a vector as a buffer of some dtype holds it."""
    if dtype in HALVES:
        text = text if ctype == "float" else f"kw::convert<float>({text})"
        return f"kw::to_{HALVES[dtype]}({text})"
    return text if BUFFERS[dtype] == ctype else f"kw::convert<{BUFFERS[dtype]}>({text})"


def stored_scalar(dtype: Dtype, text: str) -> str:
    """Returns the C++ of a scalar as a buffer of some dtype holds it."""
    if dtype in HALVES:
        return f"kw::one::to_{HALVES[dtype]}({text})"
    return f"{BUFFERS[dtype]}({text})"
