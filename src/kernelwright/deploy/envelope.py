"""Where a kernel was verified: shapes, dtypes, layouts, alignment, machine; and what nobody checked.

Everything here is read off a record and the values that it belongs to, so that no kernel can claim more than its
judge saw. Not here: asking whether a call lies inside (guard.py).
"""

from __future__ import annotations

from typing import Literal

from kernelwright.types import Axis, Judgement, Policy, Problem, Record, Target, TensorSpec, value

CPU_ALIGNMENT_BYTES = 64
"""What every buffer of the judge on a CPU is aligned to (judge/slots.py)."""
DEVICE_ALIGNMENT_BYTES = 256
"""The same on a device (judge/device/arena.py)."""
NEVER_CHECKED = (
    "calls from a program that changed the rounding mode, or flushes denormals to zero",
    "wall-clock behaviour on another machine, at another clock, or beside other work",
    "malice of whoever gave you the bundle: digests show damage, not origin",
)


@value
class Envelope:
    """Where a kernel was verified; a call outside goes to the original."""

    kind: Literal["cpu", "cuda"]
    tensors: tuple[TensorSpec, ...]
    """What a caller gives, in order: inputs, then parameters. Strides None: contiguous."""
    outputs: tuple[TensorSpec, ...]
    """What it gets, contiguous."""
    axes: tuple[Axis, ...]
    """Sizes that may vary, with their ranges; without any, shapes are exactly those of the tensors."""
    alignment_bytes: int
    """Of the first element of every tensor."""
    architecture: str
    """A processor's model, or sm_90a and the like."""
    features: tuple[str, ...]
    """Instruction sets that the code may use: a processor without one of them must not run it."""
    deterministic: bool
    """Repeated calls gave the same bits."""
    gradients: tuple[str, ...]
    """Tensors whose gradients the kernel computes, empty for a forward pass."""


def envelope_of(problem: Problem, target: Target, record: Record) -> Envelope:
    """Returns where the judge saw a kernel pass."""
    checks = record.outcome.verdict.checks if isinstance(record.outcome, Judgement) else ()
    return Envelope(
        kind=target.kind,
        tensors=problem.inputs + problem.parameters,
        outputs=problem.outputs,
        axes=problem.axes,
        alignment_bytes=CPU_ALIGNMENT_BYTES if target.kind == "cpu" else DEVICE_ALIGNMENT_BYTES,
        architecture=target.architecture,
        features=target.features if target.kind == "cpu" else (),
        deterministic=any(check.name == "deterministic" and check.passed for check in checks),
        gradients=problem.gradients,
    )


def unchecked(problem: Problem, policy: Policy, record: Record) -> tuple[str, ...]:
    """Returns what the judge did not look at, one line each."""
    judgement = record.outcome if isinstance(record.outcome, Judgement) else None
    lines = [f"input families other than {', '.join(policy.families)}"]
    if problem.axes:
        sizes = ", ".join(f"{axis.name} {axis.low}..{axis.high}" for axis in problem.axes)
        lines.append(f"sizes of {sizes} beyond {policy.hidden_shapes} hidden draws and the nominal ones")
    else:
        lines.append("any shape but the one it was judged at (the guard sends others to the original)")
    lines.append("tensors that are not contiguous or not aligned (the guard sends them to the original)")
    if not problem.gradients:
        lines.append("gradients: the kernel is a forward pass")
    if not policy.memory_checkers:
        lines.append("memory and races: no checker ran under this policy")
    if judgement is None or not judgement.comparisons:
        lines.append("speed: nothing was timed")
    return (*lines, *(judgement.notes if judgement else ()), *NEVER_CHECKED)
