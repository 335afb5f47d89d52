"""The parent's side: order, faults that cost one candidate only, records, baselines, lightness."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from tests.judge.kernel_files import QUICK, Sessions, judged, kernels, make_problem

from kernelwright.codec import dumps, loads
from kernelwright.errors import SourceError
from kernelwright.judge import Judge, judge
from kernelwright.process import Worker
from kernelwright.types import (
    Binding,
    Candidate,
    Failure,
    LaunchPlan,
    Measurement,
    SourceFile,
    Step,
    TensorSpec,
    digest,
    replace,
)

HONEST = {k.path.stem: k for k in kernels("honest")}
CHEATS = {k.path.stem: k for k in kernels("cheats")}


def test_records_come_in_order_and_faults_cost_only_their_candidate(sessions: Sessions) -> None:
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    broken = replace(good, sources=(SourceFile(path="kernel.cpp", text='extern "C" void kernel(;\n'),))
    crash = CHEATS["crash"].candidate(session.problem)
    records = list(session.judge([broken, crash, good], QUICK))
    assert [r.candidate for r in records] == [digest(c) for c in (broken, crash, good)]
    assert [r.outcome.stage for r in records[:2] if isinstance(r.outcome, Failure)] == ["build", "run"]
    assert records[2].passed
    for record in records:
        assert record.problem == digest(session.problem)
        assert record.policy == digest(QUICK)
        assert record.target == digest(sessions.target)
        assert record.duration_s > 0
        assert loads(dumps(record)) == record


def test_a_wrong_kernel_is_told_before_anything_else_is_prepared(sessions: Sessions) -> None:
    heard: list[Any] = []
    problem = make_problem("softmax")
    good = HONEST["single_thread"].candidate(problem)
    typo = replace(good, sources=(SourceFile(path="kernel.cpp", text='extern "C" void kernel(;\n'),))
    with Judge(problem, sessions.target, on_event=heard.append) as judge:
        (record,) = judge.judge([typo], QUICK)
        assert isinstance(record.outcome, Failure)
        assert judge._worker is None  # nothing was loaded for it
        (record,) = judge.judge([CHEATS["zeros"].candidate(problem)], QUICK)
        assert not record.passed
        assert [event for event in heard if "baseline" in event] == []
        assert judge._prepared == set()


def test_a_dead_worker_is_replaced(sessions: Sessions) -> None:
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    assert next(session.judge([good], QUICK)).passed
    assert session._worker is not None
    session._worker.process.kill()
    assert next(session.judge([good], QUICK)).passed


def test_a_worker_that_dies_before_any_candidate_ran_is_not_our_fault(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Worker.request

    def killed(worker: Worker, verb: str, /, **arguments: Any) -> Any:
        if verb == "open":
            worker.process.kill()
        return request(worker, verb, **arguments)

    monkeypatch.setattr(Worker, "request", killed)
    with (
        Judge(sessions.judge("softmax").problem, sessions.target) as judge,
        pytest.raises(SourceError, match=r"could not be prepared: .*SIGKILL.*smaller shapes"),
    ):
        judge.prepare(QUICK)


def test_nothing_of_one_candidate_is_left_for_the_next(sessions: Sessions) -> None:
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    lazy = CHEATS["stale_output"].candidate(session.problem)
    passed, failed = list(session.judge([good, lazy], QUICK))
    assert passed.passed
    assert not failed.passed
    assert "never written" in judged(failed).verdict.checks[-1].evidence


def test_baselines_alone_and_one_that_does_not_exist_here(sessions: Sessions) -> None:
    session = sessions.judge("rowmax")
    found = session.baselines(QUICK)
    assert [type(m) for m in found] == [Measurement]
    assert found[0].contender == "eager"
    assert 0 < found[0].low_us <= found[0].median_us <= found[0].high_us
    broken = replace(QUICK, name="broken", baselines=("eager", "compile:no-such-mode"))
    good = HONEST["backward_max"].candidate(session.problem)
    record = next(session.judge([good], broken))
    assert record.passed
    assert any("compile:no-such-mode unavailable" in note for note in judged(record).notes)


def test_families_that_do_not_apply_are_noted(sessions: Sessions) -> None:
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    assert judged(next(session.judge([good], QUICK))).notes == ()
    problem = make_problem("rowmax")
    text = problem.reference[0].text.replace("x.amax(dim=-1)", "torch.log(x.amax(dim=-1) + 100)")
    logarithm = replace(problem, name="log", reference=(SourceFile(path="log.py", text=text),))
    kernel = HONEST["backward_max"].candidate(logarithm)
    source = kernel.sources[0].text.replace("out[r] = m;", "out[r] = std::log(m + 100);")
    kernel = replace(kernel, sources=(SourceFile(path="kernel.cpp", text=source),))
    policy = replace(QUICK, families=("given", "negative", "large"), rounds=2)
    record = judge(logarithm, kernel, sessions.target, policy)
    assert record.passed, record.outcome


@pytest.mark.parametrize(
    ("body", "words"),
    [("x.relu_()", "changes x"), ("x.softmax(-1", "r.py:4"), ("self.nothing(x)", "AttributeError")],
)
def test_a_reference_that_cannot_be_judged_against_is_the_users_fault(
    body: str, words: str, sessions: Sessions
) -> None:
    problem = make_problem("softmax")
    text = problem.reference[0].text.replace("torch.softmax(x, dim=-1)", body)
    spoiled = replace(problem, reference=(SourceFile(path="r.py", text=text),))
    with Judge(spoiled, sessions.target) as session, pytest.raises(SourceError, match=words):
        session.prepare(QUICK)


def test_the_parent_imports_no_framework() -> None:
    code = "import sys, kernelwright.judge; sys.exit(any(m in sys.modules for m in ('torch', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_workspace_limits_are_failures_not_crashes(sessions: Sessions) -> None:
    session = sessions.judge("softmax")
    kernel = HONEST["own_workspace"].candidate(session.problem)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for size_bytes, kinds in ((min(memory, 1 << 34), ("memory", "workspace", "timeout")), (1 << 44, ("plan",))):
        workspaces = (replace(kernel.plan.workspaces[0], size_bytes=size_bytes),)
        outcome = next(
            session.judge([replace(kernel, plan=replace(kernel.plan, workspaces=workspaces))], QUICK)
        ).outcome
        # What a machine has room for is no fault.
        if isinstance(outcome, Failure) or memory < 2 * size_bytes:
            assert isinstance(outcome, Failure)
            assert outcome.kind in kinds


def test_a_lookup_has_families_of_its_table(sessions: Sessions) -> None:
    text = (
        "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.table = torch.nn.Embedding(500, 32)\n    def forward(self, i):\n        return self.table(i)\n"
        "def get_inputs():\n    return [torch.randint(0, 500, (64,))]\n"
    )
    problem = replace(
        make_problem("softmax"),
        name="lookup",
        inputs=(TensorSpec(name="i", shape=(64,), dtype="int64", role="input"),),
        parameters=(TensorSpec(name="table_weight", shape=(500, 32), dtype="float32", role="parameter"),),
        outputs=(TensorSpec(name="out", shape=(64, 32), dtype="float32", role="output"),),
        reference=(SourceFile(path="lookup.py", text=text),),
    )
    source = (
        "#include <cstdint>\n"
        'extern "C" void kernel(const int64_t* i, const float* table, float* out) {\n'
        "  for (int r = 0; r < 64; ++r)\n"
        "    for (int c = 0; c < 32; ++c) out[r * 32 + c] = table[i[r] * 32 + c] + PLUS;\n}\n"
    )
    arguments = tuple(
        Binding(kind="tensor", name=t.name, ctype="int64_t" if t.name == "i" else "float") for t in problem.arguments
    )
    good, bad = (
        Candidate(
            problem=digest(problem),
            language="cpp",
            sources=(SourceFile(path="kernel.cpp", text=source.replace("PLUS", plus)),),
            plan=LaunchPlan(steps=(Step(symbol="kernel", arguments=arguments),)),
        )
        for plus in ("0.0f", "(table[0] != table[0] || i[r] > 400 ? 0.0f : table[i[r] * 32 + c] * 1e-5f)")
    )
    with Judge(problem, sessions.target) as session:
        passed, failed = list(session.judge([good, bad], QUICK))
    assert passed.passed, passed.outcome
    assert judged(passed).notes == ()
    assert not failed.passed
