"""Products of a program that others make: the vendor's library by plan steps, and the product generator's kernels.

What follows such a product is a kernel of its own where neither can do it (products.py). Not here: products of our own.
"""

from __future__ import annotations

import re
from math import prod

from kernelwright.experts.chain import Leaf, Operation
from kernelwright.experts.gemm import Product as Generated
from kernelwright.experts.gemm import candidate
from kernelwright.experts.gemm.product import HalfType, Layout
from kernelwright.experts.gemm.space import ranked
from kernelwright.experts.gpu.operands import HALVES
from kernelwright.experts.gpu.printer import BINDINGS
from kernelwright.experts.gpu.products import SUMS_BUFFER, Made, Printer
from kernelwright.experts.products import Matrix, Windows, core_leaf
from kernelwright.types import (
    Binding,
    Candidate,
    OptionValue,
    SourceFile,
    Step,
    TensorMap,
    Workspace,
    replace,
    value,
)

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]*)[>"][^\n]*\n', re.MULTILINE)
DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
MOST_RANKED = 4
WORK, WORK_FACTOR, WORK_BYTES = "kw_engine", 4, 4 << 20
"""The workspace of a measured convolution: for an H200, cuDNN 9.19 asks for up to 3.3 times the bytes of its
tensors (float32, float16, bfloat16, 2 and 3 dimensions), and for a little more where they are small."""


# ------------------------------------------------------------------------------ the vendor's library


def called(printer: Printer, *, tuned: bool = False) -> Made | None:
    """Returns a library call and, where something follows it, a kernel that does that; None where there is no call.

    Args:
        printer: of the product.
        tuned: convolutions by the engine that is measured to be the fastest, where cuDNN can be asked that.
    """
    p = printer.product
    made = Made()
    bare = p.tail == core_leaf((p.batches, p.m, p.n), p.core) and printer.dtypes[p.out] == printer.dtype
    size = 4 if printer.dtype == "float32" else 2
    out = p.out if bare else SUMS_BUFFER
    step = convolution(printer, p.right, out) if isinstance(p.right, Windows) else matmul(printer, p.right, out)
    if step is None:
        return None
    if tuned and isinstance(p.right, Windows) and not p.right.transposed:
        step, made.work_bytes = measured(step, size)
    made.steps.append(step)
    if not bare:
        made.sums_bytes = size * p.batches * p.m * p.n
        printer.symbol += "_end"
        made.functions.append("\n".join((printer.end("Done"), printer.ending())))
        names = printer.ending_names()
        launch = printer.one_each_launch()
        made.steps.append(Step(symbol=printer.symbol, arguments=bound(printer, *names), launch=launch))
    return made


def viewed(shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> str:
    """Returns the text of a view: `2x3:3x1+0`, sizes, strides and the first element."""
    return f"{'x'.join(map(str, shape))}:{'x'.join(map(str, strides))}+{start}"


def dense(shape: tuple[int, ...]) -> str:
    """Returns the text of a contiguous tensor's view."""
    return viewed(shape, tuple(prod(shape[d + 1 :]) for d in range(len(shape))))


def bound(printer: Printer, *names: str) -> tuple[Binding, ...]:
    """Returns arguments of a library call; unfinished sums have the product's dtype."""
    found = printer.bindings(list(names))
    ctype = BINDINGS[printer.dtype]
    return tuple(replace(b, ctype=ctype) if b.name == SUMS_BUFFER else b for b in found)


def matmul(printer: Printer, right: Matrix, out: str) -> Step | None:
    """Returns the library's product of strided matrices."""
    p = printer.product
    options: list[tuple[str, OptionValue]] = []
    for number, (side, rows, columns) in enumerate(((p.left, p.m, p.k), (right, p.k, p.n))):
        if side.inner or 1 not in (side.row, side.column):
            return None
        batch = tuple(n for n, _ in side.batch)
        if prod(batch) != p.batches or batch != tuple(n for n, _ in p.left.batch):
            return None
        shape, strides = (*batch, rows, columns), (*(s for _, s in side.batch), side.row, side.column)
        options.append((f"view{number}", viewed(shape, strides, side.start)))
    options.append(("view2", dense((*(n for n, _ in p.left.batch), p.m, p.n))))
    arguments = bound(printer, p.left.base, right.base, out)
    return Step(symbol="matmul", kind="library", arguments=arguments, options=tuple(options))


def convolution(printer: Printer, w: Windows, out: str) -> Step | None:
    """Returns the library's convolution; one of lines is one of images of one row."""
    p, rank = printer.product, len(w.out)
    if rank > 3:
        return None
    more = (1,) * (2 - rank)
    groups, none = printer.groups, (0,) * len(more)
    channels = (groups * w.channels, p.m) if w.transposed else (groups * p.m, w.channels)
    reach = tuple(
        (size - 1) * s - 2 * pad + d * (taps - 1) + 1
        for size, s, pad, d, taps in zip(w.size, w.stride, w.padding, w.dilation, w.kernel, strict=True)
    )
    longer = tuple(n - r for n, r in zip(w.out, reach, strict=True)) if w.transposed else (0,) * rank
    options: tuple[tuple[str, OptionValue], ...] = (
        ("view0", dense((printer.images, groups * w.channels, *more, *w.size))),
        ("view1", dense((*channels, *more, *w.kernel))),
        ("view2", dense((printer.images, groups * p.m, *more, *w.out))),
        ("stride", text_of((*more, *w.stride))),
        ("padding", text_of((*none, *w.padding))),
        ("dilation", text_of((*more, *w.dilation))),
        ("longer", text_of((*none, *longer))),
        ("groups", groups),
        ("transposed", w.transposed),
    )
    arguments = bound(printer, w.base, p.left.base, out)
    return Step(symbol="convolution", kind="library", arguments=arguments, options=options)


def measured(step: Step, element_bytes: int) -> tuple[Step, int]:
    """Returns a convolution as a step that measures cuDNN's engines, and the bytes of its workspace."""
    views = [str(text) for name, text in step.options if name.startswith("view")]
    count = sum(prod(map(int, view.partition(":")[0].split("x"))) for view in views)
    options = tuple(option for option in step.options if option[0] not in ("longer", "transposed"))
    arguments = (*step.arguments, Binding(kind="workspace", name=WORK, ctype="uint8_t"))
    made = replace(step, symbol="tuned_convolution", arguments=arguments, options=options)
    return made, WORK_FACTOR * element_bytes * count + WORK_BYTES


def text_of(numbers: tuple[int, ...]) -> str:
    """Returns whole numbers as one option."""
    return "x".join(map(str, numbers))


# ------------------------------------------------------------------------------ the product generator


@value
class Embedded:
    """A complete candidate as steps of a larger one."""

    text: str
    steps: tuple[Step, ...]
    workspaces: tuple[Workspace, ...]
    tensor_maps: tuple[TensorMap, ...]


def generated(printer: Printer, architecture: str, place: int) -> Embedded | None:
    """Returns a product by the generator's schedule at some place of its ranking, None for what it cannot make."""
    p = printer.product
    if printer.dtype not in HALVES or isinstance(p.right, Windows) or printer.dtypes[p.out] != printer.dtype:
        return None
    batch = ((p.batches, p.m * p.k),) if p.batches > 1 else ()
    right_batch = ((p.batches, p.k * p.n),) if p.batches > 1 else ()
    layouts: dict[tuple[int, int], Layout] = {(p.n, 1): "kn", (1, p.k): "nk"}
    layout = layouts.get((p.right.row, p.right.column))
    dtype: HalfType = "float16" if printer.dtype == "float16" else "bfloat16"
    wide = (
        tuple(b for b in p.left.batch if b[0] > 1) == batch
        and tuple(b for b in p.right.batch if b[0] > 1) == right_batch
    )
    if layout is None or not wide or (p.left.row, p.left.column) != (p.k, 1) or p.left.start or p.right.start:
        return None
    core = core_leaf((p.batches, p.m, p.n), p.core)
    bias = ""
    if isinstance(p.tail, Operation) and p.tail.op == "add" and p.tail.operands[0] == core:
        leaf = p.tail.operands[1]
        if isinstance(leaf, Leaf) and not leaf.view.start and all(
            stride == (1 if d == 2 else 0) for d, factors in enumerate(leaf.view.dims) for _, stride in factors
        ):  # fmt: skip
            bias = leaf.view.base
    if p.tail != core and not bias:
        return None
    product = Generated(
        m=p.m,
        n=p.n,
        k=p.k,
        layout=layout,
        dtype=dtype,
        batch=p.batches,
        bias=bool(bias),
    )
    found = ranked(product, MOST_RANKED, architecture=architecture)
    if place >= len(found):
        return None
    made = candidate(product, found[place], architecture=architecture)
    if not isinstance(made, Candidate):
        return None
    return embedded(
        made, printer.symbol, {"a": p.left.base, "b": p.right.base, "out": p.out, "bias": bias}, printer.tensors
    )


def embedded(made: Candidate, prefix: str, names: dict[str, str], tensors: frozenset[str]) -> Embedded:
    """Returns a candidate's kernels in a namespace of their own, bound to other buffers.

    Args:
        made: a sealed CUDA candidate.
        prefix: what its kernels, workspaces and tensor maps are called after.
        names: buffers of the larger candidate by the names of this one's tensors.
        tensors: names of the larger candidate's own tensors; other buffers are its workspaces.
    """
    outside: dict[str, None] = {}
    body = included(made.sources[0].text, made.sources, outside, set())
    symbols = {step.symbol for step in made.plan.steps if step.kind == "kernel"}
    for symbol in sorted(symbols, key=len, reverse=True):
        body = re.sub(rf"\b{symbol}\b", f"{prefix}_{symbol}", body)
    undone = "".join(f"#undef {name}\n" for name in dict.fromkeys(DEFINED.findall(body)))
    heads = "".join(f"#include <{name}>\n" for name in outside)
    shown = "".join(f"using {prefix}_space::{prefix}_{symbol};\n" for symbol in sorted(symbols))
    inner = [w.name for w in made.plan.workspaces] + [m.name for m in made.plan.tensor_maps]
    own = {name: f"{prefix}_{name}" for name in inner}

    def rebound(binding: Binding) -> Binding:
        if binding.kind == "tensor":
            name = names.get(binding.name, binding.name)
            return replace(binding, kind="tensor" if name in tensors else "workspace", name=name)
        return replace(binding, name=own.get(binding.name, binding.name)) if binding.kind != "scalar" else binding

    return Embedded(
        text=f"{heads}namespace {prefix}_space {{\n{body}}}\n{shown}{undone}",
        steps=tuple(
            replace(step, symbol=f"{prefix}_{step.symbol}", arguments=tuple(map(rebound, step.arguments)))
            for step in made.plan.steps
        ),
        workspaces=tuple(replace(w, name=own[w.name]) for w in made.plan.workspaces),
        tensor_maps=tuple(
            replace(m, name=own[m.name], of=names.get(m.of, own.get(m.of, m.of))) for m in made.plan.tensor_maps
        ),
    )


def included(text: str, sources: tuple[SourceFile, ...], outside: dict[str, None], seen: set[str]) -> str:
    """Returns a source with its own headers put in their places; other headers are collected in `outside`."""
    files = {source.path: source.text for source in sources}

    def put(found: re.Match[str]) -> str:
        if found[1] == "<":
            outside[found[2]] = None
            return ""
        if found[2] in seen:
            return ""
        seen.add(found[2])
        return included(files[found[2]].replace("#pragma once\n", ""), sources, outside, seen)

    return INCLUDE.sub(put, text)
