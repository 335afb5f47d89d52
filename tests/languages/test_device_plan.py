# ruff: noqa: E501
from __future__ import annotations

import pytest

from kernelwright.languages import cubin
from kernelwright.languages.cubin import Kernel, Parameter
from kernelwright.languages.device_plan import check_device_plan, check_resources
from kernelwright.languages.devices import COMPILED, cuda_target
from kernelwright.testing.languages import scale_candidate, scale_problem
from kernelwright.types import (
    Axis,
    Binding,
    Candidate,
    Launch,
    LaunchPlan,
    Problem,
    Step,
    TensorMap,
    Workspace,
    replace,
)

LAUNCH = Launch(grid=(1, 1, 1), block=(64, 1, 1))
GOOD = scale_candidate("cuda", "", path="kernel.cu", launch=LAUNCH)
STEP = GOOD.plan.steps[0]
X, WEIGHT, OUT, N = STEP.arguments
PROBLEM = scale_problem()
AXES = replace(PROBLEM, axes=(Axis(name="S", size=64, low=1, high=1 << 20, places=(("x", 0),)),))
MAP = TensorMap(name="x_map", of="x", dtype="float32", shape=(16, 4), strides_bytes=(64,), box=(16, 4))
MAPPED = Binding(kind="tensor_map", name="x_map", ctype="CUtensorMap")
ROOM = Workspace(name="scratch", size_bytes=64)
SCRATCH = Binding(kind="workspace", name="scratch", ctype="float")
CLEAR = Step(symbol="", kind="memset", arguments=(OUT,))


def plan(*steps: Step, workspaces: tuple[Workspace, ...] = (), maps: tuple[TensorMap, ...] = ()) -> Candidate:
    return replace(GOOD, plan=LaunchPlan(steps=steps, workspaces=workspaces, tensor_maps=maps))


def launched(**changes: object) -> Candidate:
    return plan(replace(STEP, launch=replace(LAUNCH, **changes)))


def bound(*arguments: Binding, workspaces: tuple[Workspace, ...] = (), maps: tuple[TensorMap, ...] = ()) -> Candidate:
    return plan(replace(STEP, arguments=arguments), workspaces=workspaces, maps=maps)


def mapped(**changes: object) -> Candidate:
    return bound(MAPPED, OUT, maps=(replace(MAP, **changes),))


def fault(problem: Problem, candidate: Candidate, architecture: str = "sm_90a") -> str:
    failure = check_device_plan(problem, candidate, cuda_target(architecture))
    assert failure is None or failure.stage == "plan"
    return failure.message if failure else ""


@pytest.mark.parametrize(
    "candidate",
    [
        GOOD,
        launched(grid=("ceil_div(S, 32) * 2", 1, 1)),
        launched(block=(32, 32, 1), shared_bytes=227 << 10),
        launched(grid=(8, 2, 1), cluster=(4, 2, 1)),
        launched(cooperative=True),
        launched(programmatic=True),
        plan(CLEAR, STEP),
        plan(replace(CLEAR, byte=255, arguments=(SCRATCH,)), replace(STEP, arguments=(*STEP.arguments, SCRATCH)), workspaces=(ROOM,)),
        bound(X, OUT, Binding(kind="axis", name="S", ctype="int32_t")),
        mapped(),
        mapped(swizzle_bytes=64, nan_fill=True),
        mapped(shape=("S", 1), strides_bytes=("S * 16",)),
        plan(Step(symbol="matmul", kind="library", arguments=(X, WEIGHT, OUT), options=(("transpose_b", True),))),
    ],
)  # fmt: skip
def test_right_plans_pass(candidate: Candidate) -> None:
    assert fault(AXES, candidate) == ""


@pytest.mark.parametrize("architecture", COMPILED)
def test_limits_are_those_of_the_architecture(architecture: str) -> None:
    most = 163 if architecture == "sm_80" else 227
    assert fault(PROBLEM, launched(shared_bytes=most << 10), architecture) == ""
    wanted = f"step 1 'scale': it asks for {(most << 10) + 1} bytes of dynamic shared memory; up to {most << 10} are possible on {architecture.rstrip('a')}"
    assert fault(PROBLEM, launched(shared_bytes=(most << 10) + 1), architecture) == wanted


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        (launched(grid=(0, 1, 1)), "step 1 'scale': grid.x is 0 at S=64; 1 to 2147483647 blocks are possible"),
        (launched(grid=(1, 65536, 1)), "step 1 'scale': grid.y is 65536 at S=64; 1 to 65535 blocks are possible"),
        (launched(grid=(1, "S", 1)), "step 1 'scale': grid.y is 1048576 at S=1048576; 1 to 65535 blocks are possible"),
        (launched(grid=("S // 64", 1, 1)), "step 1 'scale': grid.x is 0 at S=1; 1 to 2147483647 blocks are possible"),
        (launched(grid=("T", 1, 1)), "step 1 'scale': grid.x: 'T' names the axis 'T'; there are S"),
        (launched(grid=("open('x')", 1, 1)), "step 1 'scale': grid.x: \"open('x')\" holds something other than numbers, axes, + - * // %, ceil_div, min and max"),
        (launched(block=(1025, 1, 1)), "step 1 'scale': block.x is 1025; up to 1024 are possible"),
        (launched(block=(1, 1, 65)), "step 1 'scale': block.z is 65; up to 64 are possible"),
        (launched(block=(64, 32, 1)), "step 1 'scale': the block has 2048 threads; up to 1024 are possible"),
        (launched(block=(0, 1, 1)), "step 1 'scale': block is (0, 1, 1); it needs three whole numbers from 1"),
        (launched(block=(64, 1)), "step 1 'scale': block is (64, 1); it needs three whole numbers from 1"),
        (launched(block=(64.0, 1, 1)), "step 1 'scale': block is (64.0, 1, 1); it needs three whole numbers from 1"),
        (launched(grid=(1,)), "step 1 'scale': grid is (1,); it needs three sizes"),
        (launched(grid=(32, 1, 1), cluster=(32, 1, 1)), "step 1 'scale': the cluster has 32 blocks; up to 16 are possible"),
        (launched(grid=(3, 1, 1), cluster=(2, 1, 1)), "step 1 'scale': grid.x is 3 at S=64, no multiple of the cluster's 2"),
        (launched(shared_bytes=-1), "step 1 'scale': shared_bytes is -1; it needs a whole number from 0"),
        (launched(cooperative=True, programmatic=True), "step 1 'scale': a launch is cooperative or programmatic, not both"),
        (plan(replace(STEP, launch=None)), "step 1 'scale': a kernel on a device needs a launch: its grid and block"),
        (plan(replace(STEP, symbol="f<int>")), "step 1 'f<int>': the symbol is no C identifier"),
        (plan(replace(STEP, kind="graph")), "step 1 'scale' has the unknown kind 'graph'; known are kernel, memset, library"),
        (plan(), "the plan has no steps; it needs at least one kernel call"),
        (bound(replace(X, name="y"), OUT), "step 1 'scale': argument 'y' is no tensor of the problem; it has x, weight, out"),
        (bound(replace(X, ctype="__half"), OUT), "step 1 'scale': argument 'x' has the C type '__half', but x is float32: float"),
        (bound(X, WEIGHT), "output 'out' is bound by no step, so nothing can write it; bind it as float*"),
        (bound(X, replace(OUT, ctype="const float")), "output 'out' is only bound as const, so nothing can write it; bind it as float*"),
        (bound(X, OUT, SCRATCH), "step 1 'scale': argument 'scratch' is no workspace of the plan; it has none"),
        (bound(X, OUT, workspaces=(ROOM,)), "workspace 'scratch' is used by no step; bind it or leave it out"),
        (bound(X, OUT, maps=(MAP,)), "tensor map 'x_map' is used by no step; bind it or leave it out"),
        (bound(X, OUT, replace(SCRATCH, ctype="float4"), workspaces=(ROOM,)), "step 1 'scale': argument 'scratch' has the C type 'float4'; a workspace can be of float, double, bool, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2"),
        (bound(X, OUT, replace(N, scalar=None)), "step 1 'scale': argument 'n' is a scalar without a value"),
        (bound(X, OUT, replace(N, ctype="int8_t", scalar=200)), "step 1 'scale': argument 'n' is 200, out of range of int8_t (-128 to 127)"),
        (bound(X, OUT, Binding(kind="axis", name="T", ctype="int32_t")), "step 1 'scale': argument 'T' is no axis of the problem; it has S"),
        (bound(X, OUT, Binding(kind="axis", name="S", ctype="float")), "step 1 'scale': argument 'S' has the C type 'float'; an axis can be int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t"),
        (bound(X, OUT, Binding(kind="axis", name="S", ctype="int16_t")), "step 1 'scale': argument 'S' can be 1048576, out of range of int16_t (-32768 to 32767)"),
        (bound(X, OUT, MAPPED), "step 1 'scale': argument 'x_map' is no tensor map of the plan; it has none"),
        (bound(replace(MAPPED, ctype="float"), OUT, maps=(MAP,)), "step 1 'scale': argument 'x_map' has the C type 'float'; a tensor map is a CUtensorMap"),
        (plan(STEP, replace(CLEAR, arguments=(X,))), "step 2: a memset of 'x' would write an input"),
        (plan(STEP, replace(CLEAR, byte=256)), "step 2: a memset's byte is 256; it needs a whole number from 0 to 255"),
        (plan(STEP, replace(CLEAR, arguments=(OUT, OUT))), "step 2: a memset has one argument, a tensor or a workspace"),
        (plan(STEP, replace(CLEAR, launch=LAUNCH)), "step 2: a memset has no launch"),
        (plan(Step(symbol="sort", kind="library", arguments=(X, OUT))), "step 1 'sort': there is no library routine of that name; known are matmul, addmm, convolution, tuned_convolution, fft"),
    ],
)  # fmt: skip
def test_faults_are_named_precisely(candidate: Candidate, message: str) -> None:
    assert fault(AXES, candidate) == message


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (mapped(of="y"), "describes 'y', which is no tensor and no workspace"),
        (mapped(name="x"), "the name is no C identifier, or is that of something else"),
        (mapped(dtype="complex64"), "the dtype 'complex64' cannot be described"),
        (mapped(shape=(), strides_bytes=(), box=()), "it has 0 dimensions; 1 to 5 are possible"),
        (mapped(shape=(1,) * 6, strides_bytes=(64,) * 5, box=(16,) * 6), "it has 6 dimensions"),
        (mapped(strides_bytes=()), "2 dimensions need 1 strides"),
        (mapped(box=(16,)), "and a box of 2"),
        (mapped(box=(16, 257)), "a side of 257; 1 to 256 are possible"),
        (mapped(box=(3, 4)), "innermost side is 12 bytes, no multiple of 16"),
        (mapped(swizzle_bytes=32), "innermost side is 64 bytes, more than the swizzle's 32"),
        (mapped(swizzle_bytes=48), "swizzle_bytes is 48; 0, 32, 64 or 128 are possible"),
        (mapped(l2_promotion_bytes=32), "l2_promotion_bytes is 32"),
        (mapped(element_strides=(1, 9)), "element_strides (1, 9) need 2 numbers from 1 to 8"),
        (mapped(strides_bytes=(40,)), "a stride is 40 bytes; multiples of 16"),
        (mapped(strides_bytes=(1 << 40,)), "a stride is 1099511627776 bytes"),
        (mapped(shape=(16, 5)), "it describes 320 bytes of 'x', which has 256"),
        (mapped(shape=(0, 1)), "a dimension is 0; 1 to 4294967296 are possible"),
        (mapped(shape=("S - 1", 1)), "a dimension is 0; 1 to 4294967296 are possible"),
        (mapped(shape=("T", 1)), "'T' names the axis 'T'"),
    ],
)  # fmt: skip
def test_tensor_maps_are_held_to_the_driver_s_rules(candidate: Candidate, words: str) -> None:
    message = fault(AXES, candidate)
    assert message.startswith("tensor map ")
    assert words in message


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (launched(grid=(2, 1, 1), cluster=(2, 1, 1)), "sm_80 has no clusters"),
        (launched(programmatic=True), "sm_80 has no programmatic launches"),
        (mapped(), "sm_80 has no tensor maps"),
    ],
)
def test_what_came_with_hopper_is_refused_on_ampere(candidate: Candidate, words: str) -> None:
    assert words in fault(PROBLEM, candidate, "sm_80")
    assert fault(PROBLEM, candidate, "sm_100") == ""


def test_unknown_architectures_are_refused() -> None:
    failure = check_device_plan(PROBLEM, GOOD, replace(cuda_target("sm_90a"), architecture="sm_42"))
    assert failure is not None
    assert failure.kind == "architecture"
    with pytest.raises(ValueError, match="no architecture 'sm_42'"):
        cuda_target("sm_42")


# ------------------------------------------------------------------ with the compiled code

POINTER = 8


def built(*sizes: int, **changes: object) -> cubin.Cubin:
    parameters = tuple(Parameter(offset=8 * i, size_bytes=size) for i, size in enumerate(sizes))
    kernel = Kernel(symbol="scale", parameters=parameters, registers=32, shared_bytes=0, frame_bytes=0, code_bytes=1)
    return cubin.Cubin(
        architecture="sm_90", kernels=(replace(kernel, **changes),), variables=(), wanted=(), constant_bytes=0
    )


@pytest.mark.parametrize(
    ("candidate", "code", "kind", "message"),
    [
        (GOOD, built(8, 8, 8), "type", "step 1 'scale': the plan gives 4 arguments, the kernel takes 3"),
        (GOOD, built(8, 8, 8, 4), "type", "step 1 'scale': argument 4 'n' is 8 bytes in the plan, 4 in the kernel"),
        (bound(X, OUT, replace(N, ctype="float", scalar=1.0)), built(8, 8, 8), "type", "step 1 'scale': argument 3 'n' is float of 4 bytes in the plan, 8 in the kernel"),
        (mapped(), built(8, 8), "type", "step 1 'scale': argument 1 'x_map' is CUtensorMap of 128 bytes in the plan, 8 in the kernel"),
        (plan(replace(STEP, symbol="other")), built(8, 8, 8, 8), "symbol", "step 1 'other': the code has no such kernel; it has scale (is extern \"C\" missing?)"),
        (launched(shared_bytes=200 << 10), built(8, 8, 8, 8, shared_bytes=48 << 10), "resources", "step 1 'scale': 49152 static and 204800 dynamic bytes of shared memory are 253952; 232448 are possible on sm_90"),
        (launched(block=(1024, 1, 1)), built(8, 8, 8, 8, registers=65), "resources", "step 1 'scale': 1024 threads of 65 registers need 73728; a multiprocessor has 65536; use __launch_bounds__(1024) or a smaller block"),
        (launched(block=(256, 1, 1)), built(8, 8, 8, 8, max_threads=128), "resources", "step 1 'scale': the block has 256 threads, but the kernel was compiled for up to 128"),
        (GOOD, built(8, 8, 8, 8, required_block=(32, 2, 1)), "resources", "step 1 'scale': the block is (64, 1, 1), but the kernel was compiled for (32, 2, 1)"),
        (GOOD, built(8, 8, 8, 8, cluster=(2, 1, 1)), "resources", "step 1 'scale': the cluster is (1, 1, 1), but the kernel was compiled for (2, 1, 1)"),
    ],
)  # fmt: skip
def test_what_the_code_cannot_be_launched_with_is_refused(
    candidate: Candidate, code: cubin.Cubin, kind: str, message: str
) -> None:
    failure = check_resources(candidate, code, cuda_target("sm_90a"))
    assert failure is not None
    assert (failure.stage, failure.kind, failure.message) == ("build", kind, message)


def test_what_fits_is_let_pass() -> None:
    assert check_resources(GOOD, built(8, 8, 8, 8), cuda_target("sm_90a")) is None
    assert check_resources(mapped(), built(128, 8), cuda_target("sm_90a")) is None
    assert check_resources(launched(block=(1024, 1, 1)), built(8, 8, 8, 8, registers=64), cuda_target("sm_90a")) is None
