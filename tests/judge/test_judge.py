"""The parent's side: order, faults that cost one candidate only, records, baselines, lightness."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import QUICK, kernels, make_problem

from kernelwright.codec import dumps, loads
from kernelwright.errors import SourceError
from kernelwright.judge import Judge, judge
from kernelwright.types import Failure, Measurement, SourceFile, digest, replace

HONEST = {k.path.stem: k for k in kernels("honest")}
CHEATS = {k.path.stem: k for k in kernels("cheats")}


def test_records_come_in_order_and_faults_cost_only_their_candidate(sessions):
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    broken = replace(good, sources=(SourceFile(path="kernel.cpp", text='extern "C" void kernel(;\n'),))
    crash = CHEATS["crash"].candidate(session.problem)
    records = list(session.judge([broken, crash, good], QUICK))
    assert [r.candidate for r in records] == [digest(c) for c in (broken, crash, good)]
    assert [r.outcome.stage for r in records[:2]] == ["build", "run"]
    assert records[2].passed
    for record in records:
        assert record.problem == digest(session.problem)
        assert record.policy == digest(QUICK)
        assert record.target == digest(sessions.target)
        assert record.duration_s > 0
        assert loads(dumps(record)) == record


def test_a_dead_worker_is_replaced(sessions):
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    assert next(session.judge([good], QUICK)).passed
    session._worker.process.kill()
    assert next(session.judge([good], QUICK)).passed


def test_nothing_of_one_candidate_is_left_for_the_next(sessions):
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    lazy = CHEATS["stale_output"].candidate(session.problem)
    passed, failed = list(session.judge([good, lazy], QUICK))
    assert passed.passed
    assert not failed.passed
    assert "never written" in failed.outcome.verdict.checks[-1].evidence


def test_baselines_alone_and_one_that_does_not_exist_here(sessions):
    session = sessions.judge("rowmax")
    found = session.baselines(QUICK)
    assert [type(m) for m in found] == [Measurement]
    assert found[0].contender == "eager"
    assert 0 < found[0].low_us <= found[0].median_us <= found[0].high_us
    broken = replace(QUICK, name="broken", baselines=("eager", "compile:no-such-mode"))
    good = HONEST["backward_max"].candidate(session.problem)
    record = next(session.judge([good], broken))
    assert record.passed
    assert any("compile:no-such-mode unavailable" in note for note in record.outcome.notes)


def test_families_that_do_not_apply_are_noted(sessions):
    session = sessions.judge("softmax")
    good = HONEST["single_thread"].candidate(session.problem)
    assert next(session.judge([good], QUICK)).outcome.notes == ()
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
def test_a_reference_that_cannot_be_judged_against_is_the_users_fault(body, words, sessions):
    problem = make_problem("softmax")
    text = problem.reference[0].text.replace("torch.softmax(x, dim=-1)", body)
    spoiled = replace(problem, reference=(SourceFile(path="r.py", text=text),))
    with Judge(spoiled, sessions.target) as session, pytest.raises(SourceError, match=words):
        session.prepare(QUICK)


def test_the_parent_imports_no_framework():
    code = "import sys, kernelwright.judge; sys.exit(any(m in sys.modules for m in ('torch', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_workspace_limits_are_failures_not_crashes(sessions):
    session = sessions.judge("softmax")
    kernel = HONEST["own_workspace"].candidate(session.problem)
    large = replace(
        kernel, plan=replace(kernel.plan, workspaces=(replace(kernel.plan.workspaces[0], size_bytes=1 << 33),))
    )
    outcome = next(session.judge([large], QUICK)).outcome
    assert isinstance(outcome, Failure)
    assert outcome.kind in ("memory", "workspace")
