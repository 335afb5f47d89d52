"""What a sealed candidate cannot even try: the rows of tests/cheats/README.md that name a test of this file."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from tests.judge.kernel_files import QUICK, Kernel, Sessions, judged, kernels, reason

from kernelwright.types import Artifact, Candidate, SourceFile, replace

HONEST = next(k for k in kernels("honest") if k.path.stem == "double_sum")


def with_text(sessions: Sessions, text: str) -> Candidate:
    candidate = HONEST.candidate(sessions.judge("softmax").problem)
    return replace(candidate, sources=(SourceFile(path="kernel.cpp", text=text),))


def test_outputs_are_the_judges_own_memory(sessions: Sessions) -> None:
    text = """
    static float mine[64 * 256];
    extern "C" float* kernel(const float*, float*) { return mine; }
    """
    candidate = with_text(sessions, text)
    assert reason(next(sessions.judge("softmax").judge([candidate], QUICK))) == "written"


def test_own_symbols_replace_nothing(sessions: Sessions) -> None:
    shown = 'extern "C" __attribute__((visibility("default"))) '
    text = f"{shown} int clock_gettime(int, void*) {{ return 0; }}\n{shown} void* memcpy(void* to, const void*, long) "
    text += "{ return to; }\n" + HONEST.path.read_text()
    judge = sessions.judge("softmax")
    (built,) = judge._builder.build(judge.problem, [with_text(sessions, text)])
    assert isinstance(built, Artifact), built
    with Path(built.path).open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        shown_names = [s.name for s in table.iter_symbols() if s.name and s["st_shndx"] != "SHN_UNDEF"]
    assert shown_names == ["kw_entry"]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="sets the rounding mode of x86")
def test_what_a_kernel_leaves_behind_ends_with_its_process(sessions: Sessions) -> None:
    text = f"""
    #include <xmmintrin.h>
    #define kernel honest
    {HONEST.path.read_text()}
    #undef kernel
    extern "C" void kernel(const float* x, float* out) {{
      honest(x, out);
      _mm_setcsr(_mm_getcsr() | 0xe040);
    }}
    """
    judge = sessions.judge("softmax")
    _, after = judge.judge([with_text(sessions, text), HONEST.candidate(judge.problem)], QUICK)
    assert reason(after) == "passed"
    accuracy = next(check for check in judged(after).verdict.checks if check.name == "accuracy")
    share = float(accuracy.evidence.split("largest error ")[1].split()[0])
    assert share < 0.1, accuracy  # as exact as ever; rounded down it would not be


def test_every_cheat_stands_in_the_tables() -> None:
    page = (HONEST.path.parents[1] / "cheats" / "README.md").read_text()
    found: list[Kernel] = kernels("cheats")
    assert [k.path.stem for k in found if f"`{k.path.stem}`" not in page] == []
    here = Path(__file__).read_text()
    named = {word for word in page.split("`") if word.startswith("test_") and "/" not in word and word != "test_"}
    assert named
    assert all(f"def {name}(" in here for name in named)
