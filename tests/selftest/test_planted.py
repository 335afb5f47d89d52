"""The list of planted bugs: read strictly, made anew by the mutation tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.errors import KernelwrightError, UserError
from kernelwright.selftest import kernel_files
from kernelwright.selftest.kernel_files import kernels
from kernelwright.selftest.planted import planted

KERNEL = """\
// PROBLEM: odd_softmax
extern "C" void kernel(const float* x, float* out) {
  for (int i = 0; i < 173; ++i) out[i] = x[i];
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "copy.cpp").write_text(KERNEL)
    return tmp_path


def test_a_line_is_one_mutant_with_its_reasons(folder: Path) -> None:
    line = "copy.cpp:3:23 dropped-tail: for (int i = 0; i < 173 - 1; ++i) out[i] = x[i]; | written, accuracy, threads"
    (folder / "caught.txt").write_text(f"# a comment\n\n{line}\n")
    (bug,) = planted(folder=folder)
    assert bug.name == "copy.cpp:3:23 dropped-tail"
    assert bug.reasons == ("written", "accuracy", "threads")
    assert bug.kernel.problem == "odd_softmax"
    (source,) = bug.candidate().sources
    assert source.text == KERNEL.replace("173", "173 - 1")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("copy.cpp:3:23 dropped-tail: for (;;) | written", "has no such mutant any more"),
        ("copy.cpp:9:23 dropped-tail: x | written", "has no such mutant any more"),
        ("copy.cpp dropped-tail", "no line of the list"),
    ],
)
def test_a_line_that_names_no_mutant_is_an_error(folder: Path, line: str, words: str) -> None:
    (folder / "caught.txt").write_text(line + "\n")
    with pytest.raises(KernelwrightError, match=words):
        planted(folder=folder)


def test_a_corpus_that_is_not_there_is_the_users_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_files, "CORPUS", tmp_path)
    with pytest.raises(UserError, match="the corpus is not installed") as caught:
        kernels("cheats")
    assert "checkout" in caught.value.fix
