"""Whether a call lies inside the envelope: straight-line code, made once for each operator.

**Covers**: plain tensors (no subclass, no transform, no mode, no autocast), dtype, device, layout, strides, alignment,
every size, equal axes, their ranges; the sign bit of negative views. Whether a gradient is needed is asked by the
operator. **Does not cover**: values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelwright.deploy.envelope import Envelope
from kernelwright.reference_program import DTYPES

Guard = Callable[..., "tuple[int, ...] | None"]
"""From the tensors to the sizes of the axes, None for a call outside."""
PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))


def make_guard(envelope: Envelope) -> Guard:
    """Returns the guard of an envelope; its text is in its `__doc__`."""
    names = [f"t{i}" for i in range(len(envelope.tensors))]
    known: dict[str, Any] = {"PLAIN": PLAIN, "strided": torch.strided}
    lines = [f"def guard({', '.join(names)}):"]
    sizes = _places(envelope)
    bound: set[str] = set()
    for number, (name, spec) in enumerate(zip(names, envelope.tensors, strict=True)):
        known[f"d{number}"] = DTYPES[spec.dtype]
        device = "is_cpu" if envelope.kind == "cpu" else "is_cuda"
        tests = [f"type({name}) not in PLAIN", f"{name}.dtype is not d{number}", f"not {name}.{device}"]
        if envelope.kind == "cuda" and number:
            tests.append(f"{name}.get_device() != t0.get_device()")
        tests += [f"{name}.layout is not strided", f"{name}.is_neg()"]
        lines.append(f"    if {' or '.join(tests)}: return None")
        lines += _shape_lines(name, spec.shape, sizes.get(number, {}), number, bound)
        strides = f"{name}.stride() != {spec.strides!r}" if spec.strides is not None else f"not {name}.is_contiguous()"
        lines.append(f"    if {strides} or {name}.data_ptr() % {envelope.alignment_bytes}: return None")
    for axis in envelope.axes:
        lines.append(f"    if not {axis.low} <= a_{axis.name} <= {axis.high}: return None")
    lines.append(f"    return ({''.join(f'a_{axis.name}, ' for axis in envelope.axes)})")
    text = "\n".join(lines)
    exec(compile(text, "<kernelwright guard>", "exec"), known)
    guard: Guard = known["guard"]
    guard.__doc__ = text
    return guard


def _places(envelope: Envelope) -> dict[int, dict[int, str]]:
    """Returns, for each tensor's number, the axis of each dimension that has one."""
    numbers = {spec.name: number for number, spec in enumerate(envelope.tensors)}
    places: dict[int, dict[int, str]] = {}
    for axis in envelope.axes:
        for tensor, dimension in axis.places:
            if tensor in numbers:
                places.setdefault(numbers[tensor], {})[dimension] = axis.name
    return places


def _shape_lines(name: str, shape: tuple[int, ...], axes: dict[int, str], number: int, bound: set[str]) -> list[str]:
    if not axes:
        return [f"    if {name}.shape != {tuple(shape)!r}: return None"]
    lines = [f"    s{number} = {name}.shape", f"    if len(s{number}) != {len(shape)}: return None"]
    for dimension, size in enumerate(shape):
        if dimension not in axes:
            lines.append(f"    if s{number}[{dimension}] != {size}: return None")
    for dimension, axis in axes.items():
        again = axis in bound
        lines.append(
            f"    if a_{axis} != s{number}[{dimension}]: return None"
            if again
            else f"    a_{axis} = s{number}[{dimension}]"
        )
        bound.add(axis)
    return lines


def quiet() -> bool:
    """Tells whether nothing changes what operators mean: no mode, no transform, no autocast."""
    return not (
        torch._C._len_torch_dispatch_stack()
        or torch._C._len_torch_function_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._is_any_autocast_enabled()
    )
