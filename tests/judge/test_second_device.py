"""Finalists on the emulated device: what hardware lets pass is found there, and what cannot be emulated is a note."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelwright.judge import Judge
from kernelwright.judge.second_device import MOST_ELEMENTS, SecondDevice, read
from kernelwright.languages import emulated_target
from kernelwright.mutation import mutants
from kernelwright.selftest.kernel_files import CORPUS, kernel_of
from kernelwright.selftest.small_problems import make_problem
from kernelwright.types import KILLED, Candidate, Check, Failure, Problem, Record, replace

FOLDER = CORPUS / "mutants" / "kernels"
LET_PASS = (
    "softmax.cu:26:3 missing-barrier",
    "matmul.cu:15:5 missing-barrier",
    "rms_norm.cu:11:74 wrong-reduction",
    "rowmax.cu:19:7 unmasked-access",
)
"""Bugs that an H200 computes right results with, time after time."""


@pytest.fixture(scope="module")
def second() -> Iterator[SecondDevice]:
    made = SecondDevice(lambda problem: Judge(problem, replace(emulated_target(), cache_bytes=1 << 16)))
    yield made
    made.close()


def original(name: str) -> tuple[Problem, Candidate]:
    kernel = kernel_of(FOLDER / name)
    problem = make_problem(kernel.problem)
    return problem, kernel.candidate(problem)


@pytest.mark.parametrize("bug", LET_PASS)
def test_bugs_that_hardware_forgives_are_found(second: SecondDevice, bug: str) -> None:
    problem, candidate = original(bug.partition(":")[0])
    (mutant,) = (m for m in mutants(candidate.sources[0], "cuda") if m.name == bug)
    found = second.check(problem, replace(candidate, sources=(mutant.source,)))
    assert isinstance(found, Check)
    assert not found.passed, found.evidence


def test_a_right_kernel_passes(second: SecondDevice) -> None:
    found = second.check(*original("softmax.cu"))
    assert isinstance(found, Check)
    assert found.passed, found.evidence


def test_what_cannot_be_emulated_is_a_note(second: SecondDevice) -> None:
    problem, candidate = original("softmax.cu")
    text = candidate.sources[0].text.replace("const int t", 'asm volatile("bar.sync 1;");\n  const int t')
    assert "did not run: build" in str(second.check(problem, _with_text(candidate, text)))
    assert "it is for CUDA C++" in str(second.check(problem, replace(candidate, language="triton")))
    wide = replace(problem, inputs=(replace(problem.inputs[0], shape=(MOST_ELEMENTS, 2)),))
    assert "elements" in str(second.check(wide, candidate))


@pytest.mark.parametrize("kind", ["timeout", KILLED])
def test_a_slow_machine_finds_nothing(kind: str) -> None:
    failure = Failure(stage="run", kind=kind, message="longer than 20 s")
    assert isinstance(read(Record(problem="p", candidate="c", target="t", policy="q", outcome=failure)), str)


def _with_text(candidate: Candidate, text: str) -> Candidate:
    return replace(candidate, sources=(replace(candidate.sources[0], text=text),))
