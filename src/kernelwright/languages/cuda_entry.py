"""The text around a candidate's CUDA source that holds its kernels to the plan's types while they are compiled.

It includes the source and then asks, for every argument of every step, whether the kernel's parameter has the plan's
type: a `double*` for a `float*`, or an `int` for an `int64_t`, does not compile, and the line that failed says which.
Nothing of it becomes code. Integers agree by size and sign, since int64_t is `long` here and `long long` elsewhere.
Not here: whether the plan makes sense (device_plan.py); sizes in the finished cubin (device_plan.check_resources).
"""

from __future__ import annotations

import re

from kernelwright.types import Binding, Candidate, Problem, Step, value

FILE = "kernelwright_entry.cu"
HEADERS = {
    "__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h", "__nv_fp8_e4m3": "cuda_fp8.h",
    "__nv_fp8_e5m2": "cuda_fp8.h", "CUtensorMap": "cuda.h",
}  # fmt: skip
BUILT_IN = {
    "int8_t": "signed char", "uint8_t": "unsigned char", "int16_t": "short", "uint16_t": "unsigned short",
    "int32_t": "int", "uint32_t": "unsigned int", "int64_t": "long long", "uint64_t": "unsigned long long",
}  # fmt: skip
"""Spelled without <cstdint>, which a source need not include."""

CHECK = re.compile(r"template struct kernelwright_entry::check_(count|type)<(\d+), (\d+),")

MATH = """\
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#endif
"""
"""NVRTC 13.0 has neither, and nvcc includes <math.h> unasked; spelled as in kernelwright_math.h."""

# Comes before the source, so that the author's macros cannot reach it.
CHECKS = """\
namespace kernelwright_entry {
template <class T> struct plain { using type = T; };
template <> struct plain<long> { using type = long long; };
template <> struct plain<unsigned long> { using type = unsigned long long; };
template <class P, class W> struct agrees { static constexpr bool yes = false; };
template <class T> struct agrees<T, T> { static constexpr bool yes = true; };
template <class P, class W> struct element { static constexpr bool yes =
  agrees<typename plain<P>::type, typename plain<W>::type>::yes; };
template <class P, class W> struct fits { static constexpr bool yes = element<P, W>::yes; };
template <class P, class W> struct fits<P*, W*> { static constexpr bool yes = element<P, W>::yes; };
template <class P, class W> struct fits<P*, const W*> { static constexpr bool yes = element<P, W>::yes; };
template <class P, class W> struct fits<const P*, W*> { static constexpr bool yes = false; };
template <class P, class W> struct fits<const P*, const W*> { static constexpr bool yes = element<P, W>::yes; };
template <class F> struct kernel { static constexpr int count = -1; };
template <class... A> struct kernel<void(A...)> { static constexpr int count = sizeof...(A); };
template <int n, class F> struct parameter { using type = void; };
template <class A, class... Rest> struct parameter<0, void(A, Rest...)> { using type = A; };
template <int n, class A, class... Rest> struct parameter<n, void(A, Rest...)>
    : parameter<n - 1, void(Rest...)> {};
template <int step, int planned, int written> struct check_count {
  static_assert(planned == written, "kernelwright: count");
};
template <int step, int argument, class Planned, class Written> struct check_type {
  static_assert(fits<Planned, Written>::yes, "kernelwright: type");
};
}
"""


@value
class Place:
    """What stands on a line of the entry's text."""

    step: Step
    number: int
    """The step's number, from 1."""
    argument: int | None
    """The argument's number from 0; None for the line that counts them."""


def text(problem: Problem, candidate: Candidate) -> str:
    """Returns the main text of a candidate's compilation, for a plan that `check_device_plan` has passed."""
    lines = [_prologue(problem, candidate)]
    for number, step in enumerate(candidate.plan.steps, start=1):
        if step.kind != "kernel":
            continue
        kernel = f"decltype(::{step.symbol})"
        counted = f"kernelwright_entry::kernel<{kernel}>::count"
        lines.append(f"template struct kernelwright_entry::check_count<{number}, {len(step.arguments)}, {counted}>;")
        for position in range(len(step.arguments)):
            types = f"{_planned(number, position)}, kernelwright_entry::parameter<{position}, {kernel}>::type"
            lines.append(f"template struct kernelwright_entry::check_type<{number}, {position}, {types}>;")
    return "\n".join([*lines, ""])


def locate(problem: Problem, candidate: Candidate, line: int) -> Place | None:
    """Returns what stands on a line of the entry's text, None for a line outside the checks."""
    lines = text(problem, candidate).split("\n")
    found = CHECK.match(lines[line - 1]) if 0 < line <= len(lines) else None
    if not found:
        return None
    number = int(found[2])
    argument = int(found[3]) if found[1] == "type" else None
    return Place(step=candidate.plan.steps[number - 1], number=number, argument=argument)


def signature(problem: Problem, step: Step) -> str:
    """Returns the declaration that a step's kernel should have."""
    parts = [f"{spelled(problem, binding)} {binding.name}" for binding in step.arguments]
    return f'extern "C" __global__ void {step.symbol}({", ".join(parts)})'


def spelled(problem: Problem, binding: Binding) -> str:
    """Returns the type of a kernel's parameter for a binding, as an author would write it."""
    if binding.kind == "tensor_map":
        return "const __grid_constant__ CUtensorMap"
    if binding.kind not in ("tensor", "workspace"):
        return binding.ctype
    constant = {tensor.name for tensor in problem.inputs + problem.parameters}
    const = "const " if _is_const(binding, constant) else ""
    return f"{const}{binding.ctype.removeprefix('const ')}*"


def _kernels(candidate: Candidate) -> list[Step]:
    return [step for step in candidate.plan.steps if step.kind == "kernel"]


def _planned(step: int, argument: int) -> str:
    return f"kernelwright_entry::planned_{step}_{argument}"


def _prologue(problem: Problem, candidate: Candidate) -> str:
    """What comes before the source: the planned types too, which the author's macros must not reach."""
    constant = {tensor.name for tensor in problem.inputs + problem.parameters}
    planned = "".join(
        f"  using planned_{number}_{position} = {_type(binding, constant)};\n"
        for number, step in enumerate(candidate.plan.steps, start=1)
        for position, binding in enumerate(step.arguments)
        if step.kind == "kernel"
    )
    used = {b.ctype.removeprefix("const ") for step in _kernels(candidate) for b in step.arguments}
    headers = dict.fromkeys(HEADERS[ctype] for ctype in sorted(used) if ctype in HEADERS)
    includes = "".join(f"#include <{header}>\n" for header in headers)
    return (
        f'{MATH}{includes}{CHECKS}namespace kernelwright_entry {{\n{planned}}}\n#include "{candidate.sources[0].path}"'
    )


def _is_const(binding: Binding, constant: set[str]) -> bool:
    return binding.name in constant or binding.ctype.startswith("const ")


def _type(binding: Binding, constant: set[str]) -> str:
    element = binding.ctype.removeprefix("const ")
    spelled = BUILT_IN.get(element, f"::{element}" if element in HEADERS else element)
    if binding.kind in ("tensor", "workspace"):
        return f"{'const ' if _is_const(binding, constant) else ''}{spelled}*"
    return spelled
