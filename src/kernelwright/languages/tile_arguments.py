"""What the tile languages share about a plan's arguments: dtypes, sizes of scalars, steps and their named values.

A step of a tile language names a kernel, binds its run-time parameters in order, and gives the values that are fixed
when the kernel is compiled as `Step.options`, by parameter name. The block is the compiler's to choose: the plan of the
artifact has it, with the symbol and the arguments as the cubin has them.
Not here: what a language makes of it (triton_plan.py, cutile_plan.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright import sizes
from kernelwright.languages.cubin import Parameter
from kernelwright.languages.python_source import KernelFunction, KernelParameter
from kernelwright.types import Binding, Candidate, Failure, OptionValue, Problem, Stage, Step, TensorSpec, value

DEVICE_CTYPES = {
    "float32": "float", "float64": "double", "float16": "__half", "bfloat16": "__nv_bfloat16", "int64": "int64_t",
    "int32": "int32_t", "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool",
}  # fmt: skip
"""The C type of one element on a device, by dtype."""
DTYPES = {ctype: dtype for dtype, ctype in DEVICE_CTYPES.items()} | {
    "uint16_t": "uint16", "uint32_t": "uint32", "uint64_t": "uint64",
}  # fmt: skip
"""The dtype behind a C type on a device."""
CTYPE_BYTES = {
    "float": 4, "double": 8, "__half": 2, "__nv_bfloat16": 2, "int64_t": 8, "int32_t": 4, "int16_t": 2, "int8_t": 1,
    "uint64_t": 8, "uint32_t": 4, "uint16_t": 2, "uint8_t": 1, "bool": 1,
}  # fmt: skip
ALIGNMENT_BYTES = 256
"""Of every tensor and workspace on a device."""
NO_BLOCK = (1, 1, 1)
"""What a step of a tile language says for its block: the compiler chooses it."""


class PlanFault(Exception):
    """A plan that does not fit its source; the message is for the Failure."""

    def __init__(self, message: str, *, kind: str = "plan", location: str = "") -> None:
        super().__init__(message)
        self.message, self.kind, self.location = message, kind, location

    def failure(self) -> Failure:
        """Returns the fault as a value."""
        stage: Stage = "plan" if self.kind == "plan" else "build"
        return Failure(stage=stage, kind=self.kind, message=self.message, location=self.location)


@value
class Matched:
    """One step with the kernel that it calls: which argument goes to which parameter."""

    step: Step
    where: str
    """`step 1 'softmax'`, for messages."""
    kernel: KernelFunction
    arguments: tuple[tuple[str, Binding], ...]
    """(parameter, binding) of the run-time parameters, in order."""
    constants: tuple[tuple[str, OptionValue], ...]
    """(parameter, value) of those fixed when compiling, in the source's order."""
    settings: tuple[tuple[str, OptionValue], ...]
    """Options of the step that are no parameters: the compiler's own."""


def match(
    candidate: Candidate, kernels: tuple[KernelFunction, ...], *, settings: frozenset[str], decorator: str
) -> tuple[Matched, ...]:
    """Returns the steps of a candidate with the kernels that they call.

    Args:
        candidate: what to build.
        kernels: those that its first source defines.
        settings: options of a step that the compiler knows by name.
        decorator: what makes a function a kernel, for messages.

    Raises:
        PlanFault: when the plan names no kernel of the source, or does not fit its parameters.
    """
    by_name = {kernel.name: kernel for kernel in kernels}
    matched = []
    for number, step in enumerate(candidate.plan.steps, start=1):
        where = f"step {number} {step.symbol!r}"
        if step.kind == "kernel":
            if step.symbol not in by_name:
                listed = ", ".join(by_name) or "none"
                message = f"{where}: the source defines no kernel of that name; its {decorator} functions are: {listed}"
                raise PlanFault(message, kind="symbol", location=candidate.sources[0].path)
            matched.append(_match_step(step, where, by_name[step.symbol], settings))
        elif step.kind != "memset":
            raise PlanFault(f"{where}: a {step.kind} step has no place in a plan of {candidate.language} kernels")
    if not matched:
        raise PlanFault("the plan has no steps; it needs at least one kernel call")
    return tuple(matched)


def _match_step(step: Step, where: str, kernel: KernelFunction, settings: frozenset[str]) -> Matched:
    if step.launch is None:
        raise PlanFault(f"{where}: has no launch; state its grid")
    if step.launch.block != NO_BLOCK or step.launch.shared_bytes or step.launch.cluster != (1, 1, 1):
        raise PlanFault(f"{where}: block, cluster and shared memory are the compiler's to choose; leave them out")
    given = dict(step.options)
    parameters = {parameter.name: parameter for parameter in kernel.parameters}
    unknown = sorted(name for name in given if name not in settings and not _is_constant(parameters, name))
    if unknown:
        known = ", ".join([p.name for p in kernel.parameters if p.constant] + sorted(settings))
        raise PlanFault(f"{where}: unknown option {unknown[0]!r}; known are {known}", kind="option")
    constants: list[tuple[str, OptionValue]] = []
    for parameter in kernel.parameters:
        if parameter.constant and parameter.name in given:
            constants.append((parameter.name, given[parameter.name]))
        elif parameter.constant and parameter.default is None:
            message = f"{where}: no value for the constant {parameter.name!r}; give it in the step's options"
            raise PlanFault(message, location=f"{kernel.path}:{parameter.line}")
        elif parameter.constant and parameter.default is not None:
            constants.append((parameter.name, parameter.default))
    names = [parameter.name for parameter in kernel.arguments]
    if len(names) != len(step.arguments):
        message = (
            f"{where}: the source does not match the plan: {kernel.name} takes {len(names)} arguments "
            f"({', '.join(names)}), the plan gives {len(step.arguments)} "
            f"({', '.join(binding.name for binding in step.arguments)})"
        )
        raise PlanFault(message, kind="type", location=kernel.location)
    return Matched(
        step=step,
        where=where,
        kernel=kernel,
        arguments=tuple(zip(names, step.arguments, strict=True)),
        constants=tuple(constants),
        settings=tuple((name, found) for name, found in step.options if name in settings and name not in parameters),
    )


def _is_constant(parameters: Mapping[str, KernelParameter], name: str) -> bool:
    return name in parameters and parameters[name].constant


def spec_of(problem: Problem, binding: Binding, where: str) -> TensorSpec:
    """Returns the tensor of a binding, after checking its C type.

    Raises:
        PlanFault: when there is none, or the type is another.
    """
    tensors = {tensor.name: tensor for tensor in problem.arguments}
    if binding.name not in tensors:
        raise PlanFault(f"{where}: argument {binding.name!r} is no tensor of the problem; it has {', '.join(tensors)}")
    tensor = tensors[binding.name]
    wanted = DEVICE_CTYPES.get(tensor.dtype)
    if wanted is None:
        raise PlanFault(f"{where}: tensor {tensor.name!r} is {tensor.dtype}, which kernels cannot take")
    if binding.ctype.removeprefix("const ") != wanted:
        message = (
            f"{where}: argument {tensor.name!r} has the C type {binding.ctype!r}, but it is {tensor.dtype}: {wanted}"
        )
        raise PlanFault(message)
    return tensor


def axis_of(problem: Problem, tensor: str, dimension: int) -> str:
    """Returns the name of the axis that a tensor's dimension stands for, empty where the size is fixed."""
    place = (tensor, dimension)
    return next((axis.name for axis in problem.axes if place in axis.places and axis.low != axis.high), "")


def number(name: str, ctype: str, size: int) -> Binding:
    """Returns a whole number as an argument."""
    return Binding(kind="scalar", name=name, ctype=ctype, scalar=size)


def blocks(problem: Problem, grid: tuple[int | str, int | str, int | str], where: str) -> int | None:
    """Returns how many blocks a grid has, None where that depends on an axis.

    Raises:
        PlanFault: for a grid that cannot be evaluated, or of less than one block.
    """
    known = {axis.name: axis.size for axis in problem.axes}
    count = 1
    fixed = True
    for size in grid:
        try:
            found = sizes.evaluate(size, known)
        except ValueError as error:
            raise PlanFault(f"{where}: the grid: {error}") from None
        if found < 1:
            raise PlanFault(f"{where}: the grid has {found} blocks along one dimension ({size})")
        fixed = fixed and isinstance(size, int)
        count *= found
    return count if fixed else None


def check_table(where: str, arguments: tuple[Binding, ...], table: tuple[Parameter, ...], map_bytes: int = 128) -> None:
    """Holds the arguments of a final plan against the cubin's own parameter table.

    Raises:
        PlanFault: when number or sizes differ, which would be a fault of ours or an unknown compiler.
    """
    pointers = {"tensor": 8, "workspace": 8, "tensor_map": map_bytes}
    given = tuple(pointers.get(binding.kind) or CTYPE_BYTES.get(binding.ctype, 0) for binding in arguments)
    needed = tuple(parameter.size_bytes for parameter in table)
    if given != needed:
        message = f"{where}: the compiled kernel takes parameters of {needed} bytes, the plan gives {given}"
        raise PlanFault(message, kind="compiler")
