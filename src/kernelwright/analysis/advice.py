"""What to try, and why: rules over what was found in a kernel's code.

Each rule looks at one property and gives at most one piece of advice, with the source line where there is one. They
are heuristics: they know neither how often a line runs nor what the problem is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kernelwright.analysis.addresses import Access
from kernelwright.analysis.occupancy import Occupancy
from kernelwright.analysis.sass import Instruction
from kernelwright.languages.cubin import Kernel
from kernelwright.languages.devices import Device
from kernelwright.types import value

LOW_OCCUPANCY = 0.25
"""Below this, latency is hidden only by instruction-level parallelism or asynchronous copies."""
MANY_PRODUCTS = 64
"""Fused multiply-adds in the code from which a product of matrices is likely."""
VECTOR_BYTES = 16


@value
class Advice:
    """One thing to try."""

    subject: str
    """A short stable word: spills, conflicts ..."""
    found: str
    attempt: str
    line: str = ""
    """file:line, where one is to blame."""


class Facts(NamedTuple):
    """What the rules look at."""

    device: Device
    kernel: Kernel
    code: tuple[Instruction, ...]
    names: Mapping[str, int]
    accesses: tuple[Access, ...]
    spill_bytes: int
    occupancies: tuple[Occupancy, ...]
    """Empty where the block's size is not known."""

    def count(self, *names: str) -> int:
        """Returns how many instructions have one of these names."""
        return sum(self.names.get(name, 0) for name in names)

    def line_of(self, *names: str) -> str:
        """Returns the first known source line of instructions with one of these names."""
        return next((i.line for i in self.code if i.name in names and i.line), "")


def advise(facts: Facts) -> tuple[Advice, ...]:
    """Returns what every rule has to say, the costliest properties first."""
    return tuple(found for rule in RULES if (found := rule(facts)) is not None)


def _spills(facts: Facts) -> Advice | None:
    if not facts.spill_bytes:
        return None
    return Advice(
        subject="spills",
        found=f"{facts.spill_bytes} bytes a thread are spilled: {facts.kernel.registers} registers do not suffice",
        attempt="hold fewer values at once (smaller tiles, less unrolling), or raise max_registers",
        line=facts.line_of("STL"),
    )


def _local(facts: Facts) -> Advice | None:
    if facts.spill_bytes or not facts.kernel.frame_bytes or not facts.count("LDL", "STL"):
        return None
    return Advice(
        subject="local memory",
        found=f"{facts.kernel.frame_bytes} bytes a thread lie in local memory, which is device memory behind the L1",
        attempt="index arrays with constants (unroll the loop), so that they stay in registers, or use shared memory",
        line=facts.line_of("LDL", "STL"),
    )


def _conflicts(facts: Facts) -> Advice | None:
    worst = max(
        (a for a in facts.accesses if (a.conflict_ways or 0) > 1), key=lambda a: a.conflict_ways or 0, default=None
    )
    if worst is None:
        return None
    what = "stores to" if worst.store else "loads from"
    return Advice(
        subject="bank conflicts",
        found=f"{what} shared memory ask one bank for {worst.conflict_ways} words at once (heuristic)",
        attempt="pad the rows by one element, or swizzle the columns with the row's number",
        line=worst.line,
    )


def _uncoalesced(facts: Facts) -> Advice | None:
    bad = [a for a in facts.accesses if a.sectors is not None and a.sectors > 2 * a.fewest_sectors]
    if not bad:
        return None
    worst = max(bad, key=lambda access: (access.sectors or 0) / access.fewest_sectors)
    what = "store" if worst.store else "load"
    return Advice(
        subject="uncoalesced",
        found=f"one {what} of a warp touches {worst.sectors} sectors where {worst.fewest_sectors} would do (heuristic)",
        attempt="let neighbouring threads take neighbouring elements, or go through shared memory",
        line=worst.line,
    )


def _narrow(facts: Facts) -> Advice | None:
    loads = [a for a in facts.accesses if a.space == "global"]
    if not loads or max(a.width_bytes for a in loads) >= VECTOR_BYTES or facts.count("UTMALDG", "UBLKCP"):
        return None
    widest = max(loads, key=lambda access: access.width_bytes)
    return Advice(
        subject="narrow accesses",
        found=f"no global access moves more than {widest.width_bytes} bytes of a thread",
        attempt="load and store 16 bytes at once (float4, int4, or eight halves) where rows are aligned to 16 bytes",
        line=widest.line,
    )


def _through_registers(facts: Facts) -> Advice | None:
    staged = facts.count("LDG") and facts.count("STS") and facts.count("BAR")
    products = facts.count("HMMA", "HGMMA", "IMMA") or facts.count("FFMA") >= MANY_PRODUCTS
    if not staged or not products or facts.count("LDGSTS", "UTMALDG", "UBLKCP"):
        return None
    how = "cp.async or TMA (cp.async.bulk.tensor)" if facts.device.clusters else "cp.async (LDGSTS)"
    return Advice(
        subject="staging",
        found="what goes into shared memory passes through registers, and nothing copies while the warp computes",
        attempt=f"copy with {how} into two or more stages",
        line=facts.line_of("STS"),
    )


def _no_tensor_core(facts: Facts) -> Advice | None:
    products = facts.count("FFMA", "HFMA2", "FFMA2")
    tensor = any("MMA" in name and name != "HFMA2" for name in facts.names)
    if tensor or products < MANY_PRODUCTS:
        return None
    return Advice(
        subject="no tensor core",
        found=f"{products} multiply-adds run on the ordinary units, and no tensor core is used",
        attempt="if this is a product of matrices: mma.sync or wgmma (3xTF32 keeps float32's accuracy)",
        line=facts.line_of("FFMA", "HFMA2", "FFMA2"),
    )


def _older_tensor_core(facts: Facts) -> Advice | None:
    number = int(facts.device.architecture.removeprefix("sm_"))
    better = {90: "wgmma (HGMMA)", 100: "tcgen05 (UTCHMMA)", 103: "tcgen05 (UTCHMMA)"}.get(number)
    if better is None or not facts.count("HMMA", "IMMA") or facts.count("HGMMA", "UTCHMMA"):
        return None
    return Advice(
        subject="older tensor core",
        found=f"mma.sync (HMMA) reaches a part of what {better} does on {facts.device.architecture}",
        attempt=f"use {better} with operands in shared memory, filled by TMA",
        line=facts.line_of("HMMA", "IMMA"),
    )


def _occupancy(facts: Facts) -> Advice | None:
    low = next((o for o in facts.occupancies if o.share < LOW_OCCUPANCY), None)
    if low is None or facts.count("HGMMA", "UTCHMMA", "UTMALDG"):
        return None
    return Advice(
        subject="occupancy",
        found=f"{low.share:.0%} of the warps that are possible, limited by {low.limit}",
        attempt=f"use less of it ({low.limit}), unless every thread has many loads under way at once",
    )


def _double(facts: Facts) -> Advice | None:
    count = facts.count("DADD", "DMUL", "DFMA", "DSETP")
    if not count:
        return None
    return Advice(
        subject="double precision",
        found=f"{count} instructions compute in double precision",
        attempt="if that is not meant: write 1.0f for 1.0, and expf, sqrtf for exp, sqrt of doubles",
        line=facts.line_of("DADD", "DMUL", "DFMA", "DSETP"),
    )


def _division(facts: Facts) -> Advice | None:
    divided = [i for i in facts.code if i.opcode.startswith(("I2F.U32.RP", "I2F.RP", "I2F.U64.RP"))]
    if not divided:
        return None
    return Advice(
        subject="integer division",
        found=f"{len(divided)} integer divisions or remainders by numbers that are not known at compile time",
        attempt="make the divisor a constant, or count along instead of dividing",
        line=divided[0].line,
    )


def _generic(facts: Facts) -> Advice | None:
    count = facts.count("LD", "ST")
    if not count:
        return None
    return Advice(
        subject="generic addresses",
        found=f"{count} accesses find out while running whether an address is global or shared",
        attempt="keep pointers to shared and global memory apart, so that the compiler knows",
        line=facts.line_of("LD", "ST"),
    )


def _bounds(facts: Facts) -> Advice | None:
    if facts.kernel.max_threads or facts.kernel.registers < 64:
        return None
    return Advice(
        subject="launch bounds",
        found=f"the compiler does not know the block's size, and gives {facts.kernel.registers} registers a thread",
        attempt="say it: __launch_bounds__(threads), so that it may use more registers, or knows it may not",
    )


RULES: tuple[Callable[[Facts], Advice | None], ...] = (
    _spills, _conflicts, _uncoalesced, _local, _no_tensor_core, _older_tensor_core, _through_registers, _narrow,
    _occupancy, _double, _division, _generic, _bounds,
)  # fmt: skip
