"""The generated entry: one C++ translation unit that includes the candidate's source and runs its plan.

It is data turned into calls: typed casts of the buffers and literal scalars, so that a plan whose
types do not match the source does not compile. It comes after the source and in a file of its
own, so that the source's line numbers stay what the author sees.
Not here: whether the plan makes sense (plan.py).
"""

from __future__ import annotations

import math

from kernelwright.types import Binding, Candidate, Problem, Step

SYMBOL = "kw_entry"
BUFFERS = "kernelwright_buffers"
AXES = "kernelwright_axes"
PARAMETERS = f"void* const* {BUFFERS}, const std::int64_t* {AXES}"
FILE = "<stdin>"
"""How the compiler names the generated text: it is piped in, so it cannot collide with a source's path."""

# Comes before the source, so that the author's macros (T, N ...) cannot reach it.
# A scalar must arrive with exactly its plan's type: every implicit conversion is deleted.
EXACT = """\
template <class T> struct kernelwright_exact {
  T number;
  constexpr operator T() const { return number; }
  template <class Other> constexpr operator Other() const = delete;
};
"""


def text(problem: Problem, candidate: Candidate) -> str:
    """Returns the entry's C++ text for a plan that `check_plan` has passed.

    `kw_entry(void* const* buffers, const int64_t* axes)` takes the problem's arguments in order, then the plan's
    workspaces; and the sizes of the problem's axes. Every argument has a line of its own, so that a compiler's
    complaint names it.
    """
    order = [tensor.name for tensor in problem.arguments] + [w.name for w in candidate.plan.workspaces]
    index = {name: position for position, name in enumerate(order)}
    constant = {tensor.name for tensor in problem.inputs + problem.parameters}
    axes = {axis.name: position for position, axis in enumerate(problem.axes)}
    lines = [_prologue(candidate)]
    for step in candidate.plan.steps:
        arguments = ",\n".join(_argument(binding, index, constant, axes) for binding in step.arguments)
        lines.append(f"  ::{step.symbol}(\n{arguments}\n  );\n")
    return "".join(lines) + "}\n"


def locate(candidate: Candidate, line: int) -> tuple[Step, int, int | None] | None:
    """Returns what stands on a line of the entry's text: (step, its number from 0, argument's number or None).

    None for a line outside the calls.
    """
    first = _prologue(candidate).count("\n") + 1
    for number, step in enumerate(candidate.plan.steps):
        length = max(1, len(step.arguments)) + 2
        if first <= line < first + length:
            argument = line - first - 1
            return step, number, argument if 0 <= argument < len(step.arguments) else None
        first += length
    return None


def _prologue(candidate: Candidate) -> str:
    return (
        f"#include <cstdint>\n{EXACT}"
        f'extern "C" __attribute__((visibility("default"))) void {SYMBOL}({PARAMETERS});\n'
        f'#include "{candidate.sources[0].path}"\n'
        f'extern "C" void {SYMBOL}({PARAMETERS}) {{\n  (void){BUFFERS};\n  (void){AXES};\n'
    )


def _argument(binding: Binding, index: dict[str, int], constant: set[str], axes: dict[str, int]) -> str:
    if binding.kind == "axis":
        size = f"static_cast<{binding.ctype}>({AXES}[{axes[binding.name]}])"
        return f"kernelwright_exact<{binding.ctype}>{{{size}}}"
    if binding.kind == "scalar":
        return f"kernelwright_exact<{binding.ctype}>{{{literal(binding)}}}"
    element = binding.ctype.removeprefix("const ")
    const = "const " if binding.name in constant or binding.ctype != element else ""
    return f"static_cast<{const}{element}*>({BUFFERS}[{index[binding.name]}])"


def literal(binding: Binding) -> str:
    """Returns a scalar as C++ text that means exactly its value.

    Raises:
        ValueError: for a binding without a value.
    """
    number, ctype = binding.scalar, binding.ctype
    if number is None:
        raise ValueError(f"scalar {binding.name!r} has no value")
    if ctype == "bool":
        return "true" if number else "false"
    if ctype in ("float", "double"):
        return _real(float(number), "f" if ctype == "float" else "")
    number = int(number)
    if number == -(1 << 63):
        return "-9223372036854775807LL - 1"
    body = f"{number}ULL" if ctype == "uint64_t" else f"{number}LL"
    return body if ctype in ("int64_t", "uint64_t") else f"static_cast<{ctype}>({body})"


def _real(number: float, suffix: str) -> str:
    if math.isnan(number):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(number):
        return f"{'-' if number < 0 else ''}__builtin_inf{suffix}()"
    if suffix:
        return f"static_cast<float>({number.hex()})"
    return number.hex()
