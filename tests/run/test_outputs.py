from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.search.fake_judge import CAPTURE, PROBLEM, TARGET, FakeParts

from kernelwright import codec
from kernelwright.errors import KernelwrightError, UserError
from kernelwright.languages import candidate_from_file
from kernelwright.run import Result, Row, optimize
from kernelwright.run.outputs import write_best
from kernelwright.run.result import Answer
from kernelwright.store import Store
from kernelwright.testing.strategies import fake_record
from kernelwright.types import Binding, Candidate, LaunchPlan, SourceFile, Step, Workspace, digest, replace

KERNEL = """#include "deep/simd.hpp"
extern "C" void first(const float* x, float* partial, int64_t rows) {}
extern "C" void second(const float* partial, float* out, float scale) {}
"""
PLAN = LaunchPlan(
    steps=(
        Step(
            symbol="first",
            arguments=(
                Binding(kind="tensor", name="x", ctype="float"),
                Binding(kind="workspace", name="partial", ctype="float"),
                Binding(kind="scalar", name="rows", ctype="int64_t", scalar=8),
            ),
        ),
        Step(
            symbol="second",
            arguments=(
                Binding(kind="workspace", name="partial", ctype="float"),
                Binding(kind="tensor", name="out", ctype="float"),
                Binding(kind="scalar", name="scale", ctype="float", scalar=0.5),
            ),
        ),
    ),
    workspaces=(Workspace(name="partial", size_bytes=256),),
)
CANDIDATE = Candidate(
    problem=digest(PROBLEM),
    language="cpp",
    sources=(
        SourceFile(path="kernel.cpp", text=KERNEL),
        SourceFile(path="deep/simd.hpp", text="#include <cstdint>\n"),
    ),
    plan=PLAN,
    options=(("opt", "O2"), ("unroll_loops", True)),
    template="two passes",
    point=(("tile", 64), ("stream", False)),
)


@pytest.fixture
def result(tmp_path: Path) -> Result:
    with Store(tmp_path / "kept.sqlite") as store:
        found = optimize(CAPTURE, TARGET, store=store, budget_s=0.0, parts=FakeParts().parts(), seed=0)
    record = fake_record(CANDIDATE, "k1:report", 100.0, target=digest(TARGET))
    row = Row(candidate=CANDIDATE, records=(("report", record),))
    return replace(found, best=CANDIDATE, report=record, answer="kernel", rows=(row, *found.rows))


def test_the_kernel_can_be_judged_again_as_it_lies_there(result: Result, tmp_path: Path) -> None:
    folder = write_best(result, tmp_path / "out")
    assert folder == tmp_path / "out" / "best"
    again = candidate_from_file(PROBLEM, folder / "kernel.cpp")
    assert again.plan == CANDIDATE.plan
    assert again.options == CANDIDATE.options
    assert again.sources[0].text.endswith(KERNEL)
    assert again.sources[1] == CANDIDATE.sources[1]
    assert "10.00x against eager" in again.sources[0].text.splitlines()[0]


def test_what_was_written_can_be_written_again_with_one_plan(result: Result, tmp_path: Path) -> None:
    folder = write_best(result, tmp_path)
    assert folder
    person = candidate_from_file(PROBLEM, folder / "kernel.cpp")
    row = replace(result.rows[0], candidate=person)
    folder = write_best(replace(result, best=person, rows=(row,)), tmp_path)
    assert folder
    assert candidate_from_file(PROBLEM, folder / "kernel.cpp").plan == PLAN


def test_the_evidence_is_the_record_with_what_it_belongs_to(result: Result, tmp_path: Path) -> None:
    folder = write_best(result, tmp_path)
    assert folder
    evidence: dict[str, Any] = json.loads((folder / "evidence.json").read_text())
    assert codec.from_data(evidence["record"]) == result.report
    assert codec.from_data(evidence["target"]) == TARGET
    assert codec.from_data(evidence["problem"]) == PROBLEM
    assert codec.from_data(evidence["policy"]) == result.policy
    assert evidence["candidate"] == digest(CANDIDATE)
    plan = json.loads((folder / "plan.json").read_text())
    assert codec.from_data(plan["plan"]) == PLAN


@pytest.mark.parametrize("answer", ["baseline", "undecided"])
def test_a_kernel_that_is_not_the_answer_is_a_runner_up(result: Result, tmp_path: Path, answer: Answer) -> None:
    best = write_best(result, tmp_path)
    assert best
    second = write_best(replace(result, answer=answer), tmp_path)
    assert second == tmp_path / "runner-up"
    assert not best.exists()
    assert json.loads((second / "evidence.json").read_text())["answer"] == answer
    assert write_best(result, tmp_path) == best
    assert not second.exists()
    assert write_best(replace(result, best=None, report=None, answer="undecided"), tmp_path) is None
    assert list(tmp_path.glob("*/evidence.json")) == []


def test_files_of_somebody_else_are_left_alone(result: Result, tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "thesis.txt").write_text("important")
    with pytest.raises(UserError, match="did not write"):
        write_best(result, tmp_path)
    assert (tmp_path / "best" / "thesis.txt").read_text() == "important"
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        write_best(result, tmp_path / "file")


def test_a_source_cannot_be_written_outside_the_folder(result: Result, tmp_path: Path) -> None:
    evil = replace(CANDIDATE, sources=(*CANDIDATE.sources, SourceFile(path="../../x", text="")))
    row = replace(result.rows[0], candidate=evil)
    with pytest.raises(KernelwrightError, match="leads out"):
        write_best(replace(result, best=evil, rows=(row,)), tmp_path)


def test_a_witnessed_kernel_is_python_with_a_warning(result: Result, tmp_path: Path) -> None:
    text = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n"
    sources = (SourceFile(path="kernel.py", text=text),)
    witnessed = replace(CANDIDATE, language="python", sources=sources, plan=LaunchPlan(steps=()), options=())
    row = replace(result.rows[0], candidate=witnessed)
    folder = write_best(replace(result, best=witnessed, rows=(row,)), tmp_path / "witnessed")
    assert folder
    written = (folder / "kernel.py").read_text()
    assert written.endswith(text)
    assert "witnessed, not sealed" in written
    compile(written, "kernel.py", "exec")
    assert candidate_from_file(PROBLEM, folder / "kernel.py").witnessed
