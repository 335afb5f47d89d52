"""Problems and CUDA kernels for tests on a real device: right ones, slowed ones, and one for each fault of a device.

Sources have the launch lines of device_file.py; `candidate` makes candidates of them. benchmarks/device_bringup.py and
benchmarks/gpu_judge.py use them too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from kernelwright import languages
from kernelwright.languages import device_file
from kernelwright.types import (
    Artifact,
    Axis,
    Binding,
    Candidate,
    Failure,
    Launch,
    LaunchPlan,
    Problem,
    SourceFile,
    Step,
    TensorSpec,
    Workload,
    digest,
    replace,
)

REDUCE = """
__device__ float block_reduce(float v, bool largest) {
  __shared__ float warps[32];
  for (int step = 16; step; step /= 2) {
    float other = __shfl_xor_sync(~0u, v, step);
    v = largest ? (other > v || other != other ? other : v) : v + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = warps[0];
  for (int i = 1; i < blockDim.x / 32; ++i)
    v = largest ? (warps[i] > v || warps[i] != warps[i] ? warps[i] : v) : v + warps[i];
  return v;
}
"""


def spec_problem(
    name: str, body: str, shapes: dict[str, tuple[int, ...]], out: tuple[int, ...], flops: int | None = None
) -> Problem:
    """Returns a problem whose float32 inputs are standard normal numbers."""
    arguments = ", ".join(shapes)
    draws = ", ".join(f"torch.randn({', '.join(map(str, shape))})" for shape in shapes.values())
    text = (
        "import torch\nclass Model(torch.nn.Module):\n"
        f"    def forward(self, {arguments}):\n        return {body}\n"
        f"def get_inputs():\n    return [{draws}]\n"
    )
    size = 4
    for extent in out:
        size *= extent
    return Problem(
        name=name,
        inputs=tuple(TensorSpec(name=n, shape=s, dtype="float32", role="input") for n, s in shapes.items()),
        parameters=(),
        outputs=(TensorSpec(name="out", shape=out, dtype="float32", role="output"),),
        reference=(SourceFile(path=f"{name}.py", text=text),),
        entry="Model",
        workloads=(Workload(name="given", generator="source"),),
        flops=flops,
        min_bytes=2 * size,
    )


def softmax(rows: int = 1024, columns: int = 1024) -> Problem:
    return spec_problem("softmax", "torch.softmax(x, dim=-1)", {"x": (rows, columns)}, (rows, columns))


def vector_add(count: int = 1 << 20) -> Problem:
    return spec_problem("vector_add", "x + y", {"x": (count,), "y": (count,)}, (count,))


def matmul(size: int = 2048) -> Problem:
    return spec_problem("matmul", "x @ y", {"x": (size, size), "y": (size, size)}, (size, size), flops=2 * size**3)


def candidate(problem: Problem, text: str) -> Candidate:
    """Returns the candidate of a CUDA source."""
    source = SourceFile(path="kernel.cu", text=text)
    plan, options = device_file.plan_of(source, problem)
    return Candidate(problem=digest(problem), language="cuda", sources=(source,), plan=plan, options=options)


def add_kernel(
    count: int, *, block: int = 256, before: str = "", extra: str = "", line: str = "", head: str = ""
) -> str:
    """Returns a right vector addition with something added to its body, and more on its launch line."""
    grid = -(-count // block)
    return f"""{head}// kernelwright-launch: add grid={grid} block={block} {line}
{extra}
extern "C" __global__ void add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {before}
  if (i < {count}) out[i] = x[i] + y[i];
}}
"""


def add_vectors(count: int) -> str:
    """Returns a right vector addition with 16-byte accesses; count is a multiple of 1024."""
    return f"""// kernelwright-launch: add grid={count // 1024} block=256
extern "C" __global__ void add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out) {{
  int i = blockIdx.x * 256 + threadIdx.x;
  float4 a = reinterpret_cast<const float4*>(x)[i], b = reinterpret_cast<const float4*>(y)[i];
  reinterpret_cast<float4*>(out)[i] = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}}
"""


def dynamic_add(count: int = 1 << 20) -> Problem:
    """Returns a vector addition whose length may vary."""
    places = (("x", 0), ("y", 0), ("out", 0))
    return replace(vector_add(count), axes=(Axis(name="n", size=count, low=1, high=4 * count, places=places),))


def dynamic_kernel(bound: str = "n") -> str:
    """Returns an addition for every length; `bound` is what an index is compared with: `n`, or a mistake."""
    return f"""// kernelwright-launch: add grid=(n+255)//256 block=256
extern "C" __global__ void add(const float* x, const float* y, float* out, long long n) {{
  long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < {bound}) out[i] = x[i] + y[i];
}}
"""


def softmax_kernel(rows: int, columns: int, *, block: int = 256, before: str = "", line: str = "") -> str:
    """Returns a right softmax, one block for each row, held in registers; columns is a multiple of 4 * block."""
    each = columns // (4 * block)
    return f"""// kernelwright-launch: softmax grid={rows} block={block} {line}
{REDUCE}
extern "C" __global__ void __launch_bounds__({block}) softmax(const float* __restrict__ x, float* __restrict__ out) {{
  {before}
  const float4* from = reinterpret_cast<const float4*>(x + (size_t)blockIdx.x * {columns});
  float4* to = reinterpret_cast<float4*>(out + (size_t)blockIdx.x * {columns});
  float4 v[{each}];
  float m = -__int_as_float(0x7f800000);
#pragma unroll
  for (int k = 0; k < {each}; ++k) {{
    v[k] = from[threadIdx.x + k * {block}];
    const float p[4] = {{v[k].x, v[k].y, v[k].z, v[k].w}};
    for (int j = 0; j < 4; ++j) m = p[j] > m || p[j] != p[j] ? p[j] : m;
  }}
  m = block_reduce(m, true);
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < {each}; ++k) {{
    v[k] = make_float4(expf(v[k].x - m), expf(v[k].y - m), expf(v[k].z - m), expf(v[k].w - m));
    sum += v[k].x + v[k].y + v[k].z + v[k].w;
  }}
  sum = block_reduce(sum, false);
#pragma unroll
  for (int k = 0; k < {each}; ++k)
    to[threadIdx.x + k * {block}] = make_float4(v[k].x / sum, v[k].y / sum, v[k].z / sum, v[k].w / sum);
}}
"""


def delayed(rounds: int) -> str:
    """Returns a statement that keeps every thread busy for a time proportional to `rounds`, and changes nothing."""
    return (
        f"{{ float held = x[0]; for (int n = 0; n < {rounds}; ++n) held = fmaf(held, 0.999f, 1e-3f); "
        "if (held == 123.456f) out[0] = held; }"
    )


def programmatic_pair(count: int) -> str:
    """Returns two kernels, of which the second may start before the first has ended and waits for its result."""
    return f"""// kernelwright-workspace: half float {count}
// kernelwright-launch: first grid={count // 256} block=256
// kernelwright-launch: second grid={count // 256} block=256 programmatic
extern "C" __global__ void first(const float* x, float* half) {{
  asm volatile("griddepcontrol.launch_dependents;");
  int i = blockIdx.x * 256 + threadIdx.x;
  half[i] = 0.5f * x[i];
}}
extern "C" __global__ void second(const float* x, const float* y, const float* half, float* out) {{
  int i = blockIdx.x * 256 + threadIdx.x;
  float a = y[i];
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[i] = 2.0f * half[i] + a;
}}
"""


def tensor_map_copy(rows: int, columns: int) -> str:
    """Returns a softmax-free check of tensor maps: doubles what a TMA load brought, 64 x 32 floats a block."""
    described = f"of=x dtype=float32 shape={columns},{rows} strides={4 * columns} box=32,64"
    return f"""// kernelwright-tensor-map: x_map {described}
// kernelwright-launch: twice grid={columns // 32},{rows // 64} block=128
extern "C" __global__ void twice(const __grid_constant__ CUtensorMap x_map, float* __restrict__ out) {{
  __shared__ alignas(128) float tile[64 * 32];
  __shared__ alignas(8) unsigned long long bar;
  unsigned at = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(64 * 32 * 4) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {{%2, %3}}], [%4];"
      :: "r"(to), "l"(&x_map), "r"((int)blockIdx.x * 32), "r"((int)blockIdx.y * 64), "r"(at) : "memory");
  }}
  __syncthreads();
  unsigned done = 0;
  while (!done)
    asm volatile("{{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}}"
      : "=r"(done) : "r"(at) : "memory");
  for (int i = threadIdx.x; i < 64 * 32; i += 128)
    out[(size_t)(blockIdx.y * 64 + i / 32) * {columns} + blockIdx.x * 32 + i % 32] = 2.0f * tile[i];
}}
"""


def double(rows: int = 1024, columns: int = 1024) -> Problem:
    return spec_problem("double", "x + x", {"x": (rows, columns)}, (rows, columns))


def library_matmul(problem: Problem) -> Candidate:
    """Returns a candidate of one library call."""
    arguments = tuple(Binding(kind="tensor", name=name, ctype="float") for name in ("x", "y", "out"))
    step = Step(symbol="matmul", arguments=arguments, kind="library")
    return Candidate(problem=digest(problem), language="library", sources=(), plan=LaunchPlan(steps=(step,)))


HUGE = "".join(
    f"// kernelwright-workspace: huge{n} float {1 << 32}\n// kernelwright-memset: huge{n} byte=0\n" for n in range(4)
)
"""64 GiB of workspaces."""
DEEP = """__device__ __noinline__ float deep(const float* x, int n) {
  volatile float kept[64];
  kept[n % 64] = x[n % 64];
  return n ? deep(x, n - 1) + kept[n % 64] : kept[0];
}"""
FAULTS: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "illegal address": ("out[(size_t)1 << 42] = 1.0f;", {}, ("run: memory",)),
    "null pointer": ("*(volatile float*)nullptr = 1.0f;", {}, ("run: memory",)),
    "illegal read": ("if (((volatile float*)0x123456789000ull)[i] == 1.0f) return;", {}, ("run: memory",)),
    "misaligned access": ("*(volatile double*)((char*)out + 4) = 1.0;", {}, ("run: misaligned",)),
    "misaligned vector": (
        "*(int4*)((char*)out + 8 + 16 * i) = make_int4(i, i, i, i);",
        {},
        ("run: misaligned", "run: memory"),
    ),
    "trap": ('asm volatile("trap;");', {}, ("run: trap",)),
    "assertion": ('if (x[0] == x[0]) { asm volatile("trap;"); }', {}, ("run: trap",)),
    "infinite loop": ("while (((volatile float*)out)[0] != 12345.678f || true) { }", {}, ("run: timeout",)),
    "one thread never ends": ("if (i == 7) while (*(volatile int*)out != 77777) { }", {}, ("run: timeout",)),
    "barrier nobody reaches": (
        'if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");',
        {},
        ("run: timeout", "run: trap", "passed"),
    ),
    "stack overflow": (
        "if (x[0] > -1e30f) out[i] = deep(x, 1 << 20);",
        {"extra": DEEP},
        ("run: stack", "run: memory", "run: trap", "inspect: ", "build: ", "plan: ", "load: "),
    ),
    "shared memory beyond the end": (
        "extern __shared__ float pool[]; pool[i + (1 << 24)] = 1.0f;",
        {},
        # Which exception the device names is the device's choice: it has said "illegal instruction".
        ("run: memory", "run: trap", "check: guards"),
    ),
    "too many threads": ("", {"line": "", "block": "2048"}, ("plan: ",)),
    "oversize shared memory": ("", {"line": "shared=300000"}, ("plan: ", "run: ")),
    "bad cluster": ("", {"line": "cluster=3"}, ("plan: ", "run: ")),
    "cluster too large": ("", {"line": "cluster=32"}, ("plan: ", "run: ")),
    "cooperative grid too large": ("", {"line": "cooperative shared=200000"}, ("plan: ", "run: resources")),
    "out of memory": ("", {"head": HUGE}, ("run: memory",)),
    "write to the guard": ("if (i == 0) out[SIZE] = 1.0f;", {}, ("check: guards",)),
    "write before the output": ("if (i == 0) out[-1] = 1.0f;", {}, ("check: guards",)),
    "write to an input": ("if (i == 0) const_cast<float*>(x)[5] = 3.0f;", {}, ("check: inputs unchanged",)),
}
"""name: (what the body does first, arguments of `add_kernel`, outcomes of which any will do).

An outcome is `stage: kind`, `check: name` or `passed`; its beginning suffices.
"""
ARTIFACT_FAULTS: dict[str, tuple[str, ...]] = {
    "wrong architecture": ("load: architecture", "load: image"),
    "not a cubin": ("load: image",),
    "half a cubin": ("load: image",),
    "kernel that is not there": ("load: symbol",),
    "other parameters": ("load: parameters",),
}
"""Faults that no builder lets through: they are made in the artifact or the plan after the build (`Altering`)."""


class Altering:
    """A builder whose artifacts are spoiled, to see what the device makes of them."""

    def __init__(self, builder: languages.Builder, name: str, folder: Path) -> None:
        self._builder, self._name, self._folder = builder, name, folder

    def build(self, problem: Problem, candidates: Sequence[Candidate]) -> tuple[Artifact | Failure, ...]:
        if self._name == "wrong architecture":
            with languages.Builder(languages.cuda_target("sm_80"), workers=1) as other:
                return other.build(problem, candidates)
        return tuple(self._spoil(made) for made in self._builder.build(problem, candidates))

    def _spoil(self, made: Artifact | Failure) -> Artifact | Failure:
        if isinstance(made, Failure) or self._name not in ("not a cubin", "half a cubin"):
            return made
        data = Path(made.path).read_bytes()
        data = b"this is no cubin" * 64 if self._name == "not a cubin" else data[: len(data) // 2]
        path = self._folder / "spoiled.cubin"
        path.write_bytes(data)
        return replace(made, path=str(path), blob=f"sha256:{hashlib.sha256(data).hexdigest()}")

    def close(self) -> None:
        self._builder.close()


def misplanned(made: Artifact, name: str) -> Artifact:
    """Returns an artifact whose plan calls a kernel that is not there, or gives it one argument too few."""
    step = made.plan.steps[0]
    if name == "kernel that is not there":
        step = replace(step, symbol="nothing")
    elif name == "other parameters":
        step = replace(step, arguments=step.arguments[:2] + step.arguments[3:])
    return replace(made, plan=replace(made.plan, steps=(step,)))


def faulty(name: str, count: int) -> str:
    """Returns the source of one of FAULTS."""
    body, arguments, _ = FAULTS[name]
    block = int(arguments.get("block", "256"))
    return add_kernel(
        count,
        block=block,
        before=body.replace("SIZE", str(count)),
        extra=arguments.get("extra", ""),
        line=arguments.get("line", ""),
        head=arguments.get("head", ""),
    )


def with_grid(made: Candidate, blocks: int) -> Candidate:
    """Returns a candidate whose only launch has another grid."""
    step = made.plan.steps[0]
    assert isinstance(step.launch, Launch)
    launch = replace(step.launch, grid=(blocks, 1, 1))
    return replace(made, plan=replace(made.plan, steps=(replace(step, launch=launch),)))
