# ruff: noqa: E501
from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelwright.errors import UserError
from kernelwright.languages import candidate_from_file, check_plan, skeleton
from kernelwright.languages.cpp import Cpp
from kernelwright.languages.hardware import detect_target
from kernelwright.testing.languages import scale_problem
from kernelwright.types import Artifact, Binding, Problem, TensorSpec, Workspace, digest, replace

PROBLEM = scale_problem()
KERNEL = """\
// A kernel: extern "C" void old(float* x);
#include <cstdint>
#include "size.hpp"

static float helper(float a) { return a; }

extern "C" void scale(float* __restrict__ out, const float *x,
                      float const* const weight) {
  for (int i = 0; i < SIZE; i++) out[i] = helper(x[i]) * weight[i];
}
"""


def write(folder: Path, text: str, name: str = "kernel.cpp") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def refused(folder: Path, text: str, problem: Problem = PROBLEM) -> UserError:
    with pytest.raises(UserError) as caught:
        candidate_from_file(problem, write(folder, text))
    return caught.value


def test_plan_is_inferred_and_includes_come_along(tmp_path: Path) -> None:
    write(tmp_path, '#pragma once\n#include "deep/more.hpp"\n', "size.hpp")
    write(tmp_path, "#define SIZE 64\n", "deep/more.hpp")
    candidate = candidate_from_file(PROBLEM, write(tmp_path, KERNEL))
    assert candidate.problem == digest(PROBLEM)
    assert [source.path for source in candidate.sources] == ["kernel.cpp", "size.hpp", "deep/more.hpp"]
    (step,) = candidate.plan.steps
    assert step.symbol == "scale"
    assert [(b.kind, b.name, b.ctype) for b in step.arguments] == [
        ("tensor", "out", "float"),
        ("tensor", "x", "float"),
        ("tensor", "weight", "float"),
    ]
    assert isinstance(_build(candidate, tmp_path / "build"), Artifact)


def _build(candidate: object, folder: Path) -> object:
    folder.mkdir()
    return Cpp().compile(PROBLEM, candidate, detect_target(), folder)  # type: ignore[arg-type]


def test_function_in_a_linkage_block_is_found(tmp_path: Path) -> None:
    text = 'extern "C" {\nvoid scale(const float* x, const float* weight, float* out) { for (;;) { if (x) { break; } } }\n}\n'
    (step,) = candidate_from_file(PROBLEM, write(tmp_path, text)).plan.steps
    assert [b.name for b in step.arguments] == ["x", "weight", "out"]


def test_given_plan_with_workspace_scalar_and_options(tmp_path: Path) -> None:
    text = """\
// kernelwright-plan: {
//   "steps": [
//     {"call": "first", "arguments": ["x", "weight", "room", {"name": "n", "type": "int64_t", "value": 64}]},
//     {"call": "second", "arguments": ["room", "out"]}
//   ],
//   "workspaces": {"room": {"type": "double", "count": 64}},
//   "options": {"unroll_loops": true, "opt": "O2"}
// }
// More words.
int nothing;
"""
    candidate = candidate_from_file(PROBLEM, write(tmp_path, text))
    assert candidate.options == (("opt", "O2"), ("unroll_loops", True))
    assert candidate.plan.workspaces == (Workspace(name="room", size_bytes=512),)
    first, second = candidate.plan.steps
    assert first.arguments[2] == Binding(kind="workspace", name="room", ctype="double")
    assert first.arguments[3] == Binding(kind="scalar", name="n", ctype="int64_t", scalar=64)
    assert [b.name for b in second.arguments] == ["room", "out"]
    assert check_plan(PROBLEM, candidate) is None


def test_options_alone_keep_the_inferred_step(tmp_path: Path) -> None:
    text = '/* kernelwright-plan: {"options": {"opt": "O1"}} */\n' + KERNEL.replace(
        '#include "size.hpp"', "#define SIZE 64"
    )
    candidate = candidate_from_file(PROBLEM, write(tmp_path, text))
    assert candidate.options == (("opt", "O1"),)
    assert candidate.plan.steps[0].symbol == "scale"


FIX = "const float* x [64]; const float* weight [64]; float* out [64]"
SIGNATURE = 'extern "C" void kw_scale(const float* x, const float* weight, float* out)'
PLAIN = 'extern "C" void scale(const float* x, const float* weight, float* out) {}\n'


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("int a;\n", 'defines no extern "C" function', FIX),
        (PLAIN + PLAIN.replace("scale", "other"), 'has 2 extern "C" functions (scale, other)', "kernelwright-plan:"),
        (PLAIN.replace("* weight", "* weigth"), "parameter 'weigth' is no tensor of the problem; it has x, weight, out", SIGNATURE),
        (PLAIN.replace("const float* x", "const double* x"), "parameter 'x' points to double, but x is float32", "const float* x"),
        (PLAIN.replace("const float* x", "float* x"), "parameter 'x' is an input and must not be written", "const float* x"),
        (PLAIN.replace("float* out", "float* out, int64_t n"), "the value of the scalar 'int64_t n' cannot be inferred", "constexpr"),
        (PLAIN.replace("float* out", "const float* out"), "output 'out' is only bound as const", SIGNATURE),
        (PLAIN.replace(", float* out", ""), "output 'out' is bound by no step", FIX),
        (PLAIN.replace("void", "int"), "returns int, not void", SIGNATURE),
        ('#include "gone.hpp"\n' + PLAIN, 'includes "gone.hpp", which cannot be found', "put it beside kernel.cpp"),
        ("int a;\n// kernelwright-plan: {\n//  steps: []}\n", "kernel.cpp:3: the plan is no JSON", "each further line"),
        ("// kernelwright-plan: [1]\n", "the plan is no JSON object", FIX),
        ('// kernelwright-plan: {"step": []}\n', "no member 'step'", "known are steps, workspaces, options"),
        ('// kernelwright-plan: {"steps": [{"arguments": []}]}\n', "lacks or does not know 'call'", "kernelwright-plan:"),
        ('// kernelwright-plan: {"steps": [{"call": "f", "arguments": [3]}]}\n', "neither a name nor a scalar", "kernelwright-plan:"),
        ('// kernelwright-plan: {"steps": [{"call": "f", "arguments": ["y"]}]}\n', "argument 'y' is no tensor", FIX),
        ('// kernelwright-plan: {"options": {"a": [1]}}\n', "options are not an object", '"opt"'),
        ("// kernelwright-plan: {}\n// kernelwright-plan: {}\n", "kernel.cpp:2: a second kernelwright-plan:", "keep one"),
    ],
)  # fmt: skip
def test_faults_name_their_fix(text: str, message: str, fix: str, tmp_path: Path) -> None:
    error = refused(tmp_path, text)
    assert message in error.message
    assert fix in error.fix


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no file"):
        candidate_from_file(PROBLEM, tmp_path / "none.cpp")
    with pytest.raises(UserError, match=r"no C\+\+, CUDA or Python source"):
        candidate_from_file(PROBLEM, write(tmp_path, "", "kernel.txt"))
    (tmp_path / "kernel.cpp").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="no UTF-8 text"):
        candidate_from_file(PROBLEM, tmp_path / "kernel.cpp")
    (tmp_path / "folder.cpp").mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        candidate_from_file(PROBLEM, tmp_path / "folder.cpp")


def test_includes_cannot_leave_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "secret", "secret.hpp")
    error = refused(tmp_path / "below", '#include "../secret.hpp"\n' + PLAIN)
    assert "cannot be found" in error.message


def test_skeleton_compiles_and_is_its_own_candidate(tmp_path: Path) -> None:
    spec = TensorSpec(name="index", shape=(), dtype="int64", role="input")
    mask = TensorSpec(name="mask", shape=(2, 3), dtype="bool", role="input")
    half = TensorSpec(name="out1", shape=(4,), dtype="bfloat16", role="output")
    problem = replace(
        PROBLEM, name="scale & co", inputs=(*PROBLEM.inputs, spec, mask), outputs=(*PROBLEM.outputs, half)
    )
    text = skeleton(problem)
    candidate = candidate_from_file(problem, write(tmp_path, text))
    assert [b.name for b in candidate.plan.steps[0].arguments] == [tensor.name for tensor in problem.arguments]
    assert "mask_1 = 3;" in text
    outcome = Cpp().compile(problem, candidate, detect_target(), _made(tmp_path / "build"))
    assert isinstance(outcome, Artifact), outcome


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_example_in_the_module_docstring_is_a_plan(tmp_path: Path) -> None:
    from kernelwright.languages import kernel_file

    lines = (kernel_file.__doc__ or "").split("\n")
    first = next(n for n, line in enumerate(lines) if "// kernelwright-plan:" in line)
    shown = [line.strip() for line in lines[first:] if line.strip().startswith("//")]
    plan = json.loads("".join(line.removeprefix("//") for line in shown).split("kernelwright-plan:", 1)[1])
    candidate = candidate_from_file(PROBLEM, write(tmp_path, "\n".join(shown) + "\n"))
    assert [step.symbol for step in candidate.plan.steps] == [step["call"] for step in plan["steps"]]
