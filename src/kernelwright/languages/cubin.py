"""What a cubin says about itself: kernels, their parameters and resources, and what it keeps or wants.

Read from the ELF file without a driver. The tables `.nv.info*` have no public specification; the codes
below are those that `cuobjdump -elf` prints by name (13.0 to 13.4), and a file whose tables do not add up is refused.
Not here: whether what was found is allowed (device_inspection.py), instructions (analysis).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from kernelwright.types import KernelResources, value

CUDA_MACHINE = 190
"""EM_CUDA."""
SVAL = 4
"""The format of attributes that carry their own length; all others carry two bytes."""
PARAM_CBANK, REQUIRED_THREADS, MAX_THREADS = 0x0A, 0x10, 0x05
FRAME_SIZE, KPARAM_INFO, KPARAM_INFO_V2, CBANK_PARAM_SIZE = 0x11, 0x17, 0x45, 0x19
REGCOUNT, CTA_PER_CLUSTER, EXPLICIT_CLUSTER = 0x2F, 0x3D, 0x3E
SYSTEM_SHARED_BYTES = 1024
WEAK_OF_THE_TOOLCHAIN = re.compile(r"\.nv\.reservedSmem\.\w+|__nv_reservedSMEM_\w+")
"""Undefined symbols that every newer cubin has and the driver fills in."""


class CubinError(Exception):
    """A file that is no cubin, or whose tables contradict each other."""


@value
class Parameter:
    """One parameter of a kernel, as the driver will read it."""

    offset: int
    size_bytes: int


@value
class Kernel:
    """One entry function of a cubin."""

    symbol: str
    parameters: tuple[Parameter, ...]
    registers: int
    """Per thread."""
    shared_bytes: int
    """Static, per block; on Hopper and newer with the 1 KiB that the system keeps for itself left out."""
    frame_bytes: int
    """Local memory per thread: arrays and spills together."""
    code_bytes: int
    max_threads: int | None = None
    """The most threads of a block that the code was compiled for (__launch_bounds__)."""
    required_block: tuple[int, int, int] | None = None
    """The one block shape that the code was compiled for."""
    cluster: tuple[int, int, int] | None = None
    """The cluster shape that the code was compiled for (__cluster_dims__)."""


@value
class Variable:
    """A variable in device memory that outlives a launch."""

    name: str
    size_bytes: int
    initialised: bool


@value
class Cubin:
    """What a cubin holds."""

    architecture: str
    """sm_90, without the letter that ELF flags do not name."""
    kernels: tuple[Kernel, ...]
    variables: tuple[Variable, ...]
    wanted: tuple[str, ...]
    """Functions and objects that it expects somebody else to define: vprintf, malloc, cudaLaunchDevice ..."""
    constant_bytes: int
    """Of the candidate's own __constant__ tables."""

    def kernel(self, symbol: str) -> Kernel | None:
        """Returns a kernel by name, None where there is none."""
        return next((kernel for kernel in self.kernels if kernel.symbol == symbol), None)


class _Attribute(NamedTuple):
    code: int
    data: bytes


def read(path: Path) -> Cubin:
    """Returns what the cubin in a file holds.

    Raises:
        CubinError: when it is no cubin, or is damaged.
    """
    try:
        with path.open("rb") as file:
            return _read(ELFFile(file))
    except (ELFError, struct.error, UnicodeDecodeError, IndexError, ValueError, KeyError, AttributeError) as error:
        raise CubinError(f"{path.name} is no whole cubin: {error}") from None


def resources(cubin: Cubin, spills: dict[str, int] | None = None) -> tuple[KernelResources, ...]:
    """Returns what each kernel needs of a device.

    Args:
        cubin: the file's contents.
        spills: bytes of spill stores by symbol, which only the compiler's report tells.
    """
    return tuple(
        KernelResources(
            symbol=kernel.symbol,
            registers=kernel.registers,
            shared_bytes=kernel.shared_bytes,
            spill_bytes=(spills or {}).get(kernel.symbol, 0),
            stack_bytes=kernel.frame_bytes,
        )
        for kernel in cubin.kernels
    )


def _read(elf: ELFFile) -> Cubin:
    if elf["e_machine"] not in ("EM_CUDA", CUDA_MACHINE):
        raise CubinError("its machine is not CUDA")
    table = elf.get_section_by_name(".symtab")
    if not isinstance(table, SymbolTableSection):
        raise CubinError("it has no symbols")
    symbols = list(table.iter_symbols())
    sections = {section.name: section for section in elf.iter_sections()}
    common = list(_attributes(sections[".nv.info"].data())) if ".nv.info" in sections else []
    names = dict(enumerate(symbol.name for symbol in symbols))
    registers = {names[index]: count for index, count in _pairs(common, REGCOUNT)}
    frames = {names[index]: count for index, count in _pairs(common, FRAME_SIZE)}
    architecture, kernels = _architecture(elf), []
    for name, section in sections.items():
        if not name.startswith(".nv.info."):
            continue
        symbol = name.removeprefix(".nv.info.")
        code = sections.get(f".text.{symbol}")
        if code is None or f".nv.constant0.{symbol}" not in sections:
            continue  # a function that kernels call, not a kernel
        shared = sections.get(f".nv.shared.{symbol}")
        kernels.append(
            _kernel(
                symbol, list(_attributes(section.data())), registers.get(symbol, 0), frames.get(symbol, 0),
                _static_shared(shared["sh_size"] if shared else 0, architecture), code["sh_size"],
            )
        )  # fmt: skip
    own_constants = sections.get(".nv.constant3")
    return Cubin(
        architecture=architecture,
        kernels=tuple(sorted(kernels, key=lambda kernel: kernel.symbol)),
        variables=_variables(elf, symbols),
        wanted=tuple(sorted(s.name for s in symbols if _is_wanted(s))),
        constant_bytes=own_constants["sh_size"] if own_constants else 0,
    )


def _static_shared(section_bytes: int, architecture: str) -> int:
    """From sm_90 on the section holds what the system keeps for itself as well, where a kernel has any."""
    reserved = SYSTEM_SHARED_BYTES if int(architecture.removeprefix("sm_")) >= 90 else 0
    return max(0, section_bytes - reserved)


def _architecture(elf: ELFFile) -> str:
    flags = int(elf["e_flags"])
    # Up to ABI 7 the low byte is the architecture; later (CUDA 13) it moved to the second byte.
    number = flags >> 8 & 0xFF if elf["e_ident"]["EI_ABIVERSION"] >= 8 else flags & 0xFF
    return f"sm_{number}"


def _kernel(
    symbol: str, attributes: list[_Attribute], registers: int, frame: int, shared: int, code_bytes: int
) -> Kernel:
    found: dict[int, Parameter] = {}
    for attribute in attributes:
        if attribute.code in (KPARAM_INFO, KPARAM_INFO_V2):
            _, ordinal, offset, packed = struct.unpack("<IHHI", attribute.data[:12])
            # The second form (CUDA 13.3 and newer) has the size in the low half, the first in the high bits.
            size = packed & 0xFFFF if attribute.code == KPARAM_INFO_V2 else packed >> 18
            found[ordinal] = Parameter(offset=offset, size_bytes=size)
    if sorted(found) != list(range(len(found))):
        raise CubinError(f"the parameters of {symbol!r} are numbered {sorted(found)}")
    total = next((struct.unpack("<H", a.data[:2])[0] for a in attributes if a.code == CBANK_PARAM_SIZE), 0)
    end = max((p.offset + p.size_bytes for p in found.values()), default=0)
    if end > total or (total and not found):
        raise CubinError(f"the parameters of {symbol!r} take {end} bytes, but {total} are declared")
    return Kernel(
        symbol=symbol,
        parameters=tuple(found[ordinal] for ordinal in sorted(found)),
        registers=registers,
        shared_bytes=shared,
        frame_bytes=frame,
        code_bytes=code_bytes,
        max_threads=_product(_triple(attributes, MAX_THREADS)),
        required_block=_triple(attributes, REQUIRED_THREADS),
        cluster=_triple(attributes, CTA_PER_CLUSTER),
    )


def _triple(attributes: list[_Attribute], code: int) -> tuple[int, int, int] | None:
    for attribute in attributes:
        if attribute.code == code and len(attribute.data) >= 12:
            x, y, z = struct.unpack("<III", attribute.data[:12])
            return (x, y, z) if x > 0 else None
    return None


def _product(shape: tuple[int, int, int] | None) -> int | None:
    return shape[0] * shape[1] * shape[2] if shape else None


def _attributes(data: bytes) -> Iterator[_Attribute]:
    position = 0
    while position + 4 <= len(data):
        form, code, short = struct.unpack_from("<BBH", data, position)
        position += 4
        if form == SVAL:
            if position + short > len(data):
                raise CubinError("an attribute goes beyond its table")
            yield _Attribute(code, data[position : position + short])
            position += short
        else:
            yield _Attribute(code, struct.pack("<H", short))


def _pairs(attributes: list[_Attribute], code: int) -> Iterator[tuple[int, int]]:
    for attribute in attributes:
        if attribute.code == code and len(attribute.data) >= 8:
            index, count = struct.unpack_from("<II", attribute.data)
            yield index, count


def _variables(elf: ELFFile, symbols: list) -> tuple[Variable, ...]:  # type: ignore[type-arg]
    """What lies in `.nv.global*`; space there that no symbol names counts as one variable without a name."""
    found = []
    for index, section in enumerate(elf.iter_sections()):
        if not section.name.startswith(".nv.global") or not section["sh_size"]:
            continue
        initialised = section["sh_type"] != "SHT_NOBITS"
        inside = [s for s in symbols if s["st_shndx"] == index and s["st_info"]["type"] == "STT_OBJECT"]
        found += [Variable(name=s.name, size_bytes=s["st_size"], initialised=initialised) for s in inside]
        if not inside:
            found.append(Variable(name="", size_bytes=section["sh_size"], initialised=initialised))
    return tuple(found)


def _is_wanted(symbol) -> bool:  # type: ignore[no-untyped-def]
    return symbol["st_shndx"] == "SHN_UNDEF" and bool(symbol.name) and not WEAK_OF_THE_TOOLCHAIN.fullmatch(symbol.name)
