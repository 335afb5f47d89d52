"""Planted bugs in kernels for a GPU: the original passes, and the judge notices most of what was planted.

What survives must be looked at by hand: some mutants compute the same, some race without ever losing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gpu.conftest import Judges

from kernelwright.judge import policies_for
from kernelwright.mutation import mutants
from kernelwright.run.mutate import judge_mutants
from kernelwright.selftest.kernel_files import CORPUS, kernel_of
from kernelwright.selftest.small_problems import make_problem
from kernelwright.store import Store
from kernelwright.types import Problem, Target, replace

FOLDER = CORPUS / "mutants" / "kernels"
KERNELS = sorted(FOLDER.glob("*.cu"))
PER_KERNEL = 10
LEAST_SHARE = 0.7


class Lent:
    """A judge that others use as well."""

    def __init__(self, judges: Judges) -> None:
        self._judges = judges

    def __call__(self, problem: Problem, target: Target, *, on_event: Callable[..., None] | None = None) -> Any:
        self._judge = self._judges.of(problem)
        return self

    def __enter__(self) -> Any:
        return self._judge

    def __exit__(self, *_: object) -> None:
        return None


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_most_mutants_are_noticed(path: Path, judges: Judges, target: Target, tmp_path: Path) -> None:
    kernel = kernel_of(path)
    problem = make_problem(kernel.problem)
    candidate = kernel.candidate(problem)
    found = mutants(candidate.sources[0], candidate.language, limit=PER_KERNEL, seed=1)
    measure = policies_for(target)["measure"]
    policy = replace(measure, name="mutate", rounds=2, block_us=400.0, call_deadline_s=2.0)
    with Store(tmp_path / "store.sqlite") as store:
        outcomes = judge_mutants(problem, candidate, found, target, store=store, policy=policy, judge=Lent(judges))
    killed = [o for o in outcomes if o.state == "killed"]
    survived = [o.mutant.name for o in outcomes if o.state == "survived"]
    assert len(killed) >= LEAST_SHARE * (len(killed) + len(survived)), survived
