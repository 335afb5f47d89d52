"""Launch plans: which C types tensors have, and whether a plan can be right for its problem.

Not here: whether the source agrees with the plan; the compiler decides that (entry.py).
"""

from __future__ import annotations

import math
import re

from kernelwright.sizes import evaluate
from kernelwright.types import Binding, Candidate, Failure, Problem, Size, Step, TensorSpec, Workspace

CTYPES = {
    "float32": "float", "float64": "double", "int64": "int64_t", "int32": "int32_t", "int16": "int16_t",
    "uint8": "uint8_t", "int8": "int8_t", "bool": "bool", "float16": "uint16_t", "bfloat16": "uint16_t",
}  # fmt: skip
"""The C type of one element, by dtype; 16-bit floats are carried as their bits."""
INTEGER_RANGES = {
    f"{sign}int{bits}_t": (0 if sign else -(1 << bits - 1), (1 << bits - (0 if sign else 1)) - 1)
    for bits in (8, 16, 32, 64)
    for sign in ("", "u")
}
ELEMENT_BYTES = {"float": 4, "double": 8, "bool": 1} | {
    name: int(re.sub(r"\D", "", name)) // 8 for name in INTEGER_RANGES
}
FLOAT_MAX = float.fromhex("0x1.fffffep+127")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYWORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const "
    "const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern "
    "false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or "
    "or_eq private protected public register reinterpret_cast return short signed sizeof static static_assert "
    "static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using "
    "virtual void volatile wchar_t while xor xor_eq"
)
KEYWORDS = frozenset(_KEYWORDS.split())
AXIS_CTYPES = ("int64_t", "int32_t")
WORKSPACE_LIMIT_BYTES = 1 << 34


def is_identifier(name: str) -> bool:
    """Returns whether a name can be used in C++ as it stands."""
    return bool(IDENTIFIER.fullmatch(name)) and name not in KEYWORDS


def element_ctype(tensor: TensorSpec) -> str:
    """Returns the C type of a tensor's elements.

    Raises:
        KeyError: for a dtype that no kernel can be given.
    """
    return CTYPES[tensor.dtype]


def pointer_ctype(tensor: TensorSpec) -> str:
    """Returns the type of a kernel's parameter for a tensor: `const float*`, or `float*` for an output."""
    return f"{'' if tensor.role == 'output' else 'const '}{element_ctype(tensor)}*"


def check_plan(problem: Problem, candidate: Candidate) -> Failure | None:
    """Returns what is wrong with a candidate's launch plan, None where nothing is.

    **Covers**: names, C types and constness of tensors, type and range of scalars and axes, workspaces
    (unique, sized, used), that each output is bound for writing by some step, the step's symbols.
    **Does not cover**: whether the source has these functions with these parameters (the compiler
    decides), whether a step really writes what it may write (the judge decides).
    """
    if candidate.witnessed:
        return _witnessed_fault(candidate)
    message = (
        _problem_fault(problem, candidate)
        or workspace_fault(problem, candidate.plan.workspaces)
        or _steps_fault(problem, candidate)
        or _coverage_fault(problem, candidate)
    )
    return Failure(stage="plan", kind="plan", message=message) if message else None


def _witnessed_fault(candidate: Candidate) -> Failure | None:
    plan = candidate.plan
    if not (plan.steps or plan.workspaces or plan.tensor_maps):
        return None
    message = "a python candidate has a plan, but it launches what it wants itself; leave the plan empty"
    return Failure(stage="plan", kind="plan", message=message)


def _problem_fault(problem: Problem, candidate: Candidate) -> str:
    for tensor in problem.arguments:
        if tensor.dtype not in CTYPES:
            return f"tensor {tensor.name!r} is {tensor.dtype}, which cpp kernels cannot take; they take {_known()}"
    if not candidate.plan.steps:
        return "the plan has no steps; it needs at least one kernel call"
    return ""


def workspace_fault(problem: Problem, workspaces: tuple[Workspace, ...]) -> str:
    """Returns what is wrong with a plan's workspaces as such, empty where nothing is."""
    seen = {tensor.name for tensor in problem.arguments}
    for workspace in workspaces:
        where = f"workspace {workspace.name!r}"
        if not is_identifier(workspace.name):
            return f"{where} has a name that is no C identifier"
        if workspace.name in seen:
            return f"{where} has the name of another tensor or workspace; choose a new one"
        if fault := _size_fault(problem, workspace.size_bytes):
            return f"{where} {fault}"
        seen.add(workspace.name)
    return ""


def _size_fault(problem: Problem, size: Size) -> str:
    """Returns what is wrong with a workspace's size, at the declared sizes and at both ends of all ranges."""
    if isinstance(size, bool | float):
        return f"has a size that is no whole number of bytes: {size!r}"
    for end in ("size", "low", "high"):
        axes = {axis.name: int(getattr(axis, end)) for axis in problem.axes}
        try:
            found = evaluate(size, axes)
        except ValueError as error:
            return f"has a size that is no whole number of bytes: {error}"
        if not 0 < found <= WORKSPACE_LIMIT_BYTES:
            where = " for " + ", ".join(f"{k}={v}" for k, v in axes.items()) if axes else ""
            return f"asks for {found} bytes{where}; 1 to {WORKSPACE_LIMIT_BYTES} are possible"
    return ""


def _steps_fault(problem: Problem, candidate: Candidate) -> str:
    for number, step in enumerate(candidate.plan.steps, start=1):
        where = f"step {number} {step.symbol!r}"
        if not is_identifier(step.symbol):
            return f"{where}: the symbol is no C identifier"
        if step.symbol == "kw_entry":
            return f"{where}: kw_entry is the generated entry's own name; choose another"
        for binding in step.arguments:
            if fault := _binding_fault(problem, candidate.plan.workspaces, binding):
                return f"{where}: argument {binding.name!r} {fault}"
    return ""


def _binding_fault(problem: Problem, workspaces: tuple[Workspace, ...], binding: Binding) -> str:
    kind: str = binding.kind  # what arrives from another process is not held to the annotation
    if kind == "scalar":
        return scalar_fault(binding)
    if binding.scalar is not None:
        return f"is a {binding.kind} and cannot carry the value {binding.scalar!r}"
    if kind == "tensor":
        tensors = {tensor.name: tensor for tensor in problem.arguments}
        if binding.name not in tensors:
            return f"is no tensor of the problem; it has {', '.join(tensors)}"
        return _tensor_fault(tensors[binding.name], binding.ctype)
    if kind == "workspace":
        axes = {axis.name: axis.size for axis in problem.axes}
        sizes = {workspace.name: evaluate(workspace.size_bytes, axes) for workspace in workspaces}
        if binding.name not in sizes:
            return f"is no workspace of the plan; it has {', '.join(sizes) or 'none'}"
        element = binding.ctype.removeprefix("const ")
        if element not in ELEMENT_BYTES:
            return f"has the C type {binding.ctype!r}; a workspace can be of {', '.join(ELEMENT_BYTES)}"
        if sizes[binding.name] < ELEMENT_BYTES[element]:
            return f"is a workspace of {sizes[binding.name]} bytes, too small for one {element}"
        return ""
    if kind == "axis":
        return _axis_fault(problem, binding)
    return f"has the unknown kind {kind!r}; known are tensor, workspace, scalar, axis"


def _axis_fault(problem: Problem, binding: Binding) -> str:
    axes = {axis.name: axis for axis in problem.axes}
    if binding.name not in axes:
        return f"is no axis of the problem; it has {', '.join(axes) or 'none'}"
    if binding.ctype not in AXIS_CTYPES:
        return f"has the C type {binding.ctype!r}; an axis can be {' or '.join(AXIS_CTYPES)}"
    _, most = INTEGER_RANGES[binding.ctype]
    high = axes[binding.name].high
    return f"may be as large as {high}, which {binding.ctype} cannot hold; use int64_t" if high > most else ""


def _tensor_fault(tensor: TensorSpec, ctype: str) -> str:
    element = element_ctype(tensor)
    if ctype.removeprefix("const ") != element:
        return f"has the C type {ctype!r}, but {tensor.name} is {tensor.dtype}: {element}"
    return ""


def scalar_fault(binding: Binding) -> str:
    """Returns why a scalar's value does not fit its C type, empty where it does."""
    number, ctype = binding.scalar, binding.ctype
    if not is_identifier(binding.name):
        return "has a name that is no C identifier"
    if number is None:
        return "is a scalar without a value"
    if ctype in INTEGER_RANGES:
        low, high = INTEGER_RANGES[ctype]
        if not _is_whole(number):
            return f"is {number!r}, which is no whole number, but its type is {ctype}"
        return "" if low <= number <= high else f"is {number}, out of range of {ctype} ({low} to {high})"
    if ctype == "bool":
        return "" if number in (0, 1) else f"is {number!r}, but its type is bool"
    if ctype in ("float", "double"):
        if isinstance(number, bool):
            return f"is {number!r}, but its type is {ctype}"
        if isinstance(number, int) and abs(number) > 1 << 53:
            return f"is {number}, which {ctype} cannot hold exactly"
        finite = math.isfinite(number)
        return f"is {number}, out of range of float" if ctype == "float" and finite and abs(number) > FLOAT_MAX else ""
    return f"has the C type {ctype!r}; a scalar can be {', '.join(ELEMENT_BYTES)}"


def _coverage_fault(problem: Problem, candidate: Candidate) -> str:
    steps = candidate.plan.steps
    for output in problem.outputs:
        bound = [b for step in steps for b in step.arguments if b.kind == "tensor" and b.name == output.name]
        if not any(not binding.ctype.startswith("const ") for binding in bound):
            how = "only bound as const" if bound else "bound by no step"
            return f"output {output.name!r} is {how}, so nothing can write it; bind it as {pointer_ctype(output)}"
    used = {b.name for step in steps for b in step.arguments if b.kind == "workspace"}
    unused = [workspace.name for workspace in candidate.plan.workspaces if workspace.name not in used]
    return f"workspace {unused[0]!r} is used by no step; bind it or leave it out" if unused else ""


def signature(step: Step, problem: Problem) -> str:
    """Returns the C++ declaration that a step's function should have."""
    constant = {tensor.name for tensor in problem.inputs + problem.parameters}
    parts = []
    for binding in step.arguments:
        element = binding.ctype.removeprefix("const ")
        const = "const " if binding.name in constant or binding.ctype != element else ""
        pointer = f"{const}{element}* {binding.name}"
        parts.append(f"{binding.ctype} {binding.name}" if binding.kind in ("scalar", "axis") else pointer)
    return f'extern "C" void {step.symbol}({", ".join(parts)})'


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _known() -> str:
    return ", ".join(CTYPES)
