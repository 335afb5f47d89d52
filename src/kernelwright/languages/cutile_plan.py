"""From a plan over cuTile kernels to the signatures that cuda.tile compiles, and to the arguments of the cubin.

Method source: cuda.tile's calling convention cutile_python_v2 (cuda-tile 1.7, docs and cubins of it): per array a
pointer, then its shape and its strides in elements as 32-bit integers, outermost dimension first; scalars by value;
constants left out. An array is a tensor of the problem, whose layout is row-major and contiguous, or a workspace as one
dimension of elements. Fixed sizes are told to the compiler as constants, sizes that stand for an axis are not.
Not here: cuda.tile itself (kernelwright.tiles.cutile_build).
"""

from __future__ import annotations

import math

from kernelwright.languages.tile_arguments import (
    ALIGNMENT_BYTES,
    CTYPE_BYTES,
    DTYPES,
    Matched,
    PlanFault,
    axis_of,
    number,
    spec_of,
)
from kernelwright.sizes import evaluate
from kernelwright.types import Binding, Candidate, OptionValue, Problem, Size, value

SCALARS = {"int32_t": "int32", "int64_t": "int64", "uint32_t": "uint32", "uint64_t": "uint64", "int16_t": "int16",
           "int8_t": "int8", "uint8_t": "uint8", "uint16_t": "uint16", "float": "float32", "double": "float64",
           "bool": "bool_"}  # fmt: skip
"""cuda.tile's word for a scalar's type, by its C type."""
LARGEST_INDEX = (1 << 31) - 1
DIVISOR = 16
"""The largest divisor of sizes and strides that is told to the compiler: 16 bytes of the narrowest element."""


@value
class ArrayArgument:
    """An array as cuda.tile's ArrayConstraint describes it."""

    dtype: str
    shape: tuple[Size, ...]
    """A number where the size is fixed, else an expression over axes."""
    strides: tuple[Size, ...]
    """In elements."""
    shape_divisors: tuple[int, ...]
    stride_divisors: tuple[int, ...]
    alias: str
    """Arrays with the same word may overlap; empty: with no other."""
    alignment_bytes: int = ALIGNMENT_BYTES


@value
class ScalarArgument:
    """A number that is passed by value."""

    dtype: str


@value
class ConstantArgument:
    """A number that is fixed when the kernel is compiled."""

    given: OptionValue


Argument = ArrayArgument | ScalarArgument | ConstantArgument


@value
class Signature:
    """What one step asks cuda.tile to compile, in plain data."""

    kernel: str
    parameters: tuple[Argument, ...]
    """One for each parameter of the Python function, in order."""
    settings: tuple[tuple[str, OptionValue], ...]


def signature(
    problem: Problem, candidate: Candidate, matched: Matched, *, settings: tuple[tuple[str, OptionValue], ...]
) -> Signature:
    """Returns what to compile for one step.

    Raises:
        PlanFault: for an argument that the kernel cannot be given.
    """
    bound = [binding.name for _, binding in matched.arguments if binding.kind in ("tensor", "workspace")]
    arguments, constants = dict(matched.arguments), dict(matched.constants)
    parameters: list[Argument] = []
    for parameter in matched.kernel.parameters:
        if parameter.constant:
            parameters.append(ConstantArgument(given=constants[parameter.name]))
            continue
        binding = arguments[parameter.name]
        if binding.kind in ("tensor", "workspace"):
            if "Scalar" in parameter.annotation:
                message = (
                    f"{matched.where}: argument {binding.name!r} is a {binding.kind} in the plan and a number "
                    f"({parameter.annotation}) in the source"
                )
                raise PlanFault(message, kind="type", location=f"{matched.kernel.path}:{parameter.line}")
            array = array_of(problem, candidate, binding, matched.where)
            twice = bound.count(binding.name) > 1
            parameters.append(_aliased(array, binding.name if twice else ""))
        else:
            parameters.append(ScalarArgument(dtype=_scalar(binding, matched.where)))
    return Signature(kernel=matched.kernel.name, parameters=tuple(parameters), settings=settings)


def _aliased(array: ArrayArgument, alias: str) -> ArrayArgument:
    return ArrayArgument(
        dtype=array.dtype, shape=array.shape, strides=array.strides, shape_divisors=array.shape_divisors,
        stride_divisors=array.stride_divisors, alias=alias,
    )  # fmt: skip


def _scalar(binding: Binding, where: str) -> str:
    if binding.kind == "tensor_map":
        raise PlanFault(f"{where}: argument {binding.name!r} is a tensor map; cuTile makes its own, bind the tensor")
    if binding.ctype not in SCALARS:
        raise PlanFault(f"{where}: argument {binding.name!r} has the C type {binding.ctype!r}; known are "
                        f"{', '.join(SCALARS)}")  # fmt: skip
    return SCALARS[binding.ctype]


def array_of(problem: Problem, candidate: Candidate, binding: Binding, where: str) -> ArrayArgument:
    """Returns the array that a tensor or workspace is to a kernel.

    Raises:
        PlanFault: when there is none, or it is too large for 32-bit indices.
    """
    if binding.kind == "workspace":
        axes = {axis.name: axis.size for axis in problem.axes}
        sizes = {space.name: evaluate(space.size_bytes, axes) for space in candidate.plan.workspaces}
        ctype = binding.ctype.removeprefix("const ")
        if binding.name not in sizes or ctype not in DTYPES:
            raise PlanFault(f"{where}: {binding.name!r} is no workspace of the plan, or {ctype!r} no element type")
        dtype, names = DTYPES[ctype], [""]
        shape: tuple[int, ...] = (sizes[binding.name] // CTYPE_BYTES[ctype],)
    else:
        tensor = spec_of(problem, binding, where)
        dtype, shape = tensor.dtype, tensor.shape
        names = [axis_of(problem, tensor.name, dimension) for dimension in range(len(shape))]
    largest = {axis.name: axis.high for axis in problem.axes}
    if math.prod(largest.get(name, size) for name, size in zip(names, shape, strict=True)) > LARGEST_INDEX:
        raise PlanFault(f"{where}: {binding.name!r} has more elements than 32-bit indices can name", kind="unsupported")
    extents: tuple[Size, ...] = tuple(name or size for name, size in zip(names, shape, strict=True))
    divisors = tuple(_divisor(size) for size in extents)
    strides = tuple(_product(extents[dimension + 1 :]) for dimension in range(len(shape)))
    stride_divisors = tuple(
        min(DIVISOR, math.prod(divisors[dimension + 1 :])) if dimension + 1 < len(shape) else 1
        for dimension in range(len(shape))
    )
    return ArrayArgument(
        dtype="bool_" if dtype == "bool" else dtype, shape=extents, strides=strides, shape_divisors=divisors,
        stride_divisors=stride_divisors, alias="",
    )  # fmt: skip


def _divisor(size: Size) -> int:
    """The largest power of two up to 16 that certainly divides a size."""
    if not isinstance(size, int) or size == 0:
        return 1
    return min(DIVISOR, size & -size)


def _product(extents: tuple[Size, ...]) -> Size:
    fixed = math.prod(size for size in extents if isinstance(size, int))
    named = [size for size in extents if not isinstance(size, int)]
    if not named:
        return fixed
    return " * ".join([*named, *([str(fixed)] if fixed != 1 else [])])


def arguments(matched: Matched, asked: Signature) -> tuple[Binding, ...]:
    """Returns the arguments of a compiled kernel in the cubin's order."""
    found: list[Binding] = []
    bindings = dict(matched.arguments)
    for parameter, argument in zip(matched.kernel.parameters, asked.parameters, strict=True):
        if isinstance(argument, ConstantArgument):
            continue
        binding = bindings[parameter.name]
        found.append(binding)
        if isinstance(argument, ArrayArgument):
            found += [_extent(f"{binding.name}_size_{i}", size) for i, size in enumerate(argument.shape)]
            found += [_extent(f"{binding.name}_stride_{i}", size) for i, size in enumerate(argument.strides)]
    return tuple(found)


def _extent(name: str, size: Size) -> Binding:
    if isinstance(size, int):
        return number(name, "int32_t", size)
    return Binding(kind="axis", name=size, ctype="int32_t")
