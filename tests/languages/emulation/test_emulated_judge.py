"""CUDA C++ judged without a GPU: honest kernels pass, cheats and planted bugs do not, and faults have names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright import api
from kernelwright.errors import UserError
from kernelwright.judge.policies import EMULATED_SCREEN, policies_for
from kernelwright.languages import detect_target, emulated_target
from kernelwright.mutation import mutants
from kernelwright.selftest.kernel_files import CORPUS, Kernel, judged, kernel_of, kernels, reason
from kernelwright.selftest.sessions import Sessions
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import Candidate, Failure, Launch, LaunchPlan, Record, SourceFile, digest, replace

QUICK = replace(
    EMULATED_SCREEN, name="quick", families=("given", "nonfinite", "constant", "large"), call_deadline_s=10.0,
    hidden_shapes=2,
)  # fmt: skip
HONEST = kernels("honest_cuda", suffix=".cu")
NEEDS_A_DEVICE = {
    "barrier_that_nobody_reaches": "inline PTX",
    "cooperative_grid_too_large": "a cooperative launch",
    "endless": "ended by the runner's deadline, which test_runner.py tests",
}
CHEATS = [
    kernel
    for kernel in kernels("cheats_cuda", suffix=".cu")
    if kernel.said("WHERE") == "device" and kernel.path.stem not in NEEDS_A_DEVICE
]
OTHER_WORDS = {
    "timed outputs": ("later outputs",),
    "inputs unchanged": ("input-written",),
    "racecheck": ("race",),
    "memory": ("signal", "out-of-bounds"),
    "accuracy": ("non-finite",),
}
"""What the emulated judge calls what a device's judge calls otherwise."""
OPERATORS = ("missing-barrier", "wrong-broadcast", "dropped-write", "lost-accumulation", "race", "deleted-statement")
HEAD = "// kernelwright-launch: kernel grid=64 block=256\n"
KERNEL = 'extern "C" __global__ void kernel(const float* x, float* out) {{\n{body}\n}}\n'
FAULTS = {
    "barrier": "if (threadIdx.x < 100) __syncthreads();",
    "mask": "if (threadIdx.x % 2) out[0] = __shfl_sync(0x55555555u, x[0], 0);",
    "misaligned": "reinterpret_cast<float4*>(out + 1)[threadIdx.x] = make_float4(0, 0, 0, 0);",
    "out-of-bounds": "__shared__ float a[8]; a[threadIdx.x] = x[threadIdx.x]; out[threadIdx.x] = a[threadIdx.x];",
    "race": "__shared__ float a[256]; a[threadIdx.x] = x[threadIdx.x]; out[threadIdx.x] = a[255 - threadIdx.x];",
    "trap": "if (x[0] == x[0] || x[0] != x[0]) __trap();",
    "resources": "__shared__ float a[13000]; a[threadIdx.x] = 0; out[threadIdx.x] = a[threadIdx.x];",
    "state": "static int calls; out[threadIdx.x] = ++calls;",
    "memory": "float* p = static_cast<float*>(malloc(64)); out[threadIdx.x] = p[0]; free(p);",
    "emulation": 'asm volatile("membar.gl;" ::: "memory");',
}


@pytest.fixture(scope="module")
def sessions() -> Iterator[Sessions]:
    opened = Sessions(replace(emulated_target(), cache_bytes=1 << 16, threads=2))
    yield opened
    opened.close()


def by_problem(found: list[Kernel]) -> dict[str, list[Kernel]]:
    return {name: [k for k in found if k.problem == name] for name in sorted({k.problem for k in found})}


def judge(sessions: Sessions, problem: str, found: list[Kernel]) -> list[Record]:
    return sessions.records(problem, [kernel.candidate(make_problem(problem)) for kernel in found], QUICK)


@pytest.mark.parametrize("problem", by_problem(HONEST))
def test_honest_kernels_pass(problem: str, sessions: Sessions) -> None:
    found = by_problem(HONEST)[problem]
    for kernel, record in zip(found, judge(sessions, problem, found), strict=True):
        assert reason(record) == "passed", (kernel.path.stem, record.outcome)
        assert judged(record).measurements == ()
        assert any(note.startswith("emulated:") for note in judged(record).notes)


@pytest.mark.parametrize("problem", by_problem(CHEATS))
def test_cheats_of_devices_are_caught(problem: str, sessions: Sessions) -> None:
    found = by_problem(CHEATS)[problem]
    for kernel, record in zip(found, judge(sessions, problem, found), strict=True):
        allowed = {*kernel.reasons, *(word for said in kernel.reasons for word in OTHER_WORDS.get(said, ()))}
        assert reason(record) in allowed, (kernel.path.stem, record.outcome)


@pytest.mark.parametrize(("name", "count"), [("softmax.cu", 12), ("scatter_add.cu", 4), ("transpose_add.cu", 3)])
def test_planted_bugs_are_caught(name: str, count: int, sessions: Sessions) -> None:
    kernel = kernel_of(CORPUS / "mutants" / "kernels" / name)
    original = kernel.candidate(make_problem(kernel.problem))
    bugs = mutants(SourceFile(path=name, text=kernel.path.read_text()), "cuda", operators=OPERATORS)
    assert len(bugs) >= count
    broken = [replace(original, sources=(replace(original.sources[0], text=bug.source.text),)) for bug in bugs]
    first, *records = sessions.records(kernel.problem, [original, *broken], QUICK)
    assert reason(first) == "passed", first.outcome
    assert [bug.name for bug, record in zip(bugs, records, strict=True) if record.passed] == []


def made(body: str) -> Candidate:
    like = next(kernel for kernel in HONEST if kernel.path.stem == "softmax_block")
    candidate = like.candidate(make_problem("softmax"))
    text = HEAD + KERNEL.format(body=body)
    step = replace(candidate.plan.steps[0], symbol="kernel")
    sources = (SourceFile(path="kernel.cu", text=text),)
    return replace(candidate, sources=sources, plan=LaunchPlan(steps=(step,)))


def test_faults_have_names(sessions: Sessions) -> None:
    records = sessions.records("softmax", [made(body) for body in FAULTS.values()], QUICK)
    assert {name: reason(record) for name, record in zip(FAULTS, records, strict=True)} == {n: n for n in FAULTS}
    barrier = records[0].outcome
    assert isinstance(barrier, Failure)
    assert "line 3" in barrier.message


def test_only_cuda_is_emulated_and_nothing_is_optimized_for_it(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cpp"
    kernel.write_text('extern "C" void kernel(const float* scores, float* out) {}\n')
    with pytest.raises(UserError, match=r"only CUDA C\+\+"):
        api.judge_kernel("softmax", kernel, device="emulated")
    with pytest.raises(UserError, match="tells no times"):
        api.optimize("softmax", device="emulated")


def test_emulated_records_are_never_a_cpu_kernels() -> None:
    assert digest(emulated_target()) != digest(detect_target())
    assert all(policy.rounds == 0 and not policy.baselines for policy in policies_for(emulated_target()).values())


def test_what_only_a_device_has_is_refused_by_name(sessions: Sessions) -> None:
    candidate = made("out[threadIdx.x] = x[threadIdx.x];")
    for launch, word in (
        (Launch(grid=(64, 1, 1), block=(256, 1, 1), cluster=(2, 1, 1)), "clusters"),
        (Launch(grid=(64, 1, 1), block=(256, 1, 1), cooperative=True), "cooperative launches"),
    ):
        step = replace(candidate.plan.steps[0], launch=launch)
        record = sessions.records("softmax", [replace(candidate, plan=LaunchPlan(steps=(step,)))], QUICK)[0]
        assert isinstance(record.outcome, Failure)
        assert record.outcome.kind == "emulation"
        assert word in record.outcome.message
