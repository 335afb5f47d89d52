"""One kernel's analysis: its resources, its instruction mix, its accesses, and what to try.

Counts are of instructions in the code, not of how often they run.
Not here: the rules for what to try (advice.py), printing (text.py), compiling (languages).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.analysis import addresses, advice
from kernelwright.analysis.addresses import Access
from kernelwright.analysis.advice import Advice
from kernelwright.analysis.occupancy import Occupancy, occupancy
from kernelwright.analysis.sass import Instruction, disassemble
from kernelwright.errors import UserError
from kernelwright.languages import Builder, cubin, cuda_target, devices
from kernelwright.languages.cubin import CubinError, Kernel
from kernelwright.languages.devices import Device
from kernelwright.languages.source_build import compile_source
from kernelwright.types import Candidate, Failure, KernelResources, Problem, value

TENSOR = ("HMMA", "HGMMA", "IMMA", "IGMMA", "QGMMA", "QMMA", "DMMA", "OMMA", "BMMA", "UTCHMMA", "UTCIMMA", "UTCQMMA",
          "UTCOMMA", "UTCMMA")  # fmt: skip
BULK = ("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UBLKCP", "UBLKRED", "UBLKPF")
"""The tensor memory accelerator, with and without tensor maps."""
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tensor core", TENSOR),
    ("bulk copy", BULK),
    ("global memory", ("LDG", "STG", "LDGSTS", "LD", "ST", "LDGDEPBAR", "LDGMC")),
    ("shared memory", ("LDS", "STS", "LDSM", "STSM")),
    ("local memory", ("LDL", "STL")),
    ("atomic", ("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDAS")),
    ("floating point", ("FADD", "FMUL", "FFMA", "FMNMX", "FMNMX3", "FSETP", "FSEL", "FSET", "FCHK", "FADD2", "FMUL2",
                        "FFMA2", "HADD2", "HMUL2", "HFMA2", "HMNMX2", "HSETP2", "DADD", "DMUL", "DFMA", "DSETP")),
    ("special function", ("MUFU", "RRO")),
    ("conversion", ("F2F", "F2I", "I2F", "F2FP", "I2FP", "I2I", "FRND", "F2IP")),
    ("barrier", ("BAR", "SYNCS", "UCGABAR_ARV", "UCGABAR_WAIT", "WARPSYNC", "DEPBAR", "MEMBAR", "FENCE", "ERRBAR",
                 "WARPGROUP", "CCTL")),
    ("shuffle and vote", ("SHFL", "VOTE", "VOTEU", "REDUX", "MATCH", "CREDUX")),
    ("control", ("BRA", "BRX", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BREAK", "JMP", "NANOSLEEP", "BPT", "YIELD",
                 "ACQBULK", "PREEXIT", "ELECT", "UCGABAR")),
)  # fmt: skip
BLOCKS = (128, 256, 512, 1024)
"""Block sizes that occupancy is shown for where nothing says which one is used."""


@value
class LineCount:
    """Instructions that came from one source line."""

    line: str
    count: int


@value
class KernelAnalysis:
    """What one kernel's code is like."""

    symbol: str
    registers: int
    """Per thread."""
    spill_bytes: int
    """Per thread; only known when the code was compiled here."""
    local_bytes: int
    """Local memory per thread, spills among it."""
    shared_bytes: int
    """Static, per block."""
    instructions: int
    mix: tuple[tuple[str, int], ...]
    """Instructions by group, the largest first."""
    tensor_core: tuple[tuple[str, int], ...]
    """Tensor-core instructions by name."""
    bulk_copies: tuple[tuple[str, int], ...]
    """Instructions of the tensor memory accelerator by name."""
    global_widths: tuple[tuple[str, int], ...]
    """Global loads and stores by bytes of a lane: (`load 16`, count)."""
    accesses: tuple[Access, ...]
    block_barriers: int
    occupancies: tuple[Occupancy, ...]
    busiest_lines: tuple[LineCount, ...]
    advice: tuple[Advice, ...]


@value
class Analysis:
    """All kernels of a file on one architecture."""

    architecture: str
    kernels: tuple[KernelAnalysis, ...]


def analyze(path: Path, *, architecture: str, block: int | None = None) -> Analysis:
    """Returns the analysis of a cubin, or of a CUDA source, which is compiled first.

    Args:
        path: a .cubin or a .cu file.
        architecture: what a source is compiled for, and what occupancy is counted on.
        block: threads of a block; None takes what the code or the file's launch lines say.

    Raises:
        UserError: when the file cannot be read or compiled; the message has the compiler's words and line.
        MissingTool: without nvdisasm, or without NVRTC for a source.
    """
    if path.suffix not in (".cu", ".cubin"):
        raise UserError(f"{path} is no CUDA source and no cubin", "give a .cu or a .cubin file")
    if not path.is_file():
        raise UserError(f"there is no file {path}", "check the path")
    if path.suffix == ".cubin":
        return analyze_cubin(path, architecture=architecture, block=block)
    built = compile_source(path, architecture=architecture)
    blocks = dict(built.blocks) if block is None else {}
    return analyze_cubin(
        Path(built.cubin), architecture=architecture, block=block, resources=built.resources, blocks=blocks,
        dynamic_bytes=dict(built.dynamic_bytes),
    )  # fmt: skip


def analyze_candidate(problem: Problem, candidate: Candidate, *, architecture: str) -> Analysis:
    """Returns the analysis of a device candidate, which is built or taken from the cache.

    Raises:
        UserError: when it is for the CPU, or does not build.
        MissingTool: without nvdisasm, or without its language's compiler.
    """
    if all(step.launch is None for step in candidate.plan.steps):
        raise UserError(f"the candidate is {candidate.language}, and runs on the CPU", "analyze takes device code")
    with Builder(cuda_target(architecture), workers=1) as builder:
        (outcome,) = builder.build(problem, (candidate,))
    if isinstance(outcome, Failure):
        raise UserError(
            f"{outcome.location or candidate.language}: {outcome.message}", "mend it, or name another --arch"
        )
    launches = [(step.symbol, step.launch) for step in outcome.plan.steps if step.launch]
    blocks = {symbol: launch.block[0] * launch.block[1] * launch.block[2] for symbol, launch in launches}
    dynamic_bytes = {symbol: launch.shared_bytes for symbol, launch in launches}
    return analyze_cubin(
        Path(outcome.path), architecture=architecture, resources=outcome.resources, blocks=blocks,
        dynamic_bytes=dynamic_bytes,
    )  # fmt: skip


def analyze_cubin(
    path: Path, *, architecture: str = "", block: int | None = None, resources: Sequence[KernelResources] = (),
    blocks: Mapping[str, int] | None = None, dynamic_bytes: Mapping[str, int] | None = None,
) -> Analysis:  # fmt: skip
    """Returns the analysis of a cubin.

    Args:
        path: the file.
        architecture: what occupancy is counted on; empty: the cubin's own.
        block: threads of a block, for all kernels.
        resources: what the compiler reported, for spills.
        blocks: threads of a block by kernel, where the plan says it.
        dynamic_bytes: dynamic shared memory by kernel.

    Raises:
        UserError: when it is no cubin, or the architecture is not known.
    """
    try:
        held = cubin.read(path)
    except CubinError as error:
        raise UserError(str(error), "give a file that the CUDA compiler made with -cubin") from None
    device = devices.find(architecture or held.architecture)
    if device is None:
        raise UserError(f"there is no architecture {architecture or held.architecture!r}", f"known: {devices.known()}")
    if not held.kernels:
        raise UserError(f"{path} holds no kernel", 'define one: extern "C" __global__ void ...')
    code = disassemble(path)
    spills = {found.symbol: found.spill_bytes for found in resources}
    kernels = [
        _kernel(
            kernel, code.get(kernel.symbol, ()), device, spills.get(kernel.symbol, 0),
            block or (blocks or {}).get(kernel.symbol), (dynamic_bytes or {}).get(kernel.symbol, 0),
        )
        for kernel in held.kernels
    ]  # fmt: skip
    return Analysis(architecture=architecture or held.architecture, kernels=tuple(kernels))


def _kernel(
    kernel: Kernel, code: tuple[Instruction, ...], device: Device, spill_bytes: int, block: int | None, dynamic: int
) -> KernelAnalysis:
    code = tuple(instruction for instruction in code if instruction.name != "NOP")
    names = Counter(instruction.name for instruction in code)
    found = addresses.accesses(code)
    sizes = (block,) if block else (kernel.max_threads,) if kernel.max_threads else BLOCKS
    occupancies = tuple(
        occupancy(device, threads=size, registers=kernel.registers, shared_bytes=kernel.shared_bytes + dynamic)
        for size in sizes
    )
    widths = Counter(
        f"{'store' if access.store else 'load'} {access.width_bytes}" for access in found if access.space == "global"
    )
    lines = Counter(instruction.line for instruction in code if instruction.line)
    facts = advice.Facts(
        device=device, kernel=kernel, code=code, names=names, accesses=found, spill_bytes=spill_bytes,
        occupancies=occupancies if block or kernel.max_threads else (),
    )  # fmt: skip
    return KernelAnalysis(
        symbol=kernel.symbol,
        registers=kernel.registers,
        spill_bytes=spill_bytes,
        local_bytes=kernel.frame_bytes,
        shared_bytes=kernel.shared_bytes,
        instructions=len(code),
        mix=_mix(names),
        tensor_core=_named(names, TENSOR),
        bulk_copies=_named(names, BULK),
        global_widths=tuple(sorted(widths.items())),
        accesses=found,
        block_barriers=names["BAR"],
        occupancies=occupancies,
        busiest_lines=tuple(LineCount(line=line, count=count) for line, count in lines.most_common(5)),
        advice=advice.advise(facts),
    )


def _mix(names: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    group_of = {name: group for group, members in GROUPS for name in members}
    counts: Counter[str] = Counter()
    for name, count in names.items():
        counts[group_of.get(name, "integer and address")] += count
    return tuple(counts.most_common())


def _named(names: Mapping[str, int], wanted: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((name, names[name]) for name in wanted if names.get(name))
