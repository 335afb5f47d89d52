from __future__ import annotations

import ctypes
import math
import platform
import random
import struct
from pathlib import Path

import pytest

from kernelwright.languages import Builder, cpp, detect_target
from kernelwright.languages.bounded import Limits
from kernelwright.languages.hardware import Compiler, find_compiler
from kernelwright.testing.languages import SIZE, LanguageSuite, scale_candidate, scale_problem
from kernelwright.types import Artifact, Binding, Failure, LaunchPlan, SourceFile, Step, Workspace, replace

GOOD = """\
#include <cstdint>

extern "C" void scale(const float* x, const float* weight, float* out, int64_t n) {
#pragma omp parallel for
  for (int64_t i = 0; i < n; i++) out[i] = x[i] * weight[i];
}
"""
ENDLESS = GOOD + (
    "constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; i++) s += i ^ (s << 1); return s; }\n"
    "template <int N> struct Deep { static constexpr long number = spin(200000 + N) + Deep<N - 1>::number; };\n"
    "template <> struct Deep<0> { static constexpr long number = 0; };\n"
    "static_assert(Deep<800>::number != 1);\n"
)
HUNGRY = GOOD + (
    "template <int N, int M> struct F { static constexpr int v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };\n"
    "template <int M> struct F<0, M> { static constexpr int v = M; };\nstatic_assert(F<24, 0>::v != 1);\n"
)
EXPANDING = "#define A0 int i; int i; int i; int i;\n"
EXPANDING += "".join(f"#define A{n} {f'A{n - 1} ' * 8}\n" for n in range(1, 9)) + "A8\n"


def call(artifact: Artifact, *buffers: ctypes.Array[ctypes.c_float]) -> None:
    pointers = (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(buffer) for buffer in buffers])
    ctypes.CDLL(artifact.path).kw_entry(pointers, None)


def floats(values: list[float]) -> ctypes.Array[ctypes.c_float]:
    return (ctypes.c_float * len(values))(*values)


def nearest_float(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])


class TestCpp(LanguageSuite):
    language = "cpp"
    good = GOOD
    broken = (GOOD.replace("weight[i];", "weight[i]"), 5)
    mismatched = GOOD.replace("float* out", "double* out")
    forbidden = ('#include <cmath>\n#include "/etc/hostname"\n' + GOOD, "absolute paths")
    endless = ENDLESS
    option = ("opt", "O2")

    def check_artifact(self, artifact: Artifact) -> None:
        draw = random.Random(7)
        x, weight = ([nearest_float(draw.gauss(0, 1)) for _ in range(SIZE)] for _ in range(2))
        out = floats([math.nan] * SIZE)
        call(artifact, floats(x), floats(weight), out)
        assert list(out) == [nearest_float(a * b) for a, b in zip(x, weight, strict=True)]

    def test_several_steps_with_a_workspace_and_own_headers(self, builder: Builder) -> None:
        problem = scale_problem()
        text = (
            '#include "parts/first.hpp"\n'
            'extern "C" void second(const float* scratch, float* out, float factor, bool negate) {\n'
            f"  for (int i = 0; i < {SIZE}; i++) out[i] = (negate ? -factor : factor) * scratch[i];\n}}\n"
        )
        header = (
            '#include "size.hpp"\nextern "C" void first(const float* x, const float* weight, float* scratch) {\n'
            "  for (int i = 0; i < size; i++) scratch[i] = x[i] + weight[i];\n}\n"
        )
        sources = (
            SourceFile(path="kernel.cpp", text=text),
            SourceFile(path="parts/first.hpp", text=header),
            SourceFile(path="parts/size.hpp", text=f"#pragma once\nconstexpr int size = {SIZE};\n"),
        )

        def pointer(name: str, kind: str = "tensor", ctype: str = "float") -> Binding:
            return Binding(kind=kind, name=name, ctype=ctype)  # type: ignore[arg-type]

        steps = (
            Step(symbol="first", arguments=(pointer("x"), pointer("weight"), pointer("scratch", "workspace"))),
            Step(
                symbol="second",
                arguments=(
                    pointer("scratch", "workspace", "const float"),
                    pointer("out"),
                    Binding(kind="scalar", name="factor", ctype="float", scalar=0.1),
                    Binding(kind="scalar", name="negate", ctype="bool", scalar=True),
                ),
            ),
        )
        plan = LaunchPlan(steps=steps, workspaces=(Workspace(name="scratch", size_bytes=4 * SIZE),))
        candidate = replace(scale_candidate("cpp", text), sources=sources, plan=plan)
        (outcome,) = builder.build(problem, (candidate,))
        assert isinstance(outcome, Artifact), outcome
        x, weight = [float(i) for i in range(SIZE)], [0.5] * SIZE
        out, scratch = floats([math.nan] * SIZE), floats([math.nan] * SIZE)
        call(outcome, floats(x), floats(weight), out, scratch)
        tenth = nearest_float(0.1)
        assert list(out) == [nearest_float(-tenth * (a + 0.5)) for a in x]

    @pytest.mark.parametrize(
        ("old", "new", "kind", "words"),
        [
            ("int64_t n", "int32_t n", "type", "scalar 'n' is int64_t in the plan and int32_t in the source"),
            ("int64_t n", "uint64_t n", "type", "scalar 'n' is int64_t in the plan and uint64_t in the source"),
            ("const float* x", "float* x", "type", "argument 'x'"),
            (", int64_t n) {", ") {\n  const int64_t n = 8;", "type", "too many arguments"),
            ("void scale", "void scales", "symbol", "the source defines no such function"),
            ("{\n#pragma", "{\n  float f(float);\n  out[0] = f(1);\n#pragma", "symbol", "'f' is declared and used"),
            ("#include <cstdint>", "#include <cstdint>\n#include <vector>\nstatic std::vector<int> v(3);",
             "constructor", "destructor"),
            ("out[i] =", '__asm__("nop"); out[i] =', "asm", "inline assembly"),
            ("{\n#pragma", "{ system(\"true\");\n#pragma", "syntax", "system"),
        ],
    )  # fmt: skip
    def test_faults_are_named(self, builder: Builder, old: str, new: str, kind: str, words: str) -> None:
        failure = self.refused(builder, GOOD.replace(old, new, 1))
        assert failure.kind == kind, failure
        assert words in failure.message

    def test_exceptions_are_refused(self, builder: Builder) -> None:
        failure = self.refused(builder, GOOD.replace("{\n#pragma", "{ throw 1;\n#pragma"))
        assert failure.kind in ("syntax", "import")  # clang++ with OpenMP leaves it to the inspection

    def test_error_inside_a_standard_header_names_the_author_s_line(self, builder: Builder) -> None:
        body = "{\n struct T {} t[3];\n std::sort(t, t + 3);\n#pragma"
        text = "#include <algorithm>\n" + GOOD.replace("{\n#pragma", body)
        failure = self.refused(builder, text)
        assert failure.location == "kernel.cpp:6"

    def test_author_s_macros_do_not_reach_the_entry(self, builder: Builder) -> None:
        macros = "".join(f"#define {name} ?\n" for name in ("T", "N", "buffers", "number", "Other", "Exact"))
        self.check_artifact(self.built(builder, macros + GOOD))

    def test_source_that_defines_the_entry_is_refused(self, builder: Builder) -> None:
        failure = self.refused(builder, GOOD + 'extern "C" void kw_entry(void* const* b) {}\n')
        assert failure.kind == "syntax"
        assert "kw_entry" in failure.message

    def test_failures_are_cached_too(self, builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
        text = self.broken[0] + "\n// cached failure\n"
        first = self.refused(builder, text)
        monkeypatch.setattr(builder, "_take", lambda: pytest.fail("a worker was asked again"))
        assert self.refused(builder, text) == first

    def test_import_of_system_is_refused_by_the_inspection(self, builder: Builder) -> None:
        text = "#include <cstdlib>\n" + GOOD.replace("{\n#pragma", '{ if (system("true")) return;\n#pragma')
        failure = self.refused(builder, text)
        assert (failure.stage, failure.kind) == ("inspect", "import")
        assert "'system'" in failure.message

    @pytest.mark.parametrize(
        ("text", "limits", "kinds"),
        [
            (ENDLESS, Limits(time_s=1.5), {"timeout"}),
            (HUNGRY, Limits(memory_bytes=300 << 20), {"memory"}),
            (GOOD + "char filled[1 << 30] = {1}; char* volatile p = filled;\n", Limits(file_bytes=1 << 24), {"size"}),
            (EXPANDING, Limits(file_bytes=1 << 24, memory_bytes=400 << 20), {"size", "memory"}),
        ],
        ids=["endless", "hungry", "large", "expanding"],
    )  # fmt: skip
    def test_compiler_is_bounded(self, text: str, limits: Limits, kinds: set[str], tmp_path: Path) -> None:
        outcome = cpp.Cpp(limits).compile(scale_problem(), scale_candidate("cpp", text), detect_target(), tmp_path)
        assert isinstance(outcome, Failure)
        assert outcome.kind in kinds, outcome


def test_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    blobs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        outcome = cpp.Cpp().compile(scale_problem(), scale_candidate("cpp", GOOD), detect_target(), tmp_path / name)
        assert isinstance(outcome, Artifact)
        blobs.append(outcome.blob)
    assert blobs[0] == blobs[1]


def test_key_depends_on_everything_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, target, language = scale_problem(), detect_target(), cpp.Cpp()
    candidate = scale_candidate("cpp", GOOD)
    scalar = replace(candidate.plan.steps[0].arguments[3], scalar=SIZE - 1)
    step = replace(candidate.plan.steps[0], arguments=(*candidate.plan.steps[0].arguments[:3], scalar))
    keys = [
        language.key(problem, candidate, target),
        language.key(problem, scale_candidate("cpp", GOOD + "\n"), target),
        language.key(problem, replace(candidate, options=(("opt", "O1"),)), target),
        language.key(problem, replace(candidate, options=(("unroll_loops", True),)), target),
        language.key(problem, replace(candidate, plan=LaunchPlan(steps=(step,))), target),
        language.key(problem, candidate, replace(target, features=target.features[:-1])),
    ]
    monkeypatch.setattr(cpp, "cpu_identity", lambda: "another")
    keys.append(language.key(problem, candidate, target))
    monkeypatch.setattr(cpp, "find_compiler", lambda: replace(find_compiler(), banner="g++ 99"))
    keys.append(language.key(problem, candidate, target))
    assert all(isinstance(key, str) for key in keys)
    assert len(set(keys)) == len(keys)


def test_key_does_not_depend_on_notes() -> None:
    problem, target, language = scale_problem(), detect_target(), cpp.Cpp()
    candidate = scale_candidate("cpp", GOOD)
    other = replace(candidate, author="somebody else", template="t", parents=("k1:0",))
    assert language.key(problem, candidate, target) == language.key(problem, other, target)


def test_options_become_flags() -> None:
    compiler = find_compiler()
    flags = cpp.flags_for((("opt", "O2"), ("unroll_loops", True), ("fp_contract", "off")), compiler)
    assert isinstance(flags, tuple)
    assert {"-O2", "-funroll-loops", "-ffp-contract=off"} <= set(flags)
    assert "-O3" not in flags
    defaults = cpp.flags_for((), compiler)
    assert isinstance(defaults, tuple)
    assert {"-O3", "-march=native", "-fopenmp", "-ffp-contract=fast", "-std=c++17"} <= set(defaults)
    assert not any("fast-math" in flag for flag in flags + defaults)


@pytest.mark.parametrize(
    "option", [("opt", "O3 -fplugin=x"), ("opt", True), ("unroll_loops", 1), ("prefer_vector_width", 512.0)]
)
def test_option_values_are_held_to_their_type(option: tuple[str, str | int | float | bool]) -> None:
    assert isinstance(cpp.flags_for((option,), find_compiler()), Failure)


def test_x86_options_are_refused_elsewhere() -> None:
    arm = Compiler(path="g++", name="g++", version="12", banner="g++ 12", machine="aarch64-linux-gnu")
    failure = cpp.flags_for((("prefer_vector_width", 256),), arm)
    assert isinstance(failure, Failure)
    assert "x86" in failure.message
    flags = cpp.flags_for((), arm)
    assert isinstance(flags, tuple)
    assert "-mno-outline-atomics" in flags


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an x86 option")
def test_vector_width_becomes_a_flag() -> None:
    flags = cpp.flags_for((("prefer_vector_width", 256),), find_compiler())
    assert isinstance(flags, tuple)
    assert "-mprefer-vector-width=256" in flags
