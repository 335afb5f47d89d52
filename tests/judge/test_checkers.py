"""Memory and race checkers: what they find is told with file and line, and honest kernels raise no alarm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.judge.kernel_files import QUICK, Kernel, Sessions, judged, kernels

from kernelwright.judge import checked_program
from kernelwright.judge.checker_reports import Placed, buffers_of, evidence
from kernelwright.types import Check, replace

CHECKERS = ("address", "undefined", "thread")
CHECKED = replace(QUICK, name="checked", families=("given",), rounds=2, memory_checkers=CHECKERS)
CHEATS = sorted(kernels("cheats/checked"), key=lambda kernel: kernel.problem)
PROMPT = ("openmp_all", "tasks", "own_allocation", "streaming_stores", "two_steps", "own_workspace")
"""Honest kernels of one problem that use what checkers have trouble with."""
HONEST = sorted(kernels("honest"), key=lambda kernel: kernel.problem)
"""Problem by problem: turning to another draws inputs anew, and compares with its reference."""


@pytest.fixture(scope="module")
def own_sessions() -> Iterator[Sessions]:
    made = Sessions()
    yield made
    made.close()


def checks(sessions: Sessions, kernel: Kernel) -> dict[str, Check]:
    judge = sessions.judge(kernel.problem)
    (record,) = judge.judge([kernel.candidate(judge.problem)], CHECKED)
    outcome = judged(record)
    assert not [note for note in outcome.notes if note.startswith("checker")], outcome.notes
    if not outcome.verdict.passed:
        assert (outcome.measurements, outcome.comparisons) == ((), ())
    return {check.name: check for check in outcome.verdict.checks}


def missing() -> list[str]:
    """Returns notes on checkers that this machine's compiler does not bring."""
    return [found for name in CHECKERS if isinstance(found := checked_program(name), str)]


@pytest.fixture(autouse=True)
def _needs_checkers(request: pytest.FixtureRequest) -> None:
    if "own_sessions" in request.fixturenames and (notes := missing()):
        pytest.skip("; ".join(notes))


@pytest.mark.parametrize("kernel", CHEATS, ids=lambda k: k.path.stem)
def test_fault_without_harm_is_found(kernel: Kernel, own_sessions: Sessions) -> None:
    found = checks(own_sessions, kernel)
    wanted = found[kernel.said("CAUGHT BY")]
    assert not wanted.passed, found
    if kernel.path.stem != "checker_off":
        assert "kernel.cpp:" in wanted.evidence


@pytest.mark.parametrize("kernel", [k for k in HONEST if k.path.stem in PROMPT], ids=lambda k: k.path.stem)
def test_honest_kernel_raises_no_alarm(kernel: Kernel, own_sessions: Sessions) -> None:
    assert all(check.passed for check in checks(own_sessions, kernel).values())


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [k for k in HONEST if k.path.stem not in PROMPT], ids=lambda k: k.path.stem)
def test_no_honest_kernel_raises_an_alarm(kernel: Kernel, own_sessions: Sessions) -> None:
    assert all(check.passed for check in checks(own_sessions, kernel).values())


# ------------------------------------------------------------------------------------------------- what is read

PRINTED = "buffer x 0x1000 64\nbuffer out 0x2000 16\nbuffer x 0x3000 64\nbuffer out 0x4000 16\n"
BEYOND = """\
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x3044 at pc 0x7f bp 0x7f sp 0x7f
READ of size 4 at 0x3044 thread T1
    #0 0x7ffff7670271 in kernel._omp_fn.0 /home/u/.building/a/b/sources/kernel.cpp:13
    #1 0x7ffff77d4d8d  (/lib/x86_64-linux-gnu/libgomp.so.1+0x1cd8d)
"""
NULL = """\
AddressSanitizer:DEADLYSIGNAL
==7==ERROR: AddressSanitizer: SEGV on unknown address 0x000000000000 (pc 0x7f bp 0x7f sp 0x7f T0)
    #0 0x7fd1 in kernel /x/sources/part/kernel.cpp:9
"""
OVERFLOW = (
    "kernel.cpp:14:18: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'\n"
)
RACE = """\
WARNING: ThreadSanitizer: data race (pid=574)
  Read of size 4 at 0x9000 by main thread:
    #0 kernel._omp_fn.0 /x/sources/kernel.cpp:18 (lib.so+0x1227)
    #1 work /x/checked_runner.cpp:95 (program+0x5d76)

  Previous write of size 8 at 0x9000 by thread T1:
    #0 kernel._omp_fn.0 /x/sources/kernel.cpp:14 (lib.so+0x11c8)

  Location is global 'biggest' of size 256 at 0x9000 (lib.so+0x40e0)
"""
ON_HEAP = RACE.replace("0x9000", "0x400c").replace("global 'biggest'", "heap block")


def test_buffers_are_those_of_the_last_call() -> None:
    assert buffers_of(PRINTED) == (Placed("x", 0x3000, 64), Placed("out", 0x4000, 16))


@pytest.mark.parametrize(
    ("checker", "report", "words"),
    [
        ("address", BEYOND, "kernel.cpp:13: reads 4 bytes 4 bytes after the end of x (heap buffer overflow)"),
        ("address", BEYOND.replace("0x3044", "0x2ffc"), "kernel.cpp:13: reads 4 bytes 4 bytes before x"),
        ("address", NULL, "part/kernel.cpp:9: SEGV"),
        ("undefined", OVERFLOW, "kernel.cpp:14: signed integer overflow: 2147483647 + 1"),
        ("thread", RACE, "two threads meet at biggest and nothing orders them: kernel.cpp:18: read of 4 bytes; "
                         "kernel.cpp:14: write of 8 bytes"),
        ("thread", ON_HEAP, "two threads meet at byte 12 of out"),
    ],
)  # fmt: skip
def test_reports_become_one_line(checker: str, report: str, words: str) -> None:
    found = evidence(checker, report, buffers_of(PRINTED))
    assert found is not None
    assert found.startswith(words)


def test_a_report_without_a_finding_is_none() -> None:
    for checker in CHECKERS:
        assert evidence(checker, "something else\n", ()) is None


def test_unknown_checkers_are_noted() -> None:
    assert checked_program("racecheck") == "checker racecheck: there is none of this name for the CPU"
