"""A folder that only `judge` wrote is a result as well."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from tests.search.fake_judge import CAPTURE, PROBLEM, TARGET, FakeParts

from kernelwright import api
from kernelwright.cli import cli
from kernelwright.run import judge_candidate, optimize, recall
from kernelwright.run.judged import judged_alone
from kernelwright.store import Store
from kernelwright.types import Candidate


def judged(store: Store, fake: FakeParts) -> Candidate:
    """Judges one candidate, and returns it."""
    made, parts = fake.templates[0].emit(fake.templates[0].space.default()), fake.parts()
    assert isinstance(made, Candidate)
    judge_candidate(PROBLEM, made, TARGET, store=store, judge=parts.judge, policy=parts.report)
    return made


def test_what_only_judge_judged_is_a_result(tmp_path: Path) -> None:
    fake = FakeParts()
    with Store(tmp_path / "store.sqlite") as store:
        assert judged_alone(store) == ()
        made = judged(store, fake)
        (found,) = judged_alone(store)
        assert recall(store, parts=fake.parts()) == ()
        assert found.report is not None
        assert found.best == made
        assert [name for name, _ in found.rows[0].records] == ["report"]
        assert found.answer in ("kernel", "baseline")
        optimize(CAPTURE, TARGET, store=store, budget_s=0.0, parts=fake.parts())
        assert judged_alone(store) == ()


def test_a_kernel_that_failed_is_told_with_its_reason(tmp_path: Path) -> None:
    with Store(tmp_path / api.STORE) as store:
        judged(store, FakeParts(options={"landscape": lambda *_: None}))
        (found,) = judged_alone(store)
    assert (found.best, found.report, found.answer) == (None, None, "undecided")
    assert "the kernel failed (build syntax" in found.why
    done = CliRunner().invoke(cli, ["report", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "The kernel failed" in done.output
    assert "kernel failed" in (tmp_path / "report.html").read_text()
