"""Calls of vendor libraries as plan steps: through torch, which has them loaded, and whose handles can be captured;
FFTs and measured convolutions through cufft.py and cudnn.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch

from kernelwright.errors import KernelwrightError
from kernelwright.judge.device import cudnn, cufft
from kernelwright.judge.device.faults import refused
from kernelwright.types import Step

Routine = Callable[[list[torch.Tensor], Mapping[str, object]], None]


def _matmul(tensors: list[torch.Tensor], options: Mapping[str, object]) -> None:
    """out = op(a) @ op(b): arguments a, b, out; options transpose_a, transpose_b."""
    a, b, out = tensors
    left = a.transpose(-1, -2) if options.get("transpose_a") else a
    right = b.transpose(-1, -2) if options.get("transpose_b") else b
    torch.matmul(left, right, out=out)


def _addmm(tensors: list[torch.Tensor], options: Mapping[str, object]) -> None:
    """out = bias + op(a) @ op(b): arguments bias, a, b, out."""
    bias, a, b, out = tensors
    left = a.t() if options.get("transpose_a") else a
    right = b.t() if options.get("transpose_b") else b
    torch.addmm(bias, left, right, out=out)


def _convolution(tensors: list[torch.Tensor], options: Mapping[str, object]) -> None:
    """out = the convolution of images with weights: arguments x, weight, out.

    Options stride, padding, dilation, longer (how much a transposed one's output is longer) are sizes as `1x2`;
    groups, transposed. Never in TF32, whatever the process has switched on.
    """
    x, weight, out = tensors
    stride, padding, dilation, longer = (
        [int(n) for n in str(options[key]).split("x")] for key in ("stride", "padding", "dilation", "longer")
    )
    groups, transposed = int(str(options["groups"])), bool(options["transposed"])
    aten = torch.ops.aten
    if not x.is_cuda:
        aten.convolution.out(x, weight, None, stride, padding, dilation, transposed, longer, groups, out=out)
    elif transposed:
        aten.cudnn_convolution_transpose.out(
            x, weight, padding, longer, stride, dilation, groups, False, False, False, out=out
        )
    else:
        aten.cudnn_convolution.out(x, weight, padding, stride, dilation, groups, False, False, False, out=out)


def _tuned_convolution(tensors: list[torch.Tensor], options: Mapping[str, object]) -> Callable[[], None]:
    """The same with a workspace (languages/library_steps.py); on a CPU, where plans are only tried, unmeasured."""
    if tensors[0].is_cuda:
        return cudnn.prepared(tensors, options)
    none = "x".join("0" for _ in str(options["stride"]).split("x"))
    return partial(_convolution, tensors[:3], {**options, "longer": none, "transposed": False})


ROUTINES: dict[str, Routine] = {"matmul": _matmul, "addmm": _addmm, "convolution": _convolution}
PREPARED = {"tuned_convolution": _tuned_convolution, "fft": cufft.prepared}
"""Routines that are set up before they are called."""
DTYPES = {"float": torch.float32, "double": torch.float64, "__half": torch.float16, "__nv_bfloat16": torch.bfloat16}


def viewed(tensor: torch.Tensor, text: str, ctype: str) -> torch.Tensor:
    """Returns a buffer's elements as `2x3:3x1+0` says: sizes, strides, the first one; workspaces are bytes before.

    Raises:
        ValueError: for what is no such text, or would reach beyond the buffer: others lie beside it in one storage.
    """
    shape, rest = text.split(":")
    strides, start = rest.split("+")
    flat = tensor.reshape(-1)
    if flat.dtype is torch.uint8:
        flat = flat.view(DTYPES[ctype.removeprefix("const ")])
    sizes, steps = ([int(n) for n in part.split("x")] for part in (shape, strides))
    last = int(start) + sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    if min(*sizes, 1) < 1 or min(*steps, int(start)) < 0 or last >= flat.numel():
        raise ValueError(f"a view {text} of {flat.numel()} elements")
    return torch.as_strided(flat, sizes, steps, flat.storage_offset() + int(start))


def call_of(step: Step, views: Mapping[str, torch.Tensor]) -> Callable[[], None]:
    """Returns the call that a library step stands for.

    Raises:
        DeviceFault: for a routine that is not known, or arguments it cannot take.
    """
    if step.symbol not in ROUTINES | PREPARED:
        message = f"there is no library routine {step.symbol!r}; known are {', '.join(ROUTINES | PREPARED)}"
        raise refused("load", "library", message)
    options = dict(step.options)
    tensors = [views[binding.name] for binding in step.arguments]
    try:
        for number, binding in enumerate(step.arguments):
            if f"view{number}" in options:
                tensors[number] = viewed(tensors[number], str(options[f"view{number}"]), binding.ctype)
        prepare = PREPARED.get(step.symbol)
        routine = prepare(tensors, options) if prepare else partial(ROUTINES[step.symbol], tensors, options)
    except (KernelwrightError, RuntimeError, ValueError, KeyError) as error:
        raise refused("load", "library", f"{step.symbol}: {str(error).splitlines()[0]}") from None

    def call() -> None:
        try:
            with torch.inference_mode():
                routine()
        except (KernelwrightError, RuntimeError, ValueError) as error:
            raise refused("run", "library", f"{step.symbol}: {str(error).splitlines()[0]}") from None

    return call
