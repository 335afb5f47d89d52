"""Expert for FFTs on a GPU: one transform by cuFFT, as a plan without sources.

Covers: `torch.fft` from real numbers to one half of the complex ones, of complex numbers, and from one half to real
ones, over the last one to three dimensions, in float32 and float64, in every normalisation; complex numbers are pairs
of real ones (`view_as_real`, `view_as_complex`).
Does not cover: graphs that do more than one transform; both halves of a real one.
"""

from __future__ import annotations

from math import prod

from kernelwright.experts.protocol import Answer
from kernelwright.graph import Graph, Node, Ref
from kernelwright.types import (
    Binding,
    Candidate,
    LaunchPlan,
    Problem,
    Refusal,
    Space,
    Step,
    Target,
    Template,
    Workspace,
    digest,
)

KINDS = {"aten._fft_r2c.default": "r2c", "aten._fft_c2c.default": "c2c", "aten._fft_c2r.default": "c2r"}
CTYPES = {"float32": "float", "float64": "double"}
NAME, WORK, MOST_DIMENSIONS = "cufft", "work", 3
SMOOTH, ROUGH, LEAST_BYTES = 4, 16, 1 << 20
"""Bytes of workspace for each byte of the complex numbers: a length with factors beyond 7 becomes a longer one."""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph that is one FFT, a refusal for one that cuFFT cannot do, None for others."""
    del target
    node = next((node for node in graph.nodes if node.op in KINDS), None)
    if node is None:
        return None
    given = {spec.name: spec for spec in problem.inputs + problem.parameters}
    source = node.argument("self")
    if not isinstance(source, Ref) or source.name not in given or graph.outputs != (Ref(name=node.name),):
        return Refusal(subject=node.op, reason="it is done alone, of one of the problem's own tensors")
    spec = given[source.name]
    if spec.dtype not in CTYPES or spec.strides is not None:
        return Refusal(subject=node.op, reason="it is done of contiguous float32 and float64")
    options = options_of(node, spec.shape)
    if isinstance(options, str):
        return Refusal(subject=node.op, reason=options)
    ctype, out = CTYPES[spec.dtype], problem.outputs[0].name
    arguments = (
        Binding(kind="tensor", name=spec.name, ctype=f"const {ctype}"), Binding(kind="tensor", name=out, ctype=ctype),
        Binding(kind="workspace", name=WORK, ctype="uint8_t"),
    )  # fmt: skip
    step = Step(symbol="fft", kind="library", arguments=arguments, options=tuple(options.items()))
    sizes = [int(n) for n in str(options["sizes"]).split("x")]
    smooth = all(pow(2 * 3 * 5 * 7, 31, n) == 0 for n in sizes)  # no other prime divides a size below 2^31
    points = int(options["batch"]) * prod(sizes[:-1]) * (sizes[-1] + 2)
    work = LEAST_BYTES + (SMOOTH if smooth else ROUGH) * points * (16 if ctype == "double" else 8)
    candidate = Candidate(
        problem=digest(problem), language="library", sources=(), author="expert", template=NAME,
        plan=LaunchPlan(steps=(step,), workspaces=(Workspace(name=WORK, size_bytes=work),)),
    )  # fmt: skip
    return Template(name=NAME, space=Space(parameters=()), emit=lambda _: candidate)


def options_of(node: Node, shape: tuple[int, ...]) -> dict[str, str | int | float | bool] | str:
    """Returns how cuFFT is called for a node on a tensor of a shape, or why it is not."""
    kind, dims, norm = KINDS[node.op], node.argument("dim"), node.argument("normalization")
    assert isinstance(dims, tuple)
    assert isinstance(norm, int)
    full = shape if kind == "r2c" else shape[:-1]
    if kind == "c2r":
        length = node.argument("last_dim_size")
        assert isinstance(length, int)
        full = (*full[:-1], length)
    places = [int(str(dim)) % len(full) for dim in dims]
    first = len(full) - len(places)
    ordered = sorted(places) == list(range(first, len(full))) and (kind == "c2c" or places[-1] == len(full) - 1)
    if not ordered or not 1 <= len(places) <= MOST_DIMENSIONS:
        return f"over dimensions {places}: it is done over the last one to three, and halved in the last"
    if kind == "r2c" and not node.argument("onesided"):
        return "both halves of a real transform are asked for; rfft gives one"
    points = prod(full[first:])
    return {
        "kind": kind, "sizes": "x".join(map(str, full[first:])), "batch": prod(full[:first]),
        "inverse": kind == "c2r" or (kind == "c2c" and not node.argument("forward")),
        # PyTorch's normalisations: none, by the root of the number of points, by their number.
        "scale": (1.0, points**-0.5, 1.0 / points)[norm],
    }  # fmt: skip
