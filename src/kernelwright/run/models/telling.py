"""What an author is told: the machine, and what the judge found, in words that help to mend or to improve.

Not here: the prompts around it (llm/prompts).
"""

from __future__ import annotations

from kernelwright import analysis
from kernelwright.errors import UserError
from kernelwright.languages import devices
from kernelwright.search.speed import against_reference
from kernelwright.types import Candidate, Failure, Judgement, Problem, Record, Target

DETAIL_CHARACTERS = 2500
"""Of a compiler's log: errors stand at its beginning."""
MOST_CHECKS = 4
VECTORS = (("avx512f", "AVX-512"), ("avx2", "AVX2 with FMA"), ("asimd", "NEON"), ("sve", "SVE"))


def hardware_sheet(target: Target) -> str:
    """Returns what an author should know of a target, as a list."""
    lines = [f"- {target.device or target.architecture}"]
    tools = ", ".join(f"{name} {version}" for name, version in target.toolchain)
    if target.kind == "cpu":
        lines.append(f"- {target.threads} threads for kernel and baselines alike")
        known = [label for name, label in VECTORS if name in target.features]
        extra = [
            f for f in ("avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_bf16", "bf16", "f16c") if f in target.features
        ]
        lines.append(f"- vectors: {', '.join(known) or 'none known'}{'; also ' + ', '.join(extra) if extra else ''}")
        if target.cache_bytes:
            lines.append(f"- last-level cache: {target.cache_bytes >> 20} MiB")
    else:
        lines.append(f"- compiled for {target.architecture}")
        device = devices.find(target.architecture)
        if device is not None:
            lines.append(f"- a block: at most {device.shared_block_bytes >> 10} KiB shared memory and 1024 threads")
            lines.append(
                f"- a multiprocessor: {device.registers:,} registers, {device.threads:,} threads, "
                f"{device.blocks} blocks, {device.shared_multiprocessor_bytes >> 10} KiB shared memory"
            )
            if device.clusters:
                lines.append("- thread block clusters, tensor maps (TMA) and programmatic launches are there")
    return "\n".join([*lines, f"- {tools}"] if tools else lines)


def found(record: Record) -> str:
    """Returns what the judge said about a kernel that failed."""
    outcome = record.outcome
    if isinstance(outcome, Failure):
        where = f" at {outcome.location}" if outcome.location else ""
        text = f"It failed at the stage `{outcome.stage}` ({outcome.kind}){where}: {outcome.message}"
        detail = outcome.detail.strip()[:DETAIL_CHARACTERS]
        return f"{text}\n\n```\n{detail}\n```" if detail and detail not in outcome.message else text
    failed = [check for check in outcome.verdict.checks if not check.passed]
    held = [check.name for check in outcome.verdict.checks if check.passed]
    lines = [f"- {check.name} failed: {check.evidence}" for check in failed[:MOST_CHECKS]]
    return "\n".join([*lines, f"- held: {', '.join(held)}"] if held else lines)


def profile(problem: Problem, record: Record) -> str:
    """Returns where a kernel that passed stands between its time and what the machine can do."""
    outcome = record.outcome
    if not isinstance(outcome, Judgement):
        return ""
    measured = next((m for m in outcome.measurements if m.contender == "candidate"), None)
    if measured is None or measured.median_us <= 0:
        return ""
    moved = problem.min_bytes / measured.median_us / 1e3
    lines = [f"- {measured.median_us:.1f} µs a call: {moved:.1f} GB/s of the bytes that must move"]
    if problem.flops:
        lines.append(f"- {problem.flops / measured.median_us / 1e3:.1f} GFLOP/s of the operations that must be done")
    if outcome.floor_us:
        lines.append(f"- {100 * outcome.floor_us / measured.median_us:.0f} % of what this machine allows at best")
    against = against_reference(outcome)
    if against:
        lines.append(
            f"- {against.speedup:.2f} times the speed of {against.baseline} ({against.low:.2f} to {against.high:.2f})"
        )
    return "\n".join(lines)


def compiled(problem: Problem, candidate: Candidate, target: Target) -> str:
    """Returns what a device kernel's code is like: registers, spills, occupancy, bank conflicts, and what to try.

    Empty for the CPU, and where a tool to read the code with is missing.
    """
    if all(step.launch is None for step in candidate.plan.steps):
        return ""
    try:
        found = analysis.analyze_candidate(problem, candidate, architecture=target.architecture)
    except UserError:
        return ""
    return "\n".join(("```", *analysis.lines(found), "```"))


def baselines_of(record: Record) -> tuple[tuple[str, float], ...]:
    """Returns (name, median µs) of the baselines that a record was timed beside."""
    if not isinstance(record.outcome, Judgement):
        return ()
    return tuple((m.contender, m.median_us) for m in record.outcome.measurements if m.contender != "candidate")
