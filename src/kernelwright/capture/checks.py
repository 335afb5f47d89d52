"""What a reference takes, holds and gives: tensors that a kernel can be given, and plain numbers.

Covers: kind, device, layout, dtype and size of every tensor, arguments that are neither tensors nor
plain numbers, draws that differ in more than their values, NaN and infinities.
Does not cover: whether the reference is a function of its inputs (purity.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernelwright.errors import SourceError
from kernelwright.reference_program import NAMES, Reference, state_of
from kernelwright.types import TensorSpec

SEEDS = (20_011, 47_057)
"""Any two: what matters is that they differ."""
UNUSABLE = frozenset({"int16"})
"""Dtypes that the loader knows but no kernel can bind."""
LAZY_FIX = "use the modules that take their sizes, such as Linear for LazyLinear"
PLAIN = (bool, int, float, str, type(None))
Tensors = tuple[torch.Tensor, ...]


def check_arguments(arguments: Sequence[object], names: Sequence[str]) -> None:
    """Refuses arguments that are neither usable tensors nor plain numbers.

    Raises:
        SourceError: with the argument's name.
    """
    for name, item in zip(names, arguments, strict=True):
        if isinstance(item, torch.Tensor):
            check_tensor(f"input {name}", item)
        elif isinstance(item, PLAIN):
            continue
        elif isinstance(item, list | tuple | dict):
            kind = type(item).__name__
            raise SourceError(f"input {name} is a {kind}", "pass its tensors as arguments of their own")
        elif type(item).__module__ == "numpy":
            raise SourceError(f"input {name} is a NumPy {type(item).__name__}", "wrap it in torch.from_numpy(...)")
        else:
            fix = "inputs are tensors and plain numbers; make it in __init__"
            raise SourceError(f"input {name} is a {type(item).__name__}", fix)


def check_tensor(what: str, tensor: torch.Tensor) -> None:
    """Refuses a tensor that no kernel could be given.

    Raises:
        SourceError: for another device or layout, a dtype without a C type, or no elements.
    """
    if isinstance(tensor, torch.nn.parameter.UninitializedBuffer):
        raise SourceError(f"{what} has no shape yet", LAZY_FIX)
    if tensor.device.type != "cpu":
        raise SourceError(f"{what} is on {tensor.device}", "keep it on the CPU: remove .cuda() and device=")
    if tensor.layout != torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise SourceError(f"{what} is {kind}", "use a dense tensor")
    if tensor.dtype not in NAMES or NAMES[tensor.dtype] in UNUSABLE:
        usable = ", ".join(name for name in NAMES.values() if name not in UNUSABLE)
        raise SourceError(f"{what} is {str(tensor.dtype).removeprefix('torch.')}", f"use one of {usable}")
    if tensor.numel() == 0:
        raise SourceError(f"{what} is empty: its shape is {list(tensor.shape)}", "use sizes of at least 1")


def check_redraw(first: Sequence[object], second: Sequence[object], names: Sequence[str]) -> None:
    """Refuses inputs that change anything but their values from draw to draw.

    Raises:
        SourceError: with the argument's name and both forms.
    """
    if len(first) != len(second):
        raise SourceError(f"get_inputs() gives {len(first)} arguments, then {len(second)}", "return the same number")
    for name, one, two in zip(names, first, second, strict=True):
        if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
            forms = [f"{NAMES.get(t.dtype)}{list(t.shape)}" for t in (one, two)]
            if forms[0] != forms[1]:
                raise SourceError(f"input {name} is {forms[0]} in one draw and {forms[1]} in the next", "fix its shape")
        elif type(one) is not type(two) or (one != two and one == one):
            message = f"input {name} is {one!r} in one draw and {two!r} in the next"
            raise SourceError(message, "plain numbers are built into the kernel: return the same one each time")


def check_finite(tensors: Tensors, names: Sequence[str], kind: str) -> None:
    """Refuses NaN and infinities.

    Raises:
        SourceError: with the tensor's name, how many, and where the first is.
    """
    for name, tensor in zip(names, tensors, strict=True):
        if not tensor.is_floating_point():
            continue
        bad = ~torch.isfinite(tensor)
        if count := int(bad.sum()):
            nans = int(torch.isnan(tensor).sum())
            what = "NaN" if nans == count else "infinite" if nans == 0 else "NaN or infinite"
            place = tuple(int(i) for i in bad.nonzero()[0])
            where = f" (first at {list(place)})" if place else ""
            message = f"{kind} {name} has {count} of {tensor.numel()} elements {what}{where}"
            fix = "check the inputs, and the domain of every log, sqrt and division"
            raise SourceError(message, fix if kind == "output" else "return finite values from get_inputs")


def construct(reference: Reference) -> torch.nn.Module:
    """Returns a new module whose parameters and buffers are all usable.

    Raises:
        SourceError: with the name of what is not.
    """
    try:
        module = reference.make_module(SEEDS[0])
    except ValueError as error:
        if "ninitialized parameter" not in str(error):
            raise
        raise SourceError("Model has lazy modules, whose parameters have no shape yet", LAZY_FIX) from error
    for name, tensor in state_of(module):
        check_tensor(f"{'parameter' if isinstance(tensor, torch.nn.Parameter) else 'buffer'} {name}", tensor)
    if reference.is_class and type(module).forward is torch.nn.Module.forward:
        raise SourceError("Model has no forward", "define `def forward(self, x): ...`")
    return module


def output_specs(outputs: Tensors) -> tuple[TensorSpec, ...]:
    """Returns the specs of a reference's outputs: `out`, or `out0`, `out1` ..."""
    names = ("out",) if len(outputs) == 1 else tuple(f"out{i}" for i in range(len(outputs)))
    return tuple(
        TensorSpec(name=name, shape=tuple(t.shape), dtype=NAMES[t.dtype], role="output")
        for name, t in zip(names, outputs, strict=True)
    )
