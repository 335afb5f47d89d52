from __future__ import annotations

import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tests.languages.cuda_files import CHEATS, KERNELS, CudaFile, files

from kernelwright.errors import MissingTool
from kernelwright.languages import Builder, cubin, cuda, cuda_entry, cuda_messages, device_probe
from kernelwright.languages.bounded import Limits
from kernelwright.languages.device_plan import parameter_bytes
from kernelwright.languages.devices import cuda_target
from kernelwright.testing.languages import LanguageSuite, scale_problem
from kernelwright.types import (
    Artifact,
    Failure,
    KernelResources,
    Launch,
    LaunchPlan,
    OptionValue,
    Target,
    replace,
)

GOOD = """\
#include <cstdint>

extern "C" __global__ void scale(const float* x, const float* weight, float* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i];
}
"""
ENDLESS = GOOD + (
    "__device__ constexpr long spin(long n) { long s = 0; for (long i = 0; i < n; i++) s += i ^ (s << 1); return s; }\n"
    "template <int N, int K> struct Deep {\n"
    "  static constexpr long number = spin(200000 + N + K) + Deep<N - 1, K>::number; };\n"
    "template <int K> struct Deep<0, K> { static constexpr long number = 0; };\n"
    + "".join(f"static_assert(Deep<400, {k}>::number != 1);\n" for k in range(1, 30))
)

HUNGRY = GOOD + (
    "template <int N, int M> struct F { static constexpr int v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };\n"
    "template <int M> struct F<0, M> { static constexpr int v = M; };\nstatic_assert(F<24, 0>::v != 1);\n"
)


class TestCuda(LanguageSuite):
    language = "cuda"
    path = "kernel.cu"
    launch = Launch(grid=(1, 1, 1), block=(64, 1, 1))
    good = GOOD
    broken = (GOOD.replace("weight[i];", "weights[i];"), 5)
    mismatched = GOOD.replace("float* out", "double* out")
    forbidden = ('#include <cmath>\n#include "/etc/hostname"\n' + GOOD, "absolute paths")
    endless = ENDLESS
    option = ("fast_math", True)

    @classmethod
    def target(cls) -> Target:
        return cuda_target("sm_90a")

    def check_artifact(self, artifact: Artifact) -> None:
        built = cubin.read(Path(artifact.path))
        (kernel,) = built.kernels
        assert kernel.symbol == "scale"
        assert [p.size_bytes for p in kernel.parameters] == [8, 8, 8, 8]
        assert built.architecture == "sm_90"
        (resources,) = artifact.resources
        assert 4 <= resources.registers <= 32
        assert (resources.spill_bytes, resources.shared_bytes, resources.stack_bytes) == (0, 0, 0)

    @pytest.mark.parametrize(
        ("old", "new", "kind", "words"),
        [
            ("int64_t n", "int n", "type", "argument 4 'n' is int64_t in the plan and int in the source"),
            ("int64_t n", "double n", "type", "argument 4 'n' is int64_t in the plan and double in the source"),
            ("const float* x", "float* x", "type", "argument 1 'x' is const float* in the plan and float *"),
            (", int64_t n) {", ") {\n  const int64_t n = 64;", "type", "takes 3 arguments, the plan gives 4"),
            ("void scale", "void scales", "symbol", "the source defines no such kernel; the plan needs extern"),
            ('extern "C" ', "", "symbol", 'it has _Z5scalePKfS0_Pfl (is extern "C" missing?)'),
            ("__global__", "__device__", "symbol", "the code has no such kernel; it has none"),
            ("out[i] =", 'asm volatile("nonsense %0;" :: "f"(x[i])); out[i] =', "syntax", "ptxas: "),
            ("#include <cstdint>", "#include <iostream>", "include", "<cuda_fp16.h>"),
        ],
    )  # fmt: skip
    def test_faults_are_named(self, builder: Builder, old: str, new: str, kind: str, words: str) -> None:
        failure = self.refused(builder, GOOD.replace(old, new, 1))
        assert failure.kind == kind, failure
        assert words in failure.message
        if kind in ("syntax", "type", "include"):
            line = 1 if kind == "include" else 5 if kind == "syntax" else 3
            assert failure.location == f"kernel.cu:{line}"

    @pytest.mark.parametrize("integer", ["long", "long long", "int64_t"])
    def test_integers_agree_by_size_and_sign(self, builder: Builder, integer: str) -> None:
        self.built(builder, GOOD.replace("int64_t n", f"{integer} n"))

    @pytest.mark.parametrize("before", ["", "#include <math.h>\n", "#undef INFINITY\n#define INFINITY 1e30f\n"])
    def test_infinity_and_nan_need_no_header(self, builder: Builder, before: str) -> None:
        text = before + GOOD.replace("x[i] *", "(x[i] < INFINITY ? x[i] : NAN) *")
        self.built(builder, text)
        entry = cuda_entry.text(scale_problem(), self.candidate(text))
        assert entry.index("#define INFINITY") < entry.index("#define NAN") < entry.index('#include "kernel.cu"')

    def test_error_inside_a_header_names_the_author_s_line(self, builder: Builder) -> None:
        text = "#include <algorithm>\n" + GOOD.replace("{\n", "{\n  struct T {} a, b;\n  std::max(a, b);\n", 1)
        failure = self.refused(builder, text)
        assert (failure.kind, failure.location) == ("syntax", "kernel.cu:6")

    @pytest.mark.parametrize(
        ("text", "limits", "kinds"),
        [
            (ENDLESS, Limits(time_s=1.0), {"timeout"}),
            (HUNGRY, Limits(memory_bytes=700 << 20, time_s=60), {"memory", "compiler"}),
        ],
        ids=["endless", "hungry"],
    )
    def test_compiler_is_bounded(self, text: str, limits: Limits, kinds: set[str], tmp_path: Path) -> None:
        outcome = cuda.Cuda(limits).compile(scale_problem(), self.candidate(text), self.target(), tmp_path)
        assert isinstance(outcome, Failure)
        assert outcome.kind in kinds, outcome


def compiled(file: CudaFile, architecture: str, folder: Path) -> Artifact | Failure:
    return cuda.Cuda().compile(file.problem, file.candidate, cuda_target(architecture), folder)


RING = [(file, architecture) for file in files(KERNELS) for architecture in file.architectures]


@pytest.mark.parametrize(("file", "architecture"), RING, ids=[f"{f.path.stem}-{a}" for f, a in RING])
def test_kernels_of_every_kind_compile(file: CudaFile, architecture: str, tmp_path: Path) -> None:
    outcome = compiled(file, architecture, tmp_path)
    assert isinstance(outcome, Artifact), outcome
    built = cubin.read(Path(outcome.path))
    assert built.architecture == architecture.rstrip("a")
    assert outcome.entry == ""
    resources = {found.symbol: found for found in outcome.resources}
    for step in file.candidate.plan.steps:
        if step.kind == "kernel":
            kernel = built.kernel(step.symbol)
            assert kernel is not None
            wanted = [parameter_bytes(binding) for binding in step.arguments]
            assert [parameter.size_bytes for parameter in kernel.parameters] == wanted
            assert 1 <= resources[step.symbol].registers <= 255
            reported = re.search(rf"entry function '{step.symbol}'.*?Used (\d+) registers", outcome.log, re.DOTALL)
            assert reported is not None
            assert resources[step.symbol].registers == int(reported[1])


def resources_of(name: str, folder: Path) -> KernelResources:
    outcome = compiled(CudaFile(KERNELS / f"{name}.cu"), "sm_90a", folder)
    assert isinstance(outcome, Artifact), outcome
    return outcome.resources[0]


def test_resources_are_reported(tmp_path: Path) -> None:
    assert resources_of("transpose", tmp_path / "a").shared_bytes == 32 * 33 * 4
    spilling = resources_of("spilling", tmp_path / "b")
    assert spilling.registers <= 32
    assert spilling.spill_bytes > 100
    assert spilling.stack_bytes > 0


REFUSED = [file for file in files(CHEATS) if not file.needs_device]
FOR_A_DEVICE = [file for file in files(CHEATS) if file.needs_device]


@pytest.mark.parametrize("file", REFUSED, ids=[file.path.stem for file in REFUSED])
def test_tricks_are_refused_before_a_device_is_touched(file: CudaFile, tmp_path: Path) -> None:
    architecture = file.architectures[0] if len(file.architectures) == 1 else "sm_90a"
    outcome = compiled(file, architecture, tmp_path)
    assert isinstance(outcome, Failure), "the trick was built"
    assert outcome.kind in file.caught_by, outcome
    assert "root:" not in outcome.message + outcome.detail


@pytest.mark.parametrize("file", FOR_A_DEVICE, ids=[file.path.stem for file in FOR_A_DEVICE])
def test_tricks_for_a_device_can_be_built(file: CudaFile, tmp_path: Path) -> None:
    outcome = compiled(file, "sm_90a", tmp_path)
    assert isinstance(outcome, Artifact), outcome
    assert file.caught_by


def test_every_trick_says_what_catches_it() -> None:
    assert len(REFUSED) >= 25
    assert all(file.every("TRICK") and file.caught_by for file in files(CHEATS))


# --------------------------------------------------------------------- keys, options, nvcc

SCALE = TestCuda().candidate(GOOD)


def test_same_sources_give_the_same_bytes_anywhere(tmp_path: Path) -> None:
    outcomes = [cuda.Cuda().compile(scale_problem(), SCALE, cuda_target("sm_90a"), tmp_path / n) for n in ("a", "bb")]
    blobs = [outcome.blob for outcome in outcomes if isinstance(outcome, Artifact)]
    assert len(blobs) == 2
    assert blobs[0] == blobs[1]
    assert str(tmp_path).encode() not in (tmp_path / "a" / "kernel.cubin").read_bytes()


def test_line_tables_change_no_instruction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[tuple[bytes, object]] = []
    for always in (cuda.ALWAYS, ("--ptxas-options=-v",)):
        monkeypatch.setattr(cuda, "ALWAYS", always)
        folder = tmp_path / str(len(codes))
        assert isinstance(compiled(CudaFile(KERNELS / "row_softmax.cu"), "sm_90a", folder), Artifact)
        with (folder / "kernel.cubin").open("rb") as file:
            elf = ELFFile(file)
            code = elf.get_section_by_name(".text.softmax")
            assert code is not None
            codes.append((code.data(), elf.get_section_by_name(".debug_line")))
    assert codes[0][0] == codes[1][0]
    assert codes[0][1] is not None
    assert codes[1][1] is None


def test_key_depends_on_everything_that_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, language = scale_problem(), cuda.Cuda()
    step = SCALE.plan.steps[0]
    other_block = replace(step, launch=Launch(grid=(1, 1, 1), block=(128, 1, 1)))
    keys = [
        language.key(problem, SCALE, cuda_target("sm_90a")),
        language.key(problem, SCALE, cuda_target("sm_100")),
        language.key(problem, TestCuda().candidate(GOOD + "\n"), cuda_target("sm_90a")),
        language.key(problem, TestCuda().candidate(GOOD, fmad=False), cuda_target("sm_90a")),
        language.key(problem, replace(SCALE, plan=LaunchPlan(steps=(other_block,))), cuda_target("sm_90a")),
    ]
    newer = replace(device_probe.toolchain(), nvrtc="99.0")
    monkeypatch.setattr(device_probe, "toolchain", lambda: newer)
    keys.append(language.key(problem, SCALE, cuda_target("sm_90a")))
    assert all(isinstance(key, str) for key in keys)
    assert len(set(keys)) == len(keys)
    assert keys[0] != language.key(problem, replace(SCALE, author="somebody"), cuda_target("sm_80"))


def test_options_become_flags() -> None:
    flags = cuda.flags_for((("std", "c++20"), ("fast_math", True), ("fmad", False), ("max_registers", 64), ("opt", 1)))
    assert isinstance(flags, tuple)
    wanted = {"--std=c++20", "--use_fast_math", "--fmad=false", "--maxrregcount=64", "--ptxas-options=-O1"}
    assert set(flags) == wanted
    assert cuda.flags_for(()) == ("--std=c++17", "--ptxas-options=-O3")


@pytest.mark.parametrize(
    "option",
    [("std", "c++98"), ("opt", True), ("opt", 4), ("max_registers", 8), ("max_registers", 64.0), ("fmad", 0),
     ("compiler", "gcc")],
)  # fmt: skip
def test_option_values_are_held_to_their_type(option: tuple[str, OptionValue]) -> None:
    failure = cuda.flags_for((option,))
    assert isinstance(failure, Failure)
    assert repr(option[0]) in failure.message


def test_a_missing_compiler_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_probe, "toolchain", lambda: device_probe.Toolchain(fault="no module named cuda"))
    with pytest.raises(MissingTool) as caught:
        cuda.Cuda().key(scale_problem(), SCALE, cuda_target("sm_90a"))
    assert "no module named cuda" in caught.value.message
    assert "kernelwright[compile]" in caught.value.fix
    with pytest.raises(MissingTool, match="no nvcc"):
        cuda.Cuda().key(scale_problem(), TestCuda().candidate(GOOD, compiler="nvcc"), cuda_target("sm_90a"))


needs_nvcc = pytest.mark.skipif(not device_probe.toolchain().nvcc, reason="nvcc is optional and not here")


@needs_nvcc
def test_nvcc_is_the_same_language(tmp_path: Path) -> None:
    candidate = TestCuda().candidate(GOOD, compiler="nvcc")
    outcome = cuda.Cuda().compile(scale_problem(), candidate, cuda_target("sm_90a"), tmp_path)
    assert isinstance(outcome, Artifact), outcome
    TestCuda().check_artifact(outcome)


@needs_nvcc
@pytest.mark.parametrize(
    ("old", "new", "kind", "line"),
    [
        ("weight[i];", "weights[i];", "syntax", 5),
        ("float* out", "double* out", "type", 3),
        ("out[i] =", "out[i] = clock64() +", "clock", 5),
    ],
)
def test_nvcc_is_held_to_the_same(old: str, new: str, kind: str, line: int, tmp_path: Path) -> None:
    candidate = TestCuda().candidate(GOOD.replace(old, new), compiler="nvcc")
    outcome = cuda.Cuda().compile(scale_problem(), candidate, cuda_target("sm_90a"), tmp_path)
    assert isinstance(outcome, Failure)
    assert (outcome.kind, outcome.location) == (kind, f"kernel.cu:{line}"), outcome


def test_without_nvrtc_nvcc_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "toolchain", lambda: device_probe.Toolchain(nvcc="/usr/bin/nvcc", fault="no NVRTC"))
    assert cuda.compiler_of(SCALE) == "nvcc"


def test_a_compiler_that_cannot_load_its_library_ran_out_of_memory() -> None:
    log = "nvrtc: error: failed to open libnvrtc-builtins.so.13.4.\n  Make sure that it is installed correctly."
    file = files(KERNELS)[0]
    told = cuda_messages.failure(file.problem, file.candidate, 1, log, Limits(memory_bytes=700 << 20))
    assert told.kind == "memory"
    assert "700 MiB" in told.message
    assert "doctor" in told.message
