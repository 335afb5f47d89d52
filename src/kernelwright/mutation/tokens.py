"""C, C++ and CUDA as tokens, with just enough structure to break them in named ways.

A tokenizer, brackets that match, loops, statements, and what type a name was declared with. Comments, strings and
preprocessor lines are seen and left alone (OpenMP pragmas are tokens of kind `pragma`).
**Does not cover**: macros (their uses are names), templates beyond telling their angle brackets from comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kernelwright.sizes import evaluate

MARKS = (
    "<<<", ">>>", "<<=", ">>=", "->*", "...", "<=>", "::", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&",
    "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##",
)  # fmt: skip
SCAN = re.compile(
    r"(?P<skip>\s+|//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z)|\\\n)"
    r'|(?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\\\s]{0,16})\(.*?\)(?P=tag)")'
    r"|(?P<text>(?:u8|[uUL])?(?:\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?))"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)"
    r"|(?P<name>[A-Za-z_$]\w*)"
    r"|(?P<mark>" + "|".join(map(re.escape, MARKS)) + r"|.)",
    re.DOTALL,
)
DIRECTIVE = re.compile(r"[ \t]*#(?:[^\n\\/]|\\.|/\*.*?\*/|/(?![*/]))*", re.DOTALL)
PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+omp\b")
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
KEYWORDS = {
    "return", "if", "else", "for", "while", "do", "switch", "case", "default", "break", "continue", "goto", "sizeof",
    "new", "delete", "throw", "using", "typedef", "template", "typename", "class", "struct", "enum", "union",
    "operator", "co_return",
}  # fmt: skip
TYPE_WORDS = {
    "void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "auto", "size_t",
    "ptrdiff_t", "half", "__half", "__half2", "half2", "__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "bfloat16",
    "_Float16", "__bf16", "float2", "float4", "int2", "int4", "uint4", "uint", "uchar", "dim3", "int8_t", "int16_t",
    "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "__m128", "__m256", "__m512",
}  # fmt: skip
QUALIFIERS = {
    "const", "volatile", "static", "constexpr", "inline", "extern", "register", "mutable", "thread_local",
    "__shared__", "__constant__", "__device__", "__restrict__", "__restrict", "restrict", "alignas",
}  # fmt: skip
CASTS = {
    "static_cast", "reinterpret_cast", "const_cast", "template", "bit_cast", "numeric_limits", "vector", "array",
}  # fmt: skip
IN_ANGLES = re.compile(r"[\w:,*&\s.]+")
DO_NOT_END_AN_OPERAND = ("return", "case", "else", "throw")


class Token(NamedTuple):
    """One token: `name`, `number`, `text`, `mark`, `pragma` or `directive`; offsets in characters."""

    kind: str
    text: str
    start: int
    stop: int


class Loop(NamedTuple):
    """A `for` loop as token indices: [start, stop) of its three parts, and of its body."""

    keyword: int
    init: tuple[int, int]
    condition: tuple[int, int]
    step: tuple[int, int]
    body: tuple[int, int]


class Declared(NamedTuple):
    """One declared name: token indices of its type's words and its name."""

    type: tuple[int, int]
    name: int
    pointer: bool
    array: bool
    init: tuple[int, int] | None
    """[start, stop) of what follows the equals sign."""
    first: bool
    """Whether it is the first name after its type."""
    alone: bool
    """Whether no other name shares its type."""


def scan(text: str) -> Iterator[Token]:
    """Yields the tokens of a C-like source, without white space and comments."""
    position, fresh = 0, True
    while position < len(text):
        if fresh and (found := DIRECTIVE.match(text, position)):
            kind = "pragma" if PRAGMA.match(text, position) else "directive"
            yield Token(kind, found[0], position, found.end())
            position, fresh = found.end(), False
            continue
        match = SCAN.match(text, position)
        assert match, "every character is a mark"
        kind = match.lastgroup or "mark"
        kind = "text" if kind in ("raw", "tag") else kind
        if kind == "skip":
            fresh = fresh or "\n" in match[0]
        else:
            fresh = False
            yield Token(kind, match[0], match.start(), match.end())
        position = match.end()


class Code:
    """A C-like source with its tokens and brackets; indices are those of `tokens`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tuple(scan(text))
        self.match: dict[int, int] = {}
        """Of each bracket, its partner."""
        self._match_brackets()
        self.angles = frozenset(self._template_angles())
        self._heads: set[int] = set()
        """Tokens between a loop's parentheses: no statement begins there."""
        self.loops = tuple(self._find_loops())
        self.declared = tuple(self._find_declared())
        self.constants: dict[str, int] = {}
        """What names declared `constexpr` are worth, where that is a whole number."""
        for found in self.declared:
            if found.init and "constexpr" in self.span(*found.type):
                worth = self.constant(*found.init)
                if worth is not None:
                    self.constants[self.word(found.name)] = worth
        self.types = {self.word(d.name): self.span(*d.type) for d in self.declared}
        """The last declared type of each name, as text."""

    # ------------------------------------------------------------------------------------------------ reading

    def word(self, index: int) -> str:
        """Returns a token's text, '' beyond either end."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def kind(self, index: int) -> str:
        """Returns a token's kind, '' beyond either end."""
        return self.tokens[index].kind if 0 <= index < len(self.tokens) else ""

    def span(self, start: int, stop: int) -> str:
        """Returns the text of tokens [start, stop)."""
        stop = min(stop, len(self.tokens))
        return self.text[self.tokens[start].start : self.tokens[stop - 1].stop] if stop > start else ""

    def place(self, start: int, stop: int) -> tuple[int, int]:
        """Returns the characters of tokens [start, stop)."""
        if start >= len(self.tokens):
            return len(self.text), len(self.text)
        begin = self.tokens[start].start
        return begin, self.tokens[min(stop, len(self.tokens)) - 1].stop if stop > start else begin

    def indices(self, *words: str) -> Iterator[int]:
        """Yields every token that is one of some words."""
        return (i for i, t in enumerate(self.tokens) if t.text in words and t.kind in ("name", "mark"))

    def split(self, start: int, stop: int, mark: str) -> list[tuple[int, int]]:
        """Returns [start, stop) of the parts between marks that stand at the outer level."""
        parts, begin, index = [], start, start
        while index < stop:
            if self.word(index) in OPENING and index in self.match:
                index = self.match[index]
            elif self.word(index) == mark and self.kind(index) == "mark":
                parts.append((begin, index))
                begin = index + 1
            index += 1
        return [*parts, (begin, stop)]

    def calls(self, *names: str) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yields (index of the name, its arguments) of every call of some functions."""
        for index in self.indices(*names):
            if self.word(index + 1) == "(" and index + 1 in self.match:
                stop = self.match[index + 1]
                yield index, self.split(index + 2, stop, ",") if stop > index + 2 else []

    def constant(self, start: int, stop: int) -> int | None:
        """Returns what tokens [start, stop) are worth where they are whole numbers and named constants."""
        try:
            return evaluate(self.span(start, stop).replace("/", "//"), self.constants)
        except ValueError:
            return None

    def qualified(self, index: int) -> int:
        """Returns where a name begins with the scopes in front of it, such as `std::`."""
        while self.word(index - 1) == "::" and self.kind(index - 2) == "name":
            index -= 2
        return index

    # --------------------------------------------------------------------------------------------- statements

    def starts_statement(self, index: int) -> bool:
        """Tells whether a token begins a statement."""
        before = self.word(index - 1)
        if index in self._heads:
            return False
        if index == 0 or before in (";", "{", "}", "else", "do") or self.kind(index - 1) in ("pragma", "directive"):
            return True
        if before == ")" and index - 1 in self.match:
            head = self.match[index - 1] - 1
            return self.word(head) in ("for", "if", "while") or self.word(head) == "constexpr"
        return False

    def statement_stop(self, start: int) -> int:
        """Returns the index after a statement's end."""
        index = start
        while self.kind(index) == "pragma":
            index += 1
        word = self.word(index)
        if word == "{":
            return self.match.get(index, len(self.tokens) - 1) + 1
        if word in ("for", "if", "while", "switch"):
            opened = index + 1 if self.word(index + 1) == "(" else index + 2
            stop = self.statement_stop(self.match.get(opened, opened) + 1)
            if word == "if" and self.word(stop) == "else":
                stop = self.statement_stop(stop + 1)
            return stop
        while index < len(self.tokens) and self.word(index) not in (";", "}"):
            index = self.match.get(index, index) + 1 if self.word(index) in OPENING else index + 1
        return min(index + 1, len(self.tokens))

    def statements(self) -> Iterator[tuple[int, int]]:
        """Yields [start, stop) of every plain statement that ends with a semicolon."""
        for index, token in enumerate(self.tokens):
            if token.kind == "directive" or token.kind == "pragma" or token.text in ("{", "}", ";"):
                continue
            if token.text in KEYWORDS or not self.starts_statement(index):
                continue
            stop = self.statement_stop(index)
            if self.word(stop - 1) == ";":
                yield index, stop

    def assignment(self, start: int, stop: int) -> int | None:
        """Returns the index of the assignment operator of a statement, None where it has none."""
        index = start
        while index < stop:
            if self.word(index) in OPENING and index in self.match:
                index = self.match[index]
            elif self.word(index) in ("=", "+=", "-=", "*=", "/=", "|=", "&=", "^="):
                return index
            index += 1
        return None

    # ------------------------------------------------------------------------------------------------ operands

    def is_binary(self, index: int) -> bool:
        """Tells whether an operator stands between two operands (and is neither a sign nor part of a type)."""
        before = self.tokens[index - 1] if index else None
        if before is None or index in self.angles:
            return False
        if before.kind == "name":
            return before.text not in (*DO_NOT_END_AN_OPERAND, *TYPE_WORDS, *QUALIFIERS)
        if before.text == ")" and self.is_cast(self.match.get(index - 1, index)):
            return False
        return before.kind == "number" or before.text in (")", "]")

    def is_cast(self, opened: int) -> bool:
        """Tells whether a parenthesis holds nothing but a type."""
        inside = self.tokens[opened + 1 : self.match.get(opened, opened)]
        return bool(inside) and all(t.text in TYPE_WORDS | QUALIFIERS or t.text in "*&" for t in inside)

    def operand_before(self, index: int, *, products: bool = False) -> int | None:
        """Returns where the operand that ends before a token begins; with `products`, a whole product."""
        at = index - 1
        while True:
            if self.word(at) in (")", "]") and at in self.match:
                at = self.match[at]
                if self.word(at) == "[" or self.kind(at - 1) == "name" or self.word(at - 1) in (")", "]"):
                    if self.word(at - 1) in KEYWORDS:
                        break
                    at -= 1
                    continue
            elif self.kind(at) not in ("name", "number") or self.word(at) in KEYWORDS:
                return None
            if self.word(at - 1) in (".", "->", "::"):
                at -= 2
                continue
            break
        if products and self.word(at - 1) in ("*", "/", "%") and self.is_binary(at - 1):
            return self.operand_before(at - 1, products=True)
        return at

    def operand_after(self, index: int, *, products: bool = False) -> int | None:
        """Returns the index after the operand that begins after a token; with `products`, after a whole product."""
        at = index + 1
        while self.word(at) in ("-", "+", "!", "~", "*", "&") or (self.word(at) == "(" and self.is_cast(at)):
            at = self.match[at] + 1 if self.word(at) == "(" else at + 1
        if self.word(at) == "(" and at in self.match:
            at = self.match[at] + 1
        elif self.kind(at) in ("name", "number") and self.word(at) not in KEYWORDS:
            at += 1
        else:
            return None
        while True:
            if self.word(at) in ("(", "[") and at in self.match:
                at = self.match[at] + 1
            elif self.word(at) in (".", "->", "::"):
                at += 2
            elif at in self.angles and self.word(at) == "<":
                at = next(i for i in range(at + 1, len(self.tokens)) if i in self.angles and ">" in self.word(i)) + 1
            else:
                break
        if products and self.word(at) in ("*", "/", "%"):
            return self.operand_after(at, products=True)
        return at

    # ----------------------------------------------------------------------------------------------- structure

    def _match_brackets(self) -> None:
        stack: list[int] = []
        for index, token in enumerate(self.tokens):
            if token.kind != "mark":
                continue
            if token.text in OPENING:
                stack.append(index)
            elif token.text in CLOSING and stack and self.word(stack[-1]) == CLOSING[token.text]:
                opened = stack.pop()
                self.match[opened], self.match[index] = index, opened

    def _template_angles(self) -> Iterator[int]:
        for index in self.indices("<"):
            if self.kind(index - 1) != "name":
                continue
            depth, at = 1, index + 1
            while depth and at < min(index + 24, len(self.tokens)):
                word = self.word(at)
                depth += {"<": 1, ">": -1, ">>": -2}.get(word, 0)
                if word == "&&" or (word not in ("<", ">", ">>") and not IN_ANGLES.fullmatch(word)):
                    break
                at += 1
            sure = self.word(index - 1) in CASTS
            if depth <= 0 and (sure or self.word(at) in ("(", "::", "{", "&", "*") or self.kind(at) == "name"):
                yield index
                yield at - 1

    def _find_loops(self) -> Iterator[Loop]:
        for index in self.indices("for"):
            if self.word(index + 1) != "(" or index + 1 not in self.match:
                continue
            parts = self.split(index + 2, self.match[index + 1], ";")
            body = self.match[index + 1] + 1
            self._heads.update(range(index + 1, body - 1))
            if len(parts) == 3:
                yield Loop(index, parts[0], parts[1], parts[2], (body, self.statement_stop(body)))

    def _find_declared(self) -> Iterator[Declared]:
        index = 0
        while index < len(self.tokens):
            start = index
            while self.word(index) in TYPE_WORDS | QUALIFIERS and self.kind(index) == "name":
                index += 1
            if not any(self.word(i) in TYPE_WORDS for i in range(start, index)):
                index = max(index, start + 1)
                continue
            yield from self._declarators((start, index))

    def _declarators(self, type_: tuple[int, int]) -> Iterator[Declared]:
        index, found = type_[1], []
        while True:
            pointer = False
            while self.word(index) in ("*", "&", "&&") or self.word(index) in QUALIFIERS:
                pointer |= self.word(index) in ("*", "&")
                index += 1
            if self.kind(index) != "name" or self.word(index + 1) not in ("=", ";", ",", "[", ")", ":"):
                break
            name, index, array = index, index + 1, False
            while self.word(index) == "[" and index in self.match:
                index, array = self.match[index] + 1, True
            init = None
            if self.word(index) == "=":
                start = index + 1
                while index < len(self.tokens) and self.word(index) not in (",", ";", ")", "}"):
                    index = self.match.get(index, index) + 1 if self.word(index) in OPENING else index + 1
                init = (start, index)
            found.append((name, pointer, array, init))
            if self.word(index) != "," or self.word(index + 1) in TYPE_WORDS | QUALIFIERS:
                break
            index += 1
        for name, pointer, array, init in found:
            yield Declared(type_, name, pointer, array, init, name == found[0][0], len(found) == 1)
