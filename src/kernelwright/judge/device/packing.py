"""A step's arguments as the bytes that a kernel receives; pure.

Every parameter has its natural size: 8 bytes for a pointer, the type's for a number, 128 for a tensor
map. The driver copies them at each launch, so what is packed here is captured into graphs as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.judge.device.faults import refused
from kernelwright.sizes import evaluate
from kernelwright.types import Binding, Step, TensorMap

FORMATS = {
    "bool": "<?", "float": "<f", "double": "<d",
    "int8_t": "<b", "uint8_t": "<B", "int16_t": "<h", "uint16_t": "<H",
    "int32_t": "<i", "uint32_t": "<I", "int64_t": "<q", "uint64_t": "<Q",
    "int": "<i", "unsigned": "<I", "unsigned int": "<I", "char": "<b", "signed char": "<b", "unsigned char": "<B",
    "short": "<h", "unsigned short": "<H", "long": "<q", "unsigned long": "<Q", "long long": "<q",
    "unsigned long long": "<Q", "size_t": "<Q", "ptrdiff_t": "<q",
}  # fmt: skip
"""How numbers of a C type are packed on the device (little-endian, LP64)."""
HALVES = ("__half", "half", "__nv_bfloat16", "nv_bfloat16")
TENSOR_MAP_BYTES = 128
POINTER = struct.Struct("<Q")
DATA_TYPES = {
    "uint8": "UINT8", "bool": "UINT8", "int8": "UINT8", "uint16": "UINT16", "int16": "UINT16", "uint32": "UINT32",
    "int32": "INT32", "uint64": "UINT64", "int64": "INT64", "float16": "FLOAT16", "float32": "FLOAT32",
    "float64": "FLOAT64", "bfloat16": "BFLOAT16", "tfloat32": "TFLOAT32", "float8_e4m3fn": "UINT8",
    "float8_e5m2": "UINT8",
}  # fmt: skip
"""CU_TENSOR_MAP_DATA_TYPE_... by dtype; copies of int8 and int16 move bits, so the unsigned type does."""


@dataclass(frozen=True, slots=True)
class TensorMapCall:
    """The arguments of cuTensorMapEncodeTiled, with names in place of the driver's enumerations."""

    dtype: str
    address: int
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str
    l2_promotion: str
    fill: str


def pack_arguments(
    step: Step, addresses: Mapping[str, int], axes: Mapping[str, int], maps: Mapping[str, bytes]
) -> tuple[bytes, ...]:
    """Returns the bytes of each parameter of a step's kernel.

    Args:
        step: whose arguments are bound.
        addresses: of tensors and workspaces, by name.
        axes: values of the problem's dynamic axes.
        maps: encoded tensor maps, by name.

    Raises:
        DeviceFault: for a name without an address or a number that its type cannot hold.
    """
    return tuple(_pack(step, binding, addresses, axes, maps) for binding in step.arguments)


def _pack(
    step: Step, binding: Binding, addresses: Mapping[str, int], axes: Mapping[str, int], maps: Mapping[str, bytes]
) -> bytes:
    where = f"argument {binding.name!r} of {step.symbol!r}"
    if binding.kind in ("tensor", "workspace"):
        if binding.name not in addresses:
            raise refused("plan", "plan", f"{where} is bound to nothing")
        return POINTER.pack(addresses[binding.name])
    if binding.kind == "tensor_map":
        if binding.name not in maps:
            raise refused("plan", "plan", f"{where} names no tensor map of the plan")
        return maps[binding.name]
    number = binding.scalar
    if binding.kind == "axis":
        try:
            number = evaluate(binding.name, axes)  # a final plan may pass an expression, such as a stride
        except ValueError as error:
            raise refused("plan", "plan", f"{where}: {error}") from None
    if number is None:
        raise refused("plan", "plan", f"{where} has no value")
    return pack_number(number, binding.ctype, where)


def pack_number(number: int | float, ctype: str, where: str) -> bytes:
    """Returns a number as its C type lies in memory.

    Raises:
        DeviceFault: when the type is unknown or cannot hold the number.
    """
    if ctype in HALVES:
        if ctype.endswith("half"):
            return struct.pack("<e", number)
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
        return struct.pack("<H", (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
    if ctype not in FORMATS:
        raise refused("plan", "plan", f"{where} has the unknown C type {ctype!r}")
    try:
        return struct.pack(FORMATS[ctype], number)
    except (struct.error, OverflowError) as error:
        raise refused("plan", "plan", f"{where} is {number!r}, which {ctype} cannot hold ({error})") from None


def tensor_map_call(tensor_map: TensorMap, addresses: Mapping[str, int], axes: Mapping[str, int]) -> TensorMapCall:
    """Returns how the driver is asked to encode a tensor map.

    Raises:
        DeviceFault: for what it describes having no address, an unknown dtype or a bad size.
    """
    where = f"tensor map {tensor_map.name!r}"
    if tensor_map.of not in addresses:
        raise refused("plan", "plan", f"{where} describes {tensor_map.of!r}, which is no tensor or workspace")
    if tensor_map.dtype not in DATA_TYPES:
        raise refused("plan", "plan", f"{where} has the dtype {tensor_map.dtype!r}, which the driver does not know")
    return TensorMapCall(
        dtype=DATA_TYPES[tensor_map.dtype],
        address=addresses[tensor_map.of],
        shape=sizes(tensor_map.shape, axes, where),
        strides_bytes=sizes(tensor_map.strides_bytes, axes, where),
        box=tensor_map.box,
        element_strides=tensor_map.element_strides or (1,) * len(tensor_map.box),
        swizzle=f"{tensor_map.swizzle_bytes}B" if tensor_map.swizzle_bytes else "NONE",
        l2_promotion=f"L2_{tensor_map.l2_promotion_bytes}B" if tensor_map.l2_promotion_bytes else "NONE",
        fill="NAN_REQUEST_ZERO_FMA" if tensor_map.nan_fill else "NONE",
    )


def sizes(expressions: Sequence[int | str], axes: Mapping[str, int], where: str) -> tuple[int, ...]:
    """Returns the values of size expressions.

    Raises:
        DeviceFault: for an expression without a value.
    """
    try:
        return tuple(evaluate(size, axes) for size in expressions)
    except ValueError as error:
        raise refused("plan", "plan", f"{where}: {error}") from None
