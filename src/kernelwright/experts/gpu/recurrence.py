"""Expert for what of an LSTM or GRU has to follow step by step, in one kernel for a layer and both its directions.

A cluster of blocks holds the recurrent weights in its registers, each block those of some hidden units, for all steps;
the hidden state lies in every block's shared memory, twice, and who has a new element writes it to all blocks of the
cluster. So a step costs one barrier of the cluster and no memory but the gates that the inputs gave. Clusters share
nothing: each has some rows of the batch and one direction. (After persistent RNNs: Diamos et al., "Persistent RNNs:
Stashing Recurrent Weights On-Chip", 2016, there with a barrier of the whole device.)

**Covers**: float32, hidden sizes whose weights fit (256 for an LSTM, in a cluster of eight). **Does not cover**: larger
ones, half types, devices before compute capability 9.0 beyond what one block holds.
"""

from __future__ import annotations

from functools import partial

from kernelwright.experts.gpu.source import KernelText, candidate, constants, place_type
from kernelwright.experts.kernel import pointer, space
from kernelwright.experts.protocol import Answer
from kernelwright.graph import Graph, Node, Ref
from kernelwright.types import Candidate, Failure, Point, Problem, Refusal, Space, Target, Template, TensorSpec

GATES = {"kernelwright.lstm.default": 4, "kernelwright.gru.default": 3}
CLUSTERS, PARTS = (8, 4, 2, 1), (1, 2, 4, 8, 16, 32)
MOST_THREADS, MOST_WEIGHTS = 512, 64
"""Of a block and of a thread: with what a step needs besides, they fill the registers of a multiprocessor."""
HELPERS = """\
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ __forceinline__ void everywhere(float* place, float item) {
#if KW_CLUSTER > 1
    const unsigned address = unsigned(__cvta_generic_to_shared(place));
#pragma unroll
    for (unsigned peer = 0; peer < KW_CLUSTER; ++peer)
        asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; st.shared::cluster.f32 [there], %2; }"
                     :: "r"(address), "r"(peer), "f"(item) : "memory");
#else
    *place = item;
#endif
}

__device__ __forceinline__ void all_here() {
#if KW_CLUSTER > 1
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}"""
LSTM = """\
            const float kept = sigmoid(x[1] + found[UNITS]), made = tanhf(x[2] + found[2 * UNITS]);
            cell = kept * cell + sigmoid(x[0] + found[0]) * made;
            hidden = sigmoid(x[3] + found[3 * UNITS]) * tanhf(cell);"""
GRU = """\
            const float z = sigmoid(x[1] + found[UNITS]), r = sigmoid(x[0] + found[0]);
            const float made = tanhf(x[2] + r * found[2 * UNITS]);
            hidden = made + z * (hidden - made);"""


def propose(problem: Problem, graph: Graph, target: Target) -> Answer:
    """Returns a template for a graph of one recurrence; None for any other."""
    if len(graph.nodes) != 1 or graph.nodes[0].op not in GATES:
        return None
    (node,) = graph.nodes
    points = splits(hidden_of(node), GATES[node.op], clusters=int(target.architecture[3:].rstrip("af")) >= 90)
    if not points or any(spec.dtype != "float32" for spec in problem.arguments):
        return Refusal(subject=node.op, reason=f"no expert for {node.op} of {hidden_of(node)} hidden units")
    rows = tuple(n for n in (1, 2, 4) if n == 1 or n <= batch_of(node))
    choices: Space = space(split=points, rows=rows)
    return Template(name="cuda-recurrence", space=choices, emit=partial(emit, problem, graph))


def hidden_of(node: Node) -> int:
    """Returns the hidden units of one direction."""
    assert node.results[1] is not None
    return node.results[1].shape[2]


def batch_of(node: Node) -> int:
    """Returns the sequences."""
    assert node.results[1] is not None
    return node.results[1].shape[1]


def splits(hidden: int, gates: int, *, clusters: bool) -> tuple[str, ...]:
    """Returns blocks of a cluster and threads of a row that fit, as `8x4`, the largest clusters first."""
    return tuple(
        f"{blocks}x{parts}"
        for blocks in (CLUSTERS if clusters else (1,))
        for parts in PARTS
        if hidden % blocks == 0
        and hidden % (4 * parts) == 0
        and hidden // parts <= MOST_WEIGHTS
        and gates * hidden // blocks * parts <= MOST_THREADS
    )


def emit(problem: Problem, graph: Graph, point: Point) -> Candidate | Failure:
    """Returns the candidate of one schedule."""
    (node,) = graph.nodes
    choice = dict(point)
    blocks, parts = map(int, str(choice["split"]).split("x"))
    gates, hidden, batch, rows = GATES[node.op], hidden_of(node), batch_of(node), int(choice["rows"])
    live = gates * hidden // blocks * parts
    threads = -(-live // 32) * 32
    if rows * hidden // blocks > threads:
        return Failure(stage="emit", kind="unsupported", message=f"{rows} rows are more than {threads} threads finish")
    assert node.results[0] is not None
    first, second, _ = node.results[0].shape
    ways = len(names(node, "gates"))
    helpers = f"#define KW_CLUSTER {blocks}\n" + constants(
        HIDDEN=hidden, GATES=gates, UNITS=hidden // blocks, ROWS=gates * hidden // blocks, PARTS=parts, BATCH=batch,
        STEPS=first * second // batch, WAYS=ways, LAYER=int(str(node.argument("layer"))), AT_ONCE=rows,
        THREADS=threads, OWN=hidden // parts,
    )  # fmt: skip
    specs = {spec.name: spec for spec in (*problem.inputs, *problem.outputs)}
    taken = [*(n for name in ("gates", "states", "weights", "biases") for n in names(node, name))]
    kernel = KernelText(
        symbol="kw_steps",
        tensors=tuple(dict.fromkeys((*(specs[name] for name in taken), *problem.outputs))),
        body=kernel_body(problem, graph, place_type(problem)),
        grid=(ways * -(-batch // rows) * blocks, 1, 1),
        threads=threads,
        cluster=blocks,
    )
    text = f"{helpers}\n\n{HELPERS}"
    return candidate(problem, template="cuda-recurrence", point=point, helpers=text, kernels=(kernel,))


def names(node: Node, argument: str) -> list[str]:
    """Returns the names of an argument's tensors."""
    given = node.argument(argument)
    assert isinstance(given, tuple)
    return [item.name for item in given if isinstance(item, Ref)]


def weights_in_registers(weights: str, bias: str) -> str:
    """Returns the statements that find a thread's place and take its weights."""
    return f"""\
    __shared__ alignas(16) float state[2][AT_ONCE * HIDDEN];
    __shared__ float sums[AT_ONCE][ROWS];
    constexpr int GROUPS = (BATCH + AT_ONCE - 1) / AT_ONCE;
    const int rank = int(blockIdx.x) % KW_CLUSTER, group = int(blockIdx.x) / KW_CLUSTER;
    const int first = group % GROUPS * AT_ONCE, way = group / GROUPS, thread = int(threadIdx.x);
    const int row = thread / PARTS < ROWS ? thread / PARTS : ROWS - 1, part = thread % PARTS;
    const int gate = row / UNITS, unit = rank * UNITS + row % UNITS;
    const float* weight = {weights} + (gate * HIDDEN + unit) * HIDDEN;
    const float bias = {bias};
    float held[OWN];
#pragma unroll
    for (int j = 0; j < OWN / 4; ++j) {{
        const auto some = kw::load<4>(weight + (j * PARTS + part) * 4);
#pragma unroll
        for (int v = 0; v < 4; ++v) held[4 * j + v] = some[v];
    }}"""


def kernel_body(problem: Problem, graph: Graph, index: str) -> str:
    """Returns the kernel's statements."""
    (node,) = graph.nodes

    def chosen(argument: str) -> str:
        both = [pointer(name) for name in names(node, argument)]
        return both[0] if len(both) == 1 else f"(way ? {both[1]} : {both[0]})"

    lstm, states = node.op == "kernelwright.lstm.default", [pointer(name) for name in names(node, "states")]
    bias = f"{chosen('biases')}[gate * HIDDEN + unit]" if names(node, "biases") else "0.0f"
    row = "n * STEPS + t" if node.argument("batch_first") else "t * BATCH + n"
    outputs: dict[int, TensorSpec] = {ref.index: spec for ref, spec in zip(graph.outputs, problem.outputs, strict=True)}
    stored = {index: pointer(spec.name) for index, spec in outputs.items()}
    out = f"            {stored[0]}[(({row}) * WAYS + way) * HIDDEN + own] = hidden;\n" if 0 in stored else ""
    last = "".join(
        f"    if (mine) {stored[place]}[(way * BATCH + n) * HIDDEN + own] = {item};\n"
        for place, item in ((1, "hidden"), (2, "cell"))
        if place in stored
    )
    cell = f"mine ? {states[1]}[at] : 0.0f" if lstm else "0.0f"
    return f"""\
{weights_in_registers(chosen("weights"), bias)}
    const {index} before = {index}(LAYER * WAYS + way) * BATCH;
    for (int i = thread; i < AT_ONCE * HIDDEN; i += THREADS)
        state[0][i] = first + i / HIDDEN < BATCH ? {states[0]}[(before + first) * HIDDEN + i] : 0.0f;
    const {index} n = first + thread / UNITS, own = rank * UNITS + thread % UNITS;
    const bool mine = thread < AT_ONCE * UNITS && n < BATCH;
    const {index} at = (before + n) * HIDDEN + own;
    float cell = {cell}, hidden = mine ? {states[0]}[at] : 0.0f;
    all_here();
    for (int s = 0; s < STEPS; ++s) {{
        const {index} t = way ? STEPS - 1 - s : s;
        float x[GATES];
#pragma unroll
        for (int g = 0; g < GATES; ++g)
            x[g] = mine ? {chosen("gates")}[({row}) * (GATES * HIDDEN) + g * HIDDEN + own] : 0.0f;
#pragma unroll
        for (int b = 0; b < AT_ONCE; ++b) {{
            float sum[4] = {{}};
#pragma unroll
            for (int j = 0; j < OWN / 4; ++j) {{
                const auto some = kw::load<4>(&state[s & 1][b * HIDDEN + (j * PARTS + part) * 4]);
#pragma unroll
                for (int v = 0; v < 4; ++v) sum[v] = fmaf(held[4 * j + v], some[v], sum[v]);
            }}
            float whole = (sum[0] + sum[1]) + (sum[2] + sum[3]);
#pragma unroll
            for (int far = PARTS / 2; far > 0; far /= 2) whole += __shfl_xor_sync(0xffffffffu, whole, far);
            if (part == 0 && thread / PARTS < ROWS) sums[b][row] = whole + bias;
        }}
        __syncthreads();
        if (mine) {{
            const float* found = &sums[thread / UNITS][thread % UNITS];
{LSTM if lstm else GRU}
            everywhere(&state[(s + 1) & 1][(thread / UNITS) * HIDDEN + int(own)], hidden);
{out}        }}
        all_here();
    }}
{last}"""
