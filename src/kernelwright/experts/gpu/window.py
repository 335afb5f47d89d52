"""Expert for sliding windows on a GPU: average and maximum pooling, depthwise convolution, and what follows them.

Covers: what the CPU's expert recognises (experts/window.py), in float32, float16 and bfloat16 with sums in float32, in
CUDA C++: a thread holds a tile of results in registers and reads each row once, 16 bytes at a time where that is
aligned. Triton and cuTile take windows by the loop expert (experts/read_windows.py).
Does not cover: what the recogniser refuses by name.
"""

from __future__ import annotations

from functools import partial
from math import prod

from kernelwright.experts.chain import Unsupported
from kernelwright.experts.depthwise import Depthwise
from kernelwright.experts.gpu.attention import FLOATS
from kernelwright.experts.gpu.chain_printer import ScalarLines
from kernelwright.experts.gpu.kernel import SIZES
from kernelwright.experts.gpu.printer import BUFFERS
from kernelwright.experts.gpu.source import KernelText, candidate, constants, place_type
from kernelwright.experts.kernel import pointer, space
from kernelwright.experts.pooling import Pooling, Span
from kernelwright.experts.protocol import Answer
from kernelwright.experts.views import Wiring
from kernelwright.experts.window import recognised
from kernelwright.graph import Graph
from kernelwright.types import Candidate, Failure, Point, Problem, Refusal, Space, Target, Template

Windows = Pooling | Depthwise
MOST_READ = 256
"""Elements of a thread's rows that code is unrolled for; greater windows are folded tap by tap."""
VECTOR_BYTES = 16


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one window operation; None where there is none or more."""
    del target
    work = recognised(Wiring(problem, graph, FLOATS))
    if work is None or isinstance(work, Refusal):
        return work
    name = "cuda-depthwise" if isinstance(work, Depthwise) else f"cuda-{work.name}"
    return Template(name=name, space=space_of(work), emit=partial(emit, problem, work, name))


def spans_of(work: Windows) -> tuple[Span, Span, Span]:
    """Returns depth, rows and columns."""
    return (Span.single(), work.rows, work.columns) if isinstance(work, Depthwise) else work.spans


def reach(span: Span, results: int) -> int:
    """Returns how many neighbouring elements some neighbouring windows see."""
    return (results - 1) * span.stride + (span.taps - 1) * span.step + 1


def loops(work: Windows) -> bool:
    """Says whether windows are folded tap by tap."""
    _, rows, columns = spans = spans_of(work)
    return any(not span.stride for span in spans) or reach(rows, 1) * reach(columns, 1) > MOST_READ


def space_of(work: Windows) -> Space:
    """Returns the schedules: threads of a block, rows and columns of a thread's tile."""
    threads = (256, 128, 512)
    if loops(work):
        return space(threads=threads)
    _, rows, columns = spans_of(work)
    # Rows share what they read only where windows overlap.
    wanted = (4, 2, 8, 1) if rows.taps * rows.step > rows.stride else (1, 2, 4)
    across = [n for n in (4, 2, 1, 8) if n <= columns.made and reach(rows, 1) * reach(columns, n) <= MOST_READ] or [1]
    if columns.size % 4:
        across.sort()
    seen = reach(columns, across[0])
    tiles = tuple(n for n in wanted if n <= rows.made and reach(rows, n) * seen <= MOST_READ) or (1,)
    return space(threads=threads, rows=tiles, columns=tuple(across))


def emit(problem: Problem, work: Windows, name: str, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = {key: int(item) for key, item in point}
    rows, columns, threads = choice.get("rows", 1), choice.get("columns", 1), choice["threads"]
    spans = spans_of(work)
    if not loops(work) and reach(spans[1], rows) * reach(spans[2], columns) > MOST_READ:
        return Failure(stage="emit", kind="tile", message=f"{rows} by {columns} results read too much")
    size = SIZES[work.x.dtype]
    vector = VECTOR_BYTES // size
    while vector > 1 and (columns * spans[2].stride % vector or spans[2].size % vector):
        vector //= 2
    try:
        body = kernel_body(problem, work, rows, columns, threads)
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    sizes: dict[str, int | bool] = {
        "MAXIMUM": isinstance(work, Pooling) and work.name == "max_pool", "WEIGHTED": isinstance(work, Depthwise),
        "ROWS": rows, "COLUMNS": columns, "VECTOR": vector,
    }  # fmt: skip
    for letter, span in zip("DHW", spans, strict=True):
        sizes |= {letter: span.size, f"OUT_{letter}": span.made, f"TAPS_{letter}": span.taps}
        sizes |= {f"STRIDE_{letter}": span.stride, f"PAD_{letter}": span.pad, f"STEP_{letter}": span.step}
    helpers = f"using Element = {BUFFERS[work.x.dtype]};\nusing Out = {BUFFERS[work.out.dtype]};\n{constants(**sizes)}"
    named = (work.x, *((work.weight, work.bias) if isinstance(work, Depthwise) else ()), *work.tensors)
    tensors = (*dict.fromkeys(spec for spec in named if spec is not None), work.out)
    total = prod(work.out.shape) // (spans[1].made * spans[2].made)
    total *= -(-spans[1].made // rows) * -(-spans[2].made // columns)
    kernel = KernelText(
        symbol="kw_window", tensors=tensors, body=body, grid=(-(-total // threads), 1, 1), threads=threads
    )
    return candidate(problem, template=name, point=point, helpers=helpers, kernels=(kernel,), header="window.cuh")


def kernel_body(problem: Problem, work: Windows, rows: int, columns: int, threads: int) -> str:
    """Returns the kernel's statements: a thread's place, its windows, the tail, the store."""
    index = place_type(problem)
    depth, high, wide = spans_of(work)
    planes = prod(work.out.shape) // (depth.made * high.made * wide.made)
    down, across = -(-high.made // rows), -(-wide.made // columns)
    indices = ("p", "oh", "ow") if isinstance(work, Depthwise) else ("p", "od", "oh", "ow")
    writer = ScalarLines(indices, held={work.core: "v"})
    result = writer.write(work.tail)
    exact = wide.made % columns == 0
    whole_store = exact and columns * SIZES[work.out.dtype] <= VECTOR_BYTES and columns > 1
    plane, weight, start = plane_of(work)
    find = "windows(made, plane, weight, start, od, first_row, first_column);"
    if loops(work):
        find = "made[0][0] = window(plane, od, first_row, first_column);"
    store = f"to[c] = kw::to<Out>({result});" if whole_store else f"to[ow] = kw::to<Out>({result});"
    keep = "" if exact else "            if (ow >= OUT_W) break;\n"
    lines = "".join(f"            {line}\n" for line in [f"const float v = {average(work)};", *writer.lines, store])
    return f"""\
    const {index} q = {index}(blockIdx.x) * {threads} + threadIdx.x;
    if (q >= {index}({planes * depth.made * down * across})) return;
    const int first_column = int(q % {across}) * COLUMNS, first_row = int(q / {across} % {down}) * ROWS;
    const int od = int(q / {across * down} % OUT_D);
    const {index} p = q / {index}({across * down * depth.made});
{plane}    const Element* plane = {pointer(work.x.name)} + from * (D * H * W);
    const auto* weight = {weight};
    const float start = {start};
    float made[ROWS][COLUMNS];
    {find}
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {{
        const {index} oh = first_row + r;
        if (oh >= OUT_H) break;
        Out* row = {pointer(work.out.name)} + ((p * OUT_D + od) * OUT_H + oh) * OUT_W;
        {"kw::vec<Out, COLUMNS> to;" if whole_store else "Out* to = row;"}
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {{
            const {index} ow = first_column + c;
{keep}{lines}        }}
        {"kw::store<COLUMNS>(row + first_column, to);" if whole_store else ""}
    }}"""


def plane_of(work: Windows) -> tuple[str, str, str]:
    """Returns the statements that find the input plane `from`, the taps, and what sums start with."""
    if isinstance(work, Pooling):
        return "    const auto from = p;\n", "static_cast<const Element*>(nullptr)", "neutral()"
    channel = f"(p % {work.channels})"
    inputs = work.channels // work.multiplier
    found = f"    const auto from = p / {work.channels} * {inputs} + {channel} / {work.multiplier};\n"
    bias = "0.0f" if work.bias is None else f"kw::value({pointer(work.bias.name)}[{channel}])"
    return found, f"{pointer(work.weight.name)} + {channel} * (TAPS_H * TAPS_W)", bias


def average(work: Windows) -> str:
    """Returns the result of a window in C++: what was folded, or that over a count."""
    made = "made[r][c]"
    if isinstance(work, Depthwise) or work.name == "max_pool":
        return made
    if work.divisor is not None:
        return f"{made} / {float(work.divisor)!r}f"
    counts = [set(span.counts(padding=work.counts_padding)) for span in work.spans]
    if all(len(found) == 1 for found in counts):
        return f"{made} / {float(prod(next(iter(found)) for found in counts))!r}f"
    padding = str(work.counts_padding).lower()
    parts = [
        f"count(int({place}), {letter}, OUT_{letter}, TAPS_{letter}, STRIDE_{letter}, PAD_{letter}, {padding})"
        for letter, place in zip("DHW", ("od", "oh", "ow"), strict=True)
    ]
    return f"{made} / ({' * '.join(parts)})"
