from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.languages import candidate_from_file, cuda, cuda_target, skeleton
from kernelwright.languages.device_file import kernels_of, plan_lines
from kernelwright.languages.device_plan import check_device_plan
from kernelwright.testing.languages import scale_problem
from kernelwright.types import Artifact, Axis, Launch, Problem, TensorMap, Workspace, replace

PROBLEM = replace(scale_problem(), axes=(Axis(name="S", size=64, low=1, high=4096, places=(("x", 0),)),))
KERNEL = 'extern "C" __global__ void scale(const float* x, const float* weight, float* out, int S) {}\n'


def from_text(text: str, folder: Path, problem: Problem = PROBLEM):  # type: ignore[no-untyped-def]
    file = folder / "kernel.cu"
    file.write_text(text)
    return candidate_from_file(problem, file)


def test_a_launch_line_makes_the_plan(tmp_path: Path) -> None:
    candidate = from_text(
        "// kernelwright-launch: scale grid=ceil_div(S,128),2 block=32,4 shared=64 programmatic\n" + KERNEL, tmp_path
    )
    (step,) = candidate.plan.steps
    assert step.launch == Launch(grid=("ceil_div(S,128)", 2, 1), block=(32, 4, 1), shared_bytes=64, programmatic=True)
    assert [(b.kind, b.name, b.ctype) for b in step.arguments] == [
        ("tensor", "x", "float"), ("tensor", "weight", "float"), ("tensor", "out", "float"), ("axis", "S", "int32_t"),
    ]  # fmt: skip
    assert candidate.language == "cuda"
    assert check_device_plan(PROBLEM, candidate, cuda_target("sm_90a")) is None


def test_steps_workspaces_tensor_maps_and_options_are_read(tmp_path: Path) -> None:
    candidate = from_text(
        "// kernelwright-workspace: part half 128\n"
        "// kernelwright-tensor-map: x_map of=x shape=16,4 strides=64 box=16,4 swizzle=64\n"
        "// kernelwright-memset: part byte=255\n"
        "/* kernelwright-launch: first grid=1 block=32 n=-3 factor=0.5 cluster=1,1,1 */\n"
        "// kernelwright-launch: second grid=1 block=32\n"
        "// kernelwright-options: fast_math=true max_registers=64 std=c++20\n"
        "template <class T>\n"
        "__global__ void __launch_bounds__(32, 2) first(const __grid_constant__ CUtensorMap x_map,\n"
        "    half* __restrict__ part /* (scratch) */, long long n, float factor) {}\n"
        "__global__ __launch_bounds__(32) void second(half const* part, float* out) {}\n",
        tmp_path,
    )
    memset, first, second = candidate.plan.steps
    assert (memset.kind, memset.byte, memset.arguments[0].name) == ("memset", 255, "part")
    assert [(b.kind, b.ctype, b.scalar) for b in first.arguments] == [
        ("tensor_map", "CUtensorMap", None), ("workspace", "__half", None), ("scalar", "int64_t", -3),
        ("scalar", "float", 0.5),
    ]  # fmt: skip
    assert [(b.name, b.ctype) for b in second.arguments] == [("part", "const __half"), ("out", "float")]
    assert candidate.plan.workspaces == (Workspace(name="part", size_bytes=256),)
    assert candidate.plan.tensor_maps == (
        TensorMap(
            name="x_map", of="x", dtype="float32", shape=(16, 4), strides_bytes=(64,), box=(16, 4), swizzle_bytes=64
        ),
    )
    assert candidate.options == (("fast_math", True), ("max_registers", 64), ("std", "c++20"))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "does not say how its kernels (scale) are started"),
        ("// kernelwright-start: scale\n", "kernel.cu:1: there is no kernelwright-start:"),
        (
            "\n// kernelwright-launch: scales grid=1 block=32\n",
            "kernel.cu:2: scales for a kernel; the file defines scale",
        ),
        ("// kernelwright-launch: scale grid=1\n", "kernel.cu:1: block= is missing"),
        ("// kernelwright-launch: scale grid=1,1,1,1 block=32\n", "kernel.cu:1: 4 sizes"),
        ("// kernelwright-launch: scale grid=1 block=S\n", "kernel.cu:1: 'S' is no whole number"),
        ("// kernelwright-launch: scale grid=1 block=32 rows=4\n", "rows= is no word of a launch and no parameter"),
        ("// kernelwright-memset: weigth\n", "kernel.cu:1: a memset is of one of out"),
        ("// kernelwright-workspace: part float4 8\n", "kernel.cu:1: a workspace has a name, a type and a count"),
        ("// kernelwright-tensor-map: m shape=4 box=4\n", "kernel.cu:1: of= is missing"),
        ("// kernelwright-tensor-map: m of=x shape=4 box=4 size=4\n", "kernel.cu:1: there is no size="),
    ],
)
def test_faults_name_their_line(lines: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        from_text(lines + KERNEL, tmp_path)
    assert message in caught.value.message
    assert caught.value.fix


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("int S", "int rows", "parameter 'rows' of scale has no value"),
        ("const float* weight", "const float* weigth", "parameter 'weigth' of scale is no tensor and no workspace"),
        ("int S", "const __grid_constant__ CUtensorMap map", "parameter 'map' of scale is no tensor map"),
    ],
)  # fmt: skip
def test_parameters_are_matched_by_name(old: str, new: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        from_text("// kernelwright-launch: scale grid=1 block=32\n" + KERNEL.replace(old, new), tmp_path)
    assert message in caught.value.message


def test_kernels_are_found_wherever_they_stand() -> None:
    text = (
        "// __global__ void no(int a) {\n__global__ void declared(int);\n"
        'namespace a { extern "C" { __global__ void __cluster_dims__(2, 1, 1) one() {} } }\n'
        "template <int N> static __global__ void two(float (*x)) { if (x) {} }\n"
        "void __global__ three(const float *a, unsigned b) {\n}\n"
    )
    found = {kernel.name: kernel.parameters for kernel in kernels_of(text)}
    assert set(found) == {"one", "three"}
    assert found["three"] == (("float", True, True, "a"), ("unsigned", False, False, "b"))


def test_the_skeleton_compiles_as_it_is(tmp_path: Path) -> None:
    text = skeleton(PROBLEM, language="cuda")
    candidate = from_text(text, tmp_path)
    outcome = cuda.Cuda().compile(PROBLEM, candidate, cuda_target("sm_90a"), tmp_path / "made")
    assert isinstance(outcome, Artifact), outcome


def test_a_plan_that_is_said_is_read_again(tmp_path: Path) -> None:
    code = (
        "__global__ void first(half* part, long long n, float factor, bool on) {}\n"
        "__global__ void second(const half* part, float* out, int S) {}\n"
    )
    said = (
        "// kernelwright-workspace: part half 128\n// kernelwright-memset: part byte=255\n"
        "// kernelwright-launch: first grid=1 block=32,2 cluster=2 shared=64 cooperative n=-3 factor=0.5 on=true\n"
        "// kernelwright-launch: second grid=ceil_div(S,8) block=32\n"
        "// kernelwright-options: fast_math=true max_registers=64\n"
    )
    candidate = from_text(said + code, tmp_path)
    again = from_text(plan_lines(candidate.plan, candidate.options) + code, tmp_path)
    assert (again.plan, again.options) == (candidate.plan, candidate.options)
    assert len(again.plan.steps) == 3
