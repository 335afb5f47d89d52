"""From a product and a schedule to a sealed CUDA C++ candidate: constants, one kernel's text, and the launch plan.

The device code itself lies in device/*.cuh and is read, not generated; what is printed are the constants, the wgmma of
the tile's width, and the kernels' heads. Sizes are arguments, so that one binary serves every product of a kind.
Not here: which schedules are possible (rules.py).
"""

from __future__ import annotations

import functools
from pathlib import Path

from kernelwright.experts.gemm import rules
from kernelwright.experts.gemm.product import ELEMENT_BYTES, Product, problem_of
from kernelwright.experts.gemm.schedules import Direct, Dot, Hopper, Schedule, Warps, spell
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    Launch,
    LaunchPlan,
    Size,
    SourceFile,
    Step,
    TensorMap,
    Workspace,
    digest,
)

DEVICE = Path(__file__).with_name("device")
CTYPES = {"float16": "__half", "bfloat16": "__nv_bfloat16"}
ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3, "silu": 4}
SYMBOL, ADDING = "gemm", "gemm_add_parts"
ADDING_THREADS = 256
SIZES = ("m", "n", "k", "batch")


def candidate(
    product: Product,
    schedule: Schedule,
    *,
    architecture: str = "sm_90a",
    multiprocessors: int = rules.MULTIPROCESSORS,
) -> Candidate | Failure:
    """Returns the sealed candidate of a schedule, or a failure of stage "emit" that names why there is none."""
    if why := rules.fault(schedule, product, architecture):
        return Failure(stage="emit", kind="schedule", message=f"{spell(schedule)}: {why}")
    if isinstance(schedule, Hopper) and schedule.tail > 1 and not rules.tail_tiles(schedule, product, multiprocessors):
        why = f"the last wave of {multiprocessors} multiprocessors is complete: there is no tail to share"
        return Failure(stage="emit", kind="schedule", message=f"{spell(schedule)}: {why}")
    return Candidate(
        problem=digest(problem_of(product)),
        language="cuda",
        sources=sources_of(product, schedule, architecture),
        plan=plan_of(product, schedule, multiprocessors),
        author="expert",
        template="gemm",
        point=(("schedule", spell(schedule)),),
    )


# ------------------------------------------------------------------------------ sources


def sources_of(product: Product, schedule: Schedule, architecture: str) -> tuple[SourceFile, ...]:
    """Returns the source files; equal for all products for which the same binary is right."""
    family = type(schedule).__name__.lower()
    half = "cuda_fp16.h" if product.dtype == "float16" else "cuda_bf16.h"
    text = [
        f"// {spell(schedule)}\n#include <{half}>\n#include <kernelwright_tensor.h>\n",
        f"#define KW_FLOAT16 {int(product.dtype == 'float16')}\nusing Element = {CTYPES[product.dtype]};\n",
        *(f"constexpr {line};\n" for line in _constants(product, schedule, architecture)),
        '#include "common.cuh"\n',
        wgmma(schedule.bn, product, schedule) if isinstance(schedule, Hopper) else "",
        f'#include "{family}.cuh"\n',
        _kernels(product, schedule),
    ]
    files = [SourceFile(path="gemm.cu", text="".join(text))]
    names = ("common.cuh", f"{family}.cuh", *(("tail.cuh",) if isinstance(schedule, Hopper) else ()))
    return (*files, *(SourceFile(path=name, text=_device_text(name)) for name in names))


@functools.cache
def _device_text(name: str) -> str:
    return (DEVICE / name).read_text()


def _constants(product: Product, schedule: Schedule, architecture: str) -> list[str]:
    early = schedule.early and architecture != "sm_80"
    flags = {
        "HAS_C": product.beta != 0.0, "HAS_BIAS": product.bias, "ALONG_N": schedule.along_n, "EARLY": early,
        "KN": product.layout == "kn", "PAIR": product.pair, "CURVE": schedule.curve,
    }  # fmt: skip
    numbers = {
        "ACTIVATION": ACTIVATIONS[product.activation], "SPLITS": schedule.splits, "PARTS": _parts(schedule),
        "GROUP": schedule.group, "N_STEP": rules.step_of(product.n),
    }  # fmt: skip
    lines = [f"float ALPHA = {product.alpha!r}f, BETA = {product.beta!r}f"]
    own = {Hopper: _hopper_constants, Warps: _warps_constants, Direct: _direct_constants, Dot: _dot_constants}[
        type(schedule)
    ]
    more_flags, more = own(product, schedule)  # type: ignore[operator]
    flags |= more_flags
    numbers |= more
    lines += [f"bool {name} = {str(bool(on)).lower()}" for name, on in flags.items()]
    return lines + [f"int {name} = {number}" for name, number in numbers.items()]


def _hopper_constants(product: Product, s: Hopper) -> tuple[dict[str, bool], dict[str, int]]:
    up, down = rules.REGISTERS[s.consumers]
    flags = {
        "PINGPONG": s.pingpong,
        "SWAP": s.swap,
        "BOX_STORE": s.box_store,
        "PERSISTENT": s.persistent,
        **dict(zip(("X_K", "Y_K"), _along_k(product, s), strict=True)),
    }
    numbers = {
        "BM": s.bm, "BN": s.bn, "STAGES": s.stages, "CONSUMERS": s.consumers, "CLUSTER_M": s.cluster_m,
        "CLUSTER_N": s.cluster_n, "STORE_BUFFERS": rules.store_buffers(s), "CHUNK": rules.chunk_of(s),
        "BOX_ROWS": rules.box_rows(s), "UP": up, "DOWN": down, "TAIL": s.tail,
    }  # fmt: skip
    return flags, numbers


def _warps_constants(product: Product, s: Warps) -> tuple[dict[str, bool], dict[str, int]]:
    b_side = product.n if product.layout == "kn" else product.k
    most_b = min(8, s.bn) if product.layout == "kn" else 8
    numbers = {
        "BM": s.bm, "BN": s.bn, "BK": s.bk, "STAGES": s.stages, "WARPS_M": s.warps_m, "WARPS_N": s.warps_n,
        "WARPS_K": s.warps_k, "STEP_A": rules.step_of(product.k), "STEP_B": rules.step_of(b_side, most_b),
    }  # fmt: skip
    return {}, numbers


def _direct_constants(product: Product, s: Direct) -> tuple[dict[str, bool], dict[str, int]]:
    del product
    return {}, {"BM": s.bm, "BN": s.bn, "WARPS": s.warps, "DEPTH": s.depth}


def _dot_constants(product: Product, s: Dot) -> tuple[dict[str, bool], dict[str, int]]:
    b_side = product.n if product.layout == "kn" else product.k
    numbers = {
        "ROWS": s.rows, "COLUMNS": s.columns, "WARPS": s.warps, "WARPS_K": s.warps_k,
        "STEP_A": 8 if product.k % 8 == 0 else 1, "STEP_B": 8 if b_side % 8 == 0 else 1,
    }  # fmt: skip
    return {}, numbers


def _along_k(product: Product, s: Hopper) -> tuple[bool, bool]:
    """Whether X and Y are contiguous along k in memory."""
    b = product.layout == "nk"
    return (b, True) if s.swap else (True, b)


def wgmma(columns: int, product: Product, schedule: Hopper) -> str:
    """Returns the device function of one wgmma, 64 x `columns` x 16, from two descriptors of shared memory."""
    count = columns // 2
    x_k, y_k = _along_k(product, schedule)
    kind = "f16" if product.dtype == "float16" else "bf16"
    sums = ", ".join(f"%{i}" for i in range(count))
    operands = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return (
        "#ifdef KERNELWRIGHT_EMULATED\n"
        f"KW_DEVICE void wgmma(float (&d)[{count}], uint64_t x, uint64_t y, int add) {{\n"
        "  kernelwright::wgmma(Kind{}, X_K, Y_K, d, x, y, add);\n}\n#else\n"
        f"KW_DEVICE void wgmma(float (&d)[{count}], uint64_t x, uint64_t y, int add) {{\n"
        '  asm volatile("{ .reg .pred add;\\n setp.ne.b32 add, %' + str(count + 2) + ', 0;\\n"\n'
        f'    " wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{kind}.{kind} {{{sums}}}, %{count}, %{count + 1}, '
        f'add, 1, 1, {int(not x_k)}, {int(not y_k)}; }}"\n'
        f'    : {operands} : "l"(x), "l"(y), "r"(add));\n}}\n#endif\n'
    )


def _kernels(product: Product, schedule: Schedule) -> str:
    sizes = "Sizes{m, n, k, batch}"
    whole = _ends(product, parts=_parts(schedule) > 1, storing=_parts(schedule) == 1)
    names = [b.name for b in _bindings(product, schedule)]
    heads = {
        "a": "const Element* a", "b": "const Element* b", "out": "Element* out", "bias": "const Element* bias",
        "c": "const Element* c", "parts": "float* parts", "workers": "int32_t workers",
        **{name: f"int32_t {name}" for name in SIZES},
        **{f"{name}_map": f"const __grid_constant__ CUtensorMap {name}_map" for name in ("x", "y", "out")},
    }  # fmt: skip
    parameters = ", ".join(heads[name] for name in names)
    if isinstance(schedule, Hopper):
        out = "&out_map" if schedule.box_store else "nullptr"
        ends = _ends(
            product,
            parts=_shares(schedule) > 1,
            storing=_parts(schedule) == 1 and not schedule.box_store,
            epilogue=_parts(schedule) == 1,
        )
        body, least = (
            f"hopper_product(&x_map, &y_map, {out}, {sizes}, {ends})",
            f", {rules.blocks_per_multiprocessor(schedule, product)}",
        )
    else:
        body = f"{type(schedule).__name__.lower()}_product(a, b, {sizes}, {whole})"
        # Said to be alone, a direct kernel spills nothing: its blocks are few.
        least = ", 1" if isinstance(schedule, Direct) else ""
    text = (
        f'extern "C" __global__ void {_cluster(schedule)}__launch_bounds__({rules.threads_of(schedule)}{least})\n'
        f"{SYMBOL}({parameters}) {{\n  {body};\n}}\n"
    )
    if _shares(schedule) > 1:
        adding = ", ".join(heads[b.name] for b in _adding_bindings(product, schedule))
        if _parts(schedule) == 1:
            call = f"add_tail(Sizes{{m, n, k, batch}}, {_ends(product, parts=True, storing=True)}, workers)"
        else:
            call = f"add_parts(Sizes{{m, n, k, batch}}, {_ends(product, parts=True, storing=True)})"
        text += (
            f'extern "C" __global__ void __launch_bounds__({ADDING_THREADS})\n{ADDING}({adding}) {{\n'
            "  if constexpr (EARLY) kernelwright::grid_wait();\n"
            f"  {call};\n}}\n"
        )
    return text


def _cluster(schedule: Schedule) -> str:
    """Said to the compiler, a meeting of the cluster does not ask whether there is one; above 8 the launch says it."""
    each = schedule.splits * (schedule.cluster_m * schedule.cluster_n if isinstance(schedule, Hopper) else 1)
    return f"__cluster_dims__({each}, 1, 1) " if 1 < each <= rules.MOST_CLUSTER else ""


def _parts(schedule: Schedule) -> int:
    return schedule.parts if isinstance(schedule, Hopper | Warps) else 1


def _shares(schedule: Schedule) -> int:
    """Shares of k whose sums a second kernel adds up: of every tile, or of the last wave's."""
    return schedule.tail if isinstance(schedule, Hopper) and schedule.tail > 1 else _parts(schedule)


def _ends(product: Product, *, parts: bool, storing: bool, epilogue: bool | None = None) -> str:
    used = storing if epilogue is None else epilogue
    bias = "bias" if product.bias and used else "nullptr"
    c = "c" if product.beta and used else "nullptr"
    return f"Ends{{{bias}, {c}, {'out' if storing else 'nullptr'}, {'parts' if parts else 'nullptr'}}}"


# ------------------------------------------------------------------------------ plan


def plan_of(product: Product, schedule: Schedule, multiprocessors: int = rules.MULTIPROCESSORS) -> LaunchPlan:
    """Returns the launch plan of a possible schedule."""
    launch = rules.launch_of(schedule, product, multiprocessors)
    steps = [Step(symbol=SYMBOL, arguments=_bindings(product, schedule), launch=launch)]
    workspaces: tuple[Workspace, ...] = ()
    if (parts := _parts(schedule)) > 1:
        outputs = product.batch * product.m * product.n
        workspaces = (Workspace(name="parts", size_bytes=4 * parts * outputs),)
        each = ADDING_THREADS * (4 if rules.step_of(product.n) >= 4 else 1)
        steps.append(_adding(-(-outputs // each), product, schedule))
    elif isinstance(schedule, Hopper) and schedule.tail > 1:
        sums = rules.tail_tiles(schedule, product, multiprocessors) * schedule.bm * schedule.bn
        workspaces = (Workspace(name="parts", size_bytes=4 * schedule.tail * sums),)
        workers = launch.grid[0] // launch.cluster[0]  # type: ignore[operator]
        steps.append(_adding(-(-sums // (4 * ADDING_THREADS)), product, schedule, workers))
    maps = tensor_maps(product, schedule) if isinstance(schedule, Hopper) else ()
    return LaunchPlan(steps=tuple(steps), workspaces=workspaces, tensor_maps=maps)


def _adding(blocks: int, product: Product, schedule: Schedule, workers: int = 0) -> Step:
    launch = Launch(grid=(blocks, 1, 1), block=(ADDING_THREADS, 1, 1), programmatic=schedule.early)
    return Step(symbol=ADDING, arguments=_adding_bindings(product, schedule, workers), launch=launch)


def _sizes(product: Product) -> list[Binding]:
    return [Binding(kind="scalar", name=name, ctype="int32_t", scalar=getattr(product, name)) for name in SIZES]


def _tensor(product: Product, name: str, *, const: bool) -> Binding:
    return Binding(kind="tensor", name=name, ctype=f"{'const ' if const else ''}{CTYPES[product.dtype]}")


def _epilogue(product: Product) -> list[Binding]:
    found = [_tensor(product, "bias", const=True)] if product.bias else []
    return found + ([_tensor(product, "c", const=True)] if product.beta else [])


def _bindings(product: Product, schedule: Schedule) -> tuple[Binding, ...]:
    found: list[Binding] = []
    stores = True
    if isinstance(schedule, Hopper):
        names = ("x_map", "y_map", *(("out_map",) if schedule.box_store else ()))
        found += [Binding(kind="tensor_map", name=name, ctype="CUtensorMap") for name in names]
        stores = not schedule.box_store
    else:
        found += [_tensor(product, name, const=True) for name in ("a", "b")]
    if _parts(schedule) > 1:
        found.append(Binding(kind="workspace", name="parts", ctype="float"))
    else:
        found += [_tensor(product, "out", const=False)] if stores else []
        found += _epilogue(product)
        found += [Binding(kind="workspace", name="parts", ctype="float")] if _shares(schedule) > 1 else []
    return (*found, *_sizes(product))


def _adding_bindings(product: Product, schedule: Schedule, workers: int = 0) -> tuple[Binding, ...]:
    parts = Binding(kind="workspace", name="parts", ctype="float")
    found = (parts, _tensor(product, "out", const=False), *_epilogue(product), *_sizes(product))
    if _parts(schedule) > 1:
        return found
    return (*found, Binding(kind="scalar", name="workers", ctype="int32_t", scalar=workers))


def tensor_maps(product: Product, s: Hopper) -> tuple[TensorMap, ...]:
    """Returns the descriptors of both operands, and of the output where it is stored by boxes."""
    x_k, y_k = _along_k(product, s)
    a = ("a", product.m, True)
    b = ("b", product.n, product.layout == "nk")
    (x, x_rows, _), (y, y_rows, _) = (b, a) if s.swap else (a, b)
    maps = [
        _operand(product, "x_map", x, x_rows, x_k, s.bm // s.cluster_n if x_k else rules.HOPPER_BK // s.cluster_n),
        _operand(product, "y_map", y, y_rows, y_k, s.bn // s.cluster_m if y_k else rules.HOPPER_BK // s.cluster_m),
    ]
    if s.box_store:
        chunk = 64 if s.swap else rules.chunk_of(s)
        box = (chunk, s.bn // s.splits if s.swap else rules.box_rows(s), 1)
        maps.append(_map(product, "out_map", "out", (product.n, product.m), box))
    return tuple(maps)


def _operand(product: Product, name: str, of: str, rows: int, along_k: bool, lines: int) -> TensorMap:
    shape = (product.k, rows) if along_k else (rows, product.k)
    return _map(product, name, of, shape, (64, lines, 1))


def _map(product: Product, name: str, of: str, shape: tuple[int, int], box: tuple[int, int, int]) -> TensorMap:
    row = shape[0] * ELEMENT_BYTES
    whole: tuple[Size, ...] = (*shape, product.batch)
    line = box[0] * ELEMENT_BYTES
    return TensorMap(
        name=name,
        of=of,
        dtype=product.dtype,
        shape=whole,
        strides_bytes=(row, row * shape[1]),
        box=box,
        swizzle_bytes=line if line in (32, 64, 128) else 0,  # type: ignore[arg-type]
    )
