"""The generated entry of an emulated candidate: its source, then its plan's launches and memsets, one after another.

Lines are counted as in languages/entry.py, so that the same reader finds the argument that a compiler complains about.
Not here: whether the plan makes sense (device_plan.py).
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping

from kernelwright.languages import device_plan, entry
from kernelwright.types import Binding, Candidate, Failure, Problem, Size, Step

HEADER = "kernelwright_emulation/device.hpp"
SPACE = "kernelwright_emulation"
WIDE = ("int64_t", "uint64_t")
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%",
}  # fmt: skip


def refusal(candidate: Candidate) -> Failure | None:
    """Returns what of a plan the emulation cannot run, None where it can run all."""
    if candidate.plan.tensor_maps:
        return _refuse("tensor maps")
    for step in candidate.plan.steps:
        if step.kind == "library":
            return _refuse("library calls")
        if step.launch is None:
            continue
        if math.prod(step.launch.cluster) > 1:
            return _refuse("clusters")
        if step.launch.cooperative:
            return _refuse("cooperative launches")
        if step.launch.programmatic:
            return _refuse("programmatic launches")
    return None


def _refuse(what: str) -> Failure:
    message = f"the emulation has no {what}; judge the kernel on a device"
    return Failure(stage="plan", kind="emulation", message=message)


def text(problem: Problem, candidate: Candidate) -> str:
    """Returns the C++ text for a plan that `check_device_plan` and `refusal` have passed."""
    order = [tensor.name for tensor in problem.arguments] + [w.name for w in candidate.plan.workspaces]
    index = {name: position for position, name in enumerate(order)}
    constant = {tensor.name for tensor in problem.inputs + problem.parameters}
    axes = {axis.name: position for position, axis in enumerate(problem.axes)}
    symbol, buffers = entry.SYMBOL, entry.BUFFERS
    lines = [
        f"#include <cstdint>\n{entry.EXACT}#include <{HEADER}>\n",
        f'extern "C" __attribute__((visibility("default"))) void {symbol}({entry.PARAMETERS});\n',
        f'#include "{candidate.sources[0].path}"\n',
        f'extern "C" void {symbol}({entry.PARAMETERS}) {{\n',
        f"  (void){buffers};\n  (void){entry.AXES};\n  ::{SPACE}::begin_call();\n",
        f'#line {entry.first_line(candidate)} "{entry.FILE}"\n',
    ]
    for step in candidate.plan.steps:
        if step.kind == "memset":
            lines.append(_memset(problem, candidate, step, index, axes))
        else:
            arguments = ",\n".join(_argument(binding, index, constant, axes) for binding in step.arguments)
            lines.append(f"  {_launch(step, axes)} ::{step.symbol}(\n{arguments}\n  ); }});\n")
    return "".join([*lines, f"  ::{SPACE}::end_call();\n}}\n"])


def _argument(binding: Binding, index: dict[str, int], constant: set[str], axes: dict[str, int]) -> str:
    element = binding.ctype.removeprefix("const ")
    if binding.kind == "axis":  # on a device it may be an expression
        made = f"static_cast<{element}>({size_text(binding.name, axes)})"
        made = f"kernelwright_exact<{element}>{{{made}}}"
    else:
        made = entry.argument(binding, index, constant, axes)
    if element not in WIDE:
        return made
    # On a device `long` and `long long` are one.
    return f"::{SPACE}::{'number' if binding.kind in ('scalar', 'axis') else 'pointer'}({made})"


def _launch(step: Step, axes: dict[str, int]) -> str:
    assert step.launch is not None  # check_device_plan has passed
    grid = ", ".join(f"unsigned({size_text(size, axes)})" for size in step.launch.grid)
    block = ", ".join(f"{size}u" for size in step.launch.block)
    return f"::{SPACE}::launch(::dim3({grid}), ::dim3({block}), {step.launch.shared_bytes}u, [&] {{"


def _memset(problem: Problem, candidate: Candidate, step: Step, index: dict[str, int], axes: dict[str, int]) -> str:
    name = step.arguments[0].name
    found = {w.name: size_text(w.size_bytes, axes) for w in candidate.plan.workspaces}
    places = {place: axis.name for axis in problem.axes for place in axis.places}
    for tensor in problem.arguments:
        sizes: list[Size] = [places.get((tensor.name, dim), size) for dim, size in enumerate(tensor.shape)]
        element = device_plan.DEVICE_BYTES[device_plan.CTYPES[tensor.dtype]]
        found[tensor.name] = " * ".join(size_text(size, axes) for size in (element, *sizes))
    return f"  ::std::memset(\n{entry.BUFFERS}[{index[name]}], {step.byte}, size_t({found[name]})\n  );\n"


def size_text(size: Size, axes: Mapping[str, int]) -> str:
    """Returns a size as a C++ expression over the entry's axes.

    Args:
        size: an expression that `sizes.evaluate` has accepted.
        axes: the places of the axes in the entry's second argument, by name.
    """
    return f"{size}ll" if isinstance(size, int) else _text(ast.parse(size, mode="eval").body, axes)


def _text(node: ast.expr, axes: Mapping[str, int]) -> str:
    match node:
        case ast.Constant(value=int() as number):
            return f"{number}ll"
        case ast.Name(id=name):
            return f"{entry.AXES}[{axes[name]}]"
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_text(left, axes)} {OPERATORS[type(op)]} {_text(right, axes)})"
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return f"::{SPACE}::size_{name}({_text(left, axes)}, {_text(right, axes)})"
    raise ValueError(f"{ast.dump(node)} is no size")  # sizes.evaluate has accepted it
