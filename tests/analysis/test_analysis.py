from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.languages.cuda_files import KERNELS, CudaFile

from kernelwright import cli
from kernelwright.analysis import KernelAnalysis, analyze, analyze_candidate, lines, ncu, read_launches, read_rules
from kernelwright.errors import MissingTool, UserError
from kernelwright.languages.source_build import compile_source
from kernelwright.store import Store
from kernelwright.testing.languages import scale_candidate, scale_problem


@pytest.fixture(autouse=True, scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELWRIGHT_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@functools.cache
def analysed(name: str, architecture: str = "sm_90a") -> KernelAnalysis:
    return analyze(KERNELS / f"{name}.cu", architecture=architecture).kernels[0]


def subjects(found: KernelAnalysis) -> set[str]:
    return {advice.subject for advice in found.advice}


def test_vectors_are_seen() -> None:
    found = analysed("vector_add")
    assert found.global_widths == (("load 16", 2), ("store 16", 1))
    assert all(access.sectors == access.fewest_sectors == 16 for access in found.accesses)
    assert subjects(found) == set()


def test_bank_conflicts_are_seen_with_their_line_and_padding_mends_them() -> None:
    bad, good = analysed("transpose_conflicts"), analysed("transpose")
    (advice,) = (advice for advice in bad.advice if advice.subject == "bank conflicts")
    assert advice.line == "transpose_conflicts.cu:8"
    assert "32 words" in advice.found
    assert "bank conflicts" not in subjects(good)
    assert {access.conflict_ways for access in good.accesses if access.space == "shared"} == {1}


def test_spills_are_seen() -> None:
    found = analysed("spilling")
    assert found.spill_bytes > 100
    assert found.advice[0].subject == "spills"
    assert found.advice[0].line.startswith("spilling.cu:")


@pytest.mark.parametrize(
    ("name", "architecture", "tensor", "bulk"),
    [
        ("mma_gemm", "sm_80", {"HMMA"}, set()),
        ("wgmma", "sm_90a", {"HGMMA"}, set()),
        ("tma_copy", "sm_90a", set(), {"UTMALDG", "UTMASTG"}),
        ("row_softmax", "sm_100", set(), set()),
    ],
)
def test_tensor_cores_and_bulk_copies_are_seen(name: str, architecture: str, tensor: set[str], bulk: set[str]) -> None:
    found = analysed(name, architecture)
    assert {instruction for instruction, _ in found.tensor_core} == tensor
    assert {instruction for instruction, _ in found.bulk_copies} == bulk


def test_older_tensor_core_instructions_are_named_on_newer_devices() -> None:
    assert "older tensor core" in subjects(analysed("mma_gemm", "sm_90a"))
    assert "older tensor core" not in subjects(analysed("mma_gemm", "sm_80"))


def test_mix_counts_every_instruction_once_and_barriers_are_counted() -> None:
    found = analysed("layer_norm")
    assert sum(count for _, count in found.mix) == found.instructions
    assert found.block_barriers == 4
    assert found.busiest_lines[0].line.startswith("layer_norm.cu:")
    assert [held.threads for held in found.occupancies] == [256]


def test_doubles_divisions_and_strides_are_named_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "slow.cu"
    file.write_text(
        'extern "C" __global__ void slow(const float* x, float* out, int n) {\n'
        "  int i = threadIdx.x / n;\n"
        "  double v = x[threadIdx.x * 32] * 1.5;\n"
        "  out[threadIdx.x] = v + i;\n}\n"
    )
    found = analyze(file, architecture="sm_90a", block=256).kernels[0]
    by_subject = {advice.subject: advice.line for advice in found.advice}
    assert by_subject["integer division"] == "slow.cu:2"
    assert by_subject["uncoalesced"] == "slow.cu:3"
    assert by_subject["double precision"].startswith("slow.cu:")


def test_a_cubin_is_analysed_as_it_is(tmp_path: Path) -> None:
    built = compile_source(KERNELS / "layer_norm.cu", architecture="sm_80")
    found = analyze(Path(built.cubin), architecture="sm_80").kernels[0]
    assert found.registers == analysed("layer_norm", "sm_80").registers
    assert [held.threads for held in found.occupancies] == [128, 256, 512, 1024]


def test_a_candidate_of_a_store_is_analysed(tmp_path: Path) -> None:
    file = CudaFile(KERNELS / "copy_async.cu")
    with Store(tmp_path / "store.sqlite") as store:
        store.put(file.problem)
        key = store.put(file.candidate)
    done = CliRunner().invoke(cli.cli, ["analyze", key, "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    (kernel,) = json.loads(done.output)["kernels"]
    assert kernel["symbol"] == "twice"
    assert kernel["registers"] == analysed("copy_async").registers
    assert kernel["occupancies"][0]["threads"] == 256


def test_candidates_of_the_cpu_are_refused() -> None:
    with pytest.raises(UserError, match="runs on the CPU"):
        analyze_candidate(scale_problem(), scale_candidate("cpp", ""), architecture="sm_90a")


@pytest.mark.parametrize(
    ("name", "text", "architecture", "words"),
    [
        ("k.txt", "", "sm_90a", "no CUDA source"),
        ("k.cubin", "not an ELF file", "sm_90a", "no whole cubin"),
        ("k.cu", 'extern "C" __global__ void k(float* o) { o[0] = y; }', "sm_90a", r'k.cu:1: identifier "y"'),
        ("k.cu", "", "sm_12", "no architecture"),
        ("k.cu", '#include "/etc/passwd"', "sm_90a", "absolute paths"),
    ],
)  # fmt: skip
def test_what_cannot_be_analysed_says_why(name: str, text: str, architecture: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=words):
        analyze(tmp_path / name, architecture=architecture)


def test_text_names_what_was_found() -> None:
    text = "\n".join(lines(analyze(KERNELS / "transpose_conflicts.cu", architecture="sm_90a")))
    for words in (
        "transpose on sm_90a",
        "no spills",
        "1024 threads: 2 blocks",
        "not used (no TMA)",
        "try [bank conflicts]",
    ):
        assert words in text


# --------------------------------------------------------------------------------- ncu

RECORDED = Path(__file__).with_name("ncu.csv").read_text()


def test_ncu_s_rules_are_read_with_their_estimated_gains() -> None:
    rules = read_rules(RECORDED)
    assert [(rule.name, rule.speedup_percent) for rule in rules] == [
        ("TheoreticalOccupancy", 83.1), ("LaunchConfiguration", 51.52), ("AchievedOccupancy", None),
    ]  # fmt: skip
    assert rules[1].text.endswith("which is less than the 132 multiprocessors.")
    assert {rule.kernel for rule in rules} == {"gemm"}
    assert read_rules("nothing at all") == ()


def test_ncu_s_times_are_read_in_every_unit() -> None:
    launches = read_launches(RECORDED)
    assert [launch.kernel for launch in launches] == ["gemm", "gemm"]
    assert [launch.duration_us for launch in launches] == pytest.approx([1210.56, 3.52])
    assert [launch.memory_bytes_per_s for launch in launches] == pytest.approx([3.12e12, 812.5e9])
    assert read_launches("nothing at all") == ()
    unknown = RECORDED.replace('"us"', '"cycle"').replace('"Tbyte/s"', '"furlong"')
    assert (read_launches(unknown)[0].duration_us, read_launches(unknown)[0].memory_bytes_per_s) == (None, None)


def fake_ncu(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts an ncu of the test's own before all others on PATH."""
    fake = folder / "ncu"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_a_profile_leaves_the_clocks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Path(__file__).with_name("ncu.csv")
    fake_ncu(tmp_path, monkeypatch, f'printf "%s\\n" "$@" > {tmp_path}/asked\ncat {recorded}')
    found = ncu.profile(["./run", "--size", "3"])
    assert (len(found.rules), len(found.launches)) == (3, 2)
    asked = (tmp_path / "asked").read_text().split("\n")
    assert asked[asked.index("--clock-control") + 1] == "none"
    assert asked[-4:] == ["./run", "--size", "3", ""]


SCALE = 'extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= 2.0f; }'


def test_a_profile_is_printed_behind_the_analysis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "scale.cu"
    source.write_text(SCALE)
    fake_ncu(tmp_path, monkeypatch, f"cat {Path(__file__).with_name('ncu.csv')}")
    said = CliRunner().invoke(cli.cli, ["analyze", str(source), "--profile", "./run"])
    assert said.exit_code == 0, said.output
    assert "ncu gemm: 1210.6 us, 3120 GB/s to and from memory" in said.output
    assert said.output.index("registers") < said.output.index("ncu gemm") < said.output.index("about 83 %")
    told = CliRunner().invoke(cli.cli, ["analyze", str(source), "--profile", "./run", "--json"])
    data = json.loads(told.stdout)
    assert (len(data["profile"]), len(data["launches"])) == (3, 2)


def test_without_counters_the_analysis_is_printed_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "scale.cu"
    source.write_text(SCALE)
    fake_ncu(tmp_path, monkeypatch, "echo '==ERROR== ERR_NVGPUCTRPERM - no permission'; exit 1")
    said = CliRunner().invoke(cli.cli, ["analyze", str(source), "--profile", "./run"])
    assert isinstance(said.exception, UserError)
    assert "next best sources" in str(said.exception)
    assert "registers" in said.output


def test_without_ncu_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingTool, match="there is no ncu"):
        ncu.profile(["true"])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "does not permit reading"),
        ("==WARNING== No kernels were profiled.", "saw no kernel"),
        ("==ERROR== Failed to load libcuda.so.1", "no driver"),
    ],
)
def test_what_ncu_refuses_is_said_clearly(
    said: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_ncu(tmp_path, monkeypatch, f"echo '{said}'\nexit 1")
    with pytest.raises(UserError, match=words):
        ncu.profile(["true"])
