"""Names that are safe in C and C++: what tensors and nodes are called in plans and kernels.

Not here: what is named (source.py for inputs, tracing.py for parameters and nodes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default
    delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq typeof""".split()  # noqa: SIM905  (a list of words)
)
"""Words that C++17, C++20 or GNU C++ keep for themselves."""

TAKEN = frozenset(
    """abs acos asin assert atan atan2 calloc cbrt ceil cos cosh errno erf erfc exp exp2 exp10 expm1 fabs floor fma fmax
    fmin fmod free frexp hypot isfinite isinf isnan ldexp lgamma log log10 log1p log2 malloc max memcpy memmove memset
    min modf nan nearbyint pow remainder rint round signbit sin sinh sqrt std tan tanh tgamma trunc
    EOF NULL NAN INFINITY""".split()  # noqa: SIM905  (a list of words)
)
"""Names of the C library that kernels use: a tensor of that name would hide one from the kernel."""

OUTPUT = re.compile(r"out\d*")


def identifiers(wanted: Iterable[str], *, taken: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns one valid, unique C identifier for each wanted name, as close to it as possible.

    Output names (`out`, `out0` ...) are kept free for a problem's outputs.

    Args:
        wanted: names as the user wrote them; may repeat, contain dots or be reserved words.
        taken: identifiers that must not be given out.
    """
    used = set(taken)
    names = []
    for name in wanted:
        base = _safe(name)
        unique, count = base, 1
        while unique in used:
            count += 1
            unique = f"{base.rstrip('_')}_{count}"
        used.add(unique)
        names.append(unique)
    return tuple(names)


def _safe(name: str) -> str:
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name.replace(".", "_"))
    # Two underscores, or one before a capital, belong to the compiler; kw_ belongs to generated code.
    text = re.sub(r"__+", "_", text).strip("_") or "t"
    if text[0].isdigit() or text.startswith("kw_"):
        text = "t_" + text
    if text in KEYWORDS or text in TAKEN or OUTPUT.fullmatch(text):
        text += "_"
    return text
