"""Whether a source is new, or one that is known with other names, comments and spacing.

Not here: whether it is faster; a copy is not worth finding out.
"""

from __future__ import annotations

import hashlib
import re

from kernelwright.types import Candidate, Step

TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|(?P<number>\.?\d[\w.]*)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<mark>::|->|[^\s\w])",
    re.DOTALL,
)
PYTHON_COMMENT = re.compile(r"#(?!\s*(?:include|pragma|define|if|ifdef|ifndef|else|elif|endif|undef)\b)[^\n]*")
DEFINED = re.compile(r"\b(?:void|float|double|int|auto|bool|def|__m\w+|\w+_t)\s*[*&]?\s+(\w+)\s*\(")
MARKED = re.compile(r"(?://|#)\s*(kernelwright-(?:plan|launch):[^\n]*)")
_KEPT = (
    "alignas auto bool break case char const constexpr continue default do double else enum explicit extern false "
    "float for if inline int int8_t int16_t int32_t int64_t long namespace nullptr operator return short signed "
    "size_t sizeof static static_cast struct switch template this true typedef typename uint8_t uint16_t uint32_t "
    "uint64_t union unsigned using void volatile while omp pragma include define parallel simd reduction schedule "
    "dynamic guided collapse nowait threadIdx blockIdx blockDim gridDim warpSize __shared__ __restrict__ "
    "__global__ __device__ def import from as in not and or None True False lambda tl constexpr triton jit"
)
KEPT = frozenset(_KEPT.split())
MOST_ARGUMENTS = 24
"""Tokens that a template's arguments have at most."""


def normalised(text: str, *, own: tuple[str, ...] = ()) -> str:
    """Returns a source without comments and spacing, its own names replaced by numbers in order of appearance.

    Names of functions, members and namespaces stay (`exp` is not `log`), but for those that it defines and those of
    `own`.
    """
    marks = MARKED.findall(text)
    tokens = [m for m in TOKEN.finditer(PYTHON_COMMENT.sub("", text)) if m.lastgroup != "comment"]
    kept = set(KEPT)
    for place, match in enumerate(tokens):
        if match.lastgroup != "word":
            continue
        after = tokens[place + 1][0] if place + 1 < len(tokens) else ""
        before = tokens[place - 1][0] if place else ""
        if after in ("(", "::") or before in ("::", ".", "->") or (after == "<" and _template(tokens, place + 2)):
            kept.add(match[0])
    kept -= set(DEFINED.findall(text)) | set(own)
    names: dict[str, str] = {}
    words = []
    for match in tokens:
        renamed = match.lastgroup == "word" and match[0] not in kept
        words.append(names.setdefault(match[0], f"v{len(names)}") if renamed else match[0])
    return " ".join([*words, *(" ".join(mark.split()) for mark in marks)])


def _template(tokens: list[re.Match[str]], place: int) -> bool:
    """Tells whether a `<` before this place begins a template's arguments; `i < n;` compares."""
    inside = (match[0] for match in tokens[place : place + MOST_ARGUMENTS])
    return next((mark for mark in inside if mark in "<>;(){}&|"), "") == ">"


def fingerprint(candidate: Candidate) -> str:
    """Returns what is equal for candidates that are the same but for names, comments and spacing."""
    symbols = tuple(step.symbol for step in candidate.plan.steps)
    text = "\n".join(normalised(source.text, own=symbols) for source in candidate.sources)
    # The plan's own symbols are the author's names too: only its shape counts.
    steps = "|".join(map(_shape, candidate.plan.steps))
    options = ",".join(f"{name}={choice}" for name, choice in candidate.options)
    return hashlib.sha256(f"{candidate.language}\n{text}\n{steps}\n{options}".encode()).hexdigest()


def _shape(step: Step) -> str:
    arguments = ",".join(f"{a.kind}:{a.scalar if a.kind == 'scalar' else a.name}" for a in step.arguments)
    return f"{step.kind}({arguments}){step.launch}"
