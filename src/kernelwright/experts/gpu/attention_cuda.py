"""Attention in CUDA C++: constants, places and masks around attention.cuh.

Not here: which graphs are attention (experts/attention.py), the products and the softmax (attention.cuh).
"""

from __future__ import annotations

from kernelwright.experts.attention_code import Attention
from kernelwright.experts.chain import Unsupported
from kernelwright.experts.gpu.chain_printer import ScalarLines
from kernelwright.experts.gpu.printer import BUFFERS
from kernelwright.experts.gpu.source import KernelText, candidate, constants, place_type
from kernelwright.experts.kernel import pointer, space
from kernelwright.experts.views import View
from kernelwright.types import Candidate, Failure, Point, Problem, Space, TensorSpec, Workspace

SHARED_BYTES = 227 << 10
"""What a block may have on sm_90; plans for devices with less are refused where they are checked."""
LOOKERS = 264
"""Blocks that look for infinities and NaN: two for each multiprocessor of an H200."""
LOOKING_THREADS = 256


def space_of(work: Attention, dtype: str) -> Space:
    """Returns the schedules: warps of 16 queries in a block, keys in a tile, how float32 is multiplied."""
    warps = tuple(n for n in (4, 2, 8, 1) if 16 * n < 2 * work.queries) or (1,)
    keys = tuple(n for n in (64, 32, 128, 16) if n < 2 * work.keys) or (16,)
    products = ("split", "fma") if dtype == "float32" else ("halves",)
    return space(warps=warps, keys=keys, product=products)


def emit(problem: Problem, work: Attention, dtype: str, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    choice = dict(point)
    warps, keys = int(choice["warps"]), int(choice["keys"])
    size = 4 if dtype == "float32" else 2
    spare = 16 // size
    deep, wide = up(work.depth), up(work.width) if work.v is not None else 0
    shared = size * (16 * warps * (deep + spare) + 2 * keys * (deep + spare + (wide + spare if wide else 0)))
    if shared > SHARED_BYTES:
        return Failure(stage="emit", kind="memory", message=f"{shared} bytes of shared memory")
    try:
        body = kernel_body(problem, work)
    except Unsupported as reason:
        return Failure(stage="emit", kind="unsupported", message=str(reason))
    helpers = f"using Element = {BUFFERS[dtype]};\n" + constants(
        WARPS=warps, BN=keys, QUERIES=work.queries, KEYS=work.keys, DEPTH=work.depth, DP=deep,
        WIDTH=max(work.width, 1), WP=max(wide, 16), Q_STEP=stride(work.q, 2), K_STEP=stride(work.k, 1),
        Q_COPY=copies(work.q, 2, spare), K_COPY=copies(work.k, 1, spare),
        V_COPY=work.v is not None and copies(work.v, 2, spare),
        WEIGHTS=work.weights_out is not None, VALUES=work.v is not None, PAIRS=pairs(work), GUARDED=work.guarded,
        HORIZON=work.horizon or 0, HAS_HORIZON=work.horizon is not None, SCALE=f"{work.scale!r}f",
        PLAIN=choice["product"] == "fma", LOOKERS=LOOKERS,
    )  # fmt: skip
    looked = looked_at(problem, work)
    tensors = (*inputs(problem, work), *work.outs)
    blocks = -(-work.queries // (16 * warps))
    scratch = (("strange", "int32_t"),) if looked else ()
    kernels = [
        KernelText(
            symbol="kw_attention", tensors=tensors, body=body, grid=(blocks, work.heads, 1), threads=32 * warps,
            scratch=scratch, shared_bytes=shared,
        )
    ]  # fmt: skip
    if looked:
        kernels.insert(0, looking(looked))
    held = (Workspace(name="strange", size_bytes=4 * LOOKERS),) if looked else ()
    return candidate(
        problem, template="cuda-attention", point=point, helpers=helpers, kernels=tuple(kernels), workspaces=held,
        header="attention.cuh",
    )  # fmt: skip


def up(count: int) -> int:
    """Returns the next multiple of 16."""
    return -(-count // 16) * 16


def stride(view: View, dim: int) -> int:
    """Returns the distance of neighbours along a dimension."""
    return view.dims[dim][0][1] if view.dims[dim] else 1


def copies(view: View, along: int, count: int) -> bool:
    """Says whether pieces of `count` elements along a dimension start at multiples of their size."""
    others = [step for dim, factors in enumerate(view.dims) if dim != along for _, step in factors]
    whole = all(n % count == 0 for n in (view.start, view.shape[along], *others))
    return whole and stride(view, along) == 1


def pairs(work: Attention) -> bool:
    """Says whether two neighbouring results may be stored at once."""
    return all(copies(out, 2, 2) for out in (work.weights_out, work.values_out) if out is not None)


def inputs(problem: Problem, work: Attention) -> tuple[TensorSpec, ...]:
    """Returns q, k, v and the masks, each once."""
    views = [view.base for view in (work.q, work.k, work.v) if view is not None]
    held = {spec.name: spec for spec in problem.inputs + problem.parameters}
    return tuple(held[name] for name in dict.fromkeys([*views, *(mask.name for mask in work.masks)]))


def looked_at(problem: Problem, work: Attention) -> tuple[TensorSpec, ...]:
    """Returns the tensors whose infinities and NaN show although a horizon hides them."""
    if work.horizon is None:
        return ()
    views = (work.v,) if work.sheltered else (work.q, work.k, work.v)
    names = {view.base for view in views if view is not None}
    return tuple(spec for spec in inputs(problem, work) if spec.name in names)


def looking(tensors: tuple[TensorSpec, ...]) -> KernelText:
    """Returns the kernel that leaves a flag for each of its blocks."""
    counts = [f"any_strange({pointer(spec.name)}, {count_of(spec)})" for spec in tensors]
    body = f"    const int found = __syncthreads_or({' | '.join(counts)});\n"
    body += "    if (threadIdx.x == 0) strange[blockIdx.x] = found;"
    return KernelText(
        symbol="kw_look", tensors=tensors, body=body, grid=(LOOKERS, 1, 1),
        threads=LOOKING_THREADS, scratch=(("strange", "int32_t"),),
    )  # fmt: skip


def count_of(spec: TensorSpec) -> int:
    """Returns a tensor's elements."""
    count = 1
    for n in spec.shape:
        count *= n
    return count


def kernel_body(problem: Problem, work: Attention) -> str:
    """Returns the statements that name places, masks and results, and call `attention`."""
    index, names = place_type(problem), ("head", "query", "key")
    score = ScalarLines(names, held={work.core: "core"})
    result = score.write(work.score)
    lines = "".join(f"        {line}\n" for line in score.lines)
    looks = "false"
    head = f"    const {index} head = blockIdx.y;\n"
    if looked_at(problem, work):
        head += "    bool seen = false;\n"
        head += "    for (int i = threadIdx.x; i < LOOKERS; i += THREADS) seen |= strange[i] != 0;\n"
        looks = "__syncthreads_or(seen) != 0"
    values = pointer(work.v.base) if work.v is not None else "nullptr"
    v_place = work.v.offset(("head", "key", "")) if work.v is not None else "0"
    return f"""{head}    const bool whole = {looks};
    attention(
        {pointer(work.q.base)}, {pointer(work.k.base)}, static_cast<const Element*>({values}), whole,
        [&]({index} query) {{ return {work.q.offset(("head", "query", ""))}; }},
        [&]({index} key) {{ return {work.k.offset(("head", "", "key"))}; }},
        [&]({index} key) {{ return {v_place}; }},
        [&]({index} query, {index} key, float core) -> float {{
{lines}        return {result};
        }},
        [&]({index} query, {index} key, float x, float y) {{ {put(work.weights_out, names, "KEYS - key")} }},
        [&]({index} query, {index} key, float x, float y) {{ {put(work.values_out, names, "WIDTH - key")} }});
"""


def put(out: View | None, names: tuple[str, ...], left: str) -> str:
    """Returns the statement that stores two neighbouring results; `key` is the place along a row."""
    return "" if out is None else f"put({pointer(out.base)} + {out.offset(names)}, x, y, int({left}));"
