"""Every bug of tests/mutants/caught.txt is caught, by a check that its line names; every kernel passes without one."""

from __future__ import annotations

import collections
import functools

import pytest

from kernelwright.selftest.kernel_files import CORPUS, kernel_of, reason
from kernelwright.selftest.planted import LIST, THREADS, Planted, planted
from kernelwright.selftest.sessions import PLANTED, Sessions
from kernelwright.selftest.small_problems import make_problem

KERNELS = sorted((CORPUS / "mutants" / "kernels").glob("*.cpp"))


@functools.cache
def by_kernel() -> dict[str, list[Planted]]:
    found: dict[str, list[Planted]] = collections.defaultdict(list)
    for bug in planted():
        found[bug.kernel.path.name].append(bug)
    return found


@pytest.mark.parametrize("name", [path.name for path in KERNELS])
def test_planted_bugs_are_caught_and_the_kernel_passes(name: str, sessions: Sessions) -> None:
    kernel = kernel_of(CORPUS / "mutants" / "kernels" / name)
    # A bug that needs two threads to show has none to show it on one.
    bugs = [bug for bug in by_kernel()[name] if THREADS not in bug.reasons or sessions.target.threads > 1]
    candidates = [kernel.candidate(make_problem(kernel.problem)), *(bug.candidate() for bug in bugs)]
    original, *records = sessions.records(kernel.problem, candidates, PLANTED)
    assert reason(original) == "passed", original.outcome
    assert [bug.name for bug, record in zip(bugs, records, strict=True) if record.passed] == []
    elsewhere = [(b.name, reason(r)) for b, r in zip(bugs, records, strict=True) if reason(r) not in b.reasons]
    assert elsewhere == [], "caught by another check than the list says"


def test_there_are_enough_bugs_of_enough_kinds() -> None:
    bugs = planted()
    assert len(bugs) >= 90
    assert len({bug.kernel.path for bug in bugs}) >= 14
    assert len({bug.mutant.operator for bug in bugs}) >= 20
    assert len({(bug.name, bug.mutant.after) for bug in bugs}) == len(bugs)


def test_what_is_not_listed_is_explained() -> None:
    """Mutants that pass are in the second list, each with its reason, and in that list only."""
    text = (CORPUS / "mutants" / "passes.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(line.count(" | ") == 1 and line.split(" | ")[1] for line in lines)
    listed = {line.partition(" | ")[0] for line in (CORPUS / "mutants" / LIST).read_text().splitlines()}
    assert listed.isdisjoint(line.partition(" | ")[0] for line in lines)
