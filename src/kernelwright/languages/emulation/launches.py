"""The generated entry of an emulated candidate: its source, then its plan's launches and memsets, one after another.

Lines are counted as in languages/entry.py, so that the same reader finds the argument that a compiler complains about.
Not here: whether the plan makes sense (device_plan.py).
"""

from __future__ import annotations

import math

from kernelwright import sizes
from kernelwright.languages import device_plan, entry
from kernelwright.types import Binding, Candidate, Failure, Problem, Step, replace

HEADER = "kernelwright_emulation/device.hpp"
SPACE = "kernelwright_emulation"


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
    symbol, buffers = entry.SYMBOL, entry.BUFFERS
    lines = [
        f"#include <cstdint>\n{entry.EXACT}#include <{HEADER}>\n",
        f'extern "C" __attribute__((visibility("default"))) void {symbol}(void* const* {buffers});\n',
        f'#include "{candidate.sources[0].path}"\n',
        f'extern "C" void {symbol}(void* const* {buffers}) {{\n  (void){buffers};\n  ::{SPACE}::begin_call();\n',
        f'#line {entry.first_line(candidate)} "{entry.FILE}"\n',
    ]
    for step in candidate.plan.steps:
        if step.kind == "memset":
            lines.append(_memset(problem, candidate, step, index))
        else:
            arguments = ",\n".join(entry.argument(_at(problem, b), index, constant) for b in step.arguments)
            lines.append(f"  {_launch(problem, step)} ::{step.symbol}(\n{arguments}\n  ); }});\n")
    return "".join([*lines, f"  ::{SPACE}::end_call();\n}}\n"])


def _at(problem: Problem, binding: Binding) -> Binding:
    """A binding of an axis as the scalar that it is at the problem's own sizes."""
    if binding.kind != "axis":
        return binding
    number = sizes.evaluate(binding.name, {axis.name: axis.size for axis in problem.axes})
    return replace(binding, kind="scalar", scalar=number)


def _launch(problem: Problem, step: Step) -> str:
    assert step.launch is not None  # check_device_plan has passed
    axes = {axis.name: axis.size for axis in problem.axes}
    grid = ", ".join(f"{sizes.evaluate(size, axes)}u" for size in step.launch.grid)
    block = ", ".join(f"{size}u" for size in step.launch.block)
    return f"::{SPACE}::launch(::dim3({grid}), ::dim3({block}), {step.launch.shared_bytes}u, [&] {{"


def _memset(problem: Problem, candidate: Candidate, step: Step, index: dict[str, int]) -> str:
    name = step.arguments[0].name
    found = {w.name: w.size_bytes for w in candidate.plan.workspaces}
    for tensor in problem.arguments:
        found[tensor.name] = math.prod(tensor.shape) * device_plan.DEVICE_BYTES[device_plan.CTYPES[tensor.dtype]]
    return f"  ::std::memset(\n{entry.BUFFERS}[{index[name]}], {step.byte}, {found[name]}ul\n  );\n"
