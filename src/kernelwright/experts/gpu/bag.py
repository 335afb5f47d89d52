"""Expert for embedding bags on a GPU: rows of a table gathered and reduced to one row for each bag.

Covers: what the CPU's expert recognises (experts/bag.py), in float32, float16 and bfloat16 with sums in float32, in
CUDA C++: neighbouring threads hold 16 bytes each of a bag's row, and several rows are on their way at once.
Triton and cuTile take bags at even distances by the loop expert (experts/read_windows.py).
Does not cover: gradients; indices have to lie inside the table, as in PyTorch.
"""

from __future__ import annotations

from functools import partial
from math import prod

from kernelwright.experts.bag import Bags, recognised
from kernelwright.experts.chain import Unsupported
from kernelwright.experts.gpu.attention import FLOATS
from kernelwright.experts.gpu.chain_printer import ScalarLines
from kernelwright.experts.gpu.kernel import SIZES
from kernelwright.experts.gpu.printer import BUFFERS
from kernelwright.experts.gpu.source import KernelText, candidate, constants, place_type
from kernelwright.experts.kernel import pointer, space
from kernelwright.experts.protocol import Answer
from kernelwright.experts.views import Wiring
from kernelwright.graph import Graph
from kernelwright.types import Candidate, Failure, Point, Problem, Space, Target, Template


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one embedding bag; None where there is none."""
    del target
    work = recognised(Wiring(problem, graph, FLOATS))
    if not isinstance(work, Bags):
        return work
    return Template(name="cuda-embedding_bag", space=space_of(work), emit=partial(emit, problem, work))


def space_of(work: Bags) -> Space:
    """Returns the schedules: threads of a block, bytes of a thread, rows that are on their way at once."""
    width, size = work.table.shape[1], SIZES[work.table.dtype]
    wide = tuple(n for n in (16, 8, 4, 2) if n >= size and width % (n // size) == 0)
    return space(threads=(256, 128, 512), vector_bytes=wide, ahead=(8, 4, 16, 2, 1))


def emit(problem: Problem, work: Bags, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = {name: int(item) for name, item in point}
    width, threads = work.table.shape[1], choice["threads"]
    vector = choice["vector_bytes"] // SIZES[work.table.dtype]
    lanes = width // vector
    try:
        body = kernel_body(problem, work, lanes, threads)
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    named = (work.table, work.indices, work.offsets, work.weights, *work.tensors)
    tensors = (*dict.fromkeys(spec for spec in named if spec is not None), work.out)
    helpers = f"using Out = {BUFFERS[work.out.dtype]};\n" + constants(VECTOR=vector, AHEAD=choice["ahead"])
    kernel = KernelText(
        symbol="kw_bag", tensors=tensors, body=body, grid=(-(-work.bags * lanes // threads), 1, 1), threads=threads
    )
    return candidate(problem, template="cuda-embedding_bag", point=point, helpers=helpers, kernels=(kernel,))


def kernel_body(problem: Problem, work: Bags, lanes: int, threads: int) -> str:
    """Returns the kernel's statements: a thread's bag and columns, rows some at a time, the tail."""
    index, width = place_type(problem), work.table.shape[1]
    table, indices = pointer(work.table.name), pointer(work.indices.name)
    writer = ScalarLines(("b", "w + v"), held={work.core: "found"})
    result = writer.write(work.tail)
    finish = "".join(f"        {line}\n" for line in writer.lines)
    if work.offsets is None:
        ends = f"const {index} begin = b * {work.length}, end = begin + {work.length};"
    else:
        offsets, count = pointer(work.offsets.name), prod(work.indices.shape)
        last = f"{offsets}[b + 1]" if work.last_offset else f"(b + 1 < {work.bags} ? {offsets}[b + 1] : {count})"
        ends = f"const {index} begin = {index}({offsets}[b]), end = {index}({last});"
    live = f"s + u < end && place[u] != {work.padding}" if work.padding >= 0 else "s + u < end"
    take = "sum[v] += kw::value(row[u][v]);"
    if work.weights is not None:
        take = f"sum[v] += kw::value(row[u][v]) * kw::value({pointer(work.weights.name)}[s + u]);"
    elif work.mode == "max":
        take = "if (!count || kw::value(row[u][v]) > sum[v]) sum[v] = kw::value(row[u][v]);"
    found = "count ? sum[v] / float(count) : sum[v]" if work.mode == "mean" else "sum[v]"
    return f"""\
    const {index} q = {index}(blockIdx.x) * {threads} + threadIdx.x;
    if (q >= {index}({work.bags * lanes})) return;
    const {index} b = q / {lanes}, w = q % {lanes} * VECTOR;
    {ends}
    float sum[VECTOR] = {{}};
    int count = 0;
    for ({index} s = begin; s < end; s += AHEAD) {{
        kw::i64 place[AHEAD];
        kw::vec<{BUFFERS[work.table.dtype]}, VECTOR> row[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) place[u] = kw::i64({indices}[s + u < end ? s + u : end - 1]);
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) row[u] = kw::load<VECTOR>({table} + place[u] * {width} + w);
#pragma unroll
        for (int u = 0; u < AHEAD; ++u)
            if ({live}) {{
#pragma unroll
                for (int v = 0; v < VECTOR; ++v) {take}
                ++count;
            }}
    }}
    kw::vec<Out, VECTOR> made;
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {{
        const float found = {found};
{finish}        made[v] = kw::to<Out>({result});
    }}
    kw::store<VECTOR>({pointer(work.out.name)} + b * {width} + w, made);"""
