"""From a plan over Triton kernels to what Triton must compile, and from what it compiled to a plan for the device.

Method source: the specialisation rules are those of Triton 3.6's own launcher (triton/runtime/jit.py,
native_specialize_impl; backends/nvidia/driver.py): a whole number that equals 1 becomes a constant and leaves the
parameter list, one that 16 divides is marked so, and so is every pointer (all buffers are 256-byte aligned). Numbers
that are not known when compiling (axes) are never specialised. A compiled kernel takes two pointers more: global
scratch and profile scratch. A tensor descriptor takes a tensor map, its shape (int32) and its strides (int64), or on
devices without TMA a pointer, shape and strides (int64), the padding, and shape and strides again. Not here: running
Triton (kernelwright.tiles.triton_build).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Literal

from kernelwright import sizes
from kernelwright.languages.python_source import KernelFunction, KernelParameter
from kernelwright.languages.tile_arguments import (
    DTYPES,
    Matched,
    PlanFault,
    number,
    spec_of,
)
from kernelwright.types import Binding, Candidate, OptionValue, Problem, TensorMap, replace, value

ELEMENT_TYPES = {
    "float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16", "int64": "i64", "int32": "i32",
    "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "i1",
}  # fmt: skip
"""Triton's word for an element type, by dtype."""
ELEMENT_BYTES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "bool": 1, "int8": 1,
                 "uint8": 1}  # fmt: skip
SCALARS = frozenset(("float", "double", "bool", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t",
                     "uint32_t", "uint64_t"))  # fmt: skip
SWIZZLE_BYTES: dict[int, Literal[0, 32, 64, 128]] = {0: 0, 1: 32, 2: 64, 3: 128}
"""By CUtensorMapSwizzle, as Triton's metadata names it."""
DIVISOR = 16


@value
class Signature:
    """What one step asks Triton to compile, in plain data."""

    types: tuple[tuple[str, str], ...]
    """(parameter, Triton's type) of every parameter, in order; `constexpr` for the constants."""
    constants: tuple[tuple[str, OptionValue], ...]
    """Those of the plan and numbers that equal 1."""
    divisible: tuple[str, ...]
    """Parameters that 16 divides."""
    settings: tuple[tuple[str, OptionValue], ...]
    """num_warps and the like."""


@value
class Descriptor:
    """What Triton says about one tensor descriptor of a compiled kernel."""

    block: tuple[int, ...]
    """Elements that one copy moves, outermost dimension first."""
    swizzle: int
    packed: bool = False
    """Two 4-bit elements in a byte."""


def signature(
    problem: Problem, candidate: Candidate, matched: Matched, *, settings: tuple[tuple[str, OptionValue], ...]
) -> Signature:
    """Returns what to compile for one step.

    Raises:
        PlanFault: for an argument that the kernel cannot be given.
    """
    types: list[tuple[str, str]] = []
    constants = dict(matched.constants)
    divisible: list[str] = []
    arguments = dict(matched.arguments)
    fixed = _not_specialised(matched.kernel)
    for parameter in matched.kernel.parameters:
        if parameter.constant:
            types.append((parameter.name, "constexpr"))
            continue
        binding = arguments[parameter.name]
        kind = _type_of(problem, candidate, binding, matched.where, parameter)
        if parameter.name in fixed:
            pass
        elif _is_one(binding) and not parameter.annotation:
            constants[parameter.name] = 1
            kind = "constexpr"
        elif kind.startswith("*") or _is_divisible(problem, binding):
            divisible.append(parameter.name)
        types.append((parameter.name, kind))
    ordered = tuple((name, constants[name]) for name, kind in types if name in constants)
    return Signature(types=tuple(types), constants=ordered, divisible=tuple(divisible), settings=settings)


def _not_specialised(kernel: KernelFunction) -> frozenset[str]:
    """Parameters that @triton.jit(do_not_specialize=...) names, by value or alignment: both are left out then."""
    names = [parameter.name for parameter in kernel.parameters]
    found: set[str] = set()
    for decorator in kernel.decorators:
        call = ast.parse(decorator, mode="eval").body
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            if (keyword.arg or "").startswith("do_not_specialize"):
                items = [node.value for node in ast.walk(keyword.value) if isinstance(node, ast.Constant)]
                found |= {names[item] if isinstance(item, int) else str(item) for item in items}
    return frozenset(found)


def _type_of(problem: Problem, candidate: Candidate, binding: Binding, where: str, parameter: KernelParameter) -> str:
    if binding.kind in ("tensor", "workspace", "tensor_map"):
        return _pointed(problem, candidate, binding, where, parameter)
    if binding.ctype not in SCALARS:
        raise PlanFault(f"{where}: argument {binding.name!r} has the C type {binding.ctype!r}; known are "
                        f"{', '.join(sorted(SCALARS))}")  # fmt: skip
    kind = ELEMENT_TYPES[DTYPES[binding.ctype]].replace("i1", "u1")
    annotated = _annotated(parameter)
    if annotated not in ("", kind):
        message = f"{where}: argument {binding.name!r} is {binding.ctype} in the plan and {annotated} in the source"
        raise PlanFault(message, kind="type", location=f"{candidate.sources[0].path}:{parameter.line}")
    return kind


def _annotated(parameter: KernelParameter) -> str:
    """The scalar type that the source gives a parameter, in Triton's short form; empty where it gives none."""
    text = parameter.annotation.removeprefix("tl.").strip("'\"")
    short = {"int1": "u1", **{dtype: kind for dtype, kind in ELEMENT_TYPES.items() if dtype != "bool"}}
    return short.get(text, text if text in short.values() else "")


def _pointed(problem: Problem, candidate: Candidate, binding: Binding, where: str, parameter: KernelParameter) -> str:
    """The type of a parameter that stands for memory."""
    annotated = _annotated(parameter)
    if annotated:
        message = f"{where}: argument {binding.name!r} is a {binding.kind} in the plan and {annotated} in the source"
        raise PlanFault(message, kind="type", location=f"{candidate.sources[0].path}:{parameter.line}")
    if binding.kind == "tensor":
        return f"*{ELEMENT_TYPES[spec_of(problem, binding, where).dtype]}"
    if binding.kind == "tensor_map":
        found = map_of(candidate, binding, where)
        return f"tensordesc<{ELEMENT_TYPES[found.dtype]}[{','.join(map(str, reversed(found.box)))}]>"
    dtype = DTYPES.get(binding.ctype.removeprefix("const "))
    if dtype is None or binding.name not in {workspace.name for workspace in candidate.plan.workspaces}:
        listed = ", ".join(workspace.name for workspace in candidate.plan.workspaces) or "none"
        message = f"{where}: argument {binding.name!r} is no workspace of the plan (it has {listed})"
        raise PlanFault(f"{message}, or its C type {binding.ctype!r} is unknown")
    return f"*{ELEMENT_TYPES[dtype]}"


def map_of(candidate: Candidate, binding: Binding, where: str) -> TensorMap:
    """Returns the tensor map of a binding, after checking what Triton needs of it.

    Raises:
        PlanFault: when there is none, or Triton could not use it.
    """
    maps = {found.name: found for found in candidate.plan.tensor_maps}
    if binding.name not in maps:
        raise PlanFault(f"{where}: {binding.name!r} is no tensor map of the plan; it has {', '.join(maps) or 'none'}")
    found = maps[binding.name]
    where = f"{where}: tensor map {found.name!r}"
    if found.dtype not in ELEMENT_TYPES:
        raise PlanFault(f"{where} has the dtype {found.dtype!r}, which is unknown")
    if found.swizzle_bytes or any(step != 1 for step in found.element_strides):
        raise PlanFault(f"{where}: Triton chooses the swizzle and reads every element; leave both out")
    if not len(found.shape) == len(found.box) == len(found.strides_bytes) + 1:
        raise PlanFault(f"{where} has {len(found.shape)} sizes, {len(found.box)} of a box and "
                        f"{len(found.strides_bytes)} strides; as many boxes as sizes and one stride less")  # fmt: skip
    for extent in found.box:
        if extent & (extent - 1) or extent < 1:
            raise PlanFault(f"{where}: the box {found.box} has a size that is no power of two")
    if found.box[0] * _bytes(found) < DIVISOR:
        raise PlanFault(f"{where}: the innermost size of the box must be 16 bytes or more")
    for stride in found.strides_bytes:
        if isinstance(stride, int) and stride % DIVISOR:
            raise PlanFault(f"{where}: the stride of {stride} bytes is no multiple of 16")
    return found


def _bytes(found: TensorMap) -> int:
    return ELEMENT_BYTES.get(found.dtype, 2)


def _is_one(binding: Binding) -> bool:
    whole = binding.kind == "scalar" and isinstance(binding.scalar, int) and not isinstance(binding.scalar, bool)
    return whole and binding.scalar == 1 and "int" in binding.ctype


def _is_divisible(problem: Problem, binding: Binding) -> bool:
    if "int" not in binding.ctype:
        return False
    if binding.kind == "axis":
        axis = next((axis for axis in problem.axes if axis.name == binding.name), None)
        return axis is not None and axis.low == axis.high and axis.size % DIVISOR == 0
    whole = isinstance(binding.scalar, int) and not isinstance(binding.scalar, bool)
    return binding.kind == "scalar" and whole and int(binding.scalar or 0) % DIVISOR == 0


# ---------------------------------------------------------------- arguments of the cubin


def arguments(
    problem: Problem,
    candidate: Candidate,
    matched: Matched,
    *,
    asked: Signature,
    descriptors: tuple[Descriptor, ...],
    scratch: str,
) -> tuple[tuple[Binding, ...], tuple[TensorMap, ...]]:
    """Returns the arguments of a compiled kernel in the cubin's order, and the tensor maps that they need.

    Args:
        problem: what is computed.
        candidate: whose plan.
        matched: the step and its kernel.
        asked: what was compiled.
        descriptors: Triton's account of the tensor descriptors; empty on a device without TMA.
        scratch: the workspace of the kernel's global scratch, empty where it needs none.

    Raises:
        PlanFault: for a descriptor that no device plan can express.
    """
    found: list[Binding] = []
    maps: list[TensorMap] = []
    kinds = dict(asked.types)
    for parameter, binding in matched.arguments:
        if kinds[parameter] == "constexpr":
            continue
        if binding.kind != "tensor_map":
            found.append(binding)
            continue
        given = map_of(candidate, binding, matched.where)
        if not descriptors:
            found += _decomposed(problem, candidate, given, matched.where)
            continue
        made = _final_map(given, descriptors[len(maps)], matched)
        maps.append(made)
        found.append(Binding(kind="tensor_map", name=made.name, ctype="CUtensorMap"))
        found += _extents(problem, given, matched.where, sizes_ctype="int32_t")
    if scratch:
        found.append(Binding(kind="workspace", name=scratch, ctype="uint8_t"))
    else:
        found.append(number("global_scratch", "int64_t", 0))
    found.append(number("profile_scratch", "int64_t", 0))
    return tuple(found), tuple(maps)


def _final_map(given: TensorMap, said: Descriptor, matched: Matched) -> TensorMap:
    if said.packed:
        raise PlanFault(f"{matched.where}: tensor map {given.name!r}: 4-bit elements are not supported")
    box = tuple(reversed(said.block))
    if len(box) != len(given.box):
        raise PlanFault(f"{matched.where}: tensor map {given.name!r}: Triton made a block of another rank of it")
    number_of_step = matched.where.split()[1]
    name = f"{given.name}_{number_of_step}_{'x'.join(map(str, box))}_{said.swizzle}"
    return replace(given, name=name, box=box, swizzle_bytes=SWIZZLE_BYTES[said.swizzle], l2_promotion_bytes=128)


def _extents(problem: Problem, given: TensorMap, where: str, *, sizes_ctype: str) -> list[Binding]:
    """Shape and strides of a descriptor as the kernel takes them: elements, outermost dimension first."""
    shape = [_size(problem, size, f"{given.name}_size", sizes_ctype, where) for size in reversed(given.shape)]
    strides = []
    for stride in reversed(given.strides_bytes):
        if not isinstance(stride, int):
            stride = f"({stride}) // {_bytes(given)}"
        else:
            stride //= _bytes(given)
        strides.append(_size(problem, stride, f"{given.name}_stride", "int64_t", where))
    return [*shape, *strides, number(f"{given.name}_stride", "int64_t", 1)]


def _size(problem: Problem, size: int | str, name: str, ctype: str, where: str) -> Binding:
    if isinstance(size, int):
        return number(name, ctype, size)
    known: Mapping[str, int] = {axis.name: axis.size for axis in problem.axes}
    try:
        sizes.evaluate(size, known)
    except ValueError as error:
        raise PlanFault(f"{where}: {name}: {error}") from None
    return Binding(kind="axis", name=size, ctype=ctype)


def _decomposed(problem: Problem, candidate: Candidate, given: TensorMap, where: str) -> list[Binding]:
    """A descriptor on a device without TMA: the pointer and everything that the kernel computes addresses from."""
    workspaces = {workspace.name for workspace in candidate.plan.workspaces}
    kind: Literal["tensor", "workspace"] = "workspace" if given.of in workspaces else "tensor"
    ctype = next(c for c, dtype in DTYPES.items() if dtype == given.dtype)
    pointer = Binding(kind=kind, name=given.of, ctype=ctype)
    if kind == "tensor":
        spec_of(problem, pointer, where)
    wide = _extents(problem, given, where, sizes_ctype="int64_t")
    padding = Binding(kind="scalar", name=f"{given.name}_padding", ctype="bool", scalar=int(given.nan_fill))
    return [pointer, *wide, padding, *_extents(problem, given, where, sizes_ctype="int32_t")]
