"""An analysis as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kernelwright.analysis.findings import Analysis, KernelAnalysis


def lines(analysis: Analysis) -> Iterator[str]:
    """Yields the lines that say what an analysis found, kernel by kernel."""
    for kernel in analysis.kernels:
        yield f"{kernel.symbol} on {analysis.architecture}"
        for name, text in _rows(kernel):
            yield f"  {name:<16} {text}"
        for advice in kernel.advice:
            where = f"{advice.line}: " if advice.line else ""
            yield f"  try [{advice.subject}] {where}{advice.found}"
            yield f"      {advice.attempt}"
        if not kernel.advice:
            yield "  no rule has anything to add; a profile on the device says more"


def _rows(kernel: KernelAnalysis) -> Iterator[tuple[str, str]]:
    spilled = f", {kernel.spill_bytes} bytes spilled" if kernel.spill_bytes else ", no spills"
    local = f", {kernel.local_bytes} bytes local memory" if kernel.local_bytes else ""
    yield "registers", f"{kernel.registers} a thread{spilled}{local}"
    yield "shared memory", f"{kernel.shared_bytes} bytes static a block"
    for held in kernel.occupancies:
        fits = f"{held.blocks} blocks, {held.warps} warps, {held.share:.0%}"
        yield "occupancy", f"{held.threads} threads: {fits}, limited by {held.limit}"
    mix = ", ".join(f"{group} {count}" for group, count in kernel.mix)
    yield "instructions", f"{kernel.instructions}: {mix}"
    yield "tensor cores", _counts(kernel.tensor_core) or "not used"
    yield "bulk copies", _counts(kernel.bulk_copies) or "not used (no TMA)"
    yield "global access", ", ".join(f"{what} bytes x{count}" for what, count in kernel.global_widths) or "none"
    yield "barriers", f"{kernel.block_barriers} of the block"
    yield "bank conflicts", _conflicts(kernel)
    busy = ", ".join(f"{line.line} ({line.count})" for line in kernel.busiest_lines)
    yield "source lines", busy or "not known: compile with -lineinfo"


def _counts(found: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} x{count}" for name, count in found)


def _conflicts(kernel: KernelAnalysis) -> str:
    shared = [access for access in kernel.accesses if access.space == "shared"]
    known = [access.conflict_ways for access in shared if access.conflict_ways is not None]
    if not shared:
        return "no ordinary access to shared memory"
    worst = f"at most {max(known)} words of a bank at once" if known else "nothing"
    return f"{worst}, known for {len(known)} of {len(shared)} accesses (heuristic)"
