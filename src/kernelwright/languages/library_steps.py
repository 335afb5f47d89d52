"""Library steps whose arguments are held against their routine before anything touches a device.

`fft` is one transform by cuFFT, arguments x, out, work; options kind (r2c, c2c, c2r), sizes (`8x16`: real lengths of
the last one to three dimensions), batch, inverse, scale (1.0: none). Complex numbers are pairs of real ones.
`tuned_convolution` is one convolution by cuDNN's fastest engine, arguments x, weight, out, work; options stride,
padding, dilation (`1x2`), groups, and view0 to view2 as in every library step. `work` is a workspace in both.
Not here: the calls (judge/device/cufft.py, cudnn.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from math import prod

from kernelwright import sizes
from kernelwright.languages.plan import ELEMENT_BYTES
from kernelwright.types import Binding, Candidate, OptionValue, Problem, Step

ROUTINES = {
    "fft": (3, ("float", "double"), {"kind", "sizes", "batch", "inverse", "scale"}),
    "tuned_convolution": (4, ("float", "__half", "__nv_bfloat16"), {"stride", "padding", "dilation", "groups"}),
}
"""How many arguments each takes, C types of its tensors, its options."""
KINDS = (("r2c", False), ("c2c", False), ("c2c", True), ("c2r", True))
"""Of FFTs, and whether they are inverse."""
MOST_DIMENSIONS, MOST_NUMBERS = 3, (1 << 31) - 1
VIEW = re.compile(r"(\d{1,9}(?:x\d{1,9})*):(\d{1,12}(?:x\d{1,12})*)\+(\d{1,12})")
ALIGNED_ELEMENTS = 8

Shape = tuple[int, ...]


def fault(problem: Problem, candidate: Candidate, step: Step) -> str:
    """Returns why a routine cannot take its arguments, empty where it can, and for routines not described above.

    **Covers**: number, kind, dtype, constness and sharing of arguments; names and values of options; shapes and
    layouts against each other; what would reach beyond a buffer.
    **Does not cover**: whether the workspace suffices, which only the library says.
    """
    if step.symbol not in ROUTINES:
        return ""
    (count, ctypes, asked), options = ROUTINES[step.symbol], dict(step.options)
    *tensors, work = step.arguments or (None,)
    if problem.axes:
        return "its sizes are fixed, and the problem has axes that vary"
    if work is None or len(step.arguments) != count or work.kind != "workspace":
        return f"it takes {count} arguments, the last a workspace; given are {len(step.arguments)}"
    if any(binding.kind not in ("tensor", "workspace") for binding in tensors):
        return "it takes tensors and workspaces only"
    types, read, out = [b.ctype.removeprefix("const ") for b in tensors], tensors[:-1], tensors[-1]
    if len(set(types)) > 1 or types[0] not in ctypes:
        return f"its tensors are {', '.join(types)}; it takes {', '.join(ctypes)}, all the same"
    names = [(binding.kind, binding.name) for binding in (*read, out, work)]
    inputs = {tensor.name for tensor in problem.inputs + problem.parameters}
    if (
        out.ctype.startswith("const ")
        or work.ctype.startswith("const ")
        or (out.kind == "tensor" and out.name in inputs)
    ):
        return f"it writes {out.name!r} and {work.name!r}, which can be neither const nor inputs"
    if names[-1] in names[:-1] or names[-2] in names[:-2]:
        return "its output and workspace must be memory of their own"
    views = {f"view{number}" for number in range(len(tensors))} if step.symbol == "tuned_convolution" else set()
    if not asked <= set(options) <= asked | views:
        return f"its options are {', '.join(sorted(asked))}; given are {', '.join(sorted(options))}"
    shapes = []
    for number, binding in enumerate(tensors):
        shape, wrong = _shape(problem, candidate, binding, options.get(f"view{number}"))
        if wrong:
            return f"argument {binding.name!r}: {wrong}"
        shapes.append(shape)
    return _fft_fault(options, shapes) if step.symbol == "fft" else _convolution_fault(options, *shapes)


def _shape(problem: Problem, candidate: Candidate, binding: Binding, view: OptionValue | None) -> tuple[Shape, str]:
    """Returns the shape of an argument, and why its memory is not dense and its own."""
    if binding.kind == "tensor":
        spec = next(tensor for tensor in problem.arguments if tensor.name == binding.name)
        shape, strided = spec.shape, spec.strides not in (None, _dense(spec.shape))
    else:
        room = {w.name: sizes.evaluate(w.size_bytes, {}) for w in candidate.plan.workspaces}[binding.name]
        size = ELEMENT_BYTES.get(binding.ctype.removeprefix("const "), 2)  # halves are not in the table
        shape, strided = (room // size,), False
    if view is None:
        return shape, "it is not contiguous" if strided else ""
    found = VIEW.fullmatch(str(view))
    if found is None:
        return shape, f"{view!r} is no view; write sizes:strides+start, as in 2x3:3x1+0"
    seen, strides, start = _numbers(found[1]), _numbers(found[2]), int(found[3])
    if strides != _dense(seen) or start % ALIGNED_ELEMENTS:
        return seen, f"the view {view} is not dense, or does not start at a multiple of {ALIGNED_ELEMENTS} elements"
    beyond = start + prod(seen) > prod(shape)
    return seen, f"the view {view} reaches beyond {prod(shape)} elements" if beyond else ""


def _fft_fault(options: Mapping[str, OptionValue], shapes: list[Shape]) -> str:
    kind, inverse, batch, scale = (options[name] for name in ("kind", "inverse", "batch", "scale"))
    if (kind, inverse) not in KINDS or not isinstance(inverse, bool):
        return f"kind {kind!r} with inverse {inverse!r}; r2c is forward, c2r inverse, c2c either"
    lengths = _numbers(options["sizes"])
    if not 1 <= len(lengths) <= MOST_DIMENSIONS or min(lengths) < 1:
        return f"sizes are {options['sizes']!r}; an FFT has 1 to {MOST_DIMENSIONS}, written as 8x16"
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        return f"batch is {batch!r}; it needs a whole number from 1"
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not math.isfinite(scale):
        return f"scale is {scale!r}; it needs a finite number"
    real, half = batch * prod(lengths), 2 * batch * prod(lengths[:-1]) * (lengths[-1] // 2 + 1)
    wanted = {"r2c": (real, half), "c2r": (half, real), "c2c": (2 * real, 2 * real)}[str(kind)]
    given = tuple(map(prod, shapes))
    if given != wanted or max(wanted) > MOST_NUMBERS:
        return f"its tensors have {given} numbers; a {kind} FFT of {batch} x {lengths} has {wanted}, at most 2^31 - 1"
    return ""


def _convolution_fault(options: Mapping[str, OptionValue], x: Shape, weight: Shape, out: Shape) -> str:
    stride, padding, dilation = (_numbers(options[name]) for name in ("stride", "padding", "dilation"))
    if not len(x) == len(weight) == len(out) or len(x) not in (4, 5):
        return f"its tensors have {len(x)}, {len(weight)} and {len(out)} dimensions; each needs 4, or each 5"
    if {len(stride), len(padding), len(dilation)} != {len(x) - 2} or min(stride + dilation) < 1:
        return f"stride, padding and dilation need {len(x) - 2} whole numbers each, written as 1x2"
    groups = options["groups"]
    if not isinstance(groups, int) or isinstance(groups, bool) or groups < 1 or weight[0] % groups:
        return f"groups is {groups!r}; it needs a whole number that divides {weight[0]} channels"
    windows = zip(x[2:], weight[2:], stride, padding, dilation, strict=True)
    made = (x[0], weight[0], *((n + 2 * pad - gap * (k - 1) - 1) // step + 1 for n, k, step, pad, gap in windows))
    if weight[1] * groups != x[1] or out != made or min(x + weight + out) < 1:
        return f"{x} with weights {weight} in {groups} groups gives {made}, not {out}"
    return ""


def _dense(shape: Shape) -> Shape:
    return tuple(prod(shape[place + 1 :]) for place in range(len(shape)))


def _numbers(text: OptionValue) -> Shape:
    parts = str(text).split("x")
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) < 13 for part in parts) else ()
