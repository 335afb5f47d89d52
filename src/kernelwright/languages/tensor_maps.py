"""Tensor maps of a plan: whether the driver could encode them (cuTensorMapEncodeTiled), checked without a driver.

The rules are those of the CUDA driver API's documentation of that function.
Not here: encoding one, which the device judge does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kernelwright import sizes
from kernelwright.languages.devices import Device
from kernelwright.languages.plan import is_identifier
from kernelwright.types import LaunchPlan, Problem, Size, TensorMap

ELEMENT_BYTES = {
    "uint8": 1, "uint16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8, "float16": 2, "float32": 4,
    "float64": 8, "bfloat16": 2, "int8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "tfloat32": 4,
}  # fmt: skip
"""What the driver can describe; 8-bit kinds are described as uint8."""
MOST_DIMENSIONS = 5
MOST_BOX = 256
MOST_ELEMENT_STRIDE = 8
GRANULE_BYTES = 16
MOST_SIZE = 1 << 32
MOST_STRIDE_BYTES = 1 << 40


def fault(problem: Problem, plan: LaunchPlan, device: Device) -> str:
    """Returns what is wrong with a plan's tensor maps, empty where nothing is.

    **Covers**: names, what is described, rank, sizes, strides, box and swizzle, at the axes' nominal, smallest and
    largest sizes; that the described region lies inside the tensor or workspace at its nominal size.
    **Does not cover**: coordinates that a kernel asks for (the hardware bounds those).
    """
    room = {t.name: _bytes(t.shape, ELEMENT_BYTES.get(t.dtype, 8)) for t in problem.arguments}
    nominal = {axis.name: axis.size for axis in problem.axes}
    room |= {workspace.name: sizes.evaluate(workspace.size_bytes, nominal) for workspace in plan.workspaces}
    seen = set(room)
    for tensor_map in plan.tensor_maps:
        where = f"tensor map {tensor_map.name!r}"
        if not device.clusters:
            return f"{where}: {device.architecture} has no tensor maps; they came with sm_90"
        if not is_identifier(tensor_map.name) or tensor_map.name in seen:
            return f"{where}: the name is no C identifier, or is that of something else"
        seen.add(tensor_map.name)
        if tensor_map.of not in room:
            return f"{where} describes {tensor_map.of!r}, which is no tensor and no workspace"
        found = _form_fault(tensor_map) or _sizes_fault(tensor_map, problem, room[tensor_map.of])
        if found:
            return f"{where}: {found}"
    return ""


def _form_fault(tensor_map: TensorMap) -> str:
    rank = len(tensor_map.shape)
    if tensor_map.dtype not in ELEMENT_BYTES:
        return f"the dtype {tensor_map.dtype!r} cannot be described; known are {', '.join(ELEMENT_BYTES)}"
    if not 1 <= rank <= MOST_DIMENSIONS:
        return f"it has {rank} dimensions; 1 to {MOST_DIMENSIONS} are possible"
    if len(tensor_map.strides_bytes) != rank - 1 or len(tensor_map.box) != rank:
        return f"{rank} dimensions need {rank - 1} strides (all but the innermost) and a box of {rank}"
    for size in tensor_map.box:
        if not 1 <= size <= MOST_BOX:
            return f"the box {tensor_map.box} has a side of {size}; 1 to {MOST_BOX} are possible"
    strides = tensor_map.element_strides
    if strides and (len(strides) != rank or not all(1 <= stride <= MOST_ELEMENT_STRIDE for stride in strides)):
        return f"element_strides {strides} need {rank} numbers from 1 to {MOST_ELEMENT_STRIDE}"
    return _inner_fault(tensor_map)


def _inner_fault(tensor_map: TensorMap) -> str:
    inner = tensor_map.box[0] * ELEMENT_BYTES[tensor_map.dtype]
    if inner % GRANULE_BYTES:
        return f"the box's innermost side is {inner} bytes, no multiple of {GRANULE_BYTES}"
    swizzle: int = tensor_map.swizzle_bytes
    if swizzle not in (0, 32, 64, 128):
        return f"swizzle_bytes is {swizzle}; 0, 32, 64 or 128 are possible"
    if swizzle and inner > swizzle:
        return f"the box's innermost side is {inner} bytes, more than the swizzle's {swizzle}"
    if tensor_map.l2_promotion_bytes not in (0, 64, 128, 256):
        return f"l2_promotion_bytes is {tensor_map.l2_promotion_bytes}; 0, 64, 128 or 256 are possible"
    if tensor_map.nan_fill and not tensor_map.dtype.startswith(("float", "bfloat", "tfloat")):
        return f"nan_fill is for floating point, not {tensor_map.dtype}"
    return ""


def _sizes_fault(tensor_map: TensorMap, problem: Problem, room_bytes: int) -> str:
    nominal = {axis.name: axis.size for axis in problem.axes}
    found = _at(tensor_map, nominal, room_bytes)
    for axes in ({a.name: a.low for a in problem.axes}, {a.name: a.high for a in problem.axes}):
        found = found or (_at(tensor_map, axes, None) if axes else "")
    return found


def _at(tensor_map: TensorMap, axes: Mapping[str, int], room_bytes: int | None) -> str:
    """A fault at some sizes; the room is only known at the problem's own."""
    try:
        shape, strides = _values(tensor_map.shape, axes), _values(tensor_map.strides_bytes, axes)
    except ValueError as error:
        return str(error)
    element = ELEMENT_BYTES[tensor_map.dtype]
    for size in shape:
        if not 1 <= size <= MOST_SIZE:
            return f"a dimension is {size}; 1 to {MOST_SIZE} are possible"
    for stride in strides:
        if stride % GRANULE_BYTES or not 0 < stride < MOST_STRIDE_BYTES:
            return f"a stride is {stride} bytes; multiples of {GRANULE_BYTES} below 2^40 are possible"
    end = element * shape[0] + sum(s * (n - 1) for s, n in zip(strides, shape[1:], strict=True))
    if room_bytes is not None and end > room_bytes:
        return f"it describes {end} bytes of {tensor_map.of!r}, which has {room_bytes}"
    return ""


def _values(given: Iterable[Size], axes: Mapping[str, int]) -> list[int]:
    return [sizes.evaluate(size, axes) for size in given]


def _bytes(shape: tuple[int, ...], element: int) -> int:
    total = element
    for size in shape:
        total *= size
    return total
