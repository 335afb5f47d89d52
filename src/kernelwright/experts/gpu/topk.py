"""Expert for top-k along the last dimension on a GPU, and what is done with the values and indices found.

Covers: what the CPU's expert recognises (experts/topk.py), in float32, float16 and bfloat16, in CUDA C++: scores that
are computed are stored by a kernel of their own, on all multiprocessors; then a block selects and sorts each row.
Does not cover: k above 2048, and what the recogniser refuses by name.
"""

from __future__ import annotations

from functools import partial

from kernelwright.experts.chain import Expression, Leaf, Unsupported, leaves
from kernelwright.experts.gpu.attention import FLOATS
from kernelwright.experts.gpu.chain_printer import ScalarLines
from kernelwright.experts.gpu.printer import BUFFERS
from kernelwright.experts.gpu.source import KernelText, candidate, constants, place_type
from kernelwright.experts.kernel import pointer, space
from kernelwright.experts.protocol import Answer
from kernelwright.experts.topk import recognised
from kernelwright.experts.topk_code import Made, Output, Selection
from kernelwright.experts.views import Wiring
from kernelwright.graph import Graph
from kernelwright.types import (
    Candidate,
    Failure,
    Point,
    Problem,
    Refusal,
    Space,
    Target,
    Template,
    TensorSpec,
    Workspace,
)

MOST = 2048
"""The greatest k: its items are sorted in shared memory."""
SHARED_BYTES = 40 << 10
"""Static shared memory for the keys of a row and the items found."""
SCORE_THREADS = 256
LANES = 8
"""Threads that share the numbers whose maximum is a score."""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph with one top-k; None where there is none."""
    del target
    work = recognised(Wiring(problem, graph, FLOATS))
    if not isinstance(work, Selection):
        return work
    if work.count > MOST:
        return Refusal(subject="aten.topk.default", reason=f"the {work.count} best; {MOST} is the most")
    return Template(name="cuda-topk", space=space_of(work), emit=partial(emit, problem, work))


def slots(work: Selection) -> int:
    """Returns the power of two that is at least k, and 2."""
    return max(2, 1 << (work.count - 1).bit_length())


def space_of(work: Selection) -> Space:
    """Returns the schedules: threads of a block that selects, and whether a row's keys are kept."""
    best = min(1024, max(64, 1 << (max(work.length // 8, 1) - 1).bit_length()))
    threads = (best, *(n for n in (1024, 512, 256, 128, 64) if n != best and n <= max(64, 2 * work.length)))
    fits = 4 * work.length + 8 * slots(work) + 8 * work.count * (1 + len(work.made)) <= SHARED_BYTES
    return space(threads=threads, keys=("kept", "read") if fits else ("read",))


def emit(problem: Problem, work: Selection, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = dict(point)
    threads = int(choice["threads"])
    try:
        scoring = None if direct(work) else score_kernel(problem, work)
        body = selecting(problem, work, threads)
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    helpers = constants(
        THREADS=threads, LENGTH=work.length, COUNT=work.count, SLOTS=slots(work), LARGEST=work.largest,
        KEPT=choice["keys"] == "kept",
    )  # fmt: skip
    followers = [made.of for made in work.made if made.of is not None]
    followers += [output.expression for output in work.outputs if output.expression is not None]
    tables = [made.table for made in work.made if made.table is not None]
    tables += [output.table for output in work.outputs if output.table is not None]
    read = (*((work.scores,) if scoring is None else ()), *followers)
    tensors = (*dict.fromkeys([*inputs(problem, read), *tables]), *(output.out for output in work.outputs))
    kernel = KernelText(
        symbol="kw_topk", tensors=tensors, body=body, grid=(work.rows, 1, 1), threads=threads,
        scratch=() if scoring is None else (("scores", "float"),),
    )  # fmt: skip
    kernels = (kernel,) if scoring is None else (scoring, kernel)
    held = () if scoring is None else (Workspace(name="scores", size_bytes=4 * work.rows * work.length),)
    return candidate(
        problem, template="cuda-topk", point=point, helpers=helpers, kernels=kernels, workspaces=held,
        header="topk.cuh",
    )  # fmt: skip


def inputs(problem: Problem, read: tuple[Expression, ...]) -> list[TensorSpec]:
    """Returns the tensors that expressions read, each once."""
    names = {leaf.view.base for item in read for leaf in leaves(item)}
    return [spec for spec in problem.inputs + problem.parameters if spec.name in names]


def direct(work: Selection) -> bool:
    """Says whether the scores lie in memory as they are searched."""
    item = work.scores
    plain = isinstance(item, Leaf) and item.view.contiguous and item.dtype == "float32"
    return plain and not work.softmax and not work.inner


def score_kernel(problem: Problem, work: Selection) -> KernelText:
    """Returns the kernel that computes all scores: of elements, of maxima, or of softmaxes, a block for each row."""
    index, total = place_type(problem), work.rows * work.length
    writer = ScalarLines(("r", "j", "c") if work.inner else ("r", "j"), held={})
    result = writer.write(work.scores)
    lines = "".join(f"        {line}\n" for line in writer.lines)
    if work.softmax:
        grid, body = work.rows, softmax_body(index, lines, result)
    elif work.inner:
        grid = -(-total * LANES // SCORE_THREADS)
        body = f"""\
    const {index} q = ({index}(blockIdx.x) * {SCORE_THREADS} + threadIdx.x) / {LANES}, live = q < {total};
    const {index} r = (live ? q : 0) / {work.length}, j = (live ? q : 0) % {work.length};
    float top = -kw::inf();
#pragma unroll 8
    for (int c = threadIdx.x % {LANES}; c < {work.inner}; c += {LANES}) {{
{lines}        top = kw::maximum(top, {result});
    }}
    top = kw::fold<{LANES}>(top, kw::Max());
    if (live && threadIdx.x % {LANES} == 0) scores[q] = top;"""
    else:
        grid = -(-total // SCORE_THREADS)
        body = f"""\
    const {index} q = {index}(blockIdx.x) * {SCORE_THREADS} + threadIdx.x;
    if (q < {total}) {{
        const {index} r = q / {work.length}, j = q % {work.length};
{lines}        scores[q] = {result};
    }}"""
    return KernelText(
        symbol="kw_scores", tensors=tuple(inputs(problem, (work.scores,))), body=body, grid=(grid, 1, 1),
        threads=SCORE_THREADS, scratch=(("scores", "float"),),
    )  # fmt: skip


def softmax_body(index: str, lines: str, result: str) -> str:
    """Returns the statements that store the softmax of one row; each thread goes over its own elements again."""
    fold = f"kw::fold<{SCORE_THREADS}>"
    each = f"for (int j = threadIdx.x; j < LENGTH; j += {SCORE_THREADS})"
    return f"""\
    const {index} r = blockIdx.x;
    float* row = scores + r * LENGTH;
    float top = -kw::inf(), sum = 0.0f;
    {each} {{
{lines}        const float score = {result};
        row[j] = score;
        top = kw::maximum(top, score);
    }}
    top = {fold}(top, kw::Max());
    {each} sum += row[j] = kw::exp(row[j] - top);
    sum = {fold}(sum, kw::Sum());
    {each} row[j] = row[j] / sum;"""


def selecting(problem: Problem, work: Selection, threads: int) -> str:
    """Returns the statements for one row: selection, what is made of it, outputs."""
    index = place_type(problem)
    scores = pointer(work.scores.view.base) if direct(work) and isinstance(work.scores, Leaf) else "scores"
    lines = [
        f"const {index} r = blockIdx.x;",
        "__shared__ float values[COUNT];",
        "__shared__ int places[COUNT];",
        f"select_row({scores} + r * LENGTH, values, places);",
    ]
    held = {work.core: "values[j]"}
    for made in work.made:
        lines += make(made, held, threads)
    for output in work.outputs:
        lines += write(output, held, index)
    return "\n".join("    " + line for line in lines)


def each(lines: list[str]) -> list[str]:
    """Returns the loop of a thread over its results."""
    return ["for (int j = threadIdx.x; j < COUNT; j += THREADS) {", *("    " + line for line in lines), "}"]


def make(made: Made, held: dict[str, str], threads: int) -> list[str]:
    """Returns the statements that make one thing of a row's results, and notes how it is read."""
    name = f"made_{made.name}"
    held[made.name] = f"{name}[j]"
    if made.of is None:
        assert made.table is not None
        place = f"r * {made.table.shape[-1]} + places[j]"
        return [f"__shared__ float {name}[COUNT];",
                *each([f"{name}[j] = kw::value({pointer(made.table.name)}[{place}]);"])]  # fmt: skip
    writer = ScalarLines(("r", "j"), held={key: text for key, text in held.items() if key != made.name})
    result = writer.write(made.of)
    fold = f"kw::fold<{threads}>"
    if made.kind == "sum":
        held[made.name] = f"{name}_sum"
        return [f"float {name} = 0.0f;", *each([*writer.lines, f"{name} += {result};"]),
                f"const float {name}_sum = {fold}({name}, kw::Sum());"]  # fmt: skip
    # Every thread reads only what it has written itself.
    return [
        f"__shared__ float {name}[COUNT];",
        f"float {name}_top = -kw::inf(), {name}_sum = 0.0f;",
        *each([*writer.lines, f"{name}[j] = {result};", f"{name}_top = kw::maximum({name}_top, {name}[j]);"]),
        f"{name}_top = {fold}({name}_top, kw::Max());",
        *each([f"{name}_sum += {name}[j] = kw::exp({name}[j] - {name}_top);"]),
        f"{name}_sum = {fold}({name}_sum, kw::Sum());",
        *each([f"{name}[j] = {name}[j] / {name}_sum;"]),
    ]


def write(output: Output, held: dict[str, str], index: str) -> list[str]:
    """Returns the statements that write one output of a row."""
    to, ctype = pointer(output.out.name), BUFFERS[output.out.dtype]
    if output.table is not None:
        width = output.width
        own = f"r * {output.height * width} + " if output.height else ""
        return [
            f"for (int i = threadIdx.x; i < COUNT * {width}; i += THREADS)",
            f"    {to}[r * (COUNT * {width}) + i] = "
            f"{pointer(output.table.name)}[{own}{index}(places[i / {width}]) * {width} + i % {width}];",
        ]
    if output.expression is None:
        return each([f"{to}[r * COUNT + j] = {ctype}(places[j]);"])
    writer = ScalarLines(("r", "j"), held=held)
    result = writer.write(output.expression)
    return each([*writer.lines, f"{to}[r * COUNT + j] = kw::to<{ctype}>({result});"])
